"""Outcomes along a covariate: the mean in every alternative, of everyone, with its band."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from selfselect.plots.base import (
    Picture,
    check_drawn,
    draw_along,
    given_axes,
    new_axes,
    plain,
    short,
    values_along,
)

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


def potential_outcomes(
    fit: FitResult, covariate: str, *, level: float = 0.95, axes: Any = None
) -> Picture:
    """Draw the mean of every alternative's outcome along a covariate, whoever chooses what.

    Other columns are held at their means, categories at the commonest, as
    ``fit.potential_outcomes(at=...)`` does. Bands are pointwise, by the delta method.

    Parameters
    ----------
    fit : with its rows.
    covariate : a column of the formulas, of numbers or of categories (the commonest twelve, in
        their own order where they have one).
    level : of the bands.
    axes : matplotlib axes to draw on; made where None.

    Returns
    -------
    Picture
        Its `data` has one row per value of the covariate and alternative.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(300, seed=1).data
    >>> fit = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> ss.plots.potential_outcomes(fit, "height").data.columns.tolist()
    ['value', 'alternative', 'mean', 'std_error', 'conf_low', 'conf_high']
    """
    check_drawn(fit, "FitResult")
    grid = values_along(fit, covariate)
    found = fit.potential_outcomes(at={covariate: grid}, level=level).table
    labels = fit.problem.equations.alternatives
    # At each value the means of everyone come first, then those of each group.
    found = found[np.arange(len(found)) % (len(labels) * (1 + len(labels))) < len(labels)]
    numbers = ["estimate", "std_error", "conf_low", "conf_high"]
    data = pd.DataFrame(
        {"value": found.iloc[:, 0], "alternative": found["alternative"], **found[numbers]}
    ).reset_index(drop=True)
    (axis,) = new_axes(1, width=6.0, height=4.0) if axes is None else given_axes(axes, 1, "picture")
    marks = draw_along(axis, data, labels, covariate, _said)
    axis.set_ylabel(plain(f"mean {fit.problem.equations.outcome}"))
    return Picture((axis,), data.rename(columns={"estimate": "mean"}), marks)


def _said(one: Any) -> str:
    error = "" if np.isnan(one.std_error) else f" (std err {short(one.std_error)})"
    return f"{one.alternative} {short(one.estimate)}{error}"
