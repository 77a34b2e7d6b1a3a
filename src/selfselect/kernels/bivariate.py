r"""The bivariate normal distribution function in log space, with derivatives.

:math:`\Phi_2(a, b; \rho)` is :math:`\Phi(a)\Phi(b)` and an integral over the correlation from zero
to :math:`\rho` (Plackett; Drezner and Wesolowsky), by Gauss-Legendre on panels that shrink towards
a correlation of one. That is exact to rounding of one. Where the probability itself is small, it
is :math:`\int_{-\infty}^a \phi(s)\,\Phi((b - \rho s)/\sqrt{1 - \rho^2})\,ds` instead, whose
integrand is log-concave: nodes lie around its mode, and logarithms neither underflow nor cancel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.tails import HALF_LOG_TWO_PI, log_cdf, mills_terms

__all__ = ["Angles", "BivariateTerms", "angles", "bivariate_terms", "log_bivariate_cdf"]

Array = NDArray[np.float64]

NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(20)
TAIL_NODES, TAIL_WEIGHTS = np.polynomial.legendre.leggauss(40)

FEWER_NODES = ((0.5, 8), (0.7, 12), (0.9, 20))
"""Correlations up to which one panel of so many nodes is exact to rounding of one."""

SMALL = 1e-5
"""Probability below which it is integrated in log space; above, rounding leaves eleven digits."""
REACH = 9.0
"""Distance from the mode, at which the integrand is below 1e-17 of it: its logarithm is curved by
one and more."""
FALL = 42.0
"""Fall of the integrand's logarithm beyond which the rest is nothing."""
HALVINGS = 60
DOUBLINGS = 6
"""Of the width that the curvature at the mode gives, until nothing of the integrand is left."""


@dataclass(frozen=True, eq=False)
class BivariateTerms:
    """log Φ₂(a, b; tanh t), its slopes (3, n) and curvature (3, 3, n) in a, b and t."""

    log_mass: Array
    slope: Array
    curvature: Array


class Angles(NamedTuple):
    """Nodes of the integral over the correlation, at which exp(c ab - s (a² + b²)) is summed up.

    Attributes
    ----------
    by_square : s of each node.
    by_product : c.
    weight : of the exponential.
    """

    by_square: Array
    by_product: Array
    weight: Array


@lru_cache(maxsize=16)
def angles(rho: float) -> Angles:
    """Return the nodes by which Φ₂ is Φ(a)Φ(b) and a sum; `rho` lies between -1 and 1."""
    angle = math.asin(rho)
    few = [n for largest, n in FEWER_NODES if abs(rho) <= largest]
    nodes, weights = np.polynomial.legendre.leggauss(few[0]) if few else (NODES, NODE_WEIGHTS)
    made = []
    for low, high in [(0.0, angle)] if few else _panels(angle):
        theta = 0.5 * (high + low) + 0.5 * (high - low) * nodes
        sine, inverse = np.sin(theta), 1.0 / np.cos(theta) ** 2
        made.append((0.5 * inverse, sine * inverse, (high - low) * weights / (4.0 * np.pi)))
    return Angles(*(np.concatenate(one) for one in zip(*made, strict=True)))


def log_bivariate_cdf(a: Array, b: Array, rho: float) -> Array:
    """Evaluate log Φ₂ at every pair; `rho` lies strictly between -1 and 1."""
    first, second = log_cdf(a), log_cdf(b)
    angle = math.asin(rho)
    found = np.exp(first + second)
    square = a * a + b * b
    for low, high in _panels(angle):
        theta = 0.5 * (high + low) + 0.5 * (high - low) * NODES
        sine, cosine = np.sin(theta), np.cos(theta)
        inside = np.exp(-(square[:, None] - 2.0 * np.outer(a * b, sine)) / (2.0 * cosine**2))
        found += inside @ (0.5 * (high - low) * NODE_WEIGHTS) / (2.0 * np.pi)
    small = ~(found > SMALL)
    with np.errstate(divide="ignore"):
        log_mass: Array = np.log(np.where(small, 1.0, found))
    if small.any():
        log_mass[small] = _log_tail(a[small], b[small], rho)
    return log_mass


def _panels(angle: float) -> list[tuple[float, float]]:
    """Split the angles from zero to one of them, finer towards a right angle."""
    ends, end, size = [0.0], 0.0, abs(angle)
    while end < size:
        # Each panel ends half way to the right angle.
        end = min(size, end + 0.5 * (0.5 * math.pi - end))
        if size - end < 0.1 * (0.5 * math.pi - size):
            end = size
        ends.append(end)
    sign = math.copysign(1.0, angle)
    return [(sign * low, sign * high) for low, high in pairwise(ends)]


def _log_tail(a: Array, b: Array, rho: float) -> Array:
    """Integrate in log space, over the argument that lies further left."""
    a, b = np.minimum(a, b), np.maximum(a, b)
    q = math.sqrt(1.0 - rho**2)

    def slope(s: Array) -> Array:
        return np.asarray(-s - rho / q * mills_terms((b - rho * s) / q).ratio)

    low, high = a - (REACH + np.abs(a) + np.abs(b) / q), a.copy()
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        rising = slope(middle) > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    mode = np.where(slope(a) > 0, a, high)
    # To the left the logarithm falls at least by its slope at the mode, and by half a square.
    steep = np.maximum(slope(mode), 0.0)
    left = np.minimum(REACH, FALL / np.maximum(steep, FALL / REACH))
    narrow = 1.0 / np.sqrt(1.0 + rho**2 / q**2 * mills_terms((b - rho * mode) / q).slope)

    def value(s: Array) -> Array:
        return np.asarray(-0.5 * s * s - HALF_LOG_TWO_PI + log_cdf((b - rho * s) / q))

    pieces, top = [], value(mode)
    for way, most in ((-1.0, left), (1.0, np.minimum(a - mode, REACH))):
        # It is curved by one at least, and away from the mode by less than there.
        size = np.minimum(narrow, most)
        for _ in range(DOUBLINGS):
            far = top - value(mode + way * size) > FALL
            size = np.where(far, size, np.minimum(2.0 * size, most))
        s = mode + way * 0.5 * np.multiply.outer(1.0 + TAIL_NODES, size)
        with np.errstate(divide="ignore"):
            pieces.append(top + np.log(TAIL_WEIGHTS @ np.exp(value(s) - top) * 0.5 * size))
    return np.asarray(np.logaddexp(*pieces))


def bivariate_terms(a: Array, b: Array, t: float) -> BivariateTerms:
    """Evaluate log Φ₂ with its derivatives, of the correlation on Fisher's scale."""
    rho, q2 = math.tanh(t), 1.0 / math.cosh(t) ** 2
    q = math.sqrt(q2)
    log_mass = log_bivariate_cdf(a, b, rho)
    at_a, at_b = (b - rho * a) / q, (a - rho * b) / q
    with np.errstate(under="ignore"):
        by_a = np.exp(-0.5 * a * a - HALF_LOG_TWO_PI + log_cdf(at_a) - log_mass)
        by_b = np.exp(-0.5 * b * b - HALF_LOG_TWO_PI + log_cdf(at_b) - log_mass)
        density = np.exp(-0.5 * (a * a + at_a * at_a) - 2 * HALF_LOG_TWO_PI - log_mass) / q
    slope = np.stack([by_a, by_b, q2 * density])
    own = np.empty((3, 3, len(a)))
    own[0, 0], own[1, 1] = -a * by_a - rho * density, -b * by_b - rho * density
    own[0, 1] = own[1, 0] = density
    # In t: dρ/dt = q², d²ρ/dt² = -2 ρ q².
    own[0, 2] = own[2, 0] = -density * (a - rho * b)
    own[1, 2] = own[2, 1] = -density * (b - rho * a)
    both = a * b * (1.0 + rho**2) - rho * (a * a + b * b)
    own[2, 2] = density * (both - rho * q2)
    return BivariateTerms(log_mass, slope, own - slope[:, None] * slope[None, :])
