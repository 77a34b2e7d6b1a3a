"""Projected Langevin dynamics: Algorithm 1 of the paper, by name and with its bias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.errors import OptionError, RuleError
from selfselect.rules.base import HasProjection
from selfselect.samplers.base import Draw, Target, require_capability

Array = NDArray[np.float64]

MOST_ALTERNATIONS = 200
PRECISION = 1e-9
"""Change per alternation, relative to the radius, at which Dykstra's projections have met."""

MARGIN = 6.0
"""Standard deviations by which the default ball reaches beyond mean and start."""


@dataclass(frozen=True)
class ProjectedLangevin:
    r"""Follow the gradient with noise, and project back into the explaining set.

    With :math:`K = C_j(y) \cap \mathrm{Ball}(R)`, start at :math:`z = \Pi_K(0)` and step

    .. math:: z \leftarrow \Pi_K\Big(z - \frac{\gamma}{2}\Sigma^{-1}(z - \mu)
       + \sqrt\gamma\,\xi\Big)

    (Cherapanamjeri et al. 2023, Algorithm 1; Bubeck, Eldan and Lehec 2018). The projection onto
    the intersection is Dykstra's. Steps of this size do not have the truncated normal as their
    stationary distribution: the bias is of order :math:`\sqrt\gamma`, with atoms on the boundary,
    and it takes :math:`\gamma m \gg 2\sigma^2` to forget the start.

    Parameters
    ----------
    gamma : the step size, in units of the smallest noise variance.
    steps : m, how many steps make a draw.
    radius : of the ball, in units of the outcome; None for one that holds the start and the mean
        of every row with six standard deviations to spare.
    """

    gamma: float = 0.01
    steps: int = 1_000
    radius: float | None = None

    requires: ClassVar[tuple[type, ...]] = (HasProjection,)
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 < self.gamma < 2:
            raise OptionError(
                f"gamma={self.gamma!r} is no step size. Use a number between 0 and 2, small for "
                "little bias."
            )
        if self.steps < 1:
            raise OptionError(f"steps={self.steps!r} must be at least 1.")

    def init(self, target: Target, rng: Generator) -> Array:
        del rng
        require_capability(self, target)
        return self._project(target, np.zeros_like(target.means))

    def step(self, target: Target, latent: Array, rng: Generator) -> Draw:
        gamma = self.gamma * float(target.scales.min()) ** 2
        away = (latent - target.means) / target.scales
        if target.correlation is not None:
            away = away @ np.linalg.inv(target.correlation)
        moved = latent - 0.5 * gamma * away / target.scales
        moved += np.sqrt(gamma) * rng.standard_normal(latent.shape)
        return Draw.at(target, self._project(target, moved))

    def _project(self, target: Target, latent: Array) -> Array:
        """Project onto the explaining set within the ball."""
        project, given = target.rule.project, (target.chosen, target.outcome, target.known)
        inside = project(latent, *given)
        others = np.arange(latent.shape[1]) != target.chosen[:, None]
        radius = self._radius(target, others)
        far = np.linalg.norm(inside * others, axis=1) > radius
        if not far.any():
            return inside
        which = np.flatnonzero(far)
        part, mask, reach = target.take(which), others[which], radius[which]
        inside[which] = _dykstra(part, latent[which], mask, reach)
        outside = np.linalg.norm(inside[which] * mask, axis=1) > reach * (1.0 + 1e-6)
        if outside.any():
            raise RuleError(
                f"The ball of radius {self.radius:g} does not meet the explaining sets of "
                f"{outside.sum()} rows. Use a larger radius, or None."
            )
        return inside

    def _radius(self, target: Target, others: NDArray[np.bool_]) -> Array:
        if self.radius is not None:
            return np.full(len(target), float(self.radius))
        start = target.rule.project(
            np.zeros_like(target.means), target.chosen, target.outcome, target.known
        )
        spread = MARGIN * np.linalg.norm(target.scales)
        nearest = np.linalg.norm(start * others, axis=1)
        return np.asarray(
            np.maximum(np.linalg.norm(target.means * others, axis=1), nearest) + spread
        )


def _dykstra(target: Target, latent: Array, others: NDArray[np.bool_], radius: Array) -> Array:
    """Project onto the meet of explaining set and ball by Dykstra's alternating projections."""
    point = latent.copy()
    for_set, for_ball = np.zeros_like(point), np.zeros_like(point)
    each = np.arange(len(point))
    for _ in range(MOST_ALTERNATIONS):
        before = point
        length = np.linalg.norm((point + for_ball) * others, axis=1)
        shrink = np.where(length > radius, radius / np.maximum(length, 1e-300), 1.0)[:, None]
        in_ball = np.where(others, (point + for_ball) * shrink, point)
        for_ball = np.where(others, point + for_ball - in_ball, 0.0)
        pulled = in_ball + for_set
        point = target.rule.project(pulled, target.chosen, target.outcome, target.known)
        for_set = np.where(others, pulled - point, 0.0)
        if np.abs(point - before).max() <= PRECISION * radius.max():
            break
    point[each, target.chosen] = target.outcome
    return point
