"""Simulated statistics, for what has no closed form, with all of their errors.

The same random numbers serve every evaluation, so a statistic is a fixed, if slightly ragged,
function of the parameters. Its derivatives are differences over one standard error along each
axis of the estimates' covariance, wide enough that raggedness does not show, and no wider than
the estimates may be off. The spread due to the rows is that of their
influence; the spread due to simulation is taken from the draws of each row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from selfselect.data.equations import SCALE
from selfselect.data.rows import Rows
from selfselect.effects._averages import Averages
from selfselect.effects._moments import Setting, refuse_joint
from selfselect.effects._units import errors_of_units, rows_are_repeated, without_negative
from selfselect.errors import OptionError
from selfselect.moments.base import latent_means
from selfselect.progress import progress_bar
from selfselect.seeds import check_seed
from selfselect.threads import one_blas_thread

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["Drawn", "Simulated", "Statistic", "draw", "n_repeats", "simulate"]

Array = NDArray[np.float64]

DRAWS = 200_000
"""Draws in all, unless asked otherwise."""

AT_ONCE = 50_000
"""Draws whose influence is looked at together."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """Outcomes (N, k) drawn for rows in one setting, levels where it asks for those, and chosen."""

    latent: Array
    chosen: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Simulated:
    """A simulated statistic with all of its errors, and the covariance (r, r) simulation adds."""

    found: Averages
    mc: Array


class Statistic(Protocol):
    """Anything that is computed from draws."""

    def value(self, drawn: Sequence[Drawn], weights: Array) -> Array:
        """Return the statistic (r,) of draws with weights (N,), one `Drawn` per setting."""

    def linearise(
        self, drawn: Sequence[Drawn], weights: Array
    ) -> Callable[[Sequence[Drawn]], Array]:
        """Return the function that gives the influence (N, r) of draws on the statistic.

        Its weighted mean over all draws is zero.
        """


def n_repeats(draws: int | None, n_rows: int) -> int:
    """Return how often every row is drawn; twice at least, to see how much draws scatter."""
    if draws is None:
        draws = DRAWS
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
        raise OptionError(f"draws={draws!r} is not a number of draws. Use a positive integer.")
    return max(2, -(-draws // n_rows))


@one_blas_thread()
def simulate(
    fit: FitResult,
    settings: Sequence[Setting],
    statistic: Statistic,
    *,
    own: bool,
    covariates: str,
    draws: int | None,
    seed: int,
) -> Simulated:
    """Simulate a statistic of rows in one or several settings, with common random numbers.

    Parameters
    ----------
    fit, settings, own, covariates : as in `average`.
    statistic : what is computed from the draws.
    draws : how many in all; None for 200,000.
    seed : of the random numbers.
    """
    refuse_joint(fit.problem)
    check_seed(seed)
    rows = settings[0].rows
    repeats = n_repeats(draws, len(rows))
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    every = np.tile(weights, repeats)

    def at(reported: Array) -> list[Drawn]:
        return [draw(fit, setting, reported, repeats, seed) for setting in settings]

    here = at(fit.values)
    value = statistic.value(here, every)
    directions = _axes(fit)
    along = np.zeros((len(value), len(directions)))
    with progress_bar(None, what="Simulations", total=len(directions)) as bar:
        for place, step in enumerate(directions):
            up, down = (statistic.value(at(_moved(fit, one)), every) for one in (step, -step))
            along[:, place] = 0.5 * (up - down)
            bar.update(1)
    # Along each axis the estimates err by one step, so no derivative is needed in between.
    covariance = along @ along.T if len(directions) else np.full((len(value),) * 2, np.nan)
    jacobian = along @ np.linalg.pinv(directions).T if len(directions) else along

    influence = statistic.linearise(here, every)
    direct, squares = np.zeros((len(rows), len(value))), np.zeros((len(value), len(value)))
    size = max(1, AT_ONCE // len(rows)) * len(rows)
    for start in range(0, len(every), size):
        part = slice(start, start + size)
        found = influence([Drawn(one.latent[part], one.chosen[part]) for one in here])
        direct += found.reshape(-1, len(rows), len(value)).sum(axis=0) / repeats
        found *= every[part, None]
        squares += found.T @ found
    weighted = direct * weights[:, None]
    within = squares - repeats * (weighted.T @ weighted)
    mc = within / (repeats * (repeats - 1) * weights.sum() ** 2)
    if covariates == "sampled":
        # Simulation adds to the spread of the rows' influence what it adds to the statistic.
        covariance += _spread(fit, rows, direct, own=own)
    else:
        covariance += mc
    return Simulated(Averages(value, covariance, jacobian), mc)


def _axes(fit: FitResult) -> Array:
    """Return axes (r, m) of the estimates' covariance, each one standard error long.

    They are those of the correlations, so that they do not depend on the covariates' units.
    """
    matrix = fit.covariance.matrix
    if not np.isfinite(matrix).all():
        return np.empty((0, len(matrix)))
    errors = np.sqrt(np.diag(matrix))
    lengths, vectors = np.linalg.eigh(matrix / np.outer(errors, errors))
    kept = lengths > 0
    return np.asarray((vectors[:, kept] * np.sqrt(lengths[kept])).T * errors)


def _moved(fit: FitResult, step: Array) -> Array:
    """Return the estimates moved by a step; a scale stays positive however wide its error."""
    moved = fit.values + step
    is_scale = np.array([term == SCALE for _, term in fit.reported.labels])
    return np.where(is_scale, np.maximum(moved, 0.1 * fit.values), moved)


def _spread(fit: FitResult, rows: Rows, direct: Array, *, own: bool) -> Array:
    """Return the covariance of the mean of the rows' influence."""
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    if own:
        shares = direct * (weights / weights.sum())[:, None]
        total: Array = sum(
            (one.whole for one in errors_of_units(fit, shares)), np.zeros((direct.shape[1],) * 2)
        )
        return without_negative(total)
    power = 0.5 if rows_are_repeated(fit) else 1.0
    units = direct * (weights**power)[:, None]
    return units.T @ units / weights.sum() ** 2


def draw(fit: FitResult, setting: Setting, reported: Array, repeats: int, seed: int) -> Drawn:
    """Draw the latent outcomes of rows, all rows `repeats` times over."""
    problem, n_rows = fit.problem, len(setting.rows)
    means = np.tile(latent_means(problem, reported, setting.rows), (repeats, 1))
    scales, layout = problem.row_scales(reported, setting.rows), problem.layout
    rng, labels = np.random.default_rng(seed), problem.equations.alternatives
    extras = layout.extras_of(reported)[: layout.n_noise_extras]
    if layout.spreads:
        # Every row has scales of its own.
        noise = problem.noise.draw_at(extras, repeats * n_rows, [1.0] * len(labels), labels, rng)
        noise = noise * np.tile(scales, (repeats, 1))
    else:
        each = scales[0].tolist()
        noise = problem.noise.draw_at(extras, repeats * n_rows, each, labels, rng)
    latent = means + noise
    known = setting.rows.known.take(np.tile(np.arange(n_rows), repeats))
    chosen = setting.rule.choose(latent, known)
    return Drawn(latent if setting.logarithm is None else setting.logarithm.undo(latent), chosen)
