"""The naive fit: least squares per alternative on the rows where it was seen.

Where nobody recorded who was seen, that is least squares on all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine, Parts
from selfselect.problem.evaluation import Batch
from selfselect.problem.problem import Problem
from selfselect.problem.ties import Ties

__all__ = ["Naive", "fit_naive"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Naive:
    """Least squares that ignores selection, alternative by alternative.

    Attributes
    ----------
    coefficients, std_errors : per alternative, in the order of its estimated terms; those that
        alternatives share are fitted to the rows of all who do.
    scales : (k,) residual standard deviations, with the degrees-of-freedom correction.
    """

    coefficients: tuple[Array, ...]
    std_errors: tuple[Array, ...]
    scales: Array


def fit_naive(problem: Problem, engine: Engine) -> Naive:
    """Fit every alternative by least squares on its own rows, in one pass."""
    sums = engine.sum(partial(_grams, problem))
    if problem.layout.ties is not None:
        return _fit_restricted(problem, problem.layout.ties, _pairs(sums))
    units = problem.units
    coefficients, std_errors, scales = [], [], []
    for equation, (gram, count) in zip(problem.equations.each, _pairs(sums), strict=True):
        size = len(equation.columns)
        if count == 0:
            # Chosen, but its outcome was never recorded: there is nothing to regress.
            coefficients.append(np.full(size, np.nan))
            std_errors.append(np.full(size, np.nan))
            scales.append(np.nan)
            continue
        inverse = np.linalg.pinv(gram[:size, :size], rcond=1e-12, hermitian=True)
        slope = inverse @ gram[:size, size]
        left_over = max(float(gram[size, size] - slope @ gram[:size, size]), 0.0)
        variance = left_over / max(count - size, 1.0)
        carry = _to_user_units(units.unit, units.shift, equation.columns) * units.outcome_unit
        shift = np.array([units.outcome_shift if c == 0 else 0.0 for c in equation.columns])
        coefficients.append(carry @ slope + shift)
        std_errors.append(np.sqrt(np.diag(carry @ inverse @ carry.T) * variance))
        scales.append(np.sqrt(variance) * units.outcome_unit)
    return Naive(tuple(coefficients), tuple(std_errors), np.array(scales))


def _fit_restricted(problem: Problem, ties: Ties, sums: list[tuple[Array, float]]) -> Naive:
    """Fit all alternatives at once, each by its own rows, with the coefficients they share."""
    units, equations = problem.units, problem.equations
    total, towards = ties.gather_grams([gram for gram, _ in sums])
    inverse = np.linalg.pinv(total, rcond=1e-12, hermitian=True)
    every = ties.coefficients(inverse @ towards)
    n_parameters = np.array(equations.own_terms) + len(equations.shared) / len(sums)
    variances = np.full(len(sums), np.nan)
    spread = np.zeros_like(total)
    for j, (gram, count) in enumerate(sums):
        if count == 0:
            continue
        own = ties.alternative == j
        residual = np.append(-every[own], 1.0)
        variances[j] = max(residual @ gram @ residual, 0.0) / max(count - n_parameters[j], 1.0)
        matrix = ties.matrix[own]
        spread += variances[j] * matrix.T @ gram[:-1, :-1] @ matrix
    covariance = inverse @ spread @ inverse
    coefficients, std_errors = [], []
    for j, equation in enumerate(equations.each):
        own = ties.alternative == j
        carry = _to_user_units(units.unit, units.shift, equation.columns) * units.outcome_unit
        shift = np.array([units.outcome_shift if c == 0 else 0.0 for c in equation.columns])
        along = carry @ ties.matrix[own]
        kept = slice(len(equation.estimated))
        coefficients.append((carry @ every[own] + shift)[kept])
        std_errors.append(np.sqrt(np.diag(along @ covariance @ along.T))[kept])
    scales = np.sqrt(variances) * units.outcome_unit
    return Naive(tuple(coefficients), tuple(std_errors), scales)


def _grams(problem: Problem, batch: Batch) -> Parts:
    rows = batch.rows
    assert rows.outcome is not None
    parts: list[Array | float] = []
    for j, equation in enumerate(problem.equations.each):
        mine = ~np.isnan(rows.outcome)
        if rows.chosen is not None:
            mine &= rows.chosen == j
        own = rows if mine.all() else rows.take(np.flatnonzero(mine))
        assert own.outcome is not None
        joined = np.column_stack(
            [
                problem.units.design(own.covariates, equation.columns),
                problem.units.limits(own.outcome),
            ]
        )
        weighted = joined if own.weights is None else joined * own.weights[:, None]
        parts += [
            joined.T @ weighted,
            float(len(own) if own.weights is None else own.weights.sum()),
        ]
    return Parts(parts)


def _pairs(sums: Parts) -> list[tuple[Array, float]]:
    return list(zip(sums[::2], sums[1::2], strict=True))


def _to_user_units(unit: Array, shift: Array, columns: tuple[int, ...]) -> Array:
    """Return the matrix that carries coefficients of internal covariates to the user's."""
    carry = np.diag([1.0 / unit[column] for column in columns])
    if 0 in columns:
        constant = columns.index(0)
        for place, column in enumerate(columns):
            if column != 0:
                carry[constant, place] = -shift[column] / unit[column]
    return carry
