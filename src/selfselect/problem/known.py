"""Evaluating problems in which it is known who was seen and explaining sets are boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.kernels.known_index import RowTerms, row_scores, row_terms, sum_rows
from selfselect.kernels.status import BETWEEN, UNKNOWN
from selfselect.kernels.unknown_index import Curvature
from selfselect.problem._fused import fused_arguments, spread
from selfselect.problem.batch import Batch, Evaluation
from selfselect.problem.observation import Observation
from selfselect.problem.problem import Problem

__all__ = ["alternative_terms", "evaluate_known", "known_score_blocks"]

Array = NDArray[np.float64]


def evaluate_known(
    problem: Problem, natural: Array, batch: Batch, curvature: Curvature = "exact"
) -> Evaluation:
    """Evaluate the concave log-likelihood of boxes on a batch; only "none" spares the Hessian."""
    if batch.backend != "fused":
        return _evaluate_numpy(problem, natural, batch, curvature)
    # Imported here: numba costs a second, which only large data repays.
    from selfselect.kernels.fused_known import sum_known_index

    arguments = fused_arguments(problem, natural, batch)
    evaluation = spread(
        problem, batch, sum_known_index(**arguments, curvature=curvature), curvature
    )
    if batch.observation.upper is not None:
        evaluation = evaluation + _evaluate_numpy(problem, natural, _only_between(batch), curvature)
    return evaluation


def alternative_terms(
    problem: Problem, natural: Array, batch: Batch, alternative: int
) -> tuple[Array, RowTerms]:
    """Return the design (n, p) of one alternative in internal units, and its row terms."""
    layout, units, observation = problem.layout, problem.units, batch.observation
    start, at_h = layout.starts[alternative], layout.inverse_scale_positions[alternative]
    design = units.design(batch.rows.covariates, problem.equations.each[alternative].columns)
    terms = row_terms(
        design @ natural[start:at_h],
        float(natural[at_h]),
        status=observation.status[:, alternative],
        limit=units.limits(observation.limit_of(alternative)),
        upper=None
        if observation.upper is None
        else units.limits(observation.upper[:, alternative]),
    )
    return design, terms


def known_score_blocks(problem: Problem, natural: Array, batch: Batch) -> list[Array]:
    """Return each row's unweighted score, per alternative (n, p_j + 1)."""
    return [
        row_scores(*alternative_terms(problem, natural, batch, j))
        for j in range(problem.equations.n_alternatives)
    ]


def _evaluate_numpy(
    problem: Problem, natural: Array, batch: Batch, curvature: Curvature
) -> Evaluation:
    total = len(natural)
    loglik, score, hessian = 0.0, np.empty(total), np.zeros((total, total))
    for j in range(problem.equations.n_alternatives):
        design, terms = alternative_terms(problem, natural, batch, j)
        sums = sum_rows(design, terms, batch.rows.weights, curved=curvature != "none")
        own = slice(problem.layout.starts[j], problem.layout.starts[j + 1])
        loglik += sums.loglik
        score[own] = sums.score
        hessian[own, own] = sums.hessian
    return Evaluation(loglik + problem.unit_correction(batch.rows), score, hessian)


def _only_between(batch: Batch) -> Batch:
    """Keep the two-sided entries, which the fused kernel leaves to NumPy."""
    which = np.flatnonzero((batch.observation.status == BETWEEN).any(axis=1))
    part = batch.take(which)
    status: Any = np.where(part.observation.status == BETWEEN, BETWEEN, UNKNOWN).astype(np.int8)
    kept = Observation(status, part.observation.limit, part.observation.upper)
    # Without an outcome the rows add no unit correction a second time.
    rows = Rows(part.rows.covariates, weights=part.rows.weights)
    return Batch(rows, kept, "numpy")
