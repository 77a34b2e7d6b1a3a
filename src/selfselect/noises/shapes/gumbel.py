r"""The Gumbel shape of maxima: a long right tail.

With :math:`t = a + \gamma` and Euler's :math:`\gamma`, so that the mean is zero,
:math:`F(a) = \exp(-e^{-t})`. The largest of outcomes with such noise and one scale has it too, and
their choice is a multinomial logit. The mean over values up to a, times their probability, is
:math:`aF(a) - E_1(e^{-t})` with the exponential integral :math:`E_1`.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from selfselect.kernels.fused_known import GUMBEL
from selfselect.kernels.tails import exp1
from selfselect.noises.shapes.base import Array, Grid, Shape, Terms

FARTHEST, END = -100.0, -1e90
"""Below the first e^-t goes on as its quadratic expansion: the likelihood is exp(-1e43) there.
Below the second all is as it is there, so that an infinite a has a density of zero."""

SERIES = np.cumprod(np.append(1.0, -1.0 / np.arange(2.0, 19.0))) / np.arange(1.0, 19.0)
"""Coefficients of E, E², ... in -γ - log E - E_1(E) = -(E - E²/4 + E³/18 - ...), less the sign."""

SMALL = 1e-2
"""Below this E the difference of E/(1 - e^-E) and 1 is a series."""


def powers(t: Array) -> Terms:
    """Return e^-t with its derivatives in t, finite everywhere."""
    at, beyond = np.exp(-np.maximum(t, FARTHEST)), np.clip(FARTHEST - t, 0.0, -END)
    return Terms(at * (1.0 + beyond + 0.5 * beyond**2), -at * (1.0 + beyond), at)


class Gumbel(Shape):
    """Standard Gumbel noise of maxima less its mean, of standard deviation π/√6 scales."""

    name: str = "Gumbel (maxima)"
    kernel: int | None = GUMBEL
    log_concave: bool = True
    deviation: float = float(np.pi / np.sqrt(6.0))
    reach: float = 40.0
    cuts: tuple[float, ...] = (
        -6.0, -4.5, -3.0, -2.0, -1.0, 0.0, 1.5, 3.5, 7.0, 12.0, 20.0, 30.0,
    )  # fmt: skip
    grid: Grid = Grid(reach=38.0, step=0.3, panel=1.0, most=4000, far=1.0)

    def density(self, a: Array) -> Terms:
        t = np.maximum(a + np.euler_gamma, END)
        value, slope, curvature = powers(t)
        return Terms(-t - value, -1.0 - slope, -curvature)

    def below(self, a: Array) -> Terms:
        value, slope, curvature = powers(a + np.euler_gamma)
        return Terms(-value, -slope, -curvature)

    def above(self, a: Array) -> Terms:
        t = a + np.euler_gamma
        power = powers(t).value
        mass = -np.expm1(-power)
        some = power > SMALL
        safe, small = np.where(some, mass, 1.0), np.where(some, 0.0, power)
        # For small E the ratio E/(1 - e^-E) is 1 + E/2 + E²/12 - E⁴/720.
        excess = np.where(some, power / safe - 1.0, small * (0.5 + small / 12.0 - small**3 / 720.0))
        # Where almost all of the mass is above, its logarithm has the digits of what is not.
        whole = np.where(power > 1.0, np.log1p(-np.exp(-np.maximum(power, 1.0))), np.log(safe))
        value = np.where(some, whole, -t - np.log1p(excess))
        slope = (1.0 + excess) * np.exp(-power)
        return Terms(value, -slope, -slope * excess)

    def partial_mean(self, a: Array) -> Array:
        power = powers(a + np.euler_gamma).value
        few = power < 1.0
        small = np.where(few, power, 0.0)
        # On the right aF and E_1 cancel; what is left is written without their common part.
        right = a * np.expm1(-small) - small * np.polynomial.polynomial.polyval(small, SERIES)
        left = a * np.exp(-power) - exp1(np.where(few, 1.0, power))
        return np.where(few, right, left)

    def quantile(self, probability: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(-np.log(-np.log(probability)) - np.euler_gamma)

    def draw(self, size: tuple[int, ...], rng: Generator) -> Array:
        return rng.gumbel(-np.euler_gamma, size=size)

    def tail_reach(self, limit: Array) -> Array:
        # On the left the tail fades over one over the derivative of e^-t.
        steep = powers(limit + np.euler_gamma).value
        return np.where(limit > 0, self.grid.reach, self.grid.reach / np.maximum(steep, 1.0))


SHAPE = Gumbel()
