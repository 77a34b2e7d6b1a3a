"""The compiled twin of `unknown_index`, and of its atoms where noise is not normal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from selfselect.kernels._fused import Array, FusedSums, RowArguments
from selfselect.kernels.compiled import extension
from selfselect.kernels.fused_joint import JointSums

if TYPE_CHECKING:
    from selfselect.kernels.fused_known import StudentTable
    from selfselect.kernels.unknown_index import Curvature

__all__ = ["FusedSums", "sum_places", "sum_unknown_index", "sum_unknown_shapes"]


def sum_unknown_index(rows: RowArguments, *, side: float, curvature: Curvature) -> FusedSums:
    """Add up the log-likelihood, score and Hessian over rows, on one thread, without the GIL.

    Parameters
    ----------
    rows : whose one limit is the outcome, and whose status is MAYBE where the alternative is open
        to the row; where it is anything else, the alternative takes no part. Rows to which none is
        open add nothing.
    side : 1 where the largest outcome is observed, -1 where the smallest is.
    curvature : how much of the Hessian is wanted. With "none" it is zero; with "complete" it is
        that of the complete data, each alternative's own block; with "exact" there are cross
        blocks too.
    """
    score, hessian, cross = rows.zeros(cross=curvature == "exact")
    loglik = extension().unknown(*_native(rows), side, curvature != "none", score, hessian, cross)
    return FusedSums(loglik, score, hessian, cross)


def sum_places(rows: RowArguments, *, side: float) -> tuple[Array, Array]:
    """Return log-likelihoods (s,) and scores (s, k, m + 1) at s places, in one call.

    As `sum_unknown_index`, but `rows` has g (s, k, m) and h (s, k).
    """
    *shared, g, h = _native(rows)
    loglik, score = np.zeros(len(g)), np.zeros((*g.shape[:2], g.shape[2] + 1))
    extension().unknown_places(
        *shared, g[0], h[0], side, np.ascontiguousarray(g), np.ascontiguousarray(h), loglik, score
    )
    return loglik, score


def sum_unknown_shapes(
    rows: RowArguments,
    *,
    side: float,
    shape: int,
    components: Array | None = None,
    student: StudentTable | None = None,
    n_parameters: int = 0,
    curvature: bool,
) -> JointSums:
    """Add up over rows as `sum_unknown_index`, under independent noise that is not normal.

    Parameters
    ----------
    rows, side : as there.
    shape : number of the noise's shape, as in `fused_known`.
    components : (1 or k, M, 3) shares, means and spreads of a mixture; else None.
    student : the table of Student's t, of one for all alternatives or one for each; else None.
    n_parameters : in how many parameters of the shapes sums are differentiated: all components of
        mixtures, or degrees of freedom, or none.
    curvature : whether second derivatives are wanted; zero where they are not.
    """
    q, (score, hessian, cross) = n_parameters, rows.zeros(cross=curvature)
    by, twice, mixed = np.zeros(q), np.zeros((q, q)), np.zeros((*score.shape, q))
    table = (None,) * 2 if student is None else tuple(student)
    loglik = extension().unknown_shapes(
        *_native(rows), side, shape, components, *table, curvature, score, hessian, cross, by,
        twice, mixed,
    )  # fmt: skip
    return JointSums(FusedSums(loglik, score, hessian, cross), by, twice, mixed)


def _native(rows: RowArguments) -> tuple[Any, ...]:
    if rows.limit.shape[1:] != (1,):
        raise ValueError("the shapes of the arguments disagree: there is one outcome per row")
    return rows.native()
