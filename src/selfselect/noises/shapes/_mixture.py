r"""Mixtures of normal distributions with mean zero and variance one.

The shares, means and spreads of all components but the first are estimated. Those of the first
follow from :math:`\sum\pi = 1`, :math:`\sum\pi\mu = 0` and :math:`\sum\pi(s^2 + \mu^2) = 1`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.kernels.known_index import ABOVE, BELOW, OBSERVED
from selfselect.kernels.mixture import ShapeSums, ShapeTerms, mixture_sums, mixture_terms
from selfselect.noises.shapes.base import SHAPE_TERM, Codes, Family, Grid, Inner, Shape, Terms
from selfselect.noises.shapes.normal import SHAPE as NORMAL

Array = NDArray[np.float64]

FLOOR = 0.05
"""Smallest spread of a component, in standard deviations of the noise. The likelihood has no limit
where a component collapses onto outcomes that are close together, so spreads need a limit."""

FEWEST = 0.005
"""Share of a component below which the data does not show it."""

HALVINGS = 60
"""Of the interval in which a quantile lies: to the last digit."""


class MixtureShape(Shape):
    """A mixture of normal distributions; `components` are (M, 3) shares, means and spreads."""

    name = "normal-mixture"
    log_concave = False
    deviation = 1.0

    def __init__(self, components: Array) -> None:
        self.components = self.normals = components
        _, mean, spread = components.T
        at = mean[:, None] + spread[:, None] * np.array(NORMAL.cuts)
        self.reach = float((np.abs(mean) + NORMAL.reach * spread).max())
        # The component that ends first on a side may be narrow beside what is left up to the reach.
        self.cuts = (-self.reach, *np.sort(at.ravel()).tolist(), self.reach)
        reach = float((np.abs(mean) + NORMAL.grid.reach * spread).max())
        self.finest = float(spread.min())
        self.grid = Grid(reach, NORMAL.grid.step, NORMAL.grid.panel, most=6000)

    def _terms(self, a: Array, side: int) -> Terms:
        parts = _on_side(a.ravel(), side, self.components, curvature=True)[:3]
        return Terms(*(part.reshape(a.shape) for part in parts))

    def density(self, a: Array) -> Terms:
        return self._terms(a, 0)

    def below(self, a: Array) -> Terms:
        return self._terms(a, 1)

    def above(self, a: Array) -> Terms:
        return self._terms(a, -1)

    def mass(self, lower: Array, upper: Array) -> Array:
        found = np.zeros(np.broadcast_shapes(lower.shape, upper.shape))
        for share, mean, spread in self.components:
            found += share * NORMAL.mass((lower - mean) / spread, (upper - mean) / spread)
        return found

    def pdf(self, z: Array) -> Array:
        found = np.zeros(z.shape)
        for share, mean, spread in self.components:
            found += share / spread * NORMAL.pdf((z - mean) / spread)
        return found

    def partial_mean(self, a: Array) -> Array:
        found = np.zeros(a.shape)
        for share, mean, spread in self.components:
            z = (a - mean) / spread
            found += share * (mean * NORMAL.cdf(z) - spread * NORMAL.pdf(z))
        return found

    def partial(self, lower: Array, upper: Array) -> Array:
        return self.mass_and_partial(lower, upper)[1]

    def mass_and_partial(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        mass, partial = np.zeros((2, *np.broadcast_shapes(lower.shape, upper.shape)))
        for share, mean, spread in self.components:
            ends = (lower - mean) / spread, (upper - mean) / spread
            own = NORMAL.mass(*ends)
            mass += share * own
            partial += share * (mean * own + spread * NORMAL.partial(*ends))
        return mass, partial

    def quantile(self, probability: Array) -> Array:
        low = np.full(np.shape(probability), -self.reach)
        high = -low
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            under = self.cdf(middle) < probability
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        return 0.5 * (low + high)

    def draw(self, size: tuple[int, ...], rng: Generator) -> Array:
        share, mean, spread = self.components.T
        which = np.searchsorted(np.cumsum(share)[:-1], rng.uniform(size=size))
        return mean[which] + spread[which] * rng.standard_normal(size)


def _on_side(a: Array, side: int, components: Array, *, curvature: bool) -> ShapeSums:
    """Evaluate log f (side 0), log F (1) or log(1 - F) (-1) at `a` (n,)."""
    status = np.full(len(a), {0: OBSERVED, 1: BELOW, -1: ABOVE}[side], dtype=np.int8)
    return mixture_sums(a, status, components, np.ones(len(a)), curvature=curvature)


@dataclass(frozen=True)
class MixtureFamily(Family):
    """Mixtures of so many normal distributions."""

    components: int = 2
    compiled: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"mixture of {self.components} normals"

    @property
    def terms(self) -> tuple[str, ...]:
        rest = range(2, self.components + 1)
        return tuple(
            f"{SHAPE_TERM}{what} {m}" for what in ("share", "mean", "spread") for m in rest
        )

    @property
    def starts(self) -> Array:
        return self.begins()[0][1]

    def possible(self, values: Array) -> bool:
        share, _, spread = values.reshape(3, -1)
        if not (np.isfinite(values).all() and share.min() > 0.0 and share.sum() < 1.0):
            return False
        first = _first(self.components, values.tobytes())
        return bool(first[2].values > FLOOR**2) and bool(spread.min() > FLOOR)

    def inner(self, values: Array) -> Inner:
        m, q = self.components - 1, len(values)
        share, mean, variance = _first(self.components, values.tobytes())
        first = [share, mean, variance.power(0.5)]
        inside = np.empty((self.components, 3))
        slope, bend = np.zeros((3 * self.components, q)), np.zeros((3 * self.components, q, q))
        for place, jet in enumerate(first):
            inside[0, place], slope[place], bend[place] = jet.values, jet.slope, jet.bend
        inside[1:] = values.reshape(3, m).T
        for what in range(3):
            for one in range(m):
                slope[3 * (one + 1) + what, what * m + one] = 1.0
        return Inner(inside.ravel(), slope, bend)

    def components_of(self, values: Array) -> Array:
        """Return shares, means and spreads (M, 3) of all components."""
        return self.inner(values).values.reshape(-1, 3)

    def at(self, values: Array) -> MixtureShape:
        return MixtureShape(self.components_of(values))

    def evaluate(self, a: Array, side: int, inner: Array, *, curvature: bool) -> ShapeTerms:
        if curvature:
            return mixture_terms(a, side, inner.reshape(-1, 3), curvature=True)
        found = _on_side(a, side, inner.reshape(-1, 3), curvature=False)
        return ShapeTerms(found.value, np.vstack([found.slope, found.by]).T, None)

    def arranged(self, values: Array) -> Array:
        # The largest share first.
        components = self.components_of(values)
        order = np.argsort(-components[:, 0], kind="stable")
        return components[order[1:]].T.ravel()

    def describe(self, values: Array) -> str:
        return "; ".join(
            f"share {share:.3g}, mean {mean:.3g}, spread {spread:.3g}"
            for share, mean, spread in self.components_of(values)
        )

    def sums(
        self, a: Array, status: Codes, inner: Array, weights: Array, *, curvature: bool
    ) -> ShapeSums:
        return mixture_sums(a, status, inner.reshape(-1, 3), weights, curvature=curvature)

    def begins(self) -> list[tuple[str, Array]]:
        order: Array = np.arange(float(self.components))
        share: Array = np.power(0.4, order)
        apart = np.where(order % 2 == 1, 1.0, -1.0) * 1.3 * np.ceil(order / 2)
        raw: dict[str, tuple[Array, Array]] = {
            "heavy tails": (0.0 * order, np.power(1.9, order)),
            "a long right tail": (1.2 * order, 0.8 + 0.4 * order),
            "a long left tail": (-1.2 * order, 0.8 + 0.4 * order),
            "several peaks": (apart, np.full(self.components, 0.8)),
        }
        if self.components == 2:
            del raw["several peaks"]
        return [(name, _standardised(share, *one)) for name, one in raw.items()]

    def boundary(self, values: Array) -> str | None:
        share = self.components_of(values)[:, 0]
        if share.min() < FEWEST:
            return (
                f"component {int(share.argmin()) + 1} of the mixture has a share of "
                f"{100 * share.min():.2g}%, which the data does not show. Use "
                f"components={self.components - 1}."
            )
        return self.degenerate(values)

    def degenerate(self, values: Array) -> str | None:
        share, _, spread = self.components_of(values).T
        if spread.min() < 1.5 * FLOOR:
            m = int(spread.argmin())
            return (
                f"component {m + 1} of the mixture is as narrow as the search allows: its share is "
                f"{100 * share[m]:.2g}% and its spread {spread[m]:.2g} standard deviations of the "
                "noise. Either it collapses onto outcomes that are close together, or many "
                "outcomes have hardly any noise. Use fewer components."
            )
        return None


@dataclass(frozen=True, eq=False)
class _Jet:
    """A number with its first and second derivatives."""

    values: float
    slope: Array
    bend: Array

    @classmethod
    def of(cls, value: float, place: int, size: int) -> _Jet:
        return cls(float(value), np.eye(size)[place], np.zeros((size, size)))

    def __add__(self, other: _Jet) -> _Jet:
        return _Jet(self.values + other.values, self.slope + other.slope, self.bend + other.bend)

    def __mul__(self, other: _Jet) -> _Jet:
        cross = np.outer(self.slope, other.slope)
        return _Jet(
            self.values * other.values,
            self.values * other.slope + other.values * self.slope,
            self.values * other.bend + other.values * self.bend + cross + cross.T,
        )

    def scaled(self, factor: float) -> _Jet:
        return _Jet(factor * self.values, factor * self.slope, factor * self.bend)

    def plus(self, number: float) -> _Jet:
        return _Jet(self.values + number, self.slope, self.bend)

    def power(self, exponent: float) -> _Jet:
        value = self.values**exponent
        once = exponent * value / self.values
        twice = (exponent - 1.0) * once / self.values
        bend = once * self.bend + twice * np.outer(self.slope, self.slope)
        return _Jet(value, once * self.slope, bend)


@lru_cache(maxsize=64)
def _first(components: int, held: bytes) -> tuple[_Jet, _Jet, _Jet]:
    """Return share, mean and variance of the first component with their derivatives.

    The parameters are given as bytes: every batch of a pass asks for the same ones.
    """
    values, m = np.frombuffer(held), components - 1
    every = [_Jet.of(value, place, len(values)) for place, value in enumerate(values)]
    share, mean, spread = every[:m], every[m : 2 * m], every[2 * m :]
    rest = _total(share)
    first = rest.scaled(-1.0).plus(1.0)
    moment = _total([p * mu for p, mu in zip(share, mean, strict=True)])
    square = _total([p * (s * s + mu * mu) for p, mu, s in zip(share, mean, spread, strict=True)])
    inverse = first.power(-1.0)
    mean_first = (moment * inverse).scaled(-1.0)
    left = square.scaled(-1.0).plus(1.0) + (moment * moment * inverse).scaled(-1.0)
    return first, mean_first, left * inverse


def _total(jets: list[_Jet]) -> _Jet:
    found = jets[0]
    for one in jets[1:]:
        found = found + one
    return found


def _standardised(share: Array, mean: Array, spread: Array) -> Array:
    """Return the parameters of a mixture of that form with mean zero and variance one."""
    share = share / share.sum()
    mean = mean - share @ mean
    size = np.sqrt(share @ (spread**2 + mean**2))
    return np.concatenate([share[1:], mean[1:] / size, spread[1:] / size])
