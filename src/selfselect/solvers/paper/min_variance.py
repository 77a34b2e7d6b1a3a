"""The paper's method for two alternatives (section 4.4): search a plane by a moment test."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import comb
from typing import Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine, Parts
from selfselect.errors import UnsupportedError
from selfselect.likelihoods import Batch
from selfselect.problem.problem import Problem
from selfselect.solvers._search import SearchSpace
from selfselect.solvers._subspace import coefficient_basis, white_rows
from selfselect.solvers.paper.two_models import TwoModels

__all__ = ["MinVariance"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MinVariance(TwoModels):
    r"""Find two equations by covering a plane and testing each point by two moments.

    For a point v, the second and fourth moments of :math:`X = y - x'v` give the smaller of the
    two variances, :math:`s^2 = m_2 - \sqrt{\max(0, m_4/3 - m_2^2)}`, and
    :math:`s^2 - \sigma^2 = \min_j |w_j - v|^2`. The first vector is the point of the cover where
    it is smallest; the second the best point far enough from the first. The noise scale must be
    known. `TwoModels` answers the same question in closed form and more accurately: this is the
    reference.

    Parameters
    ----------
    boost : see `MomentMethod`.
    cover : distance of neighbouring points of the cover, in units of the noise scale.
    separation : the paper's Δ, in the same units: the second vector is sought at least half of it
        away from the first. None takes half of the cover's best reflection, see `second`.
    second : ``exclusion``, the paper's; ``reflection`` takes 2m - w with the mean m of both.
    subspace : ``paper`` or ``residual``, see `find_subspace`.

    Notes
    -----
    Every moment is a polynomial in v whose coefficients are sums over rows, so the whole cover
    costs one pass.
    """

    cover: float = 0.05
    separation: float | None = None
    second: Literal["exclusion", "reflection"] = "exclusion"
    subspace: Literal["paper", "residual"] = "paper"

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if problem.layout.scales is None or len(set(problem.layout.scales)) > 1:
            raise UnsupportedError(
                "MinVariance needs a known noise scale, the same for both alternatives: give "
                "noise=selfselect.noises.Independent(scale=1.0), or use TwoModels()."
            )

    def estimate(self, space: SearchSpace, engine: Engine, rng: Generator) -> Array:
        del rng
        assert space.problem.layout.scales is not None
        noise = float(space.problem.layout.scales[0]) / space.problem.units.outcome_unit
        plane = coefficient_basis(space, engine, self.subspace, 2)
        total, moments = engine.sum(partial(_plane_moments, space, plane))
        moments = moments / total
        radius = 1.2 * np.sqrt(2.0 * moments[2, 0, 0])
        step = self.cover * noise
        line = np.arange(-radius, radius + step, step)
        points = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
        points = points[(points**2).sum(axis=1) <= radius**2]
        gap = smallest_variance(points, moments) - noise**2

        first = points[int(np.argmin(gap))]
        middle = np.array([moments[1, 1, 0], moments[1, 0, 1]])
        reflected = 2.0 * middle - first
        if self.second == "reflection":
            second = reflected
        else:
            apart = (
                0.5 * self.separation * noise
                if self.separation is not None
                else 0.5 * float(np.linalg.norm(reflected - first))
            )
            far = ((points - first) ** 2).sum(axis=1) >= apart**2
            second = points[far][int(np.argmin(gap[far]))]
        return np.array([first, second]) @ plane.T


def _plane_moments(space: SearchSpace, plane: Array, batch: Batch) -> Parts:
    """Sum y^a z1^b z2^c for all a + b + c <= 4, z the covariates in the plane."""
    white, outcome, weights = white_rows(space, batch)
    z = white @ plane
    moments = np.zeros((5, 5, 5))
    for a in range(5):
        for b in range(5 - a):
            for c in range(5 - a - b):
                moments[a, b, c] = weights @ (outcome**a * z[:, 0] ** b * z[:, 1] ** c)
    return Parts((float(weights.sum()), moments))


def smallest_variance(points: Array, moments: Array) -> Array:
    """Return the smaller of the two variances of y - z'v at points v (m, 2) of the plane."""
    second = _moment(points, moments, 2)
    fourth = _moment(points, moments, 4)
    return second - np.sqrt(np.maximum(0.0, fourth / 3.0 - second**2))


def _moment(points: Array, moments: Array, order: int) -> Array:
    """Expand E[(y - v1 z1 - v2 z2)^order] in the moments of y, z1 and z2."""
    total = np.zeros(len(points))
    for b in range(order + 1):
        for c in range(order + 1 - b):
            a = order - b - c
            many = comb(order, b) * comb(order - b, c)
            sign = (-1.0) ** (b + c)
            total += sign * many * moments[a, b, c] * points[:, 0] ** b * points[:, 1] ** c
    return total
