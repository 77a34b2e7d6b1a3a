"""The middle of sandwich covariances: how much the score varies, by rows or by clusters."""

from __future__ import annotations

from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine, Parts
from selfselect.errors import OptionError
from selfselect.problem.evaluation import Batch, score_blocks
from selfselect.problem.problem import Problem

__all__ = ["cluster_meat", "free_scores", "make_positive", "row_meat"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

ROUNDING = 1e-10
"""Relative size below which a negative eigenvalue is rounding, not a covariance gone wrong."""


def free_scores(problem: Problem, natural: Array, batch: Batch) -> Array:
    """Return each row's weighted score in the free parameters, shape (n, n_free)."""
    scores = np.column_stack(score_blocks(problem, natural, batch))
    if batch.rows.weights is not None:
        scores *= batch.rows.weights[:, None]
    return problem.layout.pull_back_vector(scores, problem.layout.gather(natural))


def row_meat(problem: Problem, engine: Engine, natural: Array, *, repeated: bool) -> Array:
    """Return the summed outer products of scores.

    Weights are sampling weights, which multiply a row's score, unless rows are `repeated`: then
    each stands for as many of its kind, all with the same score.
    """
    meat, count = engine.sum(partial(_row_products, problem, natural, repeated))
    middle: Array = meat * count / (count - 1.0)
    return middle


def _row_products(problem: Problem, natural: Array, repeated: bool, batch: Batch) -> Parts:
    scores, weights = free_scores(problem, natural, batch), batch.rows.weights
    if weights is None:
        return Parts((scores.T @ scores, float(len(batch))))
    if not repeated:
        return Parts((scores.T @ scores, float((weights > 0).sum())))
    positive = weights > 0
    kept = scores[positive]
    return Parts((kept.T @ (kept / weights[positive, None]), float(weights.sum())))


def cluster_meat(
    problem: Problem, engine: Engine, natural: Array, clusters: Indices
) -> tuple[Array, list[int]]:
    """Return the summed outer products of clusters' scores, and how many clusters there are.

    With several ways of clustering those of all single ways are added, those of the
    intersections of two ways subtracted, of three added, and so on (Cameron, Gelbach and Miller
    2011), each with its own small-sample factor G/(G - 1).
    """
    ways = clusters.reshape(len(clusters), -1)
    weights = engine.rows.weights
    counted = ways if weights is None else ways[weights > 0]
    sizes = ways.max(axis=0) + 1
    meat = np.zeros((problem.layout.n_free,) * 2)
    counts: list[int] = []
    for n_ways in range(1, ways.shape[1] + 1):
        for which in combinations(range(ways.shape[1]), n_ways):
            present = np.unique(_joined(counted, which, sizes))
            if n_ways == 1:
                counts.append(len(present))
            if len(present) < 2:
                raise OptionError(
                    "There is only one cluster, so nothing can be said of its spread."
                )
            task = partial(_cluster_totals, problem, natural, which, sizes, present)
            totals = engine.sum(task)
            factor = len(present) / (len(present) - 1.0)
            meat += (-1.0) ** (n_ways + 1) * factor * (totals.T @ totals)
    return meat, counts


def _joined(ways: Indices, which: tuple[int, ...], sizes: Indices) -> Indices:
    """Return a number for each intersection of some ways of clustering."""
    code = np.zeros(len(ways), dtype=np.intp)
    for way in which:
        code = code * sizes[way] + ways[:, way]
    return code


def _cluster_totals(
    problem: Problem,
    natural: Array,
    which: tuple[int, ...],
    sizes: Indices,
    present: Indices,
    batch: Batch,
) -> Array:
    assert batch.rows.clusters is not None
    code = _joined(batch.rows.clusters.reshape(len(batch), -1), which, sizes)
    # Clusters of rows without weight are not present; their scores are zero wherever they go.
    place = np.minimum(np.searchsorted(present, code), len(present) - 1)
    totals = np.zeros((len(present), problem.layout.n_free))
    np.add.at(totals, place, free_scores(problem, natural, batch))
    return totals


def make_positive(meat: Array, information: Array) -> tuple[Array, bool]:
    """Set negative eigenvalues of a difference of covariances to zero, and say if any were.

    They are those of the sandwich in units of the information, so what is repaired does not
    depend on the units of the covariates.
    """
    try:
        root = np.linalg.cholesky(information)
    except np.linalg.LinAlgError:
        return meat, False
    half = np.linalg.solve(root, meat)
    values, axes = np.linalg.eigh(np.linalg.solve(root, half.T))
    if values[0] >= -ROUNDING * abs(values[-1]):
        return meat, False
    carry = root @ axes
    return (carry * np.maximum(values, 0.0)) @ carry.T, True
