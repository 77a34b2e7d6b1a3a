"""The distribution of gains of one alternative over another: how many gain, and how much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.plots.base import (
    FAINT,
    INK,
    UNOBSERVED,
    Marks,
    Picture,
    check_drawn,
    given_axes,
    new_axes,
    plain,
    short,
    style_of,
)

if TYPE_CHECKING:
    from selfselect.effects import Gains


Array = NDArray[np.float64]

BINS = 50


def gains(found: Gains, *, axes: Any = None) -> Picture:
    """Draw the distribution of gains among everyone and among those who choose either alternative.

    Heights are shares of everyone, so that the groups add up to the whole where there are two
    alternatives.

    Parameters
    ----------
    found : what ``fit.gains(to, versus)`` returned.
    axes : matplotlib axes to draw on; made where None.

    Returns
    -------
    Picture
        Its `data` has one row per bin, with the share of everyone in it by group.
    """
    check_drawn(found, "Gains")
    groups = list(dict.fromkeys(found.table["group"]))
    gain = found.draws["gain"].to_numpy()
    chosen = found.draws["seen"].map(str) + " chosen"
    edges = _edges(gain)
    data = pd.DataFrame({"low": edges[:-1], "high": edges[1:]})
    for place, group in enumerate(groups):
        own = np.ones(len(gain), dtype=bool) if place == 0 else (chosen == group).to_numpy()
        data[group] = np.histogram(gain[own], edges)[0] / len(gain)
    (axis,) = new_axes(1, width=6.0, height=3.6) if axes is None else given_axes(axes, 1, "picture")
    means = found.table[found.table["quantity"] == "mean"].set_index("group")["estimate"]
    axis.stairs(data[groups[0]], edges, fill=True, color=UNOBSERVED, alpha=0.5,
                label=plain(f"{groups[0]}: mean {short(means[groups[0]])}"))  # fmt: skip
    for place, group in enumerate(groups[1:]):
        style = style_of(place)
        axis.stairs(
            data[group], edges, color=style.colour, ls=style.line, lw=2.0,
            label=plain(f"{group}: mean {short(means[group])}"),
        )  # fmt: skip
    axis.axvline(0.0, color=INK, lw=0.9)
    axis.axvline(means[groups[0]], color=FAINT, lw=1.2, ls=":")
    axis.set_xlabel("gain")
    axis.set_ylabel("share of everyone")
    axis.legend(loc="best", fontsize="small", framealpha=0.9)
    middle = 0.5 * (edges[:-1] + edges[1:])
    said = tuple(
        f"gain {short(low)} to {short(high)}: "
        + ", ".join(f"{group} {100 * share:.1f}%" for group, share in zip(groups, row, strict=True))
        for low, high, *row in data.to_numpy()
    )
    return Picture((axis,), data, (Marks(0, middle, data[groups[0]].to_numpy(), said),))


def _edges(gain: Array) -> Array:
    """Return edges of bins of one width, one of them at zero, around all but the far tails."""
    low, high = np.quantile(gain, [0.002, 0.998])
    width = float(high - low) / BINS or 1.0
    first, last = np.floor(min(low, 0.0) / width), np.ceil(max(high, 0.0) / width)
    edges: Array = width * np.arange(first, last + 1)
    return edges
