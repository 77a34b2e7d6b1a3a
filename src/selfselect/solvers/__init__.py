"""Solvers: algorithms that estimate a model from its rows. Each is loaded when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selfselect.solvers._choose import as_solved, choose_solver
    from selfselect.solvers.base import Ending, Solution, Solver, StartRecord, Status, TraceEntry
    from selfselect.solvers.continuation import Continuation
    from selfselect.solvers.maximum_likelihood import EM, MaximumLikelihood
    from selfselect.solvers.monte_carlo_newton import MonteCarloNewton
    from selfselect.solvers.newton import Newton
    from selfselect.solvers.paper.moment_methods import MinVariance, NetSearch, TwoModels
    from selfselect.solvers.paper.peeling import Peeling, Population
    from selfselect.solvers.paper.projected_sgd import ProjectedSGD
    from selfselect.solvers.type_search import TypeSearch

__all__ = [
    "EM",
    "Continuation",
    "Ending",
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
    "Status",
    "TraceEntry",
    "TwoModels",
    "TypeSearch",
    "as_solved",
    "choose_solver",
]

_HOMES = {
    "EM": "maximum_likelihood",
    "Continuation": "continuation",
    "Ending": "base",
    "MaximumLikelihood": "maximum_likelihood",
    "MinVariance": "paper.moment_methods",
    "MonteCarloNewton": "monte_carlo_newton",
    "NetSearch": "paper.moment_methods",
    "Newton": "newton",
    "Peeling": "paper.peeling",
    "Population": "paper.peeling",
    "ProjectedSGD": "paper.projected_sgd",
    "Solution": "base",
    "Solver": "base",
    "StartRecord": "base",
    "Status": "base",
    "TraceEntry": "base",
    "TwoModels": "paper.moment_methods",
    "choose_solver": "_choose",
    "TypeSearch": "type_search",
    "as_solved": "_choose",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
