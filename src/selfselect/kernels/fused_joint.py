"""The compiled twin of `correlated_pair` and `shared_shock`, for rows of one atom.

For two correlated alternatives also of rows whose outcome may be either's: two atoms.

Products of Φ are formed without logarithms: far out they underflow, the log-likelihood is then not
finite, and whoever called turns to the twin that is slower.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels._fused import Array, FusedSums, RowArguments
from selfselect.kernels.compiled import extension
from selfselect.kernels.shared_shock import STEEP, hermite

__all__ = ["JointSums", "is_steep", "sum_joint"]


@dataclass(frozen=True, eq=False)
class JointSums:
    """Weighted sums over rows.

    Attributes
    ----------
    own : those of coefficients and inverse scales.
    score : (q,) of the inputs the noise adds.
    hessian : (q, q)
    mixed : (k, m + 1, q) second derivatives in an alternative's parameters and those inputs.
    """

    own: FusedSums
    score: Array
    hessian: Array
    mixed: Array


def is_steep(loadings: Array) -> bool:
    """Say whether some factor changes too fast for the nodes; see `shared_shock`."""
    spread = 1.0 / np.sqrt(1.0 + loadings**2)
    slope = np.outer(spread, np.abs(loadings))
    np.fill_diagonal(slope, 0.0)
    return bool((slope > STEEP).any())


def sum_joint(
    rows: RowArguments,
    *,
    extras: NDArray[np.float64],
    nodes: int | None,
    side: float = 0.0,
    curvature: bool,
) -> JointSums:
    """Add up log-likelihood, score and Hessian over rows, on one thread, without the GIL.

    Parameters
    ----------
    rows : in each of which one outcome is observed, or any may be.
    extras : the correlation of two alternatives, or the loadings of all in units of their scales.
    nodes : of the quadrature over the shock; None for two correlated alternatives.
    side : 0 where the index is known; where it is not, and there are two correlated alternatives, 1
        for the largest and -1 for the smallest.
    curvature : whether second derivatives are wanted; zero where they are not.
    """
    q, (score, hessian, cross) = len(extras), rows.zeros(cross=curvature)
    extra_score, extra_hessian, mixed = np.zeros(q), np.zeros((q, q)), np.zeros((*score.shape, q))
    at, node_weight = (np.empty(0), np.empty(0)) if nodes is None else hermite(nodes)
    loglik = extension().joint(
        *rows.native(), extras, at, node_weight, side, score, hessian, cross, extra_score,
        extra_hessian, mixed,
    )  # fmt: skip
    return JointSums(FusedSums(loglik, score, hessian, cross), extra_score, extra_hessian, mixed)
