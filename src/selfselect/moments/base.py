"""The contract of moments: what a model expects of rows before anything is recorded in them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.problem.problem import Problem

Array = NDArray[np.float64]

NEGLIGIBLE = 1e-12
"""Chance below which no mean is given: what is left of the outcome's range is too far out."""


@dataclass(frozen=True, eq=False)
class Expectations:
    """What is expected of rows before anything is recorded.

    Attributes
    ----------
    chance : (n, k) probability that each alternative is chosen.
    outcome : (n,) mean of the observed outcome.
    given_seen : (n, k, k) mean of alternative j's outcome where l is chosen, at [row, j, l]; nan
        where the chance of that is less than 1e-12.
    """

    chance: Array
    outcome: Array
    given_seen: Array


def with_outcome(chance: Array, given: Array) -> Expectations:
    """Add the mean of the observed outcome to chances and conditional means."""
    own = np.einsum("nll->nl", given)
    outcome = np.where(chance > 0, chance * np.nan_to_num(own), 0.0).sum(axis=1)
    return Expectations(chance, outcome, given)


@dataclass(frozen=True, eq=False)
class Moments(ABC):
    """Moments of a problem's outcomes under a rule.

    Effects are made of *cells*, 2k + 2k² numbers of a row: for every alternative g the chance that
    it is chosen; E[y_l; g], the outcome of l where g is chosen, times that chance; the same of what
    the covariates predict; and the latent means.

    Attributes
    ----------
    problem : equations and noise.
    rule : which alternative is chosen, in the order of the alternatives.
    """

    problem: Problem
    rule: Any

    smooth: ClassVar[bool] = True
    """Whether expectations are smooth in the parameters, so that differences are derivatives."""

    quick: ClassVar[bool] = True
    """Whether an average over rows takes no longer than their fit."""

    @abstractmethod
    def expectations(
        self, reported: Array, rows: Rows, *, shift: Array | None = None
    ) -> Expectations:
        """Integrate over the latent outcomes of rows, at reported parameters.

        `shift`, (k,) or (n, k), is added to all latent means.
        """

    def chances(self, reported: Array, rows: Rows, *, shift: Array | None = None) -> Array:
        """Return the chances (n, k) alone, which may take less time."""
        return self.expectations(reported, rows, shift=shift).chance

    def exponentials(
        self, reported: Array, rows: Rows, rate: float, *, shift: Array | None = None
    ) -> Array:
        """Return E[e^(c y_j)] (n, k), with `rate` c; here for noise that is jointly normal."""
        covariance = covariance_of_rows(self.problem, reported, rows)
        means = latent_means(self.problem, reported, rows, shift=shift)
        return normal_exponentials(means, np.einsum("nkk->nk", covariance), rate)

    def weighed(
        self, reported: Array, rows: Rows, rate: float, *, shift: Array | None = None
    ) -> Array:
        """Return E[e^(c y_j); l] at [row, j, l], (n, k, k); here for jointly normal noise.

        Weighing by e^(c y_j) moves every mean by c times its covariance with y_j.
        """
        covariance = covariance_of_rows(self.problem, reported, rows)
        given = 0.0 if shift is None else shift
        each = [
            self.expectations(reported, rows, shift=rate * covariance[:, :, j] + given).chance
            for j in range(covariance.shape[1])
        ]
        size = self.exponentials(reported, rows, rate, shift=shift)
        return size[:, :, None] * np.stack(each, axis=1)

    def latent(self, reported: Array, rows: Rows) -> Array:
        """Return the mean (n, k) of every latent outcome, whatever is chosen."""
        return latent_means(self.problem, reported, rows)

    def of_averages(self) -> Moments:
        """Return the moments to average over rows, which may take fewer points where simulated."""
        return self

    @abstractmethod
    def cells(self, reported: Array, rows: Rows) -> Array:
        """Return the cells (n, q) of rows."""

    @abstractmethod
    def cells_and_slope(self, reported: Array, rows: Rows, weights: Array) -> tuple[Array, Array]:
        """Return the cells, and the weighted sum of their derivatives (q, m) in `reported`."""

    def check_cells(self) -> None:
        """Refuse where the cells cannot be computed; here they can."""
        return


def covariance_of_rows(problem: Problem, reported: Array, rows: Rows) -> Array:
    """Return the covariance (n, k, k) of the noises of rows' alternatives, normal ones.

    It is (1, k, k) where all rows have the same.
    """
    layout, noise = problem.layout, problem.noise
    standard = noise.known_correlation(problem.equations.alternatives)
    if standard is None:
        natural = layout.natural(layout.read(reported))
        h = natural[layout.inverse_scale_positions]
        standard = noise.standard_covariance(natural[layout.starts[-1] :], h)
    scales = problem.row_scales(reported, rows)
    return np.asarray(standard * scales[:, :, None] * scales[:, None, :])


def normal_exponentials(means: Array, variances: Array, rate: float) -> Array:
    """Return E[e^(cy)] of normal outcomes, with `rate` c."""
    with np.errstate(over="ignore"):
        found: Array = np.exp(rate * means + 0.5 * rate**2 * variances)
    return found


def as_cells(moments: Array, means: Array) -> Array:
    """Put moments (n, 1 + k, k), chances first, and latent means (n, k) together as cells."""
    predicted = means[:, :, None] * moments[:, [0]]
    flat = (len(means), -1)
    return np.hstack([moments.reshape(flat), predicted.reshape(flat), means])


def latent_means(
    problem: Problem, reported: Array, rows: Rows, *, shift: Array | None = None
) -> Array:
    """Return the mean (n, k) of every latent outcome; `shift`, (k,) or (n, k), is added to them."""
    means = np.zeros((len(rows), problem.equations.n_alternatives))
    for j, (equation, coefficients) in enumerate(
        zip(problem.equations.each, problem.layout.coefficients_of(reported), strict=True)
    ):
        for column, coefficient in zip(equation.columns, coefficients, strict=True):
            if column == 0:
                means[:, j] += coefficient
            else:
                means[:, j] += coefficient * rows.covariates[:, column - 1]
    return means if shift is None else means + shift


def costs_of_rows(problem: Problem, reported: Array, rows: Rows) -> Array:
    """Return the costs (n, k) of rows, known and estimated ones."""
    equations, layout = problem.equations, problem.layout
    known, shape = rows.known.costs, (len(rows), equations.n_alternatives)
    total = np.zeros(shape) if known is None else known.astype(np.float64)
    each = [cost for cost in equations.costs for _ in cost.terms]
    columns = [column for cost in equations.costs for column in cost.columns]
    # Those of the costs are the last of the extras.
    values = layout.extras_of(reported)[len(layout.extras) - len(each) :]
    for cost, column, value in zip(each, columns, values, strict=True):
        along = 1.0 if column == 0 else rows.covariates[:, column - 1]
        total[:, equations.alternatives.index(cost.alternative)] += value * along
    return total
