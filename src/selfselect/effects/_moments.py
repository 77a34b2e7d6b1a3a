"""What the model says of each row, with names: the one place where effects ask `moments`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.errors import UnsupportedError
from selfselect.moments.base import Moments
from selfselect.moments.choose import moments_of
from selfselect.moments.given_selected import GivenSelectedMoments
from selfselect.moments.levels import LevelMoments, Logarithm
from selfselect.problem.problem import Problem

__all__ = [
    "Cells",
    "Setting",
    "cells",
    "n_cells",
    "refuse_joint",
    "refuse_selection",
    "refuse_unsupported",
    "row_values",
]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Setting:
    """Rows under a rule: one state of the world.

    Attributes
    ----------
    rows : covariates, known costs and availability.
    rule : in the order of the alternatives.
    logarithm : the one that was modelled, where outcomes are to be levels.
    given_selected : whether the outcome of one alternative is to be its mean where it is selected,
        not that times the chance of it.
    """

    rows: Rows
    rule: Any
    logarithm: Logarithm | None = None
    given_selected: bool = False

    def moments(self, problem: Problem) -> Moments:
        """Return what to ask of a problem in this setting."""
        if self.logarithm is None:
            found = moments_of(problem, self.rule)
        else:
            found = LevelMoments(problem, self.rule, self.logarithm)
        return GivenSelectedMoments(problem, self.rule, found) if self.given_selected else found


FEW = 1e-4
"""Share below which means among those who do not choose an alternative add up their own cells."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Averages of what the model says of rows, or one row of it.

    Attributes
    ----------
    chance : (..., k) P(g), the chance that g is chosen.
    outcome : (..., k, k) E[y_l; g], the outcome of l where g is chosen, times that chance.
    predicted : (..., k, k) E[x_l'w_l; g], the same of what the covariates predict.
    mean : (..., k) the latent means.
    """

    chance: Any
    outcome: Any
    predicted: Any
    mean: Any

    @property
    def observed(self) -> Any:
        """The mean of the observed outcome."""
        return np.trace(self.outcome, axis1=-2, axis2=-1)

    @property
    def observed_each(self) -> Any:
        """The mean (..., k) of every outcome where it is observed, times the chance of that."""
        return np.diagonal(self.outcome, axis1=-2, axis2=-1)

    def outcome_in(self, group: int) -> Any:
        """Return the mean (..., k) of every outcome among those who choose `group`."""
        return self.outcome[..., group] / self.chance[..., [group]]

    def outcome_outside(self, group: int) -> Any:
        """Return the mean (..., k) of every outcome among those who choose another than `group`."""
        others = [place for place in range(self.chance.shape[-1]) if place != group]
        total, share = self.mean - self.outcome[..., group], 1.0 - self.chance[..., [group]]
        added = self.outcome[..., others].sum(axis=-1)
        rest = self.chance[..., others].sum(axis=-1, keepdims=True)
        # Where few choose another, a difference of means over everyone is rounding.
        few = np.real(rest) < FEW
        return np.where(few, added, total) / np.where(few, rest, share)

    def predicted_in(self, group: int) -> Any:
        """Return the mean (..., k) of what covariates predict for those who choose `group`."""
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


def refuse_joint(problem: Problem) -> None:
    """Refuse where draws of latent outcomes would need more than independent noise."""
    in_the_way = []
    if problem.noise.joint:
        in_the_way.append(f"the noise of this fit is {problem.noise.name}")
    if problem.equations.costs:
        in_the_way.append("the costs of this fit are estimated")
    if in_the_way:
        raise UnsupportedError(
            "What is simulated needs noise that is independent across alternatives, and known "
            f"costs: {' and '.join(in_the_way)}. Other effects are there: treatment_effects, "
            "potential_outcomes, choice_probabilities, decompose."
        )


def refuse_selection(problem: Problem, what: str) -> None:
    """Refuse what depends on how the outcomes of a model with a selection equation correlate."""
    if problem.noise.selected and problem.equations.n_alternatives == 1:
        raise UnsupportedError(
            f"{what} on several outcomes, and sample selection has one. Use potential_outcomes "
            "for its mean among all and among the selected."
        )
    if problem.noise.selected:
        raise UnsupportedError(
            f"{what} on the correlation of the outcomes' noises. With a selection equation no row "
            "shows two outcomes, so nothing in the data says what it is. Means are known: use "
            "treatment_effects, potential_outcomes, decompose or sorting."
        )


def refuse_unsupported(problem: Problem, rule: Any) -> None:
    """Refuse where chances and means of outcomes cannot be computed."""
    moments_of(problem, rule).check_cells()


def row_values(problem: Problem, reported: Array, setting: Setting) -> Array:
    """Compute the cells (n, q) of every row of a block, without derivatives."""
    return setting.moments(problem).cells(reported, setting.rows)
