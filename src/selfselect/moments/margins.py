"""Moments under independent noise, by quadrature over one outcome at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.moments._derivatives import partial_moments, partial_values
from selfselect.moments._expectations import chances, expectations
from selfselect.moments.base import Expectations, Moments, as_cells, latent_means
from selfselect.noises.shapes import Shape
from selfselect.problem.problem import Problem

__all__ = ["MarginMoments"]

Array = NDArray[np.float64]

STEP = 1e-5
"""Step of the differences in the noise's own parameters."""


@dataclass(frozen=True, eq=False)
class MarginMoments(Moments):
    """Independent noise of any shape, rules with bounds or a rank, known costs."""

    def expectations(
        self, reported: Array, rows: Rows, *, shift: Array | None = None
    ) -> Expectations:
        means = latent_means(self.problem, reported, rows)
        if shift is not None:
            means = means + shift
        scales = self.problem.row_scales(reported, rows)
        return expectations(self.rule, means, scales, rows.known, self._shapes(reported))

    def chances(self, reported: Array, rows: Rows) -> Array:
        means = latent_means(self.problem, reported, rows)
        scales = self.problem.row_scales(reported, rows)
        return chances(self.rule, means, scales, rows.known, self._shapes(reported))

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
        shapes = self._shapes(reported)
        return as_cells(partial_values(self.rule, means, scales, rows.known, shapes), means)

    def cells_and_slope(self, reported: Array, rows: Rows, weights: Array) -> tuple[Array, Array]:
        means = latent_means(self.problem, reported, rows)
        scales = self.problem.row_scales(reported, rows)
        shapes = self._shapes(reported)
        found = partial_moments(self.rule, means, scales, rows.known, shapes)
        k = means.shape[1]
        chance = found.value[:, 0]
        predicted_by_mean = (
            means[:, :, None, None] * found.by_mean[:, [0]]
            + np.eye(k)[:, None, :] * chance[:, None, :, None]
        )
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
        for position in self._at_extras:
            ends = []
            for way in (STEP, -STEP):
                moved = reported.copy()
                moved[position] += way
                ends.append(weights @ self.cells(moved, rows))
            slope[:, position] = (ends[0] - ends[1]) / (2.0 * STEP)
        return as_cells(found.value, means), slope


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
