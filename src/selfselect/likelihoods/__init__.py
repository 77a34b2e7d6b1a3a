"""Likelihoods: what each row says under a problem, and the sums that solvers ask engines for.

The functions here are what engines are given as tasks: a problem, parameters, then a batch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods.base import Asked, Likelihood, RowSums, RowTerms
from selfselect.problem.batch import Backend, Batch, Evaluation, Parts
from selfselect.problem.problem import Problem

__all__ = [
    "Asked",
    "Backend",
    "Batch",
    "Evaluation",
    "Likelihood",
    "RowSums",
    "RowTerms",
    "evaluate",
    "evaluate_places",
    "row_terms",
    "sum_chances",
    "sum_rows",
]

Array = NDArray[np.float64]


def evaluate(
    problem: Problem, natural: Array, batch: Batch, *, curvature: Curvature = "exact"
) -> Evaluation:
    """Evaluate the log-likelihood on a batch: see `Likelihood.evaluate`."""
    return problem.likelihood.evaluate(natural, batch, curvature)


def evaluate_places(problem: Problem, naturals: Array, batch: Batch) -> Parts:
    """Return log-likelihoods (s,) and scores (s, m) of a batch at natural parameters (s, m)."""
    return problem.likelihood.evaluate_places(naturals, batch)


def row_terms(problem: Problem, natural: Array, batch: Batch) -> RowTerms:
    """Say what each row of a batch says on its own."""
    return problem.likelihood.rows(natural, batch)


def sum_chances(problem: Problem, natural: Array, batch: Batch) -> Array:
    """Return the weight (k,) of the rows in which each alternative is expected to be chosen."""
    chance = row_terms(problem, natural, batch).chance
    weights = 1.0 if batch.rows.weights is None else batch.rows.weights[:, None]
    return np.asarray((chance * weights).sum(axis=0))


def sum_rows(problem: Problem, natural: Array, asked: Asked, batch: Batch) -> RowSums:
    """Add up what rows say of the noise and of the covariates: see `RowSums`."""
    return problem.likelihood.sum_rows(natural, batch, asked)
