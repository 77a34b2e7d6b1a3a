"""From rows to bounds: what is asked, counted, and put into tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.bounding.asked import Asked
from selfselect.bounding.bounds import Bounds
from selfselect.bounding.cells import Cells, Group
from selfselect.bounding.confidence import (
    Bound,
    MeanBound,
    QuantileBound,
    ShareBound,
    Side,
    best_of,
)
from selfselect.bounding.crossing import crossing_test, same_choices_test
from selfselect.bounding.sums import Counted, Grids, count_ends, make_grids
from selfselect.bounding.targets import Targets
from selfselect.engines.base import Engine
from selfselect.inference.dependence import Dependence

__all__ = ["compute_bounds"]

Array = NDArray[np.float64]

POWER = (
    "The test of the rule detects only gross violations, such as choices that are rationed by "
    "the instrument; not rejecting does not confirm the rule."
)


def compute_bounds(
    targets: Targets,
    engine: Engine,
    cells: Cells,
    asked: Asked,
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
    group: Group
    target: int
    asked: Asked
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
