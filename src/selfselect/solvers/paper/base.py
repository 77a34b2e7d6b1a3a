"""What moment methods for the unknown index share: assumptions, boosting, finishing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.errors import OptionError, UnsupportedError
from selfselect.problem.problem import Problem
from selfselect.solvers._order import order_alternatives
from selfselect.solvers._search import SearchSpace
from selfselect.solvers._start import gram_matrices, refuse_collinear
from selfselect.solvers.base import Solution
from selfselect.solvers.climb import Climb, log_likelihood
from selfselect.solvers.paper._agreement import matched_distance, most_agreed
from selfselect.solvers.paper.normality import measure_normality
from selfselect.solvers.status import Ending, Status

__all__ = ["MomentMethod"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MomentMethod(ABC):
    """A method that reads coefficients off moments of the data, without a likelihood.

    Moment methods assume covariates that are normal with mean zero, and equations without an
    intercept but with the same covariates. Whether covariates have the mean, skewness and fourth
    moments of normal ones is tested, and others are refused. The methods give no standard errors
    of their own: use ``covariance="bootstrap"``, or hand the method to `MaximumLikelihood` as its
    `start`.

    Parameters
    ----------
    boost : runs on that many parts of the rows and keeps the estimate that is closest to the
        others, which turns a method that succeeds more often than not into one that fails rarely.
    """

    boost: int = 1

    requires: ClassVar[tuple[type, ...]] = ()
    concave: ClassVar[bool] = False

    @abstractmethod
    def estimate(self, space: SearchSpace, engine: Engine, rng: Generator) -> Array:
        """Return coefficients (k, p) in search coordinates, as if the largest were observed."""

    def check(self, problem: Problem) -> None:
        """Refuse problems the method's moments say nothing about."""
        name = type(self).__name__
        if self.boost < 1:
            raise OptionError(f"boost={self.boost} is not possible. Use at least 1.")
        equations = problem.equations
        if problem.index == "known":
            raise UnsupportedError(
                f"{name} is for data in which the chosen alternative was not recorded. Use "
                "solver=None to have a solver chosen."
            )
        if len({equation.columns for equation in equations.each}) > 1:
            raise UnsupportedError(
                f"{name} needs the same covariates in every equation. Use MaximumLikelihood()."
            )
        if equations.restricted:
            raise UnsupportedError(
                f"{name} does not support shared coefficients or offsets. Use MaximumLikelihood()."
            )
        if any(equation.has_intercept for equation in equations.each):
            raise UnsupportedError(
                f"{name} needs equations without an intercept: its moments are those of centred "
                "covariates. Centre them and write '- 1', or use MaximumLikelihood()."
            )

    def coordinates(self, space: SearchSpace, engine: Engine, rng: Generator) -> Array:
        """Return search coordinates of the estimate, boosted, scales found by likelihood."""
        self.check(space.problem)
        if engine.rows.known.available is not None:
            raise UnsupportedError(
                f"{type(self).__name__} needs every alternative to be available in every row. Use "
                "MaximumLikelihood()."
            )
        if self.boost == 1:
            coefficients = self.estimate(space, engine, rng)
        else:
            part = rng.permutation(np.arange(engine.n_rows) % self.boost)
            runs = [
                self.estimate(space, engine.reweighted((part == i).astype(float)), rng)
                for i in range(self.boost)
            ]
            coefficients = runs[most_agreed(runs, matched_distance)]
        joined = space.join(list(space.problem.side * coefficients), space.spread)
        if space.free_scales == 0:
            return joined
        scales = np.eye(len(joined))[:, space.n_coefficients :]
        (place,) = space.climb(engine, joined[None], max_steps=100, within=scales)
        return place.coordinates

    def solve(
        self,
        problem: Problem,
        engine: Engine,
        *,
        rng: Generator,
        start: Array | None = None,
        progress: bool | None = None,
    ) -> Solution:
        del progress
        self.check(problem)
        if start is None:
            # Given where the same data was accepted before, and is drawn anew.
            _refuse_other_covariates(type(self).__name__, problem, engine)
        grams = gram_matrices(problem, engine)
        refuse_collinear(problem, grams)
        space = SearchSpace.build(problem, grams, weight=engine.weight_total, floor=0.01)
        free = space.free(self.coordinates(space, engine, rng))
        loglik = log_likelihood(problem, engine, free)
        unknown = np.full((len(free), len(free)), np.nan)
        ending = Ending(Status.FROM_MOMENTS, {"method": type(self).__name__})
        found = Climb(free, loglik, unknown, ending, (), 1)
        ordered = order_alternatives(problem, engine, found)
        return Solution(ordered.free, loglik, unknown, ending, (), 1, solver=repr(self))


def _refuse_other_covariates(name: str, problem: Problem, engine: Engine) -> None:
    """Refuse covariates that are not normal with mean zero."""
    found = measure_normality(problem, engine)
    if found.rejected:
        tests = ", ".join(f"{what} (p = {found.p_values[what]:.2g})" for what in found.rejected)
        raise UnsupportedError(
            f"{name} reads coefficients off moments that hold for covariates which are normal "
            f"with mean zero. These are not: rejected are their {tests}. Its estimates could be "
            f"wrong by any amount. Use MaximumLikelihood(), which assumes nothing of covariates; "
            f"MaximumLikelihood(start={name}()) takes {name} as a first guess."
        )
