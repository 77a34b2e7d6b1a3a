"""Outcomes drawn from a fitted model, for tests that ask it how far chance would go."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ndtri

from selfselect.data.rows import Rows
from selfselect.engines.base import Engine
from selfselect.errors import DataError
from selfselect.problem.problem import Problem
from selfselect.rules import has_bounds

__all__ = [
    "draw_noise",
    "draw_outcomes",
    "latent_outcomes",
    "simulate_rows",
    "why_no_draws",
    "wide_noise",
    "write_out",
]

Array = NDArray[np.float64]

MOST_ROWS = 20_000_000
"""Rows that weights may stand for and still be written out one by one."""


SIMULATED = 10_000
"""Rows drawn to know the spread of what rows say of the noise; a test's statistic is then known to
some 2%."""


def why_no_draws(problem: Problem) -> str | None:
    """Say why the model cannot be asked by draws what rows say of its noise; None where it can."""
    if problem.noise.selected:
        return "it is made for outcomes that select by themselves, not for a selection equation"
    if not problem.noise.independent:
        return "it is made for independent noise; here, what it would test is assumed"
    shape = problem.noise.margin
    if not shape.normal:
        return f"it is made for normal noise, and this fit assumes {shape.name} noise"
    if problem.layout.spreads and problem.index == "unknown":
        return "it is made for scales that do not move where the choice was not recorded"
    if problem.likelihood.joint:
        return "it is made for known costs and rows in which everything was recorded"
    if problem.likelihood.convex_sets and not has_bounds(problem.ordered_rule):
        return "the rule has no bounds, so moments given a row have no closed form"
    return None


def simulate_rows(problem: Problem, engine: Engine, natural: Array) -> tuple[Rows, Array]:
    """Draw outcomes of the fitted model for rows of the engine, always the same ones.

    Returns the rows, and how much each counts for sums to stand for those of all rows: their own
    weights are not in it.
    """
    rng = np.random.default_rng(0)
    part = engine.sample(SIMULATED, rng).rows
    rows = part.take(np.tile(np.arange(len(part)), -(-SIMULATED // len(part))))
    noise, density = wide_noise(len(rows), problem.equations.n_alternatives, rng)
    return draw_outcomes(problem, natural, rows, noise), density * (engine.n_rows / len(rows))


def draw_noise(problem: Problem, natural: Array, n_rows: int, rng: Generator) -> Array:
    """Draw noise (n, k) of the fitted model, each alternative's in units of its own scale."""
    noise, alternatives = problem.noise, problem.equations.alternatives
    if noise.independent:
        return noise.margin.draw((n_rows, len(alternatives)), rng)
    covariance = noise.known_correlation(alternatives)
    if covariance is None:
        layout = problem.layout
        h = natural[layout.inverse_scale_positions]
        covariance = noise.standard_covariance(natural[layout.starts[-1] :], h)
    # A correlation of one leaves no room for a Cholesky factor.
    values, axes = np.linalg.eigh(covariance)
    root = axes * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(rng.standard_normal((n_rows, len(alternatives))) @ root.T)


def latent_outcomes(problem: Problem, natural: Array, rows: Rows, noise: Array) -> Array:
    """Return all outcomes (n, k) of the model, in the user's units, given standardised noise."""
    units, h = problem.units, natural[problem.layout.inverse_scale_positions]
    means = problem.locations(natural, problem.designs(rows)) / h
    noisy = means + noise / problem.inverse_scales(natural, rows)
    return np.asarray(units.outcome_shift + units.outcome_unit * noisy)


def draw_outcomes(problem: Problem, natural: Array, rows: Rows, noise: Array) -> Rows:
    """Make outcomes of the model from standardised noise (n, k); keep the observed ones."""
    latent = latent_outcomes(problem, natural, rows, noise)
    chosen = problem.ordered_rule.choose(latent, rows.known)
    outcome = latent[np.arange(len(rows)), chosen]
    return replace(rows, outcome=outcome, chosen=None if problem.index == "unknown" else chosen)


def wide_noise(n_rows: int, k: int, rng: Generator) -> tuple[Array, Array]:
    """Draw noise (n, k) that is wider than standard normal, and how much each row then counts.

    What decides the spread of a fourth moment lies three or four standard deviations out, where
    normal draws hardly come: wider ones, evenly spread in every dimension, know it to 2% with
    10,000 rows where as many normal ones are off by more than 10%.
    """
    width = 1.0 + 0.4 * min(1.0, 5.0 / k)
    strata = np.column_stack([rng.permutation(n_rows) for _ in range(k)])
    z = width * ndtri((strata + rng.uniform(size=(n_rows, k))) / n_rows)
    density = np.exp(0.5 * (z * z).sum(axis=1) * (1.0 / width**2 - 1.0))
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
    each = np.repeat(np.arange(len(rows)), rows.weights.astype(np.intp))
    return replace(rows.take(each), weights=None)
