"""What a fitted model expects of moments of the noise and of scores, from rows drawn of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.engines.memory import Memory
from selfselect.inference.moments import Subject, moments_of
from selfselect.inference.simulation import simulate_rows
from selfselect.kernels.components import grouped_sum
from selfselect.likelihoods import Batch, RowTerms, row_terms
from selfselect.problem.problem import Problem
from selfselect.solvers.base import Solution

__all__ = ["Expectations", "free_scores_of"]

Array = NDArray[np.float64]

WITHIN_SCORES = 1e-8
"""Share of a moment's variance that scores leave, below which it is taken to be made of them: the
fit has set it to zero."""


@dataclass(frozen=True, eq=False)
class Expectations:
    """What the fitted model expects of moments and scores.

    Attributes
    ----------
    kept : (m,) which moments scores leave something of.
    explained : (kept, n_free) A, with which scores explain them best.
    variance : (kept, kept) products of what scores leave, summed over the rows by weight.
    """

    kept: NDArray[np.bool_]
    explained: Array
    variance: Array

    @classmethod
    def of(cls, problem: Problem, engine: Engine, solution: Solution) -> Expectations:
        """Ask the fitted model; parameters at a boundary are taken as given, not as estimates."""
        natural = problem.layout.natural(solution.free)
        expected = _expected_products(problem, engine, natural)
        size = len(expected) - problem.layout.n_free
        moved = np.delete(np.arange(problem.layout.n_free), list(solution.held))
        scores = expected[size:, size:][np.ix_(moved, moved)]
        explained = np.zeros((size, problem.layout.n_free))
        explained[:, moved] = np.linalg.lstsq(scores, expected[size:, :size][moved], rcond=None)[
            0
        ].T
        keep = np.concatenate([np.eye(size), -explained], axis=1)
        variance = keep @ expected @ keep.T
        kept = np.diag(variance) > WITHIN_SCORES * np.diag(expected)[:size]
        return cls(kept, explained[kept], variance[np.ix_(kept, kept)])

    def select(self, found: dict[Subject, Array]) -> dict[Subject, Array]:
        """Leave out moments that are made of scores."""
        selected, end = {}, 0
        for subject, moments in found.items():
            start, end = end, end + moments.shape[1]
            kept = self.kept[start:end]
            selected[subject] = moments if kept.all() else moments[:, kept]
        return selected


def _expected_products(problem: Problem, engine: Engine, natural: Array) -> Array:
    """Return products of moments and scores that the fitted model expects, summed by weight."""
    rows, counts = simulate_rows(problem, engine, natural)
    weights = counts if rows.weights is None else counts * rows.weights
    drawn = Memory().load(problem, replace(rows, weights=weights))
    products: Array = drawn.sum(partial(_products, problem, natural))
    return products


def _products(problem: Problem, natural: Array, batch: Batch) -> Array:
    """Return products of moments and scores, of rows or of people."""
    terms = row_terms(problem, natural, batch)
    joined = np.column_stack([*moments_of(terms).values(), free_scores_of(terms)])
    weights, starts = batch.rows.weights, batch.rows.group_starts
    assert weights is not None
    if starts is not None:
        joined, weights = grouped_sum(joined, starts), weights[starts]
    return joined.T @ (joined * weights[:, None])


def free_scores_of(terms: RowTerms) -> Array:
    """Return scores without weights; those of fixed or shared parameters pulled back to free."""
    layout = terms.problem.layout
    return layout.pull_back_vector(terms.score, layout.gather(terms.natural))
