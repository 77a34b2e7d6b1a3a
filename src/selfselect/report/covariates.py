"""The covariates of a fit in tables: numbers by their moments, categories by their shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.plots.paths import columns_of, grid_of, is_category
from selfselect.report.numbers import format_count, format_number
from selfselect.report.page import Block

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["covariate_tables"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def covariate_tables(fit: FitResult) -> list[Block]:
    """Describe the columns of the formulas, for all rows and where each alternative was chosen.

    Categories stand in their own order where they have one; of many the commonest are shown. Rows
    count by their weights.
    """
    table, chosen, weights = columns_of(fit), fit.rows.chosen, fit.rows.weights
    counts = np.ones(len(table)) if weights is None else weights
    labels = fit.problem.equations.alternatives if chosen is not None else ()
    groups: list[Mask] = [np.asarray(chosen == j) for j in range(len(labels))]
    numbers = [name for name in table if not is_category(table[name])]
    where = ", and where each was chosen" if labels else ""
    where += "" if weights is None else " (weighted)"
    made = []
    if numbers:
        header = ("", "mean", "std dev", "smallest", "largest", *(f"mean, {one}" for one in labels))
        lines = tuple(_numbers(str(name), table[name], groups, counts) for name in numbers)
        made.append(Block(f"Covariates that are numbers{where}", header, lines))
    for name in table:
        if is_category(table[name]):
            rows = "rows" if weights is None else "sum of weights"
            header = ("", rows, "share", *(f"share, {one}" for one in labels))
            title = f"{name}, shares of its categories{where}"
            made.append(Block(title, header, _shares(table[name], groups, counts)))
    return made


def _numbers(
    name: str, column: pd.Series[Any], groups: list[Mask], counts: Array
) -> tuple[str, ...]:
    values = column.to_numpy(dtype=float)
    recorded = ~np.isnan(values) & (counts > 0)
    known, own = values[recorded], counts[recorded]
    mean = np.average(known, weights=own)
    spread = np.sqrt(np.average((known - mean) ** 2, weights=own))
    found = [mean, spread, known.min(), known.max()]
    for group in groups:
        here = recorded & group
        found.append(np.average(values[here], weights=counts[here]) if here.any() else np.nan)
    return (name, *(format_number(float(number)) for number in found))


def _shares(
    column: pd.Series[Any], groups: list[Mask], counts: Array
) -> tuple[tuple[str, ...], ...]:
    recorded = column.notna().to_numpy() & (counts > 0)
    lines = []
    for label in grid_of(column[recorded]):
        here = (column == label).to_numpy(dtype=bool, na_value=False)
        shares = [_share(here, group & recorded, counts) for group in (recorded, *groups)]
        lines.append((str(label), format_count(counts[here].sum()), *shares))
    return tuple(lines)


def _share(here: Mask, group: Mask, counts: Array) -> str:
    return f"{100 * np.average(here[group], weights=counts[group]):.1f}%" if group.any() else ""
