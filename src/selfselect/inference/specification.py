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
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray
from scipy.special import chdtrc

from selfselect.engines.base import Engine, Parts
from selfselect.engines.memory import Memory
from selfselect.errors import DataError, OptionError, RuleError
from selfselect.inference.moments import SUBJECTS, Subject, noise_moments
from selfselect.inference.simulation import draw_outcomes, wide_noise, write_out
from selfselect.inference.statistics import TestResult, impossible_test
from selfselect.noises.independent import Independent
from selfselect.problem.evaluation import Batch, score_blocks
from selfselect.problem.problem import Problem
from selfselect.progress import progress_bar
from selfselect.rules.base import HasBounds
from selfselect.solvers import Solution, choose_solver
from selfselect.solvers._order import groups_alike, match_alternatives
from selfselect.threads import parallel_map

__all__ = [
    "MomentDraws",
    "asymptotic_tests",
    "bootstrap_test",
    "check_replications",
    "draw_moments",
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

SIMULATED = 10_000
"""Rows drawn for the asymptotic test; then its statistic is known to some 2%."""

COLLINEAR = 1e-9
"""Relative eigenvalue below which a combination of moments is taken to be constant."""


@dataclass(frozen=True, eq=False)
class MomentDraws:
    """Sums of moments by subject: of the data, and of samples drawn from the fitted model."""

    observed: dict[Subject, Array]
    drawn: dict[Subject, Array]


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
    if not isinstance(problem.noise, Independent):
        return "it is made for independent noise; here, what it would test is assumed"
    if problem.joint:
        return "it is made for known costs and rows in which everything was recorded"
    if problem.concave and not isinstance(problem.ordered_rule, HasBounds):
        return "the rule has no bounds, so moments given a row have no closed form"
    if not solution.converged:
        return "the fit did not converge"
    if not np.isfinite(solution.information).all():
        return "the estimate is not one of maximum likelihood"
    if problem.partial:
        return "some rows have no recorded outcome"
    if subject == "heteroskedasticity" and not problem.equations.covariates:
        return "no equation has a covariate that could move the variance"
    return None


def asymptotic_tests(
    problem: Problem, engine: Engine, solution: Solution, weights_kind: str | None
) -> dict[Subject, TestResult]:
    """Test every subject in a few passes, without a fit; its draws are always the same."""
    reasons = {subject: why_not(problem, solution, subject) for subject in SUBJECTS}
    made: dict[Subject, TestResult] = {
        subject: impossible_test(_name(subject, "Asymptotic c"), reason)
        for subject, reason in reasons.items()
        if reason is not None
    }
    if len(made) == len(SUBJECTS):
        return made
    natural = problem.layout.natural(solution.free)
    observed = engine.sum(partial(_sums_of_moments, problem, natural))
    plain, squared = _simulated_products(problem, engine, natural, weights_kind)
    size = sum(len(one) for one in observed)
    explained = np.linalg.lstsq(plain[size:, size:], plain[size:, :size], rcond=None)[0].T
    keep = np.concatenate([np.eye(size), -explained], axis=1)
    variance = keep @ squared @ keep.T
    end = 0
    for subject, moments in zip(SUBJECTS, observed, strict=True):
        start, end = end, end + len(moments)
        if subject in made:
            continue
        statistic, df = _distance(moments, variance[start:end, start:end])
        p_value = float(chdtrc(df, statistic))
        made[subject] = TestResult(
            _name(subject, "Asymptotic c"), NULL[subject], statistic, df, p_value
        )
    return made


def bootstrap_test(draws: MomentDraws, subject: Subject) -> TestResult:
    """Rank the data's moments among those of samples drawn from the fitted model."""
    drawn = draws.drawn[subject]
    n_drawn, size = drawn.shape
    if n_drawn <= 2 * size:
        raise OptionError(
            f"{n_drawn} bootstrap samples are too few for {size} moments. Give replications="
            f"{2 * size + 1} or more."
        )
    pool = np.vstack([draws.observed[subject], drawn])
    pool -= pool.mean(axis=0)
    covariance = pool.T @ pool / n_drawn
    distances = np.array([_distance(one, covariance)[0] for one in pool])
    df = _distance(pool[0], covariance)[1]
    p_value = (1.0 + np.sum(distances[1:] >= distances[0])) / (1.0 + n_drawn)
    return TestResult(
        _name(subject, "C"),
        NULL[subject],
        float(distances[0]),
        df,
        float(p_value),
        replications=n_drawn,
    )


def draw_moments(
    problem: Problem,
    engine: Engine,
    solution: Solution,
    *,
    weights_kind: str | None,
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
    rows = write_out(engine.rows, weights_kind)
    groups = groups_alike(problem, engine)

    def sums(sample: Engine, free: Array) -> dict[Subject, Array]:
        task = partial(_sums_of_moments, problem, problem.layout.natural(free))
        return dict(zip(SUBJECTS, sample.sum(task), strict=True))

    def draw(stream: SeedSequence) -> dict[Subject, Array] | None:
        rng = np.random.default_rng(stream)
        try:
            noise = rng.standard_normal((len(rows), problem.equations.n_alternatives))
            loaded = Memory().load(problem, draw_outcomes(problem, natural, rows, noise))
            sample = loaded.single_threaded()
            fitted = solver.solve(problem, sample, rng=rng, start=solution.free, progress=False)
        except (DataError, RuleError):
            return None
        if not fitted.converged:
            return None
        return sums(sample, match_alternatives(problem, groups, fitted.free, solution.free))

    done: list[dict[Subject, Array]] = []
    seeds = SeedSequence(seed).spawn(int(replications))
    with progress_bar(progress, what="Test samples", total=int(replications)) as bar:
        for found in parallel_map(draw, seeds):
            bar.update()
            if found is not None:
                done.append(found)
    if len(done) < ENOUGH * replications:
        raise DataError(
            f"Only {len(done)} of {replications} samples drawn from the fitted model could be "
            "fitted: an alternative is too rare in them. Give it fewer covariates, or test with "
            "replications=0."
        )
    observed = sums(engine, solution.free)
    drawn = {subject: np.array([one[subject] for one in done]) for subject in SUBJECTS}
    return MomentDraws(observed, drawn)


def _simulated_products(
    problem: Problem,
    engine: Engine,
    natural: Array,
    weights_kind: str | None,
) -> tuple[Array, Array]:
    """Return expected products of moments and scores, summed by weight and as scores vary."""
    rng = np.random.default_rng(0)
    part = engine.sample(SIMULATED, rng).rows
    rows = part.take(np.tile(np.arange(len(part)), -(-SIMULATED // len(part))))
    noise, density = wide_noise(len(rows), problem.equations.n_alternatives, rng)
    given = np.ones(len(rows)) if rows.weights is None else rows.weights
    drawn = draw_outcomes(problem, natural, rows, noise)
    share = engine.n_rows / len(rows)
    task = partial(_products, problem, natural)

    def summed(weights: Array) -> Array:
        products: Array = Memory().load(problem, replace(drawn, weights=weights)).sum(task)
        return products

    plain = summed(share * density * given)
    if weights_kind != "probability":
        return plain, plain
    return plain, summed(share * density * given**2)


def _sums_of_moments(problem: Problem, natural: Array, batch: Batch) -> Parts:
    found, weights = noise_moments(problem, natural, batch), batch.rows.weights
    each = (found[subject] for subject in SUBJECTS)
    return Parts(one.sum(axis=0) if weights is None else weights @ one for one in each)


def _products(problem: Problem, natural: Array, batch: Batch) -> Array:
    """Return products of moments and scores."""
    # Scores of parameters that are fixed or shared are pulled back to the free ones.
    scores = problem.layout.pull_back_vector(
        np.column_stack(score_blocks(problem, natural, batch)), problem.layout.gather(natural)
    )
    moments = noise_moments(problem, natural, batch)
    joined = np.column_stack([*(moments[subject] for subject in SUBJECTS), scores])
    assert batch.rows.weights is not None
    return joined.T @ (joined * batch.rows.weights[:, None])


def _name(subject: Subject, first: str) -> str:
    return f"{first}onditional-moment test of {subject}"


def _distance(vector: Array, covariance: Array) -> tuple[float, int]:
    """Return the squared distance of a vector in units of its spread, and the rank of that."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    values, axes = np.linalg.eigh(covariance * np.outer(scale, scale))
    kept = values > COLLINEAR * values[-1]
    along = axes[:, kept].T @ (vector * scale)
    return float(along @ (along / values[kept])), int(kept.sum())
