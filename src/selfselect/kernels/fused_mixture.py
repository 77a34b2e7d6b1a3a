"""Mixtures of normals under a known index: one pass over the rows, compiled.

The oracle is `likelihoods.shaped`, by the terms of `kernels.mixture`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from selfselect.kernels._fused import Array, FusedSums, RowArguments
from selfselect.kernels.compiled import extension

if TYPE_CHECKING:
    from selfselect.kernels.unknown_index import Curvature

__all__ = ["FusedMixture", "sum_mixture"]


class FusedMixture(NamedTuple):
    """Sums over rows under one mixture for all alternatives, or under one for each.

    Attributes
    ----------
    own : in g and h.
    mixed : (k, m + 1, q) second derivatives in these and in the parameters of the mixture.
    by : (1 or k, 3 M) first derivatives in the components.
    hessian : (1 or k, q, q) second derivatives in the parameters of the mixture, as far as its
        components depend on these linearly.
    """

    own: FusedSums
    mixed: Array
    by: Array
    hessian: Array


def sum_mixture(
    rows: RowArguments,
    *,
    components: Array,
    slopes: Array,
    curvature: Curvature = "exact",
) -> FusedMixture:
    """Add up the log-likelihood, score and Hessian over rows, on one thread, without the GIL.

    Parameters
    ----------
    rows : without upper limits.
    components : (1 or k, M, 3) shares, means and spreads.
    slopes : (1 or k, 3 M, q) their derivatives in the parameters of the mixture.
    curvature : with "none" second derivatives are zero.
    """
    (sets, inside, q), (score, hessian, _) = slopes.shape, rows.zeros()
    mixed, by = np.zeros((*score.shape, q)), np.zeros((sets, inside))
    twice, products = np.zeros((sets, inside, inside)), np.zeros((sets, q, q))
    loglik = extension().mixture(
        *rows.native(), np.ascontiguousarray(components), np.ascontiguousarray(slopes),
        curvature != "none", score, hessian, mixed, by, twice, products,
    )  # fmt: skip
    whole = twice + np.triu(twice, 1).transpose(0, 2, 1)
    outer = products + np.tril(products, -1).transpose(0, 2, 1)
    curved = slopes.transpose(0, 2, 1) @ whole @ slopes - outer
    return FusedMixture(FusedSums(loglik, score, hessian), mixed, by, curved)
