"""Panels: the rows of a person share what is not observed of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.data import survey
from selfselect.errors import DataError, OptionError, UnsupportedError
from selfselect.likelihoods import evaluate
from selfselect.noises import SharedShock, Types
from selfselect.results.memberships import generalised_residuals

FORMULA = "y ~ x + v"


def people(n_people: int = 120, n_years: int = 4, *, seed: int = 0) -> pd.DataFrame:
    """Draw a panel with a random effect, rows in no order."""
    rng = np.random.default_rng(seed)
    n = n_people * n_years
    effect = np.repeat(rng.normal(size=n_people), n_years)
    x = rng.normal(size=(n, 2))
    means = np.column_stack([1 + x @ [1, 0.5], 0.5 + x @ [-0.5, 1.0]])
    latent = means + effect[:, None] + 0.5 * rng.normal(size=(n, 2)) * [1.0, 0.7]
    made = pd.DataFrame(
        {
            "x": x[:, 0], "v": x[:, 1], "y": latent.max(axis=1),
            "job": np.array(["farm", "town"])[latent.argmax(axis=1)],
            "person": np.repeat(np.arange(n_people), n_years),
        }
    )  # fmt: skip
    return made.sample(frac=1, random_state=seed).reset_index(drop=True)


def fitted(data: pd.DataFrame, noise: Any = None, **told: Any) -> Any:
    noise = Types(2) if noise is None else noise
    given = {"chosen": "job", "panel": "person", "seed": 0, "noise": noise} | told
    return ss.fit(FORMULA, data, **given)


def test_residuals_come_in_the_order_of_the_table() -> None:
    data = people()
    fit = fitted(data)
    again = fitted(data.sort_values("person", kind="stable"))
    np.testing.assert_allclose(
        generalised_residuals(fit), generalised_residuals(again).loc[data.index], atol=1e-5
    )


def test_people_who_are_there_twice_are_people_of_weight_two() -> None:
    data = people().assign(village=lambda frame: frame["person"] % 30)
    copy = data.assign(person=data["person"] + 1000)
    twice = fitted(pd.concat([data, copy], ignore_index=True), cluster="village")
    told = {"weights": "w", "weights_kind": "frequency", "cluster": "village"}
    weighted = fitted(data.assign(w=2), **told)
    assert weighted.llf == pytest.approx(twice.llf, abs=1e-6)
    assert weighted.bic == pytest.approx(twice.bic, abs=1e-6)
    np.testing.assert_allclose(weighted.params, twice.params, atol=1e-5)
    np.testing.assert_allclose(weighted.bse, twice.bse, rtol=1e-4)


@pytest.mark.parametrize("noise", [Types(2), SharedShock()], ids=["types", "shock"])
def test_people_who_are_alike_are_not_taken_for_one_cluster(noise: Any) -> None:
    data = people().assign(w=lambda frame: 1 + frame["person"] % 3)
    with pytest.raises(DataError, match="Frequency weights of a panel count people"):
        fitted(data, noise, weights="w", weights_kind="frequency")
    with pytest.raises(DataError, match="Frequency weights of a panel count people"):
        fitted(data, noise, weights="w", weights_kind="frequency", cluster="person")


def test_people_of_one_row_each_are_no_panel() -> None:
    data = people().assign(person=lambda frame: np.arange(len(frame)))
    panel = ss.pose(FORMULA, data, chosen="job", noise=Types(2), panel="person")
    rows = ss.pose(FORMULA, data, chosen="job", noise=Types(2))
    natural = panel.problem.layout.natural(np.linspace(0.2, 0.9, panel.problem.layout.n_free))
    left, right = (
        one.engine.sum(lambda batch, one=one: evaluate(one.problem, natural, batch))
        for one in (panel, rows)
    )
    assert left.loglik == right.loglik
    np.testing.assert_array_equal(left.hessian, right.hessian)


def test_a_random_effect_of_one_row_each_is_the_shared_shock_of_rows() -> None:
    data = people().assign(person=lambda frame: np.arange(len(frame)))
    noise = SharedShock(loading=0.6, nodes=31)
    panel = ss.pose(FORMULA, data, chosen="job", noise=noise, panel="person")
    rows = ss.pose(FORMULA, data, chosen="job", noise=noise)
    natural = panel.problem.layout.natural(np.linspace(0.3, 0.9, panel.problem.layout.n_free))
    left, right = (
        one.engine.sum(lambda batch, one=one: evaluate(one.problem, natural, batch))
        for one in (panel, rows)
    )
    assert left.loglik == pytest.approx(right.loglik, abs=1e-6)
    np.testing.assert_allclose(left.score, right.score, atol=1e-4)


def test_a_random_effect_is_found_and_twice_the_nodes_change_nothing() -> None:
    fit = fitted(people(400, 5, seed=2), SharedShock())
    assert fit.converged
    assert abs(fit.params["(common)", "loading"] - 1.0) < 4 * fit.bse["(common)", "loading"]
    truth = {("farm", "x"): 1.0, ("town", "x"): -0.5, ("town", "v"): 1.0, ("farm", "scale"): 0.5}
    away = (fit.params[list(truth)] - pd.Series(truth)) / fit.bse[list(truth)]
    assert np.abs(away).max() < 3.5
    natural = fit.problem.layout.natural(fit.solution.free)
    heights = []
    for nodes in (15, 30):
        problem = ss.pose(
            FORMULA, people(400, 5, seed=2), chosen="job", noise=SharedShock(nodes=nodes),
            panel="person",
        ).problem  # fmt: skip
        found = fit.engine.sum(
            lambda batch, problem=problem: evaluate(problem, natural, batch, curvature="none")
        )
        heights.append(found.loglik)
    assert heights[0] == pytest.approx(heights[1], abs=1e-3)


def test_standard_errors_are_by_person() -> None:
    data = people()
    for noise in (None, Types(2)):
        fit = ss.fit(FORMULA, data, chosen="job", noise=noise, panel="person", seed=0)
        assert fit.covariance.kind == "clustered"
        assert "clustered by person (120 clusters)" in str(fit.summary())
    plain = ss.fit(FORMULA, data, chosen="job", cluster="person")
    independent = ss.fit(FORMULA, data, chosen="job", panel="person")
    pd.testing.assert_series_equal(independent.bse, plain.bse, check_exact=True)
    assert "affects only the standard errors" in " ".join(str(independent.summary()).split())


def test_a_bootstrap_draws_people() -> None:
    fit = fitted(people(), covariance=ss.inference.Bootstrap(replications=12))
    assert "120 clusters of person" in fit.covariance.description
    assert np.isfinite(fit.bse).all()


def test_a_panel_column_with_missing_values_is_refused() -> None:
    data = people()
    data["person"] = data["person"].astype(float)
    data.loc[3, "person"] = np.nan
    with pytest.raises(DataError, match="panel column 'person' has 1 missing value"):
        fitted(data)


def test_weights_and_clusters_that_divide_a_person_are_refused() -> None:
    data = people()
    data["w"] = 1.0 + np.arange(len(data)) % 2
    with pytest.raises(DataError, match="Weights differ between the rows of one 'person'"):
        fitted(data, weights="w", weights_kind="probability")
    with pytest.raises(DataError, match="in different clusters"):
        fitted(data, cluster="w")


def test_a_panel_is_named_by_a_column() -> None:
    with pytest.raises(OptionError, match="`panel` must be the name of a column"):
        fitted(people(), panel=["person"])


SMALL = ss.engines.Parquet(batch_rows=50)
"""Batches of no whole number of people."""


@pytest.fixture(scope="module")
def in_order() -> pd.DataFrame:
    return people(60).sort_values("person", kind="stable").reset_index(drop=True)


def test_files_of_people_in_order_give_the_answer_of_memory(
    in_order: pd.DataFrame, tmp_path: Any
) -> None:
    in_order = ss.panel_means(in_order, "person", ["x"])
    # A person is in two batches of a file, and another in two files.
    in_order.iloc[:101].to_parquet(tmp_path / "1.parquet")
    in_order.iloc[101:].to_parquet(tmp_path / "2.parquet")
    noise, few = Types(2, covariates="~ x_mean"), ss.solvers.TypeSearch(starts=1)
    held = fitted(in_order, noise, solver=few)
    read = fitted(str(tmp_path / "*.parquet"), noise, engine=SMALL, solver=few)
    assert (read.llf, read.bic) == pytest.approx((held.llf, held.bic), abs=1e-6)
    np.testing.assert_allclose(read.params, held.params, atol=1e-8)
    np.testing.assert_allclose(read.bse, held.bse, atol=1e-6)
    tests = [fit.normality_test(0).statistic for fit in (read, held)]
    assert tests[0] == pytest.approx(tests[1], rel=1e-6)
    assert "(60 clusters)" in str(read.summary())


def test_separated_text_and_weights_of_people_are_read_too(
    in_order: pd.DataFrame, tmp_path: Any
) -> None:
    data = in_order.assign(
        w=1.0 + in_order["person"] % 3, person="p" + in_order["person"].astype(str)
    )
    data.to_csv(tmp_path / "rows.csv", index=False)
    noise = SharedShock(loading=1.0, nodes=5)
    told = {"weights": "w", "weights_kind": "probability", "noise": noise}
    held, read = (fitted(one, engine=how, **told) for one, how in (
        (data, None), (str(tmp_path / "rows.csv"), SMALL)))  # fmt: skip
    assert read.facts.group_total == pytest.approx(held.facts.group_total)
    np.testing.assert_allclose(read.bse, held.bse, atol=1e-6)
    with pytest.raises(DataError, match="Frequency weights of a panel count people"):
        fitted(str(tmp_path / "rows.csv"), engine=SMALL, weights="w", weights_kind="frequency")


def test_people_who_are_in_two_pieces_are_refused_where_their_rows_share_something(
    tmp_path: Any,
) -> None:
    people().to_parquet(tmp_path / "rows.parquet")
    path = str(tmp_path / "rows.parquet")
    with pytest.raises(
        UnsupportedError, match=r"(?s)are in several pieces.*Sort files by 'person'"
    ):
        fitted(path, engine=SMALL)
    apart = fitted(path, ss.noises.Independent(), engine=SMALL)
    np.testing.assert_allclose(apart.bse, fitted(people(), ss.noises.Independent()).bse, atol=1e-6)
    # In one piece they are together, in whatever order.
    np.testing.assert_allclose(fitted(path).params, fitted(people()).params, atol=1e-6)


def test_a_sample_of_a_file_is_made_of_whole_people(
    in_order: pd.DataFrame, tmp_path: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(survey, "SAMPLE", 100)
    in_order.to_parquet(tmp_path / "rows.parquet")
    read = fitted(str(tmp_path / "rows.parquet"), SharedShock(loading=1.0, nodes=5), engine=SMALL)
    sample = read.engine.sample(1_000, np.random.default_rng(0)).rows
    assert 100 <= len(sample) < 120
    assert (np.bincount(sample.groups)[np.unique(sample.groups)] == 4).all()


def test_missing_values_of_the_panel_column_of_a_file_are_refused(
    in_order: pd.DataFrame, tmp_path: Any
) -> None:
    data = in_order.assign(person=in_order["person"].astype(float))
    data.loc[3, "person"] = np.nan
    data.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(DataError, match="panel column 'person' has 1 missing value"):
        fitted(str(tmp_path / "rows.parquet"))


def test_people_of_one_row_each_are_said() -> None:
    data = people(400, 1)
    fit = ss.fit(FORMULA, data, chosen="job", panel="person")
    assert "Every person has one row" in str(fit.summary())


def test_means_of_people_stand_beside_the_table() -> None:
    data = people(20, 3)
    made = ss.panel_means(data, "person", ["x", "v"])
    expected = data.groupby("person")["x"].transform("mean")
    np.testing.assert_allclose(made["x_mean"], expected)
    assert list(made.columns) == [*data.columns, "x_mean", "v_mean"]
    with pytest.raises(DataError, match="There is a column 'x_mean' already"):
        ss.panel_means(made, "person", ["x"])


def test_long_data_has_panels_too() -> None:
    data = people(60, 4).reset_index(names="case")
    long = pd.concat([data.assign(option=option) for option in ("farm", "town")])
    long["picked"] = (long["job"] == long["option"]).astype(int)
    fit = ss.fit(
        "y ~ x + v", long, case="case", alternatives="option", chosen="picked", panel="person",
        noise=Types(2), seed=0,
    )  # fmt: skip
    wide = fitted(data)
    assert fit.llf == pytest.approx(wide.llf, abs=1e-6)


def test_the_scikit_learn_door_takes_people() -> None:
    data = people(40)
    few = ss.solvers.TypeSearch(starts=1)
    model = ss.SelfSelectionRegressor(noise=Types(2), solver=few, random_state=0)
    model.fit(data[["x", "v"]], data["y"], chosen=data["job"], panel=data["person"])
    fit = fitted(data, solver=few)
    assert model.result_.llf == fit.llf
    np.testing.assert_allclose(model.result_.bse, fit.bse)
    weighed = ss.SelfSelectionRegressor(noise=Types(2, covariates="~ x"))
    with pytest.raises(UnsupportedError, match=r"Use selfselect\.fit with a table"):
        weighed.fit(data[["x", "v"]], data["y"], chosen=data["job"])
    with pytest.raises(DataError, match="panel column 'panel' has 1 missing value"):
        model.fit(
            data[["x", "v"]], data["y"], chosen=data["job"], panel=[None, *data["person"][1:]]
        )


def test_weights_of_types_depend_on_what_is_the_same_in_all_rows_of_a_person(tmp_path: Any) -> None:
    data = people(60).sort_values("person", kind="stable")
    data.to_parquet(tmp_path / "rows.parquet")
    for rows in (data, str(tmp_path / "rows.parquet")):
        with pytest.raises(DataError, match=r"'x' differs between the rows of one 'person'"):
            fitted(rows, Types(2, covariates="~ x"))
    means = ss.panel_means(data, "person", ["x"])
    fit = fitted(means, Types(2, covariates="~ x_mean"), solver=ss.solvers.TypeSearch(starts=1))
    assert ("type 2", "x_mean") in fit.params.index


def test_the_bic_of_a_panel_counts_people_under_every_noise_and_on_every_page() -> None:
    data = people(60)
    ways = {"normal": ss.noises.Independent(), "shared shock": SharedShock()}
    options = {"chosen": "job", "panel": "person"}
    found = ss.choose_noise("y ~ x + v", data, candidates=ways, **options)
    fits = {name: ss.fit("y ~ x + v", data, noise=one, **options) for name, one in ways.items()}
    for name, fit in fits.items():
        by_people = np.log(60) * fit.n_parameters - 2.0 * fit.llf
        assert fit.bic == pytest.approx(by_people, abs=1e-9)
        assert fit.glance()["bic"][0] == fit.bic
        assert found.table.loc[name, "bic"] == pytest.approx(by_people, abs=1e-5)
        assert f"BIC, by people: {fit.bic:.3f}" in str(fit.summary())
    by_rows = ss.fit("y ~ x + v", data, chosen="job", cluster="person")
    assert by_rows.llf == pytest.approx(fits["normal"].llf, abs=1e-6)
    assert by_rows.bic == pytest.approx(
        np.log(len(data)) * by_rows.n_parameters - 2.0 * by_rows.llf, abs=1e-9
    )
    assert f"BIC: {by_rows.bic:.3f}" in str(by_rows.summary())
    # One table, one n: that of the fit which is asked.
    fewer = ss.fit("y ~ x", data, chosen="job", cluster="person")
    for fit, n in ((fits["normal"], 60), (by_rows, len(data))):
        table = fit.verdict("farm:x", also={"fewer": fewer}).table
        size = fewer.n_parameters
        assert table.loc["fewer", "bic"] == pytest.approx(np.log(n) * size - 2 * fewer.llf)
        assert table.loc["the fit", "bic"] == pytest.approx(fit.bic)
