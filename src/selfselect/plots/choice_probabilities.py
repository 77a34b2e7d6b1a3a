"""Choices along a covariate: the chance of every alternative, with its band."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from selfselect.data.tables import nearest
from selfselect.errors import OptionError
from selfselect.plots.base import (
    Marks,
    Picture,
    check_drawn,
    given_axes,
    new_axes,
    plain,
    records,
    short,
    style_of,
)
from selfselect.plots.paths import columns_of, grid_of, is_category

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["choice_probabilities"]


def choice_probabilities(
    fit: FitResult, covariate: str, *, level: float = 0.95, axes: Any = None
) -> Picture:
    """Draw the chance that each alternative is chosen along a covariate.

    Other columns are held at their means, categories at the commonest, as
    ``fit.choice_probabilities(at=...)`` does. Bands are pointwise, by the delta method.

    Parameters
    ----------
    fit : with its rows.
    covariate : a column of the formulas, of numbers or of categories (the commonest twelve).
    level : of the bands.
    axes : matplotlib axes to draw on; made where None.

    Returns
    -------
    Picture
        Its `data` has one row per value of the covariate and alternative.
    """
    check_drawn(fit, "FitResult")
    table = columns_of(fit)
    if covariate not in table:
        raise OptionError(
            f"There is no covariate {covariate!r} in the fit.{nearest(covariate, table.columns)}"
        )
    grid = grid_of(table[covariate])
    found = fit.choice_probabilities(at={covariate: grid}, level=level).table
    numbers = ["estimate", "std_error", "conf_low", "conf_high"]
    data = pd.DataFrame(
        {"value": found.iloc[:, 0], "alternative": found.iloc[:, 1], **found[numbers]}
    ).rename(columns={"estimate": "chance"})
    (axis,) = new_axes(1, width=6.0, height=4.0) if axes is None else given_axes(axes, 1, "picture")
    labels = fit.problem.equations.alternatives
    marks = tuple(
        _draw(axis, data.iloc[j :: len(labels)], label, j, covariate)
        for j, label in enumerate(labels)
    )
    if is_category(table[covariate]):
        crowded = sum(len(str(value)) for value in grid) > 40
        names = [plain(value) for value in grid]
        axis.set_xticks(
            range(len(grid)),
            names,
            rotation=30 if crowded else 0,
            ha="right" if crowded else "center",
        )
    axis.set_ylim(-0.02, 1.02)
    axis.set_xlabel(plain(covariate))
    axis.set_ylabel("chance of being chosen")
    axis.legend(loc="best", fontsize="small", framealpha=0.9)
    return Picture((axis,), data, marks)


def _draw(axis: Any, own: pd.DataFrame, label: Any, j: int, covariate: str) -> Marks:
    style = style_of(j)
    categories = is_category(own["value"])
    x = np.arange(len(own), dtype=float) if categories else own["value"].to_numpy(dtype=float)
    y = own["chance"].to_numpy()
    ends = np.nan_to_num([own["chance"] - own["conf_low"], own["conf_high"] - own["chance"]])
    if categories or len(own) <= 3:
        axis.errorbar(
            x, y, yerr=ends, fmt=style.marker, color=style.colour, ms=6, lw=1.8, label=plain(label)
        )
    else:
        axis.fill_between(x, y - ends[0], y + ends[1], color=style.colour, alpha=0.15, lw=0)
        axis.plot(
            x, y, ls=style.line, marker=style.marker, color=style.colour, lw=2.0, ms=5,
            markevery=max(1, len(x) // 5), label=plain(label),
        )  # fmt: skip
    said = tuple(
        f"{covariate} {one.value if categories else short(one.value)}: {label} "
        f"{100 * one.chance:.1f}%"
        + ("" if np.isnan(one.std_error) else f" (std err {100 * one.std_error:.1f})")
        for one in records(own)
    )
    return Marks(0, x, y, said)
