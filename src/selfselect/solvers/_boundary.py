"""Estimates at the edge of what is possible, where they and their errors mean nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from selfselect.noises import Correlated, SharedShock
from selfselect.problem.joint import noise_covariance
from selfselect.problem.problem import Problem

__all__ = ["find_boundary"]

Array = NDArray[np.float64]

NEARLY_ONE = 0.995
"""A correlation this close to 1 or -1 says that one outcome is the other's mirror."""


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
                return (
                    f"At the boundary: the correlation of {labels[j]!r} and {labels[m]!r} is "
                    f"estimated at {correlation[j, m]:.4f}. Their outcomes are nearly identical up "
                    "to what the covariates explain, so the gap between them is not informative: "
                    "no standard error belongs to it."
                )
    return None
