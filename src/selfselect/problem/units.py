"""Internal units, and coefficients that alternatives share in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from selfselect.data.equations import Equations, SharedTerm
from selfselect.data.rows import Rows, guess_outcomes
from selfselect.errors import DataError
from selfselect.noises.base import COMMON
from selfselect.rules.base import Label

Array = NDArray[np.float64]


# Internal units: covariates and outcome are centred and scaled on the fly.
#
# A fit must not depend on whether income is in cents or in millions, or on a year counted from
# zero. Solvers and covariances work in these units, where matrices are well conditioned; reported
# parameters are in the user's. The units come from a sample of rows and need not be exact.


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


# Coefficients that are shared or fixed: how those that are moved make up those of all equations.
#
# In internal units the coefficients :math:`v_j = g_j/h_j` of all alternatives, stacked, are
# :math:`v = T u + t` with :math:`u` the coefficients that are moved. A shared one has an entry in
# the rows of several alternatives, an offset none and its value in :math:`t`.
#
# Solvers move :math:`h_j u` where one alternative alone depends on :math:`u` or all have one
# scale, since the log-likelihood is concave in that; else :math:`u` itself, and then :math:`g_j =
# h_j v_j` bends where :math:`h_j` is moved too.

Indices = NDArray[np.intp]

ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Ties:
    """How the moved coefficients make up those of every alternative.

    Attributes
    ----------
    matrix : (m, n) T, one row per coefficient of any alternative, one column per moved one.
    constant : (m,) t.
    moved : (m,) the moved one that stands for each coefficient; -1 for offsets.
    alternative : (m,) whose coefficient each is.
    labels : of the moved ones.
    common : whether all alternatives have one estimated scale.
    """

    matrix: Array
    constant: Array
    moved: Indices
    alternative: Indices
    labels: tuple[tuple[Label, str], ...]
    common: bool

    @classmethod
    def build(cls, equations: Equations, units: Units, *, common: bool) -> Ties:
        """Work out T and t for equations in internal units."""
        each = equations.each
        starts = np.concatenate([[0], np.cumsum([len(one.terms) for one in each])]).astype(int)
        alternative = np.repeat(np.arange(len(each)), np.diff(starts))
        columns = np.concatenate([one.columns for one in each]).astype(int)
        shared_by = {
            int(starts[j]) + place: group
            for group, shared in enumerate(equations.shared)
            for j, place in shared.members
        }
        first: dict[int, int] = {}
        labels: list[tuple[Label, str]] = []
        moved = np.full(len(columns), -1, dtype=np.intp)
        factor = np.zeros(len(columns))
        constant = np.zeros(len(columns))
        for row, column in enumerate(columns):
            equation = each[alternative[row]]
            place = row - int(starts[alternative[row]])
            if equation.has_offset and place == len(equation.terms) - 1:
                constant[row] = units.unit[column] / units.outcome_unit
                continue
            group = shared_by.get(row)
            if group is not None and group in first:
                moved[row] = moved[first[group]]
                factor[row] = units.unit[column] / units.unit[columns[first[group]]]
                continue
            if group is not None:
                first[group] = row
            moved[row], factor[row] = len(labels), 1.0
            labels.append(
                (equation.alternative, equation.terms[place])
                if group is None
                else (
                    shared_label(equations, equations.shared[group]),
                    equations.shared[group].term,
                )
            )
        matrix = np.zeros((len(columns), len(labels)))
        estimated = moved >= 0
        matrix[estimated, moved[estimated]] = factor[estimated]
        lean = (units.shift / units.unit)[columns]
        for shared in equations.shared:
            rows = [int(starts[j]) + place for j, place in shared.members]
            if columns[rows[0]] == 0:
                _level_constants(rows, matrix, constant, alternative, lean)
        return cls(matrix, constant, moved, alternative, tuple(labels), common)

    @property
    def n_moved(self) -> int:
        """How many coefficients are moved."""
        return len(self.labels)

    @cached_property
    def _owner(self) -> Indices:
        """For each moved coefficient the one alternative that depends on it; -1 if several do."""
        owners = [np.unique(self.alternative[column != 0]) for column in self.matrix.T]
        return np.array([one[0] if len(one) == 1 else -1 for one in owners], dtype=np.intp)

    @cached_property
    def bends(self) -> bool:
        """Whether some coefficient has a factor h that differs among those that share it."""
        return not self.common and bool((self._owner < 0).any())

    @cached_property
    def _inverse(self) -> Array:
        return np.asarray(np.linalg.pinv(self.matrix))

    def alone(self, alternative: int) -> Indices:
        """Return the moved coefficients of one alternative that no other one shares."""
        elsewhere = self.moved[self.alternative != alternative]
        own = self.moved[self.alternative == alternative]
        return np.setdiff1d(own[own >= 0], elsewhere)

    def coefficients(self, u: Array) -> Array:
        """Return the coefficients v (..., m) of all alternatives, stacked, of u (..., n)."""
        return np.asarray(u @ self.matrix.T + self.constant)

    def nearest(self, v: Array) -> Array:
        """Return the u whose coefficients come closest to `v`."""
        return np.asarray(self._inverse @ (v - self.constant))

    def factors(self, h: Array) -> Array:
        """Return what each u is multiplied by to be moved, given the inverse scales (k,)."""
        if self.common:
            return np.full(self.n_moved, h[0])
        return np.where(self._owner >= 0, h[self._owner], 1.0)

    def slopes(self, h: Array) -> Array:
        """Return the derivatives (m, n) of all g in what is moved, for given inverse scales."""
        if self.common:
            return self.matrix
        return np.where(self._owner >= 0, self.matrix, self.matrix * h[self.alternative, None])

    def slopes_in_scales(self, moved: Array, n_alternatives: int) -> Array:
        """Return the derivatives (m, k) of all g in the inverse scales, or (m, 1) if common."""
        if self.common:
            return self.constant[:, None]
        bent = self.constant + self.matrix @ np.where(self._owner < 0, moved, 0.0)
        return np.where(self.alternative[:, None] == np.arange(n_alternatives), bent[:, None], 0.0)

    def bend(self, score: Array, n_alternatives: int) -> Array:
        """Return the sum over g of its score times its second derivatives in (h, moved): (k, n)."""
        weighted = np.where(self._owner < 0, self.matrix, 0.0) * score[:, None]
        return np.array([weighted[self.alternative == j].sum(0) for j in range(n_alternatives)])

    def gather_grams(self, grams: list[Array]) -> tuple[Array, Array]:
        """Return T'XT and T'(y - Xt) of Gram matrices of [covariates, outcome], outcome last."""
        total, towards = np.zeros((self.n_moved,) * 2), np.zeros(self.n_moved)
        for j, gram in enumerate(grams):
            own = self.alternative == j
            matrix, covariates = self.matrix[own], gram[:-1, :-1]
            total += matrix.T @ covariates @ matrix
            towards += matrix.T @ (gram[:-1, -1] - covariates @ self.constant[own])
        return total, towards


def shared_label(equations: Equations, shared: SharedTerm) -> Label:
    """Name those who share a coefficient: all, or some in brackets."""
    if len(shared.members) == equations.n_alternatives:
        return COMMON
    return f"({', '.join(str(equations.alternatives[j]) for j, _ in shared.members)})"


def _level_constants(
    rows: list[int], matrix: Array, constant: Array, alternative: Indices, lean: Array
) -> None:
    """Make shared intercepts, those in `rows`, equal in the user's units.

    Centring moves each internal constant by what the slopes of its alternative make of the shift
    of their covariates. The moved constant is the mean one of those who share it.
    """
    tilts, levels = [], []
    for row in rows:
        own = alternative == alternative[row]
        tilts.append(lean[own] @ matrix[own])
        levels.append(lean[own] @ constant[own])
    for row, tilt, level in zip(rows, tilts, levels, strict=True):
        apart = tilt - np.mean(tilts, axis=0)
        # What is but rounding must not make an alternative depend on another's slopes.
        apart[np.abs(apart) < ROUNDING * np.abs(tilts).max(axis=0)] = 0.0
        matrix[row] += apart
        constant[row] += level - np.mean(levels)
