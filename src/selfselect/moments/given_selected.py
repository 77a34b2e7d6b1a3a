r"""Moments of one outcome that a selection equation selects, given that it is selected.

The cells of a row hold :math:`E[y; s]`, the outcome where it is selected, times the chance of that.
A row that is not selected has no observed outcome, so that :math:`E[y; s]` is no mean of anything,
and depends on where outcomes are measured from. Here its place is taken by

.. math:: E[y | s] = E[y; s] / P(s), \qquad
   \partial E[y | s] = \frac{\partial E[y; s]}{P(s)} - \frac{E[y; s]}{P(s)^2} \partial P(s).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.moments.base import Expectations, Moments

__all__ = ["GivenSelectedMoments"]

Array = NDArray[np.float64]

CHANCE, OUTCOME = 0, 1
"""Where the cells of one alternative have its chance, and its outcome where it is selected."""


@dataclass(frozen=True, eq=False)
class GivenSelectedMoments(Moments):
    """The moments of `inner`, of one alternative, with its mean given that it is selected."""

    inner: Moments

    def expectations(
        self, reported: Array, rows: Rows, *, shift: Array | None = None
    ) -> Expectations:
        return self.inner.expectations(reported, rows, shift=shift)

    def cells(self, reported: Array, rows: Rows) -> Array:
        return _divided(self.inner.cells(reported, rows))

    def cells_and_slope(self, reported: Array, rows: Rows, weights: Array) -> tuple[Array, Array]:
        cells, slope = self.inner.cells_and_slope(reported, rows, weights)
        given = _divided(cells)
        share = weights / _positive(cells[:, CHANCE])
        _, of_outcome = self.inner.cells_and_slope(reported, rows, share)
        _, of_chance = self.inner.cells_and_slope(reported, rows, share * given[:, OUTCOME])
        slope[OUTCOME] = of_outcome[OUTCOME] - of_chance[CHANCE]
        return given, slope


def _positive(chance: Array) -> Array:
    return np.maximum(chance, np.finfo(float).tiny)


def _divided(cells: Array) -> Array:
    given = cells.copy()
    given[:, OUTCOME] /= _positive(cells[:, CHANCE])
    return given
