"""The covariates of a fit in tables: numbers by their moments, categories by their shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.plots.paths import columns_of, grid_of, is_category
from selfselect.report.page import Block
from selfselect.report.summary import format_number

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["covariate_tables"]

Mask = NDArray[np.bool_]


def covariate_tables(fit: FitResult) -> list[Block]:
    """Describe the columns of the formulas, for all rows and where each alternative was chosen.

    Categories stand in their own order where they have one; of many the commonest are shown.
    """
    table, chosen = columns_of(fit), fit.rows.chosen
    labels = fit.problem.equations.alternatives if chosen is not None else ()
    groups: list[Mask] = [np.asarray(chosen == j) for j in range(len(labels))]
    numbers = [name for name in table if not is_category(table[name])]
    where = ", and where each was chosen" if labels else ""
    made = []
    if numbers:
        header = ("", "mean", "std dev", "smallest", "largest", *(f"mean, {one}" for one in labels))
        lines = tuple(_numbers(str(name), table[name], groups) for name in numbers)
        made.append(Block(f"Covariates that are numbers{where}", header, lines))
    for name in table:
        if is_category(table[name]):
            header = ("", "rows", "share", *(f"share, {one}" for one in labels))
            title = f"{name}, shares of its categories{where}"
            made.append(Block(title, header, _shares(table[name], groups)))
    return made


def _numbers(name: str, column: pd.Series[Any], groups: list[Mask]) -> tuple[str, ...]:
    values = column.to_numpy(dtype=float)
    recorded = ~np.isnan(values)
    known = values[recorded]
    found = [known.mean(), known.std(), known.min(), known.max()]
    own = [values[recorded & group] for group in groups]
    found += [one.mean() if len(one) else np.nan for one in own]
    return (name, *(format_number(float(number)) for number in found))


def _shares(column: pd.Series[Any], groups: list[Mask]) -> tuple[tuple[str, ...], ...]:
    recorded = column.notna().to_numpy()
    lines = []
    for label in grid_of(column.dropna()):
        here = (column == label).to_numpy(dtype=bool, na_value=False)
        shares = [_share(here, group & recorded) for group in (recorded, *groups)]
        lines.append((str(label), str(int(here.sum())), *shares))
    return tuple(lines)


def _share(here: Mask, group: Mask) -> str:
    return f"{100 * here[group].mean():.1f}%" if group.any() else ""
