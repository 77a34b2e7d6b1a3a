"""The Gumbel shape of minima: a long left tail; R's survreg calls it extreme.

It is the distribution of minus a noise of the Gumbel shape of maxima. The logarithm of a Weibull
duration has it.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from selfselect.kernels.fused_known import GUMBEL_MIN
from selfselect.noises.shapes.base import Array, Grid, Shape, Terms
from selfselect.noises.shapes.gumbel import SHAPE as MAXIMA


def _mirrored(terms: Terms) -> Terms:
    return Terms(terms.value, -terms.slope, terms.curvature)


class GumbelMin(Shape):
    """Standard Gumbel noise of minima less its mean, of standard deviation π/√6 scales."""

    name: str = "Gumbel (minima)"
    kernel: int | None = GUMBEL_MIN
    log_concave: bool = True
    deviation: float = MAXIMA.deviation
    reach: float = MAXIMA.reach
    cuts: tuple[float, ...] = tuple(-cut for cut in reversed(MAXIMA.cuts))
    grid: Grid = MAXIMA.grid

    def density(self, a: Array) -> Terms:
        return _mirrored(MAXIMA.density(-a))

    def below(self, a: Array) -> Terms:
        return _mirrored(MAXIMA.above(-a))

    def above(self, a: Array) -> Terms:
        return _mirrored(MAXIMA.below(-a))

    def partial_mean(self, a: Array) -> Array:
        # The mean is zero, so what lies below a balances what lies above it.
        return MAXIMA.partial_mean(-a)

    def quantile(self, probability: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(-np.log1p(-probability)) + np.euler_gamma)

    def draw(self, size: tuple[int, ...], rng: Generator) -> Array:
        return -MAXIMA.draw(size, rng)

    def tail_reach(self, limit: Array) -> Array:
        return MAXIMA.tail_reach(-limit)


SHAPE = GumbelMin()
