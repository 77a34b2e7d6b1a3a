"""Points of simulated and integrated likelihoods: doubled until the estimates stay."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.problem.problem import Problem
from selfselect.solvers.base import Solution
from selfselect.solvers.climb import Climb, approach, log_likelihood, score_at, solve_spd

__all__ = ["Refined", "as_solved", "refine", "with_points"]

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
