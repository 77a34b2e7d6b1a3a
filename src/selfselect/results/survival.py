"""What the known-index theorem assumes, measured: survival, boundedness, thickness."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import counted_rows
from selfselect.engines.base import Engine
from selfselect.moments.choose import moments_of
from selfselect.problem.problem import Problem
from selfselect.results.diagnosis import mass_quantiles

__all__ = ["Survival", "measure_survival"]

Array = NDArray[np.float64]

SAMPLE = 2_000
"""Rows whose chances are integrated for the thickness."""


@dataclass(frozen=True, eq=False)
class Survival:
    """The quantities of Assumptions 1 and 2 of the theory.

    Attributes
    ----------
    longest, typical : length of the covariate vector, constant included: largest, and root mean
        square, in standard deviations of the covariates.
    conditioning : smallest eigenvalue of their mean square, over all equations.
    masses : mass of the explaining sets at the 0, 1, 5 and 50% quantiles.
    thickness, thinnest : smallest eigenvalue of the mean of P(chosen | x) x x', and whose it is.
    """

    longest: float
    typical: float
    conditioning: float
    masses: tuple[float, float, float, float]
    thickness: float
    thinnest: object


def measure_survival(problem: Problem, engine: Engine, free: Array) -> Survival:
    """Measure what the theorem assumes on a sample of the rows, at given free parameters."""
    rows = counted_rows(engine.sample(SAMPLE, np.random.default_rng(0)).rows)
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    chance = moments_of(problem).chances(problem.layout.report(free).values, rows)
    lengths, conditioning, thickness = [], [], []
    for j, design in enumerate(problem.designs(rows)):
        lengths.append(np.einsum("np,np->n", design, design))
        conditioning.append(_smallest(design, weights, 1.0))
        thickness.append(_smallest(design, weights, chance[:, j]))
    squares = np.max(lengths, axis=0)
    natural = problem.layout.natural(free)
    masses = mass_quantiles(problem, engine, natural, [0.0, 0.01, 0.05, 0.5])
    thinnest = int(np.argmin(thickness))
    return Survival(
        longest=float(np.sqrt(squares.max())),
        typical=float(np.sqrt(np.average(squares, weights=weights))),
        conditioning=min(conditioning),
        masses=tuple(masses.tolist()),
        thickness=thickness[thinnest],
        thinnest=problem.equations.alternatives[thinnest],
    )


def _smallest(design: Array, weights: Array, chance: Array | float) -> float:
    gram = design.T @ (design * (weights * chance)[:, None]) / weights.sum()
    return float(max(np.linalg.eigvalsh(gram)[0], 0.0))
