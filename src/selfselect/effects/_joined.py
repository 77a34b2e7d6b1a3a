"""What the model says of each row where noise or estimated costs join the alternatives.

Chances and means come from the quadrature of `problem.joint`. Derivatives are central differences:
in the mean of every alternative, from which those in coefficients follow by the chain rule, and in
every other parameter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.noises import Correlated
from selfselect.problem.joint import joint_expectations
from selfselect.problem.problem import Problem
from selfselect.results.predictions import latent_means

__all__ = ["joined_slope", "joined_values"]

Array = NDArray[np.float64]

STEP = 1e-4
"""Step of the differences, in scales of the noise or relative to the parameter."""

DRAWS = 128
"""Points of simulated chances, which are averaged over rows."""


def joined_values(
    problem: Problem, reported: Array, rows: Rows, rule: Any, shift: Array | None = None
) -> Array:
    """Compute the cells (n, q) of rows; `shift` is added to the latent means."""
    noise = problem.noise
    if isinstance(noise, Correlated) and problem.equations.n_alternatives > 2:
        noise = replace(noise, draws=min(int(noise.draws), DRAWS))
    here = replace(problem, rule=rule, noise=noise)
    natural = here.layout.natural(here.layout.read(reported))
    found = joint_expectations(here, natural, rows, shift=shift)
    means = latent_means(problem, reported, rows)
    if shift is not None:
        means = means + shift
    chance = found.chance
    outcome = np.nan_to_num(found.given_seen) * chance[:, None, :]
    predicted = means[:, :, None] * chance[:, None, :]
    flat = (len(means), -1)
    return np.hstack([chance, outcome.reshape(flat), predicted.reshape(flat), means])


def joined_slope(problem: Problem, reported: Array, rows: Rows, rule: Any, weights: Array) -> Array:
    """Return the weighted sum of the cells' derivatives (q, m) in the reported parameters."""
    layout, k = problem.layout, problem.equations.n_alternatives
    scales = layout.scales_of(reported)
    slope = np.zeros((2 * k + 2 * k * k, len(reported)))
    of_coefficients: set[int] = set()
    for j, (equation, where) in enumerate(
        zip(problem.equations.each, layout.reported_places, strict=True)
    ):
        shift = np.zeros(k)
        shift[j] = STEP * scales[j]
        ends = [joined_values(problem, reported, rows, rule, way * shift) for way in (1, -1)]
        by_mean = (ends[0] - ends[1]) / (2.0 * shift[j]) * weights[:, None]
        for column, position in zip(equation.columns, where, strict=True):
            if position < 0:
                continue  # An offset has no coefficient that could be off.
            values = np.ones(len(rows)) if column == 0 else rows.covariates[:, column - 1]
            slope[:, position] += values @ by_mean
            of_coefficients.add(int(position))
    for position in set(range(len(reported))) - of_coefficients:
        step = STEP * max(abs(float(reported[position])), 0.1)
        ends = []
        for way in (step, -step):
            moved = reported.copy()
            moved[position] += way
            ends.append(weights @ joined_values(problem, moved, rows, rule))
        slope[:, position] = (ends[0] - ends[1]) / (2.0 * step)
    return slope
