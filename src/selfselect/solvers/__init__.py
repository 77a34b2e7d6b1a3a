"""Solvers: algorithms that estimate a model from its rows. Each is loaded when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selfselect.solvers._choose import choose_solver
    from selfselect.solvers._resolution import as_solved
    from selfselect.solvers.base import Solution, Solver, StartRecord, TraceEntry
    from selfselect.solvers.continuation import Continuation
    from selfselect.solvers.em import EM
    from selfselect.solvers.maximum_likelihood import MaximumLikelihood
    from selfselect.solvers.monte_carlo_newton import MonteCarloNewton
    from selfselect.solvers.newton import Newton
    from selfselect.solvers.paper.min_variance import MinVariance
    from selfselect.solvers.paper.net_search import NetSearch
    from selfselect.solvers.paper.peeling import Peeling, Population
    from selfselect.solvers.paper.projected_sgd import ProjectedSGD
    from selfselect.solvers.paper.two_models import TwoModels
    from selfselect.solvers.status import Ending, Status
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
    "EM": "em",
    "Continuation": "continuation",
    "Ending": "status",
    "MaximumLikelihood": "maximum_likelihood",
    "MinVariance": "paper.min_variance",
    "MonteCarloNewton": "monte_carlo_newton",
    "NetSearch": "paper.net_search",
    "Newton": "newton",
    "Peeling": "paper.peeling",
    "Population": "paper.peeling",
    "ProjectedSGD": "paper.projected_sgd",
    "Solution": "base",
    "Solver": "base",
    "StartRecord": "base",
    "Status": "status",
    "TraceEntry": "base",
    "TwoModels": "paper.two_models",
    "choose_solver": "_choose",
    "TypeSearch": "type_search",
    "as_solved": "_resolution",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
