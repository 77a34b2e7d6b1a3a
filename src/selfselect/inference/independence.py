r"""The test of independence across alternatives: by the score in one pass, or Wald's.

With generalised residuals :math:`e_j = E[(y_j - \mu_j)/\sigma_j \mid \text{row}]`, the score for
a correlation :math:`\rho_{jl}` at zero is :math:`\sum_i e_{ij} e_{il}`. Since the parameters are
estimated, each row's product is freed of what their scores explain,

.. math:: u_i = e_{ij} e_{il} - A s_i, \qquad
   A = E\Big[\sum_i e_{ij} e_{il} s_i'\Big] E\Big[\sum_i s_i s_i'\Big]^{-1},

and the sum is standardised by the spread of :math:`\sum_i u_i`. Expectations are those of the
fitted model, from rows drawn of it: sums of squares in the data are too small in just those
samples in which an alternative that is rarely chosen looks correlated by chance. Where rows are
clustered, or drawn unequally, the model does not know the spread; it is then taken from the data,
:math:`\sum_g u_g u_g'` with :math:`u_g` summed by cluster, weights included. With several ways of
clustering it is that of Cameron, Gelbach and Miller (2011).

Where the model cannot be asked by draws (estimated costs, outcomes that were not recorded),
expectations are sums over the data. Under clusters or unequal sampling :math:`A` is then how fast
the products fall along the parameters, times the inverse information.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine, Parts
from selfselect.engines.memory import Memory
from selfselect.errors import OptionError
from selfselect.inference.sandwich import cluster_products, cluster_totals
from selfselect.inference.simulation import simulate_rows, why_no_draws
from selfselect.inference.statistics import TestResult, chi_square_test, impossible_test
from selfselect.likelihoods import Batch, row_terms
from selfselect.noises.correlated import CORRELATION
from selfselect.problem.parameters import Reported
from selfselect.problem.problem import Problem

__all__ = ["WALD", "independence_test", "wald_test_of_correlations"]

Array = NDArray[np.float64]

NAME = "Score test of independence across alternatives"
WALD = "Wald test of independence across alternatives"
NULL = "no correlation"

STEP = 1e-4
"""Step of numerical derivatives, in standard errors."""


def independence_test(
    problem: Problem,
    engine: Engine,
    free: Array,
    information: Array,
    *,
    weights_kind: str | None = None,
    clusters: tuple[int, ...] = (),
) -> TestResult:
    """Test that noise is independent across alternatives, by the score.

    Parameters
    ----------
    problem, engine : model and rows.
    free : the estimate.
    information : minus the Hessian of the log-likelihood there, in the free parameters.
    weights_kind : probability weights multiply what a row says; all others count rows.
    clusters : how many clusters there are, one number per way of clustering.
    """
    reason = _why_not(problem, information)
    if reason is not None:
        return impossible_test(NAME, reason)
    layout, natural = problem.layout, problem.layout.natural(free)
    by_model = not clusters and weights_kind != "probability"
    task = partial(_sums, problem, natural, None if by_model else clusters)
    score, mean, outer = engine.sum(task)
    drawn = why_no_draws(problem) is None
    if drawn:
        rows, counts = simulate_rows(problem, engine, natural)
        weights = counts if rows.weights is None else counts * rows.weights
        sample = Memory().load(problem, replace(rows, weights=weights))
        _, mean, _ = sample.sum(partial(_sums, problem, natural, None))
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
    except OptionError as error:
        return impossible_test(NAME, str(error).rstrip("."))
    except np.linalg.LinAlgError:
        return impossible_test(NAME, "the information about the correlations is singular")
    return chi_square_test(NAME, statistic, n_pairs, NULL)


def _why_not(problem: Problem, information: Array) -> str | None:
    """Say why no score test can be done, or None where it can."""
    reason = problem.noise.why_no_score_test()
    if reason is not None:
        return reason
    if not np.isfinite(information).all():
        return "the estimate is not one of maximum likelihood"
    if problem.noise.known_correlation(problem.equations.alternatives) is not None:
        return "the noise is correlated by assumption"
    if problem.likelihood.sampled:
        return "explaining sets that are not boxes have no closed form"
    return None


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


def _sums(
    problem: Problem, natural: Array, clusters: tuple[int, ...] | None, batch: Batch
) -> Parts:
    """Sum products of residuals of each pair, and outer products of those and the scores.

    The latter twice: as the rows count, for their mean, and as their sum varies. For that
    `clusters` are those to sum by; where there are none rows were drawn unequally, and None says
    that nobody asks.
    """
    weights = np.ones(len(batch)) if batch.rows.weights is None else batch.rows.weights
    joined = _products_and_scores(problem, natural, batch)
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


def _products_and_scores(problem: Problem, natural: Array, batch: Batch) -> Array:
    """Return each row's products of residuals and its scores, beside each other."""
    rows = row_terms(problem, natural, batch)
    products = rows.products
    pairs = combinations(range(problem.equations.n_alternatives), 2)
    return np.column_stack([*(products[:, j, m] for j, m in pairs), rows.score])
