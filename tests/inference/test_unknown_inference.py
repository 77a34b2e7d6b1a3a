"""Inference where the chosen alternative was not recorded: size, power, coverage."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.solvers import MaximumLikelihood

SLOPES = np.array([[2.0, 0.5], [-1.5, 1.5]])


def draw(rho, n_rows, seed, rule="max"):
    rng = np.random.default_rng([seed, 31])
    x = rng.standard_normal((n_rows, 2))
    shared = rng.standard_normal((n_rows, 1))
    noise = np.sqrt(rho) * shared + np.sqrt(1 - rho) * rng.standard_normal((n_rows, 2))
    latent = 0.2 + x @ SLOPES.T + noise
    y = latent.max(axis=1) if rule == "max" else latent.min(axis=1)
    return pd.DataFrame({"y": y, "x1": x[:, 0], "x2": x[:, 1]})


def fit(data, rule="max"):
    solver = MaximumLikelihood(starts=1)
    return ss.fit("y ~ x1 + x2", data, alternatives=2, rule=rule, solver=solver)


@pytest.fixture(scope="module")
def fits():
    return [fit(draw(0.0, 1_000, seed)) for seed in range(100)]


def test_the_test_of_independence_keeps_its_size(fits):
    tests = [one.independence_test() for one in fits]
    assert all(test.possible and test.df == 1 for test in tests)
    # Of 100 samples 5% plus or minus 2.2% reject where the size is right.
    assert np.mean([test.rejects(0.95) for test in tests]) <= 0.13
    assert 0.6 < np.mean([test.statistic for test in tests]) < 1.7


@pytest.mark.parametrize("rule", ["max", "min"])
def test_strong_correlation_is_found(rule):
    rejected = [
        fit(draw(0.7, 4_000, seed, rule), rule).independence_test().rejects() for seed in range(6)
    ]
    assert np.mean(rejected) >= 0.6


def test_the_statistic_does_not_depend_on_units():
    data = draw(0.3, 1_000, 1)
    moved = data.assign(y=1e3 * data["y"] + 7.0, x1=1e-4 * data["x1"] - 3.0)
    one, other = fit(data).independence_test(), fit(moved).independence_test()
    assert other.statistic == pytest.approx(one.statistic, rel=1e-4)
    turned = fit(data.assign(y=-data["y"]), "min").independence_test()
    assert turned.statistic == pytest.approx(one.statistic, rel=0.05)  # other rows are drawn


def test_intervals_cover_the_truth_as_often_as_they_say(fits):
    """Seven parameters in 100 samples: 95% plus or minus 0.8% if all were independent."""
    truth = {1: SLOPES[0], 2: SLOPES[1]}
    inside = []
    for one in fits:
        first = one.params.xs("x1", level="term").idxmax()
        for label, slopes in ((first, truth[1]), (3 - first, truth[2])):
            ends = one.conf_int().loc[label]
            values = np.array([0.2, *slopes])
            inside += list((ends["conf_low"] < values) & (values < ends["conf_high"]))
        low, high = one.conf_int().iloc[-1]
        inside.append(low < 1.0 < high)
    assert 0.91 < np.mean(inside) < 0.98


def test_errors_are_those_of_the_spread_over_samples(fits):
    """The information matrix says how far estimates scatter: within 20%, for 100 samples."""
    found, said = [], []
    for one in fits:
        first = one.params.xs("x1", level="term").idxmax()
        found.append(np.concatenate([one.params[first], one.params[3 - first]]))
        said.append(np.concatenate([one.bse[first], one.bse[3 - first]]))
    ratio = np.std(found, axis=0) / np.mean(said, axis=0)
    assert ratio.min() > 0.75 and ratio.max() < 1.3


def test_a_hypothesis_about_named_equations_can_be_tested():
    market = ss.simulators.market(800, seed=3)
    result = ss.fit(market.formula, market.data, rule="min")
    test = result.wald_test("demand:rate = -1, supply:rate = 0.8")
    assert test.df == 2 and test.p_value > 0.001
    assert result.wald_test("demand:rate = supply:rate").p_value < 1e-6


def test_ranks_have_a_test_of_independence_too():
    rule = ss.rules.Ranked(2)
    statistics = []
    for seed in range(25):
        sample = ss.simulators.gaussian(500, 1, 3, rule=rule, norm=1.5, seed=seed)
        result = ss.fit(
            sample.formula, sample.data, chosen="chosen", rule=rule,
            solver=MaximumLikelihood(starts=1),
        )  # fmt: skip
        statistics.append(result.independence_test().statistic)
        assert result.independence_test().df == 3
    # A chi-square of 3 degrees averages 3, in 25 samples with a standard deviation of 0.5.
    assert 1.0 < np.nanmean(statistics) < 5.5
