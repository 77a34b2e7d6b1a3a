"""Marginal treatment effects: the curve, its band, and where the data supports it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from selfselect.plots.base import (
    CORRECTED,
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
)

if TYPE_CHECKING:
    from selfselect.effects import MarginalTreatment


def mte(found: MarginalTreatment, *, axes: Any = None) -> Picture:
    """Draw the mean gain by resistance, with its band; dashed outside the support.

    Parameters
    ----------
    found : what ``result.mte()`` returned.
    axes : matplotlib axes to draw on; made where None.

    Returns
    -------
    Picture
        Its `data` is the table of the curve.
    """
    check_drawn(found, "MarginalTreatment")
    data = found.table.copy()
    v, gain = data["resistance"].to_numpy(), data["estimate"].to_numpy()
    (axis,) = new_axes(1, width=6.0, height=3.6) if axes is None else given_axes(axes, 1, "picture")
    level = f"{100 * found.effect.level:g}% band"
    axis.fill_between(
        v, data["conf_low"], data["conf_high"], color=CORRECTED, alpha=0.2, lw=0, label=level
    )
    supported = _supported(data)
    axis.plot(v, gain, color=CORRECTED, ls="--", lw=1.2)
    axis.plot(v, np.where(supported, gain, np.nan), color=CORRECTED, lw=2.0, label="mean gain")
    if found.support is not None:
        axis.axvspan(
            found.support.low, found.support.high, ymax=0.03, color=UNOBSERVED,
            label="support of the propensity",
        )  # fmt: skip
    ate = found.averages.table["estimate"].iloc[0]
    if np.isfinite(ate):
        axis.axhline(ate, color=FAINT, lw=1.2, ls=":", label=plain(f"ATE {short(ate)}"))
    axis.axhline(0.0, color=INK, lw=0.9)
    axis.set_xlim(0.0, 1.0)
    axis.set_xlabel("resistance to treatment: treated first on the left")
    axis.set_ylabel("mean gain")
    axis.legend(loc="best", fontsize="small", framealpha=0.9)
    said = tuple(
        f"resistance {one:.2f}: {short(value)}" + ("" if inside else ", outside the support")
        for one, value, inside in zip(v, gain, supported, strict=True)
    )
    return Picture((axis,), data, (Marks(0, v, gain, said),))


def _supported(data: pd.DataFrame) -> Any:
    if "supported" not in data:
        return np.ones(len(data), dtype=bool)
    return (data["supported"] == "yes").to_numpy()
