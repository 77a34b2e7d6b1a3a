r"""Where an outcome that was not recorded is integrated.

Where outcomes are compared as they are, or by factors, the bounds of the others are straight lines
in the outcome, and as many points serve all rows: as far apart as the narrowest factor of the
integrand allows. Under other rules a bound may move however fast, and end: the range of each row is
cut into panels, and these are halved until no bound moves by more than a panel of its own
distribution, and along none but a smooth curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.noises.shapes import Grid, Shape
from selfselect.problem.problem import Problem
from selfselect.rules.base import RowData, factors_of

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(10)

SEEN = np.array([-1.0 + 2e-9, *NODES, 1.0 - 2e-9])
"""Where bounds are looked at: at the nodes, and just inside of the ends of a panel."""

AT_ENDS = np.linalg.solve(
    np.polynomial.legendre.legvander(NODES, 9).T,
    np.polynomial.legendre.legvander(SEEN[[0, -1]], 9).T,
)
"""What makes the values of a polynomial at the ends of its values at the nodes."""

SMOOTH = 2e-7
"""How far a bound may be at an end from the polynomial through the nodes, in units of its
distribution. The integral of ten nodes, of degree twenty, is off by about the square."""

SMALLEST = 1e-14
"""Share of a range that is too small to matter, whatever happens on it."""

MOST_PANELS = 400
"""Panels of a row that are halved at once: beyond, bounds are noise that no panel resolves."""

BEYOND = 1.5
"""Reaches of a distribution from where on it is all on one side of a bound."""

DOUBLINGS, HALVINGS = 40, 60


@dataclass(frozen=True, eq=False)
class Silent:
    """Rows that lack their outcome.

    Attributes
    ----------
    problem : the model.
    shapes : of each alternative's noise.
    mean, spread : (n, k) of the outcomes, in internal units.
    finest : (n, k) distances over which the factors of an integrand change.
    known : costs and availability.
    low, high : (n,) limits of the outcome.
    """

    problem: Problem
    shapes: Sequence[Shape]
    mean: Array
    spread: Array
    finest: Array
    known: RowData
    low: Array
    high: Array

    def take(self, which: Indices) -> Silent:
        """Keep the rows `which`."""
        return Silent(
            self.problem,
            self.shapes,
            self.mean[which],
            self.spread[which],
            self.finest[which],
            self.known.take(which),
            self.low[which],
            self.high[which],
        )

    @property
    def open_ended(self) -> Mask:
        """Rows without limits."""
        return np.isneginf(self.low) & np.isposinf(self.high)

    def outside(self, j: int) -> Array:
        """Return by how many spreads the mean of an alternative lies outside of the limits."""
        away = np.maximum(self.low - self.mean[:, j], self.mean[:, j] - self.high)
        return np.asarray(away / self.spread[:, j])

    def positions(self, j: int, row: Indices, outcome: Array) -> Array:
        """Return by how many spreads others (n, k) may exceed their means and lose against j.

        Infinite where all of them lose, or none does; infinite also for j itself.
        """
        rule: Any = self.problem.ordered_rule
        units, k = self.problem.units, len(self.shapes)
        known = self.known.take(row)
        bounds = rule.bounds(
            np.full(len(row), j), outcome * units.outcome_unit + units.outcome_shift, known
        )
        lower, upper = (units.limits(np.broadcast_to(one, (len(row), k))) for one in bounds)
        below = np.isneginf(lower)
        place = np.where(below, upper, lower) - self.mean[row]
        found = np.asarray(np.where(below, 1.0, -1.0) * place / self.spread[row])
        found[:, j] = np.inf
        if known.available is not None:
            found[~known.available] = np.inf
        return found


@dataclass(frozen=True, eq=False)
class Course:
    """How outcomes of rows run through their ranges as a share goes from 0 to 1.

    Attributes
    ----------
    start, width : (n,) where they start and how far they go, in spreads from the mean.
    mean, spread : (n,) of the outcome.
    panels : (n,) how many panels the outcome's own distribution needs.
    dense : whether points are dense at the start.
    stretched : whether outcomes are hyperbolic sines of what runs.
    """

    start: Array
    width: Array
    mean: Array
    spread: Array
    panels: Array
    dense: bool = False
    stretched: bool = False

    def at(self, row: Any, share: Array) -> tuple[Array, Array]:
        """Return outcomes (n, nodes) of rows, and how fast they run."""
        start, width, mean, spread = (
            one[row][:, None] for one in (self.start, self.width, self.mean, self.spread)
        )
        away = start + width * (share**2 if self.dense else share)
        slope = np.abs(spread * width) * (2.0 * share if self.dense else 1.0)
        if self.stretched:
            return mean + spread * np.sinh(away), slope * np.cosh(away)
        return mean + spread * away, np.broadcast_to(slope, away.shape)


def nodes_of(silent: Silent, j: int, which: Indices) -> tuple[Indices, Array, Array]:
    """Return points at which outcome j of rows `which` is integrated.

    Returns
    -------
    row : (m,) the row of each point.
    outcome : (m,) in internal units.
    log_weight : (m,)
    """
    factors = factors_of(silent.problem.ordered_rule, len(silent.shapes))
    own = silent.take(which)
    shape = silent.shapes[j]
    if factors is None:
        own = _possible(own, j)
        open_ended, narrowest = np.zeros(len(which), dtype=bool), own.finest[:, j]
    else:
        # A limit that moves with a multiple of the outcome is passed so much faster.
        narrowest = (own.finest * np.abs(factors)).min(axis=1) / abs(factors[j])
        open_ended = own.open_ended & (not shape.grid.stretched)
    far = ~own.open_ended & (own.outside(j) > shape.grid.far) & (not shape.grid.stretched)
    parts = []
    for of_kind, make in ((far, _tails), (~far & ~open_ended, _panels)):
        mine = np.flatnonzero(of_kind)
        if len(mine):
            course = make(shape, own.take(mine), j, narrowest[mine])
            row, outcome, weight = (
                _halved(course, own.take(mine), j) if factors is None else _alike(course, shape)
            )
            parts.append((mine[row], outcome, weight))
    mine = np.flatnonzero(open_ended)
    if len(mine):
        parts.append(_trapezoids(shape, own.take(mine), j, narrowest[mine], mine))
    row, outcome, log_weight = (np.concatenate(part) for part in zip(*parts, strict=True))
    return which[row], outcome, log_weight


def _trapezoids(
    shape: Shape, own: Silent, j: int, narrowest: Array, mine: Indices
) -> tuple[Indices, Array, Array]:
    """Return equidistant points around the mean: best where nothing ends."""
    grid = shape.grid
    mean, spread = own.mean[:, j], own.spread[:, j]
    steepest = float((spread / narrowest).max())
    n_nodes = int(np.ceil(2.0 * grid.reach * steepest / grid.step)) + 1
    at, step = np.linspace(-grid.reach, grid.reach, min(n_nodes, grid.most), retstep=True)
    outcome = mean[:, None] + spread[:, None] * at
    return (
        np.repeat(mine, len(at)),
        outcome.ravel(),
        np.repeat(np.log(step * spread), len(at)),
    )


def _panels(shape: Shape, own: Silent, j: int, narrowest: Array) -> Course:
    """Run from limit to limit, as far as there is any density."""
    grid = shape.grid
    mean, spread = own.mean[:, j], own.spread[:, j]
    with np.errstate(invalid="ignore"):
        ends = [
            np.clip((end - mean) / spread, -grid.reach, grid.reach) for end in (own.low, own.high)
        ]
    start, stop = (np.arcsinh(end) if grid.stretched else end for end in ends)
    panels = (stop - start) * spread / narrowest / grid.panel
    return Course(start, stop - start, mean, spread, panels, stretched=grid.stretched)


def _tails(shape: Shape, own: Silent, j: int, narrowest: Array) -> Course:
    """Run from the nearer limit, where points are dense, as far as the tail reaches."""
    mean, spread = own.mean[:, j], own.spread[:, j]
    upper = own.low > mean
    limit = (np.where(upper, own.low, own.high) - mean) / spread
    width = np.minimum(shape.tail_reach(limit), (own.high - own.low) / spread)
    panels = np.maximum(2.0 * width * spread / narrowest / shape.grid.panel, 4.0)
    return Course(limit, np.where(upper, width, -width), mean, spread, panels, dense=True)


def _alike(course: Course, shape: Shape) -> tuple[Indices, Array, Array]:
    """Return as many points in all rows, in panels that share the range."""
    n_panels = _number(course.panels.max(), shape.grid)
    edges = np.linspace(0.0, 1.0, n_panels + 1)
    share = (edges[:-1, None] + (0.5 / n_panels) * (1.0 + NODES)).ravel()
    weight = np.tile(0.5 * WEIGHTS / n_panels, n_panels)
    outcome, slope = course.at(slice(None), np.broadcast_to(share, (len(course.mean), len(share))))
    with np.errstate(divide="ignore"):
        log_weight = np.log(slope * weight)
    return np.repeat(np.arange(len(outcome)), len(share)), outcome.ravel(), log_weight.ravel()


def _number(panels: Any, grid: Grid) -> Any:
    """Return whole numbers of panels, as many as are taken at most."""
    panels = np.nan_to_num(panels, nan=1.0)
    return np.clip(np.ceil(panels), 1, grid.most // len(NODES)).astype(int)


def _halved(course: Course, own: Silent, j: int) -> tuple[Indices, Array, Array]:
    """Return points in panels of each row, halved until the bounds of others are smooth in them."""
    number = _number(course.panels, own.shapes[j].grid)
    row = np.repeat(np.arange(len(number)), number)
    left = (np.arange(len(row)) - np.repeat(np.cumsum(number) - number, number)) / number[row]
    width = 1.0 / number[row]
    kept = []
    while len(row):
        outcome, slope = course.at(row, left[:, None] + width[:, None] * (0.5 + 0.5 * SEEN))
        rough = (width > SMALLEST) & _rough(own, j, row, outcome)
        outcome, slope = outcome[:, 1:-1], slope[:, 1:-1]
        crowded = np.bincount(row[rough], minlength=len(number)) > MOST_PANELS
        rough &= ~crowded[row]
        with np.errstate(divide="ignore"):
            log_weight = np.log(slope * (0.5 * WEIGHTS) * width[:, None])
        kept.append((row[~rough], outcome[~rough], log_weight[~rough]))
        row, left, width = row[rough], left[rough], 0.5 * width[rough]
        row, left, width = np.tile(row, 2), np.append(left, left + width), np.tile(width, 2)
    row, outcome, log_weight = (np.concatenate(part) for part in zip(*kept, strict=True))
    return np.repeat(row, len(NODES)), outcome.ravel(), log_weight.ravel()


def _rough(own: Silent, j: int, row: Indices, outcome: Array) -> Mask:
    """Say in which panels (n,) the bound of another alternative is too much for ten nodes."""
    each = np.repeat(row, len(SEEN))
    with np.errstate(over="ignore", invalid="ignore"):
        found = own.positions(j, each, outcome.ravel()).reshape(*outcome.shape, len(own.shapes))
    rough = np.zeros(len(row), dtype=bool)
    for m, shape in enumerate(own.shapes):
        if m == j:
            continue
        place, reach = found[:, :, m], shape.grid.reach
        if shape.grid.stretched:
            place, reach = np.arcsinh(place), np.arcsinh(reach)
        far = BEYOND * reach
        inside = ~((place >= far).all(axis=1) | (place <= -far).all(axis=1))
        here = np.flatnonzero(inside & ~np.isnan(place).any(axis=1))
        place = np.clip(place[here], -1e9, 1e9)
        unit = own.spread[row[here], m] / own.finest[row[here], m]
        moved = unit * np.ptp(place, axis=1) / shape.grid.panel
        bent = unit * np.abs(place[:, 1:-1] @ AT_ENDS - place[:, [0, -1]]).max(axis=1)
        rough[here] |= (moved > 1.0) | (bent > SMOOTH)
    return rough


def _possible(own: Silent, j: int) -> Silent:
    """Narrow limits down to where others may lose, if that ends."""
    mean, reach = own.mean[:, j], own.shapes[j].grid.reach * own.spread[:, j]
    row = np.arange(len(mean))

    def dead(which: Indices, outcome: Array) -> Mask:
        return np.asarray(np.isneginf(own.positions(j, which, outcome)).any(axis=1))

    low = np.clip(mean - reach, own.low, own.high)
    high = np.clip(mean + reach, own.low, own.high)
    dead_low, dead_high = dead(row, low), dead(row, high)
    for power in range(DOUBLINGS):
        left = np.flatnonzero(dead_low & dead_high)
        if not len(left):
            break
        away = reach[left] * 2.0**power
        low[left] = np.clip(mean[left] - away, own.low[left], own.high[left])
        high[left] = np.clip(mean[left] + away, own.low[left], own.high[left])
        dead_low[left], dead_high[left] = dead(left, low[left]), dead(left, high[left])
    ends = np.flatnonzero(dead_low != dead_high)
    if not len(ends):
        return own
    rising = dead_low[ends]
    at_dead, alive = (
        np.where(rising, low[ends], high[ends]),
        np.where(rising, high[ends], low[ends]),
    )
    for _ in range(HALVINGS):
        middle = 0.5 * (at_dead + alive)
        is_dead = dead(ends, middle)
        at_dead, alive = np.where(is_dead, middle, at_dead), np.where(is_dead, alive, middle)
    low, high = own.low.copy(), own.high.copy()
    low[ends[rising]], high[ends[~rising]] = alive[rising], alive[~rising]
    return replace(own, low=low, high=high)
