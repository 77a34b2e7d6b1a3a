"""Twelve points spread evenly over a random ellipsoid: many cheap looks, all of them used."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.samplers._inside import find_inside
from selfselect.samplers.base import Draw, Target

__all__ = ["Icosahedral"]

Array = NDArray[np.float64]


def _corners() -> Array:
    """Return the corners (12, 3) of an icosahedron on the unit sphere, the first along an axis."""
    golden = 0.5 * (1.0 + np.sqrt(5.0))
    corners = np.array(
        [
            corner
            for a, b in product((1.0, -1.0), (golden, -golden))
            for corner in ((0.0, a, b), (a, b, 0.0), (b, 0.0, a))
        ]
    )
    corners /= np.linalg.norm(corners[0])
    mirror = corners[0] - np.array([1.0, 0.0, 0.0])
    mirror /= np.linalg.norm(mirror)
    turned: Array = corners - 2.0 * np.outer(corners @ mirror, mirror)
    return turned


CORNERS = _corners()
OTHERS = np.ascontiguousarray(CORNERS[1:])
PAIRS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
MOMENTS = np.ascontiguousarray(
    np.vstack([np.ones(11), OTHERS.T, *(OTHERS[:, a] * OTHERS[:, b] for a, b in PAIRS)])
)
"""Sums over corners that are wanted: how many, their coordinates, the products of those."""


@dataclass(frozen=True)
class Icosahedral:
    r"""Look at twelve points of a random ellipsoid and go to any of those inside.

    The present deviation :math:`z - \mu` and two fresh normal ones span an ellipsoid. The corners
    of an icosahedron on it include the present point. Turning the icosahedron into itself leaves
    the joint normal distribution unchanged, so given its corners each of those inside is equally
    likely: to choose one of them at random leaves the target exactly invariant, and the mean over
    all of them is a conditional expectation, which scatters less than the point chosen. All are
    looked at in one call of `choose`, without a loop over shrinking arcs. Where a set holds much
    of the mass this is several times more precise per second than `EllipticalSlice`; where it
    holds little, all other corners miss it and the chain stands still.
    """

    requires: ClassVar[tuple[type, ...]] = ()
    exact: ClassVar[bool] = False
    steps: ClassVar[int] = 1

    def init(self, target: Target, rng: Generator) -> Array:
        return find_inside(target, rng)

    def step(self, target: Target, latent: Array, rng: Generator) -> Draw:
        n, k = latent.shape
        axes = np.empty((3, n, k))
        np.subtract(latent, target.center, out=axes[0])
        axes[1], axes[2] = target.deviations(rng), target.deviations(rng)
        points = (OTHERS @ axes.reshape(3, n * k)).reshape(11, n, k)
        points += target.center
        inside = target.contains(points)

        # The present point, the corner (1, 0, 0), is inside.
        sums = MOMENTS[: 10 if target.squares else 4] @ inside.astype(np.float64)
        sums[[0, 1, 4] if target.squares else [0, 1]] += 1.0
        count = sums[0].copy()
        sums /= count
        first = axes[0] * sums[1][:, None]
        for axis, share in zip(axes[1:], sums[2:4], strict=True):
            first += axis * share[:, None]
        square = first
        if target.squares:
            square = np.zeros_like(first)
            for (a, b), share in zip(PAIRS, sums[4:], strict=True):
                product_ = axes[a] * axes[b]
                product_ *= (share if a == b else 2.0 * share)[:, None]
                square += product_

        # The number-th corner inside, counted from the present one as number zero.
        number = (rng.random(n) * count).astype(np.int8)
        at = (np.cumsum(inside, axis=0, dtype=np.int8) < number).sum(axis=0)
        at[number > 0] += 1
        corner = CORNERS[at]
        moved = axes[0] * corner[:, [0]]
        moved += axes[1] * corner[:, [1]]
        moved += axes[2] * corner[:, [2]]
        moved += target.center
        return Draw(moved, first, square)
