"""Bounds of distributions as bands, with what a fit says inside or outside of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd

from selfselect.errors import OptionError
from selfselect.plots.base import (
    CORRECTED,
    FAINT,
    Marks,
    Picture,
    check_drawn,
    given_axes,
    new_axes,
    plain,
    style_of,
    texts,
)


class HasBands(Protocol):
    """Anything with bounds of distributions: what `selfselect.bounds` returns."""

    @property
    def distribution(self) -> pd.DataFrame:
        """Bounds of distribution functions."""

    @property
    def by(self) -> tuple[str, ...]:
        """Columns that cells are made of."""

    @property
    def level(self) -> float:
        """Of confidence."""


def bounds(found: HasBands, of: Sequence[str] | None = None, *, axes: Any = None) -> Picture:
    """Draw the bounds of distribution functions, one panel per outcome or difference and cell.

    The dark band lies between the bounds, the light one is their confidence region. A dashed line
    is a fit: where it leaves the band, the model is misspecified; inside the band, it is not
    confirmed.

    Parameters
    ----------
    found : of `selfselect.bounds` or `FitResult.bounds`.
    of : outcomes and differences to draw; None for the outcomes.
    axes : matplotlib axes, one per panel; made where None.

    Returns
    -------
    Picture
        Its `data` is the table of the bounds that are drawn.
    """
    check_drawn(found, "Bounds")
    table = found.distribution
    names = list(dict.fromkeys(table["of"]))
    if of is None:
        # Differences come after the outcomes they are of, two or more.
        of = [name for name in names if not _is_difference(name, names)]
    for name in of:
        if name not in names:
            raise OptionError(f"There are no bounds of {name!r}; there are {', '.join(names)}.")
    table = table[table["of"].isin(list(of))]
    panels = list(table.groupby([*found.by, "of"], sort=False, observed=True))
    axes = given_axes(new_axes(len(panels)) if axes is None else axes, len(panels), "panels")
    marks = []
    for place, (key, own) in enumerate(panels):
        axis, style = axes[place], style_of(names.index(key[-1]))
        x = own["at"].to_numpy(dtype=float)
        low, high, least, most = (
            own[name].to_numpy(dtype=float) for name in ("lower", "upper", "conf_low", "conf_high")
        )
        shown = f"confidence region ({100 * found.level:g}%)"
        axis.fill_between(x, least, most, color=style.colour, alpha=0.15, lw=0, label=shown)
        axis.fill_between(x, low, np.maximum(low, high), color=style.colour, alpha=0.4, lw=0,
                          label="between the bounds")  # fmt: skip
        said: list[tuple[str, Any]] = [("at", list(map(float, x))), ("lower", low.tolist()),
                                       ("upper", high.tolist())]  # fmt: skip
        if "fit" in own:
            line = own["fit"].to_numpy(dtype=float)
            axis.plot(x, line, "--", color=CORRECTED, label="the fit")
            said.append(("fit", line.tolist()))
            outside = (line < least) | (line > most)
            axis.plot(x[outside], line[outside], "x", color=FAINT, label="outside: misfit")
        marks.append(Marks(place, x, 0.5 * (low + high), texts(*said)))
        title = ", ".join(
            [*(f"{n} = {v}" for n, v in zip(found.by, key, strict=False)), str(key[-1])]
        )
        axis.set_title(plain(title), fontsize=10)
        axis.set_ylim(-0.02, 1.02)
        axis.set_xlabel("outcome")
        axis.set_ylabel("share of rows at or below")
    if "fit" in table:
        axes[0].figure.supxlabel(
            "A fit outside the bounds is misspecified; a fit inside them is not confirmed.",
            fontsize=9,
        )
    axes[0].legend(fontsize="small", framealpha=0.9)
    return Picture(axes, table.reset_index(drop=True), tuple(marks))


def _is_difference(name: str, names: Sequence[str]) -> bool:
    return any(name == f"{a} - {b}" for a in names for b in names)
