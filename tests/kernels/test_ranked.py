"""The mathematics of ranks against enumeration and differences."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import norm

import selfselect as ss
from selfselect.kernels.known_index import ABOVE, BELOW, OBSERVED
from selfselect.kernels.known_index import row_terms as known_terms
from selfselect.kernels.unknown_index import log_chance_of_count, sides_of_others
from selfselect.likelihoods import evaluate, row_terms
from selfselect.rules import Maximum, Minimum, Ranked

STEP = 1e-5
FIRST = 2e-7
"""Central differences of a sum of some hundred terms, with a step of 1e-5."""


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_the_likelihood_is_the_sum_over_who_lies_above(k):
    rng = np.random.default_rng(k)
    a, log_h = rng.normal(0, 1.5, (30, k)), rng.normal(0, 0.3, k)
    chosen = rng.integers(k, size=30)
    for rank in range(1, k + 1):
        found = sides_of_others(a, log_h, chosen, rank)
        for i in range(30):
            others = [j for j in range(k) if j != chosen[i]]
            chance = 0.0
            above_each = dict.fromkeys(others, 0.0)
            for above in combinations(others, rank - 1):
                part = np.prod([norm.cdf(-a[i, j] if j in above else a[i, j]) for j in others])
                chance += part
                for j in above:
                    above_each[j] += part
            own = log_h[chosen[i]] + norm.logpdf(a[i, chosen[i]])
            assert found.loglik[i] == pytest.approx(own + np.log(chance), rel=1e-11)
            for j in others:
                assert found.above[i, j] == pytest.approx(above_each[j] / chance, abs=1e-12)
            for (j, m), both in found.both.items():
                if chosen[i] not in (j, m):
                    wanted = sum(
                        np.prod([norm.cdf(-a[i, o] if o in above else a[i, o]) for o in others])
                        for above in combinations(others, rank - 1)
                        if j in above and m in above
                    )
                    assert both[i] == pytest.approx(wanted / chance, abs=1e-12)


def test_chances_of_counts_are_those_of_independent_trials():
    q = np.array([[0.2, 0.5, 0.9]])
    log_p, log_q = np.log(1 - q), np.log(q)
    wanted = [0.8 * 0.5 * 0.1, 0.2 * 0.5 * 0.1 + 0.8 * 0.5 * 0.1 + 0.8 * 0.5 * 0.9]
    for count, chance in enumerate(wanted):
        assert np.exp(log_chance_of_count(log_p, log_q, count)[0]) == pytest.approx(chance)
    total = sum(np.exp(log_chance_of_count(log_p, log_q, count)[0]) for count in range(4))
    assert total == pytest.approx(1.0)
    for count in (-1, 4):
        assert log_chance_of_count(log_p, log_q, count)[0] == -np.inf


@pytest.mark.parametrize(("rank", "others"), [(1, BELOW), (4, ABOVE)])
def test_the_first_rank_is_the_maximum_and_the_last_the_minimum(rank, others):
    rng = np.random.default_rng(9)
    a, h = rng.normal(0, 2, (50, 4)), rng.uniform(0.5, 2, 4)
    chosen = rng.integers(4, size=50)
    found = sides_of_others(a, np.log(h), chosen, rank)
    total = np.zeros(50)
    for j in range(4):
        status = np.where(chosen == j, OBSERVED, others).astype(np.int8)
        terms = known_terms(h[j] * 0.3 - a[:, j], h[j], status=status, limit=np.full(50, 0.3),
                          upper=None)  # fmt: skip
        total += terms.loglik
        np.testing.assert_allclose(found.residual[:, j], terms.residual, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.complete[:, j], terms.curvature, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.loglik, total, rtol=1e-12)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_far_rows_stay_finite(rank):
    a = np.array([[0.0, 50.0, -50.0], [1e3, -1e3, 1e3], [-200.0, -200.0, -200.0]])
    for j in range(3):
        found = sides_of_others(a, np.zeros(3), np.full(3, j), rank)
        for part in (found.loglik, found.residual, found.complete, found.above, found.gap):
            assert np.isfinite(part).all()
        assert all(np.isfinite(both).all() for both in found.both.values())


# the whole log-likelihood


@pytest.fixture(params=["each", "common", 1.0], ids=str)
def setting(request):
    sample = ss.simulators.gaussian(150, 2, 4, rule=Ranked(2), norm=1.5, seed=1)
    weights = np.random.default_rng(2).integers(1, 4, 150)
    result = ss.fit(
        sample.formula, sample.data, chosen="chosen", rule=Ranked(2), weights=weights,
        noise=ss.noises.Independent(request.param), solver=ss.solvers.MaximumLikelihood(starts=3),
    )  # fmt: skip
    natural = result.problem.layout.natural(result.solution.free)
    away = natural * np.random.default_rng(4).uniform(0.8, 1.2, len(natural))
    return result.problem, result.engine.batch, away


def differences(function, at):
    moves = STEP * np.eye(len(at))
    return np.array([(function(at + move) - function(at - move)) / (2 * STEP) for move in moves]).T


def test_score_and_hessian_are_derivatives(setting):
    problem, batch, natural = setting
    found = evaluate(problem, natural, batch)
    slope = differences(lambda at: evaluate(problem, at, batch).loglik, natural)
    np.testing.assert_allclose(found.score, slope, rtol=FIRST, atol=FIRST * 10)
    bend = differences(lambda at: evaluate(problem, at, batch).score, natural)
    np.testing.assert_allclose(found.hessian, bend, rtol=FIRST, atol=FIRST * 10)
    blocks = row_terms(problem, natural, batch).score
    np.testing.assert_allclose(batch.rows.weights @ blocks, found.score, rtol=1e-10, atol=1e-9)


def test_the_complete_curvature_is_negative_and_no_smaller(setting):
    problem, batch, natural = setting
    exact = evaluate(problem, natural, batch).hessian
    complete = evaluate(problem, natural, batch, curvature="complete").hessian
    assert np.linalg.eigvalsh(complete)[-1] < 0
    assert np.linalg.eigvalsh(exact - complete)[0] > -1e-8


@pytest.mark.parametrize(("rank", "box"), [(1, Maximum()), (3, Minimum())])
@pytest.mark.parametrize("scale", ["each", "common"])
def test_fits_of_extreme_ranks_are_those_of_boxes(rank, box, scale):
    sample = ss.simulators.gaussian(400, 2, 3, rule=box, seed=3)
    options = {"chosen": "chosen", "noise": ss.noises.Independent(scale)}
    solver = ss.solvers.MaximumLikelihood(starts=2)
    ranked = ss.fit(sample.formula, sample.data, rule=Ranked(rank), solver=solver, **options)
    boxed = ss.fit(sample.formula, sample.data, rule=box, **options)
    np.testing.assert_allclose(ranked.params, boxed.params, atol=1e-6)
    np.testing.assert_allclose(ranked.bse, boxed.bse, rtol=1e-5)
    assert ranked.llf == pytest.approx(boxed.llf, rel=1e-10)
