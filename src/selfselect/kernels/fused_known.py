"""The compiled twin of `known_index`: one pass over the rows, nothing as long as they in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from selfselect.kernels._fused import Array, FusedSums, Indices, RowArguments
from selfselect.kernels.compiled import extension

if TYPE_CHECKING:
    from selfselect.kernels.unknown_index import Curvature

__all__ = [
    "GUMBEL",
    "GUMBEL_MIN",
    "LOGISTIC",
    "MIXTURE",
    "NORMAL",
    "STUDENT",
    "Degrees",
    "FusedSums",
    "Moving",
    "StudentTable",
    "sum_known_index",
]

NORMAL, LOGISTIC, GUMBEL, GUMBEL_MIN, STUDENT, MIXTURE = range(6)
"""Numbers of the shapes that kernels know, as in their `interface.hpp`. This one does not know
mixtures: see `fused_mixture`."""


class Moving(NamedTuple):
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
    def empty(cls, columns: Indices, delta: Array, width: int) -> Moving:
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
    moving: Moving | None = None,
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
