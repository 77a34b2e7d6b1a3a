"""The paper's moment methods: two models, minimal variance, a net."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import comb
from typing import Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.errors import DataError, OptionError, UnsupportedError
from selfselect.kernels.tails import factorial2
from selfselect.likelihoods import Batch
from selfselect.problem.batch import Parts
from selfselect.problem.problem import Problem
from selfselect.solvers._search import SearchSpace, coefficient_basis, white_rows
from selfselect.solvers.paper.base import MomentMethod

Array = NDArray[np.float64]


# Two alternatives in closed form: no search, no likelihood.


@dataclass(frozen=True)
class TwoModels(MomentMethod):
    r"""Compute two equations from three moments.

    For whitened normal covariates and noise that is symmetric under a change of sign, with
    :math:`m = E[xy] = (w_1 + w_2)/2` and :math:`e = y - x'm`, the matrix
    :math:`E[e(xx' - I)]` has the direction :math:`u` of :math:`w_1 - w_2` as its top eigenvector,
    and :math:`D^2 = E[e^2((x'u)^2 - 1)]/2` is a quarter of its squared length:
    :math:`w = m \pm D u`. The error falls as :math:`n^{-1/2}`; maximum likelihood started here is
    1.9 to 2.5 times more accurate. Intercepts and skewed covariates break it.

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


# The paper's method for two alternatives (section 4.4): search a plane by a moment test.


REFINEMENTS = 20
"""Halvings of the cover around its best points: to a millionth of the distance of its points."""


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
    cover : distance of neighbouring points of the cover, in units of the noise scale; the best
        points are then sought on finer covers around them.
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

        first = _refined(points[int(np.argmin(gap))], step, moments)
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
            second = _refined(points[far][int(np.argmin(gap[far]))], step, moments)
        return np.array([first, second]) @ plane.T


def _refined(point: Array, step: float, moments: Array) -> Array:
    """Return a nearby point of smaller variance, by ever finer covers around the best one."""
    around = np.stack(np.meshgrid(*[np.arange(-2, 3)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    for _ in range(REFINEMENTS):
        step *= 0.5
        near = point + step * around
        point = near[int(np.argmin(smallest_variance(near, moments)))]
    return np.asarray(point)


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


# The paper's method for any number of alternatives (Theorem 3): search a net of directions.


FEWEST = 10
"""Rows per group that a conditional moment must rest on for its direction to be considered."""

ONE_SIDED = 2.0
"""Only on one half of the line along v is the outcome the one that is long there, so the moment
is half of that outcome's. The paper's limit of high order does not see the factor; order 8 does."""

DECIDE = 0.5

ROWS_AT_ONCE = 2_000


@dataclass(frozen=True)
class NetSearch(MomentMethod):
    r"""Find equations as the local maxima of a conditional moment over directions.

    For directions v of a net in the subspace of the coefficients, the moment of order l of the
    outcome among rows whose covariates lie close to v estimates
    :math:`s_v = \sqrt{\max_j (v'w_j)^2 + \sigma^2}`, whose local maxima are the coefficients'
    directions; the length follows from the value, the sign from a second moment on other rows.
    The printed constants (l near 1e108 for moderate problems) are out of reach; the defaults are
    what can be computed, and with them directions are off by degrees: with a million rows and
    three orthogonal vectors of length 3 the largest error of a coefficient was 0.4. It needs the
    separability that Theorem 3 assumes, a known noise scale, and a great many rows: use it as a
    reference, or as the `start` of `MaximumLikelihood`.

    Parameters
    ----------
    boost : see `MomentMethod`.
    order : l, even.
    width : how close rows must lie to a direction, in standard deviations of the covariates.
    net : how many directions.
    separation : the paper's Δ, in units of the noise scale: candidates within half of it are one.
    radius : angle, in radians, within which a direction must be the best to be a candidate.
    groups : parts of the rows whose moments the median is taken of.
    subspace : ``paper`` or ``residual``, see `find_subspace`.
    """

    order: int = 4
    width: float = 0.5
    net: int = 500
    separation: float = 1.0
    radius: float = 0.35
    groups: int = 8
    subspace: Literal["paper", "residual"] = "paper"

    def __post_init__(self) -> None:
        if self.order < 2 or self.order % 2:
            raise OptionError(f"order={self.order} must be an even number of at least 2.")

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if problem.layout.scales is None or len(set(problem.layout.scales)) > 1:
            raise UnsupportedError(
                "NetSearch needs a known noise scale, the same for all alternatives: give "
                "noise=selfselect.noises.Independent(scale=1.0)."
            )

    def estimate(self, space: SearchSpace, engine: Engine, rng: Generator) -> Array:
        assert space.problem.layout.scales is not None
        n_alternatives = space.problem.equations.n_alternatives
        noise = float(space.problem.layout.scales[0]) / space.problem.units.outcome_unit
        size = min(n_alternatives, len(space.naive[0]))
        basis = coefficient_basis(space, engine, self.subspace, size)
        rows = engine.collect(lambda batch: _reduced_rows(space, basis, batch))
        rows = rows[rows[:, -1] > 0]
        z, outcome, weights = rows[:, :size], rows[:, size] / noise, rows[:, -1]
        # Directions come from one half of the rows, signs from the other.
        half = np.arange(len(rows)) % 2 == 0
        net = _directions(size, self.net, rng)
        spread = self._spreads(
            z[half], outcome[half], weights[half], net=net, shift=np.zeros(len(net))
        )
        peaks = self._peaks(net, spread)
        length = np.sqrt(spread[peaks] ** 2 - 1.0)
        moved = self._spreads(
            z[~half], outcome[~half], weights[~half], net=net[peaks], shift=length
        )
        # Shifted by a vector of the right sign nothing is longer than 2 length - separation; by
        # one of the wrong sign its own model is 2 length long. The paper decides closer to the
        # latter, at an eighth and a sixteenth of the separation; halfway bears the most error.
        right = np.sqrt(np.maximum(moved**2 - 1.0, 0.0)) <= 2.0 * length - DECIDE * self.separation
        found = list(np.where(right, length, -length)[:, None] * net[peaks])
        kept = self._distinct(found)[:n_alternatives]
        if len(kept) < n_alternatives:
            raise DataError(
                f"NetSearch separated only {len(kept)} of {n_alternatives} alternatives in this "
                "data. It needs well-separated coefficients and many rows: try a smaller "
                "`separation` or `radius`, or use MaximumLikelihood()."
            )
        return noise * np.array(kept) @ basis.T

    def _spreads(
        self, z: Array, outcome: Array, weights: Array, *, net: Array, shift: Array
    ) -> Array:
        """Return s_v of y - shift v'x for each direction; 0 where too few rows lie close to it.

        The rows close to v are the event A_v of the paper; their moment is the median of the
        means of groups of rows.
        """
        sums, totals, counts = np.zeros((3, self.groups, len(net)))
        size = (z**2).sum(axis=1)
        for group, rows in enumerate(np.array_split(np.arange(len(z)), self.groups)):
            for block in np.array_split(rows, max(1, len(rows) // ROWS_AT_ONCE)):
                along = z[block] @ net.T
                near = size[block, None] - along**2 <= self.width**2
                moved = (
                    outcome[block, None] - shift * along if shift.any() else outcome[block, None]
                )
                sums[group] += weights[block] @ np.where(near, moved**self.order, 0.0)
                totals[group] += weights[block] @ near
                counts[group] += near.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            moment = np.median(sums / totals, axis=0)
            spread = (ONE_SIDED * moment / factorial2(self.order - 1)) ** (1.0 / self.order)
        return np.where(counts.sum(axis=0) >= FEWEST * self.groups, spread, 0.0)

    def _peaks(self, net: Array, spread: Array) -> NDArray[np.intp]:
        """Return the directions that are best within their radius, the strongest first."""
        rivals = np.abs(net @ net.T) >= np.cos(self.radius)
        best = np.where(rivals, spread, 0.0).max(axis=1)
        peaks = np.flatnonzero((spread > 1.0) & (spread >= best))
        return peaks[np.argsort(spread[peaks])[::-1]]

    def _distinct(self, found: list[Array]) -> list[Array]:
        """Merge candidates within half the separation, keeping the first of each."""
        kept: list[Array] = []
        for vector in found:
            if all(np.linalg.norm(vector - other) > 0.5 * self.separation for other in kept):
                kept.append(vector)
        return kept


def _reduced_rows(space: SearchSpace, basis: Array, batch: Batch) -> Array:
    white, outcome, weights = white_rows(space, batch)
    return np.column_stack([white @ basis, outcome, weights])


def _directions(size: int, count: int, rng: Generator) -> Array:
    """Spread directions over half the unit sphere; v and -v are the same."""
    if size == 2:
        angle = np.linspace(0.0, np.pi, count, endpoint=False)
        return np.column_stack([np.cos(angle), np.sin(angle)])
    draws = rng.standard_normal((count, size))
    return draws / np.linalg.norm(draws, axis=1, keepdims=True)
