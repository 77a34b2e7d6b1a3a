"""Naive and corrected coefficients with their intervals, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from selfselect.data.tables import nearest
from selfselect.errors import OptionError
from selfselect.inference.statistics import check_level, interval_reach
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
    records,
    short,
)

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


MOST_TERMS = 12
KINDS = (("naive", "least squares", "D", NAIVE), ("corrected", "corrected", "o", CORRECTED))


def coefficients(
    fit: FitResult, terms: Sequence[str] | None = None, *, level: float = 0.95, axes: Any = None
) -> Picture:
    """Draw least-squares and corrected coefficients with intervals, one panel per term.

    Parameters
    ----------
    fit : with or without its rows.
    terms : which terms; None for all, or the first twelve where there are more.
    level : of the intervals.
    axes : matplotlib axes to draw on, one per term; made where None.

    Returns
    -------
    Picture
        Its `data` has one row per term, alternative and kind of estimate.
    """
    check_drawn(fit, "FitResult")
    present = list(dict.fromkeys(t for one in fit.problem.equations.each for t in one.terms))
    chosen = present[:MOST_TERMS] if terms is None else [terms] if isinstance(terms, str) else terms
    for term in chosen:
        if term not in present:
            raise OptionError(f"There is no term {term!r} in the fit.{nearest(term, present)}")
    check_level(level)
    data = _intervals(fit, chosen, level)
    if axes is None:
        axes = new_axes(len(chosen), width=3.6, height=1.2 + 0.55 * _n_alternatives(fit))
    axes = given_axes(axes, len(chosen), "terms")
    labels = list(fit.problem.equations.alternatives)
    marks = []
    for place, (axis, term) in enumerate(zip(axes, chosen, strict=True)):
        own = data[data["term"] == term]
        _draw(axis, own, labels)
        axis.set_title(plain(term))
        where = own["alternative"].map(labels.index).to_numpy(dtype=float) + own["offset"]
        said = tuple(
            f"{row.alternative}, {row.estimate_of}: {short(row.estimate)}, "
            f"{100 * level:g}% interval {short(row.conf_low)} to {short(row.conf_high)}"
            for row in records(own)
        )
        marks.append(Marks(place, own["estimate"].to_numpy(), where.to_numpy(), said))
    axes[0].legend(
        loc="upper left", ncols=2, fontsize="small", frameon=False, borderpad=0.1,
        handlelength=1.4, columnspacing=1.0,
    )  # fmt: skip
    return Picture(axes, data.drop(columns="offset"), tuple(marks))


def _n_alternatives(fit: FitResult) -> int:
    return fit.problem.equations.n_alternatives


def _intervals(fit: FitResult, chosen: Sequence[str], level: float) -> pd.DataFrame:
    reach = interval_reach(level, fit.covariance.df)
    rows = []
    for one in records(fit.compare().table.reset_index()):
        if one.term not in chosen:
            continue
        for name, words, _, _ in KINDS:
            estimate, error = getattr(one, name), getattr(one, f"{name}_se")
            rows.append(
                {
                    "term": one.term,
                    "alternative": one.alternative,
                    "estimate_of": words,
                    "estimate": estimate,
                    "std_error": error,
                    "conf_low": estimate - reach * error,
                    "conf_high": estimate + reach * error,
                    "offset": -0.16 if name == "naive" else 0.16,
                }
            )
    return pd.DataFrame(rows)


def _draw(axis: Any, own: pd.DataFrame, labels: list[Any]) -> None:
    for _, words, marker, colour in KINDS:
        part = own[own["estimate_of"] == words]
        where = part["alternative"].map(labels.index).to_numpy(dtype=float) + part["offset"]
        reach = np.nan_to_num((part["conf_high"] - part["estimate"]).to_numpy())
        axis.errorbar(
            part["estimate"], where, xerr=reach, fmt=marker, color=colour, ms=5.5, lw=1.8,
            mfc="white" if marker == "D" else colour, label=words,
        )  # fmt: skip
    if own["conf_low"].min() < 0 < own["conf_high"].max():
        axis.axvline(0.0, color=FAINT, lw=0.9, zorder=0)
    axis.set_yticks(range(len(labels)), [plain(label) for label in labels])
    # The band above the first alternative is for the legend.
    axis.set_ylim(len(labels) - 0.5, -1.1)
    axis.locator_params(axis="x", nbins=4)
