"""What is drawn along a covariate: one line or one row of points per alternative, with bands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from selfselect.data.tables import nearest
from selfselect.errors import OptionError
from selfselect.plots.base import Marks, plain, records, short, style_of
from selfselect.plots.paths import columns_of, grid_of, is_category

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["draw_along", "values_along"]

APART = 0.12
"""How far the points of alternatives stand apart where they share a category."""


def values_along(fit: FitResult, covariate: str) -> pd.Series[Any]:
    """Return the values of a column to walk through, or say which columns there are."""
    table = columns_of(fit)
    if covariate not in table:
        raise OptionError(
            f"There is no covariate {covariate!r} in the fit.{nearest(covariate, table.columns)}"
        )
    return pd.Series(grid_of(table[covariate]))


def draw_along(
    axis: Any,
    data: pd.DataFrame,
    labels: Sequence[Any],
    covariate: str,
    said: Callable[[Any], str],
) -> tuple[Marks, ...]:
    """Draw estimates of every alternative along a covariate, with bands.

    Parameters
    ----------
    axis : matplotlib axes.
    data : ``value``, ``alternative``, ``estimate``, ``std_error``, ``conf_low`` and ``conf_high``,
        sorted by value.
    labels : the alternatives.
    covariate : the name of the column.
    said : what a row of `data` says when pointed at.
    """
    categories = is_category(data["value"])
    marks = tuple(
        _draw(axis, data[data["alternative"] == label], j, len(labels), covariate, said)
        for j, label in enumerate(labels)
    )
    if categories:
        names = [plain(value) for value in data["value"].drop_duplicates()]
        crowded = sum(map(len, names)) > 40
        axis.set_xticks(
            range(len(names)),
            names,
            rotation=30 if crowded else 0,
            ha="right" if crowded else "center",
        )
    axis.set_xlabel(plain(covariate))
    axis.legend(loc="best", fontsize="small", framealpha=0.9)
    return marks


def _draw(
    axis: Any, own: pd.DataFrame, j: int, k: int, covariate: str, said: Callable[[Any], str]
) -> Marks:
    style, label = style_of(j), plain(own["alternative"].iloc[0])
    categories = is_category(own["value"])
    x = np.arange(len(own), dtype=float) if categories else own["value"].to_numpy(dtype=float)
    y = own["estimate"].to_numpy(dtype=float)
    ends = np.nan_to_num([y - own["conf_low"], own["conf_high"] - y])
    if categories or len(own) <= 3:
        if categories:
            x = x + APART * (j - 0.5 * (k - 1)) * min(1.0, 6.0 / k)
        axis.errorbar(
            x, y, yerr=ends, fmt=style.marker, color=style.colour, ms=6, lw=1.8, label=label
        )
    else:
        axis.fill_between(x, y - ends[0], y + ends[1], color=style.colour, alpha=0.15, lw=0)
        axis.plot(
            x, y, ls=style.line, marker=style.marker, color=style.colour, lw=2.0, ms=5,
            markevery=max(1, len(x) // 5), label=label,
        )  # fmt: skip
    texts = tuple(
        f"{covariate} {one.value if categories else short(one.value)}: {said(one)}"
        for one in records(own)
    )
    return Marks(0, x, y, texts)
