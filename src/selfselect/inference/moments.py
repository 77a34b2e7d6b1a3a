r"""Conditional moments of the noise: what a row says of its shape and spread, under any model.

* *shape*: :math:`E[\mathrm{He}_r(z_j) \mid \text{row}]` of orders 3 and 4, where :math:`z_j` is the
  noise of alternative j on the scale of its normal scores, the noise itself where it is normal.
  They are the scores of skewness and kurtosis in a density
  :math:`\phi (1 + c_3 \mathrm{He}_3 + c_4 \mathrm{He}_4)` at zero.
* *spread*: the score of :math:`\gamma` in :math:`\sigma_j e^{\gamma x}` at zero, which is the score
  of the log scale times the covariate.

Both average zero under the model, by definition; a likelihood's `RowTerms` know them.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from selfselect.likelihoods import Batch, RowTerms, row_terms
from selfselect.problem.problem import Problem

__all__ = [
    "SUBJECTS",
    "Subject",
    "moments_of",
    "noise_moments",
    "row_residuals",
    "steady_columns",
]

Array = NDArray[np.float64]

Subject = Literal["normality", "heteroskedasticity"]
SUBJECTS: tuple[Subject, ...] = ("normality", "heteroskedasticity")


def noise_moments(problem: Problem, natural: Array, batch: Batch) -> dict[Subject, Array]:
    """Return what each row says against the shape (n, 2m), and against a constant variance.

    The first are skewness and kurtosis of every noise; the second, (n, p), its excess variance
    times each covariate of its equation that is assumed not to move its scale.
    """
    return moments_of(row_terms(problem, natural, batch))


def moments_of(terms: RowTerms) -> dict[Subject, Array]:
    """Return the same of rows whose terms are in hand."""
    problem, excess = terms.problem, terms.excess
    third, fourth = terms.hermite[3:]
    spread: list[Array] = []
    steady = steady_columns(problem)
    for j, (equation, columns) in enumerate(zip(problem.equations.each, steady, strict=True)):
        covariates = terms.designs[j].T
        spread += [covariates[equation.columns.index(one)] * excess[:, j] for one in columns]
    return {
        "normality": np.stack([third.T, fourth.T], axis=1).reshape(-1, len(third)).T,
        "heteroskedasticity": np.stack(spread).T if spread else np.empty((len(third), 0)),
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
    """Return generalised residuals (n, m): E[z | row] of every noise's normal score."""
    return row_terms(problem, natural, batch).hermite[1]
