"""Lemmas of the paper that no other test is about, checked on the functions that use them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.data.rows import Rows
from selfselect.likelihoods import Batch, evaluate, row_terms
from selfselect.problem.batch import observe
from selfselect.solvers._search import SearchSpace, find_subspace
from selfselect.solvers._start import gram_matrices
from selfselect.solvers.paper.moment_methods import smallest_variance

STANDARD_ERRORS = 4.5
"""A mean of zero is that far off once in a hundred thousand."""


@pytest.fixture(scope="module")
def known() -> ss.FitResult:
    rng = np.random.default_rng([31, 1])
    table = pd.DataFrame(rng.normal(size=(20_000, 2)), columns=["x1", "x2"])
    truth = {"a": {"x1": 1.0, "x2": -0.5}, "b": {"x1": -0.3, "x2": 0.8}, "c": {"x1": 0.2}}
    sample = ss.simulate(truth, table, scales=1.0, seed=31)
    fit = ss.fit(sample.formula, sample.data, chosen="chosen", noise=ss.noises.Independent(1.0))
    object.__setattr__(fit, "truth", sample.params)
    return fit


def test_the_expected_score_is_zero_at_the_truth(known: ss.FitResult) -> None:
    """Check Lemma 1."""
    labels = known.reported.labels
    truth = np.array([known.truth[label] for label in labels])  # type: ignore[attr-defined]
    natural = known.problem.layout.natural(known.problem.layout.read(truth))
    scores = row_terms(known.problem, natural, known.engine.batch).score
    free = known.problem.layout.pull_back_vector(scores)
    error = free.std(axis=0) / np.sqrt(len(free))
    assert (np.abs(free.mean(axis=0)) < STANDARD_ERRORS * error).all()
    elsewhere = known.problem.layout.natural(known.problem.layout.read(truth + 0.2))
    moved = row_terms(known.problem, elsewhere, known.engine.batch).score
    moved = known.problem.layout.pull_back_vector(moved)
    assert (np.abs(moved.mean(axis=0)) > 2 * STANDARD_ERRORS * error).all()


@pytest.mark.parametrize("seed", range(3))
def test_the_curvature_is_at_least_that_of_the_rows_where_each_was_seen(
    known: ss.FitResult, seed: int
) -> None:
    """Check Lemma 3: by Lemma 2 the unseen only add to the curvature, anywhere."""
    problem, batch = known.problem, known.engine.batch
    place = np.random.default_rng(seed).normal(size=problem.layout.n_free)
    natural = problem.layout.natural(place)
    information = -problem.layout.pull_back_matrix(evaluate(problem, natural, batch).hessian)
    least = np.zeros_like(information)
    at = 0
    for j, equation in enumerate(problem.equations.each):
        own = batch.rows.take(np.flatnonzero(batch.rows.chosen == j))
        design = problem.units.design(own.covariates, equation.columns)
        own_part = slice(at, at + design.shape[1])
        least[own_part, own_part] = design.T @ design
        at += design.shape[1]
    assert np.linalg.eigvalsh(information - least)[0] > -1e-8 * np.abs(information).max()
    assert np.linalg.eigvalsh(least)[0] > 0


def test_the_weighted_covariance_shows_the_span_of_the_coefficients() -> None:
    """Check Lemma 7: its matrix exceeds a multiple of the identity in the span, nowhere else."""
    truth = np.array([[2.0, 0.0, 0.0, 0.0], [0.0, 1.5, 0.0, 0.0]])
    rng = np.random.default_rng([32, 1])
    x = rng.normal(size=(60_000, 4))
    y = (x @ truth.T + rng.normal(size=(60_000, 2))).max(axis=1)
    table = pd.DataFrame(x, columns=list("abcd")).assign(y=y)
    fit = ss.fit("y ~ a + b + c + d - 1", table, alternatives=2, solver=ss.solvers.TwoModels())
    grams = gram_matrices(fit.problem, fit.engine)
    space = SearchSpace.build(fit.problem, grams, weight=60_000.0, floor=0.01)
    found = find_subspace(space, fit.engine, "paper")
    # Covariates are all but white already, so search coordinates are those of the user.
    assert np.linalg.norm(found.directions[2:, :2]) < 0.1
    assert found.eigenvalues[1] > 10 * np.abs(found.eigenvalues[2:]).max()


def test_two_moments_give_the_smaller_variance() -> None:
    """Check the lemma MinVariance, at the coefficients themselves and between them."""
    rng = np.random.default_rng([33, 1])
    z = rng.normal(size=(400_000, 2))
    vectors = np.array([[1.5, 0.0], [-0.5, 1.0]])
    y = (z @ vectors.T + rng.normal(size=(400_000, 2))).max(axis=1)
    moments = np.zeros((5, 5, 5))
    for a in range(5):
        for b in range(5 - a):
            for c in range(5 - a - b):
                moments[a, b, c] = (y**a * z[:, 0] ** b * z[:, 1] ** c).mean()
    points = np.vstack([vectors, [[0.4, 0.3], [2.0, -1.0]]])
    expected = 1.0 + ((points[:, None] - vectors) ** 2).sum(axis=2).min(axis=1)
    np.testing.assert_allclose(smallest_variance(points, moments), expected, rtol=0.06)


def test_a_slice_of_the_maximum_is_an_orthant() -> None:
    """Check the example of Definition 3: the others lie below what was observed, and no more."""
    rows = Rows(np.zeros((1, 0)), np.array([0.7]), np.array([1]))
    observation = observe(ss.rules.Maximum(), rows, ("a", "b", "c"))
    batch = Batch(rows, observation)
    assert batch.observation.limit.tolist() == [[0.7]]
    lower, upper = ss.rules.Maximum().bounds(rows.chosen, rows.outcome, rows.known)
    assert np.isneginf(lower).all() and (upper == 0.7).all()
