"""The paper's method for any number of alternatives (Theorem 3): search a net of directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.errors import DataError, OptionError, UnsupportedError
from selfselect.kernels.special import factorial2
from selfselect.likelihoods import Batch
from selfselect.problem.problem import Problem
from selfselect.solvers._search import SearchSpace
from selfselect.solvers._subspace import coefficient_basis, white_rows
from selfselect.solvers.paper.base import MomentMethod

__all__ = ["NetSearch"]

Array = NDArray[np.float64]

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
