r"""Conditional moments of the noise: what a row is expected to say of its shape and spread.

With Hermite polynomials :math:`\mathrm{He}_2 = z^2 - 1`, :math:`\mathrm{He}_3 = z^3 - 3z`,
:math:`\mathrm{He}_4 = z^4 - 6z^2 + 3`, the generalised residuals of higher order are
:math:`E[\mathrm{He}_r(z_j) \mid \text{row}]`, where :math:`z_j` is the standardised noise of
alternative j. They average zero under the model. Since :math:`(\mathrm{He}_{r-1}\phi)' =
-\mathrm{He}_r\phi`, a row with the limit a says

* observed: :math:`\mathrm{He}_r(a)`
* on one side of a: :math:`\mathrm{He}_{r-1}(a)` times the generalised residual itself
* between a and b: :math:`(\mathrm{He}_{r-1}(a)\phi(a) - \mathrm{He}_{r-1}(b)\phi(b))/P`.

Orders 3 and 4 are the scores of skewness and kurtosis in a Gram-Charlier density
:math:`\phi (1 + c_3 \mathrm{He}_3 + c_4 \mathrm{He}_4)` at zero; order 2 times a covariate is the
score of :math:`\gamma` in :math:`\sigma_j e^{\gamma x}`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.status import BETWEEN
from selfselect.likelihoods import Batch, row_terms
from selfselect.problem.problem import Problem

__all__ = ["SUBJECTS", "Subject", "noise_moments", "row_residuals", "steady_columns"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

Subject = Literal["normality", "heteroskedasticity"]
SUBJECTS: tuple[Subject, ...] = ("normality", "heteroskedasticity")


@dataclass(frozen=True, eq=False)
class Hints:
    """What rows say of one alternative's noise.

    Attributes
    ----------
    design : (n, p) its covariates, in internal units.
    chosen : (n,) probability that it was chosen: 0 or 1 where that was recorded.
    residual : (n,) generalised residual where it was not.
    limit : (n,) standardised outcome or bound.
    between, lower_density, upper, upper_density : which rows have two bounds; the densities at
        both, over the mass between them; the upper one.
    """

    design: Array
    chosen: Array
    residual: Array
    limit: Array
    between: Mask
    lower_density: Array
    upper: Array
    upper_density: Array

    def moment(self, order: int) -> Array:
        """Return E[He_order | row], shape (n,)."""
        below = _hermite(order - 1, self.limit)
        found = self.chosen * _hermite(order, self.limit)
        found += (1.0 - self.chosen) * below * self.residual
        if len(self.upper):
            found[self.between] = (
                below[self.between] * self.lower_density
                - _hermite(order - 1, self.upper) * self.upper_density
            )
        return found


def noise_moments(problem: Problem, natural: Array, batch: Batch) -> dict[Subject, Array]:
    """Return what each row says against normality (n, 2k), and against a constant variance (n, m).

    The first are skewness and kurtosis of every alternative's noise; the second its excess
    variance times each covariate of its equation that is assumed not to move its scale.
    """
    hints = _read(problem, natural, batch)
    spread: list[Array] = []
    steady = steady_columns(problem)
    for equation, columns, one in zip(problem.equations.each, steady, hints, strict=True):
        vary = [equation.columns.index(column) for column in columns]
        spread.append(one.design[:, vary] * one.moment(2)[:, None])
    return {
        "normality": np.column_stack([one.moment(order) for one in hints for order in (3, 4)]),
        "heteroskedasticity": np.concatenate(spread, axis=1),
    }


def steady_columns(problem: Problem) -> list[tuple[int, ...]]:
    """Return the covariates of each equation that are assumed not to move its scale.

    Those of its log scale have had their score set to zero by the estimate.
    """
    moved = [() if one is None else one.columns for one in problem.layout.spread_of]
    return [
        tuple(column for column in equation.columns if column and column not in own)
        for equation, own in zip(problem.equations.each, moved, strict=True)
    ]


def row_residuals(problem: Problem, natural: Array, batch: Batch) -> Array:
    """Return generalised residuals (n, k): E[z | row] of every alternative's standardised noise."""
    hints = _read(problem, natural, batch)
    return np.column_stack(
        [one.chosen * one.limit + (1.0 - one.chosen) * one.residual for one in hints]
    )


def _read(problem: Problem, natural: Array, batch: Batch) -> list[Hints]:
    rows, designs = row_terms(problem, natural, batch), problem.designs(batch.rows)
    chance, residual, limit = rows.chance, rows.censored_residual, rows.standardised
    return [
        _hints(problem, natural, batch, j, design, (chance[:, j], residual[:, j], limit[:, j]))
        for j, design in enumerate(designs)
    ]


def _hints(
    problem: Problem,
    natural: Array,
    batch: Batch,
    j: int,
    design: Array,
    said: tuple[Array, Array, Array],
) -> Hints:
    observation, (_, _, limit) = batch.observation, said
    between: Mask = observation.status[:, j] == BETWEEN
    if observation.upper is None:
        none = np.empty(0)
        return Hints(design, *said, between, none, none, none)
    start, at_h = problem.layout.starts[j], problem.layout.inverse_scale_positions[j]
    upper = problem.units.limits(observation.upper[between, j])
    upper = natural[at_h] * upper - design[between] @ natural[start:at_h]
    h = problem.inverse_scales(natural, batch.rows)[:, j]
    upper = upper * (h if len(h) == 1 else h[between]) / natural[at_h]
    mass = problem.noise.margin.between(limit[between], upper)
    return Hints(design, *said, between, mass.lower_density, upper, mass.upper_density)


def _hermite(order: int, z: Array) -> Array:
    """Evaluate the Hermite polynomial of an order from 1 on, by its recurrence."""
    before, value = np.ones_like(z), z
    for step in range(1, order):
        before, value = value, z * value - step * before
    return value
