"""The compiled twin of `unknown_index`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from selfselect.kernels._fused import Array, Codes, FusedSums, Indices, aligned
from selfselect.kernels.compiled import extension

if TYPE_CHECKING:
    from selfselect.kernels.unknown_index import Curvature

__all__ = ["FusedSums", "sum_places", "sum_unknown_index"]


def sum_unknown_index(
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
    side: float,
    curvature: Curvature,
) -> FusedSums:
    """Add up the log-likelihood, score and Hessian over rows, on one thread, without the GIL.

    Parameters
    ----------
    covariates, weights, columns, sizes, shift, unit, limit_shift, limit_unit, g, h :
        as in `sum_known_index`.
    status : (n, k) MAYBE where the alternative is open to the row; where it is anything else, the
        alternative takes no part. Rows to which none is open add nothing.
    limit : (n, 1) the outcome.
    side : 1 where the largest outcome is seen, -1 where the smallest is.
    curvature : how much of the Hessian is wanted. With "none" it is zero; with "complete" it is
        that of the complete data, each alternative's own block; with "exact" there are cross
        blocks too.

    Raises
    ------
    ValueError
        If shapes disagree or `columns` points outside: compiled code would read astray.
    """
    if limit.shape[1:] != (1,):
        raise ValueError("the shapes of the arguments disagree: there is one outcome per row")
    n_alternatives, width = columns.shape
    shape = (n_alternatives, width + 1)
    score = np.zeros(shape)
    hessian = np.zeros((*shape, width + 1))
    cross = np.zeros((*shape, *shape)) if curvature == "exact" else None
    loglik = extension().unknown(
        aligned(covariates), status, aligned(limit), None, aligned(weights), columns, sizes,
        shift, unit, limit_shift, limit_unit, g, h, side, curvature != "none", score, hessian,
        cross,
    )  # fmt: skip
    return FusedSums(loglik, score, hessian, cross)


def sum_places(
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
    side: float,
) -> tuple[Array, Array]:
    """Return log-likelihoods (s,) and scores (s, k, m + 1) at s places, in one call.

    As `sum_unknown_index`, but for `g` (s, k, m) and `h` (s, k).
    """
    if limit.shape[1:] != (1,):
        raise ValueError("the shapes of the arguments disagree: there is one outcome per row")
    loglik, score = np.zeros(len(g)), np.zeros((*g.shape[:2], g.shape[2] + 1))
    extension().unknown_places(
        aligned(covariates), status, aligned(limit), None, aligned(weights), columns, sizes,
        shift, unit, limit_shift, limit_unit, g[0], h[0], side, g, h, loglik, score,
    )  # fmt: skip
    return loglik, score
