"""Two alternatives in closed form: no search, no likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine, Parts
from selfselect.errors import UnsupportedError
from selfselect.likelihoods import Batch
from selfselect.problem.problem import Problem
from selfselect.solvers._search import SearchSpace
from selfselect.solvers._subspace import white_rows
from selfselect.solvers.paper.base import MomentMethod

__all__ = ["TwoModels"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TwoModels(MomentMethod):
    r"""Compute two equations from three moments.

    For whitened normal covariates and noise that is symmetric under a change of sign, with
    :math:`m = E[xy] = (w_1 + w_2)/2` and :math:`e = y - x'm`, the matrix
    :math:`E[e(xx' - I)]` has the direction :math:`u` of :math:`w_1 - w_2` as its top eigenvector,
    and :math:`D^2 = E[e^2((x'u)^2 - 1)]/2` is a quarter of its squared length:
    :math:`w = m \pm D u`. The error falls as :math:`n^{-1/2}`; maximum likelihood started here is
    about 1.7 times more accurate. Intercepts and skewed covariates break it.

    Parameters
    ----------
    boost : see `MomentMethod`.
    """

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if problem.equations.n_alternatives != 2:
            raise UnsupportedError(
                f"{type(self).__name__} is for two alternatives, not "
                f"{problem.equations.n_alternatives}. Use NetSearch() or MaximumLikelihood()."
            )

    def estimate(self, space: SearchSpace, engine: Engine, rng: Generator) -> Array:
        del rng
        total, first = engine.sum(partial(_first_moment, space))
        middle = first / total
        (second,) = engine.sum(partial(_residual_moment, space, middle))
        direction = np.linalg.eigh(second / total)[1][:, -1]
        (squared,) = engine.sum(partial(_squared_moment, space, middle, direction))
        half = np.sqrt(max(0.0, 0.5 * squared / total))
        return np.array([middle + half * direction, middle - half * direction])


def _first_moment(space: SearchSpace, batch: Batch) -> Parts:
    white, outcome, weights = white_rows(space, batch)
    return Parts((float(weights.sum()), white.T @ (weights * outcome)))


def _residual_moment(space: SearchSpace, middle: Array, batch: Batch) -> Parts:
    white, outcome, weights = white_rows(space, batch)
    residual = weights * (outcome - white @ middle)
    size = white.shape[1]
    return Parts((white.T @ (white * residual[:, None]) - residual.sum() * np.eye(size),))


def _squared_moment(space: SearchSpace, middle: Array, direction: Array, batch: Batch) -> Parts:
    white, outcome, weights = white_rows(space, batch)
    residual = outcome - white @ middle
    return Parts((float(weights @ (residual**2 * ((white @ direction) ** 2 - 1.0))),))
