"""How the solver came to its end: what was left to go, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from selfselect.errors import UnsupportedError
from selfselect.plots.base import Marks, Picture, check_drawn, given_axes, new_axes, short, style_of

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


def convergence(fit: FitResult, *, axes: Any = None) -> Picture:
    """Draw the steps of the solver.

    Steps on a sample of the rows and on all rows have separate lines and markers, because their
    log-likelihoods are of different rows; each is shown relative to its own last one.

    Parameters
    ----------
    fit : with or without its rows.
    axes : two matplotlib axes to draw on, for the distance and for the log-likelihood; made
        where None.

    Returns
    -------
    Picture
        Its `data` is ``fit.trace`` with the number of each step and the log-likelihood it was
        short of the best one of the same rows.
    """
    check_drawn(fit, "FitResult")
    data = fit.trace
    if not len(data):
        solver = fit.solution.solver_name
        raise UnsupportedError(
            f"{solver} leaves no trace: it takes no steps towards an optimum. Use one that "
            "maximises the likelihood, such as MaximumLikelihood()."
        )
    data.insert(0, "step", np.arange(1, len(data) + 1))
    data["short"] = data.groupby("rows")["loglik"].transform("max") - data["loglik"]
    axes = given_axes(new_axes(2, width=4.6, height=3.2) if axes is None else axes, 2, "panels")
    marks = []
    for place, (column, words) in enumerate(
        (("distance", "distance (std errors)"),
         ("short", "log-likelihood still missing"))
    ):  # fmt: skip
        axis = axes[place]
        for number, (rows, part) in enumerate(data.groupby("rows", sort=True)):
            style = style_of(number)
            y = part[column].to_numpy()
            y = np.where(y > 0, y, np.nan)
            axis.plot(
                part["step"], y, ls=style.line, marker=style.marker, color=style.colour,
                ms=5, lw=1.6, label=f"{rows} rows",
            )  # fmt: skip
            marks.append(_marks(place, part, y, words))
        axis.set_xlim(0.5, len(data) + 0.5)
        axis.set_xlabel("step")
        axis.set_ylabel(words)
        axis.locator_params(axis="x", integer=True, nbins=8)
        if (data[column] > 0).any():
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axis.yaxis.set_minor_formatter(lambda *_: "")
    axes[0].legend(loc="best", fontsize="small", framealpha=0.9)
    return Picture(axes, data, tuple(marks))


def _marks(place: int, part: pd.DataFrame, y: Any, words: str) -> Marks:
    shown = np.isfinite(y)
    steps = part["step"].to_numpy(dtype=float)[shown]
    said = tuple(
        f"step {step:g}: {words} {short(value)}"
        for step, value in zip(steps, y[shown], strict=True)
    )
    return Marks(place, steps, y[shown], said)
