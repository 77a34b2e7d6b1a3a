"""Estimates at the edge of what is possible, where they and their errors mean nothing."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.noises import Correlated, SharedShock
from selfselect.problem.joint import noise_covariance
from selfselect.problem.problem import Problem
from selfselect.solvers._climb import log_likelihood

__all__ = ["ends_at_boundary", "find_boundary"]

Array = NDArray[np.float64]

NEARLY_ONE = 0.995
"""A correlation this close to 1 or -1 may be running to its limit."""

ONE = 0.999
"""A correlation this close to 1 or -1 is at its limit."""

LOWER = 2.0
"""Fall of the log-likelihood on the way to `ONE` that shows an optimum before it: at a confidence
of 95% the limit is then outside of the interval."""

VANISHED = 1e-3
"""Share of an alternative's noise variance that is its own; below it all is the shared shock."""


def find_boundary(problem: Problem, free: Array) -> str | None:
    """Return a sentence that names a correlation at its limit, or None where there is none."""
    layout, noise = problem.layout, problem.noise
    if not isinstance(noise, Correlated | SharedShock):
        return None
    covariance = noise_covariance(problem, layout.natural(free))
    labels = problem.equations.alternatives
    if isinstance(noise, SharedShock) and layout.scales is None:
        own = 1.0 / np.diag(covariance)
        if own.min() < VANISHED:
            return (
                f"At the boundary: the own part of the noise of {labels[int(own.argmin())]!r} "
                f"vanishes, {100 * own.min():.2g}% of its variance is left and the rest is the "
                "shared shock. No standard errors belong to such an estimate. Other correlations "
                "than a shared shock can make may be behind it: try noises.Correlated()."
            )
    spread = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(spread, spread)
    extras = noise.extras(labels)
    place = 0
    for j in range(len(labels)):
        for m in range(j + 1, len(labels)):
            # A shock beside known scales makes no correlation that the data could not refuse.
            free_here = (
                layout.scales is None
                if isinstance(noise, SharedShock)
                else extras[place].fixed is None
            )
            place += 1
            if free_here and abs(correlation[j, m]) > NEARLY_ONE:
                sign = "positive" if correlation[j, m] > 0 else "negative"
                return (
                    f"At the boundary: the correlation of {labels[j]!r} and {labels[m]!r} is "
                    f"estimated at {correlation[j, m]:.4f}. There the noise of one is a {sign} "
                    "multiple of the other's, and no standard error belongs to such an estimate."
                )
    return None


def ends_at_boundary(problem: Problem, engine: Engine, free: Array) -> str | None:
    """Return the sentence of `find_boundary`, but None where the likelihood falls on the way there.

    A correlation of 0.996 may be an optimum like any other.
    """
    said = find_boundary(problem, free)
    if said is None or not isinstance(problem.noise, Correlated):
        return said
    place = int(problem.layout.starts[-1])
    natural = problem.layout.natural(free)
    limit = natural.copy()
    n_pairs = len(list(combinations(problem.equations.alternatives, 2)))
    for at in range(place, place + n_pairs):
        if NEARLY_ONE < abs(natural[at]) < ONE:
            limit[at] = np.sign(natural[at]) * ONE
    there = problem.layout.gather(limit)
    if np.array_equal(there, free):
        return said
    fall = log_likelihood(problem, engine, free) - log_likelihood(problem, engine, there)
    return None if fall > LOWER else said
