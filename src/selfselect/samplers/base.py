"""What a sampler of latent outcomes is asked, and a first point inside the explaining set."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.errors import RuleError, UnsupportedError
from selfselect.rules.base import NO_ROW_DATA, RowData, has_bounds, has_projection

Array = NDArray[np.float64]


# The contract of samplers: Markov kernels on the latent outcomes that explain a row.
#
# A `Target` holds, for many rows at once, the normal distribution of the latent outcomes given the
# observed one, and the rule that says which of them explain the row. A sampler is a pair of pure
# functions, vectorised over rows: `init` finds latent outcomes inside, `step` moves them. Chains
# live with whoever calls: the same latent outcomes can be stepped on at other means, since the
# explaining set depends on neither coefficients nor scales.

Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Target:
    """Latent outcomes of some rows: normal given the observed one, within what explains it.

    Attributes
    ----------
    rule : which alternative is chosen, in the order of the alternatives.
    chosen : (n,) the chosen alternative.
    outcome : (n,) with what outcome.
    means : (n, k) means of the latent outcomes, before anything is observed.
    scales : (k,) their standard deviations.
    correlation : (k, k) of the noise; None where it is independent.
    known : row data of the rule.
    start : position of the first row in the data, to name rows by.
    """

    rule: Any
    chosen: Indices
    outcome: Array
    means: Array
    scales: Array
    correlation: Array | None = None
    known: RowData = field(default=NO_ROW_DATA)
    start: int = 0

    def __len__(self) -> int:
        return len(self.chosen)

    def take(self, which: slice | Indices) -> Target:
        """Keep the rows `which`."""
        return replace(
            self,
            chosen=self.chosen[which],
            outcome=self.outcome[which],
            means=self.means[which],
            known=self.known.take(which),
        )

    @cached_property
    def center(self) -> Array:
        """The mean (n, k) of the latent outcomes given the observed one, and that one itself."""
        each = np.arange(len(self))
        if self.correlation is None:
            center = self.means.copy()
        else:
            surprise = self.outcome - self.means[each, self.chosen]
            center = self.means + surprise[:, None] * self._gain[self.chosen]
        center[each, self.chosen] = self.outcome
        return center

    @cached_property
    def _gain(self) -> Array:
        """Regression (k, k) of every outcome on the observed one, by row of the observed one."""
        assert self.correlation is not None
        return self.correlation * self.scales / self.scales[:, None]

    @cached_property
    def _root(self) -> Array:
        assert self.correlation is not None
        root: Array = np.linalg.cholesky(self.correlation) * self.scales[:, None]
        return root.T

    @cached_property
    def spread(self) -> Array:
        """Standard deviation (n, k) of what varies: zero for the observed outcome."""
        spread = np.repeat(self.scales[None, :], len(self), axis=0)
        spread[np.arange(len(self)), self.chosen] = 0.0
        return spread if self.informed is None else spread * self.informed

    @property
    def informed(self) -> Array | None:
        """Whether (n, k) the row says something of the alternative; None where it does of all.

        Where noise is independent and the rule bounds each outcome on its own, a row says nothing
        of an alternative that is not available, which is left at its mean. Other rules may compare
        outcomes that such an alternative is part of.
        """
        available = self.known.available
        if available is None or self.correlation is not None or not has_bounds(self.rule):
            return None
        return available.astype(np.float64)

    def deviations(self, rng: Generator, times: int | None = None) -> Array:
        """Draw normal deviations (n, k) from `center`, whatever the rule says of them.

        With `times`, so many of every row: (times, n, k).
        """
        shape = self.means.shape if times is None else (times, *self.means.shape)
        noise = rng.standard_normal(shape)
        if self.correlation is None:
            noise *= self.spread
            return noise
        noise = noise @ self._root
        each = np.arange(len(self))
        noise -= noise[..., each, self.chosen][..., None] * self._gain[self.chosen]
        noise[..., each, self.chosen] = 0.0
        return noise

    def contains(self, latent: Array) -> Mask:
        """Say whether latent outcomes explain their rows.

        Parameters
        ----------
        latent : (n, k), or (m, n, k) for m candidates per row.

        Returns
        -------
        (n,) or (m, n).
        """
        if latent.ndim == 2:
            return np.asarray(self.rule.choose(latent, self.known) == self.chosen)
        m, n, k = latent.shape
        chosen = self.rule.choose(latent.reshape(m * n, k), self._repeated(m))
        return np.asarray(chosen.reshape(m, n) == self.chosen)

    def _repeated(self, times: int) -> RowData:
        if self.known.costs is None and self.known.available is None:
            return self.known
        return self.known.take(np.tile(np.arange(len(self)), times))


@dataclass(frozen=True, eq=False)
class Draw:
    """What one step of a sampler gives.

    Attributes
    ----------
    latent : (n, k) where the chains stand.
    first, square : (n, k) means of the deviation from the target's `center` and of its square,
        given what the step looked at. A sampler that knows no better gives those of `latent`.
    more : (m, n, k) further points distributed as `latent`; None where there are none.
    control : (k, k, n) numbers of expectation zero that move with `first` and `square`: mean
        products of fresh deviations, less their expectations. None where there are none.
    """

    latent: Array
    first: Array
    square: Array
    more: Array | None = None
    control: Array | None = None

    @classmethod
    def at(cls, target: Target, latent: Array) -> Draw:
        """Take the latent outcomes for all that is known."""
        deviation = latent - target.center
        return cls(latent, deviation, deviation * deviation)

    def put(self, which: Indices, part: Draw) -> None:
        """Set the rows `which` to those of another draw."""
        self.latent[which], self.first[which] = part.latent, part.first
        self.square[which] = part.square
        if self.more is not None:
            self.more[:, which] = part.latent if part.more is None else part.more
        if self.control is not None:
            self.control[:, :, which] = 0.0 if part.control is None else part.control


@runtime_checkable
class Sampler(Protocol):
    """Anything that draws latent outcomes which explain rows.

    `steps` says how many steps make a draw that is worth keeping, `exact` whether one step draws
    anew from the target whatever came before, `requires` what the rule must offer.
    """

    requires: ClassVar[tuple[type, ...]]
    exact: ClassVar[bool]

    @property
    def steps(self) -> int:
        """How many steps make a draw."""

    def init(self, target: Target, rng: Generator) -> Array:
        """Return latent outcomes (n, k) that explain their rows."""

    def step(self, target: Target, latent: Array, rng: Generator) -> Draw:
        """Move latent outcomes (n, k) that explain their rows to others that do."""


def require_capability(sampler: Any, target: Target) -> None:
    """Raise one error that names what a rule lacks for a sampler."""
    for capability in sampler.requires:
        if not isinstance(target.rule, capability):
            word = capability.__name__.removeprefix("Has").lower()
            what = {"projection": "project", "bounds": "bounds"}[word]
            raise UnsupportedError(
                f"{type(sampler).__name__} needs a rule with {word}, and "
                f"{type(target.rule).__name__} has none. Give the rule a `{what}`, or use "
                "EllipticalSlice, which needs nothing but `choose`."
            )


# Finding a first point inside every explaining set.


REACHES = (1.0, 2.0, 4.0, 0.5, 8.0, 0.25, 16.0, 32.0)
"""How far to look, in standard deviations of the noise: near first, then ever farther."""

TRIES = 48
"""Points tried at each reach. A set that holds a thousandth of the mass around any of them is
missed with probability e^-0.4 per reach, and then looked for among other rows' points."""

MANY = 4_096
"""Points tried at each reach for the few rows in which fewer did not do."""

FEW = 0.01
"""Share of the rows for which that is worth while: where more lack a point, the rule is wrong."""

AT_ONCE = 32

NEIGHBOURS = 24
"""Rows with the same choice and the nearest outcomes, whose points are tried."""

BISECTIONS = 10

PROJECTIONS = 16
"""Projections whose average is tried: on the boundary each, but convexity puts it inside."""


def find_inside(target: Target, rng: Generator) -> Array:
    """Return latent outcomes (n, k) that explain their rows, or say which rows have none.

    Where the mean of the noise is outside of a set, the point is close to the boundary on its
    side: there most of the mass is.
    """
    latent = target.center.copy()
    outside = _try(target, latent, np.arange(len(target)), target.center)
    _find(target, latent, outside, rng)
    _approach(target, latent, outside)
    return latent


def _approach(target: Target, latent: Array, which: Indices) -> None:
    """Move points towards the mean as far as their convex sets reach, by bisection."""
    part, points = target.take(which), latent[which]
    way = part.center - points
    inner, outer = np.zeros(which.size), np.ones(which.size)
    for _ in range(BISECTIONS if which.size else 0):
        middle = 0.5 * (inner + outer)
        inside = part.contains(points + middle[:, None] * way)
        inner, outer = np.where(inside, middle, inner), np.where(inside, outer, middle)
    # Rounding may put a point that was inside on the way back out.
    moved = points + inner[:, None] * way
    if which.size:
        moved[np.arange(which.size), part.chosen] = part.outcome
        latent[which] = np.where(part.contains(moved)[:, None], moved, points)


def _find(target: Target, latent: Array, left: Indices, rng: Generator) -> None:
    """Look for points ever farther out, then among projections, then among other rows' points."""
    for reach in REACHES:
        for _ in range(TRIES):
            if left.size == 0:
                return
            part = target.take(left)
            points = part.center + reach * part.deviations(rng)
            left = _try(target, latent, left, points)
    left = _from_projections(target, latent, left, rng)
    left = _from_neighbours(target, latent, left)
    if left.size <= max(AT_ONCE, FEW * len(target)):
        left = _from_many(target, latent, left, rng)
    if left.size:
        named = ", ".join(map(str, target.start + left[:3])) + (", ..." if left.size > 3 else "")
        raise RuleError(
            f"In {left.size} of {len(target)} rows (rows {named}) no latent outcomes were found "
            "under which the rule chooses the recorded alternative with the recorded outcome. "
            "Either `choose` disagrees with what was recorded there (wrong order of the "
            "alternatives, wrong rule), or the explaining sets are too thin to be hit by chance: "
            "then give the rule a `project`."
        )


def _try(target: Target, latent: Array, left: Indices, points: Array) -> Indices:
    """Keep the points that explain their rows, and return the rows still without one."""
    if left.size == 0:
        return left
    inside = target.take(left).contains(points)
    latent[left[inside]] = points[inside]
    return left[~inside]


def _from_projections(target: Target, latent: Array, left: Indices, rng: Generator) -> Indices:
    """Average projections of random points: a point inside of any set that is not flat."""
    if left.size == 0 or not has_projection(target.rule):
        return left
    rule: Any = target.rule
    part = target.take(left)
    total = np.zeros_like(part.center)
    for number in range(PROJECTIONS):
        reach = REACHES[number % len(REACHES)]
        points = part.center + reach * part.deviations(rng)
        total += rule.project(points, part.chosen, part.outcome, part.known)
    points = total / PROJECTIONS
    points[np.arange(left.size), part.chosen] = part.outcome
    return _try(target, latent, left, points)


def _from_many(target: Target, latent: Array, left: Indices, rng: Generator) -> Indices:
    """Try many points for each of a few rows."""
    still: list[Indices] = []
    for first in range(0, left.size, AT_ONCE):
        mine = left[first : first + AT_ONCE]
        for reach in REACHES:
            if mine.size == 0:
                break
            part = target.take(np.repeat(mine, MANY))
            points = part.center + reach * part.deviations(rng)
            inside = part.contains(points).reshape(mine.size, MANY)
            at = inside.argmax(axis=1) + MANY * np.arange(mine.size)
            some = inside.any(axis=1)
            latent[mine[some]] = points[at[some]]
            mine = mine[~some]
        still.append(mine)
    return np.concatenate(still) if still else left


def _from_neighbours(target: Target, latent: Array, left: Indices) -> Indices:
    """Try the points of rows with the same choice and a similar outcome."""
    found = np.setdiff1d(np.arange(len(target)), left)
    still: list[Indices] = []
    for j in np.unique(target.chosen[left]):
        mine = left[target.chosen[left] == j]
        same = found[target.chosen[found] == j]
        same = same[np.argsort(target.outcome[same])]
        for offset in range(-(NEIGHBOURS // 2), NEIGHBOURS // 2) if same.size else ():
            at = np.searchsorted(target.outcome[same], target.outcome[mine]) + offset
            points = latent[same[np.clip(at, 0, same.size - 1)]]
            points[:, j] = target.outcome[mine]
            mine = _try(target, latent, mine, points)
        still.append(mine)
    return np.sort(np.concatenate(still)) if still else left
