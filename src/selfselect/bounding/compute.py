"""Tables of bounds, and tests of the rule by bounds that cross."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.bounding.bounds import (
    REACH,
    Bound,
    Bounds,
    BoundsAsked,
    MeanBound,
    QuantileBound,
    ShareBound,
    Side,
    best_of,
)
from selfselect.bounding.sums import Counted, Grids, count_ends, make_grids
from selfselect.bounding.targets import CellGroup, Cells, Targets
from selfselect.engines.base import Engine
from selfselect.inference.dependence import Dependence
from selfselect.inference.statistics import TestResult, impossible_test
from selfselect.kernels.tails import chdtrc, erfc, ndtri

Array = NDArray[np.float64]


# Tests of the rule: bounds of several values of an instrument that contradict each other.
#
# Where an instrument has no part in an outcome, its distribution is the same at every value of the
# instrument, so a lower bound at one value may not exceed an upper bound at another. Crossing
# bounds reject rule and exclusion together, whatever the noise. Where the instrument has no part
# in any outcome nor in costs, outcome and choice may not depend on it at all.


RULE, CHOICES = "Test of the rule", "Test that outcome and choice do not depend on the instrument"

FEWEST_EXPECTED = 5.0
"""Rows that are expected of a combination of outcome and choice for chi-square to hold."""


def crossing_test(
    counted: Counted, groups: Sequence[CellGroup], grids: Grids, excluded: Sequence[int]
) -> TestResult:
    """Test that no lower bound lies above an upper one of another value of the instrument.

    The statistic is the largest crossing in units of its standard error. The p-value is that of
    the inequalities that may hold with equality, each counted (Bonferroni): it is too large rather
    than too small.

    Parameters
    ----------
    counted, groups, grids : distributions by value of the instrument.
    excluded : the outcomes in which the instrument has no part.
    """
    found = []
    for group in groups:
        cells = np.array(group.cells)
        if len(cells) < 2:
            continue
        for target in excluded:
            at = np.searchsorted(grids.values[target], grids.points[target])
            least, least_error = _shares(counted, target, 1, cells, at)
            most, most_error = _shares(counted, target, 0, cells, at)
            crossing = least[:, None, :] - most[None, :, :]
            if np.isinf(counted.df):
                error = np.hypot(least_error[:, None, :], most_error[None, :, :])
            else:
                # Rows of a cluster may be at several values of the instrument.
                error = least_error[:, None, :] + most_error[None, :, :]
            other = ~np.eye(len(cells), dtype=bool)
            found.append((crossing / error)[other].ravel())
    if not found:
        return impossible_test(RULE, "the instrument has one value with rows enough")
    every = np.concatenate(found)
    rows = float(counted.weight.sum())
    near = ndtri(1.0 - REACH / np.log(max(rows, 3.0)) / len(every))
    # Where all are far from equality the largest alone counts, and rejects nothing.
    binding = max(1, int((every > -near).sum()))
    statistic = float(every.max())
    p_value = min(1.0, binding * 0.5 * float(erfc(statistic / np.sqrt(2.0))))
    return TestResult(
        RULE,
        "the rule holds, and the instrument does not affect the outcomes it is excluded from",
        statistic,
        binding,
        p_value,
        law="largest crossing of bounds in standard errors",
    )


def _shares(
    counted: Counted, target: int, end: int, cells: NDArray[np.intp], at: NDArray[np.intp]
) -> tuple[Array, Array]:
    """Return distributions (cells, points) and their errors, which are positive everywhere."""
    share = counted.below[target, end][np.ix_(cells, at)] / counted.weight[cells, None]
    rows = counted.effective[target, end][cells, None]
    # Agresti and Coull: two rows more on either side.
    moved = (share * rows + 2.0) / (rows + 4.0)
    return share, np.sqrt(moved * (1.0 - moved) / rows)


def same_choices_test(counted: Counted, groups: Sequence[CellGroup]) -> TestResult:
    """Test, by Pearson's chi-square, that (outcome, choice) does not depend on the instrument.

    Outcomes are compared in four parts of their range. With clusters or probability weights rows
    count as the independent rows that would tell as much.
    """
    statistic, df = 0.0, 0
    rows = counted.effective.min(axis=(0, 1))
    for group in groups:
        cells = np.array(group.cells)
        share = counted.choices[cells] / counted.weight[cells, None]
        count = rows[cells]
        pooled = count @ share / count.sum()
        enough = pooled * count.min() >= FEWEST_EXPECTED
        rest = share[:, ~enough].sum(axis=1, keepdims=True)
        share = np.hstack([share[:, enough], rest])
        pooled = count @ share / count.sum()
        kept = pooled > 0.0
        share, pooled = share[:, kept], pooled[kept]
        if len(cells) > 1 and len(pooled) > 1:
            statistic += float((count[:, None] * (share - pooled) ** 2 / pooled).sum())
            df += (len(cells) - 1) * (len(pooled) - 1)
    if not df:
        return impossible_test(CHOICES, "too few rows are in each value of the instrument")
    return TestResult(
        CHOICES,
        "the rule holds, and the instrument affects no outcome and no cost",
        statistic,
        df,
        float(chdtrc(df, statistic)),
    )


# From rows to bounds: what is asked, counted, and put into tables.


POWER = (
    "The test of the rule detects only gross violations, such as choices that are rationed by "
    "the instrument; not rejecting does not confirm the rule."
)


def compute_bounds(
    targets: Targets,
    engine: Engine,
    cells: Cells,
    asked: BoundsAsked,
    *,
    dependence: Dependence,
    first_cluster: int,
    excluded: Sequence[int],
    moved_by_costs: bool,
) -> Bounds:
    """Compute all bounds of rows.

    Parameters
    ----------
    targets : outcomes and differences.
    engine : the rows.
    cells : in which bounds are computed; with an instrument, over whose values they are
        intersected.
    asked : what to show.
    dependence, first_cluster : as in `count_ends`.
    excluded : the alternatives in whose outcomes the instrument has no part.
    moved_by_costs : whether costs or availability may move with the instrument.
    """
    cells.check()
    grids = make_grids(targets, engine, asked.points, cells.n_codes)
    counted, groups, notes = count_ends(targets, engine, cells, grids, dependence, first_cluster)
    sharp = _sharpened(targets, excluded) if cells.instrument is not None else ()
    plain, plain_groups = counted, groups
    if cells.instrument is not None and len(sharp) < len(targets.names):
        alone = replace(cells, instrument=None)
        plain, plain_groups, _ = count_ends(
            targets, engine, alone, grids, dependence, first_cluster
        )
    by = tuple(factor.name for factor in cells.by)
    widest = 0.0
    frames: dict[str, list[dict[str, Any]]] = {"distribution": [], "quantiles": [], "means": []}
    for place, group in enumerate(groups):
        named = dict(zip(by, group.values, strict=True))
        for target, name in enumerate(targets.names):
            use = (counted, group) if target in sharp else (plain, plain_groups[place])
            least, most = map(float, targets.limits[:, target])
            sample = _Sample(use[0], grids, use[1], target, asked, (least, most))
            widest = max(widest, sample.rounding)
            for what, rows in sample.tables().items():
                frames[what] += [{**named, "of": name, **row} for row in rows]
    tests: tuple[Any, ...] = ()
    if cells.instrument is not None:
        tests = (crossing_test(counted, groups, grids, excluded),)
        if len(excluded) == targets.n_alternatives and not moved_by_costs:
            tests = (*tests, same_choices_test(counted, groups))
        notes = (*notes, _about(targets, cells, excluded), POWER)
    notes = (*notes, *_about_rounding(grids, counted, widest))
    warnings = [
        f"REJECTED: {one.name.lower()}, p = {one.p_value:.2g}. At least one part of the null "
        f"hypothesis is false: {one.null}. The bounds below assume all of it."
        for one in tests
        if one.rejects()
    ]
    return Bounds(
        distribution=pd.DataFrame(frames["distribution"]),
        quantiles=pd.DataFrame(frames["quantiles"]),
        means=pd.DataFrame(frames["means"]),
        tests=tests,
        level=asked.level,
        by=by,
        n_rows=engine.n_rows,
        warnings=tuple(warnings),
        notes=notes,
    )


def _sharpened(targets: Targets, excluded: Sequence[int]) -> tuple[int, ...]:
    """Return the targets in which the instrument has no part: a difference where neither has."""
    k = targets.n_alternatives
    both = [k + i for i, pair in enumerate(targets.pairs) if set(pair) <= set(excluded)]
    return (*excluded, *both)


def _about(targets: Targets, cells: Cells, excluded: Sequence[int]) -> str:
    assert cells.instrument is not None
    named = ", ".join(targets.names[j] for j in excluded)
    given = " given " + ", ".join(one.name for one in cells.by) if cells.by else ""
    cut = f", cut into {len(cells.instrument.levels)} groups," if cells.instrument.grouped else ""
    return (
        f"Assumed: {cells.instrument.name}{cut} is independent of the outcome of {named}{given}. "
        "Its bounds are the tightest over the instrument's values, each first moved outwards by "
        "its imprecision (Chernozhukov, Lee and Rosen)."
    )


def _about_rounding(grids: Grids, counted: Counted, widest: float) -> tuple[str, ...]:
    """Say how quantiles are rounded; nothing where all ends are on the grid."""
    if not (counted.between.any() or any(grids.thinned)):
        return ()
    return (
        f"Quantiles are computed on {grids.size - 1} values of the outcome, rounded outwards to "
        f"the next of them: here by at most {widest:.2g}.",
    )


@dataclass(frozen=True, eq=False)
class _Sample:
    """One target in one group of cells."""

    counted: Counted
    grids: Grids
    group: CellGroup
    target: int
    asked: BoundsAsked
    limits: tuple[float, float]

    @property
    def tail(self) -> float:
        return 0.5 * (1.0 - self.asked.level)

    @property
    def rounding(self) -> float:
        """How far its quantiles may be rounded outwards."""
        sides: tuple[Side, Side] = ("lower", "upper")
        return max(
            self._quantile(quantile, side, cell).rounding
            for quantile in self.asked.quantiles
            for side in sides
            for cell in self.group.cells
        )

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of every table."""
        values = self.grids.values[self.target]
        points = self.grids.points[self.target]
        at = np.searchsorted(values, points)
        distribution = [
            {"at": float(y), **self._row(partial(self._share, int(p)))}
            for y, p in zip(points, at, strict=True)
        ]
        quantiles = [
            {"quantile": q, **self._row(partial(self._quantile, q))} for q in self.asked.quantiles
        ]
        return {
            "distribution": distribution,
            "quantiles": quantiles,
            "means": [self._row(self._mean)],
        }

    def _row(self, make: Callable[[Side, int], Bound]) -> dict[str, float]:
        rows = float(self.counted.weight[list(self.group.cells)].sum())
        sides: tuple[Side, Side] = ("lower", "upper")
        low, high = (
            best_of([make(side, cell) for cell in self.group.cells], side, self.tail, rows)
            for side in sides
        )
        return {
            "lower": low.estimate,
            "upper": high.estimate,
            "conf_low": low.confidence,
            "conf_high": high.confidence,
        }

    def _shares(self, end: int, cell: int) -> Array:
        size = len(self.grids.values[self.target])
        counted = self.counted.below[self.target, end, cell, :size]
        return np.asarray(counted / self.counted.weight[cell])

    def _share(self, place: int, side: Side, cell: int) -> ShareBound:
        # A distribution function is lowest where all outcomes are at their upper ends.
        end = 1 if side == "lower" else 0
        share = min(float(self._shares(end, cell)[place]), 1.0)
        return ShareBound(share, float(self.counted.effective[self.target, end, cell]))

    def _quantile(self, quantile: float, side: Side, cell: int) -> QuantileBound:
        end = 0 if side == "lower" else 1
        values = self.grids.values[self.target]
        marks = self.counted.between[self.target]
        if side == "upper":
            marks = np.full(len(marks), self.grids.thinned[self.target])
        return QuantileBound(
            quantile,
            values,
            self._shares(end, cell),
            np.append(marks[: len(values)], marks[-1]),
            float(self.counted.effective[self.target, end, cell]),
            side,
            self.limits,
        )

    def _mean(self, side: Side, cell: int) -> MeanBound:
        end = 0 if side == "lower" else 1
        if not self.counted.finite[self.target, end, cell]:
            return MeanBound(-np.inf if side == "lower" else np.inf, 0.0, self.counted.df)
        return MeanBound(
            float(self.counted.mean[self.target, end, cell]),
            float(np.sqrt(self.counted.variance[self.target, end, cell])),
            self.counted.df,
        )
