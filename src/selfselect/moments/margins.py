"""Moments under independent noise, by quadrature over one outcome at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.moments._derivatives import partial_moments, partial_values
from selfselect.moments._expectations import chances, expectations
from selfselect.moments.base import (
    Expectations,
    Moments,
    as_cells,
    costs_of_rows,
    latent_means,
    normal_exponentials,
)
from selfselect.noises.shapes import Shape
from selfselect.noises.shapes.normal import SHAPE as NORMAL
from selfselect.problem.problem import Problem
from selfselect.rules import direction_of
from selfselect.rules.base import RowData

__all__ = ["MarginMoments"]

Array = NDArray[np.float64]

STEP = 1e-5
"""Step of the differences in the noise's own parameters."""


class _WeighedNormal(NamedTuple):
    """A normal density times e^(cy): its integral, mean and standard deviation in rows (n,)."""

    size: Array
    mean: Array
    scale: Array


@dataclass(frozen=True, eq=False)
class MarginMoments(Moments):
    """Independent noise of any shape, rules with bounds or a rank, known and estimated costs."""

    def expectations(
        self, reported: Array, rows: Rows, *, shift: Array | None = None
    ) -> Expectations:
        means = latent_means(self.problem, reported, rows, shift=shift)
        scales = self.problem.row_scales(reported, rows)
        known, shapes = self._known(reported, rows), self._shapes(reported)
        return expectations(self.rule, means, scales, known, shapes)

    def _known(self, reported: Array, rows: Rows) -> RowData:
        """Return what is known of rows at given parameters: estimated costs are among the costs."""
        if not self.problem.equations.costs:
            return rows.known
        return replace(rows.known, costs=costs_of_rows(self.problem, reported, rows))

    def chances(self, reported: Array, rows: Rows, *, shift: Array | None = None) -> Array:
        means = latent_means(self.problem, reported, rows, shift=shift)
        scales = self.problem.row_scales(reported, rows)
        known, shapes = self._known(reported, rows), self._shapes(reported)
        return chances(self.rule, means, scales, known, shapes)

    def exponentials(
        self, reported: Array, rows: Rows, rate: float, *, shift: Array | None = None
    ) -> Array:
        means = latent_means(self.problem, reported, rows, shift=shift)
        found = np.zeros(means.shape)
        for j, part in self._weighed_normals(reported, rows, means, rate):
            found[:, j] += part.size
        return found

    def weighed(
        self, reported: Array, rows: Rows, rate: float, *, shift: Array | None = None
    ) -> Array:
        means = latent_means(self.problem, reported, rows, shift=shift)
        scales = np.broadcast_to(self.problem.row_scales(reported, rows), means.shape)
        known, shapes = self._known(reported, rows), self._shapes(reported)
        found = np.zeros((*means.shape, means.shape[1]))
        for j, part in self._weighed_normals(reported, rows, means, rate):
            moved, wide, each = means.copy(), scales.copy(), shapes.copy()
            moved[:, j], wide[:, j], each[j] = part.mean, part.scale, NORMAL
            found[:, j] += part.size[:, None] * chances(self.rule, moved, wide, known, each)
        return found

    def _weighed_normals(
        self, reported: Array, rows: Rows, means: Array, rate: float
    ) -> Iterator[tuple[int, _WeighedNormal]]:
        """Yield the normal parts of every outcome's density, weighed by e^(cy)."""
        scales = np.broadcast_to(self.problem.row_scales(reported, rows), means.shape)
        for j, shape in enumerate(self._shapes(reported)):
            assert shape.normals is not None
            for share, centre, spread in shape.normals:
                mean, scale = means[:, j] + scales[:, j] * centre, scales[:, j] * spread
                size = share * normal_exponentials(mean, scale**2, rate)
                yield j, _WeighedNormal(size, mean + rate * scale**2, scale)

    def _shapes(self, reported: Array) -> list[Shape]:
        """Return the shape of every alternative's noise."""
        layout, k = self.problem.layout, self.problem.equations.n_alternatives
        return self.problem.noise.margins(layout.extras_of(reported)[: layout.n_noise_extras], k)

    @property
    def _at_extras(self) -> list[int]:
        """Where the noise's own parameters stand among the reported."""
        layout = self.problem.layout
        places = layout.reported_extras[: layout.n_noise_extras]
        return [int(place) for place in places if place >= 0]

    def cells(self, reported: Array, rows: Rows) -> Array:
        means = latent_means(self.problem, reported, rows)
        scales = self.problem.row_scales(reported, rows)
        known, shapes = self._known(reported, rows), self._shapes(reported)
        return as_cells(partial_values(self.rule, means, scales, known, shapes), means)

    def cells_and_slope(self, reported: Array, rows: Rows, weights: Array) -> tuple[Array, Array]:
        means = latent_means(self.problem, reported, rows)
        scales = self.problem.row_scales(reported, rows)
        known, shapes = self._known(reported, rows), self._shapes(reported)
        found = partial_moments(self.rule, means, scales, known, shapes)
        k = means.shape[1]
        chance = found.value[:, 0]
        own = np.eye(k)[:, None, :] * chance[:, None, :, None]
        predicted_by_mean = means[:, :, None, None] * found.by_mean[:, [0]] + own
        predicted_by_scale = means[:, :, None, None] * found.by_scale[:, [0]]
        deep = (len(means), -1, k)
        by_mean = np.concatenate(
            [
                found.by_mean.reshape(deep),
                predicted_by_mean.reshape(deep),
                np.broadcast_to(np.eye(k), (len(means), k, k)),
            ],
            axis=1,
        )
        by_scale = np.concatenate(
            [
                found.by_scale.reshape(deep),
                predicted_by_scale.reshape(deep),
                np.zeros((len(means), k, k)),
            ],
            axis=1,
        )
        slope = _carry_back(self.problem, rows, by_mean, by_scale, weights, scales)
        if self.problem.equations.costs:
            # A cost moves choices as the mean does that it is compared with, and leaves outcomes.
            by_choice = by_mean.copy()
            by_choice[:, k:-k] -= np.tile(own.reshape(deep), (1, 2, 1))
            by_choice[:, -k:] = 0.0
            self._carry_costs_back(rows, by_choice, weights, slope)
        for position in self._at_extras:
            ends = []
            for way in (STEP, -STEP):
                moved = reported.copy()
                moved[position] += way
                ends.append(weights @ self.cells(moved, rows))
            slope[:, position] = (ends[0] - ends[1]) / (2.0 * STEP)
        return as_cells(found.value, means), slope

    def _carry_costs_back(self, rows: Rows, by_choice: Array, weights: Array, slope: Array) -> None:
        """Add the derivatives in the coefficients of estimated costs to `slope` (q, m)."""
        equations, layout = self.problem.equations, self.problem.layout
        way = direction_of(self.rule)
        assert way is not None
        place = len(layout.extras) - sum(len(cost.terms) for cost in equations.costs)
        for cost in equations.costs:
            j = equations.alternatives.index(cost.alternative)
            weighted = -way * by_choice[:, :, j] * weights[:, None]
            for column in cost.columns:
                values = np.ones(len(rows)) if column == 0 else rows.covariates[:, column - 1]
                slope[:, layout.reported_extras[place]] += values @ weighted
                place += 1


def _carry_back(
    problem: Problem, rows: Rows, by_mean: Array, by_scale: Array, weights: Array, scales: Array
) -> Array:
    """Return the weighted sum of the cells' derivatives (q, m) in the reported parameters."""
    layout = problem.layout
    slope = np.zeros((by_mean.shape[1], len(layout.reported_order)))
    at_scale = layout.reported_scales if layout.scales is None else None
    for j, (equation, where) in enumerate(
        zip(problem.equations.each, layout.reported_places, strict=True)
    ):
        weighted = by_mean[:, :, j] * weights[:, None]
        for column, position in zip(equation.columns, where, strict=True):
            if position < 0:
                continue  # An offset has no coefficient that could be off.
            values = np.ones(len(rows)) if column == 0 else rows.covariates[:, column - 1]
            slope[:, position] += values @ weighted
        spread = layout.spread_of[j]
        if spread is not None and at_scale is not None:
            by_log = by_scale[:, :, j] * (weights * scales[:, j])[:, None]
            slope[:, at_scale[j]] += by_log.sum(axis=0)
            at = layout.reported_extras[spread.places - int(layout.starts[-1])]
            for column, position in zip(spread.columns, at, strict=True):
                slope[:, position] += rows.covariates[:, column - 1] @ by_log
        elif at_scale is not None:
            slope[:, at_scale[j]] += weights @ by_scale[:, :, j]
    return slope
