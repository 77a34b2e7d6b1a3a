r"""Normal tails that stay accurate at any distance: log Φ, the inverse Mills ratio and its slope.

Nothing here divides by Φ. With :math:`\lambda(a) = \phi(a)/\Phi(a)` the identity
:math:`\lambda(a) = \sqrt{2/\pi} / \mathrm{erfcx}(-a/\sqrt 2)` holds on the whole line and never
underflows on the left, where everything interesting happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr

__all__ = ["HALF_LOG_TWO_PI", "IntervalTerms", "MillsTerms", "interval_terms", "mills_terms"]

Array = NDArray[np.float64]

HALF_LOG_TWO_PI: Final = 0.5 * np.log(2.0 * np.pi)
SQRT_TWO_OVER_PI: Final = np.sqrt(2.0 / np.pi)
SQRT_HALF: Final = np.sqrt(0.5)

FAR_LEFT: Final = -30.0
"""Left of this, λ + a loses digits to cancellation and comes from its continued fraction."""

FRACTION_DEPTH: Final = 12
"""Levels of the continued fraction; at |a| = 30 eight already give all digits of a double."""


@dataclass(frozen=True, eq=False)
class MillsTerms:
    """log Φ(a), λ(a) and d(a) = λ (λ + a), elementwise."""

    log_cdf: Array
    ratio: Array
    slope: Array


def mills_terms(a: Array) -> MillsTerms:
    """Evaluate log Φ, λ and d = -dλ/da in (0, 1) at every element of `a`."""
    with np.errstate(over="ignore"):
        ratio = SQRT_TWO_OVER_PI / erfcx(-a * SQRT_HALF)
    gap = ratio + a
    far = a < FAR_LEFT
    if far.any():
        gap[far] = _gap_by_fraction(-a[far])
        ratio[far] = gap[far] - a[far]
    return MillsTerms(log_ndtr(a), ratio, ratio * gap)


def _gap_by_fraction(distance: Array) -> Array:
    """Evaluate λ(-x) - x = 1/(x + 2/(x + 3/(x + ...))) for large positive x."""
    tail = distance.copy()
    for level in range(FRACTION_DEPTH, 1, -1):
        tail = distance + level / tail
    return 1.0 / tail


@dataclass(frozen=True, eq=False)
class IntervalTerms:
    """log P(a < Z < b), and the densities φ(a)/P and φ(b)/P at its two ends."""

    log_mass: Array
    lower_density: Array
    upper_density: Array


def interval_terms(lower: Array, upper: Array) -> IntervalTerms:
    """Evaluate the normal mass between `lower` and `upper`, and the relative end densities.

    An interval right of zero is reflected to the left first: there Φ is small and exact, on the
    right 1 - Φ would have to be recovered from a number that rounds to one.
    """
    reflect = lower + upper > 0
    left = np.where(reflect, -upper, lower)
    right = np.where(reflect, -lower, upper)
    log_right = log_ndtr(right)
    log_mass = log_right + np.log(-np.expm1(log_ndtr(left) - log_right))
    lower_density = np.exp(-0.5 * lower**2 - HALF_LOG_TWO_PI - log_mass)
    upper_density = np.exp(-0.5 * upper**2 - HALF_LOG_TWO_PI - log_mass)
    return IntervalTerms(log_mass, lower_density, upper_density)
