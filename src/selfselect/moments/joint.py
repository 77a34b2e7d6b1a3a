"""Moments where noise or estimated costs make the alternatives of a row depend on each other.

A row of which nothing was recorded is the sum of all atoms there are: their weights add up to one,
and those of an alternative to the chance that it is chosen. Derivatives are central differences: in
the mean of every alternative, from which those in coefficients follow by the chain rule, and in
every other parameter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.kernels.status import MAYBE
from selfselect.likelihoods._pieces import noise_covariance, pieces_of, residuals_of
from selfselect.moments.base import (
    NEGLIGIBLE,
    Expectations,
    Moments,
    as_cells,
    latent_means,
    with_outcome,
)
from selfselect.problem.batch import Batch
from selfselect.problem.observation import Observation
from selfselect.problem.problem import Problem
from selfselect.threads import parallel_map

__all__ = ["JointMoments", "joint_expectations"]

Array = NDArray[np.float64]

AT_ONCE = 128
"""Rows whose expectations are integrated at once: each has some hundred atoms."""

STEP = 1e-4
"""Step of the differences, in scales of the noise or relative to the parameter."""

DRAWS = 128
"""Points of simulated chances, which are averaged over rows."""


@dataclass(frozen=True, eq=False)
class JointMoments(Moments):
    """Moments by quadrature over the atoms of a row."""

    quick: ClassVar[bool] = False

    def expectations(
        self, reported: Array, rows: Rows, *, shift: Array | None = None
    ) -> Expectations:
        here = replace(self.problem, rule=self.rule)
        natural = here.layout.natural(here.layout.read(reported))
        return joint_expectations(here, natural, rows, shift=shift)

    def cells(self, reported: Array, rows: Rows) -> Array:
        return self._shifted_cells(reported, rows, None)

    def _shifted_cells(self, reported: Array, rows: Rows, shift: Array | None) -> Array:
        """Return the cells where `shift` (k,) is added to the latent means."""
        found = self.of_averages().expectations(reported, rows, shift=shift)
        means = latent_means(self.problem, reported, rows, shift=shift)
        outcome = np.nan_to_num(found.given_seen) * found.chance[:, None, :]
        return as_cells(np.concatenate([found.chance[:, None, :], outcome], axis=1), means)

    def of_averages(self) -> Moments:
        noise = self.problem.noise
        points = noise.points(self.problem.equations.n_alternatives)
        if points is not None and not points.alike:
            noise = noise.with_points(min(points.number, DRAWS))
        return replace(self, problem=replace(self.problem, noise=noise))

    def cells_and_slope(self, reported: Array, rows: Rows, weights: Array) -> tuple[Array, Array]:
        problem = self.problem
        layout, k = problem.layout, problem.equations.n_alternatives
        scales = layout.central_scales(reported)
        slope = np.zeros((2 * k + 2 * k * k, len(reported)))
        of_coefficients: set[int] = set()
        for j, (equation, where) in enumerate(
            zip(problem.equations.each, layout.reported_places, strict=True)
        ):
            shift = np.zeros(k)
            shift[j] = STEP * scales[j]
            ends = [self._shifted_cells(reported, rows, way * shift) for way in (1, -1)]
            by_mean = (ends[0] - ends[1]) / (2.0 * shift[j]) * weights[:, None]
            for column, position in zip(equation.columns, where, strict=True):
                if position < 0:
                    continue  # An offset has no coefficient that could be off.
                values = np.ones(len(rows)) if column == 0 else rows.covariates[:, column - 1]
                slope[:, position] += values @ by_mean
                of_coefficients.add(int(position))
        unit = _units_of_log_scales(problem)
        for position in set(range(len(reported))) - of_coefficients:
            step = STEP * unit.get(position, max(abs(float(reported[position])), 0.1))
            ends = []
            for way in (step, -step):
                moved = reported.copy()
                moved[position] += way
                ends.append(weights @ self.cells(moved, rows))
            slope[:, position] = (ends[0] - ends[1]) / (2.0 * step)
        return self.cells(reported, rows), slope


def _units_of_log_scales(problem: Problem) -> dict[int, float]:
    """Return how much each coefficient of a log scale matters, by its place among the reported."""
    layout, first = problem.layout, int(problem.layout.starts[-1])
    return {
        int(layout.reported_extras[place - first]): 1.0 / float(problem.units.unit[column])
        for spread in layout.spread_of
        if spread is not None
        for place, column in zip(spread.places, spread.columns, strict=True)
    }


def joint_expectations(
    problem: Problem, natural: Array, rows: Rows, *, shift: Array | None = None
) -> Expectations:
    """Integrate over the latent outcomes of rows of which nothing was recorded.

    `shift` (k,) or (n, k) is added to all means, in the user's units.
    """
    central = natural[problem.layout.inverse_scale_positions]
    moved = np.zeros(problem.equations.n_alternatives) if shift is None else shift
    moved = np.atleast_2d(moved / problem.units.outcome_unit)
    n_rows, k = len(rows), problem.equations.n_alternatives
    h = problem.inverse_scales(natural, rows)
    covariance = noise_covariance(problem, natural)
    chance, given = np.empty((n_rows, k)), np.empty((n_rows, k, k))
    problem = replace(problem, partial=True)
    blank = replace(
        rows,
        outcome=np.full(n_rows, np.nan),
        chosen=np.full(n_rows, -1),
        between=None,
        possible=None,
    )
    nothing = Observation(np.full((n_rows, k), MAYBE, dtype=np.int8), np.zeros((n_rows, k)))
    whole = Batch(blank, nothing, "joint")

    def fill(at: int) -> None:
        here = slice(at, at + AT_ONCE)
        part = whole.take(here)
        shifted = moved if len(moved) == 1 else moved[here]
        (piece,) = pieces_of(problem, natural, part, curvature=False, moved=shifted)
        atoms = piece.atoms
        location = problem.locations(natural, problem.designs(part.rows))
        means = (location / central + shifted)[atoms.row]
        noise = residuals_of(problem, piece, covariance)
        noise = noise / (h if len(h) == 1 else h[here][atoms.row])
        outcome = problem.units.outcome_shift + problem.units.outcome_unit * (means + noise)
        place = atoms.row * k + atoms.chosen
        size = len(part) * k
        share = np.bincount(place, piece.share, size).reshape(-1, k)
        chance[at : at + len(part)] = share
        for m in range(k):
            total = np.bincount(place, piece.share * outcome[:, m], size).reshape(-1, k)
            with np.errstate(divide="ignore", invalid="ignore"):
                given[at : at + len(part), m] = np.where(share < NEGLIGIBLE, np.nan, total / share)

    for _ in parallel_map(fill, range(0, n_rows, AT_ONCE)):
        pass
    return with_outcome(chance, given)
