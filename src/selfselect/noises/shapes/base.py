"""What the shape of one alternative's noise is asked, and shapes with parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.kernels.fused_known import StudentTable
from selfselect.kernels.joint import Indices, JointTerms, Sides
from selfselect.kernels.known_index import ABOVE, BELOW, BETWEEN, OBSERVED, BoxTerms
from selfselect.kernels.mixture import ShapeSums, ShapeTerms, summed
from selfselect.kernels.tails import ndtr, ndtri_exp

Array = NDArray[np.float64]


# The contract of shapes: the distribution of one alternative's noise, in units of its scale.
#
# Every likelihood, prediction and test needs of a shape only its density f, its distribution
# function F, and their derivatives. With :math:`a = h c - g'x`, an alternative adds
#
# * chosen: :math:`\log h + \log f(a)`
# * below its limit: :math:`\log F(a)`;  above it: :math:`\log(1 - F(a))`
# * between two limits: :math:`\log(F(b) - F(a))`
#
# to the log-likelihood. A new shape gives `density`, `below`, `partial_mean` and `quantile`; one
# that is not symmetric gives `above` as well. The rest follows.

Codes = NDArray[np.int8]


class Terms(NamedTuple):
    """A logarithm, and its first and second derivatives."""

    value: Array
    slope: Array
    curvature: Array


class Between(NamedTuple):
    """The log mass between two limits, and the densities at both over that mass."""

    log_mass: Array
    lower_density: Array
    upper_density: Array


class Grid(NamedTuple):
    """Where an outcome that was not recorded is integrated, in units of the scale.

    Attributes
    ----------
    reach : how far around the mean.
    step : of the trapezoidal rule, where the outcome has no limits; of the narrowest factor.
    panel : width of a panel of ten Gauss-Legendre nodes, between limits; of the narrowest factor.
    most : nodes that are taken at most.
    far : how far out limits leave a tail only, which fades from the limit on.
    stretched : whether tails fade so slowly that the integral is over u in a = sinh(u); `panel` is
        then in units of u.
    """

    reach: float
    step: float
    panel: float
    most: int
    far: float = 3.0
    stretched: bool = False


class Shape(ABC):
    """A distribution with mean zero.

    Attributes
    ----------
    name : the first words of what summaries say of the noise.
    normal : whether it is the normal distribution, which tests and compiled kernels know.
    kernel : its number in compiled passes; None where they do not know it.
    table : what these take of Student's t; None for other shapes.
    log_concave : whether its density is.
    smooth : whether its log-density has no kink; solvers come to one by `softened` shapes, and
        standard errors from the outer product of scores.
    deviation : its standard deviation, in units of the scale.
    reach : how many scales from zero its mass is lost in rounding.
    cuts : scales around a mean at which integrals are cut: between two of them ten nodes are exact,
        as they are between the last but one on each side and the reach.
    grid : where outcomes that were not recorded are integrated.
    finest : the distance over which its distribution function changes, in scales.
    normals : (M, 3) shares, means and spreads of the normal distributions it is a mixture of; None
        where it is none.
    """

    name: str
    normal: bool = False
    kernel: int | None = None
    table: StudentTable | None = None
    log_concave: bool
    smooth: bool = True
    deviation: float
    reach: float
    cuts: tuple[float, ...]
    grid: Grid
    finest: float = 1.0
    normals: Array | None = None

    @abstractmethod
    def density(self, a: Array) -> Terms:
        """Return log f and its derivatives."""

    @abstractmethod
    def below(self, a: Array) -> Terms:
        """Return log F and its derivatives."""

    @abstractmethod
    def partial_mean(self, a: Array) -> Array:
        """Return the mean of the noise over values up to `a`, times their probability."""

    @abstractmethod
    def quantile(self, probability: Array) -> Array:
        """Return where F reaches a probability."""

    def observed(self, a: Array) -> Terms:
        """Return log f as the likelihood of an observed outcome takes it: with kinks rounded."""
        return self.density(a)

    def softened(self, width: float) -> Shape:
        """Return the shape with kinks rounded over that width; here itself: there are none."""
        del width
        return self

    def tail_reach(self, limit: Array) -> Array:
        """Return how far beyond a limit, away from zero, the tail is integrated.

        Here for tails that fade exponentially: as far from any limit.
        """
        return np.full_like(limit, self.grid.reach)

    def above(self, a: Array) -> Terms:
        """Return log(1 - F) and its derivatives; here for shapes that are symmetric."""
        value, slope, curvature = self.below(-a)
        return Terms(value, -slope, curvature)

    def between(self, lower: Array, upper: Array) -> Between:
        """Return the log mass between two limits, and relative densities at both."""
        right = lower > 0
        low = np.where(right, self.above(upper).value, self.below(lower).value)
        high = np.where(right, self.above(lower).value, self.below(upper).value)
        with np.errstate(divide="ignore"):
            log_mass = high + np.log(-np.expm1(low - high))
        ends = [np.exp(self.density(end).value - log_mass) for end in (lower, upper)]
        return Between(log_mass, *ends)

    def cdf(self, z: Array) -> Array:
        """Return the distribution function F."""
        return self.mass(np.full_like(z, -np.inf), z)

    def pdf(self, z: Array) -> Array:
        """Return the density f."""
        return np.exp(self.density(z).value)

    def partial(self, lower: Array, upper: Array) -> Array:
        """Return the mean of the noise between two limits, times their probability."""
        found = np.zeros(np.broadcast_shapes(lower.shape, upper.shape))
        for limit, sign in ((upper, 1.0), (lower, -1.0)):
            inside = np.isfinite(limit)
            if inside.any():
                found[inside] += sign * self.partial_mean(limit[inside])
        return found

    def mass_and_partial(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return both together, for shapes in which the second is made of the first."""
        return self.mass(lower, upper), self.partial(lower, upper)

    def mean_between(self, lower: Array, upper: Array) -> Array:
        """Return the mean of the noise given that it lies between two limits."""
        mass, partial = self.mass_and_partial(lower, upper)
        # Where the mass is lost in rounding all of it is next to the limit that is nearer to zero.
        nearer = np.where(np.abs(lower) < np.abs(upper), lower, upper)
        return np.divide(partial, mass, out=nearer, where=mass > 0)

    def residuals(self, a: Array, chosen: Indices, side: Sides) -> Array:
        """Return the mean (n, k) of the noise given each atom."""
        each = np.arange(len(a))
        found = self.mean_between(np.where(side < 0, a, -np.inf), np.where(side > 0, a, np.inf))
        found[each, chosen] = a[each, chosen]
        return found

    def draw(self, size: tuple[int, ...], rng: Generator) -> Array:
        """Draw noise in units of the scale."""
        return self.quantile(rng.uniform(size=size))

    def normal_scores(self, a: Array) -> Array:
        """Return where a normal distribution has as much mass below as this one has below `a`.

        So noise of any shape becomes standard normal, and what lies below a limit stays below it.
        """
        below, above = self.below(a).value, self.above(a).value
        return np.where(below < above, ndtri_exp(below), -np.asarray(ndtri_exp(above)))

    def from_normal(self, z: Array) -> Array:
        """Return noise whose normal scores are `z`."""
        return self.quantile(np.asarray(ndtr(z)))

    def mass(self, lower: Array, upper: Array) -> Array:
        """Return the probability between two limits, of which either may be infinite."""
        if np.isneginf(lower).all():
            return np.exp(self.below(upper).value)
        if np.isposinf(upper).all():
            return np.exp(self.above(lower).value)
        right = lower > 0
        low = np.where(right, self.above(upper).value, self.below(lower).value)
        high = np.where(right, self.above(lower).value, self.below(upper).value)
        return np.maximum(np.exp(high) - np.exp(low), 0.0)

    def row_terms(
        self,
        location: Array,
        inverse_scale: float,
        *,
        status: Codes,
        limit: Array,
        upper: Array | None,
    ) -> BoxTerms:
        """Evaluate one alternative's terms: see `kernels.known_index.row_terms`."""
        n_rows = len(location)
        loglik, residual, curvature = np.zeros((3, n_rows))
        for code, term in ((OBSERVED, self.observed), (BELOW, self.below), (ABOVE, self.above)):
            here = status == code
            if here.any():
                value, slope, second = term(inverse_scale * limit[here] - location[here])
                loglik[here], residual[here], curvature[here] = value, -slope, second
        # One limit c moves only a = h c - g'x, so derivatives in h are those in g times -c.
        informative = np.where(status <= ABOVE, limit, 0.0)
        score_h = -residual * informative
        curvature_gh = -curvature * informative
        curvature_hh = -curvature_gh * informative
        chosen = status == OBSERVED
        loglik[chosen] += np.log(inverse_scale)
        score_h[chosen] += 1.0 / inverse_scale
        curvature_hh[chosen] -= 1.0 / inverse_scale**2
        between = status == BETWEEN
        if upper is not None and between.any():
            low, high = limit[between], upper[between]
            ends = [inverse_scale * end - location[between] for end in (low, high)]
            mass = self.between(*ends)
            # Derivatives of the densities at the ends, over the mass.
            turn_low = mass.lower_density * self.density(ends[0]).slope
            turn_high = mass.upper_density * self.density(ends[1]).slope
            along_g = mass.lower_density - mass.upper_density
            along_h = mass.upper_density * high - mass.lower_density * low
            loglik[between], residual[between], score_h[between] = mass.log_mass, along_g, along_h
            curvature[between] = turn_high - turn_low - along_g**2
            curvature_gh[between] = turn_low * low - turn_high * high - along_g * along_h
            curvature_hh[between] = turn_high * high**2 - turn_low * low**2 - along_h**2
        return BoxTerms(loglik, residual, score_h, curvature, curvature_gh, curvature_hh)

    def atoms(self, a: Array, chosen: Indices, side: Sides, *, curvature: bool) -> JointTerms:
        """Evaluate atoms under independence: see `kernels.joint.independent_atoms`."""
        n_atoms, k = a.shape
        each = np.arange(n_atoms)
        code = side.copy()
        code[each, chosen] = 2
        value, slope, second = np.zeros((3, n_atoms, k))
        for which, term in ((2, self.observed), (1, self.below), (-1, self.above)):
            here = code == which
            if here.any():
                value[here], slope[here], second[here] = term(a[here])
        hessian = None
        if curvature:
            hessian = np.zeros((n_atoms, k, k))
            hessian[:, np.arange(k), np.arange(k)] = second
        return JointTerms(value.sum(axis=1), slope, hessian)


# Shapes with parameters of their own, which are estimated with everything else.
#
# A family is not a shape but gives one at every value of its parameters. Its logarithms are
# differentiated in *inner* parameters, in which they are simple; those that are estimated may be
# fewer, where the inner ones obey restrictions such as a mean of zero.


AT_VALUE, BELOW_LIMIT, ABOVE_LIMIT = 0, 1, -1
"""What is known of an outcome: its value, or on which side of a limit it lies."""

SHAPE_TERM = "shape: "
"""How the names of a shape's parameters begin in tables."""


class Inner(NamedTuple):
    """Inner parameters with their derivatives in those that are estimated.

    Attributes
    ----------
    values : (m,)
    slope : (m, q)
    bend : (m, q, q)
    """

    values: Array
    slope: Array
    bend: Array


class Family(ABC):
    """Shapes that differ in parameters.

    Attributes
    ----------
    name : the first words of what summaries say of the noise.
    components : how many normal components it has, where it is a mixture of these, whose inner
        parameters are shares, means and spreads: compiled kernels know them. None elsewhere.
    compiled : whether compiled passes know the family.
    """

    components: int | None = None
    compiled: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def terms(self) -> tuple[str, ...]:
        """Names of the parameters, as tables show them."""

    @property
    @abstractmethod
    def starts(self) -> Array:
        """Where they begin, (q,)."""

    @abstractmethod
    def possible(self, values: Array) -> bool:
        """Say whether there is a shape with these parameters (q,)."""

    @abstractmethod
    def at(self, values: Array) -> Shape:
        """Return the shape with these parameters (q,)."""

    @abstractmethod
    def inner(self, values: Array) -> Inner:
        """Return the inner parameters."""

    @abstractmethod
    def evaluate(self, a: Array, side: int, inner: Array, *, curvature: bool) -> ShapeTerms:
        """Return log f (side 0), log F (1) or log(1 - F) (-1) with derivatives in a and inner."""

    def table(self, each: Sequence[Array]) -> StudentTable | None:
        """Return shapes of Student's t, by inner parameters, as compiled kernels take them.

        None for other families.
        """
        del each
        return None

    def sums(
        self, a: Array, status: Codes, inner: Array, weights: Array, *, curvature: bool
    ) -> ShapeSums:
        """Evaluate an alternative's rows by their status: see `kernels.mixture.summed`."""

        def evaluate(some: Array, side: int) -> ShapeTerms:
            return self.evaluate(some, side, inner, curvature=curvature)

        return summed(evaluate, a, status, weights, len(inner))

    @abstractmethod
    def begins(self) -> list[tuple[str, Array]]:
        """Return where searches begin, with names."""

    @abstractmethod
    def boundary(self, values: Array) -> str | None:
        """Return words for what is at its limit; None if nothing is."""

    def arranged(self, values: Array) -> Array:
        """Return the parameters of the same shape in the order that is agreed on; here as given."""
        return values

    def describe(self, values: Array) -> str | None:
        """Say more of a shape than its parameters do; here nothing."""
        del values
        return None

    def degenerate(self, values: Array) -> str | None:
        """Say why an optimum there is none of the model, so that it is discarded; else None."""
        del values
        return None

    def between(self, lower: Array, upper: Array, inner: Array, *, curvature: bool) -> ShapeTerms:
        """Return log(F(b) - F(a)) with derivatives in a, b and the inner parameters."""
        n, m = len(lower), len(inner)
        # The tail in which the interval lies keeps the digits of a difference.
        right = lower > 0
        value, gradient = np.empty(n), np.empty((n, 2 + m))
        hessian = np.empty((n, 2 + m, 2 + m)) if curvature else None
        for here, side in ((right, ABOVE_LIMIT), (~right, BELOW_LIMIT)):
            if not here.any():
                continue
            ends = [
                self.evaluate(end[here], side, inner, curvature=curvature) for end in (lower, upper)
            ]
            signs = (-1.0, 1.0) if side == BELOW_LIMIT else (1.0, -1.0)
            larger = ends[1].value if side == BELOW_LIMIT else ends[0].value
            smaller = ends[0].value if side == BELOW_LIMIT else ends[1].value
            mass = larger + np.log(-np.expm1(smaller - larger))
            value[here] = mass
            slope = np.zeros((here.sum(), 2 + m))
            second = np.zeros((here.sum(), 2 + m, 2 + m)) if curvature else None
            for place, (end, sign) in enumerate(zip(ends, signs, strict=True)):
                weight = sign * np.exp(end.value - mass)
                at = np.array([place, *range(2, 2 + m)])
                slope[:, at] += weight[:, None] * end.gradient
                if second is not None and end.hessian is not None:
                    both = end.gradient[:, :, None] * end.gradient[:, None, :]
                    second[:, at[:, None], at] += weight[:, None, None] * (end.hessian + both)
            gradient[here] = slope
            if second is not None and hessian is not None:
                hessian[here] = second - slope[:, :, None] * slope[:, None, :]
        return ShapeTerms(value, gradient, hessian)


def chained(terms: ShapeTerms, inner: Inner, first: int = 1) -> ShapeTerms:
    """Return derivatives in a (the `first` inputs) and the parameters that are estimated."""
    n, q = len(terms.value), inner.slope.shape[1]
    gradient = np.empty((n, first + q))
    gradient[:, :first] = terms.gradient[:, :first]
    gradient[:, first:] = terms.gradient[:, first:] @ inner.slope
    if terms.hessian is None:
        return ShapeTerms(terms.value, gradient, None)
    hessian = np.empty((n, first + q, first + q))
    hessian[:, :first, :first] = terms.hessian[:, :first, :first]
    cross = terms.hessian[:, :first, first:] @ inner.slope
    hessian[:, :first, first:] = cross
    hessian[:, first:, :first] = cross.transpose(0, 2, 1)
    hessian[:, first:, first:] = inner.slope.T @ terms.hessian[:, first:, first:] @ inner.slope
    hessian[:, first:, first:] += np.tensordot(terms.gradient[:, first:], inner.bend, axes=(1, 0))
    return ShapeTerms(terms.value, gradient, hessian)
