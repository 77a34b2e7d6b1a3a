"""Noise of which the data do not show all: the estimates of simpler noise, and why."""

from __future__ import annotations

from dataclasses import replace

from numpy.random import Generator

from selfselect.engines.base import Engine
from selfselect.problem.problem import Problem
from selfselect.solvers.base import Solution

__all__ = ["settle"]

INDISTINCT = 2.0
"""Log-likelihood above that of simpler noise below which an estimate that is not determined, or
that another one was preferred to, says no more than that one."""


def settle(
    problem: Problem,
    engine: Engine,
    found: Solution | None,
    doubted: list[str],
    *,
    rng: Generator,
    progress: bool | None,
) -> Solution | None:
    """Return what was found, or the estimate under simpler noise where that is as good.

    An optimum that the search came to at once and that converged stands. One that it came to after
    others had been doubted, for these reasons, stands if it is better than the estimate under
    simpler noise, and so does one that did not converge. Returns None where there is neither.
    """
    if found is not None and found.converged and not doubted:
        return found
    simple = _solve_simpler(problem, engine, rng=rng, progress=progress)
    if simple is None:
        return found
    gain = -float("inf") if found is None else found.loglik - simple.loglik
    if gain >= INDISTINCT:
        return found
    if doubted:
        return _saying_why(simple, problem, doubted[0])
    reason = (
        f"the components coincide: the log-likelihood is {max(gain, 0.0):.2g} above that of the "
        "simpler noise, so the data do not distinguish them."
    )
    return _saying_why(simple, problem, reason)


def _solve_simpler(
    problem: Problem, engine: Engine, *, rng: Generator, progress: bool | None
) -> Solution | None:
    """Return the estimate under the simpler noise; None where there is none that converged."""
    from selfselect.solvers._choose import choose_solver

    noise = problem.noise.simpler
    if noise is None:
        return None
    simple = replace(problem, noise=noise)
    found = choose_solver(simple, None)[0].solve(simple, engine, rng=rng, progress=progress)
    return replace(found, settled=found.settled or noise) if found.converged else None


def _saying_why(simple: Solution, problem: Problem, reason: str) -> Solution:
    """Return the estimate under simpler noise with the reason why it is that."""
    assert simple.settled is not None
    said = (
        f"The fit was asked for a {problem.noise.name.split(',')[0]}, but {reason} The estimates "
        f"are those of simpler noise: {simple.settled.name.split(',')[0]}."
    )
    return replace(simple, ending=simple.ending.noting(said))
