r"""Whether covariates are normal with mean zero, which every moment method rests on.

Tested are, after whitening, the mean, the third moments :math:`E[x|x|^2]` and the fourth
:math:`E[xx'|x|^2] = (p + 2) I`: what Stein's identity and the moments of the methods need. Under
normality their sums have, in Hermite polynomials, the variances that are divided by below; the
trace of the fourth is Mardia's kurtosis.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from selfselect.data.equations import Equations
from selfselect.engines.base import Engine, Parts
from selfselect.kernels.special import chdtrc
from selfselect.likelihoods import Batch
from selfselect.problem.problem import Problem

__all__ = ["Normality", "measure_normality"]

Array = NDArray[np.float64]

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
    """

    p_values: dict[str, float]
    level: float

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
    values, vectors = np.linalg.eigh(second / total - np.outer(mean, mean))
    varies = values > RANK * max(values.max(initial=0.0), np.finfo(float).tiny)
    n, p = total**2 / squares, int(varies.sum())
    if p == 0:
        return Normality({}, LARGEST_LEVEL)
    white = vectors[:, varies] / np.sqrt(values[varies])
    third, fourth = engine.sum(partial(_higher_moments, problem, mean, white))
    statistics = {
        "skewness": (n * float((third**2).sum()) / total**2 / (2.0 * (p + 2)), p),
        "fourth moments": (n * _fourth_distance(fourth / total, p), p * (p + 1) // 2),
    }
    if not problem.equations.all_have_intercepts:
        statistics = {"mean": (n * float(((mean @ white) ** 2).sum()), p), **statistics}
    p_values = {name: float(chdtrc(df, value)) for name, (value, df) in statistics.items()}
    return Normality(p_values, min(LARGEST_LEVEL, 1.0 / n))


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
