"""Generalised residuals along the fit: their mean must be zero everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.moments.base import latent_means
from selfselect.plots.base import (
    CORRECTED,
    INK,
    UNOBSERVED,
    Marks,
    Picture,
    check_drawn,
    given_axes,
    new_axes,
    plain,
    records,
    short,
    walk_along,
)
from selfselect.results.memberships import generalised_residuals

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


Array = NDArray[np.float64]

MOST_POINTS = 1_000
MOST_BINS = 20
FEWEST_IN_BIN = 15
Z = 1.959963984540054


def residuals(
    fit: FitResult,
    covariate: str | None = None,
    *,
    most_points: int = MOST_POINTS,
    axes: Any = None,
) -> Picture:
    """Draw generalised residuals and their means in bins, one panel per alternative.

    A generalised residual is the mean of an alternative's noise given the row: the standardised
    residual if it was chosen, a truncated mean if it was not. Under the model its mean is zero
    everywhere, so about one bin in twenty should miss zero with its interval.

    Parameters
    ----------
    fit : with its rows.
    covariate : a numeric column or a term to put on the horizontal axis; None for the
        alternative's own mean.
    most_points : residuals that are drawn, spread evenly over the rows.
    axes : matplotlib axes to draw on, one per alternative; made where None.

    Returns
    -------
    Picture
        Its `data` has one row per alternative and bin.
    """
    check_drawn(fit, "FitResult")
    labels = fit.problem.equations.alternatives
    along = None if covariate is None else walk_along(fit, covariate).of_rows
    rows = fit.rows
    found = generalised_residuals(fit).to_numpy()
    means = latent_means(fit.problem, fit.values, rows)
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    described = rows.known.described
    keep = np.linspace(0, len(rows) - 1, min(len(rows), most_points)).astype(int)
    if axes is None:
        axes = new_axes(len(labels), width=4.2, height=3.4, sharey=True)
    axes = given_axes(axes, len(labels), "alternatives")
    name = "value" if covariate is None else covariate
    tables, marks = [], []
    for j, (axis, label) in enumerate(zip(axes, labels, strict=True)):
        x = means[:, j] if along is None else along
        # A case without a row for an alternative has no mean there, nor a residual.
        known = np.ones(len(rows), dtype=bool) if described is None else described[:, j]
        bins = _bins(x[known], found[known, j], weights[known])
        drawn = keep[known[keep]]
        axis.scatter(x[drawn], found[drawn, j], s=6, color=UNOBSERVED, alpha=0.6, lw=0, zorder=1)
        axis.axhline(0.0, color=INK, lw=1.0, zorder=2)
        axis.errorbar(
            bins["value"], bins["mean"], yerr=Z * bins["std_error"], fmt="o", ms=4.5,
            color=CORRECTED, lw=1.6, zorder=3,
        )  # fmt: skip
        axis.set_title(plain(label))
        axis.set_xlabel(plain("fitted mean" if covariate is None else covariate))
        said = tuple(
            f"{'fitted mean' if covariate is None else name} {short(row.value)}: mean residual "
            f"{short(row.mean)} (std err {short(row.std_error)}), {row.rows} rows"
            for row in records(bins)
        )
        marks.append(Marks(j, bins["value"].to_numpy(), bins["mean"].to_numpy(), said))
        bins.insert(0, "alternative", [label] * len(bins))
        tables.append(bins)
    axes[0].set_ylabel("generalised residual")
    return Picture(axes, pd.concat(tables, ignore_index=True), tuple(marks))


def _bins(x: Array, residual: Array, weights: Array) -> pd.DataFrame:
    """Return the weighted mean and its standard error in bins of equally many rows."""
    values = np.unique(x)
    if len(values) <= MOST_BINS:
        place = np.searchsorted(values, x)
    else:
        n_bins = int(np.clip(len(x) // FEWEST_IN_BIN, 1, MOST_BINS))
        inner = np.unique(np.quantile(x, np.linspace(0, 1, n_bins + 1)[1:-1]))
        place = np.searchsorted(inner, x, side="right")
    total = np.bincount(place, weights)
    used = np.flatnonzero(total > 0)
    centre, mean = (np.bincount(place, weights * v)[used] / total[used] for v in (x, residual))
    spread = np.bincount(place, (weights * residual) ** 2)[used]
    return pd.DataFrame(
        {
            "value": centre,
            "mean": mean,
            "std_error": np.sqrt(spread) / total[used],
            "rows": np.bincount(place)[used],
        }
    )
