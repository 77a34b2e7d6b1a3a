"""What the fused kernels share outside of their loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Codes", "FusedSums", "Indices", "RowArguments"]

Array = NDArray[np.float64]
Codes = NDArray[np.int8]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class RowArguments:
    """Rows of k alternatives and the parameters at which a pass evaluates them.

    A compiled pass refuses shapes that disagree, and columns outside of [1 | covariates], with a
    ValueError: it would read astray.

    Attributes
    ----------
    covariates : (n, D), without a constant column. Any strides; nothing is copied.
    status : (n, k) what each row says of each alternative, as in `selfselect.kernels.status`.
    limit : (n, 1) or (n, k), one limit for all alternatives or one for each.
    weights : (n,), or None for ones.
    columns : (k, m) the columns of [1 | covariates] that enter each alternative, each once;
        padded with -1.
    sizes : (k,) how many of them there are.
    shift, unit : (D + 1,) columns enter as (column - shift) / unit; 0 and 1 for the constant.
    limit_shift, limit_unit : limits enter as (limit - limit_shift) / limit_unit.
    g, h : (k, m) and (k,), the parameters, in the standardised units; where a pass evaluates
        several places, with an axis of places before these.
    upper : (n, k) upper limits where the status is BETWEEN; None where no row has that status.
    """

    covariates: Array
    status: Codes
    limit: Array
    weights: Array | None
    columns: Indices
    sizes: Indices
    shift: Array
    unit: Array
    limit_shift: float
    limit_unit: float
    g: Array
    h: Array
    upper: Array | None = None

    def native(self) -> tuple[Any, ...]:
        """Return the arguments that a compiled pass takes first, in its order."""
        return (
            _aligned(self.covariates), self.status, _aligned(self.limit), _aligned(self.upper),
            _aligned(self.weights), self.columns, self.sizes, self.shift, self.unit,
            self.limit_shift, self.limit_unit, self.g, self.h,
        )  # fmt: skip

    def zeros(self, *, cross: bool = False) -> tuple[Array, Array, Array | None]:
        """Return zeros for score, Hessian and, where they are wanted, cross blocks of a pass."""
        k, width = self.columns.shape
        shape = k, width + 1
        whole = np.zeros(shape * 2) if cross else None
        return np.zeros(shape), np.zeros((*shape, width + 1)), whole


@dataclass(frozen=True, eq=False)
class FusedSums:
    """Weighted sums over rows of every alternative's terms.

    Attributes
    ----------
    loglik
        The log-likelihood of all alternatives together.
    score : (k, m + 1)
        Of alternative j the leading ``sizes[j]`` entries are for g, the last one is for h; those
        between are zero.
    hessian : (k, m + 1, m + 1)
        Second derivatives in each alternative's own parameters, both triangles, laid out alike.
    cross : (k, m + 1, k, m + 1)
        Second derivatives in the parameters of two different alternatives, zero where they are
        the same; None where they vanish or were not asked for.
    """

    loglik: float
    score: Array
    hessian: Array
    cross: Array | None = None


def _aligned(array: Any) -> Any:
    """Return an array that begins where a double may, copied only where it does not.

    Arrays that came over a network begin anywhere. None stays None.
    """
    return array if array is None or array.flags.aligned else array.copy()
