"""Other models of a fit's rows, with standard errors of the same kind as the fit's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from selfselect.engines.base import Engine
from selfselect.engines.memory import Memory
from selfselect.inference.covariance import Covariance, estimate_covariance
from selfselect.problem.problem import Problem
from selfselect.solvers import as_solved, choose_solver
from selfselect.solvers._order import closest_order, groups_alike, reordered, reported_origins
from selfselect.solvers.base import Solution, Solver

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["covariance_of_refit", "numbered_as", "refit"]


def refit(fit: FitResult, problem: Problem, *, seed: int = 0) -> FitResult:
    """Fit another model to the rows of a fit, which are held in memory."""
    # What a row says of the alternatives depends on rule and noise, so rows are loaded anew.
    engine = Memory().load(problem, fit.rows)
    solver, reason = choose_solver(problem, None)
    solution = solver.solve(problem, engine, rng=np.random.default_rng(seed), progress=False)
    return replace(
        fit,
        problem=as_solved(problem, solution),
        solution=solution,
        covariance=covariance_of_refit(fit, problem, solution, solver, engine),
        solver_reason=reason,
        engine=engine,
        kept=None,
        call=None,
    )


def numbered_as(found: FitResult, fit: FitResult) -> FitResult:
    """Return a fit with its alternatives numbered as those of another that they come closest to.

    Where alternatives have no names every fit orders them by itself. A fit whose alternatives have
    names, or have these numbers, is returned as it is.
    """
    problem, solution = found.problem, found.solution
    k = problem.equations.n_alternatives
    if not (problem.exchangeable and fit.problem.exchangeable):
        return found
    if fit.problem.equations.n_alternatives != k:
        return found
    groups = groups_alike(problem, found.engine_of_rows())
    order = closest_order(problem, groups, solution.free, fit.problem, fit.solution.free)
    if np.array_equal(order, np.arange(k)):
        return found
    spread, origin = found.covariance, reported_origins(problem, solution.free, order)
    return replace(
        found,
        solution=reordered(problem, solution, order),
        covariance=replace(
            spread,
            matrix=spread.matrix[np.ix_(origin, origin)],
            missing=tuple(np.flatnonzero(np.isin(origin, spread.missing)).tolist()),
        ),
    )


def covariance_of_refit(
    fit: FitResult,
    problem: Problem,
    solution: Solution,
    solver: Solver,
    engine: Engine | None = None,
) -> Covariance:
    """Estimate the covariance of another model of the same rows, of the kind that the fit has.

    A bootstrap is not run again: the clustered or the robust covariance stands for it. `engine`
    holds the rows; None for that of the fit.
    """
    return estimate_covariance(
        as_solved(problem, solution),
        fit.engine_of_rows() if engine is None else engine,
        solution,
        kind="robust" if fit.covariance.kind == "bootstrap" else fit.covariance.kind,
        dependence=fit.dependence,
        solver=solver,
        rng=np.random.default_rng(0),
        progress=False,
    )
