"""Solvers: from a problem and rows to a solution."""

from selfselect.solvers._choose import choose_solver
from selfselect.solvers._resolution import with_points
from selfselect.solvers.base import Solution, Solver, StartRecord, TraceEntry
from selfselect.solvers.continuation import Continuation
from selfselect.solvers.em import EM
from selfselect.solvers.maximum_likelihood import MaximumLikelihood
from selfselect.solvers.min_variance import MinVariance
from selfselect.solvers.monte_carlo_newton import MonteCarloNewton
from selfselect.solvers.net_search import NetSearch
from selfselect.solvers.newton import Newton
from selfselect.solvers.peeling import Peeling, Population
from selfselect.solvers.projected_sgd import ProjectedSGD
from selfselect.solvers.two_models import TwoModels

__all__ = [
    "EM",
    "Continuation",
    "MaximumLikelihood",
    "MinVariance",
    "MonteCarloNewton",
    "NetSearch",
    "Newton",
    "Peeling",
    "Population",
    "ProjectedSGD",
    "Solution",
    "Solver",
    "StartRecord",
    "TraceEntry",
    "TwoModels",
    "choose_solver",
    "with_points",
]
