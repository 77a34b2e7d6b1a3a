"""Rows as the likelihood reads them: joined, signed, and summed by their Mills ratios."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.tails import mills_terms

__all__ = ["MillsSums", "Rows", "SeenRows", "SignedRows"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MillsSums:
    """Weighted sums over rows v at arguments a = v'b, for one b or several (s, m).

    Attributes
    ----------
    log_cdf : () or (s,), of log Φ(a).
    pull : (m,) or (s, m), of λ(a) v, the slope of `log_cdf`.
    curvature : (m, m) or (s, m, m), of δ(a) v v', minus its curvature.
    """

    log_cdf: Array
    pull: Array
    curvature: Array


@dataclass(frozen=True, eq=False)
class SignedRows:
    """Rows (m, n), one column each, with the sign of what was seen; and how much each counts."""

    values: Array
    weights: Array | None

    def at(self, direction: Array) -> MillsSums:
        """Sum over the rows at arguments along `direction`, (m,) or (s, m)."""
        mills = mills_terms(direction @ self.values)
        log_cdf, ratio, slope = mills.log_cdf, mills.ratio, mills.slope
        if self.weights is not None:
            log_cdf, ratio, slope = (self.weights * one for one in (log_cdf, ratio, slope))
        bent = self.values * slope[..., None, :]
        # One product for all directions; a stack of them would be many small ones.
        curvature = bent.reshape(-1, bent.shape[-1]) @ self.values.T
        return MillsSums(
            np.asarray(log_cdf.sum(axis=-1)),
            ratio @ self.values.T,
            curvature.reshape((*bent.shape[:-1], len(self.values))),
        )


@dataclass(frozen=True, eq=False)
class SeenRows:
    """The rows of one equation.

    Attributes
    ----------
    joined : covariates of the selection, then slopes of the noise.
    gram : (p + 1, p + 1) weighted products of the slopes of the noise.
    total : sum of the weights.
    """

    joined: SignedRows
    gram: Array
    total: float


@dataclass(frozen=True, eq=False)
class Rows:
    """All rows, or some: those without an outcome (None where there are none), and those with."""

    silent: SignedRows | None
    seen: tuple[SeenRows, ...]
