"""Moments where the largest or the smallest of normal outcomes is observed, by their kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.largest import (
    LargestMoments,
    largest_chances,
    largest_moments,
    nodes_wanted,
)
from selfselect.noises.shapes import Shape
from selfselect.rules import direction_of
from selfselect.rules.base import RowData

__all__ = ["chances_of_largest", "moments_of_largest", "of_largest"]

Array = NDArray[np.float64]

MOST_NODES = 600
"""Beyond this many nodes cutting the range at the steep places is cheaper."""


def of_largest(rule: Any, scales: Array, shapes: Sequence[Shape]) -> bool:
    """Say whether the kernel integrates these outcomes."""
    normal = all(shape.normal for shape in shapes)
    return direction_of(rule) is not None and normal and nodes_wanted(scales) <= MOST_NODES


def moments_of_largest(
    rule: Any, means: Array, scales: Array, known: RowData, *, slopes: bool
) -> LargestMoments:
    """Integrate where the largest or the smallest outcome is observed, net of known costs."""
    found = largest_moments(_net(rule, means, known), scales, known.available, slopes=slopes)
    if direction_of(rule) == 1.0:
        return found
    mirrored = found.pair_fall if found.pair_fall is None else -found.pair_fall
    return found._replace(first=-found.first, pair_fall=mirrored)


def chances_of_largest(rule: Any, means: Array, scales: Array, known: RowData) -> Array:
    """Return the chances (n, k) of the same."""
    return largest_chances(_net(rule, means, known), scales, known.available)


def _net(rule: Any, means: Array, known: RowData) -> Array:
    """Return what is compared, the largest of which is chosen."""
    way = direction_of(rule)
    assert way is not None
    # Costs are taken off what is sought large, and added to what is sought small.
    return way * means if known.costs is None else way * means - known.costs
