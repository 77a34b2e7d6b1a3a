"""Expectations where noise joins the alternatives, against those of independent noise."""

from __future__ import annotations

import numpy as np
import pytest

from selfselect.moments._expectations import expectations
from selfselect.moments.base import latent_means
from selfselect.moments.joint import joint_expectations
from selfselect.noises.shapes.normal import SHAPE as NORMAL

QUADRATURE = 1e-8


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
