"""Moments where the largest or the smallest of normal outcomes is observed, by their kernel.

Mixtures of normals are sums of such moments, over all combinations of their components.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import product
from math import prod
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

__all__ = ["NoiseMoments", "chances_of_largest", "moments_of_largest", "of_largest"]

Array = NDArray[np.float64]

MOST_NODES = 600
"""Beyond this many nodes cutting the range at the steep places is cheaper."""

MOST_COMBINATIONS = 64
"""Beyond this many combinations of components so is adding components up at every node."""


@dataclass(frozen=True, eq=False)
class NoiseMoments:
    """Moments of every noise z over those who choose g, times the chance of that.

    Attributes
    ----------
    chance : (n, k) that g is chosen.
    first : (n, k, k) of z_l at [row, l, g].
    psi : (n, k, k) of the score in a mean, in units of the scale; None where no slopes were wanted,
        as those below.
    fall : (n, k, k) of the score in the logarithm of a scale.
    pair, pair_fall : (n, k, k, k) of z_l times both scores of m, at [row, l, m, g].
    """

    chance: Array
    first: Array
    psi: Array | None = None
    fall: Array | None = None
    pair: Array | None = None
    pair_fall: Array | None = None

    def plus(self, other: NoiseMoments) -> NoiseMoments:
        """Add the moments of another combination."""
        sums: dict[str, Any] = {}
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            sums[field.name] = None if mine is None else mine + theirs
        return NoiseMoments(**sums)


def of_largest(rule: Any, scales: Array, shapes: Sequence[Shape]) -> bool:
    """Say whether the kernel integrates these outcomes."""
    if direction_of(rule) is None:
        return False
    spreads = [shape.normals[:, 2] for shape in shapes if shape.normals is not None]
    if len(spreads) < len(shapes) or _n_combinations(shapes) > MOST_COMBINATIONS:
        return False
    narrowest, widest = ([limit(one) for one in spreads] for limit in (np.min, np.max))
    nodes = (
        nodes_wanted(scales * np.where(np.arange(len(spreads)) == j, widest, narrowest))
        for j in range(len(spreads))
    )
    return max(nodes) <= MOST_NODES


def moments_of_largest(
    rule: Any,
    means: Array,
    scales: Array,
    known: RowData,
    shapes: Sequence[Shape],
    *,
    slopes: bool,
) -> NoiseMoments:
    """Integrate where the largest or the smallest outcome is observed, net of known costs."""
    if _n_combinations(shapes) == 1:
        # It is that of normal noise, whose mean is zero and whose spread is one.
        found = _of_normals(rule, means, scales, known, slopes=slopes)
        psi = found.first if slopes else None
        return NoiseMoments(found.chance, found.first, psi, found.fall, found.pair, found.pair_fall)
    total: NoiseMoments | None = None
    for share, centre, spread in _combinations(shapes):
        found = _of_normals(rule, means + scales * centre, scales * spread, known, slopes=slopes)
        own = _of_combination(found, share, centre, spread)
        total = own if total is None else total.plus(own)
    assert total is not None
    return total


def chances_of_largest(
    rule: Any, means: Array, scales: Array, known: RowData, shapes: Sequence[Shape]
) -> Array:
    """Return the chances (n, k) of the same."""
    total = np.zeros(means.shape)
    for share, centre, spread in _combinations(shapes):
        net = _net(rule, means + scales * centre, known)
        total += share * largest_chances(net, scales * spread, known.available)
    return total


def _n_combinations(shapes: Sequence[Shape]) -> int:
    """Return how many combinations of components there are."""
    return prod(len(shape.normals) for shape in shapes if shape.normals is not None)


def _combinations(shapes: Sequence[Shape]) -> Iterator[tuple[float, Array, Array]]:
    """Yield the share of every combination of components, and its means and spreads (k,)."""
    each = [shape.normals for shape in shapes if shape.normals is not None]
    for parts in product(*each):
        shares, centre, spread = np.array(parts).T
        yield float(shares.prod()), centre, spread


def _of_normals(
    rule: Any, means: Array, scales: Array, known: RowData, *, slopes: bool
) -> LargestMoments:
    found = largest_moments(_net(rule, means, known), scales, known.available, slopes=slopes)
    if direction_of(rule) == 1.0:
        return found
    mirrored = found.pair_fall if found.pair_fall is None else -found.pair_fall
    return found._replace(first=-found.first, pair_fall=mirrored)


def _of_combination(
    found: LargestMoments, share: float, centre: Array, spread: Array
) -> NoiseMoments:
    """Turn moments of standard normal u into those of z = centre + spread u, times the share.

    The scores of z are u / spread in the mean and u² - 1 + centre u / spread in the log scale.
    """
    chance, first = found.chance, found.first
    own, wide = centre[:, None], spread[:, None]
    noise = share * (own * chance[:, None, :] + wide * first)
    if found.fall is None or found.pair is None or found.pair_fall is None:
        return NoiseMoments(share * chance, noise)
    psi = first / wide
    fall = found.fall + own * psi
    pair = own[:, None] * psi[:, None] + wide[:, None] * found.pair / wide
    pair_fall = own[:, None] * fall[:, None] + wide[:, None] * (
        found.pair_fall + own * found.pair / wide
    )
    return NoiseMoments(
        share * chance, noise, share * psi, share * fall, share * pair, share * pair_fall
    )


def _net(rule: Any, means: Array, known: RowData) -> Array:
    """Return what is compared, the largest of which is chosen."""
    way = direction_of(rule)
    assert way is not None
    # Costs are taken off what is sought large, and added to what is sought small.
    return way * means if known.costs is None else way * means - known.costs
