r"""Tests of normality and constant variance, by conditional moments of generalised residuals.

Summed over rows, the moments :math:`m` of `selfselect.inference.simulation` are zero up to chance
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

Where clusters are people and the model itself says what the rows of a person share, people are
independent draws of it. It then knows the spread of moments and scores, summed by person.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.engines.memory import Memory
from selfselect.errors import DataError, OptionError, RuleError
from selfselect.inference.dependence import Dependence, cluster_products, cluster_totals
from selfselect.inference.evidence import (
    Evidence,
    ExpectedSums,
    free_scores_of,
    summed_moments,
    why_no_moment_test,
)
from selfselect.inference.simulation import (
    SUBJECTS,
    Samples,
    Subject,
    moments_of,
    why_rows_are_not_drawn,
)
from selfselect.inference.statistics import (
    TestResult,
    drawn_spread_test,
    excess_of_draws,
    impossible_test,
    undecided_test,
)
from selfselect.likelihoods import Asked, Batch, row_terms, sum_rows
from selfselect.problem.batch import Parts
from selfselect.problem.problem import Problem
from selfselect.progress import progress_bar
from selfselect.solvers import choose_solver
from selfselect.solvers.order import groups_alike, match_alternatives
from selfselect.threads import parallel_map

Array = NDArray[np.float64]

ASYMPTOTIC, BOOTSTRAP = "Asymptotic c", "C"
"""How the names of both tests begin."""

NOTHING_LEFT = "the estimates fit its moments exactly, so there is nothing to test"

CONSTANT = "variance does not depend on covariates"
NOTHING_FURTHER = "variance does not depend on further covariates"
"""What the test of spread assumes, where scales stay and where some covariates move them."""

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


@dataclass(frozen=True, eq=False)
class MomentDraws:
    """What a test compares, by subject: that of the data, and that of samples of the model.

    It is sums of moments; where the data says how those vary (`by_data`) it is statistics, each
    with its degrees of freedom. `tests` are those that have no p-value yet.
    """

    observed: dict[Subject, Array]
    drawn: dict[Subject, Array]
    by_data: bool
    tests: dict[Subject, TestResult]


def check_replications(replications: object) -> None:
    """Refuse numbers of bootstrap samples that cannot give a p-value; zero stands for none."""
    whole = isinstance(replications, int | np.integer) and not isinstance(replications, bool)
    if not whole or (replications != 0 and replications < FEWEST):  # type: ignore[operator]
        raise OptionError(
            f"replications={replications!r} is not possible. Give a whole number of bootstrap "
            f"samples from {FEWEST} on (with fewer no p-value is below 5%), or 0 for the "
            "asymptotic test."
        )


def why_no_bootstrap(problem: Problem, dependence: Dependence) -> str | None:
    """Say why samples of the fitted model cannot be made like the data, or None where they can."""
    if problem.grouped and dependence.weights_kind == "probability":
        return "samples are weighed row by row, and here a person's rows share what is drawn"
    if problem.grouped and dependence.clusters and not dependence.by_person:
        return (
            "its samples would have to keep what people of one cluster share besides; cluster by "
            "the panel column"
        )
    if len(dependence.clusters) < 2:
        return None
    return (
        "its samples would have to keep the clusters of several ways of clustering at once; "
        "cluster by one of them"
    )


def asymptotic_tests(evidence: Evidence) -> dict[Subject, TestResult]:
    """Test every subject in a few passes, without a fit; its draws are always the same."""
    problem, dependence = evidence.problem, evidence.dependence
    made: dict[Subject, TestResult] = {}
    for subject in SUBJECTS:
        reason = why_no_moment_test(problem, evidence.solution, subject)
        if reason is not None:
            made[subject] = impossible_test(_name(problem, subject, ASYMPTOTIC), reason)
    if len(made) == len(SUBJECTS):
        return made
    reason = why_rows_are_not_drawn(problem, evidence.engine)
    if reason is not None:
        return {
            subject: made.get(subject, impossible_test(_name(problem, subject, ASYMPTOTIC), reason))
            for subject in SUBJECTS
        }
    expected, excess = evidence.expectations, dict[Subject, float]()
    if dependence.reason is None:
        sums = expected.select(evidence.moments)
        found = _distances(Parts(sums.values()), expected.variance)
        excess = _excesses(expected, sums)
    else:
        found = _statistics(problem, evidence.engine, evidence.natural, expected, dependence)
    for subject, (statistic, df) in found.items():
        if subject in made:
            continue
        name, null = _name(problem, subject, ASYMPTOTIC), _null(problem, subject)
        few = _too_few_clusters(dependence, df)
        if df == 0 or few is not None:
            made[subject] = impossible_test(name, few or NOTHING_LEFT)
        elif dependence.reason is None:
            instead = f"result.{subject}_test() takes bootstrap ones"
            made[subject] = drawn_spread_test(name, statistic, df, null, excess[subject], instead)
        else:
            reason = _no_verdict(problem, subject, dependence)
            made[subject] = undecided_test(name, statistic, df, null, reason)
    return {subject: made[subject] for subject in SUBJECTS}


def _excesses(expected: ExpectedSums, sums: dict[Subject, Array]) -> dict[Subject, float]:
    """Return by subject which part of its statistic comes from few drawn rows."""
    found, end = {}, 0
    for subject, moments in sums.items():
        start, end = end, end + len(moments)
        own = slice(start, end), slice(start, end)
        spread = expected.variance[own], expected.difference[own]
        found[subject] = excess_of_draws(spread, expected.scores) if len(moments) else 0.0
    return found


def _too_few_clusters(dependence: Dependence, df: int) -> str | None:
    """Say that clusters are too few to know how so many moments vary; None where they are not."""
    if dependence.reason is None or len(dependence.clusters) != 1 or dependence.clusters[0] > df:
        return None
    return (
        f"{dependence.clusters[0]} clusters are too few to estimate the covariance of {df} moments"
    )


def _no_verdict(problem: Problem, subject: Subject, dependence: Dependence) -> str:
    without = why_no_bootstrap(problem, dependence)
    advice = f"result.{subject}_test() takes bootstrap ones"
    if without is not None:
        advice = f"bootstrap ones are not possible, {without}"
    return f"{dependence.reason}, and then chi-square critical values are wrong; {advice}"


def bootstrap_test(draws: MomentDraws, subject: Subject) -> TestResult:
    """Rank the data's moments among those of samples drawn from the fitted model."""
    test = without_law(draws.tests[subject])
    observed, drawn = draws.observed[subject], draws.drawn[subject]
    if draws.by_data:
        distances, df = np.append(observed[0], drawn[:, 0]), int(observed[1])
    else:
        distances, df = _pooled_distances(observed, drawn)
    n_drawn = len(drawn)
    p_value = (1.0 + np.sum(distances[1:] >= distances[0])) / (1.0 + n_drawn)
    return TestResult(
        test.name, test.null, float(distances[0]), df, float(p_value), replications=n_drawn
    )


def without_law(test: TestResult) -> TestResult:
    """Return a test under the name it has where its p-value is not a chi-square's."""
    return replace(test, name=test.name.replace(ASYMPTOTIC, BOOTSTRAP))


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
    evidence: Evidence,
    *,
    tests: dict[Subject, TestResult],
    replications: int,
    seed: int | None,
    progress: bool | None,
) -> MomentDraws:
    """Draw samples from the fitted model, fit each from the estimate, and sum their moments.

    `tests` are the asymptotic ones, which say what can be tested.

    Every sample has a random stream of its own, so nothing depends on how many cores share the
    work.
    """
    check_replications(replications)
    problem, engine, solution = evidence.problem, evidence.engine, evidence.solution
    natural, dependence = evidence.natural, evidence.dependence
    solver = replace(choose_solver(problem, None)[0], tol=CLOSE)  # type: ignore[type-var]
    samples = Samples.like(problem, engine, natural, dependence, seed or 0)
    groups = groups_alike(problem, engine)
    by_data = dependence.reason is not None
    expected = evidence.expectations

    def compared(sample: Engine, free: Array) -> dict[Subject, Array]:
        at = problem.layout.natural(free)
        if by_data:
            found = _statistics(problem, sample, at, expected, dependence)
            return {subject: np.array(one, dtype=float) for subject, one in found.items()}
        sums = sample.sum(partial(sum_rows, problem, at, Asked(pairs=False, grams=False)))
        return expected.select(summed_moments(problem, sums))

    def draw(stream: SeedSequence) -> dict[Subject, Array] | None:
        rng = np.random.default_rng(stream)
        try:
            sample = Memory().load(problem, samples.draw(rng)).single_threaded()
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
    return MomentDraws(observed, drawn, by_data, tests)


def _statistics(
    problem: Problem,
    engine: Engine,
    natural: Array,
    expected: ExpectedSums,
    dependence: Dependence,
) -> dict[Subject, tuple[float, int]]:
    """Return the distance of the summed moments from zero, in units of their spread in the data."""
    clusters = dependence.clusters
    task = partial(_sums_and_spread, problem, natural, expected, clusters)
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
    problem: Problem,
    natural: Array,
    expected: ExpectedSums,
    clusters: tuple[int, ...],
    batch: Batch,
) -> Parts:
    """Sum moments, and products of what scores leave of them: of rows, or by cluster."""
    terms, weights = row_terms(problem, natural, batch), batch.rows.weights
    found = expected.select(moments_of(terms))
    freed = np.column_stack(list(found.values())) - free_scores_of(terms) @ expected.explained.T
    if weights is not None:
        freed *= weights[:, None]
    spread = cluster_totals(batch.rows, freed, clusters) if clusters else freed.T @ freed
    return Parts((_summed(found, weights), spread))


def _summed(found: dict[Subject, Array], weights: Array | None) -> Parts:
    each = (found[subject] for subject in SUBJECTS)
    return Parts(one.sum(axis=0) if weights is None else weights @ one for one in each)


def _name(problem: Problem, subject: Subject, first: str) -> str:
    what: str = subject
    if subject == "normality" and not problem.noise.margin.normal:
        what = f"the {problem.noise.margin.name} shape"
    return f"{first}onditional-moment test of {what}"


def _null(problem: Problem, subject: Subject) -> str:
    if subject == "normality":
        return f"{problem.noise.margin.name} noise"
    return NOTHING_FURTHER if problem.layout.spreads else CONSTANT


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
