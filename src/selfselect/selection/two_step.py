r"""Heckman's two steps, with standard errors that know the first step was estimated.

Step one is the probit of selection, step two least squares of each outcome on its covariates and
the Mills ratio. An error of γ moves the Mills ratio by :math:`-\delta z'`, and with it the second
step: that is in the covariance (Heckman 1979; Greene 1981), jointly for all equations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.errors import OptionError
from selfselect.inference.covariance import UNCORRECTED, Covariance, plain_meat
from selfselect.inference.dependence import (
    Dependence,
    cluster_covariance,
    cluster_totals,
    describe_clusters,
)
from selfselect.likelihoods import Batch
from selfselect.noises import Selection
from selfselect.noises.correlated import CORRELATION
from selfselect.noises.shapes.normal import SHAPE
from selfselect.problem.batch import Parts
from selfselect.problem.parameters import SCALE
from selfselect.problem.problem import Problem
from selfselect.solvers.base import Ending, Solution, Status
from selfselect.solvers.second_step import (
    OwnRegressors,
    own_regressors,
    second_steps,
)
from selfselect.solvers.selection_search import fit_independent, selection_places

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TwoStep:
    """Estimate by a probit and least squares with Mills ratios.

    It solves problems with `noises.TwoSteps`. The solution's information is that of the probit
    about γ, and unknown about everything else.
    """

    requires: ClassVar[tuple[type, ...]] = ()
    concave: ClassVar[bool] = False

    def solve(
        self,
        problem: Problem,
        engine: Engine,
        *,
        rng: Generator,
        start: Array | None = None,
        progress: bool | None = None,
    ) -> Solution:
        """Estimate the parameters; there is nothing to start from and nothing random."""
        del rng, start, progress
        joint = replace(problem, noise=Selection())
        probit = fit_independent(joint, engine)
        at_gamma = selection_places(joint)
        gamma = probit.free[at_gamma]
        steps = second_steps(joint, engine, gamma)
        layout = problem.layout
        first, k = int(layout.starts[-1]), len(steps)
        free = np.zeros(layout.n_free)
        for j, (step, equation) in enumerate(zip(steps, problem.equations.each, strict=True)):
            step.refuse_undetermined(equation.alternative)
            free[layout.starts[j] : layout.inverse_scale_positions[j]] = (
                step.coefficients[:-1] / step.scale
            )
            free[layout.inverse_scale_positions[j]] = 1.0 / step.scale
            free[first + j] = step.coefficients[-1]
            free[first + k + j] = step.correlation
        own = selection_places(problem)
        free[own] = gamma
        information = np.full((len(free), len(free)), np.nan)
        information[np.ix_(own, own)] = probit.information[np.ix_(at_gamma, at_gamma)]
        return Solution(
            free=free,
            loglik=float("nan"),
            information=information,
            ending=Ending(Status.SOLVED, {"sentence": "A probit and least squares, both solved."}),
            trace=(),
            n_passes=probit.n_passes + 3,
            solver=repr(self),
        )


def two_step_covariance(
    problem: Problem,
    engine: Engine,
    solution: Solution,
    *,
    kind: str,
    dependence: Dependence,
) -> Covariance:
    """Return the joint covariance of the two-step estimates in the user's units.

    Parameters are those of `inference.covariance.estimate_covariance`; scales and correlations
    have no standard error.
    """
    if kind == "opg":
        raise OptionError(
            "covariance='opg' needs maximum likelihood, and this estimate has two steps. Use "
            "covariance='robust', or method='ml'."
        )
    estimate = _Estimate.read(problem, solution)
    sums = engine.sum(partial(_own_sums, estimate))
    first, breads, reach = _slopes(problem, solution, sums, by_model=kind == "observed")
    carry, missing = _carry(problem, solution)
    description = "two-step (Heckman 1979; Greene 1981)"
    if kind == "observed":
        internal = reach @ first @ reach.T
        for own, bread, j in _blocks(breads):
            internal[own, own] += bread @ sums[4 * j + 3] @ bread
    else:
        clusters = dependence.clusters
        task = partial(_influence, estimate, first @ reach.T, breads, dependence)
        found = engine.sum(task)
        if clusters:
            internal, counts, repaired = cluster_covariance(found, len(clusters))
            return Covariance.of_clusters(
                kind, describe_clusters(dependence.cluster_name, counts),
                carry @ internal @ carry.T, counts, repaired=repaired, missing=missing,
            )  # fmt: skip
        products, count = found
        internal, description = products * count / (count - 1.0), "robust (sandwich)"
        if kind in UNCORRECTED:
            internal, description = plain_meat(kind, products, count, len(products))
    return Covariance(kind, description, carry @ internal @ carry.T, missing=missing)


def two_step_influence(problem: Problem, engine: Engine, solution: Solution) -> Array:
    """Return what each row, by its weight, does to the reported estimates: (n, m)."""
    estimate = _Estimate.read(problem, solution)
    sums = engine.sum(partial(_own_sums, estimate))
    first, breads, reach = _slopes(problem, solution, sums, by_model=False)
    internal = engine.collect(partial(_row_influence, estimate, first @ reach.T, breads))
    return np.asarray(internal @ _carry(problem, solution)[0].T)


def _slopes(
    problem: Problem, solution: Solution, sums: Parts, *, by_model: bool
) -> tuple[Array, list[Array], Array]:
    """Return the covariance of γ, the breads of second steps, and how estimates move with γ."""
    at_gamma = selection_places(problem)
    information = solution.information[np.ix_(at_gamma, at_gamma)]
    first = np.asarray(np.linalg.inv(information), dtype=np.float64)
    breads: list[Array] = []
    reaches: list[Array] = []
    for j in range(problem.equations.n_alternatives):
        products, push, drift, _ = sums[4 * j : 4 * j + 4]
        bread = np.linalg.inv(products)
        if not by_model:
            # The Mills ratio itself moves with γ: nothing on average where the model is right.
            push = push - np.pad(drift[None, :], ((len(push) - 1, 0), (0, 0)))
        breads.append(bread)
        reaches.append(bread @ push)
    return first, breads, np.vstack([*reaches, np.eye(len(first))])


@dataclass(frozen=True, eq=False)
class _Estimate:
    """Two-step estimates in internal units: γ, and by alternative coefficients and scale."""

    problem: Problem
    gamma: Array
    coefficients: tuple[Array, ...]
    scales: tuple[float, ...]

    @classmethod
    def read(cls, problem: Problem, solution: Solution) -> _Estimate:
        layout, free = problem.layout, solution.free
        h = free[layout.inverse_scale_positions]
        mills = free[int(layout.starts[-1]) :]
        each = layout.coefficients_in(free)
        coefficients = tuple(np.append(g / h[j], mills[j]) for j, g in enumerate(each))
        return cls(problem, free[selection_places(problem)], coefficients, tuple(1.0 / h))

    def own(self, batch: Batch, j: int) -> tuple[OwnRegressors, Array, Array]:
        """Return the rows of an alternative, its regressors (m, p + 1) and what they leave over."""
        own = own_regressors(self.problem, self.gamma, batch, j)
        regressors = np.column_stack([own.x, own.ratio])
        return own, regressors, own.outcome - regressors @ self.coefficients[j]


def _own_sums(estimate: _Estimate, batch: Batch) -> Parts:
    """Sum, by alternative, products of regressors and what an error of γ does to them."""
    parts: list[Array] = []
    for j, (coefficients, scale) in enumerate(
        zip(estimate.coefficients, estimate.scales, strict=True)
    ):
        own, regressors, left_over = estimate.own(batch, j)
        shrunk = np.maximum(scale**2 - coefficients[-1] ** 2 * own.delta, 0.0)
        parts += [
            regressors.T @ (regressors * own.weights[:, None]),
            regressors.T @ (own.z * (own.weights * coefficients[-1] * own.delta)[:, None]),
            (own.weights * left_over * own.delta) @ own.z,
            regressors.T @ (regressors * (own.weights * shrunk)[:, None]),
        ]
    return Parts(parts)


def _influence(
    estimate: _Estimate,
    through: Array,
    breads: list[Array],
    dependence: Dependence,
    batch: Batch,
) -> Parts:
    """Sum products of what rows, or clusters, do to the estimates."""
    rows = batch.rows
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    influence = _row_influence(estimate, through, breads, batch)
    if dependence.clusters:
        return cluster_totals(rows, influence, dependence.clusters)
    if dependence.repeated:
        influence /= np.sqrt(np.where(weights > 0, weights, 1.0))[:, None]
    count = float(weights.sum() if dependence.repeated else (weights > 0).sum())
    return Parts((influence.T @ influence, count))


def _row_influence(estimate: _Estimate, through: Array, breads: list[Array], batch: Batch) -> Array:
    """Return what each row does to the estimates, in internal units.

    A row does so by its own equation, and through γ (`through`) in all of them.
    """
    influence = _probit_scores(estimate, batch) @ through
    for own_place, bread, j in _blocks(breads):
        own, regressors, left_over = estimate.own(batch, j)
        direct = (regressors * (own.weights * left_over)[:, None]) @ bread
        influence[own.which, own_place] += direct
    return influence


def _probit_scores(estimate: _Estimate, batch: Batch) -> Array:
    """Return each row's weighted score (n, q) in γ."""
    problem, rows = estimate.problem, batch.rows
    selection = problem.equations.selection
    assert selection is not None and rows.chosen is not None
    ends = problem.ordered_rule.intervals(problem.equations.alternatives)
    signs = np.array([*(1.0 if upper is None else -1.0 for _, upper in ends), -1.0])[rows.chosen]
    z = problem.units.design(rows.covariates, selection.columns)
    pull = signs * SHAPE.below(signs * (z @ estimate.gamma)).slope
    return np.asarray(z * (pull if rows.weights is None else rows.weights * pull)[:, None])


def _blocks(breads: list[Array]) -> Iterator[tuple[slice, Array, int]]:
    """Yield where the parameters of each second step stand, their bread, and the alternative."""
    place = 0
    for j, bread in enumerate(breads):
        yield slice(place, place + len(bread)), bread, j
        place += len(bread)


def _carry(problem: Problem, solution: Solution) -> tuple[Array, tuple[int, ...]]:
    """Return how internal estimates become reported ones, and which have no standard error."""
    layout = problem.layout
    reported = layout.report(solution.free)
    columns: list[Array] = []
    for j, h in enumerate(solution.free[layout.inverse_scale_positions]):
        of_g = slice(int(layout.starts[j]), int(layout.inverse_scale_positions[j]))
        columns.append(reported.jacobian[:, of_g] * h)
        columns.append(reported.jacobian[:, [int(layout.starts[-1]) + j]])
    columns.append(reported.jacobian[:, selection_places(problem)])
    missing = [i for i, (_, term) in enumerate(reported.labels) if term in (SCALE, CORRELATION)]
    carry = np.hstack(columns)
    carry[missing] = 0.0
    return carry, tuple(missing)
