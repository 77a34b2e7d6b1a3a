r"""The Laplace shape: a peak at zero and exponential tails.

With :math:`f(a) = e^{-|a|}/2` the estimates are those of least absolute deviations where nothing is
censored. The log-density has a kink at zero, and no second derivative elsewhere: it is written with
:math:`\sqrt{a^2 + \epsilon^2}` in place of :math:`|a|`, and solvers let :math:`\epsilon` fall. The
two differ by at most :math:`\epsilon` a row, so the log-likelihood reached is within the sum of
these differences of the highest there is.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from selfselect.noises.shapes.base import Array, Grid, Shape, Terms

LOG_TWO = float(np.log(2.0))

SHARPEST = 1e-9
"""The ε of estimates, in scales: far below any standard error, far above rounding."""


class Laplace(Shape):
    """Standard Laplace noise, of standard deviation √2 scales; `width` is ε."""

    name: str = "Laplace"
    log_concave: bool = True
    deviation: float = float(np.sqrt(2.0))
    reach: float = 40.0
    cuts: tuple[float, ...] = (-30.0, -18.0, -9.0, -3.0, 0.0, 3.0, 9.0, 18.0, 30.0)
    grid: Grid = Grid(reach=38.0, step=0.6, panel=3.0, most=2000)

    def __init__(self, width: float = SHARPEST, *, smooth: bool = False) -> None:
        self.width, self.smooth = width, smooth

    def softened(self, width: float) -> Laplace:
        return Laplace(max(width, SHARPEST), smooth=True)

    def density(self, a: Array) -> Terms:
        return Terms(-np.abs(a) - LOG_TWO, -np.sign(a), np.zeros_like(a))

    def observed(self, a: Array) -> Terms:
        far = np.hypot(a, self.width)
        return Terms(-far - LOG_TWO, -a / far, -((self.width / far) ** 2) / far)

    def below(self, a: Array) -> Terms:
        beyond = 0.5 * np.exp(-np.abs(a))
        left = a <= 0
        value = np.where(left, a - LOG_TWO, np.log1p(-beyond))
        slope = np.where(left, 1.0, beyond / (1.0 - beyond))
        return Terms(value, slope, np.where(left, 0.0, -slope * (1.0 + slope)))

    def partial_mean(self, a: Array) -> Array:
        far = np.abs(a)
        mean: Array = -0.5 * (1.0 + far) * np.exp(-far)
        return mean

    def quantile(self, probability: Array) -> Array:
        nearer = 2.0 * np.minimum(probability, 1.0 - probability)
        with np.errstate(divide="ignore"):
            return np.asarray(np.copysign(np.log(nearer), probability - 0.5))

    def draw(self, size: tuple[int, ...], rng: Generator) -> Array:
        return rng.laplace(size=size)


SHAPE = Laplace()
