"""Every box rule finds the truth that its sample was drawn from."""

from __future__ import annotations

import numpy as np
import pytest

import selfselect as ss

FOUR_ERRORS = 4.0
"""Beyond four standard errors lies one estimate in 16,000 where the model is right."""

N_ROWS = 20_000


def errors_off(result, truth):
    return (result.params - truth[result.params.index]) / result.bse


def test_every_rule_recovers_its_truth(world, rule_name, with_known):
    made = world(rule_name, N_ROWS, known=with_known, seed=7)
    result = made.fit()
    off = errors_off(result, made.sample.params)
    assert result.converged
    assert off.abs().max() < FOUR_ERRORS
    # Squares of standard normals average one; of 13, with a standard deviation of 0.4.
    assert (off**2).mean() < 2.6


def test_least_squares_is_off_where_the_fit_is_right(world):
    made = world("max", N_ROWS, seed=7)
    result = made.fit()
    naive = result.naive["estimate"][made.sample.params.index]
    off = (naive - made.sample.params) / result.bse
    assert off.abs().max() > 20 and errors_off(result, made.sample.params).abs().max() < FOUR_ERRORS


@pytest.mark.parametrize("n_alternatives", [2, 5])
@pytest.mark.parametrize("rule", ["max", "min"])
def test_any_number_of_alternatives_is_recovered(rule, n_alternatives):
    sample = ss.simulators.gaussian(N_ROWS, 3, n_alternatives, rule=rule, seed=1)
    result = ss.fit(sample.formula, sample.data, chosen="chosen", rule=rule)
    assert errors_off(result, sample.params).abs().max() < FOUR_ERRORS


@pytest.mark.parametrize("scale", ["common", 1.0, {"a": 1.0, "b": 1.0, "c": 1.0}])
def test_known_and_shared_scales_are_recovered_and_sharpen_the_estimate(scale):
    sample = ss.simulators.gaussian(N_ROWS, 3, 3, seed=2)
    free = ss.fit(sample.formula, sample.data, chosen="chosen")
    noise = ss.noises.Independent(scale=scale)
    result = ss.fit(sample.formula, sample.data, chosen="chosen", noise=noise)
    np.testing.assert_allclose(result.scales, 1.0, atol=4 * 0.01)
    slopes = [label for label in result.params.index if label[1] != "scale"]
    off = (result.params[slopes] - sample.params[slopes]) / result.bse[slopes]
    assert off.abs().max() < FOUR_ERRORS
    # Errors are estimates too: one or the other may come out a percent larger.
    ratio = result.bse[slopes] / free.bse[slopes]
    assert ratio.max() < 1.02 and ratio.mean() < 0.97


def test_errors_shrink_with_the_root_of_the_rows(world):
    few, many = (world("max", n, seed=3).fit() for n in (2_000, 32_000))
    np.testing.assert_allclose(few.bse / many.bse, 4.0, rtol=0.12)
