"""The log-likelihood of a model with a selection equation, as a surface to follow profiles on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from selfselect.classics.design import Design
from selfselect.classics.likelihood import evaluate
from selfselect.classics.maximum_likelihood import BOUNDARY
from selfselect.classics.parameters import Layout
from selfselect.inference.profile import FARTHEST_SCALE, Place
from selfselect.problem.parameters import Reported

__all__ = ["SelectionSurface"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SelectionSurface:
    """The log-likelihood in the natural parameters, whose correlations are on Fisher's scale.

    Attributes
    ----------
    design : the coded rows.
    values : the reported estimates.
    """

    design: Design
    values: Array

    @cached_property
    def layout(self) -> Layout:
        """Where every parameter stands."""
        return Layout(self.design)

    @cached_property
    def coordinates(self) -> Array:
        """Those of the estimate."""
        return self.layout.natural(self.values)

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """The smallest and the largest value of each coordinate.

        Correlations stay within the solver's boundary, inverse scales positive.
        """
        upper = np.full(self.layout.n_natural, np.inf)
        at_t = np.array([self.layout.t_of(equation) for equation in self.design.equations])
        upper[at_t] = np.arctanh(BOUNDARY)
        lower = -upper
        lower[at_t - 1] = self.coordinates[at_t - 1] * np.exp(-FARTHEST_SCALE)
        return lower, upper

    def at(self, coordinates: Array) -> Place:
        """Evaluate the log-likelihood with score and information."""
        found = evaluate(self.design, self.layout, coordinates)
        return Place(coordinates, found.loglik, found.score, -found.hessian)

    def report(self, coordinates: Array) -> Reported:
        """Return the reported parameters, with derivatives in the coordinates."""
        return self.layout.report(coordinates)
