"""What the fused kernels share outside of their loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Codes", "FusedSums", "Indices", "aligned"]

Array = NDArray[np.float64]
Codes = NDArray[np.int8]
Indices = NDArray[np.int64]


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


def aligned(array: Any) -> Any:
    """Return an array that begins where a double may, copied only where it does not.

    Arrays that came over a network begin anywhere. None stays None.
    """
    return array if array is None or array.flags.aligned else array.copy()
