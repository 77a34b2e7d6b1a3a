"""The headline picture: naive and corrected lines over the outcomes seen and unseen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.tables import nearest
from selfselect.errors import MissingDependencyError, OptionError
from selfselect.results.predictions import latent_means

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["LinesPicture", "selection_lines"]

Array = NDArray[np.float64]

MOST_POINTS = 1_500
SEEN, UNSEEN, NAIVE, CORRECTED = "#404040", "#b8b8b8", "#d55e00", "#0072b2"
"""Grey points, and two colours of Okabe and Ito's palette that differ in lightness as well."""


@dataclass(frozen=True, eq=False)
class LinesPicture:
    """What a picture shows: its axes, and the numbers behind it.

    Attributes
    ----------
    axes : one per alternative.
    points : covariate, alternative, outcome, and whether it was seen, or most likely was.
    lines : covariate, alternative, and the naive and corrected mean of the outcome.
    """

    axes: tuple[Any, ...]
    points: pd.DataFrame
    lines: pd.DataFrame


def selection_lines(
    fit: FitResult,
    covariate: str,
    *,
    latent: pd.DataFrame | None = None,
    axes: Any = None,
) -> LinesPicture:
    """Draw outcomes against a covariate with the naive and the corrected line, per alternative.

    Other covariates are held at their means. Where nobody recorded who was seen, every outcome is
    drawn with the alternative that is most likely to have been.

    Parameters
    ----------
    fit : with its rows.
    covariate : a term of the equations.
    latent : all outcomes, where they are known because the data is simulated: those nobody saw
        are drawn too.
    axes : matplotlib axes to draw on, one per alternative; made where None.
    """
    equations = fit.problem.equations
    if covariate not in equations.covariates:
        raise OptionError(
            f"There is no covariate {covariate!r} in the fit."
            f"{nearest(covariate, equations.covariates)}"
        )
    if latent is not None and latent.shape != (len(fit.rows), equations.n_alternatives):
        raise OptionError(
            f"`latent` has the shape {latent.shape}, but the fit has {len(fit.rows)} rows of "
            f"{equations.n_alternatives} alternatives. Give every outcome of the rows that were "
            "fitted."
        )
    points = _points(fit, covariate, latent)
    lines = _lines(fit, covariate)
    if axes is None:
        axes = _new_axes(equations.n_alternatives)
    axes = tuple(np.atleast_1d(axes))
    if len(axes) != equations.n_alternatives:
        raise OptionError(
            f"{len(axes)} axes are given for {equations.n_alternatives} alternatives. Give one for "
            "each."
        )
    for axis, label in zip(axes, equations.alternatives, strict=True):
        _draw(
            axis,
            points[points["alternative"] == label],
            lines[lines["alternative"] == label],
            title=str(label),
            seen="seen" if fit.problem.index == "known" else "most likely seen",
            covariate=covariate,
        )
    axes[0].set_ylabel(equations.outcome)
    axes[-1].legend(loc="best", fontsize="small", framealpha=0.9)
    return LinesPicture(axes, points, lines)


def _points(fit: FitResult, covariate: str, latent: pd.DataFrame | None) -> pd.DataFrame:
    rows, equations = fit.rows, fit.problem.equations
    assert rows.outcome is not None
    chosen = rows.chosen
    if chosen is None:
        chosen = fit.responsibilities().to_numpy().argmax(axis=1)
    x = rows.covariates[:, equations.covariates.index(covariate)]
    keep = np.linspace(0, len(rows) - 1, min(len(rows), MOST_POINTS)).astype(int)
    parts = []
    for j, label in enumerate(equations.alternatives):
        seen = chosen[keep] == j
        values = rows.outcome[keep] if latent is None else latent[label].to_numpy()[keep]
        part = pd.DataFrame(
            {covariate: x[keep], "alternative": label, "outcome": values, "seen": seen}
        )
        parts.append(part[seen] if latent is None else part)
    return pd.concat(parts, ignore_index=True)


def _lines(fit: FitResult, covariate: str) -> pd.DataFrame:
    rows, problem = fit.rows, fit.problem
    position = problem.equations.covariates.index(covariate)
    x = rows.covariates[:, position]
    low, high = np.quantile(x, [0.005, 0.995])
    grid = np.linspace(float(low), float(high), 50)
    at = np.tile(rows.covariates.mean(axis=0), (len(grid), 1))
    at[:, position] = grid
    rows_at = type(rows)(at)
    corrected = latent_means(problem, fit.values, rows_at)
    naive = latent_means(problem, _naive_values(fit), rows_at)
    return pd.concat(
        [
            pd.DataFrame(
                {
                    covariate: grid,
                    "alternative": label,
                    "naive": naive[:, j],
                    "corrected": corrected[:, j],
                }
            )
            for j, label in enumerate(problem.equations.alternatives)
        ],
        ignore_index=True,
    )


def _naive_values(fit: FitResult) -> Array:
    """Return the naive coefficients in the order of the reported parameters."""
    naive = fit.naive["estimate"].to_dict()
    return np.array([naive.get(label, np.nan) for label in fit.reported.labels])


def _new_axes(n_axes: int) -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingDependencyError(
            "Pictures need matplotlib: pip install 'selfselect[plot]'"
        ) from error
    _, axes = pyplot.subplots(
        1, n_axes, figsize=(4.6 * n_axes, 4.2), sharey=True, layout="constrained", squeeze=False
    )
    return axes[0]


def _draw(
    axis: Any, points: pd.DataFrame, lines: pd.DataFrame, *, title: str, seen: str, covariate: str
) -> None:
    unseen, shown = points[~points["seen"]], points[points["seen"]]
    axis.scatter(
        unseen[covariate], unseen["outcome"], s=9, facecolors="none", edgecolors=UNSEEN,
        linewidths=0.6, label="unseen" if len(unseen) else None,
    )  # fmt: skip
    axis.scatter(shown[covariate], shown["outcome"], s=7, color=SEEN, alpha=0.55, label=seen)
    axis.plot(lines[covariate], lines["naive"], "--", color=NAIVE, lw=2.4, label="least squares")
    axis.plot(lines[covariate], lines["corrected"], "-", color=CORRECTED, lw=2.4, label="corrected")
    axis.set_title(title)
    axis.set_xlabel(covariate)
