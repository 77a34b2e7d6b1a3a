"""What first stages of endogenous covariates add to errors of averages over the rows of a fit.

Rows move the coefficients of first stages. These move the estimates, and the residuals that stand
among the covariates of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["by_first_stages", "moved_by_first_stages"]

Array = NDArray[np.float64]

STEP = 1e-4
"""Of differences in a residual, in its standard deviations."""


def by_first_stages(
    fit: FitResult, cells_of: Callable[[Callable[[Rows], Rows]], Array]
) -> Array | float:
    """Return each row's share (n, q) in the errors of averages by what it does to residuals.

    `cells_of` returns the cells (n, q) of rows that were changed as a function says.
    """
    carried, rows = fit.carried, fit.rows
    if carried is None:
        return 0.0
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    slopes = []
    for place in carried.places:
        residual = rows.covariates[:, place]
        step = STEP * np.sqrt(np.average(residual**2, weights=weights))
        above, below = (cells_of(_shift(place, by)) for by in (step, -step))
        slope = (above - below) * (weights / weights.sum())[:, None] / (2.0 * step)
        slopes.append(-carried.w.T @ slope)
    return np.asarray(carried.influence @ np.vstack(slopes))


def moved_by_first_stages(fit: FitResult, jacobian: Array) -> Array | None:
    """Return each row's share (n, r) in the errors of numbers by what it does to the estimates.

    `jacobian` (r, m) holds their derivatives in the reported parameters.
    """
    if fit.carried is None:
        return None
    return np.asarray(fit.carried.influence @ (jacobian @ fit.carried.reach).T)


def _shift(place: int, by: float) -> Callable[[Rows], Rows]:
    def change(rows: Rows) -> Rows:
        covariates = rows.covariates.copy(order="F")
        covariates[:, place] += by
        return replace(rows, covariates=covariates)

    return change
