"""The solver where none was given, and points doubled until estimates stay."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect import solvers
from selfselect.engines.base import Engine
from selfselect.errors import OptionError, UnsupportedError
from selfselect.problem.problem import Problem
from selfselect.rules import has_bounds
from selfselect.solvers.base import Solution, Solver
from selfselect.solvers.climb import Climb, approach, log_likelihood, score_at, solve_spd

# Choosing a solver where the user did not.


def choose_solver(problem: Problem, given: Any) -> tuple[Solver, str]:
    """Choose the solver for a problem, and give the reason."""
    if given is None and problem.noise.selected:
        from selfselect.solvers.selection_search import BinarySearch, SelectionSearch

        search: Solver = BinarySearch() if problem.noise.sign_only else SelectionSearch()
        return search, (
            "a selection equation selects: the likelihood is exact, concave for given correlations "
            "only, and searched over them"
        )
    if given is None and problem.noise.mixed:
        return solvers.TypeSearch(), (
            "unobserved types are mixed: the likelihood is exact, has several optima and is "
            "searched from several starts"
        )
    if given is None and problem.layout.spreads and not problem.likelihood.joint:
        return solvers.Continuation(), (
            "scales move with covariates: the likelihood is exact, but concave only where they do "
            "not, and continued from there"
        )
    if given is None and problem.likelihood.joint:
        return (
            solvers.Continuation(),
            f"{_joined(problem)}, so the likelihood joins the alternatives",
        )
    if given is None and problem.likelihood.continued:
        return solvers.Continuation(), (
            f"noise is {problem.noise.margin.name}, not log-concave, so the likelihood has several "
            "optima and is searched from normal noise on"
        )
    if given is None and not problem.likelihood.concave:
        why = (
            "the chosen alternative was not recorded"
            if problem.index == "unknown"
            else "explaining sets are not convex"
        )
        return solvers.MaximumLikelihood(), (
            f"{why}, so the likelihood has several optima and is searched from several starts"
        )
    if given is None and problem.layout.curved:
        return solvers.Newton(), (
            "coefficients are shared and scales are not: the likelihood is exact, but concave for "
            "given scales only, so Newton starts from two places"
        )
    if given is None and problem.likelihood.sampled:
        why = (
            f"{type(problem.rule).__name__} has no bounds"
            if not has_bounds(problem.ordered_rule)
            else "the noise is correlated across alternatives"
        )
        return solvers.MonteCarloNewton(), (
            f"{why}, so the mass of explaining sets has no closed form; for convex sets the "
            "likelihood is concave in the coefficients, and draws from them lead to its optimum"
        )
    if given is None and not has_bounds(problem.ordered_rule):
        return solvers.Newton(), (
            f"{type(problem.rule).__name__} has explaining sets bounded by planes, few enough for "
            "their mass to be known by quadrature, so the likelihood is exact; it is concave in "
            "the coefficients"
        )
    if given is None:
        return solvers.Newton(), (
            f"{type(problem.rule).__name__} has box-shaped explaining sets and the noise is "
            "independent, so the likelihood is exact and concave"
        )
    if isinstance(given, type) or not isinstance(given, Solver):
        raise OptionError(
            f"{given!r} is not a solver. Use None to have one chosen, or an object such as "
            "selfselect.solvers.Newton(max_steps=100)."
        )
    if problem.noise.selected != bool(getattr(given, "selects", False)):
        raise UnsupportedError(
            f"{type(given).__name__} is {'not ' if problem.noise.selected else ''}for data in "
            "which a selection equation selects. Use solver=None to have one chosen."
        )
    if problem.noise.mixed != isinstance(given, solvers.TypeSearch):
        raise UnsupportedError(
            f"{type(given).__name__} is {'not ' if problem.noise.mixed else ''}for noise with "
            "unobserved types. Use solver=None to have one chosen."
        )
    joint = problem.likelihood.continued or bool(problem.layout.spreads)
    joint = joint and not problem.noise.mixed
    if joint != isinstance(given, solvers.Continuation):
        raise UnsupportedError(
            f"{type(given).__name__} is {'not ' if joint else ''}for likelihoods that join "
            "the alternatives (correlated noise, a shared shock, estimated costs, rows in which "
            "something was not recorded), scales that move with covariates or noise that is not "
            "log-concave. Use solver=None to have one chosen."
        )
    if given.concave != problem.likelihood.concave:
        what = {True: "one optimum", False: "several optima"}
        raise UnsupportedError(
            f"{type(given).__name__} is for likelihoods with {what[given.concave]}; this one has "
            f"{what[problem.likelihood.concave]}: the chosen alternative is {problem.index}, and "
            f"{problem.rule.name}. Use solver=None to have one chosen."
        )
    return given, "as given"


def _joined(problem: Problem) -> str:
    """Say what joins the alternatives."""
    if problem.equations.costs:
        return "costs are estimated"
    if problem.partial:
        return "the outcome or the choice is not recorded in some rows"
    if problem.layout.spreads:
        return "scales move with covariates and the chosen alternative was not recorded"
    return f"noise is {problem.noise.name.split(';')[0]}"


# Points of simulated and integrated likelihoods: doubled until the estimates stay.


Array = NDArray[np.float64]

SAMPLE = 20_000
"""Rows on which the points of a quadrature are judged where there are more."""


@dataclass(frozen=True, eq=False)
class Refined:
    """The estimate with enough points, how many those are, and what to say of it."""

    best: Climb
    points: int | None
    said: str | None


def with_points(problem: Problem, points: int | None) -> Problem:
    """Return the problem with that many points; as it is where there is nothing to refine."""
    return problem if points is None else replace(problem, noise=problem.noise.with_points(points))


def as_solved(problem: Problem, solution: Solution) -> Problem:
    """Return the problem with the points and the noise that its solver settled on."""
    if solution.settled is not None:
        problem = replace(problem, noise=solution.settled)
    return with_points(problem, solution.points)


def refine(problem: Problem, engine: Engine, best: Climb, *, steady: float, tol: float) -> Refined:
    """Double the points until no estimate moves by more than `steady` standard errors."""
    given = problem.noise.points(problem.equations.n_alternatives)
    if given is None:
        return Refined(best, None, None)
    points, most, what, alike = given
    if alike and engine.n_rows > SAMPLE:
        # The error of a quadrature is the same in all rows, so a sample tells its size.
        moved = _move_on_sample(problem, engine, best, 2 * points)
        if moved <= steady:
            said = f"Twice the {points} {what} would move estimates by {moved:.1g} standard errors."
            return Refined(best, points, said)
    moved = np.inf
    while 2 * points <= most:
        finer = with_points(problem, 2 * points)
        free = approach(finer, engine, best.free, best.information, tol=max(tol, 0.1 * steady))
        moved = _largest_move(best.information, free - best.free)
        points *= 2
        best = replace(best, free=free, loglik=log_likelihood(finer, engine, free))
        if moved <= steady:
            break
    if moved <= steady:
        said = f"With {points} {what} estimates moved by at most {moved:.1g} standard errors."
    else:
        said = (
            f"Even with {points} {what} estimates still move by {moved:.2g} standard errors: do "
            "not trust their last digits."
        )
    return Refined(best, points, said)


def _move_on_sample(problem: Problem, engine: Engine, best: Climb, points: int) -> float:
    """Return how far more points would move the estimates, judged by the scores of a sample."""
    part = engine.sample(SAMPLE, np.random.default_rng(0))
    scores = [score_at(one, part, best.free) for one in (problem, with_points(problem, points))]
    share = engine.n_rows / part.n_rows
    move = solve_spd(best.information, share * (scores[1] - scores[0]))
    return _largest_move(best.information, move)


def _largest_move(information: Array, move: Array) -> float:
    """Return the largest change of a parameter in its standard errors."""
    inverse = np.column_stack([solve_spd(information, one) for one in np.eye(len(move))])
    return float(np.max(np.abs(move) / np.sqrt(np.maximum(np.diag(inverse), 1e-300))))
