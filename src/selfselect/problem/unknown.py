"""Evaluating problems in which nobody recorded who was seen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.status import MAYBE
from selfselect.kernels.unknown_index import (
    Curvature,
    Memberships,
    memberships,
    row_scores,
    sum_places,
    sum_rows,
)
from selfselect.problem._fused import fused_arguments, spread
from selfselect.problem.batch import Batch, Evaluation, Parts
from selfselect.problem.problem import Problem

__all__ = [
    "evaluate_unknown",
    "evaluate_unknown_places",
    "find_memberships",
    "sum_chances",
    "unknown_score_blocks",
]

Array = NDArray[np.float64]

ROWS_AT_ONCE = 4_096
"""Rows whose scores, one number per parameter, NumPy holds at once for the exact Hessian."""


@dataclass(frozen=True, eq=False)
class UnknownInputs:
    """What the kernels of the unknown index take: designs, parameters, outcomes, candidates."""

    designs: list[Array]
    g: list[Array]
    h: Array
    limit: Array
    candidate: NDArray[np.bool_] | None


def evaluate_unknown(
    problem: Problem, natural: Array, batch: Batch, curvature: Curvature
) -> Evaluation:
    """Evaluate the log-likelihood on a batch, with as much of the Hessian as is wanted."""
    if batch.backend == "fused":
        # Imported here: numba costs a second, which only large data repays.
        from selfselect.kernels.fused_unknown import sum_unknown_index

        fused = sum_unknown_index(
            **fused_arguments(problem, natural, batch),
            side=problem.side,
            curvature=curvature,
        )
        return spread(problem, batch, fused, curvature)
    if len(batch) > ROWS_AT_ONCE:
        parts = [
            evaluate_unknown(problem, natural, batch.take(slice(at, at + ROWS_AT_ONCE)), curvature)
            for at in range(0, len(batch), ROWS_AT_ONCE)
        ]
        return reduce(add, parts)
    given = unknown_inputs(problem, natural, batch)
    sums = sum_rows(
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


def evaluate_unknown_places(problem: Problem, naturals: Array, batch: Batch) -> Parts:
    """Return log-likelihoods (s,) and scores (s, m) at natural parameters (s, m), by NumPy."""
    layout = problem.layout
    given = unknown_inputs(problem, naturals[0], batch)
    logliks, scores = sum_places(
        given.designs,
        [
            naturals[:, start:end]
            for start, end in zip(layout.starts, layout.inverse_scale_positions, strict=False)
        ],
        naturals[:, layout.inverse_scale_positions],
        given.limit,
        side=problem.side,
        candidate=given.candidate,
        weights=batch.rows.weights,
    )
    return Parts((logliks + problem.unit_correction(batch.rows), scores))


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


def sum_chances(problem: Problem, natural: Array, batch: Batch) -> Array:
    """Return the weight (k,) of the rows in which each alternative is expected to be seen."""
    found = find_memberships(problem, natural, batch)
    weights = 1.0 if batch.rows.weights is None else batch.rows.weights[:, None]
    return np.asarray((found.chance * weights).sum(axis=0))


def unknown_score_blocks(problem: Problem, natural: Array, batch: Batch) -> list[Array]:
    """Return each row's unweighted score, per alternative (n, p_j + 1)."""
    given = unknown_inputs(problem, natural, batch)
    found = find_memberships(problem, natural, batch)
    return [
        row_scores(design, found, j, inverse_scale=given.h[j], limit=given.limit, side=problem.side)
        for j, design in enumerate(given.designs)
    ]
