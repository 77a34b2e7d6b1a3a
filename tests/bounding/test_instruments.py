"""Bounds intersected over an instrument, and the tests of the rule that follow."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

import selfselect as ss
from selfselect.bounding.bounds import QuantileBound, ShareBound, best_of, lower_share, upper_share

FORMULAS = {"a": "y ~ x + z", "b": "y ~ x"}


def roy(n_rows, seed, *, moved=1.0, chosen=None):
    """Draw a Roy model in which z moves the outcome of a; `chosen` may override the choice."""
    rng = np.random.default_rng([seed, 11])
    x, z = rng.normal(size=n_rows), rng.integers(0, 5, n_rows)
    latent = np.column_stack([x + moved * (z - 2.0), 0.3 - 0.5 * x]) + rng.normal(size=(n_rows, 2))
    picked = latent.argmax(axis=1) if chosen is None else chosen(latent, z)
    y = latent[np.arange(n_rows), picked]
    return {"y": y, "job": np.array(["a", "b"])[picked], "x": x, "z": z}, latent


def test_an_instrument_sharpens_the_outcomes_it_is_excluded_from_and_no_others():
    data, _ = roy(4_000, 1)
    plain = ss.bounds(FORMULAS, data, chosen="job", quantiles=[0.25, 0.5])
    found = ss.bounds(FORMULAS, data, chosen="job", quantiles=[0.25, 0.5], instrument="z")
    one, other = (f.quantiles.set_index(["of", "quantile"]) for f in (plain, found))
    names = ["lower", "upper", "conf_low", "conf_high"]
    assert np.allclose(one.loc["a", names], other.loc["a", names])
    assert np.allclose(one.loc["a - b", names], other.loc["a - b", names])
    assert np.isinf(one.loc[("b", 0.25), "lower"])
    assert other.loc[("b", 0.25), "lower"] > -3.0
    assert other.loc[("b", 0.25), "upper"] < one.loc[("b", 0.25), "upper"]
    assert len(found.tests) == 1


def test_intersections_cover_where_a_naive_best_would_not():
    # Here z moves nothing: every value has the same upper bound, that of all rows.
    many, _ = roy(400_000, 10_000, moved=0.0)
    truth = np.mean((many["job"] != "b") | (many["y"] <= 0.5))
    held = naive = 0
    for seed in range(40):
        data, _ = roy(500, seed, moved=0.0)
        found = ss.bounds(FORMULAS, data, chosen="job", instrument="z", points=[0.5])
        row = found.distribution[found.distribution["of"] == "b"].iloc[0]
        below = (data["job"] != "b") | (data["y"] <= 0.5)
        held += row["conf_high"] >= truth
        naive += min(below[data["z"] == z].mean() for z in range(5)) >= truth
    assert held >= 38
    assert naive <= 10


def test_the_test_of_the_rule_keeps_a_true_one_and_finds_gross_violations():
    rejected = sum(
        ss.bounds(FORMULAS, roy(500, seed)[0], chosen="job", instrument="z").tests[0].p_value
        <= 0.05
        for seed in range(30)
    )
    assert rejected <= 1

    def rationed(latent, z):
        # Where z is low a is closed, though better: b is observed when it is not the largest.
        return np.where(z < 2, 1, latent.argmax(axis=1))

    data, _ = roy(3_000, 5, moved=0.0, chosen=rationed)
    # The worse of two outcomes is observed, which differs strongly by z.
    smaller, _ = roy(3_000, 6, moved=1.5, chosen=lambda latent, _: latent.argmin(axis=1))
    found = ss.bounds(FORMULAS, smaller, chosen="job", instrument="z")
    assert found.tests[0].p_value < 0.01
    assert any("REJECTED" in warning for warning in found.warnings)
    sharper = ss.bounds("y ~ x", data, chosen="job", instrument="z").tests
    assert len(sharper) == 2
    assert sharper[1].p_value < 0.001


def test_the_sharper_test_has_its_size_and_is_left_out_where_costs_may_move():
    p_values = [
        ss.bounds("y ~ x", roy(500, seed, moved=0.0)[0], chosen="job", instrument="z")
        .tests[1]
        .p_value
        for seed in range(60)
    ]
    assert 0 <= sum(p <= 0.05 for p in p_values) <= 7
    assert 0.3 < np.mean(p_values) < 0.7
    data, _ = roy(600, 1)
    found = ss.bounds("y ~ x", data, chosen="job", instrument="z", cost={"a": "z"})
    assert len(found.tests) == 1


def test_values_with_few_rows_are_joined_and_many_numbers_cut():
    data, _ = roy(600, 2)
    data["z"] = np.where(np.arange(600) < 6, 9, data["z"])
    found = ss.bounds(FORMULAS, data, chosen="job", instrument="z")
    assert any("1 values of z" in note for note in found.notes)
    found = ss.bounds("y", data, chosen="job", instrument="x")
    assert any("cut into 5 groups" in note for note in found.notes)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.4, 0.98, 1.0])
def test_limits_of_shares_are_those_of_clopper_and_pearson(share):
    exact = binomtest(round(50 * share), 50).proportion_ci(0.95, method="exact")
    assert upper_share(share, 50, 0.025) == pytest.approx(exact.high)
    assert lower_share(share, 50, 0.025) == pytest.approx(exact.low)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.93])
@pytest.mark.parametrize("tail", [0.025, 0.001, 0.4])
def test_limits_of_quantiles_are_where_limits_of_shares_reach_them(share, tail):
    values = np.concatenate([[-np.inf], np.arange(200.0)])
    shares = np.arange(201) / 200
    nowhere = np.zeros(202, dtype=bool)
    bound = QuantileBound(share, values, shares, nowhere, 200.0, "upper", (-np.inf, np.inf))
    low, high = upper_share(shares, 200, tail), lower_share(shares, 200, tail)
    assert bound.limit("lower", tail) == values[low >= share][0]
    reached = values[high >= share]
    assert bound.limit("upper", tail) == (reached[0] if len(reached) else np.inf)


def test_the_best_of_several_bounds_counts_only_those_that_may_be_the_best():
    near = [ShareBound(0.4, 2_000), ShareBound(0.41, 2_000)]
    far = [*near, *(ShareBound(0.9, 2_000) for _ in range(8))]
    assert best_of(far, "upper", 0.025, 20_000).confidence == pytest.approx(
        best_of(near, "upper", 0.025, 20_000).confidence
    )
    assert best_of(near, "upper", 0.025, 4_000).estimate > 0.4


@pytest.mark.parametrize("options", [{"instrument": "job"}, {"instrument": "y"}, {"along": "y"}])
def test_the_choice_and_the_outcome_are_no_instruments(options):
    data, _ = roy(200, 1)
    with pytest.raises(ss.errors.OptionError, match="is the outcome or the choice itself"):
        ss.bounds("y", data, chosen="job", **options)


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("y ~ y", "hold the outcome 'y' itself"),
        ("y ~ x + np.log(y)", "hold the outcome 'y' itself"),
        ({"a": "y ~ x", "b": "y ~ x + job"}, "hold the choice 'job'"),
    ],
)
def test_the_choice_and_the_outcome_are_no_covariates(formula, words):
    data, _ = roy(200, 1)
    with pytest.raises(ss.errors.FormulaError, match=words):
        ss.bounds(formula, data, chosen="job")


def test_bounds_that_are_far_from_crossing_reject_nothing():
    rng = np.random.default_rng([0, 5_000])
    n_rows = 5_000
    x, z = rng.standard_normal(n_rows), rng.integers(0, 5, n_rows)
    noise = rng.standard_normal((n_rows, 2)) * np.exp(0.5 * x)[:, None]
    latent = np.column_stack([0.5 + x, 0.8 - 0.5 * x]) + noise
    chosen = latent.argmax(axis=1)
    table = pd.DataFrame(
        {"x": x, "z": z, "y": latent.max(axis=1), "job": np.array(["a", "b"])[chosen]}
    )
    formulas = {"a": "y ~ x + z", "b": "y ~ x"}
    found = ss.bounds(formulas, table, chosen="job", instrument="z").tests[0]
    assert found.statistic < -3.9 and found.p_value > 0.99
