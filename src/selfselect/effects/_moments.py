"""The one place where effects ask for moments, and what they are summed over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.errors import UnsupportedError
from selfselect.inference.dependence import cluster_totals, every_join, sign_of_join
from selfselect.inference.sandwich import (
    cluster_scores,
    corrected_row_scores,
    free_scores,
    rows_are_few,
)
from selfselect.moments.base import Moments
from selfselect.moments.choose import moments_of
from selfselect.moments.mixed import LevelMoments, Logarithm
from selfselect.moments.selection import GivenSelectedMoments
from selfselect.problem.problem import Problem

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

Array = NDArray[np.float64]


# What the model says of each row, with names: the one place where effects ask `moments`.


@dataclass(frozen=True, eq=False)
class Setting:
    """Rows under a rule: one state of the world.

    Attributes
    ----------
    rows : covariates, known costs and availability.
    rule : in the order of the alternatives.
    logarithm : the one that was modelled, where outcomes are to be levels.
    given_selected : whether the outcome of one alternative is to be its mean where it is selected,
        not that times the chance of it.
    """

    rows: Rows
    rule: Any
    logarithm: Logarithm | None = None
    given_selected: bool = False

    def moments(self, problem: Problem) -> Moments:
        """Return what to ask of a problem in this setting."""
        if self.logarithm is None:
            found = moments_of(problem, self.rule)
        else:
            found = LevelMoments(problem, self.rule, self.logarithm)
        return GivenSelectedMoments(problem, self.rule, found) if self.given_selected else found


FEW = 1e-4
"""Share below which means among those who do not choose an alternative add up their own cells."""


@dataclass(frozen=True, eq=False)
class AverageCells:
    """Averages of what the model says of rows, or one row of it.

    Attributes
    ----------
    chance : (..., k) P(g), the chance that g is chosen.
    outcome : (..., k, k) E[y_l; g], the outcome of l where g is chosen, times that chance.
    predicted : (..., k, k) E[x_l'w_l; g], the same of what the covariates predict.
    mean : (..., k) the latent means.
    """

    chance: Any
    outcome: Any
    predicted: Any
    mean: Any

    @property
    def observed(self) -> Any:
        """The mean of the observed outcome."""
        return np.trace(self.outcome, axis1=-2, axis2=-1)

    @property
    def observed_each(self) -> Any:
        """The mean (..., k) of every outcome where it is observed, times the chance of that."""
        return np.diagonal(self.outcome, axis1=-2, axis2=-1)

    def outcome_in(self, group: int) -> Any:
        """Return the mean (..., k) of every outcome among those who choose `group`."""
        return self.outcome[..., group] / self.chance[..., [group]]

    def outcome_outside(self, group: int) -> Any:
        """Return the mean (..., k) of every outcome among those who choose another than `group`."""
        others = [place for place in range(self.chance.shape[-1]) if place != group]
        total, share = self.mean - self.outcome[..., group], 1.0 - self.chance[..., [group]]
        added = self.outcome[..., others].sum(axis=-1)
        rest = self.chance[..., others].sum(axis=-1, keepdims=True)
        # Where few choose another, a difference of means over everyone is rounding.
        few = np.real(rest) < FEW
        return np.where(few, added, total) / np.where(few, rest, share)

    def predicted_in(self, group: int) -> Any:
        """Return the mean (..., k) of what covariates predict for those who choose `group`."""
        return self.predicted[..., group] / self.chance[..., [group]]


def n_cells(k: int) -> int:
    """Return how many numbers the cells of k alternatives are."""
    return 2 * k + 2 * k * k


def cells(vector: Any, k: int) -> AverageCells:
    """Give names to a vector (..., n_cells) of moments."""
    shape = (*vector.shape[:-1], k, k)
    return AverageCells(
        vector[..., :k],
        vector[..., k : k + k * k].reshape(shape),
        vector[..., k + k * k : k + 2 * k * k].reshape(shape),
        vector[..., k + 2 * k * k :],
    )


def refuse_joint(problem: Problem) -> None:
    """Refuse where draws of latent outcomes would need more than independent noise."""
    in_the_way = []
    if problem.noise.joint:
        in_the_way.append(f"the noise of this fit is {problem.noise.name}")
    if problem.equations.costs:
        in_the_way.append("the costs of this fit are estimated")
    if in_the_way:
        raise UnsupportedError(
            "What is simulated needs noise that is independent across alternatives, and known "
            f"costs: {' and '.join(in_the_way)}. Other effects are there: treatment_effects, "
            "potential_outcomes, choice_probabilities, decompose."
        )


def refuse_selection(problem: Problem, what: str) -> None:
    """Refuse what depends on how the outcomes of a model with a selection equation correlate."""
    if problem.noise.selected and problem.equations.n_alternatives == 1:
        raise UnsupportedError(
            f"{what} on several outcomes, and sample selection has one. Use potential_outcomes "
            "for its mean among all and among the selected."
        )
    if problem.noise.selected:
        raise UnsupportedError(
            f"{what} on the correlation of the outcomes' noises. With a selection equation no row "
            "shows two outcomes, so nothing in the data says what it is. Means are known: use "
            "treatment_effects, potential_outcomes, decompose or sorting."
        )


def refuse_unsupported(problem: Problem, rule: Any) -> None:
    """Refuse where chances and means of outcomes cannot be computed."""
    moments_of(problem, rule).check_cells()


def row_values(problem: Problem, reported: Array, setting: Setting) -> Array:
    """Compute the cells (n, q) of every row of a block, without derivatives."""
    return setting.moments(problem).cells(reported, setting.rows)


# The independent units of a fit, rows or clusters, and what they add to errors of averages.
#
# Rows have shares in an error. Those of a unit are added up before they are squared; where rows
# are clustered in several ways, squares of all single ways are added, those of intersections of
# two subtracted, and so on.


ROUNDING = 1e-12
"""Share of the largest eigenvalue below which a negative one is taken for a rounding error."""
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class UnitErrors:
    """What units (G of them) have to do with errors of r numbers.

    Attributes
    ----------
    sign : whether their squares are added, 1, or subtracted, -1.
    direct : (G, r) by their own values.
    by_estimates : (G, r) by their part in the estimates; zero where that was not asked for.
    """

    sign: float
    direct: Array
    by_estimates: Array

    @property
    def direct_and_crossed(self) -> Array:
        """The covariance (r, r) of errors but for what estimates alone add to it."""
        mixed = self.direct.T @ self.by_estimates
        return self.sign * (self.direct.T @ self.direct + mixed + mixed.T)

    @property
    def whole(self) -> Array:
        """The covariance (r, r) of errors."""
        both = self.direct + self.by_estimates
        return self.sign * (both.T @ both)


def rows_are_repeated(fit: FitResult) -> bool:
    """Whether a row of weight w stands for w identical ones, rather than being drawn rarely."""
    return fit.covariance.of_model or fit.facts.weights_kind == "frequency"


def errors_of_units(
    fit: FitResult, direct: Array, reach: Array | None = None, moved: Array | None = None
) -> Iterator[UnitErrors]:
    """Yield the errors of the units of each way of clustering and of their intersections.

    Parameters
    ----------
    fit : its rows, and clusters, are meant.
    direct : (n, r) each row's share in the errors at given parameters.
    reach : (p, r) derivatives of the r numbers in the free parameters; None to leave out what the
        units have to do with the estimates.
    moved : (n, r) each row's share in the errors by estimates that move in other ways: those of
        first stages.
    """
    rows = fit.rows
    carry = None
    if reach is not None:
        carry = np.asarray(np.linalg.solve(fit.solution.information, reach), dtype=np.float64)
    if rows.clusters is not None:
        yield from _of_clusters(fit, direct, carry, moved)
        return
    moved = np.zeros_like(direct) if moved is None else moved
    if carry is not None:
        moved = moved + _row_scores(fit) @ carry
    share = np.ones(len(rows))
    if rows.weights is not None and rows_are_repeated(fit):
        share = 1.0 / np.sqrt(np.where(rows.weights > 0, rows.weights, 1.0))
    yield UnitErrors(1.0, direct * share[:, None], moved * share[:, None])


def _row_scores(fit: FitResult) -> Array:
    engine, free = fit.engine_of_rows(), fit.solution.free
    repeated = rows_are_repeated(fit)
    if not rows_are_few(fit.problem, engine, repeated=repeated):
        return engine.collect(partial(free_scores, fit.problem, fit.problem.layout.natural(free)))
    task = partial(corrected_row_scores, fit.problem, free, fit.solution.information, repeated)
    return engine.collect(task)


def _of_clusters(
    fit: FitResult, direct: Array, carry: Array | None, moved: Array | None
) -> Iterator[UnitErrors]:
    rows = fit.rows
    assert rows.clusters is not None
    sizes = rows.cluster_sizes

    def totals(shares: Array) -> list[Array]:
        return [one.totals * np.sqrt(one.counted.count / (one.counted.count - 1.0))
                for one in cluster_totals(rows, shares, sizes)]  # fmt: skip

    found = totals(direct)
    by_estimates = [np.zeros_like(one) for one in found] if moved is None else totals(moved)
    if carry is not None:
        # Scores are asked for only where they count: two steps have none.
        engine, solution, repeated = fit.engine_of_rows(), fit.solution, rows_are_repeated(fit)
        scores = cluster_scores(
            fit.problem, engine, solution.free, solution.information, sizes, repeated=repeated
        )
        both = zip(by_estimates, scores, strict=True)
        by_estimates = [own + one.scores @ carry for own, one in both]
    for which, own, others in zip(every_join(len(sizes)), found, by_estimates, strict=True):
        yield UnitErrors(sign_of_join(which), own, others)


def without_negative(covariance: Array) -> Array:
    """Set negative eigenvalues of a sum of added and subtracted covariances to zero.

    They are those of the correlations, so that units do not matter. Errors that are not positive
    to begin with, those that are missing, and eigenvalues that are negative by rounding only are
    left as they are; what does not vary at all has a variance of exactly zero.
    """
    variance = np.diag(covariance)
    if not np.isfinite(covariance).all() or not (variance > 0).any():
        return covariance
    scale = np.sqrt(np.where(variance > 0, variance, variance[variance > 0].min()))
    values, axes = np.linalg.eigh(covariance / np.outer(scale, scale))
    if values[0] >= -ROUNDING * values[-1]:
        return covariance
    carry = axes * scale[:, None]
    repaired = (carry * np.maximum(values, 0.0)) @ carry.T
    varies = covariance.any(axis=0)
    return np.asarray(np.where(np.outer(varies, varies), repaired, 0.0))


# What first stages of endogenous covariates add to errors of averages over the rows of a fit.
#
# Rows move the coefficients of first stages. These move the estimates, and the residuals that
# stand among the covariates of the rows.


STEP = 1e-4
"""Of differences in a residual, in its standard deviations."""


def by_first_stages(
    fit: FitResult, cells_of: Callable[[Callable[[Rows], Rows]], Array]
) -> Array | float:
    """Return each row's share (n, q) in the errors of averages by what it does to residuals.

    `cells_of` returns the cells (n, q) of rows that were changed as a function says.
    """
    carried, rows = fit.carried, fit.rows
    if carried is None:
        return 0.0
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    slopes = []
    for place in carried.places:
        residual = rows.covariates[:, place]
        step = STEP * np.sqrt(np.average(residual**2, weights=weights))
        above, below = (cells_of(_shift(place, by)) for by in (step, -step))
        slope = (above - below) * (weights / weights.sum())[:, None] / (2.0 * step)
        slopes.append(-carried.w.T @ slope)
    return np.asarray(carried.influence @ np.vstack(slopes))


def moved_by_first_stages(fit: FitResult, jacobian: Array) -> Array | None:
    """Return each row's share (n, r) in the errors of numbers by what it does to the estimates.

    `jacobian` (r, m) holds their derivatives in the reported parameters.
    """
    if fit.carried is None:
        return None
    return np.asarray(fit.carried.influence @ (jacobian @ fit.carried.reach).T)


def _shift(place: int, by: float) -> Callable[[Rows], Rows]:
    def change(rows: Rows) -> Rows:
        covariates = rows.covariates.copy(order="F")
        covariates[:, place] += by
        return replace(rows, covariates=covariates)

    return change
