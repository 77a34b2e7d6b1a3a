from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm

from selfselect.kernels.known_index import BETWEEN
from selfselect.likelihoods import Batch, Evaluation, evaluate
from selfselect.rules import Maximum

DIFFERENCE = 2e-7
"""Central differences of a sum of some hundred terms, with a step of 1e-5."""

STEP = 1e-5


@pytest.fixture(params=["numpy", pytest.param("fused", marks=pytest.mark.compiled)])
def backend(request):
    return request.param


@pytest.fixture
def setting(world, rule_name, noise, with_known):
    result = world(rule_name, 150, known=with_known).fit(noise=noise, weights="w")
    natural = result.problem.layout.natural(result.solution.free)
    away = natural * np.random.default_rng(4).uniform(0.8, 1.2, len(natural))
    return result.problem, result.engine.batch, away


def differences(function, at):
    columns = []
    for i in range(len(at)):
        move = STEP * (np.arange(len(at)) == i)
        columns.append((function(at + move) - function(at - move)) / (2 * STEP))
    return np.array(columns).T


def test_the_score_is_the_derivative_of_the_log_likelihood(setting, backend):
    problem, batch, natural = setting
    batch = Batch(batch.rows, batch.observation, backend)
    found = evaluate(problem, natural, batch)
    wanted = differences(lambda at: evaluate(problem, at, batch).loglik, natural)
    np.testing.assert_allclose(found.score, wanted, rtol=DIFFERENCE, atol=DIFFERENCE * 10)


def test_the_hessian_is_the_derivative_of_the_score(setting, backend):
    problem, batch, natural = setting
    batch = Batch(batch.rows, batch.observation, backend)
    found = evaluate(problem, natural, batch)
    wanted = differences(lambda at: evaluate(problem, at, batch).score, natural)
    np.testing.assert_allclose(found.hessian, wanted, rtol=DIFFERENCE, atol=DIFFERENCE * 10)
    np.testing.assert_allclose(found.hessian, found.hessian.T, rtol=1e-12, atol=1e-12)
    assert np.linalg.eigvalsh(found.hessian)[-1] < 0


def test_a_pass_without_curvature_has_the_same_score_and_no_hessian(setting, backend):
    problem, batch, natural = setting
    batch = Batch(batch.rows, batch.observation, backend)
    whole = evaluate(problem, natural, batch)
    plain = evaluate(problem, natural, batch, curvature="none")
    assert plain.loglik == whole.loglik
    np.testing.assert_allclose(plain.score, whole.score, rtol=1e-9, atol=1e-9)
    assert plain.hessian.shape == whole.hessian.shape
    assert not plain.hessian.any()


def test_evaluations_of_parts_add_up_to_that_of_the_whole(setting, backend):
    problem, batch, natural = setting
    batch = Batch(batch.rows, batch.observation, backend)
    whole = evaluate(problem, natural, batch)
    parts = evaluate(problem, natural, batch.take(slice(0, 61))) + evaluate(
        problem, natural, batch.take(slice(61, None))
    )
    assert isinstance(parts, Evaluation)
    assert parts.loglik == pytest.approx(whole.loglik, rel=1e-12)
    np.testing.assert_allclose(parts.score, whole.score, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(parts.hessian, whole.hessian, rtol=1e-9, atol=1e-9)


class Band(Maximum):
    """The others lie below the one seen, but by no more than three."""

    def bounds(self, _chosen, outcome, *_):
        upper = np.broadcast_to(outcome[:, None], (len(outcome), 3))
        return upper - 3.0, upper


@pytest.mark.compiled
def test_two_sided_bounds_have_right_scores_on_both_backends(world):
    result = world("max", 150).fit(weights="w")
    problem = replace(result.problem, rule=Band())
    rows, observation = result.rows, problem.likelihood.observe(result.rows)
    assert (observation.status == BETWEEN).any()
    natural = problem.layout.natural(result.solution.free) * 1.1
    plain, fused = (
        evaluate(problem, natural, Batch(rows, observation, backend))
        for backend in ("numpy", "fused")
    )
    wanted = differences(lambda at: evaluate(problem, at, Batch(rows, observation)).loglik, natural)
    np.testing.assert_allclose(plain.score, wanted, rtol=DIFFERENCE, atol=DIFFERENCE * 10)
    assert fused.loglik == pytest.approx(plain.loglik, rel=1e-11)
    np.testing.assert_allclose(fused.score, plain.score, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(fused.hessian, plain.hessian, rtol=1e-9, atol=1e-9)


def chance_of_the_choice(rule, chosen, outcome, means, scales, row):
    """Integrate the other two latent densities over where the rule makes this very choice.

    Only `choose` is asked, so nothing that a fit uses is used. Innermost, the set is an interval
    whose ends are bisected; outermost, the range is cut finely.
    """
    first, second = (j for j in range(3) if j != chosen)

    def sees(u, v):
        latent = np.empty((len(v), 3))
        latent[:, chosen], latent[:, first], latent[:, second] = outcome, u, v
        return rule.choose(latent, row.take(np.zeros(len(v), dtype=int))) == chosen

    def mass(j, low, high):
        return norm.cdf(high, means[j], scales[j]) - norm.cdf(low, means[j], scales[j])

    reach = 40.0

    def inner(u):
        grid = np.linspace(-reach, reach, 4_001)
        inside = sees(u, grid)
        total = 0.0
        for start, stop in _runs(inside):
            low, high = grid[start], grid[stop]
            if start > 0:
                low = _bisect(lambda v: sees(u, np.array([v]))[0], grid[start - 1], low)
            if stop < len(grid) - 1:
                high = _bisect(lambda v: sees(u, np.array([v]))[0], grid[stop + 1], high)
            total += mass(second, low, high)
        return total

    def integrand(u):
        return norm.pdf(u, means[first], scales[first]) * inner(u)

    def open_at(u):
        return inner(u) > 0

    grid = np.linspace(-reach, reach, 161)
    inside = np.array([open_at(u) for u in grid])
    total = 0.0
    for start, stop in _runs(inside):
        low, high = grid[start], grid[stop]
        if start > 0:
            low = _bisect(open_at, grid[start - 1], low)
        if stop < len(grid) - 1:
            high = _bisect(open_at, grid[stop + 1], high)
        low = max(low, means[first] - 9 * scales[first])
        high = min(high, means[first] + 9 * scales[first])
        if low < high:
            total += integrate.quad(integrand, low, high, limit=40, epsabs=1e-10)[0]
    return total


def _runs(inside):
    edges = np.flatnonzero(np.diff(np.concatenate([[0], inside.astype(int), [0]])))
    return [(start, stop - 1) for start, stop in zip(edges[::2], edges[1::2], strict=True)]


def _bisect(holds, outside, inside):
    for _ in range(48):
        middle = 0.5 * (outside + inside)
        outside, inside = (outside, middle) if holds(middle) else (middle, inside)
    return inside


def test_the_log_likelihood_is_the_integrated_latent_density(world, rule_name):
    result = world(rule_name, 200, known=True).fit(noise=None)
    problem, rows = result.problem, result.rows
    scales = result.scales.to_numpy()
    means = result.predict().to_numpy()
    natural = problem.layout.natural(result.solution.free)
    for i in range(4):
        row = rows.take(slice(i, i + 1))
        j, y = int(row.chosen[0]), float(row.outcome[0])
        chance = chance_of_the_choice(problem.ordered_rule, j, y, means[i], scales, row.known)
        brute = norm.logpdf(y, means[i, j], scales[j]) + np.log(chance)
        batch = result.engine.batch.take(slice(i, i + 1))
        # The quadrature is asked for ten digits of the chance.
        assert evaluate(problem, natural, batch).loglik == pytest.approx(brute, abs=1e-7)
