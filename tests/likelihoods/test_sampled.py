"""Scores, information, masses and expectations by draws, against those in closed form."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest

import selfselect as ss
from selfselect.engines import Memory
from selfselect.likelihoods import evaluate, row_terms
from selfselect.likelihoods.sampled import SampledSums, Sweep, sample_scores, sampled_loglik
from selfselect.moments._expectations import expectations
from selfselect.moments.mixed import simulated_expectations
from selfselect.noises import KnownCovariance
from selfselect.noises.shapes.normal import SHAPE as NORMAL
from selfselect.rules import Maximum, Minimum
from selfselect.rules.base import RowData
from selfselect.samplers import BoxExact, EllipticalSlice
from selfselect.solvers.monte_carlo_newton import start_chains

DEVIATIONS = 4.5
"""Monte-Carlo standard errors within which a sum by draws must agree with the exact one."""

INFORMATION = 0.06
"""Relative error of the information from 400 rows and 150 pairs of draws each."""


@dataclasses.dataclass(frozen=True)
class Hidden:
    """A box rule that does not tell its bounds."""

    rule: object
    name = "hidden"

    @property
    def cost(self):
        return self.rule.cost

    def choose(self, latent, rows=None):
        return self.rule.choose(latent, RowData() if rows is None else rows)


def hide(result, shift=1.0):
    """Return the same problem without bounds, its rows, and a place away from the optimum."""
    problem = dataclasses.replace(result.problem, rule=Hidden(result.problem.ordered_rule))
    engine = Memory().load(problem, result.rows)
    free = result.solution.free * shift
    return problem, engine, free, problem.layout.natural(free)


def draw(problem, engine, free, natural, sampler=None, steps=150, clusters=0) -> SampledSums:
    rng = np.random.default_rng(3)
    chains = start_chains(problem, engine, free, sampler, rng)
    sweep = Sweep(seed=5, burn=10, steps=steps, thin=1, n_clusters=clusters)
    return engine.sum(partial(sample_scores, problem, natural, chains, sweep))


def exact(result, natural):
    evaluation = result.engine.sum(partial(evaluate, result.problem, natural))
    layout = result.problem.layout
    return layout.pull_back_vector(evaluation.score), -layout.pull_back_matrix(evaluation.hessian)


@pytest.mark.parametrize("with_known", [False, True])
@pytest.mark.parametrize("scale", ["each", "common", 1.1])
def test_draws_give_the_score_and_the_information(world, scale, with_known):
    made = world("max" if with_known else "min", 400, known=with_known)
    result = made.fit(noise=ss.noises.Independent(scale), weights="w")
    problem, engine, free, natural = hide(result, 1.1)
    score, information = exact(result, natural)
    drawn = draw(problem, engine, free, natural)
    error = np.sqrt(np.diag(drawn.noise))
    assert (np.abs(drawn.score - score) < DEVIATIONS * error).all()
    # The errors are those of the draws, not so large that anything would pass.
    assert (error < 0.2 * np.sqrt(np.diag(information))).all()
    size = np.sqrt(np.diag(drawn.complete))
    gap = (drawn.information - information) / np.outer(size, size)
    assert np.abs(gap).max() < INFORMATION


def test_exact_moments_of_boxes_give_the_exact_score(world):
    result = world("mixed", 200).fit(weights="w")
    natural = result.problem.layout.natural(result.solution.free * 1.1)
    score, _ = exact(result, natural)
    drawn = draw(result.problem, result.engine, result.solution.free, natural, BoxExact(), steps=2)
    np.testing.assert_allclose(drawn.score, score, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(drawn.noise, 0.0, atol=1e-18)


def test_slow_chains_report_the_error_they_have(world):
    """The spread of independent repetitions is that which the two chains predict."""
    result = world("max", 100).fit(noise=ss.noises.Independent(1.0))
    problem, engine, free, natural = hide(result)
    scores, noises = [], []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        chains = start_chains(problem, engine, free, EllipticalSlice(), rng)
        sweep = Sweep(seed=seed, burn=5, steps=12, thin=4)
        sums = engine.sum(partial(sample_scores, problem, natural, chains, sweep))
        scores.append(sums.score)
        noises.append(np.diag(sums.noise))
    ratio = np.var(scores, axis=0, ddof=1).sum() / np.mean(noises, axis=0).sum()
    # 24 repetitions of some nine directions: a standard error of about a tenth.
    assert 0.65 < ratio < 1.4


def test_squared_scores_are_free_of_noise_also_by_cluster(world):
    made = world("max", 400)
    data = made.data.assign(group=np.arange(400) % 40)
    result = made.fit(data, cluster="group")
    problem, engine, free, natural = hide(result)
    blocks = row_terms(result.problem, natural, result.engine.batch).score
    each = result.problem.layout.pull_back_vector(blocks)
    size = np.sqrt(np.diag(each.T @ each))
    drawn = draw(problem, engine, free, natural, steps=100, clusters=40)
    assert np.abs((drawn.outer - each.T @ each) / np.outer(size, size)).max() < 0.06
    totals = np.zeros((40, each.shape[1]))
    np.add.at(totals, result.rows.clusters, each)
    meat = totals.T @ totals
    size = np.sqrt(np.diag(meat))
    assert np.abs((drawn.squared_scores - meat) / np.outer(size, size)).max() < 0.15


def test_the_log_likelihood_by_draws_has_the_error_it_reports(world):
    for scale in ("each", 1.1):
        result = world("max", 300).fit(noise=ss.noises.Independent(scale), weights="w")
        problem, engine, _, natural = hide(result)
        rows = engine.collect(partial(sampled_loglik, problem, natural, 2_000, 7))
        assert (rows[:, 2] == 0).all()
        value, error = rows[:, 0].sum(), np.sqrt(rows[:, 1].sum())
        assert abs(value - result.llf) < DEVIATIONS * error and error < 1.0


def test_small_masses_are_measured_and_those_next_to_impossible_marked():
    data = {"y": [0.0, 0.0, 0.1, -0.1] * 30, "j": [0, 1, 0, 1] * 30, "x": np.tile([1, 2, 3.0], 40)}
    result = ss.fit("y ~ x", data, chosen="j", noise=ss.noises.Independent(1.0))
    problem, engine, _, natural = hide(result)
    for scales_away, lost in ((3.0, False), (12.0, True)):
        far = natural.copy()
        far[problem.layout.starts[:-1]] += scales_away
        rows = engine.collect(partial(sampled_loglik, problem, far, 4_000, 7))
        assert rows[:, 2].all() == lost
        truth = result.engine.sum(partial(evaluate, result.problem, far)).loglik
        assert rows[:, 0].sum() == pytest.approx(truth, rel=0.02)


@pytest.mark.parametrize("rule", [Maximum(), Minimum()])
def test_simulated_expectations_agree_with_quadrature(rule):
    rng = np.random.default_rng(0)
    means, scales = rng.standard_normal((20, 3)), np.array([0.7, 1.0, 1.3])
    ours = simulated_expectations(rule, means, scales, NORMAL, None, RowData())
    theirs = expectations(rule, means, scales, RowData(), [NORMAL] * means.shape[1])
    np.testing.assert_allclose(ours.chance, theirs.chance, atol=4e-3)
    np.testing.assert_allclose(ours.outcome, theirs.outcome, atol=4e-3)
    often = theirs.chance > 0.1
    for j in range(3):
        gap = (ours.given_seen - theirs.given_seen)[:, j][often]
        assert np.abs(gap).max() < 0.03


def test_correlation_moves_chances_as_it_should():
    means, scales = np.zeros((1, 2)), np.array([1.0, 2.0])
    correlation = np.array([[1.0, 0.8], [0.8, 1.0]])
    found = simulated_expectations(Maximum(), means, scales, NORMAL, correlation, RowData())
    # E max(a, b) of zero means is the standard deviation of the difference over sqrt(2 pi).
    spread = np.sqrt(1.0 + 4.0 - 2 * 0.8 * 2.0)
    assert found.outcome[0] == pytest.approx(spread / np.sqrt(2 * np.pi), abs=0.01)


@pytest.mark.parametrize("label", ["matrix", "labels"])
def test_known_covariances_are_read_and_checked(label):
    matrix = [[1.0, 0.3], [0.3, 2.0]]
    given = matrix if label == "matrix" else {"b": {"b": 2.0}, "a": {"a": 1.0, "b": 0.3}}
    noise = KnownCovariance(given)
    np.testing.assert_allclose(noise.covariance(["a", "b"]), matrix)
    np.testing.assert_allclose(noise.fixed_scales(["a", "b"]), [1.0, np.sqrt(2.0)])
    assert KnownCovariance(np.eye(2)).known_correlation(["a", "b"]) is None
    drawn = noise.draw(200_000, [1, 1], ["a", "b"], np.random.default_rng(0))
    np.testing.assert_allclose(np.cov(drawn.T), matrix, atol=0.03)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        ([[1.0, 2.0], [2.0, 1.0]], "not positive definite"),
        ([[1.0, 0.2], [0.3, 1.0]], "not symmetric"),
        ([1.0, 2.0], "square matrix"),
        ([["a"]], "must hold numbers"),
    ],
)
def test_a_covariance_that_is_none_is_refused(matrix, words):
    with pytest.raises(ss.errors.OptionError, match=words):
        KnownCovariance(matrix)


def test_a_covariance_of_other_alternatives_is_refused():
    with pytest.raises(ss.errors.OptionError, match="2 rows but there are 3"):
        KnownCovariance(np.eye(2)).covariance(["a", "b", "c"])
    with pytest.raises(ss.errors.OptionError, match="No covariance is given for 'a' and 'b'"):
        KnownCovariance({"a": {"a": 1.0}, "b": {"b": 1.0}}).covariance(["a", "b"])
