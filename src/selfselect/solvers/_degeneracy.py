"""Degenerate optima of the unknown index: an equation through single rows, its scale at zero."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine, Parts
from selfselect.problem.evaluation import Batch, find_memberships
from selfselect.solvers._search import SearchSpace

__all__ = ["Degeneracy", "find_degeneracy"]

Array = NDArray[np.float64]

AT_FLOOR = 1.001
"""A scale within this factor of the floor has run into it."""


@dataclass(frozen=True)
class Degeneracy:
    """An equation that explains too few rows to be one, in a sentence."""

    sentence: str


def find_degeneracy(space: SearchSpace, engine: Engine, coordinates: Array) -> Degeneracy | None:
    """Say which alternative collapsed onto which row, or None where none did.

    An alternative has collapsed where its scale ran into the floor, or where it is expected to
    have been seen in fewer rows than it has coefficients.
    """
    problem, layout = space.problem, space.problem.layout
    natural = space.natural(coordinates)
    if not np.isfinite(natural).all():
        return Degeneracy("the search ran off to infinity.")
    expected = engine.sum(partial(_expected_counts, problem, natural))
    scales = 1.0 / natural[layout.inverse_scale_positions]
    for j, equation in enumerate(problem.equations.each):
        floored = space.free_scales > 1 and scales[j] <= AT_FLOOR * space.floor
        empty = expected[0][j] < layout.sizes[j]
        if floored or empty:
            row = int(np.argmax(engine.collect(partial(_density, problem, natural, j))))
            what = "its scale fell to the floor" if floored else "hardly any row is its own"
            return Degeneracy(
                f"alternative {equation.alternative!r} collapsed ({what}); the row that drew it "
                f"most is row {row} of the searched ones."
            )
    return None


def _expected_counts(problem: object, natural: Array, batch: Batch) -> Parts:
    found = find_memberships(problem, natural, batch)  # type: ignore[arg-type]
    weights = 1.0 if batch.rows.weights is None else batch.rows.weights[:, None]
    return Parts((np.asarray((found.chance * weights).sum(axis=0)),))


def _density(problem: object, natural: Array, alternative: int, batch: Batch) -> Array:
    """Return how strongly each row speaks for an alternative: membership times closeness."""
    found = find_memberships(problem, natural, batch)  # type: ignore[arg-type]
    return found.chance[:, alternative] * np.exp(-0.5 * found.a[:, alternative] ** 2)
