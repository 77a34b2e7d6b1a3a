r"""Heckman's two steps, with standard errors that know the first step was estimated.

Step one is the probit of selection. Step two is least squares of each outcome on its covariates
and on the mean of the selection noise where it is seen, :math:`k = d \lambda(d m)`, whose
coefficient is covariance of outcome and selection. With :math:`\delta = \lambda(\lambda + d m)`
the noise left over has variance :math:`\sigma^2(1 - \rho^2\delta)`, and an error of γ moves it by
:math:`\rho\sigma\delta z'`: both are in the covariance (Heckman 1979; Greene 1981), jointly for
all equations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.classics.covariance import describe, plain_sandwich
from selfselect.classics.design import CORRELATION, MILLS, SELECTION, Design, OutcomeEquation
from selfselect.classics.parameters import Layout
from selfselect.classics.probit import Probit, probit_scores
from selfselect.data.equations import SCALE
from selfselect.errors import DataError
from selfselect.inference.covariance import Covariance
from selfselect.kernels.tails import mills_terms
from selfselect.problem.parameters import Reported
from selfselect.rules.base import Label

__all__ = ["SecondStep", "report_two_steps", "second_step", "start_of"]

Array = NDArray[np.float64]

DEPENDENT = 1e-6
"""Share of the Mills ratio's spread not explained by covariates below which it is one of them."""
LARGEST_START = 0.9
"""Size of a correlation from which maximum likelihood may start."""


@dataclass(frozen=True, eq=False)
class SecondStep:
    """Least squares with the Mills ratio, in internal units.

    Attributes
    ----------
    equation : whose outcome.
    coefficients : (p + 1,) of the basis, and last of the Mills ratio.
    scale, correlation : of the noise; the correlation is what it is, even beyond one.
    regressors : (m, p + 1).
    left_over : (m,) residuals.
    delta : (m,) by which selection shrinks the variance of its own noise.
    unexplained : share of the Mills ratio's spread that covariates do not explain.
    """

    equation: OutcomeEquation
    coefficients: Array
    scale: float
    correlation: float
    regressors: Array
    left_over: Array
    delta: Array
    unexplained: float

    @property
    def weights(self) -> Array:
        """How much each row counts."""
        return np.ones(len(self.delta)) if self.equation.weights is None else self.equation.weights


def second_step(design: Design, equation: OutcomeEquation, gamma: Array) -> SecondStep:
    """Regress an outcome on its covariates and the Mills ratio at given γ."""
    index = equation.sign * (design.selection.basis[equation.rows] @ gamma)
    mills = mills_terms(index)
    ratio = equation.sign * mills.ratio
    weights = np.ones(len(index)) if equation.weights is None else equation.weights
    basis, outcome = equation.side.basis, equation.standardised
    weighted = basis * weights[:, None]
    explained = np.linalg.solve(basis.T @ weighted, weighted.T @ ratio)
    own = ratio - basis @ explained
    spread, own_spread = float(weights @ ratio**2), float(weights @ own**2)
    unexplained = np.sqrt(own_spread / spread)
    # The outcome is what least squares left over, so the covariates only make up for the ratio.
    slope = float(weights @ (own * outcome)) / own_spread if unexplained > DEPENDENT else 0.0
    regressors = np.column_stack([basis, ratio])
    coefficients = np.append(-slope * explained, slope)
    left_over = outcome - slope * own
    covariance = coefficients[-1]
    shrunk = float(np.average(mills.slope, weights=weights))
    scale = float(np.sqrt(np.average(left_over**2, weights=weights) + covariance**2 * shrunk))
    return SecondStep(
        equation,
        coefficients,
        scale,
        float(covariance / scale),
        regressors,
        left_over,
        mills.slope,
        float(unexplained),
    )


def start_of(layout: Layout, gamma: Array, steps: tuple[SecondStep, ...], size: float) -> Array:
    """Return natural parameters to start from: the two-step estimate, its correlations shrunk.

    `size` 0 gives independence: the probit, and least squares.
    """
    natural = np.zeros(layout.n_natural)
    natural[layout.gamma] = gamma
    for step in steps:
        own = layout.noise_of(step.equation)
        natural[own.stop - 1] = 1.0
        if size and step.unexplained > DEPENDENT:
            correlation = float(np.clip(size * step.correlation, -LARGEST_START, LARGEST_START))
            natural[own] = [*(step.coefficients[:-1] / step.scale), 1.0 / step.scale]
            natural[own.stop] = np.arctanh(correlation)
    return natural


def report_two_steps(
    design: Design, probit: Probit, steps: tuple[SecondStep, ...], kind: str
) -> tuple[Reported, Covariance]:
    """Return the two-step estimates in the user's units, with their joint covariance."""
    labels: list[tuple[Label, str]] = []
    values: list[Array | list[float]] = []
    carries: list[Array] = []
    for step in steps:
        _refuse_collinear(step)
        side, unit, size = step.equation.side, step.equation.unit, len(step.coefficients) - 1
        slopes = side.carry @ (step.equation.naive + unit * step.coefficients[:-1])
        labels += [(step.equation.label, t) for t in (*side.terms, MILLS, SCALE, CORRELATION)]
        values += [
            slopes, [unit * step.coefficients[-1], unit * step.scale, step.correlation],
        ]  # fmt: skip
        carry = np.full((size + 3, size + 1), np.nan)
        carry[: size + 1] = 0.0
        carry[:size, :size] = unit * side.carry
        carry[size, size] = unit
        carries.append(carry)
    labels += [(SELECTION, term) for term in design.selection.terms]
    values.append(design.selection.carry @ probit.gamma)
    carries.append(design.selection.carry)
    internal = _covariance(design, probit, steps, kind)
    matrix = _block_product(carries, internal)
    reported = Reported(tuple(labels), np.concatenate(values), np.empty((len(matrix), 0)))
    if kind == "observed":
        return reported, Covariance(kind, "two-step (Heckman 1979; Greene 1981)", matrix)
    return reported, describe(kind, design, matrix)


def _refuse_collinear(step: SecondStep) -> None:
    if step.unexplained > DEPENDENT:
        return
    raise DataError(
        f"In the equation of {step.equation.label!r} the Mills ratio is a combination of the "
        "covariates, so selection cannot be told from them. Put a covariate in the selection "
        "equation that the outcome equation does not have."
    )


def _covariance(design: Design, probit: Probit, steps: tuple[SecondStep, ...], kind: str) -> Array:
    """Return the joint covariance of all second steps and, last, of γ, in internal units."""
    first = np.linalg.inv(probit.information)
    breads, reaches = [], []
    for step in steps:
        regressors, weights = step.regressors, step.weights
        bread = np.linalg.inv(regressors.T @ (regressors * weights[:, None]))
        z = design.selection.basis[step.equation.rows]
        push = regressors.T @ (z * (weights * step.coefficients[-1] * step.delta)[:, None])
        if kind != "observed":
            # The Mills ratio itself moves with γ: nothing on average where the model is right.
            push[-1] -= (weights * step.left_over * step.delta) @ z
        breads.append(bread)
        reaches.append(bread @ push)
    reach = np.vstack([*reaches, np.eye(len(first))])
    if kind == "observed":
        matrix = reach @ first @ reach.T
        place = 0
        for step, bread in zip(steps, breads, strict=True):
            shrunk = step.scale**2 - step.coefficients[-1] ** 2 * step.delta
            variance = step.weights * np.maximum(shrunk, 0.0)
            meat = step.regressors.T @ (step.regressors * variance[:, None])
            own = slice(place, place + len(bread))
            matrix[own, own] += bread @ meat @ bread
            place = own.stop
        return np.asarray(matrix)
    # What one row does to the estimates: by its own equation, and through γ to all of them.
    influence = probit_scores(design, probit.gamma) @ first @ reach.T
    place = 0
    for step, bread in zip(steps, breads, strict=True):
        own_part = (step.regressors * (step.weights * step.left_over)[:, None]) @ bread
        influence[step.equation.rows, place : place + len(bread)] += own_part
        place += len(bread)
    return plain_sandwich(influence, design)


def _block_product(carries: list[Array], internal: Array) -> Array:
    """Carry a covariance by blocks; rows of nan make nan of what they touch and nothing else."""
    rows = sum(carry.shape[0] for carry in carries)
    unknown = np.concatenate([np.isnan(carry).any(axis=1) for carry in carries])
    carry_all = np.zeros((rows, internal.shape[0]))
    row = column = 0
    for carry in carries:
        height, width = carry.shape
        carry_all[row : row + height, column : column + width] = np.nan_to_num(carry)
        row, column = row + height, column + width
    matrix = carry_all @ internal @ carry_all.T
    matrix[unknown] = np.nan
    matrix[:, unknown] = np.nan
    return matrix
