"""Sums over rows: how both ends of the rows' intervals are distributed, cell by cell.

One pass counts, on a grid of values, how many rows have an end at or below each. The grid holds
every end where there are few; else it is spaced evenly in the ends of a sample of rows, with those
that many rows share, and a quantile is found to within one of its steps, always outwards. The pass
also tells in which steps there are ends between two values: elsewhere a quantile is exact. A second
pass, only where rows are weighted or clustered, says how much less than as many independent rows
they tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.bounding.targets import CellGroup, Cells, Targets, merge_cells
from selfselect.data.panels import weighted_quantiles
from selfselect.data.rows import Rows, counted_rows
from selfselect.engines.base import Engine
from selfselect.inference.dependence import Dependence
from selfselect.inference.statistics import interval_reach
from selfselect.problem.batch import Batch, Parts

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

SAMPLE = 20_000
"""Rows whose ends make the grid."""

MOST_POINTS, FEWEST_POINTS = 4_096, 256
"""Points of a grid."""

MOST_COUNTS = 4_000_000
"""Counts that a pass adds up; grids are coarser where cells are many."""

REFERENCES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Where distributions are looked at to say how much less dependent rows tell."""

BINS = 4
"""Parts of the outcome's range in which choices are compared between values of an instrument."""


@dataclass(frozen=True, eq=False)
class Grids:
    """Values at which distributions are counted.

    Attributes
    ----------
    values : per target, increasing; the first is minus infinity.
    complete : per target, whether every end of every row is known to be among them.
    between : (targets, values + 1) in which steps some lower ends of the sample are; none where it
        has no more values than the grid.
    thinned : per target, whether the sample has more values than the grid.
    points : per target, the values that tables show; they are on the grid.
    edges : of the outcome, for comparisons of (outcome, choice).
    """

    values: tuple[Array, ...]
    complete: tuple[bool, ...]
    between: NDArray[np.bool_]
    thinned: tuple[bool, ...]
    points: tuple[Array, ...]
    edges: Array

    @property
    def size(self) -> int:
        """The largest number of values."""
        return max(map(len, self.values))


@dataclass(frozen=True, eq=False)
class Counted:
    """What a pass over all rows adds up to, by cell.

    Attributes
    ----------
    below : (targets, 2, cells, points + 1) weight of the rows whose lower (0) or upper (1) end is
        at or below each value of the grid; the last entry is that of all rows.
    between : (targets, points + 1) whether some lower ends that were counted at a value are below
        it; in the last entry, whether some finite ones are beyond the grid.
    weight : (cells,) sums of the weights.
    effective : (targets, 2, cells) how many independent rows would tell as much.
    finite : (targets, 2, cells) whether the end is finite in every row of the cell.
    mean, variance : (targets, 2, cells) of the ends where they are finite; that of the mean.
    choices : (cells, choices x bins) weights by alternative and outcome; none without an
        instrument.
    df : degrees of freedom of what is effective: clusters less one, or infinite.
    """

    below: Array
    between: NDArray[np.bool_]
    weight: Array
    effective: Array
    finite: NDArray[np.bool_]
    mean: Array
    variance: Array
    choices: Array
    df: float


def make_grids(targets: Targets, engine: Engine, points: Any, n_cells: int) -> Grids:
    """Choose the values at which distributions are counted, from a sample of rows."""
    part = engine.sample(SAMPLE, np.random.default_rng(0))
    whole = part.n_rows == engine.n_rows
    rows = counted_rows(part.rows)
    lower, upper = targets.ends(Batch(rows, targets.problem.likelihood.observe(rows)))
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    assert rows.outcome is not None
    recorded = ~np.isnan(rows.outcome)
    outcome, own_weights = rows.outcome[recorded], weights[recorded]
    most = MOST_COUNTS // (2 * len(targets.names) * max(n_cells, 1))
    most = int(np.clip(most, FEWEST_POINTS, MOST_POINTS))
    of_outcome = _points(points, outcome, own_weights)
    values, complete, thinned, shown = [], [], [], []
    for place in range(len(targets.names)):
        both = np.concatenate([lower[:, place], upper[:, place]])
        met, times = np.unique(both[np.isfinite(both)], return_counts=True)
        own = of_outcome if place < targets.n_alternatives else _points(points, met, None)
        known = targets.limits[:, place]
        if place >= targets.n_alternatives:
            known = np.append(known, 0.0)  # The sign of a difference is always known.
        known = known[np.isfinite(known)]
        fits = len(met) <= most
        if not fits:
            # The middle of the grid is as even as the sample is; both of its ends are kept. What
            # many rows share is kept as well, however few values there are beside it.
            shared = met[times * most > 2 * times.sum()]
            known = np.concatenate([known, shared])
            met = met[np.unique(np.linspace(0, len(met) - 1, most).round().astype(np.intp))]
        if not (fits and whole):
            # What is just below such a value is counted apart from it.
            known = np.concatenate([known, np.nextafter(known, -np.inf)])
        values.append(np.concatenate([[-np.inf], np.unique(np.concatenate([met, own, known]))]))
        complete.append(fits and whole)
        thinned.append(not fits)
        shown.append(own)
    edges = np.unique(weighted_quantiles(outcome, np.arange(1, BINS) / BINS, own_weights))
    size = max(map(len, values))
    between = np.zeros((len(targets.names), size + 1), dtype=bool)
    for place in range(len(values)):
        if thinned[place]:
            grid, ends = values[place], lower[:, place]
            between[place] = _between(grid, between[place], ends, np.searchsorted(grid, ends))
    return Grids(tuple(values), tuple(complete), between, tuple(thinned), tuple(shown), edges)


def _points(points: Any, values: Array, weights: Array | None) -> Array:
    """Return the values that tables show: given ones, or quantiles of what was met."""
    if points is not None:
        return np.unique(np.asarray(points, dtype=np.float64))
    if not len(values):
        return np.zeros(1)
    return np.unique(weighted_quantiles(values, np.arange(1, 20) / 20.0, weights))


def count_ends(
    targets: Targets, engine: Engine, cells: Cells, grids: Grids, dependence: Dependence, first: int
) -> tuple[Counted, tuple[CellGroup, ...], tuple[str, ...]]:
    """Count the ends of all rows, by cells with rows enough.

    Parameters
    ----------
    targets, cells, grids : what is counted.
    engine : the rows.
    dependence : what keeps rows from being independent draws.
    first : the first way of `Rows.clusters` that clusters rows; those before it tell cells apart.

    Returns
    -------
    the counts, the groups of cells, and sentences on cells that were joined.
    """
    found = engine.sum(partial(_count, targets, cells, grids))
    by_probability = dependence.weights_kind == "probability"
    with np.errstate(invalid="ignore"):
        rows = found[1] ** 2 / found[2] if by_probability else found[1]
    cells, groups, notes = merge_cells(cells, np.nan_to_num(rows))
    axes = (2, 0, 0, 3, 0)
    below, weight, squares, moments, choices = (
        _joined(one, cells, axis) for one, axis in zip(found, axes, strict=False)
    )
    below, between = np.cumsum(below, axis=-1), grids.between | (found[-1] > 0.0)
    infinite, total, total_squares = moments
    finite = infinite == 0
    mean = np.where(finite, total / weight, np.nan)
    if not (by_probability or dependence.clusters):
        variance = np.maximum(total_squares / weight - mean**2, 0.0) / weight
        effective = np.broadcast_to(weight, below.shape[:-1])
        df = float("inf")
        counted = Counted(below, between, weight, effective, finite, mean, variance, choices, df)
        return counted, groups, notes
    references = _references(below, grids)
    task = partial(_spread, targets, cells, grids, references, below, weight, mean, first)
    sums = engine.sum(partial(task, dependence.clusters))
    # Several ways of clustering: the sum of their variances is at least the variance.
    each = sum((_squared(one) for one in sums), np.zeros(1))
    spread = np.reshape(each, (*below.shape[:-1], -1)) / weight[:, None] ** 2
    shares = np.take_along_axis(below, references[:, :, None, :], axis=-1) / weight[:, None]
    kish = weight**2 / squares if by_probability else weight
    inside = (shares > 0.0) & (shares < 1.0) & (spread[..., :-1] > 0.0)
    worth = shares * (1.0 - shares) / np.where(inside, spread[..., :-1], 1.0)
    effective = np.minimum(np.where(inside, worth, kish[:, None]).min(axis=-1), kish)
    df = max(min(dependence.clusters) - 1.0, 1.0) if dependence.clusters else float("inf")
    # Few clusters know their own spread badly: as a t distribution has it.
    effective = effective * (interval_reach(0.95) / interval_reach(0.95, df)) ** 2
    variance = spread[..., -1]
    counted = Counted(below, between, weight, effective, finite, mean, variance, choices, df)
    return counted, groups, notes


def _joined(values: Array, cells: Cells, axis: int) -> Array:
    """Add up what belongs to cells that were joined."""
    assert cells.lookup is not None
    moved = np.moveaxis(values, axis, 0)
    # A combination without rows has zeros, and may be added to any cell.
    found = np.zeros((cells.n_codes, *moved.shape[1:]))
    np.add.at(found, cells.lookup, moved)
    return np.moveaxis(found, 0, axis)


def _squared(totals: Array) -> Array:
    return (totals**2).sum(axis=0) if totals.ndim == 2 else totals


def _references(below: Array, grids: Grids) -> Indices:
    """Return, per target and end, the places on the grid where rows' dependence is looked at."""
    pooled = below.sum(axis=2)
    found = np.zeros((*pooled.shape[:2], len(REFERENCES)), dtype=np.intp)
    for target, values in enumerate(grids.values):
        for end in range(2):
            counted = pooled[target, end, : len(values)]
            least, most = counted[0], max(counted[-1], counted[0] + 1e-300)
            wanted = least + np.array(REFERENCES) * (most - least)
            place = np.searchsorted(counted, wanted)
            found[target, end] = np.minimum(place, len(values) - 1)
    return found


def _count(targets: Targets, cells: Cells, grids: Grids, batch: Batch) -> Parts:
    """Count the ends of a batch on the grid, and sum them."""
    rows, n_cells, size = batch.rows, cells.n_codes, grids.size
    code = cells.codes(rows)
    weights = rows.weights
    ends = targets.ends(batch)
    below = np.zeros((len(targets.names), 2, n_cells, size + 1))
    between = np.zeros((len(targets.names), size + 1))
    moments = np.zeros((3, len(targets.names), 2, n_cells))
    counted: list[_Found] = []
    for target, values in enumerate(grids.values):
        for side in (1, 0):
            end = ends[side][:, target]
            # Ends are often those of another target, or differ from them in some rows.
            like = [one for one in counted if np.array_equal(values, one.values)]
            found = next((one for one in like if np.array_equal(end, one.ends)), None)
            if found is None:
                places = _search(values, end, size, next(iter(like), None))
                cell = places if n_cells == 1 else code * (size + 1) + places
                counts = _by_code(cell, None, weights, n_cells * (size + 1))
                sums = _moments(code, end, weights, n_cells)
                found = _Found(values, end, places, counts, sums)
                counted.append(found)
            below[target, side] = found.counts.reshape(n_cells, size + 1)
            if side == 0 and not grids.complete[target]:
                between[target] = _between(values, grids.between[target], end, found.places)
            moments[:, target, side] = found.moments
    weight = np.bincount(code, weights, n_cells).astype(np.float64)
    squares = weight if weights is None else np.bincount(code, weights**2, n_cells)
    choices = _choices(targets, cells, grids, rows, code)
    return Parts((below, weight, squares, moments, choices, between))


def _moments(code: Indices, ends: Array, weights: Array | None, size: int) -> Array:
    """Sum, by code, how many ends are infinite, the finite ones, and their squares.

    Where every code has infinite ends, no mean is finite, and nothing more is summed.
    """
    finite = np.isfinite(ends)
    infinite = _by_code(code, ~finite, weights, size)
    if infinite.all():
        return np.array([infinite, np.zeros(size), np.zeros(size)])
    clipped = np.where(finite, ends, 0.0)
    powers = (clipped, clipped**2)
    return np.array([infinite, *(_by_code(code, power, weights, size) for power in powers)])


def _by_code(code: Indices, values: Array | None, weights: Array | None, size: int) -> Array:
    """Sum weighted values by code; without values, the weights."""
    weighted = weights if values is None else values if weights is None else values * weights
    if size == 1 and weighted is not None:
        return np.array([np.sum(weighted)], dtype=np.float64)
    return np.bincount(code, weighted, size).astype(np.float64, copy=False)


@dataclass(frozen=True, eq=False)
class _Found:
    """Ends of a batch counted on a grid."""

    values: Array
    ends: Array
    places: Indices
    counts: Array
    moments: Array


def _between(
    values: Array, known: NDArray[np.bool_], ends: Array, places: Indices
) -> NDArray[np.bool_]:
    """Say in which steps, beside those known, ends are not the value that they were counted at."""
    counted_at = np.full(len(known), np.inf)
    counted_at[: len(values)] = values
    decided = known.copy()
    decided[0] = True  # Minus infinity is itself.
    doubtful = np.flatnonzero(~decided[places])
    at = places[doubtful]
    found = np.zeros(len(known), dtype=bool)
    found[at[counted_at[at] != ends[doubtful]]] = True
    return found


def _search(values: Array, ends: Array, size: int, like: _Found | None) -> Indices:
    """Return the first value not below each end, `size` beyond all.

    Where ends are like those of another search on the same grid, its places are taken over.
    """
    places, left = np.where(ends == np.inf, size, 0), np.isfinite(ends)
    if like is not None:
        same = ends == like.ends
        places, left = np.where(same, like.places, places), left & ~same
    which = np.flatnonzero(left)
    # In increasing order each search begins where the last one ended.
    which = which[np.argsort(ends[which])]
    found = np.searchsorted(values, ends[which])
    places[which] = np.where(found < len(values), found, size)
    return places


def _choices(targets: Targets, cells: Cells, grids: Grids, rows: Rows, code: Indices) -> Array:
    """Sum weights by cell, alternative and part of the outcome's range; tests compare cells."""
    if cells.instrument is None:
        return np.zeros((cells.n_codes, 0))
    assert rows.outcome is not None and rows.chosen is not None
    k, parts = targets.n_alternatives, len(grids.edges) + 2
    lacking = np.isnan(rows.outcome)
    place = np.searchsorted(grids.edges, np.where(lacking, 0.0, rows.outcome))
    place[lacking] = parts - 1
    chosen = np.where(rows.chosen < 0, k, rows.chosen)
    n_choices = (k + 1) * parts
    joined = (code * (k + 1) + chosen) * parts + place
    counted = np.bincount(joined, rows.weights, cells.n_codes * n_choices)
    return counted.reshape(cells.n_codes, n_choices).astype(np.float64)


def _spread(
    targets: Targets,
    cells: Cells,
    grids: Grids,
    references: Indices,
    below: Array,
    weight: Array,
    mean: Array,
    first: int,
    clusters: tuple[int, ...],
    batch: Batch,
) -> Parts:
    """Sum what rows add to distributions and means, squared; or its sums by cluster."""
    rows, code = batch.rows, cells.codes(batch.rows)
    ends = targets.ends(batch)
    n_targets, n_cells, width = len(targets.names), cells.n_codes, len(REFERENCES) + 1
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    each = np.empty((len(rows), n_targets, 2, width))
    for target, values in enumerate(grids.values):
        for side in range(2):
            end, at = ends[side][:, target], references[target, side]
            share = below[target, side][:, at] / np.maximum(weight, 1e-300)[:, None]
            each[:, target, side, :-1] = (end[:, None] <= values[at]) - share[code]
            centred = np.where(np.isfinite(end), end, 0.0) - np.nan_to_num(mean[target, side])[code]
            each[:, target, side, -1] = centred
    each *= weights[:, None, None, None]
    flat = each.reshape(len(rows), -1)
    if not clusters:
        return Parts((_by_target(_summed(code, flat**2, n_cells), n_targets, width),))
    assert rows.clusters is not None
    ways = rows.clusters.reshape(len(rows), -1)[:, first:]
    found = []
    for way, size in enumerate(clusters):
        total = _summed(ways[:, way] * n_cells + code, flat, size * n_cells)
        found.append(_by_target(total.reshape(size, n_cells, -1), n_targets, width))
    return Parts(found)


def _summed(code: Indices, values: Array, size: int) -> Array:
    """Add up the rows of each code, column by column."""
    return np.column_stack([np.bincount(code, column, size) for column in values.T])


def _by_target(total: Array, n_targets: int, width: int) -> Array:
    """Put cells after targets and ends: (..., targets x 2 x cells x width)."""
    *outer, n_cells, _ = total.shape
    split = total.reshape(*outer, n_cells, n_targets, 2, width)
    moved = np.moveaxis(split, -4, -2)
    return np.ascontiguousarray(moved).reshape(*outer, -1)
