"""Evaluations: what is summed over rows. Evaluation + evaluation = evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.kernels.known_index import RowTerms, row_terms, sum_rows
from selfselect.kernels.status import BETWEEN, UNKNOWN
from selfselect.problem.observation import Observation
from selfselect.problem.problem import Problem

__all__ = ["Backend", "Batch", "Evaluation", "alternative_terms", "evaluate"]

Array = NDArray[np.float64]
Backend = Literal["numpy", "fused"]


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows with what was observed in them: the unit an engine hands to a task."""

    rows: Rows
    observation: Observation
    backend: Backend = "numpy"

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, which: slice | NDArray[np.intp]) -> Batch:
        """Keep the rows `which`; a slice makes views, not copies."""
        return Batch(self.rows.take(which), self.observation.take(which), self.backend)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The log-likelihood of some rows, its score and Hessian in the natural parameters."""

    loglik: float
    score: Array
    hessian: Array

    def __add__(self, other: Evaluation) -> Evaluation:
        return Evaluation(
            self.loglik + other.loglik, self.score + other.score, self.hessian + other.hessian
        )


def evaluate(problem: Problem, natural: Array, batch: Batch) -> Evaluation:
    """Evaluate the known-index log-likelihood on a batch.

    Parameters
    ----------
    problem : the model.
    natural : (n_natural,) parameters in internal units.
    batch : rows.
    """
    if batch.backend == "numpy":
        return _evaluate_numpy(problem, natural, batch)
    evaluation = _evaluate_fused(problem, natural, batch)
    if batch.observation.upper is not None:
        evaluation = evaluation + _evaluate_numpy(problem, natural, _only_between(batch))
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


def _evaluate_numpy(problem: Problem, natural: Array, batch: Batch) -> Evaluation:
    total = len(natural)
    loglik, score, hessian = 0.0, np.empty(total), np.zeros((total, total))
    for j in range(problem.equations.n_alternatives):
        sums = sum_rows(*alternative_terms(problem, natural, batch, j), batch.rows.weights)
        own = slice(problem.layout.starts[j], problem.layout.starts[j + 1])
        loglik += sums.loglik
        score[own] = sums.score
        hessian[own, own] = sums.hessian
    return Evaluation(loglik + problem.unit_correction(batch.rows), score, hessian)


def _evaluate_fused(problem: Problem, natural: Array, batch: Batch) -> Evaluation:
    # Imported here: numba costs a second, which only large data repays.
    from selfselect.kernels.fused import sum_known_index

    layout, units, observation = problem.layout, problem.units, batch.observation
    n_alternatives, widest = len(layout.sizes), max(layout.sizes)
    columns = np.full((n_alternatives, widest), -1, dtype=np.int64)
    g = np.zeros((n_alternatives, widest))
    for j, (equation, start) in enumerate(zip(problem.equations.each, layout.starts, strict=False)):
        columns[j, : layout.sizes[j]] = equation.columns
        g[j, : layout.sizes[j]] = natural[start : start + layout.sizes[j]]
    sums = sum_known_index(
        batch.rows.covariates,
        observation.status,
        observation.limit,
        batch.rows.weights,
        columns=columns,
        sizes=np.array(layout.sizes, dtype=np.int64),
        shift=units.shift,
        unit=units.unit,
        limit_shift=units.outcome_shift,
        limit_unit=units.outcome_unit,
        g=g,
        h=natural[layout.inverse_scale_positions],
    )
    total = len(natural)
    score, hessian = np.empty(total), np.zeros((total, total))
    for j, size in enumerate(layout.sizes):
        own = np.arange(layout.starts[j], layout.starts[j + 1])
        within = np.append(np.arange(size), widest)
        score[own] = sums.score[j, within]
        hessian[np.ix_(own, own)] = sums.hessian[j][np.ix_(within, within)]
    return Evaluation(sums.loglik + problem.unit_correction(batch.rows), score, hessian)


def _only_between(batch: Batch) -> Batch:
    """Keep the two-sided entries, which the fused kernel leaves to NumPy."""
    which = np.flatnonzero((batch.observation.status == BETWEEN).any(axis=1))
    part = batch.take(which)
    status: Any = np.where(part.observation.status == BETWEEN, BETWEEN, UNKNOWN).astype(np.int8)
    kept = Observation(status, part.observation.limit, part.observation.upper)
    # Without an outcome the rows add no unit correction a second time.
    rows = Rows(part.rows.covariates, weights=part.rows.weights)
    return Batch(rows, kept, "numpy")
