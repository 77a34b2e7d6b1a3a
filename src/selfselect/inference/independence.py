"""Every test of independence, and of a common scale."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.errors import OptionError
from selfselect.inference.dependence import Dependence, cluster_products, cluster_totals
from selfselect.inference.evidence import Evidence, pair_products, why_no_score_test
from selfselect.inference.statistics import (
    TestResult,
    chi_square_test,
    cluster_sums_test,
    drawn_spread_test,
    excess_of_draws,
    impossible_test,
    wald_statistic_test,
)
from selfselect.kernels.tails import chdtrc
from selfselect.likelihoods import Batch, row_terms
from selfselect.noises.correlated import CORRELATION
from selfselect.problem.batch import Parts
from selfselect.problem.parameters import Reported
from selfselect.problem.problem import Problem
from selfselect.solvers.base import Solution

Array = NDArray[np.float64]


# The score test of one scale for all alternatives against one for each.
#
# At the estimate with one scale, the score of the model with a scale each is zero but along
# differences of scales. With :math:`u_i` its rows, freed of nothing since all parameters are in
# it,
#
# .. math:: s = \sum_i u_i, \qquad s' \Big(\sum_i u_i u_i'\Big)^{-1} s \sim \chi^2_{k-1}.
#
# One pass, no fit. The information of a mixture need not be positive away from its optimum, the
# outer product always is.


NAME = "Score test of one scale for all alternatives"


def common_scale_test(
    problem: Problem,
    engine: Engine,
    solution: Solution,
    dependence: Dependence,
) -> TestResult:
    """Test that all alternatives have the scale they were given in common.

    Parameters
    ----------
    problem, engine, solution : the fit with one scale.
    dependence : clusters, with which there is no such test, and weights: probability weights
        multiply what a row says, all others count rows.
    """
    noise: Any = problem.noise
    if not noise.independent or not problem.layout.common:
        return impossible_test(NAME, "there is no scale in common")
    if dependence.clusters:
        return impossible_test(NAME, "it takes rows as independent, and these come in clusters")
    if not solution.converged or problem.likelihood.sampled:
        return impossible_test(NAME, "the estimate is not one of maximum likelihood")
    large = replace(problem, noise=replace(noise, scale="each"))
    natural = problem.layout.natural(solution.free)
    power = 2 if dependence.weights_kind == "probability" else 1
    total, outer = engine.sum(partial(_powers, large, natural, power))
    free = large.layout.gather(natural)
    score = large.layout.pull_back_vector(total, free)
    variance = large.layout.pull_back_matrix(outer, free)
    try:
        np.linalg.cholesky(variance)
        statistic = float(score @ np.linalg.solve(variance, score))
    except np.linalg.LinAlgError:
        return impossible_test(NAME, "the information about the scales is singular")
    df = large.layout.n_free - problem.layout.n_free
    return chi_square_test(NAME, statistic, df, "one scale")


def _powers(problem: Problem, natural: Array, power: int, batch: Batch) -> Parts:
    scores = row_terms(problem, natural, batch).score
    weights = np.ones(len(batch)) if batch.rows.weights is None else batch.rows.weights
    return Parts((weights @ scores, scores.T @ (scores * (weights**power)[:, None])))


# Tests of independence across alternatives: by the score in one pass, Wald's, likelihood ratios.
#
# With generalised residuals :math:`e_j = E[(y_j - \mu_j)/\sigma_j \mid \text{row}]`, the score for
# a correlation :math:`\rho_{jl}` at zero is :math:`\sum_i e_{ij} e_{il}`. Normal :math:`e_j` are
# the row's scores in the means, and under noise of another shape :math:`e_j` is that score: the
# product is the score of the covariance of small shocks that move both means. Under heavy tails it
# is bounded, which residuals are not. Since the parameters are estimated, each row's product is
# freed of what their scores explain,
#
# .. math:: u_i = e_{ij} e_{il} - A s_i, \qquad
#    A = E\Big[\sum_i e_{ij} e_{il} s_i'\Big] E\Big[\sum_i s_i s_i'\Big]^{-1},
#
# and the sum is standardised by the spread of :math:`\sum_i u_i`. Expectations are those of the
# fitted model, from rows drawn of it: sums of squares in the data are too small in just those
# samples in which an alternative that is rarely chosen looks correlated by chance. Where rows are
# clustered, or drawn unequally, the model does not know the spread; it is then taken from the
# data, :math:`\sum_g u_g u_g'` with :math:`u_g` summed by cluster, weights included. With several
# ways of clustering it is that of Cameron, Gelbach and Miller (2011). With one, few clusters give
# an F statistic (see `statistics.cluster_sums_test`).
#
# Where the model cannot be asked by draws (estimated costs, outcomes that were not recorded),
# expectations are sums over the data. Under clusters or unequal sampling :math:`A` is then how
# fast the products fall along the parameters, times the inverse information.
#
# Wald's test and the likelihood ratio compare a fit with correlated noise to one without. The
# ratio against noise without a shared shock is not chi-square: loadings enter the likelihood as
# products :math:`b_j b_l`, so at none the score in each is zero and the usual count of parameters
# misleads:
#
# * One loading for all: what is added is :math:`b^2`, a variance, which cannot be negative. Half
#   of all samples gain nothing; the ratio is an equal mixture of chi-squares with one degree more
#   and none more (Chernoff 1954; Self and Liang 1987).
# * A loading each: the products are a curved part of all covariances (and of variances, where
#   scales may not take them up). The ratio lies below that of all of them, so the chi-square with
#   as many degrees bounds its p-value. That of as many degrees as loadings does not: with four,
#   five and six alternatives of alike precision it rejects at 5% in 7.9, 10.6 and 15.4% of
#   samples.


SCORE = "Score test of independence across alternatives"
WALD = "Wald test of independence across alternatives"
LR = "Likelihood-ratio test of independence across alternatives"
NULL = "no correlation"
MANY_PAIRS = "join alternatives until all pairs can be tested"
"""What to do where so many pairs cannot be tested together."""
NULL_OF_SELECTION = "selection is unrelated to the noise of the outcomes"

ONE_SIDED = "its variance cannot be negative, so p is that of a mixture of chi-squares"
BOUND = "p is an upper bound"

STEP = 1e-4
"""Step of numerical derivatives, in standard errors."""


def independence_test(evidence: Evidence) -> TestResult:
    """Test that noise is independent across alternatives, by the score.

    Probability weights multiply what a row says, all others count rows.
    """
    problem, engine, natural = evidence.problem, evidence.engine, evidence.natural
    free, information = evidence.solution.free, evidence.solution.information
    reason = why_no_score_test(problem, information)
    if reason is not None:
        return impossible_test(SCORE, reason)
    layout, clusters = problem.layout, evidence.dependence.clusters
    by_model, drawn = evidence.dependence.reason is None, evidence.pairs_drawn
    if by_model and drawn:
        score = evidence.observed.pairs
    else:
        task = partial(_sums, problem, natural, None if by_model else clusters)
        score, mean, outer = engine.sum(task)
    apart = None
    if drawn:
        mean, apart = evidence.expected_of_pairs
    n_pairs = len(score)
    try:
        np.linalg.cholesky(information)
        if by_model:
            spread = mean
        else:
            spread = outer if not clusters else cluster_products(outer, len(clusters))[0]
        if drawn or by_model:
            scores = layout.pull_back_matrix(mean[n_pairs:, n_pairs:], free)
            shared = layout.pull_back_vector(mean[:n_pairs, n_pairs:], free)
        else:
            # Products of few clusters in place of expected ones would explain too much.
            scores, shared = information, _falls(problem, engine, free, information, score)
        explained = np.asarray(np.linalg.solve(scores, shared.T).T)
        # u = [1, -A] (products, scores), with the scores pulled back to the free parameters.
        keep = np.eye(n_pairs, len(mean))
        keep[:, n_pairs:] = -layout.spread_columns(explained, free)
        variance = keep @ spread @ keep.T
        np.linalg.cholesky(variance)
        statistic = float(score @ np.linalg.solve(variance, score))
        excess = 0.0
        if by_model and apart is not None:
            differ = layout.pull_back_matrix(apart[n_pairs:, n_pairs:], free)
            excess = excess_of_draws((variance, keep @ apart @ keep.T), (scores, differ))
    except OptionError as error:
        return impossible_test(SCORE, str(error).rstrip("."))
    except np.linalg.LinAlgError:
        return impossible_test(SCORE, "the information about the correlations is singular")
    if len(clusters) == 1:
        return cluster_sums_test(SCORE, statistic, n_pairs, NULL, clusters[0])
    return drawn_spread_test(SCORE, statistic, n_pairs, NULL, excess, MANY_PAIRS)


def wald_test_of_correlations(reported: Reported, covariance: Array) -> TestResult:
    """Test that all estimated correlations are zero, on Fisher's scale as their intervals are.

    Parameters
    ----------
    reported : labels and values of all estimated parameters.
    covariance : of those, of whatever kind the fit has.
    """
    at = [place for place, (_, term) in enumerate(reported.labels) if term == CORRELATION]
    if not at:
        return impossible_test(WALD, "all correlations are fixed")
    values, spread = reported.values[at], covariance[np.ix_(at, at)]
    if not np.isfinite(spread).all():
        return impossible_test(
            WALD, "the covariance of the estimates is not known, or one is at a boundary"
        )
    slope = 1.0 / (1.0 - values**2)
    values, spread = np.arctanh(values), spread * np.outer(slope, slope)
    try:
        np.linalg.cholesky(spread)
    except np.linalg.LinAlgError:
        return impossible_test(WALD, "the covariance of the correlations is singular")
    return chi_square_test(WALD, float(values @ np.linalg.solve(spread, values)), len(at), NULL)


def selection_ratio_test(loglik: float, independent: float, df: int) -> TestResult:
    """Compare the likelihood of a model with a selection equation with that of no correlation."""
    statistic = max(2.0 * (loglik - independent), 0.0)
    return chi_square_test(
        "Likelihood-ratio test of independence", statistic, df, NULL_OF_SELECTION
    )


def wald_test_of_selection(
    reported: Reported, covariance: Array, term: str, df_errors: float
) -> TestResult:
    """Test that all parameters named `term`, one per outcome, are zero.

    They are correlations with the selection's noise, or coefficients of Mills ratios.
    """
    name = "Wald test of independence"
    at = [i for i, (_, own) in enumerate(reported.labels) if own == term]
    values, spread = reported.values[at], covariance[np.ix_(at, at)]
    if not np.isfinite(spread).all():
        return impossible_test(name, "a correlation has no standard error")
    if term == CORRELATION:
        # On Fisher's scale, where the normal approximation is better.
        slope = 1.0 / (1.0 - values**2)
        values, spread = np.arctanh(values), spread * np.outer(slope, slope)
    statistic = float(values @ np.linalg.solve(spread, values))
    return wald_statistic_test(name, statistic, len(at), NULL_OF_SELECTION, df_errors)


def tests_no_shock(small: Problem, large: Problem) -> bool:
    """Say whether the smaller model lacks the shock that the larger one estimates."""
    alternatives = large.equations.alternatives
    return (
        large.noise.one_sided
        and not small.noise.extras(alternatives)
        and any(extra.fixed is None for extra in large.noise.extras(alternatives))
    )


def no_shock_test(name: str, large: Problem, statistic: float, df: int) -> TestResult:
    """Test noise without a shared shock, and other restrictions with it.

    Parameters
    ----------
    name : of the test.
    large : the model with the shock.
    statistic : twice the difference of log-likelihoods.
    df : by how many parameters the models differ.
    """
    layout, k = large.layout, large.equations.n_alternatives
    extras = large.noise.extras(large.equations.alternatives)
    n_loadings = sum(extra.fixed is None and extra.tied_to is None for extra in extras)
    others = df - n_loadings
    null = "no shared shock" + (f", and the other restrictions ({others})" if others else "")
    if n_loadings == 1:
        fewer = float(chdtrc(others, statistic)) if others else float(statistic <= 0.0)
        p_value = 0.5 * fewer + 0.5 * float(chdtrc(others + 1, statistic))
        return TestResult(name, f"{null}; {ONE_SIDED}", statistic, df, p_value)
    variances = 0 if layout.scales is None and not layout.common else k - int(layout.common)
    covariances = n_loadings * (n_loadings - 1) // 2
    most = max(n_loadings, covariances + variances)
    return chi_square_test(name, statistic, others + most, f"{null}; {BOUND}")


def _sums(
    problem: Problem, natural: Array, clusters: tuple[int, ...] | None, batch: Batch
) -> Parts:
    """Sum products of residuals of each pair, and outer products of those and the scores.

    The latter twice: as the rows count, for their mean, and as their sum varies. For that
    `clusters` are those to sum by; where there are none rows were drawn unequally, and None says
    that their variation is not needed.
    """
    weights = np.ones(len(batch)) if batch.rows.weights is None else batch.rows.weights
    terms = row_terms(problem, natural, batch)
    joined = np.column_stack([*pair_products(terms), terms.score])
    weighted = joined * weights[:, None]
    mean = joined.T @ weighted
    k = problem.equations.n_alternatives
    score = weighted[:, : k * (k - 1) // 2].sum(axis=0)
    if clusters is None:
        return Parts((score, mean, 0.0))
    if not clusters:
        return Parts((score, mean, weighted.T @ weighted))
    return Parts((score, mean, cluster_totals(batch.rows, weighted, clusters)))


def _falls(
    problem: Problem, engine: Engine, free: Array, information: Array, score: Array
) -> Array:
    """Return how fast the summed products (n_pairs,) fall along each free parameter, by steps."""
    steps = STEP / np.sqrt(np.diag(information))
    falls = np.empty((len(score), len(free)))
    for place, step in enumerate(steps):
        moved = free.copy()
        moved[place] += step
        found = engine.sum(partial(_sums, problem, problem.layout.natural(moved), None))
        falls[:, place] = (score - found[0]) / step
    return falls
