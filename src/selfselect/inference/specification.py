r"""Tests of normality and constant variance, by conditional moments of generalised residuals.

Summed over rows, the moments :math:`m` of `selfselect.inference.moments` are zero up to chance
under the model. How large chance makes them is not taken from their squares in the data: those of
order four have eighth powers in them, and a test standardised so rejected 17% of sound fits of
1,000 rows. It is taken from the fitted model itself:

* *parametric bootstrap*: samples are drawn from the fitted model and fitted again, each from the
  estimate. The moments of the data and of the samples are pooled, and each is measured by its
  Mahalanobis distance from their mean; the p-value is the rank of the data's own among them. Under
  the null the data is one more sample, so the rank is right at any size, but for the parameters
  being estimates.
* *asymptotic*: rows are drawn from the fitted model once, without fitting; there the moments are
  freed of what the scores explain, and their spread standardises the sum, which is chi-square.

Rows that are clustered, or were drawn unequally, are not independent draws of the model, so it does
not know that spread. It is then taken from the data, :math:`V = \sum_g u_g u_g'`, where
:math:`u = m - A s` is summed by cluster, weights included, and :math:`A` is what the model expects
scores to explain. The statistic :math:`(\sum m)' V^{-1} \sum m` is chi-square in the limit, however
rows of a cluster depend on each other, but far from it at usual sizes. So it has no p-value of its
own: the bootstrap ranks it among the same statistic of samples that keep clusters and weights. The
noise of their rows has the intraclass correlation of the generalised residuals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray
from scipy.special import chdtrc

from selfselect.data.rows import Rows
from selfselect.engines.base import Engine, Parts
from selfselect.engines.memory import Memory
from selfselect.errors import DataError, OptionError, RuleError
from selfselect.inference.dependence import Dependence
from selfselect.inference.moments import (
    SUBJECTS,
    Subject,
    noise_moments,
    row_residuals,
    steady_columns,
)
from selfselect.inference.sandwich import cluster_products, cluster_totals
from selfselect.inference.simulation import draw_outcomes, simulate_rows, why_no_draws, write_out
from selfselect.inference.statistics import TestResult, impossible_test, undecided_test
from selfselect.likelihoods import Batch, row_terms
from selfselect.problem.problem import Problem
from selfselect.progress import progress_bar
from selfselect.solvers import Solution, choose_solver
from selfselect.solvers._order import groups_alike, match_alternatives
from selfselect.threads import parallel_map

__all__ = [
    "MomentDraws",
    "asymptotic_tests",
    "bootstrap_test",
    "check_replications",
    "draw_moments",
    "why_no_bootstrap",
    "why_not",
]

Array = NDArray[np.float64]

NULL: dict[Subject, str] = {
    "normality": "normal noise",
    "heteroskedasticity": "a variance that covariates do not move",
}

FEWEST = 19
"""Samples with which a p-value of 5% can be reached at all."""

ENOUGH = 0.9
"""Share of the samples that must be fitted for their ranks to be believed."""

CLOSE = 1e-3
"""Distance to its optimum, in standard errors, at which a sample's fit stops: its moments are then
known to a thousandth of their spread."""

COLLINEAR = 1e-9
"""Relative eigenvalue below which a combination of moments is taken to be constant."""

SMALLEST_SPREAD = 1e-150
"""Standard deviation below which a moment is taken to be constant: squares underflow."""

MOST_SHARED = 0.95
"""Largest intraclass correlation with which samples are drawn."""

ROUNDS, PER_ROUND = 2, 4
"""Rounds in which intraclass correlations are corrected, and samples drawn in each."""


@dataclass(frozen=True, eq=False)
class MomentDraws:
    """What a test compares, by subject: that of the data, and that of samples of the model.

    It is sums of moments; where the data says how those vary (`by_data`) it is statistics, each
    with its degrees of freedom.
    """

    observed: dict[Subject, Array]
    drawn: dict[Subject, Array]
    by_data: bool


def check_replications(replications: object) -> None:
    """Refuse numbers of bootstrap samples that cannot give a p-value; zero stands for none."""
    whole = isinstance(replications, int | np.integer) and not isinstance(replications, bool)
    if not whole or (replications != 0 and replications < FEWEST):  # type: ignore[operator]
        raise OptionError(
            f"replications={replications!r} is not possible. Give a whole number of bootstrap "
            f"samples from {FEWEST} on (with fewer no p-value is below 5%), or 0 for the "
            "asymptotic test."
        )


def why_not(problem: Problem, solution: Solution, subject: str) -> str | None:
    """Say why a test cannot be done, or None where it can."""
    reason = why_no_draws(problem)
    if reason is not None:
        return reason
    if not solution.converged:
        return "the fit did not converge"
    if not np.isfinite(solution.information).all():
        return "the estimate is not one of maximum likelihood"
    if subject == "heteroskedasticity" and not any(steady_columns(problem)):
        if problem.layout.spreads:
            return "the scales move with every covariate of their equations already"
        return "no equation has a covariate that could move the variance"
    return None


def why_no_bootstrap(dependence: Dependence) -> str | None:
    """Say why samples of the fitted model cannot be made like the data, or None where they can."""
    if len(dependence.clusters) < 2:
        return None
    return (
        "its samples would have to keep the clusters of several ways of clustering at once; "
        "cluster by one of them"
    )


def asymptotic_tests(
    problem: Problem, engine: Engine, solution: Solution, dependence: Dependence
) -> dict[Subject, TestResult]:
    """Test every subject in a few passes, without a fit; its draws are always the same."""
    made: dict[Subject, TestResult] = {}
    for subject in SUBJECTS:
        reason = why_not(problem, solution, subject)
        if reason is not None:
            made[subject] = impossible_test(_name(subject, "Asymptotic c"), reason)
    if len(made) == len(SUBJECTS):
        return made
    natural = problem.layout.natural(solution.free)
    expected = _expected_products(problem, engine, natural)
    explained = _explained(problem, expected)
    if dependence.reason is None:
        observed = engine.sum(partial(_sums_of_moments, problem, natural))
        keep = np.concatenate([np.eye(len(explained)), -explained], axis=1)
        found = _distances(observed, keep @ expected @ keep.T)
    else:
        found = _statistics(problem, engine, natural, explained, dependence)
    for subject, (statistic, df) in found.items():
        if subject in made:
            continue
        name, null = _name(subject, "Asymptotic c"), NULL[subject]
        if dependence.reason is None:
            made[subject] = TestResult(name, null, statistic, df, float(chdtrc(df, statistic)))
        else:
            reason = _no_verdict(subject, dependence)
            made[subject] = undecided_test(name, statistic, df, null, reason)
    return made


def _no_verdict(subject: Subject, dependence: Dependence) -> str:
    without = why_no_bootstrap(dependence)
    advice = f"result.{subject}_test() takes bootstrap ones"
    if without is not None:
        advice = f"bootstrap ones are not possible, {without}"
    return f"{dependence.reason}, and then chi-square critical values are wrong; {advice}"


def bootstrap_test(draws: MomentDraws, subject: Subject) -> TestResult:
    """Rank the data's moments among those of samples drawn from the fitted model."""
    observed, drawn = draws.observed[subject], draws.drawn[subject]
    if draws.by_data:
        distances, df = np.append(observed[0], drawn[:, 0]), int(observed[1])
    else:
        distances, df = _pooled_distances(observed, drawn)
    n_drawn = len(drawn)
    p_value = (1.0 + np.sum(distances[1:] >= distances[0])) / (1.0 + n_drawn)
    return TestResult(
        _name(subject, "C"),
        NULL[subject],
        float(distances[0]),
        df,
        float(p_value),
        replications=n_drawn,
    )


def _pooled_distances(observed: Array, drawn: Array) -> tuple[Array, int]:
    """Return each one's distance from the mean of all, in units of their spread, and its rank."""
    n_drawn, size = drawn.shape
    if n_drawn <= 2 * size:
        raise OptionError(
            f"{n_drawn} bootstrap samples are too few for {size} moments. Give replications="
            f"{2 * size + 1} or more."
        )
    pool = np.vstack([observed, drawn])
    pool -= pool.mean(axis=0)
    covariance = pool.T @ pool / n_drawn
    distances = np.array([_distance(one, covariance)[0] for one in pool])
    return distances, _distance(pool[0], covariance)[1]


def draw_moments(
    problem: Problem,
    engine: Engine,
    solution: Solution,
    dependence: Dependence,
    *,
    replications: int,
    seed: int,
    progress: bool | None,
) -> MomentDraws:
    """Draw samples from the fitted model, fit each from the estimate, and sum their moments.

    Every sample has a random stream of its own, so nothing depends on how many cores share the
    work.
    """
    check_replications(replications)
    natural = problem.layout.natural(solution.free)
    solver = replace(choose_solver(problem, None)[0], tol=CLOSE)  # type: ignore[type-var]
    rows = write_out(engine.rows, dependence.weights_kind)
    groups = groups_alike(problem, engine)
    by_data = dependence.reason is not None
    if by_data:
        explained = _explained(problem, _expected_products(problem, engine, natural))
    shared = None
    if dependence.clusters:
        found = _intraclass_correlations(problem, engine, natural, dependence.weights_kind)
        shared = _corrected(problem, rows, natural, found, np.random.default_rng(seed or 0))

    def compared(sample: Engine, free: Array) -> dict[Subject, Array]:
        at = problem.layout.natural(free)
        if by_data:
            found = _statistics(problem, sample, at, explained, dependence)
            return {subject: np.array(one, dtype=float) for subject, one in found.items()}
        sums = sample.sum(partial(_sums_of_moments, problem, at))
        return dict(zip(SUBJECTS, sums, strict=True))

    def draw(stream: SeedSequence) -> dict[Subject, Array] | None:
        rng = np.random.default_rng(stream)
        try:
            noise = _draw_noise(problem, rows, shared, rng)
            loaded = Memory().load(problem, draw_outcomes(problem, natural, rows, noise))
            sample = loaded.single_threaded()
            fitted = solver.solve(problem, sample, rng=rng, start=solution.free, progress=False)
        except (DataError, RuleError):
            return None
        if not fitted.converged:
            return None
        return compared(sample, match_alternatives(problem, groups, fitted.free, solution.free))

    done: list[dict[Subject, Array]] = []
    seeds = SeedSequence(seed).spawn(int(replications))
    with progress_bar(progress, what="Test samples", total=int(replications)) as bar:
        for sums in parallel_map(draw, seeds):
            bar.update()
            if sums is not None:
                done.append(sums)
    if len(done) < ENOUGH * replications:
        raise DataError(
            f"Only {len(done)} of {replications} samples drawn from the fitted model could be "
            "fitted: an alternative is too rare in them. Give it fewer covariates, or test with "
            "replications=0."
        )
    observed = compared(engine, solution.free)
    drawn = {subject: np.array([one[subject] for one in done]) for subject in SUBJECTS}
    return MomentDraws(observed, drawn, by_data)


def _draw_noise(problem: Problem, rows: Rows, shared: Array | None, rng: Generator) -> Array:
    """Draw standard normal noise (n, k); a share of its variance is common to rows of a cluster."""
    k = problem.equations.n_alternatives
    noise = rng.standard_normal((len(rows), k))
    if shared is None:
        return noise
    assert rows.clusters is not None
    common = rng.standard_normal((rows.cluster_sizes[0], k))[rows.clusters]
    return np.sqrt(shared) * common + np.sqrt(1.0 - shared) * noise


def _intraclass_correlations(
    problem: Problem, engine: Engine, natural: Array, weights_kind: str | None
) -> Array:
    """Return about how much noise correlates between rows of a cluster, (k,).

    A generalised residual e is what a row says of its noise z, and E[e z] = E[e^2]. So to first
    order the product of two residuals of a cluster averages the correlation times that squared.
    Where rows of a cluster are alike in how much they say, that is too much by a sixth or so.
    """
    repeated = weights_kind != "probability"
    clusters, sums = engine.sum(partial(_residual_sums, problem, natural, repeated))
    totals = (clusters[0].totals ** 2).sum(axis=0)
    own, pairs = totals[:-1] - sums[0, :-1], totals[-1] - sums[0, -1]
    informed = sums[1, :-1] / sums[1, -1]
    if pairs <= 0.0:
        return np.zeros(len(own))
    return np.clip(own / (pairs * informed**2), 0.0, MOST_SHARED)


def _corrected(problem: Problem, rows: Rows, natural: Array, found: Array, rng: Generator) -> Array:
    """Return correlations with which samples of the model show, on average, those `found`."""
    shared = found
    for _ in range(ROUNDS):
        shown = np.zeros(len(found))
        for _ in range(PER_ROUND):
            noise = _draw_noise(problem, rows, shared, rng)
            sample = Memory().load(problem, draw_outcomes(problem, natural, rows, noise))
            shown += _intraclass_correlations(problem, sample, natural, None) / PER_ROUND
        ratio = np.divide(found, shown, out=np.ones_like(found), where=shown > 0)
        shared = np.clip(shared * ratio, 0.0, MOST_SHARED)
    return shared


def _residual_sums(problem: Problem, natural: Array, repeated: bool, batch: Batch) -> Parts:
    """Sum residuals and ones by cluster; their squares as rows vary, and as rows count."""
    rows = batch.rows
    joined = np.column_stack([row_residuals(problem, natural, batch), np.ones(len(batch))])
    weights = np.ones(len(batch)) if rows.weights is None else rows.weights
    counted = weights @ joined**2
    varied = counted if repeated else weights**2 @ joined**2
    totals = cluster_totals(rows, joined * weights[:, None], rows.cluster_sizes)
    return Parts((totals, np.array([varied, counted])))


def _expected_products(problem: Problem, engine: Engine, natural: Array) -> Array:
    """Return products of moments and scores that the fitted model expects, summed by weight."""
    rows, counts = simulate_rows(problem, engine, natural)
    weights = counts if rows.weights is None else counts * rows.weights
    drawn = Memory().load(problem, replace(rows, weights=weights))
    products: Array = drawn.sum(partial(_products, problem, natural))
    return products


def _explained(problem: Problem, expected: Array) -> Array:
    """Return A, with which scores explain moments best, from their expected products."""
    size = len(expected) - problem.layout.n_free
    found = np.linalg.lstsq(expected[size:, size:], expected[size:, :size], rcond=None)[0].T
    return np.asarray(found, dtype=np.float64)


def _statistics(
    problem: Problem, engine: Engine, natural: Array, explained: Array, dependence: Dependence
) -> dict[Subject, tuple[float, int]]:
    """Return the distance of the summed moments from zero, in units of their spread in the data."""
    clusters = dependence.clusters
    task = partial(_sums_and_spread, problem, natural, explained, clusters)
    sums, spread = engine.sum(task)
    return _distances(sums, cluster_products(spread, len(clusters))[0] if clusters else spread)


def _distances(sums: Parts, variance: Array) -> dict[Subject, tuple[float, int]]:
    """Return each subject's distance of its moments from zero, and the rank of that."""
    found, end = {}, 0
    for subject, moments in zip(SUBJECTS, sums, strict=True):
        start, end = end, end + len(moments)
        found[subject] = _distance(moments, variance[start:end, start:end])
    return found


def _sums_and_spread(
    problem: Problem, natural: Array, explained: Array, clusters: tuple[int, ...], batch: Batch
) -> Parts:
    """Sum moments, and products of what scores leave of them: of rows, or by cluster."""
    found, weights = noise_moments(problem, natural, batch), batch.rows.weights
    joined = np.column_stack([found[subject] for subject in SUBJECTS])
    freed = joined - _free_scores(problem, natural, batch) @ explained.T
    if weights is not None:
        freed *= weights[:, None]
    spread = cluster_totals(batch.rows, freed, clusters) if clusters else freed.T @ freed
    return Parts((_summed(found, weights), spread))


def _sums_of_moments(problem: Problem, natural: Array, batch: Batch) -> Parts:
    return _summed(noise_moments(problem, natural, batch), batch.rows.weights)


def _summed(found: dict[Subject, Array], weights: Array | None) -> Parts:
    each = (found[subject] for subject in SUBJECTS)
    return Parts(one.sum(axis=0) if weights is None else weights @ one for one in each)


def _products(problem: Problem, natural: Array, batch: Batch) -> Array:
    """Return products of moments and scores."""
    found, scores = noise_moments(problem, natural, batch), _free_scores(problem, natural, batch)
    joined = np.column_stack([*(found[subject] for subject in SUBJECTS), scores])
    assert batch.rows.weights is not None
    return joined.T @ (joined * batch.rows.weights[:, None])


def _free_scores(problem: Problem, natural: Array, batch: Batch) -> Array:
    """Return scores without weights; those of fixed or shared parameters pulled back to free."""
    scores = row_terms(problem, natural, batch).score
    return problem.layout.pull_back_vector(scores, problem.layout.gather(natural))


def _name(subject: Subject, first: str) -> str:
    return f"{first}onditional-moment test of {subject}"


def _distance(vector: Array, covariance: Array) -> tuple[float, int]:
    """Return the squared distance of a vector in units of its spread, and the rank of that."""
    if not len(vector):
        return 0.0, 0
    spread = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    # What does not vary says nothing, and dividing by its spread would overflow.
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > SMALLEST_SPREAD)
    values, axes = np.linalg.eigh(covariance * np.outer(scale, scale))
    kept = values > COLLINEAR * values[-1]
    along = axes[:, kept].T @ (vector * scale)
    return float(along @ (along / values[kept])), int(kept.sum())
