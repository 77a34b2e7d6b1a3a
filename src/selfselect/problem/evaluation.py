"""Evaluations: what is summed over rows. Evaluation + evaluation = evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.kernels.known_index import RowTerms, row_terms, sum_rows
from selfselect.kernels.known_index import row_scores as known_row_scores
from selfselect.kernels.status import BETWEEN, MAYBE, UNKNOWN
from selfselect.kernels.unknown_index import Curvature, Memberships, memberships
from selfselect.kernels.unknown_index import row_scores as unknown_row_scores
from selfselect.kernels.unknown_index import sum_rows as sum_unknown
from selfselect.problem.observation import Observation
from selfselect.problem.problem import Problem

__all__ = [
    "Backend",
    "Batch",
    "Evaluation",
    "alternative_terms",
    "evaluate",
    "find_memberships",
    "score_blocks",
]

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
class UnknownInputs:
    """What the kernels of the unknown index take: designs, parameters, outcomes, candidates."""

    designs: list[Array]
    g: list[Array]
    h: Array
    limit: Array
    candidate: NDArray[np.bool_] | None


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


def evaluate(
    problem: Problem, natural: Array, batch: Batch, *, curvature: Curvature = "exact"
) -> Evaluation:
    """Evaluate the log-likelihood on a batch.

    Parameters
    ----------
    problem : the model.
    natural : (n_natural,) parameters in internal units.
    batch : rows.
    curvature : how much of the Hessian is wanted where the index is unknown; zero where none is.
    """
    if problem.index == "unknown":
        return _evaluate_unknown(problem, natural, batch, curvature)
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


def unknown_inputs(problem: Problem, natural: Array, batch: Batch) -> UnknownInputs:
    """Return what the kernels of the unknown index take, in internal units."""
    layout, units = problem.layout, problem.units
    made: dict[tuple[int, ...], Array] = {}
    for equation in problem.equations.each:
        if equation.columns not in made:
            made[equation.columns] = units.design(batch.rows.covariates, equation.columns)
    status = batch.observation.status
    return UnknownInputs(
        [made[equation.columns] for equation in problem.equations.each],
        [natural[s:e] for s, e in zip(layout.starts, layout.inverse_scale_positions, strict=False)],
        natural[layout.inverse_scale_positions],
        units.limits(batch.observation.limit[:, 0]),
        None if batch.rows.known.available is None else status == MAYBE,
    )


def find_memberships(problem: Problem, natural: Array, batch: Batch) -> Memberships:
    """Say of each row who is likely to have been seen."""
    given = unknown_inputs(problem, natural, batch)
    location = np.column_stack([x @ g for x, g in zip(given.designs, given.g, strict=True)])
    return memberships(location, given.h, given.limit, side=problem.side, candidate=given.candidate)


def score_blocks(problem: Problem, natural: Array, batch: Batch) -> list[Array]:
    """Return each row's unweighted score, per alternative (n, p_j + 1)."""
    if problem.index == "known":
        return [
            known_row_scores(*alternative_terms(problem, natural, batch, j))
            for j in range(problem.equations.n_alternatives)
        ]
    given = unknown_inputs(problem, natural, batch)
    found = find_memberships(problem, natural, batch)
    return [
        unknown_row_scores(
            design, found, j, inverse_scale=given.h[j], limit=given.limit, side=problem.side
        )
        for j, design in enumerate(given.designs)
    ]


def _evaluate_unknown(
    problem: Problem, natural: Array, batch: Batch, curvature: Curvature
) -> Evaluation:
    given = unknown_inputs(problem, natural, batch)
    sums = sum_unknown(
        given.designs,
        given.h,
        given.limit,
        side=problem.side,
        candidate=given.candidate,
        weights=batch.rows.weights,
        natural_g=given.g,
        curvature=curvature,
    )
    hessian = np.zeros((1, 1)) if sums.hessian is None else sums.hessian
    return Evaluation(sums.loglik + problem.unit_correction(batch.rows), sums.score, hessian)


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
