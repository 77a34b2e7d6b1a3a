"""Simulated samples: their tables, their truth, and that a fit finds it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import selfselect as ss
from selfselect.errors import OptionError

SURE = 5.0
"""Standard errors by which an estimate may be off: some 60 of them are compared."""

TWO = {"a": {"Intercept": 1.0, "x": 2.0}, "b": {"x": -1.0}}


def covariates(n_rows: int = 50) -> pd.DataFrame:
    return pd.DataFrame({"x": np.linspace(-1.0, 1.0, n_rows)})


def test_what_is_seen_is_what_the_rule_picks() -> None:
    for name, pick in (("max", np.max), ("min", np.min)):
        sample = ss.simulate(TWO, covariates(), rule=name, seed=1)
        np.testing.assert_array_equal(sample.data["outcome"], pick(sample.latent, axis=1))
        own = [sample.latent.loc[i, label] for i, label in enumerate(sample.data["chosen"])]
        np.testing.assert_array_equal(sample.data["outcome"], own)


def test_costs_and_availability_shape_the_choice() -> None:
    table = covariates().assign(fee=5.0, open=np.arange(50) % 2)
    rule = ss.rules.Maximum(cost={"a": "fee"})
    sample = ss.simulate(TWO, table, rule=rule, available={"b": "open"}, seed=1)
    net = sample.latent - [5.0, 0.0]
    expected = np.where(table["open"] == 0, "a", np.where(net["a"] > net["b"], "a", "b"))
    np.testing.assert_array_equal(sample.data["chosen"], expected)


def test_the_truth_is_labelled_like_a_fit() -> None:
    sample = ss.simulate(TWO, covariates(300), scales={"b": 2.0}, seed=1)
    fit = ss.fit(sample.formula, sample.data, chosen=sample.chosen)
    assert list(sample.params.index) == list(fit.params.index)
    assert sample.params.index.names == fit.params.index.names
    assert sample.params["a", "scale"] == 1.0
    assert sample.params["b", "scale"] == 2.0
    assert sample.formula == {"a": "outcome ~ x", "b": "outcome ~ x - 1"}


def test_seeds_are_kept_and_differ() -> None:
    for make in (
        ss.simulators.village, ss.simulators.gaussian, ss.simulators.market,
        ss.simulators.auction, ss.simulators.tender, _hostile,
    ):  # fmt: skip
        pd.testing.assert_frame_equal(make(100, seed=1).data, make(100, seed=1).data)
        assert not make(100, seed=1).data.equals(make(100, seed=2).data)


def _hostile(n_rows: int, *, seed: int) -> Any:
    return ss.simulators.hostile("ties", n_rows, seed=seed)


def test_scales_come_from_one_place() -> None:
    for options, expected in (
        ({}, [1.0, 1.0]),
        ({"scales": 2.0}, [2.0, 2.0]),
        ({"scales": [1.0, 3.0]}, [1.0, 3.0]),
        ({"noise": ss.noises.Independent({"a": 4.0, "b": 5.0})}, [4.0, 5.0]),
    ):
        params = ss.simulate(TWO, covariates(), **options).params
        assert params[:, "scale"].tolist() == expected
    wide = ss.simulate(TWO, covariates(5_000), noise=ss.noises.Independent(30.0), seed=1)
    assert wide.latent["b"].std() == pytest.approx(30.0, rel=0.1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scales": -1.0}, "positive"),
        ({"scales": "each"}, "scales as numbers"),
        ({"scales": {"z": 1.0}}, "alternatives are a, b"),
        ({"scales": 1.0, "noise": ss.noises.Independent(2.0)}, "fixes the scales already"),
        ({"outcome": "x"}, "already have a column 'x'"),
        ({"chosen": "x"}, "already have a column 'x'"),
        ({"rule": "best"}, "no rule named"),
    ],
)
def test_what_contradicts_itself_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        ss.simulate(TWO, covariates(), **options)


def test_missing_parts_are_named() -> None:
    with pytest.raises(OptionError, match="no covariate 'z'"):
        ss.simulate({"a": {"z": 1.0}, "b": {"x": 1.0}}, covariates())
    with pytest.raises(OptionError, match="at least two alternatives, not 1"):
        ss.simulate({"a": {"x": 1.0}}, covariates())
    with pytest.raises(OptionError, match=r"no hostile data 'kind'.*rare, ties, huge, collinear"):
        ss.simulators.hostile("kind")


@pytest.mark.parametrize("kind", [dict, pl.from_pandas, lambda table: table.set_axis([7] * 50)])
def test_covariates_come_from_tables_of_every_kind(kind: Any) -> None:
    found = ss.simulate(TWO, kind(covariates()), seed=1)
    pd.testing.assert_frame_equal(found.data, ss.simulate(TWO, covariates(), seed=1).data)


def test_odd_names_make_a_formula_that_works() -> None:
    table = covariates(200).rename(columns={"x": "boat size"})
    sample = ss.simulate(
        {"a": {"boat size": 1.0}, "b": {"boat size": -1.0}}, table, outcome="net pay", seed=1
    )
    assert sample.formula == "`net pay` ~ `boat size` - 1"
    assert ss.fit(sample.formula, sample.data, chosen="chosen").converged


@pytest.mark.parametrize("name", ["village", "gaussian", "min", "rare", "ties", "huge"])
def test_a_fit_finds_the_truth(name: str) -> None:
    sample = {
        "village": lambda: ss.simulators.village(4_000, seed=1),
        "gaussian": lambda: ss.simulators.gaussian(4_000, 3, 3, seed=1),
        "min": lambda: ss.simulators.gaussian(4_000, 2, 4, rule="min", seed=1),
    }.get(name, lambda: ss.simulators.hostile(name, 4_000, seed=1))()
    fit = ss.fit(sample.formula, sample.data, chosen=sample.chosen, rule=sample.rule)
    assert fit.converged
    error = (fit.params - sample.params[fit.params.index]) / fit.bse
    assert error.abs().max() < SURE


def test_the_village_tells_its_story() -> None:
    """Least squares makes height look less useful for hunters than it is."""
    sample = ss.simulators.village(5_000, seed=1)
    table = ss.fit(sample.formula, sample.data, chosen="job").compare().table
    truth = sample.params["hunting", "height"]
    assert table.loc[("hunting", "height"), "naive"] < truth - 0.1


def test_the_rare_alternative_is_rare() -> None:
    share = (ss.simulators.hostile("rare", 50_000).data["chosen"] == "rare").mean()
    assert share == pytest.approx(0.01, abs=0.003)


def test_many_alternatives_get_letters() -> None:
    labels = ss.simulators.gaussian(200, 1, 28, seed=0).latent.columns
    assert labels[[0, 25, 26, 27]].tolist() == ["a", "z", "aa", "ab"]


def test_the_short_side_of_the_market_decides() -> None:
    sample = ss.simulators.market(400, seed=1)
    np.testing.assert_array_equal(sample.data["quantity"], sample.latent.min(axis=1))
    np.testing.assert_array_equal(sample.data["side"], sample.latent.idxmin(axis=1))
    assert sample.formula == {
        "demand": "quantity ~ rate + stock", "supply": "quantity ~ rate + deposits",
    }  # fmt: skip
    share = sample.data["side"].value_counts(normalize=True)
    assert share.min() > 0.2
    assert sample.params["demand", "rate"] < 0 < sample.params["supply", "rate"]


def test_the_highest_bid_wins_the_auction() -> None:
    sample = ss.simulators.auction(400, seed=1)
    np.testing.assert_array_equal(sample.data["bid"], sample.latent.max(axis=1))
    np.testing.assert_array_equal(sample.data["winner"], sample.latent.idxmax(axis=1))
    assert sample.data["winner"].value_counts(normalize=True).min() > 0.1


@pytest.mark.parametrize("rank", [1, 2, 3, "median"])
def test_ranks_are_simulated(rank: Any) -> None:
    sample = ss.simulators.gaussian(200, 2, 3, rule=ss.rules.Ranked(rank), seed=1)
    place = 2 if rank == "median" else rank
    np.testing.assert_array_equal(
        sample.data["outcome"], np.sort(sample.latent, axis=1)[:, ::-1][:, place - 1]
    )


@pytest.mark.parametrize(
    ("name", "total", "truth"),
    [
        ("auction", 291.7064530178, 18.9),
        ("curved", 124.9950235667, 9.7),
        ("gaussian", 221.9788922457, 9.6596653826),
        ("market", 656.3951261408, 26.7),
        ("tender", 4818.4055613353, 5.26),
        ("village", 12578.0987135623, 155.2),
    ],
)
def test_simulated_worlds_stay_as_they_are(name: str, total: float, truth: float) -> None:
    sample = getattr(ss.simulators, name)(40, seed=3)
    assert sample.data.select_dtypes("number").abs().sum().sum() == pytest.approx(total, rel=1e-10)
    assert sample.params.abs().sum() == pytest.approx(truth, rel=1e-10)


@pytest.mark.parametrize(
    ("kind", "outcomes", "truth"),
    [
        ("rare", 127.8058095354, 6.5),
        ("ties", 85.3300582218, 9.0),
        ("huge", 440.2391635870, 1500000392.185),
        ("collinear", 40.9367110000, 4.7),
    ],
)
def test_hostile_worlds_stay_as_they_are(kind: str, outcomes: float, truth: float) -> None:
    sample = ss.simulators.hostile(kind, 40, seed=3)
    assert sample.data["outcome"].abs().sum() == pytest.approx(outcomes, rel=1e-10)
    assert sample.params.abs().sum() == pytest.approx(truth, rel=1e-10)


def test_samples_beyond_memory_are_refused() -> None:
    with pytest.raises(ss.errors.SelfSelectError, match="Ask for less"):
        ss.simulators.village(10**13)
