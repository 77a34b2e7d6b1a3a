"""Evaluating problems in which the outcome of a given rank was seen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.ranked import Sides, sides_of_others
from selfselect.kernels.unknown_index import Curvature
from selfselect.problem.batch import Batch, Evaluation
from selfselect.problem.problem import Problem

__all__ = ["evaluate_ranked", "find_sides", "ranked_score_blocks"]

Array = NDArray[np.float64]


def _designs(problem: Problem, batch: Batch) -> tuple[list[Array], Array]:
    """Return every alternative's design and the outcome, in internal units."""
    made: dict[tuple[int, ...], Array] = {}
    for equation in problem.equations.each:
        if equation.columns not in made:
            made[equation.columns] = problem.units.design(batch.rows.covariates, equation.columns)
    designs = [made[equation.columns] for equation in problem.equations.each]
    return designs, problem.units.limits(batch.observation.limit[:, 0])


def find_sides(problem: Problem, natural: Array, batch: Batch, *, pairs: bool) -> Sides:
    """Say of each row on which side of its outcome the others lie."""
    layout = problem.layout
    designs, outcome = _designs(problem, batch)
    h = natural[layout.inverse_scale_positions]
    location = np.column_stack(
        [
            design @ natural[layout.starts[j] : layout.inverse_scale_positions[j]]
            for j, design in enumerate(designs)
        ]
    )
    assert batch.rows.chosen is not None and problem.rank is not None
    a = h * outcome[:, None] - location
    return sides_of_others(a, np.log(h), batch.rows.chosen, problem.rank, pairs=pairs)


def ranked_score_blocks(problem: Problem, natural: Array, batch: Batch) -> list[Array]:
    """Return each row's unweighted score, per alternative (n, p_j + 1)."""
    designs, outcome = _designs(problem, batch)
    sides = find_sides(problem, natural, batch, pairs=False)
    h = natural[problem.layout.inverse_scale_positions]
    assert batch.rows.chosen is not None
    return [
        np.column_stack(
            [
                design * sides.residual[:, [j]],
                (batch.rows.chosen == j) / h[j] - sides.residual[:, j] * outcome,
            ]
        )
        for j, design in enumerate(designs)
    ]


def evaluate_ranked(
    problem: Problem, natural: Array, batch: Batch, curvature: Curvature
) -> Evaluation:
    """Evaluate the log-likelihood on a batch."""
    layout = problem.layout
    designs, outcome = _designs(problem, batch)
    sides = find_sides(problem, natural, batch, pairs=curvature == "exact")
    h = natural[layout.inverse_scale_positions]
    assert batch.rows.chosen is not None
    weights = np.ones(len(batch)) if batch.rows.weights is None else batch.rows.weights
    seen = np.bincount(batch.rows.chosen, weights=weights, minlength=len(h))
    score = np.empty(len(natural))
    hessian = np.zeros((1, 1) if curvature == "none" else (len(natural), len(natural)))
    joined = [np.column_stack([design, -outcome]) for design in designs]
    for j, z in enumerate(joined):
        own = slice(layout.starts[j], layout.starts[j + 1])
        score[own] = z.T @ (weights * sides.residual[:, j])
        score[own.stop - 1] += seen[j] / h[j]
        if curvature == "none":
            continue
        spread = sides.complete[:, j].copy()
        if curvature == "exact":
            above = sides.above[:, j]
            spread += above * (1.0 - above) * sides.gap[:, j] ** 2
        hessian[own, own] = z.T @ (z * (weights * spread)[:, None])
        hessian[own.stop - 1, own.stop - 1] -= seen[j] / h[j] ** 2
    for (j, m), both in sides.both.items():
        mixed = both - sides.above[:, j] * sides.above[:, m]
        factor = weights * mixed * sides.gap[:, j] * sides.gap[:, m]
        block = joined[j].T @ (joined[m] * factor[:, None])
        first = slice(layout.starts[j], layout.starts[j + 1])
        second = slice(layout.starts[m], layout.starts[m + 1])
        hessian[first, second], hessian[second, first] = block, block.T
    loglik = float(weights @ sides.loglik) + problem.unit_correction(batch.rows)
    return Evaluation(loglik, score, hessian)
