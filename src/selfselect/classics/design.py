"""Tables made ready: one coded equation of selection, and one per outcome that can be seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from selfselect.classics.rows import Rows, SeenRows, SignedRows
from selfselect.data.coder import Coder
from selfselect.data.coding import OutcomeCoder
from selfselect.data.equations import INTERCEPT, SCALE
from selfselect.data.formulas import ParsedFormula
from selfselect.errors import DataError, FormulaError
from selfselect.rules.base import Label

__all__ = [
    "CORRELATION",
    "MILLS",
    "SELECTION",
    "Design",
    "Facts",
    "OutcomeEquation",
    "Side",
    "code_side",
]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

SELECTION = "selection"
"""Stands in place of an alternative's label where a coefficient belongs to the selection."""
CORRELATION = "correlation"
MILLS = "mills ratio"

DEPENDENT = 1e-9
"""Share of a covariate's length not explained by the others below which it is one of them."""
EXACT = 1e-12
"""Share of an outcome's variance left over below which its covariates explain all of it."""


@dataclass(frozen=True, eq=False)
class Side:
    r"""The right side of an equation, coded, with columns made orthogonal for the solver.

    Solvers see ``basis``, whose columns are orthogonal and of mean square one, so that no unit and
    no correlation of covariates is any trouble: :math:`X b = Q \theta` with
    :math:`b = C \theta`, where C is ``carry``.

    Attributes
    ----------
    text : the formula as given.
    coder : codes new rows.
    columns : the data columns it needs.
    terms : names of the coefficients.
    matrix : (n, p) the coded rows, X.
    basis : (n, p) Q.
    carry : (p, p) from coefficients of the basis to those of the terms.
    """

    text: str
    coder: Coder
    columns: tuple[str, ...]
    terms: tuple[str, ...]
    matrix: Array
    basis: Array
    carry: Array

    @property
    def covariates(self) -> tuple[str, ...]:
        """Terms without the constant."""
        return tuple(term for term in self.terms if term != INTERCEPT)

    def code(self, frame: pd.DataFrame) -> Array:
        """Code new rows (n, p)."""
        return _ordered(self.coder.code(frame), self.coder.names, self.terms)


def code_side(parsed: ParsedFormula, frame: pd.DataFrame, what: str, weights: Array | None) -> Side:
    """Code the right side of a formula and orthogonalise its columns.

    Parameters
    ----------
    parsed : the formula.
    frame : its rows.
    what : the equation's name in errors.
    weights : (n,) of the rows; those of weight zero do not tell covariates apart.
    """
    coder, matrix = Coder.learn(parsed.terms, frame)
    if not coder.names:
        raise FormulaError(f"The formula {parsed.text!r} has neither covariates nor a constant.")
    for name in (SCALE, CORRELATION, MILLS):
        if name in coder.names:
            raise FormulaError(
                f"A covariate cannot be named {name!r}: results use the word for a parameter. "
                "Rename the column."
            )
    rest = [name for name in coder.names if name != INTERCEPT]
    terms = tuple([INTERCEPT] * (INTERCEPT in coder.names) + rest)
    matrix = _ordered(matrix, coder.names, terms)
    if not np.isfinite(matrix).all():
        name = terms[int(np.argmin(np.isfinite(matrix).all(axis=0)))]
        raise DataError(
            f"The covariate {name!r} of the {what} is infinite or not a number in some rows. "
            "Correct them, leave them out, or use another transform."
        )
    carry = _orthogonalise(matrix, terms, what, weights)
    return Side(parsed.text, coder, parsed.term_columns, terms, matrix, matrix @ carry, carry)


def _ordered(matrix: Array, names: Sequence[str], terms: Sequence[str]) -> Array:
    place = {name: position for position, name in enumerate(names)}
    return np.ascontiguousarray(matrix[:, [place[term] for term in terms]])


def _orthogonalise(matrix: Array, terms: Sequence[str], what: str, weights: Array | None) -> Array:
    """Return C such that X C has orthogonal columns of mean square one, or name what repeats."""
    counted = matrix if weights is None else matrix[weights > 0]
    n_rows, size = counted.shape
    if n_rows <= size:
        raise DataError(
            f"The {what} has {size} coefficients but only {n_rows} rows. Give it fewer covariates."
        )
    length = np.linalg.norm(counted, axis=0) / np.sqrt(n_rows)
    for position, name in enumerate(terms):
        if length[position] == 0:
            raise DataError(
                f"The covariate {name!r} is zero in every row of the {what}: it does not vary. "
                "Leave it out."
            )
    triangle = np.linalg.qr(counted / length, mode="r") / np.sqrt(n_rows)
    for position in range(size):
        if abs(triangle[position, position]) < DEPENDENT:
            others = np.linalg.lstsq(triangle[:, :position], triangle[:, position], rcond=None)[0]
            named = [terms[int(i)] for i in np.flatnonzero(np.abs(others) > 1e-6)]
            raise DataError(
                f"In the {what}, {terms[position]!r} is a combination of "
                f"{', '.join(map(repr, named))}: their coefficients cannot be told apart. Leave "
                "one of them out."
            )
    inverse = solve_triangular(triangle, np.eye(size))
    return inverse / length[:, None]


@dataclass(frozen=True, eq=False)
class OutcomeEquation:
    """An outcome that can be seen, and the rows in which it is.

    The outcome in internal units is what least squares leaves over, of mean square one.

    Attributes
    ----------
    label : the alternative.
    sign : +1 where it is seen if the selection index is positive, else -1.
    rows : (m,) positions of its rows.
    side : its covariates, coded in its rows.
    outcome : (m,) what was seen.
    weights : (m,) or None.
    """

    label: Label
    sign: float
    rows: Indices
    side: Side
    outcome: Array
    weights: Array | None

    @cached_property
    def naive(self) -> Array:
        """Coefficients of the basis by least squares, which ignores selection."""
        basis, outcome = self.side.basis, self.outcome
        if self.weights is not None:
            root = np.sqrt(self.weights)
            basis, outcome = basis * root[:, None], outcome * root
        return np.asarray(np.linalg.lstsq(basis, outcome, rcond=None)[0], dtype=np.float64)

    @cached_property
    def unit(self) -> float:
        """Root mean square of what least squares leaves over."""
        left_over = self.outcome - self.side.basis @ self.naive
        spread = np.average((self.outcome - self.outcome.mean()) ** 2, weights=self.weights)
        unit = float(np.sqrt(np.average(left_over**2, weights=self.weights)))
        if not unit**2 > EXACT * spread:
            raise DataError(
                f"The covariates explain the outcome of {self.label!r} exactly, so there is no "
                "noise to estimate. Leave out covariates computed from the outcome."
            )
        return unit

    @cached_property
    def standardised(self) -> Array:
        """The outcome in internal units."""
        return (self.outcome - self.side.basis @ self.naive) / self.unit

    @cached_property
    def slopes(self) -> Array:
        """Slopes of the noise h y - x'g in g and, last, in h; shape (m, p + 1)."""
        return np.column_stack([-self.side.basis, self.standardised])

    def seen_rows(self, selection: Array, every: int) -> SeenRows:
        """Return every so many of its rows, joined with those of the selection's basis."""
        rows, slopes = self.rows[::every], self.slopes[::every]
        joined = np.empty((selection.shape[1] + slopes.shape[1], len(rows)))
        joined[: selection.shape[1]] = selection[rows].T
        joined[selection.shape[1] :] = slopes.T
        joined *= self.sign
        weights = None if self.weights is None else self.weights[::every]
        counted = slopes if weights is None else slopes * weights[:, None]
        total = float(len(rows) if weights is None else weights.sum())
        return SeenRows(SignedRows(joined, weights), slopes.T @ counted, total)


@dataclass(frozen=True)
class Facts:
    """What a reader of the results should know of the data.

    Attributes
    ----------
    outcome, chosen : the left sides of the outcome and the selection formulas.
    towards : what a positive selection index means.
    weights, cluster : names of those columns, None where there are none.
    n_rows : rows used.
    n_dropped : rows left out for a missing covariate.
    n_without_outcome : rows left out, at the user's wish, for a missing outcome or choice.
    counts : rows in which each outcome was seen.
    weight_total : sum of the weights; the number of rows where there are none.
    outcome_range : smallest and largest outcome seen.
    weights_kind : frequency or probability; None where it was not said.
    n_effective : rows of equal weight that would say as much about a mean.
    """

    outcome: str
    chosen: str
    towards: Label
    weights: str | None
    cluster: str | None
    n_rows: int
    n_dropped: int
    n_without_outcome: int
    counts: tuple[int, ...]
    weight_total: float
    outcome_range: tuple[float, float]
    weights_kind: str | None = None
    n_effective: float = 0.0


@dataclass(frozen=True, eq=False)
class Design:
    """Everything a fit needs of a table.

    Attributes
    ----------
    model : sample selection or switching.
    selection : the covariates of the selection, coded in all rows.
    positive : (n,) whether the selection index came out positive.
    equations : the outcomes that can be seen: one under sample selection, two under switching.
    outcome_coder : how outcomes were coded.
    weights : (n,) or None.
    clusters : (n,) or None.
    facts : what to tell of the data.
    frame : the columns of all covariates, with the caller's labels of the rows.
    """

    model: str
    selection: Side
    positive: NDArray[np.bool_]
    equations: tuple[OutcomeEquation, ...]
    outcome_coder: OutcomeCoder
    weights: Array | None
    clusters: Indices | None
    facts: Facts
    frame: pd.DataFrame

    @property
    def sign(self) -> Array:
        """+1 where the selection index came out positive, else -1; shape (n,)."""
        return np.where(self.positive, 1.0, -1.0)

    @cached_property
    def silent(self) -> Indices:
        """Rows that show no outcome."""
        seen = np.zeros(len(self.positive), dtype=bool)
        for equation in self.equations:
            seen[equation.rows] = True
        return np.flatnonzero(~seen)

    def rows(self, every: int = 1) -> Rows:
        """Return all rows, or every so many of each kind, as the likelihood reads them."""
        if every not in self._rows:
            self._rows[every] = self._every(every)
        return self._rows[every]

    @cached_property
    def _rows(self) -> dict[int, Rows]:
        return {}

    def _every(self, every: int) -> Rows:
        silent, basis = self.silent[::every], self.selection.basis
        without = None
        if len(silent):
            signed = np.ascontiguousarray((basis[silent] * self.sign[silent, None]).T)
            without = SignedRows(signed, None if self.weights is None else self.weights[silent])
        return Rows(without, tuple(one.seen_rows(basis, every) for one in self.equations))
