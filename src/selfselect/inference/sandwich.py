r"""The middle of sandwich covariances: how much the score varies, by rows or by clusters.

Estimates are fitted to the very scores whose spread is measured, so the spread comes out too small:
by a lot where units are few, or where some weigh much more than others. With :math:`H` the
information and :math:`H_g` the part of unit g (a row or a cluster) in it, its score is replaced by

.. math:: s_g^* = (I - H_g H^{-1})^{-1/2} s_g,

which in least squares is the bias-reduced estimator CR2, for single rows HC2 (Bell and McCaffrey
2002). Where internal parameters bend, unlike coefficients and log scales, :math:`H_g` is that of
second derivatives in those (`Layout.straighten`), so it depends on no internal unit. Where units
are many the correction is negligible and the plain scores are taken, with the factor G/(G - 1); of
many clusters only the large ones are corrected.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.inference.dependence import (
    ClusterCount,
    ClusterTotals,
    every_join,
    join_ways,
    sign_of_join,
    without_negative_eigenvalues,
)
from selfselect.likelihoods import Batch, evaluate, row_terms
from selfselect.problem.batch import Parts
from selfselect.problem.problem import Problem

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

CORRECTED_CLUSTERS = 100
"""Clusters up to which the scores of many rows are corrected; each costs an evaluation of its own.
Of more clusters those are corrected that hold more than one part in so many of the rows."""

CORRECTED_ROWS, CORRECTED_NUMBERS = 2_000, 5_000_000
"""Rows, and numbers in their parts of the information, up to which those are found row by row; it
costs as many passes as there are parameters."""

LARGEST_SHARE = 0.99
"""Share of a unit in the information of a direction beyond which the correction no longer grows.
There the unit alone decides, and its score is zero."""

STEP = 1e-6
"""Step of the differences that give the rows' information, in internal units."""

LARGEST_ROUNDING = 1e-2
"""Part of a variance that may be rounding before it is not known."""

NEGLIGIBLE = 1e-6
"""Part of the variance by the information alone below which a variance is as good as zero."""


def free_scores(problem: Problem, natural: Array, batch: Batch) -> Array:
    """Return each row's weighted score in the free parameters, shape (n, n_free)."""
    scores = row_terms(problem, natural, batch).score
    if batch.rows.weights is not None:
        scores *= batch.rows.weights[:, None]
    return problem.layout.pull_back_vector(scores, problem.layout.gather(natural))


def reduce_bias(scores: Array, parts: Array, information: Array) -> Array:
    """Return scores (G, p) of units corrected for their parts (G, p, p) in the information.

    Where the information is singular or unknown they are returned as they are.
    """
    if not (np.isfinite(information).all() and np.isfinite(parts).all()):
        return scores
    try:
        root = np.linalg.cholesky(information)
    except np.linalg.LinAlgError:
        return scores
    inverse = np.linalg.inv(root)
    shares, axes = np.linalg.eigh(inverse @ parts @ inverse.T)
    growth = 1.0 / np.sqrt(1.0 - np.minimum(shares, LARGEST_SHARE))
    along = np.einsum("gij,gi->gj", axes, scores @ inverse.T)
    return np.asarray(np.einsum("gij,gj->gi", axes, growth * along) @ root.T)


def rows_are_few(problem: Problem, engine: Engine, *, repeated: bool) -> bool:
    """Whether the parts of single rows in the information are found.

    They are not where the log-likelihood has kinks: it has no second derivatives there. Where rows
    are `repeated`, all those count that they stand for.
    """
    size = problem.layout.n_free**2
    if not problem.noise.margin.smooth or engine.n_rows * size > CORRECTED_NUMBERS:
        return False
    count = engine.sum(_weight_of_rows) if repeated else float(engine.n_rows)
    return bool(count <= CORRECTED_ROWS and count * size <= CORRECTED_NUMBERS)


def _weight_of_rows(batch: Batch) -> float:
    return float(len(batch) if batch.rows.weights is None else batch.rows.weights.sum())


def row_meat(
    problem: Problem, engine: Engine, free: Array, information: Array, *, repeated: bool
) -> Array:
    """Return the summed outer products of scores.

    Weights are sampling weights, which multiply a row's score, unless rows are `repeated`: then
    each stands for as many of its kind, all with the same score.
    """
    few = rows_are_few(problem, engine, repeated=repeated)
    meat, count = row_products(
        problem, engine, free, information if few else None, repeated=repeated
    )
    return meat if few else meat * count / (count - 1.0)


def row_products(
    problem: Problem,
    engine: Engine,
    free: Array,
    information: Array | None = None,
    *,
    repeated: bool,
) -> tuple[Array, float]:
    """Return the summed outer products of scores, and how many rows they are of.

    Scores are corrected for their rows' parts in `information`, where it is given.
    """
    meat, count = engine.sum(partial(_row_products, problem, free, information, repeated))
    return meat, count


def _row_products(
    problem: Problem, free: Array, information: Array | None, repeated: bool, batch: Batch
) -> Parts:
    weights = batch.rows.weights
    if information is None:
        scores = free_scores(problem, problem.layout.natural(free), batch)
    else:
        scores = corrected_row_scores(problem, free, information, repeated, batch)
    if weights is None:
        return Parts((scores.T @ scores, float(len(batch))))
    if not repeated:
        return Parts((scores.T @ scores, float((weights > 0).sum())))
    positive = weights > 0
    kept = scores[positive]
    return Parts((kept.T @ (kept / weights[positive, None]), float(weights.sum())))


def corrected_row_scores(
    problem: Problem, free: Array, information: Array, repeated: bool, batch: Batch
) -> Array:
    """Return each row's weighted score (n, n_free), corrected for its part in the information.

    Where rows are `repeated`, the part is that of one of the rows that each stands for.
    """
    weights = batch.rows.weights
    scores = free_scores(problem, problem.layout.natural(free), batch)
    parts = _row_parts(problem, free, batch, scores)
    if repeated and weights is not None:
        parts /= np.where(weights > 0, weights, 1.0)[:, None, None]
    return reduce_bias(scores, parts, information)


def _row_parts(problem: Problem, free: Array, batch: Batch, scores: Array) -> Array:
    """Return each row's weighted part (n, p, p) in the information, by differences of scores."""
    slopes = np.empty((*scores.shape, len(free)))
    for place in range(len(free)):
        moved = free.copy()
        moved[place] += STEP
        there = free_scores(problem, problem.layout.natural(moved), batch)
        slopes[:, :, place] = (there - scores) / STEP
    hessians = 0.5 * (slopes + slopes.transpose(0, 2, 1))
    return -problem.layout.straighten(hessians, scores, free)


@dataclass(frozen=True, eq=False)
class ClusterScores:
    """Scores of the clusters of one way of clustering, or of an intersection of several.

    Attributes
    ----------
    which : the ways that are intersected.
    codes : (G,) numbers of the clusters, in order, as `join_ways` gives them.
    counted : how many they are.
    scores : (G, p) summed scores, corrected; where that would cost too much, times the root of
        G/(G - 1).
    """

    which: tuple[int, ...]
    codes: Indices
    counted: ClusterCount
    scores: Array


def cluster_scores(
    problem: Problem,
    engine: Engine,
    free: Array,
    information: Array,
    sizes: tuple[int, ...],
    *,
    repeated: bool,
) -> list[ClusterScores]:
    """Return the scores of clusters, of all ways of clustering and of all their intersections.

    `sizes` says how many clusters each way has; rows may be `repeated`, as in `rows_are_few`.
    """
    joins = every_join(len(sizes))
    few = rows_are_few(problem, engine, repeated=repeated)
    found = engine.sum(partial(_cluster_totals, problem, free, joins, sizes, few))
    made = []
    for which, clusters in zip(joins, found, strict=True):
        counted = clusters.counted
        if clusters.parts is None:
            scores = clusters.totals * np.sqrt(counted.count / (counted.count - 1.0))
            large = _large(problem, clusters, which)
            if len(large):
                task = partial(_large_parts, problem, free, which, sizes, clusters.codes[large])
                parts = engine.sum(task).parts
                assert parts is not None
                scores[large] = reduce_bias(clusters.totals[large], parts, information)
        else:
            scores = reduce_bias(clusters.totals, clusters.parts, information)
        made.append(ClusterScores(which, clusters.codes, counted, scores))
    return made


def _large(problem: Problem, clusters: ClusterTotals, which: tuple[int, ...]) -> Indices:
    """Return which of many clusters weigh enough to be corrected: of single ways only."""
    if len(which) > 1 or not problem.noise.margin.smooth:
        return np.empty(0, dtype=np.intp)
    return np.flatnonzero(clusters.weights * CORRECTED_CLUSTERS > clusters.weights.sum())


def cluster_meat(
    problem: Problem,
    engine: Engine,
    free: Array,
    information: Array,
    sizes: tuple[int, ...],
    *,
    repeated: bool = False,
) -> tuple[Array, list[ClusterCount]]:
    """Return the summed outer products of clusters' scores, and how many clusters there are.

    With several ways of clustering those of all single ways are added, those of the
    intersections of two ways subtracted, of three added, and so on (Cameron, Gelbach and Miller
    2011).
    """
    meat = np.zeros((problem.layout.n_free,) * 2)
    counts: list[ClusterCount] = []
    for one in cluster_scores(problem, engine, free, information, sizes, repeated=repeated):
        meat += sign_of_join(one.which) * (one.scores.T @ one.scores)
        if len(one.which) == 1:
            counts.append(one.counted)
    return meat, counts


def _cluster_totals(
    problem: Problem,
    free: Array,
    joins: list[tuple[int, ...]],
    sizes: tuple[int, ...],
    few_rows: bool,
    batch: Batch,
) -> Parts:
    assert batch.rows.clusters is not None
    ways = batch.rows.clusters.reshape(len(batch), -1)
    scores = free_scores(problem, problem.layout.natural(free), batch)
    each = _row_parts(problem, free, batch, scores) if few_rows else None
    weights, counted = _counted(batch)

    def totals(which: tuple[int, ...]) -> ClusterTotals:
        codes = join_ways(ways, which, sizes)[counted]
        few = np.prod([float(sizes[way]) for way in which]) <= CORRECTED_CLUSTERS
        parts = None if each is None else each[counted]
        made = ClusterTotals.of_rows(codes, weights[counted], scores[counted], parts)
        if each is None and few and problem.noise.margin.smooth:
            return replace(made, parts=_evaluated_parts(problem, free, codes, counted, batch, made))
        return made

    return Parts(totals(which) for which in joins)


def _counted(batch: Batch) -> tuple[Array, Indices]:
    """Return the rows' weights (n,), and which rows have any: clusters of others do not count."""
    weights = batch.rows.weights
    if weights is None:
        return np.ones(len(batch)), np.arange(len(batch))
    return weights, np.flatnonzero(weights > 0)


def _large_parts(
    problem: Problem,
    free: Array,
    which: tuple[int, ...],
    sizes: tuple[int, ...],
    large: Indices,
    batch: Batch,
) -> ClusterTotals:
    """Evaluate the information of some clusters, by their codes; their totals are left out."""
    assert batch.rows.clusters is not None
    codes = join_ways(batch.rows.clusters.reshape(len(batch), -1), which, sizes)
    weights, counted = _counted(batch)
    counted = counted[np.isin(codes[counted], large)]
    codes = codes[counted]
    made = ClusterTotals.of_rows(codes, weights[counted], np.empty((len(codes), 0)))
    return replace(made, parts=_evaluated_parts(problem, free, codes, counted, batch, made))


def _evaluated_parts(
    problem: Problem,
    free: Array,
    codes: Indices,
    which: Indices,
    batch: Batch,
    clusters: ClusterTotals,
) -> Array:
    """Evaluate the information (G, p, p) of clusters in the rows `which`, whose codes are given."""
    layout, natural = problem.layout, problem.layout.natural(free)
    hessians = np.empty((len(clusters.codes), len(free), len(free)))
    scores = np.empty(hessians.shape[:2])
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], clusters.codes)
    for place, rows in enumerate(np.split(which[order], starts[1:])[: len(scores)]):
        found = evaluate(problem, natural, batch.take(rows))
        hessians[place] = layout.pull_back_hessian(found.hessian, found.score, free)
        scores[place] = layout.pull_back_vector(found.score, free)
    return -layout.straighten(hessians, scores, free)


def sandwich(carried: Array, root: Array, meat: Array) -> Array:
    """Return the covariance (m, m) of what is reported; nan everywhere where rounding has eaten it.

    The bread is in it twice: where the information is all but singular along some direction, what
    the meat is along it is lost in the rounding of the rest, and a variance may have any sign.

    Parameters
    ----------
    carried : (m, p) root of the covariance by the information alone, of what is reported.
    root : (p, p) that of the free parameters, the bread.
    meat : (p, p) covariance of the summed scores.
    """
    bread = carried @ root.T
    lost = np.full((len(carried),) * 2, np.nan)
    if not (np.isfinite(bread).all() and np.isfinite(meat).all()):
        return lost
    sizes = np.sqrt(np.maximum(np.diag(meat), 0.0))
    sizes[sizes == 0] = 1.0
    values, axes = np.linalg.eigh(meat / np.outer(sizes, sizes))
    half = (bread * sizes) @ (axes * np.sqrt(np.maximum(values, 0.0)))
    made = half @ half.T
    rounding = np.finfo(float).eps * ((np.abs(bread) @ np.abs(meat)) * np.abs(bread)).sum(axis=1)
    wanted = np.maximum(made.diagonal(), NEGLIGIBLE * (carried**2).sum(axis=1))
    return lost if (rounding > LARGEST_ROUNDING * wanted).any() else np.asarray(made)


def make_positive(meat: Array, information: Array) -> tuple[Array, bool]:
    """Set negative eigenvalues of a difference of covariances to zero, and say if any were.

    They are those of the sandwich in units of the information, so what is repaired does not
    depend on the units of the covariates.
    """
    if not np.isfinite(information).all():
        return meat, False  # At a boundary there is no covariance to repair.
    try:
        root = np.asarray(np.linalg.cholesky(information), dtype=np.float64)
    except np.linalg.LinAlgError:
        return meat, False
    return without_negative_eigenvalues(meat, root)
