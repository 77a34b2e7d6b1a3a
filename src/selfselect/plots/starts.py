"""Where the starts of a search ended: how many agree, and how far the others fell short."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from selfselect.errors import UnsupportedError
from selfselect.plots.base import (
    CORRECTED,
    FAINT,
    NAIVE,
    Marks,
    Picture,
    check_drawn,
    given_axes,
    new_axes,
    plain,
    short,
)
from selfselect.solvers.base import same_optimum

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


MOST_NAMES = 40
ENDS = (
    ("best", "reached the best optimum", "o", CORRECTED),
    ("behind", "ended below it", "D", NAIVE),
    ("discarded", "discarded", "x", FAINT),
)


def starts(fit: FitResult, *, axes: Any = None) -> Picture:
    """Draw how far below the best optimum each start of the search ended.

    Parameters
    ----------
    fit : by a solver that searches from several starts; with or without its rows.
    axes : matplotlib axes to draw on; made where None.

    Returns
    -------
    Picture
        Its `data` is ``fit.starts`` in order, with the kind of `end`.
    """
    check_drawn(fit, "FitResult")
    data = fit.starts
    if not len(data):
        raise UnsupportedError(
            "This fit was not searched from several starts: its likelihood has one optimum, or "
            "its solver does not search."
        )
    mean_weight = fit.facts.weight_total / fit.facts.n_rows
    data["end"] = [
        "discarded" if one.fault is not None
        else "best" if same_optimum(one.behind, mean_weight) else "behind"
        for one in fit.solution.starts
    ]  # fmt: skip
    data = data.sort_values("behind", ascending=False, kind="stable", na_position="last")
    data = data.reset_index(drop=True)
    if axes is None:
        height = 1.2 + 0.22 * min(len(data), MOST_NAMES)
        axes = new_axes(1, width=6.4, height=height)
    (axis,) = given_axes(axes, 1, "picture")
    short_by = (-data["behind"]).clip(lower=0.0).to_numpy()
    finite = np.isfinite(short_by)
    far = 2.0 * max(short_by[finite].max(initial=0.0), mean_weight)
    where = np.where(finite, short_by, far)
    for end, words, marker, colour in ENDS:
        own = (data["end"] == end).to_numpy()
        if own.any():
            label = f"{words} ({own.sum()} of {len(data)})"
            axis.plot(where[own], np.flatnonzero(own), marker, color=colour, ms=6, label=label)
    axis.set_xscale("symlog", linthresh=0.01 * mean_weight)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_xlim(-0.004 * mean_weight, 1.5 * max(where.max(), mean_weight))
    axis.set_ylim(len(data) - 0.5, -0.5)
    if len(data) <= MOST_NAMES:
        axis.set_yticks(range(len(data)), [plain(name) for name in data["name"]], fontsize="small")
    axis.set_xlabel("log-likelihood below the best")
    axis.legend(loc="best", fontsize="small", framealpha=0.9)
    said = tuple(
        f"{name}: " + (f"{short(abs(behind))} below the best" if pd.isna(fault) else str(fault))
        for name, behind, fault in zip(data["name"], data["behind"], data["fault"], strict=True)
    )
    return Picture((axis,), data, (Marks(0, where, np.arange(len(data), dtype=float), said),))
