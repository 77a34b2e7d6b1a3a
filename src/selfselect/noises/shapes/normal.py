"""The normal shape."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from selfselect.kernels import known_index
from selfselect.kernels.fused_known import NORMAL
from selfselect.kernels.joint import Indices, JointTerms, Sides, independent_atoms
from selfselect.kernels.tails import HALF_LOG_TWO_PI, interval_terms, mills_terms, ndtr, ndtri
from selfselect.noises.shapes.base import Array, Between, Codes, Grid, Shape, Terms


class Normal(Shape):
    """Standard normal noise, which the compiled kernels are written for."""

    name: str = "normal"
    normal: bool = True
    kernel: int | None = NORMAL
    log_concave: bool = True
    deviation: float = 1.0
    reach: float = 8.5
    cuts: tuple[float, ...] = (-6.0, -2.0, 0.0, 2.0, 6.0)
    # The trapezoidal rule's error falls faster than any power where functions fade like this one.
    grid: Grid = Grid(reach=8.0, step=0.45, panel=1.5, most=600)
    normals: Array | None = np.array([[1.0, 0.0, 1.0]])

    def density(self, a: Array) -> Terms:
        with np.errstate(over="ignore"):
            value = -0.5 * a * a - HALF_LOG_TWO_PI
        return Terms(value, -a, np.full_like(a, -1.0))

    def below(self, a: Array) -> Terms:
        tail = mills_terms(a)
        return Terms(tail.log_cdf, tail.ratio, -tail.slope)

    def between(self, lower: Array, upper: Array) -> Between:
        found = interval_terms(lower, upper)
        return Between(found.log_mass, found.lower_density, found.upper_density)

    def mass(self, lower: Array, upper: Array) -> Array:
        # Most limits have one side; each side that is open everywhere saves half of the work.
        if np.isneginf(lower).all():
            return np.asarray(ndtr(upper))
        if np.isposinf(upper).all():
            return np.asarray(ndtr(-lower))
        # Differences of ndtr lose digits on the right; reflecting keeps both tails exact.
        found = np.where(lower > 0, ndtr(-lower) - ndtr(-upper), ndtr(upper) - ndtr(lower))
        return np.maximum(found, 0.0)

    def cdf(self, z: Array) -> Array:
        return np.asarray(ndtr(z))

    def pdf(self, z: Array) -> Array:
        # A square that overflows belongs to a density of zero.
        with np.errstate(over="ignore"):
            density: Array = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
        return density

    def partial_mean(self, a: Array) -> Array:
        return -self.pdf(a)

    def partial(self, lower: Array, upper: Array) -> Array:
        if np.isneginf(lower).all():
            return -self.pdf(upper)
        if np.isposinf(upper).all():
            return self.pdf(lower)
        return self.pdf(lower) - self.pdf(upper)

    def quantile(self, probability: Array) -> Array:
        return np.asarray(ndtri(probability))

    def draw(self, size: tuple[int, ...], rng: Generator) -> Array:
        return rng.standard_normal(size)

    def normal_scores(self, a: Array) -> Array:
        return a

    def from_normal(self, z: Array) -> Array:
        return z

    def tail_reach(self, limit: Array) -> Array:
        # The tail fades over one over the distance.
        distance = np.abs(limit)
        reach: Array = self.grid.reach**2 / (np.hypot(self.grid.reach, distance) + distance)
        return reach

    def row_terms(
        self,
        location: Array,
        inverse_scale: float,
        *,
        status: Codes,
        limit: Array,
        upper: Array | None,
    ) -> known_index.BoxTerms:
        return known_index.row_terms(
            location, inverse_scale, status=status, limit=limit, upper=upper
        )

    def atoms(self, a: Array, chosen: Indices, side: Sides, *, curvature: bool) -> JointTerms:
        return independent_atoms(a, chosen, side, curvature=curvature)


SHAPE = Normal()
