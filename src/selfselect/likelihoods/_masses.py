r"""The mass of explaining sets by importance sampling: what the log-likelihood is made of.

A row with the choice :math:`j` and the outcome :math:`y` has the likelihood of that outcome times
the mass of its explaining set. Plain draws from the noise miss sets of little mass, so half of the
draws come from a normal distribution fitted to where the set is. Weights are then at most two, and
the error of every row's mass is measured by the draws themselves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.tails import HALF_LOG_TWO_PI
from selfselect.likelihoods.sampled import SampledRows, batch_stream
from selfselect.problem.batch import Batch
from selfselect.problem.problem import Problem
from selfselect.samplers import EllipticalSlice

__all__ = ["sampled_loglik", "sampled_masses"]

Array = NDArray[np.float64]

ROWS_AT_ONCE = 2_048
SCOUTS = 12
"""Steps that find where a set is; the first quarter of them only leaves the start behind."""
VANISHING = np.log(1e-20)
"""Log mass below which a choice is next to impossible under the model."""
AT_ONCE = 8
"""Draws of every row that are looked at in one call of the rule."""


def sampled_masses(
    problem: Problem, natural: Array, n_draws: int, seed: int, batch: Batch
) -> Array:
    """Return each row's log mass and the Monte-Carlo variance of it, (n, 2).

    Where no draw fell inside, the log mass is minus infinity: it is too small to be measured.
    """
    blocks = range(0, max(len(batch), 1), ROWS_AT_ONCE)
    parts = [batch.take(slice(at, at + ROWS_AT_ONCE)) for at in blocks]
    return np.concatenate([_masses(problem, natural, n_draws, seed, part) for part in parts])


def sampled_loglik(
    problem: Problem, natural: Array, n_draws: int, seed: int, batch: Batch
) -> Array:
    """Return each row's weighted log-likelihood, its variance, and whether its mass vanishes.

    Shape (n, 3). A mass that could not be measured counts as the smallest that could.
    """
    rows = SampledRows.of(problem, natural, batch)
    masses = sampled_masses(problem, natural, n_draws, seed, batch)
    vanishing = ~(masses[:, 0] > VANISHING)
    lost = ~np.isfinite(masses[:, 0])
    masses[lost] = -np.log(2.0 * n_draws), 1.0
    j = rows.target.chosen
    each = np.arange(len(batch))
    a = (rows.target.outcome - rows.target.means[each, j]) / rows.target.scales[j]
    density = -0.5 * a * a - np.log(rows.target.scales[j]) - HALF_LOG_TWO_PI
    # The logarithm of a mean is too small by half its relative variance.
    loglik = density + masses[:, 0] + np.where(lost, 0.0, 0.5 * masses[:, 1])
    return np.column_stack(
        [rows.weights * loglik, rows.weights**2 * masses[:, 1], vanishing.astype(np.float64)]
    )


def _masses(problem: Problem, natural: Array, n_draws: int, seed: int, batch: Batch) -> Array:
    rows, rng = SampledRows.of(problem, natural, batch), batch_stream(seed, batch)
    target, sampler = rows.target, EllipticalSlice()
    latent = sampler.init(target, rng)
    first, square = np.zeros_like(latent), np.zeros_like(latent)
    for number in range(SCOUTS):
        draw = sampler.step(target, latent, rng)
        latent = draw.latent
        if number >= SCOUTS // 4:
            first += draw.first
            square += draw.square
    kept = SCOUTS - SCOUTS // 4
    middle = first / kept
    varies = (target.spread > 0).sum(axis=1)
    variance = np.maximum(square / kept - middle**2, 0.0) / target.scales**2
    # Wider than the scouts found it, whose spread is estimated from a few dependent draws.
    width = np.clip(1.5 * np.sqrt(variance.sum(axis=1) / np.maximum(varies, 1)), 0.02, 1.0)

    def energy(deviation: Array) -> Array:
        scaled = deviation / target.scales
        turned = scaled if rows.precision is None else scaled @ rows.precision
        return np.asarray(0.5 * np.einsum("...k,...k->...", scaled, turned))

    total, squares = np.zeros(len(batch)), np.zeros(len(batch))
    done = 0
    while done < n_draws:
        wide = np.stack([target.deviations(rng) for _ in range(AT_ONCE // 2)])
        near = np.stack([target.deviations(rng) for _ in range(AT_ONCE // 2)])
        near *= width[None, :, None]
        near += middle
        points = np.concatenate([wide, near])
        log_ratio = energy(points) - energy(points - middle) / width**2 - varies * np.log(width)
        with np.errstate(over="ignore"):
            weight = 2.0 / (1.0 + np.exp(log_ratio))
        weight *= target.contains(points + target.center)
        # Half of the draws come from either part on purpose, so the variance is that within.
        for part in np.split(weight, 2):
            total += part.sum(axis=0)
            squares += part.var(axis=0, ddof=1) * len(part)
        done += AT_ONCE
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.column_stack([np.log(total / done), squares / total**2])
