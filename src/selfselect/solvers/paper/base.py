"""What the paper's moment methods share, and a test of the covariates they assume."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.equations import Equations
from selfselect.engines.base import Engine
from selfselect.errors import OptionError, UnsupportedError
from selfselect.kernels.tails import chdtrc
from selfselect.likelihoods import Batch
from selfselect.problem.batch import Parts
from selfselect.problem.problem import Problem
from selfselect.solvers._search import SearchSpace
from selfselect.solvers._start import gram_matrices, refuse_collinear
from selfselect.solvers.base import Ending, Solution, Status
from selfselect.solvers.climb import Climb, log_likelihood
from selfselect.solvers.monte_carlo_newton import distance_to_optimum
from selfselect.solvers.order import order_alternatives

Array = NDArray[np.float64]


# The run of several that the others agree with most: the paper's way to a high probability.


def most_agreed(estimates: Sequence[Array], distance: Callable[[Array, Array], float]) -> int:
    """Return the estimate with the smallest median distance to all."""
    apart = [[distance(one, other) for other in estimates] for one in estimates]
    return int(np.argmin(np.median(apart, axis=1)))


def euclidean_distance(one: Array, other: Array) -> float:
    """Return the distance of two vectors."""
    return float(np.linalg.norm(one - other))


def matched_distance(one: Array, other: Array) -> float:
    """Return the distance of two sets of coefficients under the best matching of labels."""
    from scipy.optimize import linear_sum_assignment

    squared = ((one[:, None, :] - other[None, :, :]) ** 2).sum(axis=2)
    return float(np.sqrt(squared[linear_sum_assignment(squared)].sum()))


# Whether covariates are normal with mean zero, which every moment method rests on.
#
# Tested are, after whitening, the mean, the third moments :math:`E[x|x|^2]` and the fourth
# :math:`E[xx'|x|^2] = (p + 2) I`: what Stein's identity and the moments of the methods need. Under
# normality their sums have, in Hermite polynomials, the variances that are divided by below; the
# trace of the fourth is Mardia's kurtosis.


LARGEST_LEVEL = 0.01
"""Level of each test in small data; in large data it is one over the number of rows, so that what
is rejected grows towards certainty and what is not towards harmless."""

RANK = 1e-10
"""Share of the largest eigenvalue below which a direction of the covariates does not vary."""


@dataclass(frozen=True)
class Normality:
    """What tests of the covariates say.

    Attributes
    ----------
    p_values : of "mean", "skewness" and "fourth moments"; the first is absent where an intercept
        takes care of it.
    level : at which each is rejected.
    covariance : (p, p) of the covariates that equations have, in internal units.
    """

    p_values: dict[str, float]
    level: float
    covariance: Array

    @property
    def rejected(self) -> tuple[str, ...]:
        """What normal covariates with mean zero would not have."""
        return tuple(name for name, p in self.p_values.items() if p < self.level)

    @property
    def smallest(self) -> float:
        """The smallest p-value."""
        return min(self.p_values.values(), default=1.0)


def measure_normality(problem: Problem, engine: Engine) -> Normality:
    """Test whether all covariates are jointly normal, with mean zero where there is no intercept.

    Weights count as how often a row was sampled: what they cost in precision is allowed for.
    """
    total, squares, first, second = engine.sum(partial(_two_moments, problem))
    mean = first / total
    covariance = second / total - np.outer(mean, mean)
    values, vectors = np.linalg.eigh(covariance)
    varies = values > RANK * max(values.max(initial=0.0), np.finfo(float).tiny)
    n, p = total**2 / squares, int(varies.sum())
    if p == 0:
        return Normality({}, LARGEST_LEVEL, covariance)
    white = vectors[:, varies] / np.sqrt(values[varies])
    third, fourth = engine.sum(partial(_higher_moments, problem, mean, white))
    statistics = {
        "skewness": (n * float((third**2).sum()) / total**2 / (2.0 * (p + 2)), p),
        "fourth moments": (n * _fourth_distance(fourth / total, p), p * (p + 1) // 2),
    }
    if not problem.equations.all_have_intercepts:
        statistics = {"mean": (n * float(((mean @ white) ** 2).sum()), p), **statistics}
    p_values = {name: float(chdtrc(df, value)) for name, (value, df) in statistics.items()}
    return Normality(p_values, min(LARGEST_LEVEL, 1.0 / n), covariance)


def _fourth_distance(fourth: Array, p: int) -> float:
    """Return the squared distance of E[xx'|x|²] from (p + 2) I, in variances of one row."""
    apart = fourth - (p + 2) * np.eye(p)
    diagonal = np.diag(apart)
    off = float((apart**2).sum() - diagonal @ diagonal) / 2.0
    # The covariance of the diagonal is 4 J + (4p + 16) I.
    own = 4.0 * p + 16.0
    along = float(diagonal @ diagonal) - 4.0 * float(diagonal.sum()) ** 2 / (own + 4.0 * p)
    return off / (2.0 * (p + 4)) + along / own


def _two_moments(problem: Problem, batch: Batch) -> Parts:
    x, weights = _covariates(problem, batch)
    return Parts(
        (float(weights.sum()), float(weights @ weights), weights @ x, x.T @ (x * weights[:, None]))
    )


def _higher_moments(problem: Problem, mean: Array, white: Array, batch: Batch) -> Parts:
    x, weights = _covariates(problem, batch)
    z = (x - mean) @ white
    size = weights * (z**2).sum(axis=1)
    return Parts((size @ z, z.T @ (z * size[:, None])))


def _covariates(problem: Problem, batch: Batch) -> tuple[Array, Array]:
    """Return all covariates but the constant, in internal units, and weights."""
    columns = _columns(problem.equations)
    weights = np.ones(len(batch)) if batch.rows.weights is None else batch.rows.weights
    return problem.units.design(batch.rows.covariates, columns), weights


def _columns(equations: Equations) -> tuple[int, ...]:
    return tuple(sorted({c for one in equations.each for c in one.columns if c != 0}))


# What moment methods for the unknown index share: assumptions, boosting, finishing.


CLOSE = 10.0
"""Distance to the likelihood's optimum, in standard errors of any parameter, within which a method
has converged. Estimates of `TwoModels` are up to 2.5 times less precise than those of maximum
likelihood: 45 of them, of 4 to 20 coefficients, were 1 to 6 away."""


@dataclass(frozen=True)
class MomentMethod(ABC):
    """A method that reads coefficients off moments of the data, without a likelihood.

    Moment methods assume covariates that are normal with mean zero, and equations without an
    intercept but with the same covariates. Whether covariates have the mean, skewness and fourth
    moments of normal ones is tested, and others are refused. The methods give no standard errors
    of their own: use ``covariance="bootstrap"``, or hand the method to `MaximumLikelihood` as its
    `start`. A method has converged where the score at its estimate, over the information there,
    puts the likelihood's optimum within ten standard errors of every coefficient.

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
        ending = self._ending(distance_to_optimum(problem, engine, free, rng))
        found = Climb(free, loglik, unknown, ending, (), 1)
        ordered = order_alternatives(problem, engine, found)
        return Solution(ordered.free, loglik, unknown, ending, (), 1, solver=repr(self))

    def _ending(self, distance: float) -> Ending:
        """Say how far the likelihood's optimum is, in standard errors."""
        method = {"method": type(self).__name__}
        if not np.isfinite(distance):
            return Ending(Status.FROM_MOMENTS_TOO_FAR, method | {"distance": "it is not concave"})
        away = f"says that the optimum is {distance:.2g} standard errors away"
        if distance > CLOSE:
            return Ending(Status.FROM_MOMENTS_TOO_FAR, method | {"distance": f"its score {away}"})
        return Ending(Status.FROM_MOMENTS, method).noting(f"The likelihood's score {away}.")


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
