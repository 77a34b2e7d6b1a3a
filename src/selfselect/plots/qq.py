r"""Quantiles of the noise against those of its assumed shape, with unobserved outcomes counted.

Where the choice was recorded, alternative j's standardised residual is known where it was chosen
and censored elsewhere, at a limit that does not depend on it. So its distribution can be
estimated without assuming a shape, by Kaplan and Meier's product limit, and compared with the
one the fit assumes. Where the choice was not recorded, or an outcome of a given rank is observed,
the chance of an outcome no larger than the recorded one is uniform under the model, and its normal
quantile is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.errors import UnsupportedError
from selfselect.kernels.known_index import ABOVE, BELOW, OBSERVED, UNKNOWN
from selfselect.moments.base import latent_means
from selfselect.noises.shapes import Shape
from selfselect.noises.shapes.normal import SHAPE as NORMAL
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
    short,
)
from selfselect.results.memberships import refuse_dependent_noise

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

MOST_POINTS = 150
Z = 1.959963984540054


def qq(fit: FitResult, *, axes: Any = None) -> Picture:
    """Draw quantiles of the noise in the data against those of its assumed shape.

    If the assumed shape is right, points lie near the line. Bands are pointwise 95% intervals that
    ignore the estimation of the parameters, so points should deviate less than the bands allow.

    Parameters
    ----------
    fit : with its rows.
    axes : matplotlib axes to draw on, one per alternative where the choice was recorded, else one;
        made where None.

    Returns
    -------
    Picture
        Its `data` has one row per point: assumed and empirical quantile, and the band's half width.
    """
    check_drawn(fit, "FitResult")
    if fit.problem.likelihood.joint:
        raise UnsupportedError(
            "Quantiles of censored noise need noise that is independent, known costs, and rows in "
            "which everything was recorded. Look at the generalised residuals instead."
        )
    refuse_dependent_noise(fit.problem)
    panels = (
        _censored(fit)
        if fit.problem.likelihood.convex_sets
        else {fit.problem.equations.outcome: _whole(fit)}
    )
    if axes is None:
        axes = new_axes(len(panels), width=3.6, height=3.6)
    axes = given_axes(axes, len(panels), "panels")
    tables, marks = [], []
    for place, (axis, (title, points)) in enumerate(zip(axes, panels.items(), strict=True)):
        thin = _thinned(points)
        _draw(axis, thin)
        axis.set_title(plain(title))
        x, y = thin.iloc[:, 0].to_numpy(), thin["empirical"].to_numpy()
        name = thin.columns[0]
        said = tuple(
            f"{name} quantile {short(a)}, in the data {short(b)}" for a, b in zip(x, y, strict=True)
        )
        marks.append(Marks(place, x, y, said))
        thin.insert(0, "panel", [title] * len(thin))
        tables.append(thin)
    axes[0].set_ylabel("quantile in the data")
    return Picture(axes, pd.concat(tables, ignore_index=True), tuple(marks))


def _censored(fit: FitResult) -> dict[Any, pd.DataFrame]:
    rows, problem = fit.rows, fit.problem
    means, scales = latent_means(problem, fit.values, rows), problem.row_scales(fit.values, rows)
    observation = problem.likelihood.observe(rows)
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    panels = {}
    layout = problem.layout
    extras = layout.extras_of(fit.values)[: layout.n_noise_extras]
    shapes = problem.noise.margins(extras, problem.equations.n_alternatives)
    for j, label in enumerate(problem.equations.alternatives):
        status = observation.status[:, j]
        sides = [side for code, side in ((BELOW, -1.0), (ABOVE, 1.0)) if (status == code).any()]
        if len(sides) > 1 or not np.isin(status, (OBSERVED, BELOW, ABOVE, UNKNOWN)).all():
            raise UnsupportedError(
                f"Outcomes of {label!r} are not censored on one side, for which alone there is a "
                "product limit. Look at the generalised residuals instead."
            )
        side = sides[0] if sides else 1.0
        residual = (observation.limit_of(j) - means[:, j]) / scales[:, j]
        # A row that is silent is censored at infinity: it counts nowhere.
        use = np.isin(status, (OBSERVED, BELOW, ABOVE)) & (weights > 0)
        panels[label] = _product_limit(
            side * residual[use], status[use] == OBSERVED, weights[use], side, shapes[j]
        )
    return panels


def _product_limit(
    time: Array, event: Mask, weights: Array, side: float, shape: Shape
) -> pd.DataFrame:
    """Return quantiles of right-censored values; `side` -1 turns left-censored ones back."""
    order = np.lexsort((~event, time))
    time, event, weights = time[order], event[order], weights[order]
    at_risk = weights[::-1].cumsum()[::-1]
    died = np.where(event, weights, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        survival = np.cumprod(np.clip(1.0 - died / at_risk, 0.0, 1.0))
        greenwood = np.cumsum(died / (at_risk * (at_risk - died)))
    before = np.concatenate([[1.0], survival[:-1]])
    middle = 0.5 * (before + survival)
    keep = event & np.isfinite(greenwood) & (middle > 0) & (middle < 1)
    middle, spread = middle[keep], np.sqrt(greenwood[keep]) * survival[keep]
    # Quantiles are those of the survival, in the direction of `side`.
    assumed = shape.quantile(1.0 - middle if side > 0 else middle)
    made = pd.DataFrame(
        {
            shape.name: assumed,
            "empirical": side * time[keep],
            "reach": Z * spread / shape.pdf(assumed),
        }
    )
    return made if side > 0 else made.iloc[::-1].reset_index(drop=True)


def _whole(fit: FitResult) -> pd.DataFrame:
    rows, problem = fit.rows, fit.problem
    assert rows.outcome is not None
    means = latent_means(problem, fit.values, rows)
    scales = problem.row_scales(fit.values, rows)
    above = NORMAL.cdf(-(rows.outcome[:, None] - means) / scales)
    rank = problem.rank
    if rank is None:
        rank = 1 if problem.side > 0 else problem.equations.n_alternatives
    available = rows.known.available
    if available is not None:
        # Those that could not be chosen count as beyond the outcome, where they change nothing.
        above = np.where(available, above, 0.0 if rank == 1 else 1.0)
    chance = np.clip(_at_most(above, rank - 1), 1e-15, 1.0 - 1e-15)
    z = np.sort(NORMAL.quantile(chance))
    uniform = (np.arange(len(z)) + 0.5) / len(z)
    normal = NORMAL.quantile(uniform)
    reach = Z * np.sqrt(uniform * (1.0 - uniform) / len(z)) / NORMAL.pdf(normal)
    return pd.DataFrame({"normal": normal, "empirical": z, "reach": reach})


def _at_most(above: Array, count: int) -> Array:
    """Return the chance that at most `count` of the events with chances `above` (n, k) happen."""
    held = np.zeros((above.shape[0], above.shape[1] + 1))
    held[:, 0] = 1.0
    for chance in above.T:
        held[:, 1:] = held[:, 1:] * (1.0 - chance[:, None]) + held[:, :-1] * chance[:, None]
        held[:, 0] *= 1.0 - chance
    total: Array = held[:, : count + 1].sum(axis=1)
    return total


def _thinned(points: pd.DataFrame) -> pd.DataFrame:
    """Keep points spread evenly along the axis; the tails have few and keep them all."""
    x = points.iloc[:, 0].to_numpy()
    if len(x) <= MOST_POINTS:
        return points
    which = np.searchsorted(x, np.linspace(x[0], x[-1], MOST_POINTS))
    return points.iloc[np.unique(which)].reset_index(drop=True)


def _draw(axis: Any, points: pd.DataFrame) -> None:
    x = points.iloc[:, 0]
    axis.fill_between(
        x, x - points["reach"], x + points["reach"], color=UNOBSERVED, alpha=0.45, lw=0
    )
    axis.plot(x, x, color=INK, lw=1.0)
    axis.plot(x, points["empirical"], "o", ms=3.2, color=CORRECTED)
    axis.set_xlabel(f"{points.columns[0]} quantile")
