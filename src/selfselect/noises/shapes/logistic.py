r"""The logistic shape: tails heavier than normal ones.

With :math:`F(a) = 1/(1 + e^{-a})` the density is :math:`F(1 - F)`, and the mean over values up to a
is :math:`aF(a) - \log(1 + e^a)`.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from selfselect.kernels.fused_known import LOGISTIC
from selfselect.kernels.tails import expit, logit
from selfselect.noises.shapes.base import Array, Grid, Shape, Terms


class Logistic(Shape):
    """Standard logistic noise, of standard deviation π/√3 scales."""

    name: str = "logistic"
    kernel: int | None = LOGISTIC
    log_concave: bool = True
    deviation: float = float(np.pi / np.sqrt(3.0))
    reach: float = 40.0
    cuts: tuple[float, ...] = (-30.0, -18.0, -9.0, -3.0, 0.0, 3.0, 9.0, 18.0, 30.0)
    grid: Grid = Grid(reach=38.0, step=0.6, panel=3.0, most=2000)

    def density(self, a: Array) -> Terms:
        far = np.abs(a)
        value = -far - 2.0 * np.log1p(np.exp(-far))
        return Terms(value, -np.tanh(0.5 * a), -2.0 * np.exp(value))

    def below(self, a: Array) -> Terms:
        return Terms(-np.logaddexp(0.0, -a), expit(-a), -self.pdf(a))

    def partial_mean(self, a: Array) -> Array:
        # It is even; written for the left, where nothing cancels.
        far = np.abs(a)
        found: Array = -far * expit(-far) - np.log1p(np.exp(-far))
        return found

    def quantile(self, probability: Array) -> Array:
        return np.asarray(logit(probability))

    def draw(self, size: tuple[int, ...], rng: Generator) -> Array:
        return rng.logistic(size=size)


SHAPE = Logistic()
