"""Expectations where noise is joined across alternatives: against simulation and other code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import selfselect as ss
from selfselect.moments._expectations import expectations
from selfselect.moments.base import latent_means
from selfselect.moments.choose import moments_of
from selfselect.moments.joint import joint_expectations
from selfselect.noises import Correlated, Independent, SharedShock
from selfselect.noises.shapes.normal import SHAPE as NORMAL
from selfselect.problem.problem import Problem

QUADRATURE = 1e-8
DRAWS = 400_000
SIX_ERRORS = 6.0
"""Of a simulated mean; a hundred and more are looked at."""


@pytest.fixture(scope="module")
def three(world):
    """Return the problem, reported parameters and rows of a fit of three alternatives."""
    result = world("max", 300).fit()
    return result.problem, result.values, result.rows.take(slice(3))


@pytest.mark.parametrize("rule_name", ["max", "min"])
@pytest.mark.parametrize("known", [False, True])
def test_under_independent_noise_both_ways_agree(world, rule_name, known):
    result = world(rule_name, 300, known=known).fit()
    problem, rows = result.problem, result.rows.take(slice(20))
    natural = problem.layout.natural(result.solution.free)
    found = joint_expectations(problem, natural, rows)
    means = latent_means(problem, result.values, rows)
    scales, shapes = result.scales.to_numpy(), [NORMAL] * means.shape[1]
    wanted = expectations(problem.ordered_rule, means, scales, rows.known, shapes)
    np.testing.assert_allclose(found.chance, wanted.chance, atol=QUADRATURE)
    np.testing.assert_allclose(found.outcome, wanted.outcome, atol=QUADRATURE)
    # Of the one that is hardly ever seen means are ratios of small numbers.
    where = np.broadcast_to(wanted.chance[:, None, :] > 1e-4, wanted.given_seen.shape)
    np.testing.assert_allclose(found.given_seen[where], wanted.given_seen[where], atol=1e-6)


CORRELATION = np.array([[1.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 1.0]])
LOADING = {"a": 0.9, "b": -0.5, "c": 0.4}


@pytest.mark.parametrize("rule", ["max", "min"])
@pytest.mark.parametrize("noise", ["correlated", "shared shock", "with costs"])
def test_chances_and_means_are_those_of_a_simulation(three, noise, rule):
    plain, values, rows = three
    the_rule = ss.rules.Maximum() if rule == "max" else ss.rules.Minimum()
    equations, added = plain.equations, []
    made = Correlated(correlation=CORRELATION, draws=512)
    if noise == "shared shock":
        made = SharedShock(loading=LOADING, nodes=25)
    if noise == "with costs":
        made = Independent()
        equations = equations.with_costs({"b": ["Intercept", "x1"]})
        added = [0.5, -0.3]
    problem = Problem(equations, the_rule, made, plain.units)
    reported = np.concatenate([values, added])
    found = moments_of(problem).expectations(reported, rows)

    rng = np.random.default_rng(5)
    scales = plain.layout.scales_of(values)
    means = latent_means(plain, values, rows)
    for i in range(len(rows)):
        latent = means[i] + made.draw(DRAWS, list(scales), ["a", "b", "c"], rng)
        sign = 1.0 if rule == "max" else -1.0
        net = sign * latent
        if added:
            net[:, 1] -= added[0] + added[1] * rows.covariates[i, 0]
        seen = net.argmax(axis=1)
        outcome = latent[np.arange(DRAWS), seen]
        error = outcome.std() / np.sqrt(DRAWS)
        # Points of the simulated likelihood err by less than these draws do.
        assert abs(found.outcome[i] - outcome.mean()) < SIX_ERRORS * error + 1e-3
        for j in range(3):
            share = (seen == j).mean()
            error = np.sqrt(share * (1 - share) / DRAWS)
            assert abs(found.chance[i, j] - share) < SIX_ERRORS * error + 1e-3
            if share > 0.02:
                of_those = latent[seen == j]
                error = of_those.std(axis=0) / np.sqrt(len(of_those))
                gap = np.abs(found.given_seen[i, :, j] - of_those.mean(axis=0))
                assert (gap < SIX_ERRORS * error + 5e-3).all()


def test_expectations_keep_to_the_law_of_total_expectation(three):
    plain, values, rows = three
    problem = replace(plain, noise=SharedShock(loading=LOADING, nodes=25))
    found = moments_of(problem).expectations(values, rows)
    np.testing.assert_allclose(found.chance.sum(axis=1), 1.0, atol=QUADRATURE)
    means = np.einsum("nl,njl->nj", found.chance, found.given_seen)
    np.testing.assert_allclose(means, latent_means(problem, values, rows), atol=1e-7)
