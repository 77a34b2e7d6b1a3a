"""What the model says of each row: the one place where effects meet rule and noise.

Where noise or estimated costs join the alternatives, `_joined` computes the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.effects._joined import joined_values
from selfselect.errors import UnsupportedError
from selfselect.noises import Correlated, SharedShock
from selfselect.problem.partial_moments import partial_moments, partial_values
from selfselect.problem.problem import Problem
from selfselect.results.predictions import latent_means
from selfselect.rules import Ranked
from selfselect.rules.base import HasBounds

__all__ = [
    "Cells", "RowMoments", "Setting", "cells", "is_joined", "n_cells", "refuse_joined",
    "refuse_unsupported", "row_moments", "row_values",
]  # fmt: skip

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Setting:
    """Rows under a rule: one state of the world.

    Attributes
    ----------
    rows : covariates, known costs and availability.
    rule : in the order of the alternatives.
    """

    rows: Rows
    rule: Any


@dataclass(frozen=True, eq=False)
class Cells:
    """Averages of what the model says of rows, or one row of it.

    Attributes
    ----------
    chance : (..., k) P(g), the chance that g is seen.
    outcome : (..., k, k) E[y_l; g], the outcome of l where g is seen, times that chance.
    predicted : (..., k, k) E[x_l'w_l; g], the same of what the covariates predict.
    mean : (..., k) the latent means.
    """

    chance: Any
    outcome: Any
    predicted: Any
    mean: Any

    @property
    def seen(self) -> Any:
        """The mean of the outcome that is seen."""
        return np.trace(self.outcome, axis1=-2, axis2=-1)

    def outcome_in(self, group: int) -> Any:
        """Return the mean (..., k) of every outcome among those seen in `group`."""
        return self.outcome[..., group] / self.chance[..., [group]]

    def predicted_in(self, group: int) -> Any:
        """Return the mean (..., k) of what covariates predict for those seen in `group`."""
        return self.predicted[..., group] / self.chance[..., [group]]


def n_cells(k: int) -> int:
    """Return how many numbers the cells of k alternatives are."""
    return 2 * k + 2 * k * k


def cells(vector: Any, k: int) -> Cells:
    """Give names to a vector (..., n_cells) of moments."""
    shape = (*vector.shape[:-1], k, k)
    return Cells(
        vector[..., :k],
        vector[..., k : k + k * k].reshape(shape),
        vector[..., k + k * k : k + 2 * k * k].reshape(shape),
        vector[..., k + 2 * k * k :],
    )


@dataclass(frozen=True, eq=False)
class RowMoments:
    """The cells of each row (n, q), with derivatives in latent means and scales (n, q, k)."""

    value: Array
    by_mean: Array
    by_scale: Array


def is_joined(problem: Problem) -> bool:
    """Say whether who is seen depends on more than independent noise and known costs."""
    return bool(problem.equations.costs) or isinstance(problem.noise, Correlated | SharedShock)


def refuse_joined(problem: Problem) -> None:
    """Raise where draws of latent outcomes would need more than independent noise."""
    if is_joined(problem):
        raise UnsupportedError(
            "What is simulated needs noise that is independent across alternatives and known "
            f"costs, not {problem.noise.name}. Other effects are there: treatment_effects, "
            "potential_outcomes, choice_probabilities, decompose."
        )


def refuse_unsupported(problem: Problem, rule: Any) -> None:
    """Raise where chances and means of outcomes cannot be computed."""
    if is_joined(problem) and not isinstance(rule, HasBounds):
        raise UnsupportedError(
            f"{type(rule).__name__} offers no `bounds`, which effects need where noise is not "
            "independent or costs are estimated."
        )
    if not isinstance(rule, HasBounds | Ranked):
        raise UnsupportedError(
            f"{type(rule).__name__} offers no `bounds`, and effects need box-shaped explaining "
            "sets. Give the rule a `bounds` method."
        )
    if problem.sampled:
        raise UnsupportedError(
            "Effects need noise other than KnownCovariance. Use predict(), which simulates, or "
            "noises.Correlated with fixed scales and correlations."
        )


def row_values(problem: Problem, reported: Array, setting: Setting) -> Array:
    """Compute the cells (n, q) of every row of a block, without derivatives."""
    refuse_unsupported(problem, setting.rule)
    if is_joined(problem):
        return joined_values(problem, reported, setting.rows, setting.rule)
    means = latent_means(problem, reported, setting.rows)
    scales = problem.layout.scales_of(reported)
    found = partial_values(setting.rule, means, scales, setting.rows.known)
    predicted = means[:, :, None] * found[:, [0]]
    flat = (len(means), -1)
    return np.hstack([found.reshape(flat), predicted.reshape(flat), means])


def row_moments(problem: Problem, reported: Array, setting: Setting) -> RowMoments:
    """Compute the cells of every row of a block at given parameters."""
    refuse_unsupported(problem, setting.rule)
    means = latent_means(problem, reported, setting.rows)
    scales = problem.layout.scales_of(reported)
    found = partial_moments(setting.rule, means, scales, setting.rows.known)
    n_rows, k = means.shape
    chance = found.value[:, 0]
    itself = np.eye(k)
    predicted = means[:, :, None] * chance[:, None, :]
    predicted_by_mean = (
        means[:, :, None, None] * found.by_mean[:, [0]]
        + itself[:, None, :] * chance[:, None, :, None]
    )
    predicted_by_scale = means[:, :, None, None] * found.by_scale[:, [0]]
    flat, deep = (n_rows, -1), (n_rows, -1, k)
    return RowMoments(
        np.hstack([found.value.reshape(flat), predicted.reshape(flat), means]),
        np.concatenate(
            [
                found.by_mean.reshape(deep),
                predicted_by_mean.reshape(deep),
                np.broadcast_to(itself, (n_rows, k, k)),
            ],
            axis=1,
        ),
        np.concatenate(
            [
                found.by_scale.reshape(deep),
                predicted_by_scale.reshape(deep),
                np.zeros((n_rows, k, k)),
            ],
            axis=1,
        ),
    )
