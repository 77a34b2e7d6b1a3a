"""What pages say of weights, clusters and errors must hold of the fit at hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss


@pytest.fixture(scope="module")
def villagers():
    rng = np.random.default_rng(3)
    table = ss.simulators.village(400, seed=5).data
    return table.assign(
        p=rng.uniform(0.3, 3.0, 400) * np.where(table["height"] > 170, 3.0, 1.0),
        **{f"of{n}": np.arange(400) % n for n in (2, 9, 20)},
    )


def fit(table, **options):
    return ss.fit("income ~ height", table, chosen="job", **options)


def page(result):
    return " ".join(str(result.summary()).split())


def test_how_well_few_clusters_do_is_claimed_where_it_was_measured(villagers):
    said = page(fit(villagers, cluster="of9"))
    assert "cover at about their level" in said and "covariance='bootstrap'" in said
    said = page(fit(villagers, cluster="of2"))
    assert "with 1 degree of freedom" in said
    assert "with fewer than 8 clusters was not measured" in said
    assert "cover at about their level" not in said


@pytest.mark.parametrize("ask", ["selection", "switching"])
def test_models_with_a_selection_equation_do_not_point_to_a_bootstrap_they_lack(villagers, ask):
    table = villagers.assign(s=villagers["job"] == "hunting")
    asked = {
        "selection": lambda **options: ss.sample_selection(
            "income ~ height", "s ~ height + weight", table, **options
        ),
        "switching": lambda **options: ss.switching(
            "income ~ height", "job ~ height + weight", table, **options
        ),
    }[ask]
    said = page(asked(cluster="of20"))
    assert "Few clusters (20)" in said and "in such models was not measured" in said
    assert "covariance='bootstrap'" not in said
    said = page(asked(weights="p", weights_kind="probability"))
    weights = table["p"] / table["p"].mean()
    assert f"Effective rows: {weights.sum() ** 2 / (weights**2).sum():.1f}" in said
    assert "are those of a pseudo-likelihood" in said


def test_where_there_are_no_standard_errors_no_kind_of_them_is_named(villagers):
    result = fit(
        villagers, noise=ss.noises.Independent(scale=10.0), seed=1,
        solver=ss.solvers.ProjectedSGD(passes=30),
    )  # fmt: skip
    said = page(result)
    assert "NO STANDARD ERRORS" in said and "Std errors: none" in said
    assert "observed information" not in said


@pytest.mark.parametrize("saved", [False, True])
def test_effects_over_given_rows_say_that_weights_and_clusters_are_not_used(
    villagers, saved, tmp_path
):
    result = fit(villagers, weights="p", weights_kind="probability", cluster="of20")
    own = " ".join(str(result.treatment_effects("hunting", "fishing")).split())
    assert "weighted by p" in own and "not used" not in own and "independent (" not in own
    if saved:
        result.save(tmp_path / "fit.json")
        result = ss.load(tmp_path / "fit.json")
    for effect in (
        result.treatment_effects("hunting", "fishing", data=villagers),
        result.marginal_effects(data=villagers),
        result.potential_outcomes(villagers),
        result.counterfactual(close=["fishing"], base=villagers),
    ):
        said = " ".join(str(effect).split())
        assert "with equal weight (the weights p of the fit are not used)" in said
        assert "being a sample of rows that are independent" in said
    alike = result.predict(villagers)
    found = result.treatment_effects("hunting", "fishing", data=villagers).table["estimate"].iloc[0]
    assert found == pytest.approx((alike["hunting"] - alike["fishing"]).mean())


def test_marginal_effects_of_long_data_are_those_of_covariates():
    tenders = ss.simulators.tender(300, seed=1).data
    result = ss.fit(
        "bid ~ size + distance", tenders, case="tender", alternatives="firm", chosen="won",
        rule="min",
    )  # fmt: skip
    effects = result.marginal_effects()
    assert set(effects.table["variable"]) == {"size", "distance"}
    assert "Averages over the 300 cases of the fit" in " ".join(str(effects).split())
    up, down = (
        result.predict(tenders.assign(distance=tenders["distance"] + step), "chance").mean()
        for step in (1e-3, -1e-3)
    )
    found = effects.table.set_index(["variable", "alternative"])["estimate"]["distance"]
    pd.testing.assert_series_equal(
        found, (up - down) / 2e-3, check_names=False, check_index_type=False, atol=1e-4
    )
