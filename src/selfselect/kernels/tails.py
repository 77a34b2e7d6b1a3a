"""Tails of the normal distribution, and functions of SciPy that are loaded when called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.compiled import extension

# Polynomials for erfcx, exp and log; `experiments/erfcx_polynomial.py` makes them.
#
# With x = t √2, erfcx(t) = √(2/π) / (x + gap(x)), and the gap is what is stored: it is
# smooth on the whole half line, and no digits cancel where it is wanted for itself.


CENTRE: Final = 3.5
"""K below."""

GAP: Final = (
    1.759738854003898,
    -1.0299783886096476,
    0.21069624634473574,
    0.15371368344127304,
    -0.10078958422801461,
    -0.022180098790743338,
    0.03558751629498637,
    0.002029881836001316,
    -0.01186264447989421,
    0.0002721673457207138,
    0.003867808465371549,
    -0.00020437342949799247,
    -0.0012316426374607324,
    5.552572711087451e-05,
    0.00037629665843801394,
    -4.2916814295049775e-06,
    -0.0001072893424264666,
    -3.675385431391949e-06,
    2.756686355490996e-05,
    2.0924115675619227e-06,
    -6.115895927130362e-06,
    -5.907644787894084e-07,
    1.1048085189734638e-06,
    9.26145657281075e-08,
    -1.4613858731101652e-07,
    -6.120025003418614e-09,
    1.068782117800838e-08,
)
"""(x + K) (λ(-x) - x) in powers of (x - K)/(x + K), constant first, x >= 0."""

EXP: Final = (
    1.0,
    1.0,
    0.5000000000000019,
    0.1666666666666668,
    0.04166666666648795,
    0.008333333333319589,
    0.0013888888952352863,
    0.00019841269890076403,
    2.4801485441561313e-05,
    2.755724088722987e-06,
    2.763265472252779e-07,
    2.5110049204818658e-08,
)
"""exp(r) in powers of r, constant first, for |r| <= log(2)/2."""

LOG: Final = (
    0.6666666666666666,
    0.4000000000000088,
    0.2857142857080323,
    0.2222222239180047,
    0.18181795630884753,
    0.15386240205813478,
    0.13268759668560612,
    0.13086767009948175,
)
"""(log((1+s)/(1-s)) - 2 s)/s³ in powers of s², constant first, |s| < 0.1716."""

# Functions of `scipy.special`, which is loaded when one of them is first called.
#
# Loading it takes as long as fitting a hundred thousand rows, and a fit by compiled kernels calls
# none of them.


class _Function:
    """A function of `scipy.special`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.loaded: Any = None

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if self.loaded is None:
            from scipy import special

            self.loaded = getattr(special, self.name)
        return self.loaded(*arguments, **options)


bdtrik, betaincinv = _Function("bdtrik"), _Function("betaincinv")
chdtrc, chdtri, fdtrc = _Function("chdtrc"), _Function("chdtri"), _Function("fdtrc")
entr, exp1 = _Function("entr"), _Function("exp1")
erfc, erfcx = _Function("erfc"), _Function("erfcx")
expit, logit = _Function("expit"), _Function("logit")
factorial2, gammaln = _Function("factorial2"), _Function("gammaln")
log_ndtr, ndtr = _Function("log_ndtr"), _Function("ndtr")
ndtri, ndtri_exp = _Function("ndtri"), _Function("ndtri_exp")
polygamma, psi = _Function("polygamma"), _Function("psi")
stdtr, stdtrit = _Function("stdtr"), _Function("stdtrit")

# Normal tails that stay accurate at any distance: log Φ, the inverse Mills ratio and its slope.
#
# On the left, where everything interesting happens, nothing divides by Φ. With
# :math:`\lambda(a) = \phi(a)/\Phi(a)` the identity
# :math:`\lambda(a) = \sqrt{2/\pi} / \mathrm{erfcx}(-a/\sqrt 2)` holds on the whole line and never
# underflows there. Where Φ is not small the quotient itself is as good, and takes half the time.


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
