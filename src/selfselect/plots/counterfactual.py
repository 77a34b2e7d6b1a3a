"""A change: shares of the alternatives, and the mean outcome, before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

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

if TYPE_CHECKING:
    from selfselect.effects.counterfactual import Counterfactual


APART = 0.16


def counterfactual(found: Counterfactual, *, axes: Any = None) -> Picture:
    """Draw what a change does to shares and to the mean of the observed outcome.

    Parameters
    ----------
    found : what `fit.counterfactual` returned.
    axes : two matplotlib axes to draw on, for shares and for the outcome; made where None.

    Returns
    -------
    Picture
        Its `data` has one row per quantity, before and after.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(300, seed=1).data
    >>> fit = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> change = fit.counterfactual(subsidy={"fishing": 5})
    >>> ss.plots.counterfactual(change).data["quantity"].unique().tolist()
    ['share of fishing', 'share of hunting', 'mean income']
    """
    check_drawn(found, "Counterfactual")
    shares, outcomes = found.shares.table, found.outcomes.table
    mean = outcomes["quantity"].iloc[0]
    numbers = ["estimate", "conf_low", "conf_high"]
    names = "share of " + shares["alternative"].astype(str)
    data = pd.concat(
        [
            pd.DataFrame({"quantity": names, "when": shares["when"], **shares[numbers]}),
            outcomes[outcomes["quantity"] == mean][["quantity", "when", *numbers]],
        ],
        ignore_index=True,
    )
    data = data[data["when"] != "change"].reset_index(drop=True)
    two = new_axes(2, width=5.0, height=3.6) if axes is None else given_axes(axes, 2, "panels")
    is_mean = data["quantity"] == mean
    marks = (
        *_draw(two[0], data[~is_mean], 0, percent=True),
        *_draw(two[1], data[is_mean], 1, percent=False),
    )
    two[0].set_xlim(-2.0, 102.0)
    two[0].set_xlabel("per cent of all")
    two[1].set_xlabel(plain(mean))
    two[0].legend(loc="best", fontsize="small", framealpha=0.9)
    return Picture(tuple(two), data, marks)


def _draw(axis: Any, data: pd.DataFrame, panel: int, *, percent: bool) -> tuple[Marks, ...]:
    names = list(dict.fromkeys(data["quantity"]))
    factor = 100.0 if percent else 1.0
    marks = []
    for number, when in enumerate(("before", "after")):
        own = data[data["when"] == when]
        x = factor * own["estimate"].to_numpy(dtype=float)
        y = np.arange(len(own), dtype=float) + APART * (2 * number - 1)
        ends = factor * own[["conf_low", "conf_high"]].to_numpy(dtype=float).T
        style = style_of(number)
        axis.errorbar(
            x, y, xerr=np.nan_to_num(np.abs(ends - x)), fmt=style.marker, color=style.colour,
            ms=6, lw=1.8, label=when,
        )  # fmt: skip
        said = tuple(
            f"{one.quantity} {when}: {short(factor * one.estimate)}{'%' if percent else ''}"
            for one in records(own)
        )
        marks.append(Marks(panel, x, y, said))
    axis.set_yticks(range(len(names)), [plain(name) for name in names])
    axis.set_ylim(len(names) - 0.4, -0.6)
    return tuple(marks)
