"""Elliptical slice sampling: needs nothing but membership, has no step size to choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.samplers.base import Draw, Target, find_inside

Array = NDArray[np.float64]

MOST_SHRINKS = 200
"""Each shrink cuts the bracket about in half; after so many only the point itself is left."""


@dataclass(frozen=True)
class EllipticalSlice:
    r"""Move on a random ellipse through the present point, and shrink the arc until inside.

    With fresh normal deviations :math:`\nu`, the ellipse is
    :math:`\mu + (z - \mu)\cos t + \nu \sin t`. A random angle is tried; if its point does not
    explain the row, the arc of angles shrinks towards the present point and another is tried
    (Murray, Adams and MacKay 2010). The target is left exactly invariant. About three calls of
    `choose` per step, more for sets of small mass.
    """

    requires: ClassVar[tuple[type, ...]] = ()
    exact: ClassVar[bool] = False
    steps: ClassVar[int] = 1

    def init(self, target: Target, rng: Generator) -> Array:
        return find_inside(target, rng)

    def step(self, target: Target, latent: Array, rng: Generator) -> Draw:
        center = target.center
        deviation, fresh = latent - center, target.deviations(rng)
        moved = latent.copy()
        angle = rng.uniform(0.0, 2.0 * np.pi, len(latent))
        low, high = angle - 2.0 * np.pi, angle.copy()
        left, part = np.arange(len(latent)), target
        for _ in range(MOST_SHRINKS):
            points = deviation * np.cos(angle)[:, None]
            points += fresh * np.sin(angle)[:, None]
            points += center
            inside = part.contains(points)
            moved[left[inside]] = points[inside]
            out = np.flatnonzero(~inside)
            if out.size == 0:
                break
            left, part, center = left[out], part.take(out), center[out]
            deviation, fresh, angle = deviation[out], fresh[out], angle[out]
            low = np.where(angle < 0, angle, low[out])
            high = np.where(angle < 0, high[out], angle)
            angle = rng.uniform(low, high)
        return Draw.at(target, moved)
