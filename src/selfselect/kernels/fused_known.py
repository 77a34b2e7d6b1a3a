"""Compiled passes for known indices, and what compiled passes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.compiled import extension

if TYPE_CHECKING:
    from selfselect.kernels.unknown_index import Curvature


# What the fused kernels share outside of their loops.


Array = NDArray[np.float64]
Codes = NDArray[np.int8]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class RowArguments:
    """Rows of k alternatives and the parameters at which a pass evaluates them.

    A compiled pass refuses shapes that disagree, and columns outside of [1 | covariates], with a
    ValueError: it would read astray.

    Attributes
    ----------
    covariates : (n, D), without a constant column. Any strides; nothing is copied.
    status : (n, k) what each row says of each alternative, as in `selfselect.kernels.known_index`.
    limit : (n, 1) or (n, k), one limit for all alternatives or one for each.
    weights : (n,), or None for ones.
    columns : (k, m) the columns of [1 | covariates] that enter each alternative, each once;
        padded with -1.
    sizes : (k,) how many of them there are.
    shift, unit : (D + 1,) columns enter as (column - shift) / unit; 0 and 1 for the constant.
    limit_shift, limit_unit : limits enter as (limit - limit_shift) / limit_unit.
    g, h : (k, m) and (k,), the parameters, in the standardised units; where a pass evaluates
        several places, with an axis of places before these.
    upper : (n, k) upper limits where the status is BETWEEN; None where no row has that status.
    """

    covariates: Array
    status: Codes
    limit: Array
    weights: Array | None
    columns: Indices
    sizes: Indices
    shift: Array
    unit: Array
    limit_shift: float
    limit_unit: float
    g: Array
    h: Array
    upper: Array | None = None

    def native(self) -> tuple[Any, ...]:
        """Return the arguments that a compiled pass takes first, in its order."""
        return (
            _aligned(self.covariates), self.status, _aligned(self.limit), _aligned(self.upper),
            _aligned(self.weights), self.columns, self.sizes, self.shift, self.unit,
            self.limit_shift, self.limit_unit, self.g, self.h,
        )  # fmt: skip

    def zeros(self, *, cross: bool = False) -> tuple[Array, Array, Array | None]:
        """Return zeros for score, Hessian and, where they are wanted, cross blocks of a pass."""
        k, width = self.columns.shape
        shape = k, width + 1
        whole = np.zeros(shape * 2) if cross else None
        return np.zeros(shape), np.zeros((*shape, width + 1)), whole


@dataclass(frozen=True, eq=False)
class FusedSums:
    """Weighted sums over rows of every alternative's terms.

    Attributes
    ----------
    loglik
        The log-likelihood of all alternatives together.
    score : (k, m + 1)
        Of alternative j the leading ``sizes[j]`` entries are for g, the last one is for h; those
        between are zero.
    hessian : (k, m + 1, m + 1)
        Second derivatives in each alternative's own parameters, both triangles, laid out alike.
    cross : (k, m + 1, k, m + 1)
        Second derivatives in the parameters of two different alternatives, zero where they are
        the same; None where they vanish or were not asked for.
    """

    loglik: float
    score: Array
    hessian: Array
    cross: Array | None = None


def _aligned(array: Any) -> Any:
    """Return an array that begins where a double may, copied only where it does not.

    Arrays that came over a network begin anywhere. None stays None.
    """
    return array if array is None or array.flags.aligned else array.copy()


# The compiled twin of `known_index`: one pass over the rows, nothing as long as they in memory.


NORMAL, LOGISTIC, GUMBEL, GUMBEL_MIN, STUDENT, MIXTURE = range(6)
"""Numbers of the shapes that kernels know, as in their `interface.hpp`. This one does not know
mixtures: see `sum_mixture`."""


class MovingScales(NamedTuple):
    """What moves the scales of k alternatives, and sums of its derivatives, zero at first.

    Attributes
    ----------
    columns : (k, q) columns of [1 | covariates] that move each one's log scale, padded with -1.
    delta : (k, q) their coefficients, in the standardised units.
    score, hessian : (k, q) and (k, q, q), its lower triangle.
    mixed : (k, q, m + 1) second derivatives in delta and (g, h).
    """

    columns: Indices
    delta: Array
    score: Array
    hessian: Array
    mixed: Array

    @classmethod
    def empty(cls, columns: Indices, delta: Array, width: int) -> MovingScales:
        """Make room for the sums of alternatives with at most `width` coefficients."""
        k, q = columns.shape
        return cls(
            columns, delta, np.zeros((k, q)), np.zeros((k, q, q)), np.zeros((k, q, width + 1))
        )


class StudentTable(NamedTuple):
    """Student's t as the kernel takes it; `noises.shapes._student` makes it.

    Attributes
    ----------
    levels : (1 or k, 5) degrees of freedom, the constants of log f and log F, and the first and
        second derivative of the former in the degrees.
    series : (1 or k, 3, n) Chebyshev coefficients.
    """

    levels: Array
    series: Array


class Degrees(NamedTuple):
    """Sums of derivatives in degrees of freedom that are estimated, zero at first.

    Attributes
    ----------
    score, hessian : (1 or k,)
    mixed : (k, m + 1) second derivatives in (g, h) and the alternative's degrees.
    """

    score: Array
    hessian: Array
    mixed: Array

    @classmethod
    def empty(cls, table: StudentTable, n_alternatives: int, width: int) -> Degrees:
        """Make room for the sums of alternatives with at most `width` coefficients."""
        sets = len(table.levels)
        return cls(np.zeros(sets), np.zeros(sets), np.zeros((n_alternatives, width + 1)))


def sum_known_index(
    rows: RowArguments,
    *,
    moving: MovingScales | None = None,
    shape: int = NORMAL,
    student: StudentTable | None = None,
    degrees: Degrees | None = None,
    curvature: Curvature = "exact",
) -> FusedSums:
    """Add up the log-likelihood, score and Hessian over rows, on one thread, without the GIL.

    Rows whose status is UNKNOWN add nothing, and what their limit is does not matter.

    Parameters
    ----------
    rows : the rows, and the parameters at which they are evaluated.
    moving : what moves the scales, and where its sums are added; None where they stay. It does not
        go with upper limits.
    shape : of the noise; only normal noise goes with upper limits.
    student : its table where the shape is Student's t; else None.
    degrees : where sums of derivatives in the degrees of freedom are added; None where these are
        known. It does not go with `moving`.
    curvature : with "none" the Hessian is zero; else it is the exact one.
    """
    score, hessian, _ = rows.zeros()
    moved = (None,) * 5 if moving is None else tuple(moving)
    table = (None,) * 2 if student is None else tuple(student)
    by_degrees = (None,) * 3 if degrees is None else tuple(degrees)
    loglik = extension().known(
        *rows.native(), shape, curvature != "none", score, hessian, *moved, *table, *by_degrees
    )
    return FusedSums(loglik, score, hessian)


# Sums over rows that the summary of a known index needs, compiled: one pass for all of them.


class FusedMoments(NamedTuple):
    """Weighted sums over rows; those of alternative j fill the leading ``sizes[j]`` entries.

    Attributes
    ----------
    pairs : (k, k) products of generalised residuals, above the diagonal.
    shape : (k, 2) means of Hermite polynomials of orders 3 and 4 given the row.
    spread : (k, m) scores of the log scale times each column.
    observed : (k,) weight of the rows in which each alternative is observed.
    everywhere, where_observed : (k, m, m) Gram matrices of all rows, and of those; zero where they
        were not asked for.
    """

    pairs: Array
    shape: Array
    spread: Array
    observed: Array
    everywhere: Array
    where_observed: Array


def sum_moments(
    rows: RowArguments,
    *,
    grams: bool = True,
) -> FusedMoments:
    """Add up what rows say of the noise, on one thread, without the GIL.

    No row may have the status BETWEEN. `grams` asks for the Gram matrices too.
    """
    k, width = rows.columns.shape
    sums = FusedMoments(
        np.zeros((k, k)),
        np.zeros((k, 2)),
        np.zeros((k, width)),
        np.zeros(k),
        np.zeros((k, width, width)),
        np.zeros((k, width, width)),
    )
    extension().moments(*rows.native(), *sums[:4], *(sums[4:] if grams else (None, None)))
    return sums
