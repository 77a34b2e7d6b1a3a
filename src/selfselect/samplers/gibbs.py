"""One latent outcome after another, each with its exact mean along a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.kernels.tails import ndtri
from selfselect.noises.shapes.normal import SHAPE as NORMAL
from selfselect.samplers.base import Draw, Target, find_inside

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

TOO_OPEN = 0.3
"""Share of a bracket not known to be inside from which on the mean over it says less than the point
drawn."""

SPREAD_LOOKS = np.array([1 / 64, 1 / 16, 1 / 4, 1 / 2, 3 / 4, 15 / 16, 63 / 64])
"""First looks for an end, as shares of the way from the present point to the end of the line: an
interval may be narrow, or have no end on one side."""

EVEN_LOOKS = np.arange(1, 8) / 8
"""Second looks, between the two of the first ones that the end is between."""

MOST_TRIES = 200

UNDERFLOW = 1e-290
"""Mass beyond a point that can no longer be divided: the point is left where it is."""

NEGLIGIBLE = 1e-8
"""Mass of a bracket below which differences of densities are mostly rounding."""


@dataclass(frozen=True)
class Gibbs:
    r"""Draw each latent outcome given all others, and take its mean along the line exactly.

    A convex set cuts a line in one interval, and the noise along it is normal. Looks at points
    spread over the line, and again between those next to an end of the interval, bracket its ends.
    A point is drawn from the bracket, again and closer to the present one while it is outside:
    that draw :math:`t` is exact. With the first one tried, :math:`t_0`, and the mean over the
    bracket :math:`m`, which is known in closed form, :math:`m + t - t_0` has the same mean as
    :math:`t` and scatters by next to nothing where the bracket is tight. Looks at some thirty
    points per outcome, whatever the mass of the set.
    """

    requires: ClassVar[tuple[type, ...]] = ()
    exact: ClassVar[bool] = False
    steps: ClassVar[int] = 1

    def init(self, target: Target, rng: Generator) -> Array:
        return find_inside(target, rng)

    def step(self, target: Target, latent: Array, rng: Generator) -> Draw:
        n, k = latent.shape
        latent = latent.copy()
        first, square = np.zeros_like(latent), np.zeros_like(latent)
        each = np.arange(n)
        others = np.array([np.delete(np.arange(k), j) for j in range(k)]).reshape(k, k - 1)
        for column in others[target.chosen].T:
            line = _Lines.through(target, latent, column)
            drawn, mean, mean_square = line.draw(rng)
            shift = line.middle - target.center[each, column]
            latent[each, column] = line.places(drawn)
            first[each, column] = shift + line.unit * mean
            square[each, column] = (
                shift**2 + 2.0 * shift * line.unit * mean + line.unit**2 * mean_square
            )
        return Draw(latent, first, square)


@dataclass(frozen=True, eq=False)
class _Lines:
    """One line per row, along which one latent outcome varies: `middle + unit * t`, t normal.

    Turned so that the present point is on the left, where small masses keep all their digits.
    """

    target: Target
    latent: Array
    column: Indices
    middle: Array
    unit: Array
    present: Array

    @classmethod
    def through(cls, target: Target, latent: Array, column: Indices) -> _Lines:
        """Take the lines through latent outcomes along one column per row."""
        each = np.arange(len(latent))
        middle, scale = target.center[each, column], target.scales[column]
        if target.correlation is not None:
            precision = np.linalg.inv(target.correlation)
            scaled = (latent - target.center) / target.scales
            own = np.diag(precision)[column]
            pull = np.einsum("nk,nk->n", scaled, precision[column]) / own
            middle = latent[each, column] - scale * pull
            scale = scale / np.sqrt(own)
        at = (latent[each, column] - middle) / scale
        sign = np.where(at > 0, -1.0, 1.0)
        varies = target.spread[each, column] > 0
        return cls(target, latent, column, middle, sign * scale * varies, sign * at)

    def places(self, t: Array) -> Array:
        """Return the outcome at t; exactly the present one where it has not moved."""
        each = np.arange(len(t))
        return np.where(
            t == self.present, self.latent[each, self.column], self.middle + self.unit * t
        )

    def take(self, which: Indices) -> _Lines:
        """Keep some rows."""
        return _Lines(
            self.target.take(which),
            self.latent[which],
            self.column[which],
            self.middle[which],
            self.unit[which],
            self.present[which],
        )

    def contain(self, mass: Array) -> Mask:
        """Say whether the points with a given mass to their left explain the rows."""
        points = self.latent.copy()
        points[np.arange(len(mass)), self.column] = self.middle + self.unit * ndtri(mass)
        return self.target.contains(points)

    def draw(self, rng: Generator) -> tuple[Array, Array, Array]:
        """Return exact draws, and estimates of the means of t and t² with little scatter."""
        present = NORMAL.cdf(self.present)
        outer, inner = self._bracket(present)
        width = outer[1] - outer[0]
        mass = outer[0] + rng.random(len(width)) * width
        tried, drawn = ndtri(mass), self._shrink(mass, outer, present, rng)
        ends = ndtri(outer)
        density = np.exp(-0.5 * ends * ends) / np.sqrt(2.0 * np.pi)
        bent = np.where(density > 0, ends, 0.0) * density
        known = (width > NEGLIGIBLE) & (width - (inner[1] - inner[0]) < TOO_OPEN * width)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = drawn + (density[0] - density[1]) / width - tried
            mean_square = drawn**2 + 1.0 + (bent[0] - bent[1]) / width - tried**2
        return drawn, np.where(known, mean, drawn), np.where(known, mean_square, drawn**2)

    def _bracket(self, present: Array) -> tuple[Array, Array]:
        """Return masses (2, n) left of points outside and inside, at the lower and upper end."""
        outer = np.stack([np.zeros_like(present), np.ones_like(present)])
        inner = np.stack([present, present])
        every = self.take(np.tile(np.arange(len(present)), 2 * len(SPREAD_LOOKS)))
        for looks in (SPREAD_LOOKS, EVEN_LOOKS):
            at = inner + looks[:, None, None] * (outer - inner)
            inside = every.contain(at.ravel()).reshape(at.shape)
            # Of a convex set, the points inside are those next to the present one.
            ends = np.concatenate([inner[None], at, outer[None]])
            last = inside.sum(axis=0)[None]
            inner = np.take_along_axis(ends, last, axis=0)[0]
            outer = np.take_along_axis(ends, last + 1, axis=0)[0]
        return outer, inner

    def _shrink(self, mass: Array, outer: Array, present: Array, rng: Generator) -> Array:
        """Return points with a given mass to their left, drawn again where they are outside."""
        drawn = ndtri(mass)
        still = present < UNDERFLOW
        drawn[still] = self.present[still]
        left = np.flatnonzero(~still)
        lines, mass, low, high = self.take(left), mass[left], outer[0, left], outer[1, left]
        for _ in range(MOST_TRIES):
            out = np.flatnonzero(~lines.contain(mass))
            if out.size == 0:
                return np.asarray(drawn)
            left, lines, mass = left[out], lines.take(out), mass[out]
            # A convex set cannot reach beyond a point outside: the bracket ends there.
            below = mass < present[left]
            low, high = np.where(below, mass, low[out]), np.where(below, high[out], mass)
            mass = low + rng.random(left.size) * (high - low)
            drawn[left] = ndtri(mass)
        drawn[left] = self.present[left]
        return np.asarray(drawn)
