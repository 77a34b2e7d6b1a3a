r"""Conditional moments of the noise: what a row is expected to say of its shape and spread.

With Hermite polynomials :math:`\mathrm{He}_2 = z^2 - 1`, :math:`\mathrm{He}_3 = z^3 - 3z`,
:math:`\mathrm{He}_4 = z^4 - 6z^2 + 3`, the generalised residuals of higher order are
:math:`E[\mathrm{He}_r(z_j) \mid \text{row}]`, where :math:`z_j` is the standardised noise of
alternative j. They average zero under the model. Since :math:`(\mathrm{He}_{r-1}\phi)' =
-\mathrm{He}_r\phi`, a row with the limit a says

* seen: :math:`\mathrm{He}_r(a)`
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

from selfselect.kernels.status import BETWEEN, SEEN, UNKNOWN
from selfselect.kernels.tails import interval_terms
from selfselect.problem.evaluation import Batch, alternative_terms, find_memberships
from selfselect.problem.problem import Problem
from selfselect.problem.ranked import find_sides

__all__ = ["SUBJECTS", "Subject", "noise_moments", "row_residuals"]

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
    seen : (n,) probability that it was the one seen: 0 or 1 where that was recorded.
    residual : (n,) generalised residual where it was not.
    limit : (n,) standardised outcome or bound.
    between, lower_density, upper, upper_density : which rows have two bounds; the densities at
        both, over the mass between them; the upper one.
    """

    design: Array
    seen: Array
    residual: Array
    limit: Array
    between: Mask
    lower_density: Array
    upper: Array
    upper_density: Array

    def moment(self, order: int) -> Array:
        """Return E[He_order | row], shape (n,)."""
        below = _hermite(order - 1, self.limit)
        found = self.seen * _hermite(order, self.limit)
        found += (1.0 - self.seen) * below * self.residual
        if len(self.upper):
            found[self.between] = (
                below[self.between] * self.lower_density
                - _hermite(order - 1, self.upper) * self.upper_density
            )
        return found


def noise_moments(problem: Problem, natural: Array, batch: Batch) -> dict[Subject, Array]:
    """Return what each row says against normality (n, 2k), and against a constant variance (n, m).

    The first are skewness and kurtosis of every alternative's noise; the second its excess
    variance times each covariate of its equation.
    """
    hints = _read(problem, natural, batch)
    spread: list[Array] = []
    for equation, one in zip(problem.equations.each, hints, strict=True):
        vary = [place for place, column in enumerate(equation.columns) if column != 0]
        spread.append(one.design[:, vary] * one.moment(2)[:, None])
    return {
        "normality": np.column_stack([one.moment(order) for one in hints for order in (3, 4)]),
        "heteroskedasticity": np.concatenate(spread, axis=1),
    }


def row_residuals(problem: Problem, natural: Array, batch: Batch) -> Array:
    """Return generalised residuals (n, k): E[z | row] of every alternative's standardised noise."""
    hints = _read(problem, natural, batch)
    return np.column_stack(
        [one.seen * one.limit + (1.0 - one.seen) * one.residual for one in hints]
    )


def _read(problem: Problem, natural: Array, batch: Batch) -> list[Hints]:
    k, units = problem.equations.n_alternatives, problem.units
    seen: Array = (batch.observation.status == SEEN).astype(np.float64)
    if problem.concave:
        each = [alternative_terms(problem, natural, batch, j) for j in range(k)]
        designs, residual = [one[0] for one in each], [one[1].residual for one in each]
    else:
        designs = [
            units.design(batch.rows.covariates, one.columns) for one in problem.equations.each
        ]
        if problem.rank is None:
            found = find_memberships(problem, natural, batch)
            seen, residual = found.chance, list(-problem.side * found.ratio.T)
        else:
            residual = list(find_sides(problem, natural, batch, pairs=False).residual.T)
    return [
        _hints(problem, natural, batch, j, designs[j], seen[:, j], residual[j]) for j in range(k)
    ]


def _hints(
    problem: Problem,
    natural: Array,
    batch: Batch,
    j: int,
    design: Array,
    seen: Array,
    residual: Array,
) -> Hints:
    start, at_h = problem.layout.starts[j], problem.layout.inverse_scale_positions[j]
    observation, h = batch.observation, natural[at_h]
    location = design @ natural[start:at_h]
    status = observation.status[:, j]
    limit = h * problem.units.limits(observation.limit_of(j)) - location
    # A row that is silent about the alternative may have an infinite limit, which means nothing.
    limit[status == UNKNOWN] = 0.0
    between: Mask = status == BETWEEN
    if observation.upper is None:
        none = np.empty(0)
        return Hints(design, seen, residual, limit, between, none, none, none)
    upper = h * problem.units.limits(observation.upper[between, j]) - location[between]
    mass = interval_terms(limit[between], upper)
    return Hints(
        design, seen, residual, limit, between, mass.lower_density, upper, mass.upper_density
    )


def _hermite(order: int, z: Array) -> Array:
    """Evaluate the Hermite polynomial of an order from 1 on, by its recurrence."""
    before, value = np.ones_like(z), z
    for step in range(1, order):
        before, value = value, z * value - step * before
    return value
