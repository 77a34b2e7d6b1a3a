r"""The second of Heckman's two steps: least squares with the Mills ratio, from sums over rows.

Given γ, the mean of the selection noise where an outcome is observed is
:math:`k = d \lambda(d m)`. Its coefficient in a regression of the outcome on its covariates and k
is the covariance of outcome and selection. With :math:`\delta = \lambda(\lambda + d m)` the noise
left over has variance :math:`\sigma^2(1 - \rho^2\delta)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from selfselect.data.equations import Equation
from selfselect.engines.base import Engine
from selfselect.errors import DataError
from selfselect.likelihoods.selection import join_rows
from selfselect.noises.shapes.normal import SHAPE
from selfselect.problem.batch import Batch, Parts
from selfselect.problem.problem import Problem
from selfselect.solvers._start import refuse_collinear, refuse_dependent

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

DEPENDENT = 1e-6
"""Share of the Mills ratio's spread not explained by covariates below which it is one of them."""

EXACT = 1e-12
"""Share of an outcome's variance left over below which its covariates explain all of it."""


@dataclass(frozen=True, eq=False)
class OwnRegressors:
    """What the second step needs of the rows of one alternative, in internal units.

    Attributes
    ----------
    which : (m,) positions of the rows.
    x : (m, p) its covariates.
    z : (m, q) those of the selection.
    ratio : (m,) mean of the selection noise.
    delta : (m,) by which selection shrinks the variance of its noise.
    outcome : (m,).
    weights : (m,) how much each row counts.
    """

    which: Indices
    x: Array
    z: Array
    ratio: Array
    delta: Array
    outcome: Array
    weights: Array


def own_regressors(problem: Problem, gamma: Array, batch: Batch, j: int) -> OwnRegressors:
    """Return what the second step needs of the rows in which alternative `j` was observed."""
    rows = join_rows(problem, batch, guessed=True)
    own = rows.own[j]
    n_noise = len(own.gram)
    # With no correlation the log mass depends on γ alone, and its slopes are the noise's moments.
    ratio, delta = own.joined.moments(np.append(gamma[own.selection], np.zeros(n_noise)))
    weights, slopes = own.joined.weights, own.noise_slopes
    return OwnRegressors(
        own.which,
        -slopes[:-1].T,
        own.sign * own.joined.values[: rows.n_slopes].T,
        own.sign * ratio,
        delta,
        slopes[-1],
        np.ones(len(own.which)) if weights is None else weights,
    )


@dataclass(frozen=True, eq=False)
class SecondStep:
    """Least squares with the Mills ratio, in internal units.

    Attributes
    ----------
    coefficients : (p + 1,) of the covariates, and last of the Mills ratio.
    scale, correlation : of the noise; the correlation is what it is, even beyond one.
    naive : (p,) coefficients by least squares without the Mills ratio.
    naive_scale : root mean square of what that leaves over.
    explained : (p,) coefficients of the Mills ratio's regression on the covariates.
    own_square, own_product : mean square of what that leaves over, and its mean product with the
        outcome.
    shrunk : mean of δ.
    unexplained : share of the Mills ratio's spread that covariates do not explain.
    total : sum of the weights.
    """

    coefficients: Array
    scale: float
    correlation: float
    naive: Array
    naive_scale: float
    explained: Array
    own_square: float
    own_product: float
    shrunk: float
    unexplained: float
    total: float

    @property
    def determined(self) -> bool:
        """Whether the Mills ratio is more than a combination of the covariates."""
        return self.unexplained > DEPENDENT

    def refuse_undetermined(self, label: object) -> None:
        """Refuse an equation in which the Mills ratio is a combination of the covariates."""
        if not self.determined:
            raise DataError(
                f"In the equation of {label!r} the Mills ratio is a combination of the covariates, "
                "so the selection is not identified separately from them. Put a covariate in the "
                "selection equation that the outcome equation does not have."
            )

    def at_correlation(self, correlation: float) -> tuple[Array, float]:
        r"""Return coefficients (p,) and scale with the correlation given.

        The coefficient of the Mills ratio is then :math:`\rho\sigma`, and σ solves
        :math:`\sigma^2 = E[(y - x'b - \rho\sigma k)^2] + \rho^2\sigma^2 E\delta`.
        """
        bent = 1.0 - correlation**2 * (self.own_square + self.shrunk)
        middle = correlation * self.own_product
        root = np.sqrt(max(middle**2 + bent * self.naive_scale**2, 0.0))
        scale = float((root - middle) / bent) if bent > 0 else self.naive_scale
        return self.naive - correlation * scale * self.explained, scale


def second_steps(problem: Problem, engine: Engine, gamma: Array) -> tuple[SecondStep, ...]:
    """Regress every outcome on its covariates and the Mills ratio at given γ."""
    sums = engine.sum(partial(_own_sums, problem, gamma))
    return tuple(_regress(*sums[3 * j : 3 * j + 3]) for j in range(len(problem.equations.each)))


def least_squares(problem: Problem, engine: Engine) -> tuple[SecondStep, ...]:
    """Regress every outcome on its covariates alone.

    Covariates that depend on each other, or explain an outcome exactly, are refused.
    """
    selection = problem.equations.selection
    assert selection is not None
    gamma = first_coefficients(selection)
    sums = engine.sum(partial(_sums, problem, gamma))
    each = [sums[3 * j : 3 * j + 3] for j in range(problem.equations.n_alternatives)]
    refuse_collinear(problem, [np.delete(np.delete(one[0], -2, 0), -2, 1) for one in each])
    found = []
    for equation, (products, total, shrunk) in zip(problem.equations.each, each, strict=True):
        step = _regress(products, total, shrunk)
        found.append(step)
        if not step.naive_scale**2 > EXACT * products[-1, -1] / total:
            raise DataError(
                f"The covariates explain the outcome of {equation.alternative!r} exactly, so there "
                "is no noise to estimate. Leave out covariates computed from the outcome."
            )
    refuse_dependent(selection.with_one_constant(), np.pad(sums[-1], (0, 1)))
    return tuple(found)


def first_coefficients(selection: Equation, totals: Sequence[float] = ()) -> Array:
    """Return coefficients of a selection to begin with: none, and cut points by their shares.

    `totals` are the weights of the alternatives in order; without them all are alike.
    """
    found = np.zeros(len(selection.columns))
    if selection.n_cuts:
        sizes = np.ones(selection.n_cuts + 1) if not totals else np.array(totals)
        below = np.cumsum(sizes)[:-1] / sizes.sum()
        found[selection.n_slopes :] = -SHAPE.quantile(below)
    return found


def _own_sums(problem: Problem, gamma: Array, batch: Batch) -> Parts:
    """Return, by alternative, products of covariates, Mills ratio and outcome, and two totals."""
    parts: list[Array | float] = []
    for j in range(problem.equations.n_alternatives):
        own = own_regressors(problem, gamma, batch, j)
        joined = np.vstack([own.x.T, own.ratio, own.outcome])
        parts += [
            (joined * own.weights) @ joined.T,
            float(own.weights.sum()),
            float(own.weights @ own.delta),
        ]
    return Parts(parts)


def _sums(problem: Problem, gamma: Array, batch: Batch) -> Parts:
    """Return the same, and last the products of the selection's covariates in all rows."""
    rows, selection = batch.rows, problem.equations.selection
    assert selection is not None
    columns = selection.with_one_constant().columns
    z = problem.units.design(rows.covariates, columns)
    counted = z if rows.weights is None else z * rows.weights[:, None]
    return Parts([*_own_sums(problem, gamma, batch), z.T @ counted])


def _regress(products: Array, total: float, shrunk: float) -> SecondStep:
    """Solve the normal equations of covariates, Mills ratio and outcome, in that order."""
    size = len(products) - 2
    x, ratio, outcome = products[:size, :size], products[:size, size], products[:size, size + 1]
    inverse = np.linalg.pinv(x, rcond=1e-14, hermitian=True)
    explained, naive = inverse @ ratio, inverse @ outcome
    spread = float(products[size, size])
    own_spread = max(spread - float(ratio @ explained), 0.0)
    unexplained = float(np.sqrt(own_spread / spread)) if spread > 0 else 0.0
    own_product = float(products[size, size + 1]) - float(explained @ outcome)
    slope = own_product / own_spread if unexplained > DEPENDENT else 0.0
    left_over = max(float(products[-1, -1]) - float(naive @ outcome), 0.0) / total
    rest = max(left_over - slope**2 * own_spread / total, 0.0)
    scale = float(np.sqrt(rest + slope**2 * shrunk / total))
    return SecondStep(
        np.append(naive - slope * explained, slope),
        scale,
        slope / scale if scale > 0 else 0.0,
        naive,
        float(np.sqrt(left_over)),
        explained,
        own_spread / total,
        own_product / total,
        shrunk / total,
        unexplained,
        total,
    )
