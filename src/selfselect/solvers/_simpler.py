"""Noise of which the data do not show all: the estimates of simpler noise, and why."""

from __future__ import annotations

from dataclasses import replace

from numpy.random import Generator

from selfselect.engines.base import Engine
from selfselect.problem.problem import Problem
from selfselect.solvers.base import Solution
from selfselect.solvers.status import Status

__all__ = ["saying_why", "solve_simpler", "why_simpler"]

INDISTINCT = 2.0
"""Log-likelihood above that of simpler noise below which an estimate that is not determined says no
more than that one."""


def why_simpler(found: Solution, gain: float) -> str | None:
    """Say why an estimate is no better than that of simpler noise; None where it stands.

    `gain` is by how much its log-likelihood is higher.
    """
    if found.ending.status is Status.AT_BOUNDARY:
        return str(found.ending.details["reason"])
    if not found.converged and gain < INDISTINCT:
        return (
            f"the components coincide: the log-likelihood is {max(gain, 0.0):.2g} above that of "
            "the simpler noise, so the data do not distinguish them."
        )
    return None


def solve_simpler(
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


def saying_why(simple: Solution, problem: Problem, reason: str) -> Solution:
    """Return the estimate under simpler noise with the reason why it is that."""
    assert simple.settled is not None
    said = (
        f"The fit was asked for a {problem.noise.name.split(',')[0]}, but {reason} The estimates "
        f"are those of simpler noise: {simple.settled.name.split(',')[0]}."
    )
    return replace(simple, ending=simple.ending.noting(said))
