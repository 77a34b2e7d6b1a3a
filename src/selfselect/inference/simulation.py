"""Outcomes drawn from a fitted model, for tests that ask it how far chance would go."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.engines.base import Engine
from selfselect.errors import DataError
from selfselect.kernels.special import ndtri
from selfselect.likelihoods import Batch
from selfselect.problem.problem import Problem

__all__ = [
    "draw_noise",
    "draw_outcomes",
    "redraw",
    "simulate_rows",
    "why_no_draws",
    "why_no_redraw",
    "why_rows_are_not_drawn",
    "wide_noise",
    "write_out",
]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

MOST_ROWS = 20_000_000
"""Rows that weights may stand for and still be written out one by one."""


SIMULATED, BY_POINTS = 10_000, 3_000
"""Rows drawn to know the spread of what rows say of the noise; a test's statistic is then known to
some 2%. Fewer, and 4%, where a row takes many points of a quadrature or simulation."""


def why_no_draws(problem: Problem) -> str | None:
    """Say why the model cannot be asked by draws what rows say of its noise; None where it can."""
    if problem.noise.method != "ml":
        return "two-step estimates do not maximise a likelihood; use method='ml'"
    if problem.noise.sign_only:
        return "a binary outcome shows only one side of zero, which is not enough to test its noise"
    if problem.noise.selected and problem.partial:
        return "some outcomes are known only to lie between limits"
    if problem.likelihood.sampled:
        return "moments given a row have no closed form where explaining sets are not boxes"
    return None


def why_rows_are_not_drawn(problem: Problem, engine: Engine) -> str | None:
    """Say why outcomes cannot be drawn for these rows as theirs were recorded; None if they can."""
    if not problem.likelihood.has_obstacles:
        return None
    return problem.likelihood.why_not_drawn(engine.sum(partial(_obstacles, problem)))


def _obstacles(problem: Problem, batch: Batch) -> Array:
    return problem.likelihood.obstacles(batch.rows)


def simulate_rows(problem: Problem, engine: Engine, natural: Array) -> tuple[Rows, Array]:
    """Draw outcomes of the fitted model for rows of the engine, always the same ones.

    Returns the rows, and how much each counts for sums to stand for those of all rows: their own
    weights are not in it.
    """
    rng, k = np.random.default_rng(0), problem.equations.n_alternatives
    by_points = problem.noise.points(k) is not None and not problem.grouped
    size = BY_POINTS if by_points else SIMULATED
    part = engine.sample(size, rng).rows
    times = -(-size // len(part))
    each = np.arange(len(part))
    rows = part.copies(np.tile(each, times), np.repeat(np.arange(times), len(part)))
    normal, density = wide_noise(len(rows), problem.noise.n_noises(k), rng, rows.groups)
    drawn = draw_outcomes(problem, natural, rows, normal, rng)
    return drawn, density * (engine.n_rows / len(rows))


def draw_outcomes(
    problem: Problem, natural: Array, rows: Rows, normal: Array, rng: Generator
) -> Rows:
    """Make outcomes of the model from standard normal numbers (n, n_noises), as rows record them.

    `rng` decides what goes unrecorded, where rows lack something.
    """
    noise = problem.likelihood.noise_of(natural, normal)
    return problem.likelihood.draw(natural, rows, noise, rng)


def draw_noise(problem: Problem, natural: Array, n_rows: int, rng: Generator) -> Array:
    """Draw noise (n, n_noises) of the fitted model, each in units of its own scale.

    What people share is no part of it: `Likelihood.draw` draws that.
    """
    noise, alternatives = problem.noise, problem.equations.alternatives
    normal = rng.standard_normal((n_rows, noise.n_noises(len(alternatives))))
    known = noise.known_correlation(alternatives)
    if known is not None:
        return np.asarray(normal @ np.linalg.cholesky(known).T)
    return problem.likelihood.noise_of(natural, normal)


def why_no_redraw(problem: Problem, rows: Rows) -> str | None:
    """Say why whole samples cannot be drawn from a fitted model; None where they can."""
    if problem.noise.selected:
        assert rows.chosen is not None and rows.outcome is not None
        reason = problem.likelihood.why_not_drawn(problem.likelihood.obstacles(rows))
        if reason is not None:
            return reason
        if problem.noise.sign_only:
            return "of its outcomes only the side of zero is known"
        if (np.isnan(rows.outcome) & (rows.chosen >= 0)).any():
            return (
                "some selected outcomes were not recorded, and the model does not say in which rows"
            )
        return None
    if rows.between is not None or rows.possible is not None:
        return (
            "some outcomes are known to lie between limits, or some choices to be among a few, and "
            "the model does not say in which rows that happens"
        )
    if rows.chosen is not None and (rows.chosen < 0).any():
        return "some choices were not recorded, and the model does not say in which rows"
    return None


def redraw(problem: Problem, reported: Array, rows: Rows, rng: Generator) -> Rows:
    """Draw outcomes and choices of the fitted model at the covariates of rows.

    Where outcomes of an alternative were not recorded in some share of the rows that chose it, so
    it is in the rows that are drawn, at random.
    """
    natural = problem.layout.natural(problem.layout.read(reported))
    noise = draw_noise(problem, natural, len(rows), rng)
    return problem.likelihood.draw(natural, rows, noise, rng)


def wide_noise(
    n_rows: int, k: int, rng: Generator, groups: Indices | None = None
) -> tuple[Array, Array]:
    """Draw noise (n, k) that is wider than standard normal, and how much each row then counts.

    What decides the spread of a fourth moment lies three or four standard deviations out, where
    normal draws hardly come: wider ones, evenly spread in every dimension, know it to 2% with
    10,000 rows where as many normal ones are off by more than 10%. The rows of one of `groups`
    count together.
    """
    n_groups = n_rows if groups is None else len(np.unique(groups))
    width = 1.0 + 0.4 * min(1.0, 5.0 * n_groups / (k * n_rows))
    strata = np.column_stack([rng.permutation(n_rows) for _ in range(k)])
    z = width * ndtri((strata + rng.uniform(size=(n_rows, k))) / n_rows)
    log_density = 0.5 * (z * z).sum(axis=1) * (1.0 / width**2 - 1.0)
    if groups is not None:
        log_density = np.bincount(groups, log_density)[groups]
    density = np.exp(log_density - log_density.max())
    return z, density / density.mean()


def write_out(rows: Rows, weights_kind: str | None) -> Rows:
    """Write out rows that stand for several: each of them has noise of its own."""
    if weights_kind != "frequency" or rows.weights is None:
        return rows
    total = rows.weights.sum()
    if total > MOST_ROWS:
        raise DataError(
            f"The frequency weights stand for {total:.3g} rows, too many to draw each one's noise. "
            "Use replications=0, the asymptotic test."
        )
    counts = rows.weights.astype(np.intp)
    each = np.repeat(np.arange(len(rows)), counts)
    copy = np.arange(len(each)) - np.repeat(np.cumsum(counts) - counts, counts)
    return replace(rows.copies(each, copy), weights=None)
