"""Other models of a fit's rows, with standard errors of the same kind as the fit's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from selfselect.inference.covariance import Covariance, estimate_covariance
from selfselect.problem.problem import Problem
from selfselect.solvers import as_solved
from selfselect.solvers.base import Solution, Solver

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["covariance_of_refit"]


def covariance_of_refit(
    fit: FitResult, problem: Problem, solution: Solution, solver: Solver
) -> Covariance:
    """Estimate the covariance of another model of the same rows, of the kind that the fit has.

    A bootstrap is not run again: the clustered or the robust covariance stands for it.
    """
    return estimate_covariance(
        as_solved(problem, solution),
        fit.engine_of_rows(),
        solution,
        kind="robust" if fit.covariance.kind == "bootstrap" else fit.covariance.kind,
        dependence=fit.dependence,
        solver=solver,
        rng=np.random.default_rng(0),
        progress=False,
    )
