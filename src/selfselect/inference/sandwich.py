"""The middle of sandwich covariances: how much the score varies, by rows or by clusters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.engines.base import Engine, Parts
from selfselect.errors import OptionError
from selfselect.problem.evaluation import Batch, score_blocks
from selfselect.problem.problem import Problem

__all__ = [
    "cluster_meat",
    "cluster_products",
    "cluster_sizes",
    "cluster_totals",
    "free_scores",
    "make_positive",
    "row_meat",
]

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


@dataclass(frozen=True, eq=False)
class ClusterTotals:
    """Summed scores of the clusters met so far; adding joins what is said of the same cluster."""

    codes: Indices
    totals: Array

    @classmethod
    def of_rows(cls, codes: Indices, scores: Array) -> ClusterTotals:
        """Sum the scores (n, p) of rows by their clusters (n,)."""
        present, place = np.unique(codes, return_inverse=True)
        totals = np.zeros((len(present), scores.shape[1]))
        np.add.at(totals, place, scores)
        return cls(present, totals)

    def __add__(self, other: ClusterTotals) -> ClusterTotals:
        return ClusterTotals.of_rows(
            np.concatenate([self.codes, other.codes]), np.vstack([self.totals, other.totals])
        )


def cluster_meat(
    problem: Problem, engine: Engine, natural: Array, sizes: tuple[int, ...]
) -> tuple[Array, list[int]]:
    """Return the summed outer products of clusters' scores, and how many clusters there are.

    `sizes` says how many clusters each way of clustering has.
    """
    found = engine.sum(partial(_cluster_totals, problem, natural, sizes))
    return cluster_products(found, len(sizes))


def _cluster_totals(
    problem: Problem, natural: Array, sizes: tuple[int, ...], batch: Batch
) -> Parts:
    return cluster_totals(batch.rows, free_scores(problem, natural, batch), sizes)


def cluster_totals(rows: Rows, values: Array, sizes: tuple[int, ...]) -> Parts:
    """Sum what rows say (n, p), weights included, by clusters: one sum per join of ways."""
    assert rows.clusters is not None
    ways = rows.clusters.reshape(len(rows), -1)
    if rows.weights is not None:
        # Clusters of rows without weight do not count.
        counted = rows.weights > 0
        ways, values = ways[counted], values[counted]
    return Parts(
        ClusterTotals.of_rows(_joined(ways, which, sizes), values)
        for which in _every_join(len(sizes))
    )


def cluster_products(found: Parts, n_ways: int) -> tuple[Array, list[int]]:
    """Return the summed outer products of clusters' totals, and how many clusters there are.

    With several ways of clustering those of all single ways are added, those of the
    intersections of two ways subtracted, of three added, and so on (Cameron, Gelbach and Miller
    2011), each with its own small-sample factor G/(G - 1).
    """
    products = np.zeros((found[0].totals.shape[1],) * 2)
    counts: list[int] = []
    for which, clusters in zip(_every_join(n_ways), found, strict=True):
        count = len(clusters.codes)
        if len(which) == 1:
            counts.append(count)
        if count < 2:
            raise OptionError("There is only one cluster, so nothing can be said of its spread.")
        totals = clusters.totals
        products += (-1.0) ** (len(which) + 1) * count / (count - 1.0) * (totals.T @ totals)
    return products, counts


def cluster_sizes(engine: Engine) -> tuple[int, ...]:
    """Return how many clusters there are, one number per way; nothing where there are none."""
    if engine.holds_rows:
        return engine.rows.cluster_sizes
    largest: Largest = engine.sum(_largest_codes)
    return tuple((largest.codes + 1).tolist())


@dataclass(frozen=True, eq=False)
class Largest:
    """The largest cluster number met so far, by way of clustering; adding takes the larger."""

    codes: Indices

    def __add__(self, other: Largest) -> Largest:
        return Largest(np.maximum(self.codes, other.codes))


def _largest_codes(batch: Batch) -> Largest:
    if batch.rows.clusters is None:
        return Largest(np.empty(0, dtype=np.intp))
    return Largest(batch.rows.clusters.reshape(len(batch), -1).max(axis=0, initial=-1))


def _every_join(n_ways: int) -> list[tuple[int, ...]]:
    return [which for n in range(1, n_ways + 1) for which in combinations(range(n_ways), n)]


def _joined(ways: Indices, which: tuple[int, ...], sizes: tuple[int, ...]) -> Indices:
    """Return a number for each intersection of some ways of clustering."""
    code = np.zeros(len(ways), dtype=np.intp)
    for way in which:
        code = code * sizes[way] + ways[:, way]
    return code


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
