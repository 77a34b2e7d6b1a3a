"""Outcomes drawn from a fitted model, for tests that ask it how far chance would go."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ndtri

from selfselect.data.rows import Rows
from selfselect.engines.base import Engine
from selfselect.errors import DataError, UnsupportedError
from selfselect.problem.problem import Problem
from selfselect.rules import has_bounds

__all__ = [
    "draw_noise",
    "draw_outcomes",
    "latent_outcomes",
    "redraw",
    "simulate_rows",
    "why_no_draws",
    "why_no_redraw",
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


def why_no_redraw(problem: Problem, rows: Rows) -> str | None:
    """Say why whole samples cannot be drawn from a fitted model; None where they can."""
    if problem.noise.selected:
        assert rows.chosen is not None and rows.outcome is not None
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
    if problem.noise.selected:
        return _redraw_selected(problem, reported, rows, rng)
    # Imported here, as below: few processes draw samples, and all should start quickly.
    from selfselect.likelihoods._pieces import costs_of

    natural = problem.layout.natural(problem.layout.read(reported))
    latent = latent_outcomes(problem, natural, rows, draw_noise(problem, natural, len(rows), rng))
    costs = costs_of(problem, natural, rows)
    net = latent
    if costs is not None:
        net = latent - costs.sign * problem.units.outcome_unit * costs.value
    chosen = problem.ordered_rule.choose(net, rows.known)
    outcome = latent[np.arange(len(rows)), chosen]
    if problem.partial:
        assert rows.outcome is not None and rows.chosen is not None
        k = problem.equations.n_alternatives
        lacking = np.bincount(rows.chosen, np.isnan(rows.outcome), k)
        share = lacking / np.maximum(np.bincount(rows.chosen, minlength=k), 1)
        outcome = np.where(rng.uniform(size=len(rows)) < share[chosen], np.nan, outcome)
    return replace(rows, outcome=outcome, chosen=None if problem.index == "unknown" else chosen)


def _redraw_selected(problem: Problem, reported: Array, rows: Rows, rng: Generator) -> Rows:
    """Draw the index of a selection equation, and the outcome that it selects."""
    from selfselect.moments.base import latent_means
    from selfselect.moments.selection import SelectionMoments

    moments = SelectionMoments(problem, problem.ordered_rule)
    shared = moments.with_selection(reported).value
    own = problem.layout.scales_of(reported) ** 2 - shared**2
    if (own < 0.0).any():
        raise UnsupportedError(
            "A correlation with the selection is estimated beyond one, as two steps may, and no "
            "noise has such a one to be drawn with. Fit with method='ml'."
        )
    u = rng.standard_normal(len(rows))
    chosen = np.full(len(rows), -1, dtype=np.intp)
    for j, group in enumerate(moments.ends(reported, rows)[: len(own)]):
        above = True if group.lower is None else group.lower + u > 0.0
        below = True if group.upper is None else group.upper + u <= 0.0
        chosen[above & below] = j
    noise = shared * u[:, None] + np.sqrt(own) * rng.standard_normal((len(rows), len(own)))
    latent = latent_means(problem, reported, rows) + noise
    outcome = latent[np.arange(len(rows)), np.maximum(chosen, 0)]
    return replace(rows, outcome=np.where(chosen < 0, np.nan, outcome), chosen=chosen)


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
