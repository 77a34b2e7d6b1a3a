"""Gram matrices of covariates and outcome: what least squares and checks of rank need of rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from selfselect.problem.batch import Batch, Parts
from selfselect.problem.problem import Problem
from selfselect.problem.units import by_columns

__all__ = ["sum_columns", "sum_grams"]

Array = NDArray[np.float64]


def sum_grams(problem: Problem, batch: Batch) -> Parts:
    """Return Z'Z per alternative over a batch, Z = [covariates, outcome] in internal units."""
    rows = batch.rows
    assert rows.outcome is not None
    outcome, weights = problem.units.limits(rows.outcome), rows.weights
    if problem.partial:
        recorded = ~np.isnan(outcome)
        weights = recorded * (1.0 if weights is None else weights)
        outcome = np.where(recorded, outcome, 0.0)

    def gram(columns: tuple[int, ...]) -> Array:
        # Columns lie one after the other; turning them around takes longer than their products.
        joined = np.empty((len(columns) + 1, len(outcome))).T
        joined[:, :-1] = problem.units.design(rows.covariates, columns)
        joined[:, -1] = outcome
        weighted = joined if weights is None else joined * weights[:, None]
        return np.asarray(joined.T @ weighted)

    return Parts(by_columns(problem.equations, gram))


def sum_columns(problem: Problem, batch: Batch) -> Array:
    """Return the sums of the first alternative's covariates over a batch, in internal units."""
    equation, weights = problem.equations.each[0], batch.rows.weights
    design = problem.units.design(batch.rows.covariates, equation.columns)
    return design.sum(axis=0) if weights is None else np.asarray(weights @ design)
