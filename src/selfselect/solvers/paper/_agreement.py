"""The run of several that the others agree with most: the paper's way to a high probability."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["euclidean_distance", "matched_distance", "most_agreed"]

Array = NDArray[np.float64]


def most_agreed(estimates: Sequence[Array], distance: Callable[[Array, Array], float]) -> int:
    """Return the estimate with the smallest median distance to all."""
    apart = [[distance(one, other) for other in estimates] for one in estimates]
    return int(np.argmin(np.median(apart, axis=1)))


def euclidean_distance(one: Array, other: Array) -> float:
    """Return the distance of two vectors."""
    return float(np.linalg.norm(one - other))


def matched_distance(one: Array, other: Array) -> float:
    """Return the distance of two sets of coefficients under the best matching of labels."""
    from scipy.optimize import linear_sum_assignment

    squared = ((one[:, None, :] - other[None, :, :]) ** 2).sum(axis=2)
    return float(np.sqrt(squared[linear_sum_assignment(squared)].sum()))
