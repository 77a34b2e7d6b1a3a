"""Estimates at the edge of what is possible, where they and their errors mean nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.likelihoods._pieces import noise_covariance
from selfselect.problem.problem import Problem
from selfselect.solvers.climb import log_likelihood, scale_without_limit
from selfselect.solvers.status import Ending, Status

__all__ = ["ends_at_boundary", "find_boundary"]

Array = NDArray[np.float64]

LOWER = 2.0
"""Fall of the log-likelihood on the way to a limit that shows an optimum before it: at a confidence
of 95% the limit is then outside of the interval."""


def find_boundary(problem: Problem, free: Array) -> Ending | None:
    """Return an ending that names what is at its limit, or None where nothing is."""
    found = scale_without_limit(problem, free)
    layout, natural = problem.layout, problem.layout.natural(free)
    if found is not None or not layout.n_noise_extras:
        return found
    first = int(layout.starts[-1])
    reason = problem.noise.boundary(
        problem.equations.alternatives,
        noise_covariance(problem, natural),
        natural[first : first + layout.n_noise_extras],
        known_scales=problem.layout.scales is not None,
    )
    return None if reason is None else Ending(Status.AT_BOUNDARY, {"reason": reason})


def ends_at_boundary(problem: Problem, engine: Engine, free: Array) -> Ending | None:
    """Return what `find_boundary` returns, but None where the likelihood falls on the way there.

    A correlation of 0.996 may be an optimum like any other.
    """
    found = find_boundary(problem, free)
    if found is None or not problem.layout.n_noise_extras:
        return found
    layout, natural = problem.layout, problem.layout.natural(free)
    of_noise = slice(int(layout.starts[-1]), int(layout.starts[-1]) + layout.n_noise_extras)
    limit = problem.noise.at_limit(natural[of_noise])
    if limit is None:
        return found
    natural[of_noise] = limit
    there = layout.gather(natural)
    if np.array_equal(there, free):
        return found
    fall = log_likelihood(problem, engine, free) - log_likelihood(problem, engine, there)
    return None if fall > LOWER else found
