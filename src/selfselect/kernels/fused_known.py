"""The compiled twin of `known_index`: one pass over the rows, nothing as long as they in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from selfselect.kernels._fused import Array, FusedSums, Indices, RowArguments
from selfselect.kernels.compiled import extension

if TYPE_CHECKING:
    from selfselect.kernels.unknown_index import Curvature

__all__ = ["GUMBEL", "GUMBEL_MIN", "LOGISTIC", "NORMAL", "FusedSums", "Moving", "sum_known_index"]

NORMAL, LOGISTIC, GUMBEL, GUMBEL_MIN = range(4)
"""Numbers of the shapes that the kernel knows, as in its `interface.hpp`."""


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


def sum_known_index(
    rows: RowArguments,
    *,
    moving: Moving | None = None,
    shape: int = NORMAL,
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
    curvature : with "none" the Hessian is zero; else it is the exact one.
    """
    score, hessian, _ = rows.zeros()
    moved = (None,) * 5 if moving is None else tuple(moving)
    loglik = extension().known(*rows.native(), shape, curvature != "none", score, hessian, *moved)
    return FusedSums(loglik, score, hessian)
