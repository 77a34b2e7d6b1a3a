"""Estimates along a grid of correlations, and which of them the likelihood supports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from selfselect.data.tables import nearest
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

if TYPE_CHECKING:
    from selfselect.trust.sensitivity import Sensitivity


def sensitivity(
    found: Sensitivity, quantities: Sequence[str] | None = None, *, axes: Any = None
) -> Picture:
    """Draw quantities and the log-likelihood against the correlation that was assumed.

    Parameters
    ----------
    found : of `FitResult.sensitivity`.
    quantities : columns of its table; None for the gaps and effects between alternatives.
    axes : two matplotlib axes to draw on; made where None.

    Returns
    -------
    Picture
        Its `data` is the table.
    """
    check_drawn(found, "Sensitivity")
    table = found.table
    if quantities is None:
        names = map(str, table.columns)
        quantities = [name for name in names if name.startswith(("gap ", "effect "))]
    for name in quantities:
        if name not in table:
            known = list(map(str, table.columns))
            raise OptionError(f"There is no column {name!r}.{nearest(name, known)}")
    axes = given_axes(new_axes(2, width=5.2) if axes is None else axes, 2, "panels")
    rho = table.index.to_numpy(dtype=float)
    marks = []
    for place, name in enumerate(quantities):
        style = style_of(place)
        values = table[name].to_numpy(dtype=float)
        axes[0].plot(
            rho, values, ls=style.line, marker=style.marker, ms=4, color=style.colour,
            label=plain(name),
        )  # fmt: skip
        said = texts(("correlation", list(map(float, rho))), (name, list(map(float, values))))
        marks.append(Marks(0, rho, values, said))
    axes[0].axhline(0.0, color=FAINT, lw=0.9, zorder=0)
    axes[0].set_ylabel("in units of the outcome")
    axes[0].legend(fontsize="small", framealpha=0.9)
    loglik = table["loglik"].to_numpy(dtype=float)
    axes[1].plot(rho, loglik - loglik.max(), "o-", ms=4, color=CORRECTED)
    axes[1].set_ylabel("log-likelihood below the best")
    said = texts(
        ("correlation", list(map(float, rho))), ("log-likelihood", list(map(float, loglik)))
    )
    marks.append(Marks(1, rho, loglik - loglik.max(), said))
    for axis in axes:
        axis.set_xlabel("correlation of the noise across alternatives (assumed)")
    if found.reason is None:
        low, high = found.supported
        half = 0.5 * float(np.diff(rho).min()) if len(rho) > 1 else 0.02
        for axis in axes:
            axis.axvspan(low - half, high + half, color=FAINT, alpha=0.25, lw=0, zorder=0)
        shown = f"shaded: supported by the likelihood ({100 * found.level:g}%)"
        axes[1].set_title(shown, fontsize=10)
    axes[0].set_title("what it would imply", fontsize=10)
    return Picture(axes, table, tuple(marks))
