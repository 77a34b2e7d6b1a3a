r"""Student's t: tails that fade like a power.

With :math:`\nu` degrees of freedom the density is proportional to
:math:`(1 + a^2/\nu)^{-(\nu+1)/2}`, and the mean over values up to a, times their probability, is
:math:`-f(a)(\nu + a^2)/(\nu - 1)`. With :math:`v = x/\sqrt{\nu + x^2}`, the tail
beyond :math:`x \ge 0` is

.. math:: F(-x) = f(x) \sqrt{\nu + x^2}\, m(v), \qquad
   m(v) = \int_0^1 t^{\nu - 1} (1 - (1 - v^2) t^2)^{-1/2}\, dt.

On [0, 1] the inverse of m has no singularity near: a Chebyshev series of some 25 terms has all its
digits (45 with 500 degrees). So have the derivatives of log F in :math:`\nu`, of which the
logarithm is taken out. Compiled kernels take these series.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np
from numpy.polynomial.chebyshev import chebval
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.kernels.fused_known import STUDENT, StudentTable
from selfselect.kernels.mixture import ShapeTerms
from selfselect.kernels.tails import gammaln, polygamma, psi, stdtr, stdtrit
from selfselect.noises.shapes.base import SHAPE_TERM, Family, Grid, Inner, Shape, Terms

Array = NDArray[np.float64]

FEWEST, MOST = 1.1, 500.0
"""Degrees of freedom that are tried: below 1 there is no mean; beyond, nothing but the normal."""

NO_VARIANCE, NORMAL = 2.05, 100.0
"""Degrees of freedom below which there is no variance, and beyond which the data cannot tell the
shape from the normal one."""

NODES = 64
"""Chebyshev nodes at which the series are computed, more than any of them has terms."""

NEGLIGIBLE = np.array([[1e-15], [1e-13], [1e-13]])
"""Size of the terms that are left out at the end of each series, relative to its largest."""

TINY = 1e-280
"""Mass of a tail below which its logarithm is that of its leading terms."""


def _log_below(degrees: float, a: Array) -> Array:
    """Return log F, also where F itself is lost in rounding."""
    mass = stdtr(degrees, a)
    value = np.log(np.maximum(mass, TINY))
    far = mass < TINY
    if far.any():
        out = -a[far]
        # One over a times the ratio of density and tail, to second order.
        ratio = 1.0 + degrees**2 / (degrees + 2.0) / out**2 * (1.0 + 1.0 / degrees)
        value[far] = _log_density(degrees, out) + np.log(out / degrees) + np.log(ratio)
    return value


def _log_density(degrees: float, a: Array) -> Array:
    constant = gammaln(0.5 * (degrees + 1.0)) - gammaln(0.5 * degrees)
    # A square that overflows has a logarithm all the same.
    far = np.log1p(np.minimum(np.abs(a), 1e150) ** 2 / degrees)
    found: Array = constant - 0.5 * np.log(np.pi * degrees) - 0.5 * (degrees + 1.0) * far
    return found


@lru_cache(maxsize=1)
def _nodes() -> tuple[Array, Array, Array, Array]:
    """Return the nodes v of the series, what makes coefficients of values there, and integrals.

    The last two are log t and the weights (NODES, n) of the integrals over t, which t to the power
    of nu - 1 remains to be multiplied with: those of tanh-sinh quadrature, which bears the ends.
    """
    odd = 2 * np.arange(NODES) + 1
    v = np.cos(0.25 * np.pi * odd / NODES) ** 2
    # Whole turns are taken off as integers: the cosine of a large number has fewer digits.
    turns = np.outer(np.arange(NODES), odd) % (4 * NODES)
    coefficients = np.cos(0.5 * np.pi * turns / NODES) * (2.0 / NODES)
    coefficients[0] *= 0.5
    step = 1.0 / 32.0
    u = np.arange(-4.2, 4.2, step)
    odds = np.exp(-np.pi * np.sinh(u))
    t, rest = 1.0 / (1.0 + odds), odds / (1.0 + odds)
    square = v[:, None] ** 2 + (1.0 - v[:, None] ** 2) * rest * (1.0 + t)
    return v, coefficients, -np.log1p(odds), step * np.pi * np.cosh(u) * t * rest / np.sqrt(square)


@lru_cache(maxsize=256)
def student_table(degrees: float) -> StudentTable:
    """Return one Student distribution as compiled kernels take it.

    The series are of 1/m(v); of d log F/d nu without log(1 + x^2/nu)/2, which is subtracted; and of
    the second derivative.
    """
    nu = degrees
    v, coefficients, log_t, weights = _nodes()
    power = np.exp((nu - 1.0) * log_t)
    m, by_nu, twice_by_nu = (weights @ np.stack([power, power * log_t, power * log_t**2], 1)).T
    square = v * v
    # At a fixed x; v falls with nu by v (1 - v^2)/(2 nu).
    once = by_nu + v / (2.0 * nu) - 0.5 * square * m
    twice = (
        twice_by_nu
        - 0.5 * square * (m / nu + by_nu + once)
        - v * (3.0 - square) / (4.0 * nu**2)
        + 0.5 * square * (1.0 - square) * m / nu
    )
    above, below = 0.5 * (nu + 1.0), 0.5 * nu
    first, second = (
        0.5 * (psi(above) - psi(below)),
        0.25 * float(polygamma(1, above) - polygamma(1, below)),
    )
    ratio = once / m
    values = [
        1.0 / m,
        first + 0.5 * square + ratio,
        second + square**2 / (2.0 * nu) + twice / m - ratio**2,
    ]
    series = np.stack(values) @ coefficients.T
    large = np.abs(series) > NEGLIGIBLE * np.abs(series).max(axis=1, keepdims=True)
    n_terms = int(np.flatnonzero(large.any(axis=0))[-1]) + 1
    level = gammaln(above) - gammaln(below) - 0.5 * np.log(np.pi)
    levels = [nu, level - 0.5 * np.log(nu), level, first - 0.5 / nu, second + 0.5 / nu**2]
    return StudentTable(np.array([levels]), np.ascontiguousarray(series[None, :, :n_terms]))


class StudentShape(Shape):
    """Student's t with known degrees of freedom."""

    name = "Student t"
    log_concave = False
    kernel: int | None

    def __init__(self, degrees: float) -> None:
        self.degrees = degrees
        self.kernel = STUDENT if degrees <= MOST else None
        self.deviation = float(np.sqrt(degrees / (degrees - 2.0))) if degrees > 2 else np.inf
        # Beyond it the mean of the tail is lost in rounding, or the tail is longer than numbers.
        self.reach = float(np.clip(10.0 ** (12.0 / (degrees - 1.0)), 40.0, 1e10))
        growing = np.append(1.5, np.geomspace(3.0, self.reach, 2 + int(np.log(self.reach))))
        self.cuts = (*(-growing[::-1]).tolist(), 0.0, *growing.tolist())
        self.grid = Grid(reach=self.reach, step=0.1, panel=0.5, most=6000, stretched=True)

    @cached_property
    def table(self) -> StudentTable | None:  # type: ignore[override]
        return None if self.kernel is None else student_table(self.degrees)

    def density(self, a: Array) -> Terms:
        nu = self.degrees
        below = nu + a * a
        slope = -(nu + 1.0) * a / below
        return Terms(_log_density(nu, a), slope, -(nu + 1.0) / below - 2.0 * a * slope / below)

    def below(self, a: Array) -> Terms:
        value = _log_below(self.degrees, a)
        density = self.density(a)
        slope = np.exp(density.value - value)
        return Terms(value, slope, slope * (density.slope - slope))

    def partial_mean(self, a: Array) -> Array:
        nu = self.degrees
        log_mean = _log_density(nu, a) + np.log(nu + np.minimum(np.abs(a), 1e150) ** 2)
        found: Array = -np.exp(log_mean) / (nu - 1.0)
        return found

    def quantile(self, probability: Array) -> Array:
        return np.asarray(stdtrit(self.degrees, probability))

    def pdf(self, z: Array) -> Array:
        return np.asarray(np.exp(_log_density(self.degrees, z)))

    def cdf(self, z: Array) -> Array:
        return np.asarray(stdtr(self.degrees, z))

    def mass(self, lower: Array, upper: Array) -> Array:
        nu = self.degrees
        right = lower > 0
        found = np.where(
            right, stdtr(nu, -lower) - stdtr(nu, -upper), stdtr(nu, upper) - stdtr(nu, lower)
        )
        return np.maximum(found, 0.0)

    def draw(self, size: tuple[int, ...], rng: Generator) -> Array:
        return rng.standard_t(self.degrees, size=size)


student_shape = lru_cache(maxsize=256)(StudentShape)


class StudentFamily(Family):
    """Student's t with degrees of freedom that are estimated."""

    compiled = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StudentFamily)

    def __hash__(self) -> int:
        return hash("student")

    @property
    def name(self) -> str:
        return "Student t with degrees of freedom estimated"

    @property
    def terms(self) -> tuple[str, ...]:
        return (f"{SHAPE_TERM}degrees",)

    @property
    def starts(self) -> Array:
        return np.array([6.0])

    def possible(self, values: Array) -> bool:
        return bool(FEWEST < values[0] < MOST)

    def at(self, values: Array) -> Shape:
        return student_shape(float(values[0]))

    def inner(self, values: Array) -> Inner:
        return Inner(values, np.eye(1), np.zeros((1, 1, 1)))

    def table(self, each: Sequence[Array]) -> StudentTable:
        made = [student_table(float(inner[0])) for inner in each]
        n_terms = max(one.series.shape[2] for one in made)
        series = np.zeros((len(made), 3, n_terms))
        for place, one in zip(series, made, strict=True):
            place[:, : one.series.shape[2]] = one.series[0]
        return StudentTable(np.concatenate([one.levels for one in made]), series)

    def evaluate(self, a: Array, side: int, inner: Array, *, curvature: bool) -> ShapeTerms:
        nu = float(inner[0])
        shape = student_shape(nu)
        if side == 0:
            terms, by, twice, mixed = self._density(a, nu)
        else:
            terms = shape.below(side * a)
            terms = Terms(terms.value, side * terms.slope, terms.curvature)
            by, twice = self._tail(side * a, nu)
            _, of_density, _, _ = self._density(a, nu)
            mixed = terms.slope * (of_density - by)
        gradient = np.column_stack([terms.slope, by])
        if not curvature:
            return ShapeTerms(terms.value, gradient, None)
        hessian = np.empty((len(a), 2, 2))
        hessian[:, 0, 0], hessian[:, 1, 1] = terms.curvature, twice
        hessian[:, 0, 1] = hessian[:, 1, 0] = mixed
        return ShapeTerms(terms.value, gradient, hessian)

    def _density(self, a: Array, nu: float) -> tuple[Terms, Array, Array, Array]:
        """Return log f, its first and second derivative in nu, and the mixed one."""
        square = np.minimum(np.abs(a), 1e150) ** 2
        below = nu + square
        once = 0.5 * (psi(0.5 * (nu + 1.0)) - psi(0.5 * nu) - 1.0 / nu)
        by = once - 0.5 * np.log1p(square / nu) + 0.5 * (nu + 1.0) / nu * square / below
        constant = 0.25 * (polygamma(1, 0.5 * (nu + 1.0)) - polygamma(1, 0.5 * nu)) + 0.5 / nu**2
        share = square / below
        twice = constant + share / nu - 0.5 * (nu + 1.0) / nu * share * (1.0 / nu + 1.0 / below)
        mixed = -a / below + (nu + 1.0) * a / below**2
        return student_shape(nu).density(a), by, twice, mixed

    def _tail(self, a: Array, nu: float) -> tuple[Array, Array]:
        """Return the first and second derivative of log F in nu."""
        first, second = student_table(nu).series[0, 1:]
        far = np.minimum(np.abs(a), 1e150)
        at = 2.0 * far / np.sqrt(nu + far**2) - 1.0
        once, twice = chebval(at, first) - 0.5 * np.log1p(far**2 / nu), chebval(at, second)
        # On the right the same of what is left of one.
        right = a > 0
        mass = np.exp(_log_below(nu, -far[right]))
        odds, near = mass / (1.0 - mass), once[right]
        once[right] = -odds * near
        twice[right] = -odds * (twice[right] + near**2) - once[right] ** 2
        return once, twice

    def begins(self) -> list[tuple[str, Array]]:
        return [(f"{nu:g} degrees of freedom", np.array([nu])) for nu in (4.0, 12.0)]

    def boundary(self, values: Array) -> str | None:
        nu = float(values[0])
        if nu > NORMAL:
            return (
                f"{nu:.3g} degrees of freedom cannot be distinguished from the normal "
                "distribution. Use noises.Independent()."
            )
        if nu < NO_VARIANCE:
            return (
                f"with {nu:.3g} degrees of freedom the noise has no variance, so standard errors "
                "and standard deviations mean nothing. Look for outliers, or use shape='laplace'."
            )
        return None
