"""Who is seen along a covariate: the chance of every alternative, with its band."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.errors import OptionError
from selfselect.inference.statistics import normal_quantile
from selfselect.plots.base import (
    Marks,
    Picture,
    given_axes,
    new_axes,
    plain,
    position_of,
    records,
    short,
    style_of,
)
from selfselect.results.predictions import row_expectations
from selfselect.rules.base import RowData

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["choice_probabilities"]

Array = NDArray[np.float64]

GRID = 41
STEP = 1e-4
"""Standard errors by which a parameter is moved to see how chances follow: large against
rounding, small against any bend."""


def choice_probabilities(
    fit: FitResult, covariate: str, *, level: float = 0.95, axes: Any = None
) -> Picture:
    """Draw the chance that each alternative is seen along a covariate.

    Other covariates, and costs where there are any, are held at their means over the rows, and
    all alternatives are available. Where the covariate is a term of several that a column makes,
    such as its square, only that term moves. Bands are pointwise, by the delta method.

    Parameters
    ----------
    fit : with its rows.
    covariate : a term of the equations.
    level : of the bands.
    axes : matplotlib axes to draw on; made where None.

    Returns
    -------
    Picture
        Its `data` has one row per value of the covariate and alternative.
    """
    if not 0 < level < 1:
        raise OptionError(f"level={level!r} is not a confidence level. Use one between 0 and 1.")
    position = position_of(fit, covariate)
    rows = fit.rows
    low, high = np.quantile(rows.covariates[:, position], [0.005, 0.995])
    grid = np.linspace(float(low), float(high), GRID)
    at = np.tile(rows.covariates.mean(axis=0), (GRID, 1))
    at[:, position] = grid
    costs = rows.known.costs
    known = RowData(None if costs is None else np.tile(costs.mean(axis=0), (GRID, 1)))
    chance, error = _chances(fit, Rows(at, known=known))

    labels = fit.problem.equations.alternatives
    data = pd.DataFrame(
        {
            "value": np.tile(grid, len(labels)),
            "alternative": np.repeat(np.array(labels, dtype=object), GRID),
            "chance": chance.T.ravel(),
            "std_error": error.T.ravel(),
        }
    )
    reach = normal_quantile(level) * data["std_error"]
    data["conf_low"] = (data["chance"] - reach).clip(lower=0.0)
    data["conf_high"] = (data["chance"] + reach).clip(upper=1.0)
    (axis,) = new_axes(1, width=6.0, height=4.0) if axes is None else given_axes(axes, 1, "picture")
    marks = tuple(
        _draw(axis, data.iloc[j * GRID : (j + 1) * GRID], label, j, covariate)
        for j, label in enumerate(labels)
    )
    axis.set_ylim(-0.02, 1.02)
    axis.set_xlabel(plain(covariate))
    axis.set_ylabel("chance of being seen")
    axis.legend(loc="best", fontsize="small", framealpha=0.9)
    return Picture((axis,), data, marks)


def _chances(fit: FitResult, rows: Rows) -> tuple[Array, Array]:
    """Return chances (n, k) and their standard errors, all parameters moved in one call."""
    values = fit.values
    errors = np.nan_to_num(fit.bse.to_numpy(), nan=0.0)
    chance = row_expectations(fit.problem, values, rows).chance
    if not np.isfinite(fit.covariance.matrix).all():
        return chance, np.full_like(chance, np.nan)
    slopes = []
    for place, error in enumerate(errors):
        step = np.zeros_like(values)
        step[place] = STEP * error
        if error == 0:
            slopes.append(np.zeros_like(chance))
            continue
        up = row_expectations(fit.problem, values + step, rows).chance
        down = row_expectations(fit.problem, values - step, rows).chance
        slopes.append((up - down) / (2.0 * step[place]))
    slope = np.stack(slopes, axis=-1)
    variance = np.einsum("nkp,pq,nkq->nk", slope, fit.covariance.matrix, slope)
    return chance, np.sqrt(np.maximum(variance, 0.0))


def _draw(axis: Any, own: pd.DataFrame, label: Any, j: int, covariate: str) -> Marks:
    style = style_of(j)
    x, y = own["value"].to_numpy(), own["chance"].to_numpy()
    if own["std_error"].notna().all():
        axis.fill_between(
            x, own["conf_low"], own["conf_high"], color=style.colour, alpha=0.15, lw=0
        )
    axis.plot(
        x, y, ls=style.line, marker=style.marker, color=style.colour, lw=2.0, ms=5,
        markevery=8, label=plain(label),
    )  # fmt: skip
    said = tuple(
        f"{covariate} {short(row.value)}: {label} {100 * row.chance:.1f}%"
        + ("" if np.isnan(row.std_error) else f" (std err {100 * row.std_error:.1f})")
        for row in records(own)
    )
    return Marks(0, x, y, said)
