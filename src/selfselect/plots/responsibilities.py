"""The likely choice, row by row or over time, where it was not recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from selfselect.errors import OptionError
from selfselect.plots.base import Marks, Picture, check_drawn, given_axes, new_axes, plain, style_of

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


MOST_POINTS = 240
WINDOWS = 40


def responsibilities(
    fit: FitResult, time: Any = None, *, window: int | None = None, axes: Any = None
) -> Picture:
    """Draw the probability that each alternative was the chosen one, over time.

    Parameters
    ----------
    fit : with its rows, in which the choice was not recorded.
    time : one number or date per row; None for the order of the rows.
    window : rows over which probabilities are averaged, centred; None for a fortieth of them.
    axes : matplotlib axes to draw on; made where None.

    Returns
    -------
    Picture
        Its `data` has one row per point in time and one column per alternative.
    """
    check_drawn(fit, "FitResult")
    chance = fit.responsibilities()
    order, when = _in_order(time, len(chance))
    if window is None:
        window = max(1, len(chance) // WINDOWS)
    if not (isinstance(window, int | np.integer) and window >= 1):
        raise OptionError(f"window={window!r} is not a number of rows. Use 1 or more.")
    smooth = chance.iloc[order].reset_index(drop=True)
    smooth = smooth.rolling(int(window), center=True, min_periods=1).mean()
    keep = np.unique(np.linspace(0, len(smooth) - 1, min(len(smooth), MOST_POINTS)).astype(int))
    data = smooth.iloc[keep].set_axis(pd.Index(when[keep], name="time"))
    (axis,) = given_axes(new_axes(1, width=8.0, height=3.4) if axes is None else axes, 1, "picture")
    for j, label in enumerate(chance.columns):
        style = style_of(j)
        axis.plot(
            data.index, data.iloc[:, j], ls=style.line, color=style.colour, lw=1.7,
            marker=style.marker, ms=4, markevery=max(1, len(data) // 12), label=plain(label),
        )  # fmt: skip
    axis.set_ylim(-0.02, 1.02)
    axis.set_xlabel("row" if time is None else plain(getattr(time, "name", None) or "time"))
    mean = "" if window == 1 else f",\nmean of {window} rows"
    axis.set_ylabel(f"chance of having been chosen{mean}")
    axis.legend(loc="best", fontsize="small", framealpha=0.9)
    x = np.asarray(axis.convert_xunits(data.index.to_numpy()), dtype=float)
    marks = tuple(
        Marks(
            0, x, data.iloc[:, j].to_numpy(),
            tuple(f"{at}: {label} {100 * value:.0f}%" for at, value in data.iloc[:, j].items()),
        )
        for j, label in enumerate(chance.columns)
    )  # fmt: skip
    return Picture((axis,), data, marks)


def _in_order(time: Any, n_rows: int) -> tuple[Any, Any]:
    """Return the order of the rows in time, and their times in that order."""
    if time is None:
        return np.arange(n_rows), np.arange(1, n_rows + 1)
    values = np.asarray(time)
    if values.shape != (n_rows,):
        raise OptionError(
            f"`time` has the shape {values.shape}, but the fit has {n_rows} rows. Give one per "
            "row that was fitted."
        )
    order = np.argsort(values, kind="stable")
    return order, values[order]
