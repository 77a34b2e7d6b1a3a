"""The headline picture: naive and corrected lines over observed and unobserved outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.errors import OptionError, UnsupportedError
from selfselect.moments.base import latent_means
from selfselect.plots.base import (
    CORRECTED,
    NAIVE,
    OBSERVED,
    UNOBSERVED,
    Drawn,
    Marks,
    Path,
    check_drawn,
    given_axes,
    new_axes,
    plain,
    texts,
    walk_along,
)

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


Array = NDArray[np.float64]

MOST_POINTS = 1_500
_X = 0
_TAKEN = ("alternative", "outcome", "seen", "naive", "corrected")
"""Columns of the tables behind the picture; a covariate of such a name is given another there."""


@dataclass(frozen=True, eq=False, repr=False)
class LinesPicture(Drawn):
    """What a picture shows: its axes, and the numbers behind it.

    Attributes
    ----------
    axes : one per alternative.
    points : covariate, alternative, outcome, and whether it was observed, or most likely was.
    lines : covariate, alternative, and the naive and corrected mean of the outcome.
    marks : places that have something to say when pointed at.
    """

    axes: tuple[Any, ...]
    points: pd.DataFrame
    lines: pd.DataFrame
    marks: tuple[Marks, ...] = ()


def selection_lines(
    fit: FitResult,
    covariate: str,
    *,
    latent: pd.DataFrame | None = None,
    most_points: int = MOST_POINTS,
    axes: Any = None,
) -> LinesPicture:
    """Draw outcomes against a covariate with the naive and the corrected line, per alternative.

    Other columns are held at their means, categories at the commonest. Where the choice was
    not recorded, every outcome is drawn with the alternative that is most likely to have been.

    Parameters
    ----------
    fit : with its rows.
    covariate : a numeric column of the formulas, with all terms that are made of it; or one term
        alone where no column bears its name.
    latent : all outcomes, where they are known because the data is simulated: those not observed
        are drawn too.
    most_points : rows whose outcomes are drawn, spread evenly over all.
    axes : matplotlib axes to draw on, one per alternative; made where None.
    """
    check_drawn(fit, "FitResult")
    if fit.problem.noise.sign_only:
        raise UnsupportedError(
            "A binary outcome does not lie on the lines of its index. Draw the table of "
            "result.predict(kind='outcome') instead."
        )
    path = walk_along(fit, covariate)
    equations = fit.problem.equations
    if latent is not None and latent.shape != (len(fit.rows), equations.n_alternatives):
        raise OptionError(
            f"`latent` has the shape {latent.shape}, but the fit has {len(fit.rows)} rows of "
            f"{equations.n_alternatives} alternatives. Give every outcome of the rows that were "
            "fitted."
        )
    name = f"{covariate} (covariate)" if covariate in _TAKEN else covariate
    points = _points(fit, path, latent, most_points).rename(columns={_X: name})
    lines = _lines(fit, path).rename(columns={_X: name})
    n_alternatives = equations.n_alternatives
    if axes is None:
        axes = new_axes(n_alternatives, sharey=True)
    axes = given_axes(axes, n_alternatives, "alternatives")
    marks: list[Marks] = []
    observed = "observed" if fit.problem.index == "known" else "most likely observed here"
    for place, (axis, label) in enumerate(zip(axes, equations.alternatives, strict=True)):
        own = points[points["alternative"] == label]
        line = lines[lines["alternative"] == label]
        _draw(axis, own, line, observed=observed, covariate=name)
        axis.set_title(plain(label))
        axis.set_xlabel(plain(covariate))
        marks += _marks(place, own, line, covariate=name, outcome=equations.outcome)
    axes[0].set_ylabel(plain(equations.outcome))
    axes[-1].legend(loc="best", fontsize="small", framealpha=0.9)
    return LinesPicture(axes, points, lines, tuple(marks))


def _points(fit: FitResult, path: Path, latent: pd.DataFrame | None, most: int) -> pd.DataFrame:
    rows, equations = fit.rows, fit.problem.equations
    assert rows.outcome is not None
    chosen = rows.chosen
    if chosen is None:
        chosen = fit.responsibilities().to_numpy().argmax(axis=1)
    keep = np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(int)
    parts = []
    for j, label in enumerate(equations.alternatives):
        own = chosen[keep] == j
        values = rows.outcome[keep] if latent is None else latent[label].to_numpy()[keep]
        part = pd.DataFrame(
            {_X: path.of_rows[keep], "alternative": label, "outcome": values, "seen": own}
        )
        parts.append(part[own] if latent is None else part)
    return pd.concat(parts, ignore_index=True)


def _lines(fit: FitResult, path: Path) -> pd.DataFrame:
    problem = fit.problem
    corrected = latent_means(problem, fit.values, path.rows)
    naive = latent_means(problem, _naive_values(fit), path.rows)
    return pd.concat(
        [
            pd.DataFrame(
                {
                    _X: path.grid,
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


def _draw(
    axis: Any, points: pd.DataFrame, lines: pd.DataFrame, *, observed: str, covariate: str
) -> None:
    hidden, shown = points[~points["seen"]], points[points["seen"]]
    axis.scatter(
        hidden[covariate], hidden["outcome"], s=9, facecolors="none", edgecolors=UNOBSERVED,
        linewidths=0.6, label="not observed" if len(hidden) else None,
    )  # fmt: skip
    axis.scatter(
        shown[covariate], shown["outcome"], s=7, color=OBSERVED, alpha=0.55, label=observed
    )
    from matplotlib.patheffects import withStroke

    # Without colour a line is lost among points but for a margin of its own.
    margin = [withStroke(linewidth=4.6, foreground="#ffffff")]
    x = lines[covariate]
    axis.plot(
        x, lines["naive"], "--", color=NAIVE, lw=2.4, path_effects=margin, label="least squares"
    )
    axis.plot(
        x, lines["corrected"], "-", color=CORRECTED, lw=2.4, path_effects=margin, label="corrected"
    )


def _marks(
    place: int, points: pd.DataFrame, lines: pd.DataFrame, *, covariate: str, outcome: str
) -> list[Marks]:
    kinds = [("outcome", outcome, points)]
    kinds += [(name, f"{words} line:", lines) for name, words in
              (("naive", "least squares"), ("corrected", "corrected"))]  # fmt: skip
    made = []
    for column, words, table in kinds:
        x, y = table[covariate].to_numpy(), table[column].to_numpy()
        made.append(Marks(place, x, y, texts((covariate, x), (words, y))))
    return made
