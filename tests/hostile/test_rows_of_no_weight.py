"""Rows of weight zero may hold anything, and estimates at a boundary have no covariance."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import ConvergenceWarning, DataError, ExtrapolationWarning
from selfselect.inference.sandwich import make_positive
from selfselect.inference.specification import _distance

SAME = 1e-6
"""The same optimum, found in internal units of other rows; derivatives by steps agree to 1e-9."""

MODELS = {
    "plain": {"chosen": "job"},
    "correlated": {"chosen": "job", "noise": "correlated"},
    "shock": {"chosen": "job", "noise": ss.noises.SharedShock()},
    "moving scale": {"chosen": "job", "noise": ss.noises.Independent(scale="~ height")},
    "estimated cost": {"chosen": "job", "cost": {"hunting": "~ weight"}},
    "ranked": {"chosen": "job", "rule": ss.rules.Ranked(2)},
    "unknown index": {
        "alternatives": 2, "seed": 1, "solver": ss.solvers.MaximumLikelihood(starts=8),
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def villagers():
    return ss.simulators.village(300, seed=3).data.assign(w=1)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("outcome", [1e8, -1e12])
def test_rows_of_weight_zero_count_for_nothing_whatever_they_hold(villagers, model, outcome):
    options = {"weights": "w", "weights_kind": "frequency", **MODELS[model]}
    columns = [name for name in villagers if "chosen" in options or name != "job"]
    wanted = ss.fit("income ~ height", villagers[columns], **options)
    odd = villagers.head(4).assign(income=outcome, height=-outcome, w=0)
    table = pd.concat([villagers, odd], ignore_index=True)[columns]
    found = ss.fit("income ~ height", table, **options)
    assert found.converged
    np.testing.assert_allclose(found.values, wanted.values, rtol=1e-5)
    np.testing.assert_allclose(found.bse, wanted.bse, rtol=1e-4)


EFFECTS = {
    "treatment": lambda fit: fit.treatment_effects("hunting", "fishing"),
    "marginal": lambda fit: fit.marginal_effects(),
    "sorting": lambda fit: fit.sorting(),
    "at the means": lambda fit: fit.choice_probabilities(at="means"),
}


@pytest.mark.parametrize("height", [9_999.0, -1e8])
@pytest.mark.parametrize("effect", EFFECTS)
def test_rows_of_weight_zero_count_for_nothing_in_effects(villagers, effect, height):
    told = {"chosen": "job", "weights": "w", "weights_kind": "frequency"}
    odd = villagers.head(40).assign(height=height, w=0)
    table = pd.concat([odd, villagers], ignore_index=True)
    wanted, found = (
        EFFECTS[effect](ss.fit("income ~ height + weight", one, **told)).table
        for one in (villagers, table)
    )
    for column in ("estimate", "std_error"):
        np.testing.assert_allclose(found[column], wanted[column], rtol=SAME, atol=1e-9)


def test_values_that_only_rows_of_weight_zero_hold_are_outside_of_the_data(villagers):
    odd = villagers.head(2).assign(height=9_999.0, w=0)
    table = pd.concat([villagers, odd], ignore_index=True)
    fit = ss.fit("income ~ height", table, chosen="job", weights="w", weights_kind="frequency")
    with pytest.warns(ExtrapolationWarning, match="'height' lies outside the range of the fit"):
        fit.choice_probabilities(at={"height": 5_000.0})


def test_the_commonest_category_counts_rows_by_their_weights(villagers):
    north = np.arange(len(villagers)) % 3 == 0
    rows = villagers.assign(place=np.where(north, "north", "south"), w=np.where(north, 5, 1))
    told = {"weights": "w", "weights_kind": "frequency"}
    weighted = ss.fit("income ~ height + place", rows, chosen="job", **told)
    repeated = ss.fit("income ~ height + place", rows.loc[rows.index.repeat(rows["w"])],
                      chosen="job")  # fmt: skip
    found, wanted = (
        one.choice_probabilities(at="means").table["estimate"] for one in (weighted, repeated)
    )
    np.testing.assert_allclose(found, wanted, rtol=SAME)


def test_two_ways_of_clustering_at_a_boundary_have_no_standard_errors():
    rng = np.random.default_rng(0)
    x, one = rng.standard_normal((400, 2)), rng.standard_normal(400)
    latent = np.column_stack([1 + x[:, 0] + one, x[:, 1] + 0.9 * one])
    table = pd.DataFrame(
        {
            "y": latent.max(axis=1), "x1": x[:, 0], "x2": x[:, 1],
            "who": np.array(["a", "b"])[latent.argmax(axis=1)],
            "firm": np.arange(400) % 23, "year": np.arange(400) % 17,
        }
    )  # fmt: skip
    with pytest.warns(ConvergenceWarning, match="At the boundary"):
        result = ss.fit(
            "y ~ x1 + x2", table, chosen="who", noise="correlated", cluster=["firm", "year"]
        )
    assert result.bse.isna().all() and "NO STANDARD ERRORS" in str(result.summary())


def test_an_unknown_covariance_is_not_repaired():
    meat = np.diag([1.0, -1.0])
    for information in (np.full((2, 2), np.nan), np.full((2, 2), np.inf)):
        made, repaired = make_positive(meat, information)
        assert made is meat and not repaired


def test_a_moment_that_does_not_vary_says_nothing():
    """Rounding leaves its variance below zero and its covariances above."""
    covariance = np.array([[2.0, 1e-9], [1e-9, -1e-20]])
    assert _distance(np.array([2.0, 1e-12]), covariance) == (pytest.approx(2.0), 1)
    assert _distance(np.zeros(2), np.zeros((2, 2))) == (0.0, 0)


@pytest.mark.parametrize("kind", ["frequency", "probability"])
@pytest.mark.parametrize("lacking", ["income", "job"])
def test_rows_of_weight_zero_may_lack_their_outcome_or_choice(villagers, kind, lacking):
    options = {"chosen": "job", "weights": "w", "weights_kind": kind}
    wanted = ss.fit("income ~ height", villagers, **options)
    odd = villagers.head(4).assign(w=0)
    odd[lacking] = np.nan if lacking == "income" else None
    found = ss.fit("income ~ height", pd.concat([villagers, odd], ignore_index=True), **options)
    assert found.llf == pytest.approx(wanted.llf, rel=1e-10)
    np.testing.assert_allclose(found.bse, wanted.bse, rtol=1e-6)
    assert found.facts.n_without_outcome == 0 and found.nobs == wanted.nobs
    given = ss.fit(
        "income ~ height", pd.concat([villagers, odd], ignore_index=True).drop(columns="w"),
        **(options | {"weights": np.r_[np.ones(len(villagers)), np.zeros(4)]}),
    )  # fmt: skip
    assert given.llf == pytest.approx(wanted.llf, rel=1e-10)
    counted = odd.assign(w=[0, 0, 1, 0])
    with pytest.raises(DataError, match=r"^1 rows (were chosen but )?have no"):
        ss.fit("income ~ height", pd.concat([villagers, counted], ignore_index=True), **options)


@pytest.mark.parametrize("missing_outcome", ["raise", "silent", "drop"])
def test_rows_of_weight_zero_that_say_nothing_are_left_out(villagers, missing_outcome):
    data = villagers.drop(columns="job")
    options = {
        "alternatives": 2, "weights": "w", "weights_kind": "frequency", "seed": 1,
        "solver": ss.solvers.MaximumLikelihood(starts=8),
    }  # fmt: skip
    wanted = ss.fit("income ~ height", data, **options)
    odd = data.head(3).assign(income=np.nan, w=0)
    found = ss.fit(
        "income ~ height", pd.concat([data, odd], ignore_index=True),
        missing_outcome=missing_outcome, **options,
    )  # fmt: skip
    assert found.llf == pytest.approx(wanted.llf, rel=1e-8)


def test_selected_rows_of_weight_zero_may_lack_their_outcome(villagers):
    rng = np.random.default_rng(1)
    works = rng.random(len(villagers)) < 0.6
    data = villagers.assign(works=works, wage=np.where(works, villagers["income"], np.nan))
    odd = data.head(3).assign(works=True, wage=np.nan, w=0)
    options = {"weights": "w", "weights_kind": "frequency"}
    wanted = ss.sample_selection("wage ~ height", "works ~ height + weight", data, **options)
    table = pd.concat([data, odd], ignore_index=True)
    found = ss.sample_selection("wage ~ height", "works ~ height + weight", table, **options)
    assert found.llf == pytest.approx(wanted.llf, rel=1e-8)


def test_cases_of_weight_zero_may_lack_their_outcome():
    tenders = ss.simulators.tender(200, seed=1).data
    tenders["w"] = 1.0 * (tenders["tender"] > 3)
    options = {
        "case": "tender", "alternatives": "firm", "chosen": "won", "rule": "min", "shared": "all",
        "weights": "w", "weights_kind": "frequency",
    }  # fmt: skip
    wanted = ss.fit("bid ~ size + distance", tenders, **options)
    silent = tenders.assign(bid=tenders["bid"].where(tenders["tender"] > 3))
    found = ss.fit("bid ~ size + distance", silent, **options)
    assert found.llf == pytest.approx(wanted.llf, rel=1e-8)
