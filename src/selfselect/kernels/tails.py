r"""Normal tails that stay accurate at any distance: log Φ, the inverse Mills ratio and its slope.

On the left, where everything interesting happens, nothing divides by Φ. With
:math:`\lambda(a) = \phi(a)/\Phi(a)` the identity
:math:`\lambda(a) = \sqrt{2/\pi} / \mathrm{erfcx}(-a/\sqrt 2)` holds on the whole line and never
underflows there. Where Φ is not small the quotient itself is as good, and takes half the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.compiled import extension
from selfselect.kernels.special import erfcx, log_ndtr, ndtr

__all__ = [
    "HALF_LOG_TWO_PI",
    "IntervalTerms",
    "MillsTerms",
    "interval_terms",
    "interval_terms_by_numpy",
    "log_cdf",
    "mills_terms",
    "mills_terms_by_numpy",
]

Array = NDArray[np.float64]

HALF_LOG_TWO_PI: Final = 0.5 * np.log(2.0 * np.pi)
SQRT_TWO_OVER_PI: Final = np.sqrt(2.0 / np.pi)
SQRT_HALF: Final = np.sqrt(0.5)
INV_SQRT_TWO_PI: Final = 1.0 / np.sqrt(2.0 * np.pi)

LEFT: Final = -3.0
"""Left of this λ comes from erfcx; at it the quotient φ/Φ still gives λ + a to 14 digits."""

FAR_LEFT: Final = -30.0
"""Left of this, λ + a loses digits to cancellation and comes from its continued fraction."""

FRACTION_DEPTH: Final = 12
"""Levels of the continued fraction; at |a| = 30 eight already give all digits of a double."""

NARROW: Final = 1.0
"""Width of an interval, and fall of the log density over it, up to which ten nodes are exact."""

NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(10)


@dataclass(frozen=True, eq=False)
class MillsTerms:
    """log Φ(a), λ(a) and d(a) = λ (λ + a), elementwise."""

    log_cdf: Array
    ratio: Array
    slope: Array


def log_cdf(a: Array) -> Array:
    """Evaluate log Φ at every element of `a`, infinite ones too."""
    return np.asarray(log_ndtr(a))


def mills_terms(a: Array) -> MillsTerms:
    """Evaluate log Φ, λ and d = -dλ/da in (0, 1) at every element of `a`."""
    native = extension()
    if native is None:
        return mills_terms_by_numpy(a)
    terms = np.empty((3, a.size))
    native.tails(np.ascontiguousarray(a, dtype=np.float64).reshape(-1), *terms)
    return MillsTerms(*terms.reshape(3, *a.shape))


def mills_terms_by_numpy(a: Array) -> MillsTerms:
    """Do the same by NumPy: the oracle of the compiled function."""
    beyond = ndtr(-np.abs(a))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        density = INV_SQRT_TWO_PI * np.exp(-0.5 * a * a)
        log_cdf = np.where(a < 0, np.log(beyond), np.log1p(-beyond))
        ratio = density / np.where(a < 0, beyond, 1.0 - beyond)
        slope = ratio * (ratio + a)
    left = a < LEFT
    if left.any():
        log_cdf[left], ratio[left], slope[left] = _terms_by_erfcx(a[left])
    return MillsTerms(log_cdf, ratio, slope)


def _terms_by_erfcx(a: Array) -> tuple[Array, Array, Array]:
    ratio = SQRT_TWO_OVER_PI / erfcx(-a * SQRT_HALF)
    gap = ratio + a
    far = a < FAR_LEFT
    gap[far] = _gap_by_fraction(-a[far])
    ratio[far] = gap[far] - a[far]
    return log_ndtr(a), ratio, ratio * gap


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
    """Evaluate the normal mass between `lower` and `upper`, and the relative end densities."""
    native = extension()
    if native is None:
        return interval_terms_by_numpy(lower, upper)
    shape = np.broadcast_shapes(lower.shape, upper.shape)
    ends = (np.ascontiguousarray(np.broadcast_to(end, shape)) for end in (lower, upper))
    terms = np.empty((3, int(np.prod(shape))))
    native.intervals(*(end.reshape(-1) for end in ends), *terms)
    return IntervalTerms(*terms.reshape(3, *shape))


def interval_terms_by_numpy(lower: Array, upper: Array) -> IntervalTerms:
    r"""Evaluate the normal mass between `lower` and `upper`, and the relative end densities.

    The interval is reflected so that its end nearer to zero comes first. The mass over the
    density there is :math:`\int_0^w e^{-at - t^2/2} dt`: by Gauss-Legendre where the interval is
    narrow (a difference of two tails would cancel), else by Mills ratios, which neither
    underflow nor cancel. Where a wide interval holds zero, what lies outside of it is small.
    """
    reflect = lower + upper < 0
    near, far = np.where(reflect, -upper, lower), np.where(reflect, -lower, upper)
    width = far - near
    with np.errstate(over="ignore"):
        fall = 0.5 * width * (far + near)
    around = (near < 0) & (width >= NARROW)
    narrow = (fall < NARROW) & (width < NARROW)
    tail = ~(around | narrow)

    relative = np.empty_like(near)
    t = 0.5 * width[narrow, None] * (1.0 + NODES)
    relative[narrow] = (
        0.5 * width[narrow] * (np.exp(-t * (near[narrow, None] + 0.5 * t)) @ NODE_WEIGHTS)
    )
    relative[tail] = _mills_ratio(near[tail]) - np.exp(-fall[tail]) * _mills_ratio(far[tail])
    outside = ndtr(near[around]) + ndtr(-far[around])
    with np.errstate(over="ignore"):
        log_density = -0.5 * near**2 - HALF_LOG_TWO_PI
        relative[around] = (1.0 - outside) * np.exp(-log_density[around])
        log_mass = log_density + np.log(relative)
        log_mass[around] = np.log1p(-outside)
        near_density, far_density = 1.0 / relative, np.exp(-fall) / relative
    return IntervalTerms(
        log_mass,
        np.where(reflect, far_density, near_density),
        np.where(reflect, near_density, far_density),
    )


def _mills_ratio(x: Array) -> Array:
    """Evaluate (1 - Φ(x)) / φ(x)."""
    ratio: Array = erfcx(x * SQRT_HALF) / SQRT_TWO_OVER_PI
    return ratio
