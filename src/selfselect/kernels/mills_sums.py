"""Sums over rows of log Φ at arguments linear in the parameters, with score and curvature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.tails import mills_terms

__all__ = ["MillsSums", "SignedRows"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MillsSums:
    """Weighted sums over rows v at arguments a = v'b.

    Attributes
    ----------
    log_cdf : of log Φ(a).
    pull : (m,) of λ(a) v, the slope of `log_cdf` in b.
    curvature : (m, m) of δ(a) v v', minus its curvature; zeros where that was not wanted.
    """

    log_cdf: float
    pull: Array
    curvature: Array


@dataclass(frozen=True, eq=False)
class SignedRows:
    """Rows (m, n), one column each, with the sign of what was recorded; and how much each counts.

    `weights` is None where every row counts once.
    """

    values: Array
    weights: Array | None

    def at(self, direction: Array, *, curved: bool = True) -> MillsSums:
        """Sum over the rows at arguments along `direction` (m,)."""
        mills = mills_terms(direction @ self.values)
        log_cdf, ratio, slope = mills.log_cdf, mills.ratio, mills.slope
        if self.weights is not None:
            log_cdf, ratio, slope = (self.weights * one for one in (log_cdf, ratio, slope))
        size = len(self.values)
        curvature = (self.values * slope) @ self.values.T if curved else np.zeros((size, size))
        return MillsSums(float(log_cdf.sum()), self.values @ ratio, curvature)
