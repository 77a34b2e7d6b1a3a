"""How a fit was asked for: the call, the posed problem, and other models of the same rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.design import DataFacts
from selfselect.engines.base import Engine
from selfselect.engines.memory import Memory
from selfselect.errors import OptionError
from selfselect.inference.covariance import Covariance, estimate_covariance
from selfselect.problem.problem import Problem
from selfselect.results.naive import fit_naive
from selfselect.solvers import as_solved, choose_solver
from selfselect.solvers.base import Solution, Solver
from selfselect.solvers.order import closest_order, groups_alike, reordered, reported_origins

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


# The call of a door: written so that it can be made again, and handed on.


UNSAID = ("data", "progress", "checkpoint")
LONGEST = 300


def write_call(function: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """Write a call of `fit`, or of another door, with the arguments that differ from defaults.

    The table is called ``data``; columns given as arrays are described, since they have no name.
    """
    lines = []
    for name, parameter in _parameters(function).items():
        if name == "data":
            lines.append("data,")
        elif parameter.default is parameter.empty:
            lines.append(f"{_written(given[name])},")
        elif name not in UNSAID and not _same(given[name], parameter.default):
            lines.append(f"{name}={_written(given[name])},")
    return "\n".join([f"ss.{function.__name__}(", *(f"    {line}" for line in lines), ")"])


def arguments_for(given: Mapping[str, Any], *functions: Callable[..., Any]) -> dict[str, Any]:
    """Return those of the arguments of a call that other functions take too, by name."""
    names = {name for one in functions for name in _parameters(one)}
    return {name: value for name, value in given.items() if name in names}


@lru_cache
def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function; reading them off takes a tenth of a millisecond."""
    return inspect.signature(function).parameters


def _same(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, str) and value == default)


def _written(value: Any) -> str:
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k!r}: {_written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple) and len(value) <= 20:
        return "[" + ", ".join(_written(one) for one in value) + "]"
    room = type(value).__module__.split(".")
    if room[0] == "selfselect":
        text = f"ss.{room[1]}.{value!r}"
    elif hasattr(value, "__len__"):
        text = f"<{type(value).__name__} of {len(value)}>"
    else:
        text = repr(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


# A problem together with its rows, before there is a fit.


Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Posed:
    """A problem and the rows it is posed on.

    Attributes
    ----------
    problem : what is to be estimated.
    engine : the rows.
    facts : what to know of the data.
    """

    problem: Problem
    engine: Engine
    facts: DataFacts

    def __repr__(self) -> str:
        equations = self.problem.equations
        what = f"{equations.outcome} of {equations.n_alternatives} alternatives"
        return f"<Posed: {what}; {self.facts.n_rows} rows, not solved>"

    def engine_of_rows(self) -> Engine:
        """Return the engine that holds the rows."""
        return self.engine

    def first_guess(self) -> Array:
        """Return free parameters of least squares on the rows in which each alternative was chosen.

        They are biased by selection.
        """
        if self.problem.index == "unknown":
            raise OptionError(
                "Where the choice was not recorded there is no quick guess of the coefficients. "
                "Give params, or fit first."
            )
        naive = fit_naive(self.problem, self.engine)
        if not all(np.isfinite(own).all() for own in naive.coefficients):
            raise OptionError(
                "Least squares gives no first guess of the coefficients: some alternative has no "
                "row with an outcome. Give params, or fit first."
            )
        layout = self.problem.layout
        scales = naive.scales if layout.scales is None else layout.scales
        return layout.collect(naive.coefficients, scales)


# Other models of a fit's rows, with standard errors of the same kind as the fit's.


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
    by_person = problem.grouped and fit.facts.cluster == fit.facts.panel
    return estimate_covariance(
        as_solved(problem, solution),
        fit.engine_of_rows() if engine is None else engine,
        solution,
        kind="robust" if fit.covariance.kind == "bootstrap" else fit.covariance.kind,
        dependence=replace(fit.dependence, by_person=by_person),
        solver=solver,
        rng=np.random.default_rng(0),
        progress=False,
    )
