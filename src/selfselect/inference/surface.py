"""The log-likelihood of a fit as a surface that profiles are followed on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.inference.profile import FARTHEST_SCALE, Place
from selfselect.likelihoods import evaluate
from selfselect.noises.correlated import CORRELATION
from selfselect.problem.parameters import Reported
from selfselect.problem.problem import Problem

__all__ = ["ProblemSurface"]

Array = NDArray[np.float64]

LARGEST_ON_FISHERS_SCALE = 4.5
"""The largest correlation that is tried, on Fisher's scale: .9998."""


@dataclass(frozen=True, eq=False)
class ProblemSurface:
    """The log-likelihood of a problem in its free parameters, correlations on Fisher's scale.

    Attributes
    ----------
    problem, engine : model and rows.
    free : the estimate.
    """

    problem: Problem
    engine: Engine
    free: Array

    @cached_property
    def correlations(self) -> NDArray[np.bool_]:
        """Which of the free parameters are correlations that are not on Fisher's scale yet."""
        layout = self.problem.layout
        of_extras = layout.position[int(layout.starts[-1]) :]
        found = np.zeros(layout.n_free, dtype=bool)
        for place, extra in zip(of_extras, layout.extras, strict=True):
            if place >= 0 and extra.label[1] == CORRELATION and not extra.turned:
                found[place] = True
        return found

    @cached_property
    def coordinates(self) -> Array:
        """Those of the estimate."""
        coordinates = self.free.copy()
        coordinates[self.correlations] = np.arctanh(self.free[self.correlations])
        return coordinates

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """The smallest and the largest value of each coordinate: inverse scales stay positive."""
        upper = np.where(self.correlations, LARGEST_ON_FISHERS_SCALE, np.inf)
        if self.problem.layout.limits is not None:
            upper = np.minimum(upper, self.problem.layout.limits)
        lower = -upper
        at_h = self.problem.layout.free_inverse_scales
        lower[at_h] = self.free[at_h] * np.exp(-FARTHEST_SCALE)
        return lower, upper

    def _free(self, coordinates: Array) -> tuple[Array, Array]:
        """Return free parameters and their derivatives in the coordinates."""
        free = coordinates.copy()
        free[self.correlations] = np.tanh(coordinates[self.correlations])
        slope = np.ones_like(free)
        slope[self.correlations] -= free[self.correlations] ** 2
        return free, slope

    def at(self, coordinates: Array) -> Place:
        """Evaluate the log-likelihood with score and information."""
        free, slope = self._free(coordinates)
        layout = self.problem.layout
        found: Any = self.engine.sum(partial(evaluate, self.problem, layout.natural(free)))
        score = layout.pull_back_vector(found.score, free)
        hessian = layout.pull_back_hessian(found.hessian, found.score, free)
        # Fisher's scale bends the way to a correlation r by -2 r (1 - r²).
        bend = np.where(self.correlations, -2.0 * free * slope * score, 0.0)
        information = -(hessian * np.outer(slope, slope) + np.diag(bend))
        return Place(coordinates, float(found.loglik), slope * score, information)

    def report(self, coordinates: Array) -> Reported:
        """Return the reported parameters, with derivatives in the coordinates."""
        free, slope = self._free(coordinates)
        reported = self.problem.layout.report(free)
        return replace(reported, jacobian=reported.jacobian * slope)
