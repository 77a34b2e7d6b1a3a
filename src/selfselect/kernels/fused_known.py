"""The compiled twin of `known_index`: one pass over the rows, nothing as long as they in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from selfselect.kernels._fused import Array, Codes, FusedSums, Indices, aligned
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
    covariates: Array,
    status: Codes,
    limit: Array,
    weights: Array | None,
    *,
    columns: Indices,
    sizes: Indices,
    shift: Array,
    unit: Array,
    limit_shift: float,
    limit_unit: float,
    g: Array,
    h: Array,
    upper: Array | None = None,
    moving: Moving | None = None,
    shape: int = NORMAL,
    curvature: Curvature = "exact",
) -> FusedSums:
    """Add up the log-likelihood, score and Hessian over rows, on one thread, without the GIL.

    Rows whose status is UNKNOWN add nothing, and what their limit is does not matter.

    Parameters
    ----------
    covariates : (n, D), without a constant column. Any strides; nothing is copied.
    status : (n, k) what each row says of each alternative.
    limit : (n, 1) or (n, k), one limit for all alternatives or one for each.
    weights : (n,), or None for ones.
    columns : (k, m) the columns of [1 | covariates] that enter each alternative, each once;
        padded with -1.
    sizes : (k,) how many of them there are.
    shift, unit : (D + 1,) columns enter as (column - shift) / unit; 0 and 1 for the constant.
    limit_shift, limit_unit : limits enter as (limit - limit_shift) / limit_unit.
    g, h : (k, m) and (k,), the parameters, in the standardised units.
    upper : (n, k) upper limits where the status is BETWEEN; None where no row has that status.
    moving : what moves the scales, and where its sums are added; None where they stay. It does not
        go with upper limits.
    shape : of the noise; only normal noise goes with upper limits.
    curvature : with "none" the Hessian is zero; else it is the exact one.

    Raises
    ------
    ValueError
        If shapes disagree or `columns` points outside: compiled code would read astray.
    """
    n_alternatives, width = columns.shape
    score = np.zeros((n_alternatives, width + 1))
    hessian = np.zeros((n_alternatives, width + 1, width + 1))
    moved = (None,) * 5 if moving is None else tuple(moving)
    loglik = extension().known(
        aligned(covariates), status, aligned(limit), aligned(upper), aligned(weights), columns,
        sizes, shift, unit, limit_shift, limit_unit, g, h, shape,
        curvature != "none", score, hessian,
        *moved,
    )  # fmt: skip
    return FusedSums(loglik, score, hessian)
