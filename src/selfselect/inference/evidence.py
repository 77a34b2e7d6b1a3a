"""What rows say against the assumptions on the noise, and what the fitted model expects of that.

The tests of a summary and its diagnosis read the same sums. `Evidence` makes them once: one pass
over the rows, and one over rows drawn from the fitted model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.engines.memory import Memory
from selfselect.inference.dependence import Dependence
from selfselect.inference.simulation import (
    SUBJECTS,
    Subject,
    moments_of,
    simulate_rows,
    steady_columns,
    why_no_draws,
)
from selfselect.kernels.mixture import grouped_sum
from selfselect.likelihoods import Asked, Batch, RowSums, RowTerms, row_terms, sum_rows
from selfselect.problem.problem import Problem
from selfselect.solvers.base import Solution

Array = NDArray[np.float64]

INDEPENDENT = Dependence()

MOST_PAIRS = 1_000
"""Correlations that are tested together, those of 45 alternatives: the covariance of what is said
of all pairs grows with the fourth power of the alternatives."""

WITHIN_SCORES = 1e-8
"""Share of a moment's variance that scores leave, below which it is taken to be made of them: the
fit has set it to zero."""


@dataclass(frozen=True, eq=False)
class ExpectedSums:
    """What the fitted model expects of moments and scores.

    Attributes
    ----------
    kept : (m,) which moments scores leave something of.
    explained : (kept, n_free) A, with which scores explain them best.
    variance : (kept, kept) products of what scores leave, summed over the rows by weight.
    difference : (kept, kept) how these differ between two halves of the drawn rows.
    scores : products of the scores of all that was estimated, and how those differ.
    """

    kept: NDArray[np.bool_]
    explained: Array
    variance: Array
    difference: Array
    scores: tuple[Array, Array]

    def select(self, found: dict[Subject, Array]) -> dict[Subject, Array]:
        """Leave out moments (..., m) that are made of scores."""
        selected, end = {}, 0
        for subject, moments in found.items():
            start, end = end, end + moments.shape[-1]
            kept = self.kept[start:end]
            selected[subject] = moments if kept.all() else moments[..., kept]
        return selected


@dataclass(frozen=True, eq=False)
class Evidence:
    """Sums that tests of the noise and the diagnosis share.

    Attributes
    ----------
    problem, engine, solution : model, rows and estimate.
    dependence : clusters and weights. Where rows are not independent draws of the model, tests take
        passes of their own.
    """

    problem: Problem
    engine: Engine
    solution: Solution
    dependence: Dependence = INDEPENDENT

    @cached_property
    def natural(self) -> Array:
        """(n_natural,) the estimate."""
        return self.problem.layout.natural(self.solution.free)

    @cached_property
    def asked(self) -> Asked:
        """What is needed of the rows: what a test can use, and covariates for the diagnosis."""
        problem, by_model = self.problem, self.dependence.reason is None
        tested = any(why_no_moment_test(problem, self.solution, one) is None for one in SUBJECTS)
        return Asked(
            pairs=by_model and self.pairs_drawn,
            moments=by_model and tested,
            grams=not problem.noise.selected,
        )

    @cached_property
    def pairs_drawn(self) -> bool:
        """Whether rows drawn from the model say how products of residuals vary.

        Where alternatives are joined the data says it.
        """
        problem = self.problem
        return (
            why_no_score_test(problem, self.solution.information) is None
            and why_no_draws(problem) is None
            and not problem.likelihood.joint
        )

    @cached_property
    def observed(self) -> RowSums:
        """What the rows say together."""
        return self.engine.sum(partial(sum_rows, self.problem, self.natural, self.asked))

    @property
    def moments(self) -> dict[Subject, Array]:
        """Sums of what rows say against shape and constant spread."""
        return summed_moments(self.problem, self.observed)

    @cached_property
    def _expected_products(self) -> tuple[Array, Array, int, int]:
        """Products of pairs, moments and natural scores, and how many of the first two there are.

        They are expected by the fitted model, summed over the rows by weight. Products of residuals
        are there wherever the score test may ask, moments wherever theirs may. The second array is
        how two halves of the drawn rows differ.
        """
        problem, natural = self.problem, self.natural
        rows, counts = simulate_rows(problem, self.engine, natural)
        weights = counts if rows.weights is None else counts * rows.weights
        rows, starts = replace(rows, weights=weights), rows.group_starts
        person = np.arange(len(rows))
        if starts is not None:
            person = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(rows))))
        tested = any(why_no_moment_test(problem, self.solution, one) is None for one in SUBJECTS)
        asked = Asked(pairs=self.pairs_drawn, moments=tested)
        halves: list[Array] = [
            Memory()
            .load(problem, rows.take(np.flatnonzero(person % 2 == half)))
            .sum(partial(_products, problem, natural, asked))
            for half in (0, 1)
        ]
        k = problem.equations.n_alternatives
        n_pairs = k * (k - 1) // 2 if asked.pairs else 0
        n_moments = len(halves[0]) - n_pairs - len(natural)
        return halves[0] + halves[1], halves[0] - halves[1], n_pairs, n_moments

    @property
    def expected_of_pairs(self) -> tuple[Array, Array]:
        """Products of each pair's residuals and of natural scores, and how two halves differ."""
        products, difference, n_pairs, n_moments = self._expected_products
        kept = np.r_[0:n_pairs, n_pairs + n_moments : len(products)]
        return products[np.ix_(kept, kept)], difference[np.ix_(kept, kept)]

    @cached_property
    def expectations(self) -> ExpectedSums:
        """What the model expects of moments and scores.

        Parameters at a boundary are taken as given, not as estimates.
        """
        layout, solution = self.problem.layout, self.solution
        products, difference, n_pairs, size = self._expected_products
        moved = np.delete(np.arange(layout.n_free), list(solution.held))

        def parts(made: Array) -> tuple[Array, Array, Array]:
            own = made[n_pairs:, n_pairs:]
            scores = layout.pull_back_matrix(own[size:, size:], solution.free)
            shared = layout.pull_back_vector(own[:size, size:], solution.free)
            return own[:size, :size], shared[:, moved], scores[np.ix_(moved, moved)]

        moments, shared, scores = parts(products)
        explained: Array = np.asarray(np.linalg.lstsq(scores, shared.T, rcond=None)[0].T)
        variance = _left_over(explained, moments, shared, scores)
        apart = parts(difference)
        kept = np.diag(variance) > WITHIN_SCORES * np.diag(moments)
        every = np.zeros((size, layout.n_free))
        every[:, moved] = explained
        return ExpectedSums(
            kept,
            every[kept],
            variance[np.ix_(kept, kept)],
            _left_over(explained, *apart)[np.ix_(kept, kept)],
            (scores, apart[-1]),
        )


def _left_over(explained: Array, moments: Array, shared: Array, scores: Array) -> Array:
    """Return products of what scores leave of moments."""
    across = explained @ shared.T
    return np.asarray(moments - across - across.T + explained @ scores @ explained.T)


def why_no_score_test(problem: Problem, information: Array) -> str | None:
    """Say why no score test of independence can be done, or None where it can."""
    reason = problem.noise.why_no_score_test()
    if reason is not None:
        return reason
    if not np.isfinite(information).all():
        return "the estimate is not one of maximum likelihood"
    if problem.noise.known_correlation(problem.equations.alternatives) is not None:
        return "the noise is correlated by assumption"
    if problem.likelihood.sampled:
        return "explaining sets that are not boxes have no closed form"
    k = problem.equations.n_alternatives
    if k * (k - 1) // 2 > MOST_PAIRS:
        return f"there are {k * (k - 1) // 2:,} correlations, and {MOST_PAIRS:,} are tested at most"
    return None


def why_no_moment_test(problem: Problem, solution: Solution, subject: Subject) -> str | None:
    """Say why shape or spread cannot be tested, or None where it can."""
    reason = why_no_draws(problem)
    if reason is not None:
        return reason
    if not solution.converged:
        return "the fit did not converge"
    if not np.isfinite(solution.information).all():
        return "the estimate is not one of maximum likelihood"
    if subject == "heteroskedasticity" and not any(steady_columns(problem)):
        if problem.layout.spreads:
            return "the scales move with every covariate of their equations already"
        return "no equation has a covariate that could move the variance"
    return None


def summed_moments(problem: Problem, sums: RowSums) -> dict[Subject, Array]:
    """Return sums of moments over rows, in the order of `moments_of`."""
    each = zip(sums.spread, problem.equations.each, steady_columns(problem), strict=True)
    spread = [
        own[[equation.columns.index(column) for column in columns]]
        for own, equation, columns in each
    ]
    return {"normality": sums.shape.ravel(), "heteroskedasticity": np.concatenate(spread)}


def pair_products(terms: RowTerms) -> list[Array]:
    """Return each row's mean product of residuals, pair by pair."""
    products = terms.products
    pairs = combinations(range(terms.problem.equations.n_alternatives), 2)
    return [products[:, j, m] for j, m in pairs]


def _products(problem: Problem, natural: Array, asked: Asked, batch: Batch) -> Array:
    """Return products of pairs of residuals, of moments and of natural scores."""
    terms = row_terms(problem, natural, batch)
    parts = [one[None] for one in pair_products(terms)] if asked.pairs else []
    if asked.moments:
        parts += [one.T for one in moments_of(terms).values()]
    joined = np.concatenate([*parts, terms.score.T])
    weights, starts = batch.rows.weights, batch.rows.group_starts
    assert weights is not None
    if starts is not None:
        # The rows of a person are not independent draws: people are.
        joined, weights = grouped_sum(joined.T, starts).T, weights[starts]
    joined *= np.sqrt(weights)
    return np.asarray(joined @ joined.T)


def free_scores_of(terms: RowTerms) -> Array:
    """Return scores without weights; those of fixed or shared parameters pulled back to free."""
    layout = terms.problem.layout
    return layout.pull_back_vector(terms.score, layout.gather(terms.natural))
