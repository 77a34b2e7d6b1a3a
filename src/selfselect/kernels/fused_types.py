"""Unobserved types under a known index: one pass over the rows, compiled.

The oracle is `likelihoods._mixed_boxes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from selfselect.kernels._fused import Array, Indices, RowArguments
from selfselect.kernels.compiled import extension

if TYPE_CHECKING:
    from selfselect.kernels.unknown_index import Curvature

__all__ = ["FusedTypes", "sum_types"]


class FusedTypes(NamedTuple):
    """Sums over groups of rows whose type is not known.

    Of type m there are k + 1 sums: in its offset of each location, and in the logarithm of its
    weight, where weights need not add up to one.

    Attributes
    ----------
    loglik : log-likelihood.
    score : (k, m + 1) in g and h, laid out as in `FusedSums`.
    hessian : (k, m + 1, k, m + 1).
    type_score : (M (k + 1),).
    mixed : (k, m + 1, M (k + 1)).
    type_hessian : (M (k + 1), M (k + 1)).
    """

    loglik: float
    score: Array
    hessian: Array
    type_score: Array
    mixed: Array
    type_hessian: Array


def sum_types(
    rows: RowArguments,
    *,
    offsets: Array,
    log_prior: Array,
    starts: Indices | None,
    curvature: Curvature = "exact",
) -> FusedTypes:
    """Add up the log-likelihood, score and Hessian over groups, on one thread, without the GIL.

    Parameters
    ----------
    rows : without upper limits; those of a group have the same weight.
    offsets : (M, k) that each type adds to g'x.
    log_prior : (M,) logarithms of the weights of the types.
    starts : (G,) where groups begin; None where each row is one.
    curvature : "complete" takes types as known; with "none" second derivatives are zero.

    Raises
    ------
    ValueError
        If groups are not in order: compiled code would read astray.
    """
    k, width = rows.columns.shape
    shape, n_sums = (k, width + 1), len(log_prior) * (k + 1)
    found = FusedTypes(
        0.0, np.zeros(shape), np.zeros(shape * 2), np.zeros(n_sums), np.zeros((*shape, n_sums)),
        np.zeros((n_sums, n_sums)),
    )  # fmt: skip
    loglik = extension().types(
        *rows.native(), np.ascontiguousarray(offsets), np.ascontiguousarray(log_prior), starts,
        ("none", "complete", "exact").index(curvature), *found[1:],
    )  # fmt: skip
    return found._replace(loglik=loglik)
