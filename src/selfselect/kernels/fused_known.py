"""The compiled twin of `known_index`: one pass over the rows, nothing as long as they in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from selfselect.kernels._fused import Array, Codes, FusedSums, Indices, aligned
from selfselect.kernels.compiled import extension

if TYPE_CHECKING:
    from selfselect.kernels.unknown_index import Curvature

__all__ = ["FusedSums", "sum_known_index"]


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
    curvature : with "none" the Hessian is zero; else it is the exact one.

    Raises
    ------
    ValueError
        If shapes disagree or `columns` points outside: compiled code would read astray.
    """
    n_alternatives, width = columns.shape
    score = np.zeros((n_alternatives, width + 1))
    hessian = np.zeros((n_alternatives, width + 1, width + 1))
    loglik = extension().known(
        aligned(covariates), status, aligned(limit), aligned(upper), aligned(weights), columns,
        sizes, shift, unit, limit_shift, limit_unit, g, h, curvature != "none", score, hessian,
    )  # fmt: skip
    return FusedSums(loglik, score, hessian)
