"""Internal units: covariates and outcome are centred and scaled on the fly.

A fit must not depend on whether income is in cents or in millions, or on a year counted from
zero. Solvers and covariances work in these units, where matrices are well conditioned; reported
parameters are in the user's. The units come from a sample of rows and need not be exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.data.equations import Equations
from selfselect.data.rows import Rows, guess_outcomes
from selfselect.errors import DataError

__all__ = ["Units", "by_columns", "measure_units", "refuse_extremes"]

Array = NDArray[np.float64]

SMALLEST, LARGEST = 1e-140, 1e140
"""Units within which squares of estimates are doubles, with room for what is added to them."""


@dataclass(frozen=True, eq=False)
class Units:
    """Shift and unit of every column of the virtual matrix [1 | covariates], and of the outcome."""

    shift: Array
    unit: Array
    outcome_shift: float
    outcome_unit: float

    def design(self, covariates: Array, columns: tuple[int, ...]) -> Array:
        """Return the columns of one equation in internal units, shape (n, p), each without gaps."""
        design = np.empty((len(columns), covariates.shape[0])).T
        for place, column in enumerate(columns):
            if column == 0:
                design[:, place] = 1.0
            else:
                np.subtract(covariates[:, column - 1], self.shift[column], out=design[:, place])
                design[:, place] /= self.unit[column]
        return design

    def limits(self, limit: Array) -> Array:
        """Return outcomes or limits in internal units."""
        return (limit - self.outcome_shift) / self.outcome_unit


def by_columns(equations: Equations, make: Callable[[tuple[int, ...]], Array]) -> list[Array]:
    """Return what `make` returns for the columns of every alternative, made once where they agree.

    Most often all alternatives have the same covariates.
    """
    made: dict[tuple[int, ...], Array] = {}
    for equation in equations.each:
        if equation.columns not in made:
            made[equation.columns] = make(equation.columns)
    return [made[equation.columns] for equation in equations.each]


def measure_units(equations: Equations, rows: Rows) -> Units:
    """Choose units from a sample of rows.

    Columns and outcome are centred only where every equation has a constant to take the shift up.
    """
    assert rows.outcome is not None
    centre = equations.all_have_intercepts
    shift = np.zeros(len(equations.covariates) + 1)
    unit = np.ones_like(shift)
    columns = np.ascontiguousarray(rows.covariates.T)
    outcome = rows.outcome
    if equations.selection is None:
        shift[1:], unit[1:] = _measure(columns, centre)
    else:
        outcome = guess_outcomes(outcome, rows.between)
        for place, values in enumerate(columns, start=1):
            shift[place], unit[place] = _measure(values[~np.isnan(values)], centre)
    outcome_shift, outcome_unit = _measure(outcome[~np.isnan(outcome)], centre)
    return Units(shift, unit, float(outcome_shift), float(outcome_unit))


def refuse_extremes(equations: Equations, units: Units) -> None:
    """Refuse units in which the square of an estimate is no double: variances would be lost."""
    named = [("outcome", equations.outcome, units.outcome_unit)]
    named += [
        ("covariate", name, one)
        for name, one in zip(equations.covariates, units.unit[1:], strict=True)
    ]
    for what, name, unit in named:
        with np.errstate(over="ignore"):
            slope = np.float64(units.outcome_unit) / unit if what == "covariate" else unit
        if not SMALLEST < min(unit, slope) <= max(unit, slope) < LARGEST:
            raise DataError(
                f"The {what} {name!r} varies by about {unit:.3g}. Estimates in such units have "
                "variances that double precision cannot hold. Measure it in other units: divide it "
                f"by {unit:.0e}."
            )


def _measure(values: Array, centre: bool) -> tuple[Array, Array]:
    """Return shift and unit (...) of values (..., n)."""
    if not values.shape[-1]:
        return np.zeros(values.shape[:-1]), np.ones(values.shape[:-1])
    shift = values.mean(axis=-1) if centre else np.zeros(values.shape[:-1])
    centred = values - shift[..., None]
    largest = np.abs(centred).max(axis=-1)
    varies = (largest > 0.0) & np.isfinite(largest)
    # Dividing by the largest first keeps squares of huge values finite.
    centred /= np.where(varies, largest, 1.0)[..., None]
    with np.errstate(invalid="ignore"):
        unit = largest * np.sqrt(np.square(centred, out=centred).mean(axis=-1))
    return np.where(varies, shift, 0.0), np.where(varies, unit, 1.0)
