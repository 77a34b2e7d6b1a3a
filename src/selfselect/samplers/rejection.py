"""Rejection sampling: exact where explaining sets have mass, the referee of all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.errors import RuleError
from selfselect.samplers.base import Draw, Target

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Rejection:
    """Draw from the noise until the row is explained.

    Every draw is exact and independent of the last, at a cost of one over the mass of the
    explaining set.

    Parameters
    ----------
    most_tries : draws after which a row is given up, with an error.
    """

    most_tries: int = 100_000

    requires: ClassVar[tuple[type, ...]] = ()
    exact: ClassVar[bool] = True
    steps: ClassVar[int] = 1

    def init(self, target: Target, rng: Generator) -> Array:
        latent = np.empty_like(target.center)
        left, part = np.arange(len(target)), target
        for _ in range(self.most_tries):
            points = part.center + part.deviations(rng)
            inside = part.contains(points)
            latent[left[inside]] = points[inside]
            if inside.all():
                return latent
            out = np.flatnonzero(~inside)
            left, part = left[out], part.take(out)
        raise RuleError(
            f"Rejection found no latent outcomes that explain {left.size} of {len(target)} rows "
            f"(rows {', '.join(map(str, target.start + left[:3]))}) in {self.most_tries} tries: "
            "their explaining sets have next to no mass. Use EllipticalSlice."
        )

    def step(self, target: Target, latent: Array, rng: Generator) -> Draw:
        del latent
        return Draw.at(target, self.init(target, rng))
