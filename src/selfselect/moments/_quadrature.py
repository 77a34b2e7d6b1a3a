"""Nodes of the quadrature over one outcome, placed where its integrand changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.noises.shapes import Shape
from selfselect.rules.base import RowData

__all__ = ["column_of", "edges_of", "nodes_of", "standardised"]

Array = NDArray[np.float64]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(10)


def nodes_of(
    edges: Array, means: Array, scales: Array, chosen: int, shape: Shape
) -> tuple[Array, Array]:
    """Return outcomes (n, nodes) of the chosen one, and their weights, its density included.

    `scales` are (n, k), or (1, k) where all rows have the same: so in all of these. `shape` is that
    of the chosen one.
    """
    half = 0.5 * np.diff(edges, axis=1)
    middle = edges[:, :-1] + half
    outcome = (middle[:, :, None] + half[:, :, None] * NODES).reshape(len(edges), -1)
    weight = (half[:, :, None] * WEIGHTS).reshape(len(edges), -1)
    z = (outcome - means[:, [chosen]]) / scales[:, [chosen]]
    return outcome, weight * shape.pdf(z) / scales[:, [chosen]]


def edges_of(
    rule: Any, means: Array, scales: Array, known: RowData, chosen: int, shapes: Sequence[Shape]
) -> Array:
    """Return, per row, the sorted points between which the integrand is smooth, (n, pieces + 1)."""
    n_rows, k = means.shape
    reach, own = shapes[chosen].reach, np.array(shapes[chosen].cuts)
    low = means[:, [chosen]] - reach * scales[:, [chosen]]
    high = means[:, [chosen]] + reach * scales[:, [chosen]]
    points = [low, high, means[:, [chosen]] + scales[:, [chosen]] * own[1:-1]]
    for other in range(k):
        if other == chosen:
            continue
        # If `other` were chosen at a cut of its own, the bound this sets on `chosen` is where its
        # factor in our integrand has that cut.
        cuts = np.array(shapes[other].cuts)
        at = (means[:, [other]] + scales[:, [other]] * cuts).ravel()
        each = np.repeat(np.arange(n_rows), cuts.size)
        lower, upper = rule.bounds(np.full(at.size, other, dtype=np.intp), at, known.take(each))
        above, below = column_of(upper, chosen), column_of(lower, chosen)
        bound = np.where(np.isfinite(above), above, below)
        points.append(bound.reshape(n_rows, cuts.size))
    edges = np.concatenate(points, axis=1)
    edges = np.where(np.isfinite(edges), edges, low)
    return np.sort(np.clip(edges, low, high), axis=1)


def standardised(bound: Array, m: int, means: Array, scales: Array, n_nodes: int) -> Array:
    """Return the limit (n, nodes) of one alternative, less its mean, in units of its scale."""
    return (column_of(bound, m).reshape(-1, n_nodes) - means[:, [m]]) / scales[:, [m]]


def column_of(bound: Array, m: int) -> Array:
    """Return the bound of one alternative, which may be shared by all."""
    return bound[:, m if bound.shape[1] > 1 else 0]
