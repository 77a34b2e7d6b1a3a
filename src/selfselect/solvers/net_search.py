"""The paper's method for any number of alternatives (Theorem 3): search a net of directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import factorial2

from selfselect.engines.base import Engine
from selfselect.errors import DataError, OptionError, UnsupportedError
from selfselect.problem.evaluation import Batch
from selfselect.problem.problem import Problem
from selfselect.solvers._moment_method import MomentMethod, white_rows
from selfselect.solvers._search import SearchSpace
from selfselect.solvers._subspace import find_subspace

__all__ = ["NetSearch"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

FEWEST = 30
"""Rows a conditional moment must rest on for its direction to be considered."""


@dataclass(frozen=True)
class NetSearch(MomentMethod):
    r"""Find equations as the local maxima of a conditional moment over directions.

    For directions v of a net in the subspace of the coefficients, the moment of order l of the
    outcome among rows whose covariates lie close to v estimates
    :math:`s_v = \sqrt{\max_j (v'w_j)^2 + \sigma^2}`, whose local maxima are the coefficients'
    directions; the length follows from the value, the sign from a second moment on other rows.
    The printed constants (l near 1e108 for moderate problems) are out of reach; the defaults are
    what can be computed, and with them directions are off by degrees. It needs the separability
    that Theorem 3 assumes, a known noise scale, and a great many rows: use it as the reference,
    or as the `start` of `MaximumLikelihood`.

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

    order: int = 8
    width: float = 0.35
    net: int = 2_000
    separation: float = 1.0
    radius: float = 0.35
    groups: int = 8
    subspace: Literal["paper", "residual"] = "paper"

    def __post_init__(self) -> None:
        if self.order < 2 or self.order % 2:
            raise OptionError(f"order={self.order} is not possible: use an even number from 2.")

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
        basis = find_subspace(space, engine, self.subspace).directions[:, :size]
        rows = engine.collect(lambda batch: _reduced_rows(space, basis, batch))
        rows = rows[rows[:, -1] > 0]
        z, outcome = rows[:, :size], rows[:, size] / noise
        # Directions come from one half of the rows, signs from the other.
        first = np.arange(len(rows)) % 2 == 0
        net = _directions(size, self.net, rng)
        spread = np.array([self._spread(z[first], outcome[first], v) for v in net])
        candidates = self._peaks(net, spread)
        found = [
            vector
            for v, s in candidates
            for vector in self._signed(z[~first], outcome[~first], v, s)
        ]
        kept = self._distinct(found)[:n_alternatives]
        if len(kept) < n_alternatives:
            raise DataError(
                f"NetSearch told only {len(kept)} of {n_alternatives} alternatives apart in this "
                "data. It needs well-separated coefficients and many rows: try a smaller "
                "`separation` or `radius`, or use MaximumLikelihood()."
            )
        return noise * np.array(kept) @ basis.T

    def _near(self, z: Array, v: Array) -> Mask:
        """Say which rows lie close to a direction: the event A_v of the paper."""
        across = (z**2).sum(axis=1) - (z @ v) ** 2
        return np.asarray(across <= self.width**2)

    def _root_moment(self, values: Array) -> float:
        """Return the l-th root of the moment over (l - 1)!!, by the median of group means."""
        powers = values**self.order
        groups = np.array_split(powers, self.groups)
        middle = float(np.median([group.mean() for group in groups]))
        return float((middle / factorial2(self.order - 1)) ** (1.0 / self.order))

    def _spread(self, z: Array, outcome: Array, v: Array) -> float:
        near = self._near(z, v)
        if near.sum() < FEWEST:
            return 0.0
        return self._root_moment(outcome[near])

    def _peaks(self, net: Array, spread: Array) -> list[tuple[Array, float]]:
        """Return the directions that are best within their radius, the strongest first."""
        order = np.argsort(spread)[::-1]
        close = np.cos(self.radius)
        peaks: list[tuple[Array, float]] = []
        for i in order:
            rivals = np.abs(net @ net[i]) >= close
            if spread[i] > 1.0 and spread[i] >= spread[rivals].max():
                peaks.append((net[i], float(spread[i])))
        return peaks

    def _signed(self, z: Array, outcome: Array, v: Array, spread: float) -> list[Array]:
        """Return v or -v, or both, at the length that its spread gives."""
        length = np.sqrt(spread**2 - 1.0)
        near = self._near(z, v)
        if near.sum() < FEWEST:
            return []
        moved = self._root_moment(outcome[near] - length * (z[near] @ v))
        gap = np.sqrt(max(moved**2 - 1.0, 0.0))
        found = []
        if gap <= 2.0 * length - self.separation / 8.0:
            found.append(length * v)
        if gap >= 2.0 * length - self.separation / 16.0:
            found.append(-length * v)
        return found

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
