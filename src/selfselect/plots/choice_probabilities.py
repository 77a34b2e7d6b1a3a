"""Choices along a covariate: the chance of every alternative, with its band."""

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
    values_along,
)

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


def choice_probabilities(
    fit: FitResult, covariate: str, *, level: float = 0.95, axes: Any = None
) -> Picture:
    """Draw the chance that each alternative is chosen along a covariate.

    Other columns are held at their means, categories at the commonest, as
    ``fit.choice_probabilities(at=...)`` does. Bands are pointwise, by the delta method.

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
    """
    check_drawn(fit, "FitResult")
    grid = values_along(fit, covariate)
    found = fit.choice_probabilities(at={covariate: grid}, level=level).table
    numbers = ["estimate", "std_error", "conf_low", "conf_high"]
    data = pd.DataFrame(
        {"value": found.iloc[:, 0], "alternative": found.iloc[:, 1], **found[numbers]}
    )
    (axis,) = new_axes(1, width=6.0, height=4.0) if axes is None else given_axes(axes, 1, "picture")
    labels = fit.problem.equations.alternatives
    marks = draw_along(axis, data, labels, covariate, _said)
    axis.set_ylim(-0.02, 1.02)
    axis.set_ylabel("chance of being chosen")
    return Picture((axis,), data.rename(columns={"estimate": "chance"}), marks)


def _said(one: Any) -> str:
    error = "" if np.isnan(one.std_error) else f" (std err {100 * one.std_error:.1f})"
    return f"{one.alternative} {100 * one.estimate:.1f}%{error}"
