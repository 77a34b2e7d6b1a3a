"""What every effect promises: tidy tables, intervals, doubts first, clear words for bad input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.effects import EffectTable
from selfselect.errors import DataError, MissingRowsWarning, OptionError, UnsupportedError

EFFECTS: dict[str, Callable[..., EffectTable]] = {
    "potential outcomes": lambda fit, **o: fit.potential_outcomes(**o),
    "choice probabilities": lambda fit, **o: fit.choice_probabilities(**o),
    "marginal effects": lambda fit, **o: fit.marginal_effects(**o),
    "treatment effects": lambda fit, **o: fit.treatment_effects("a", "b", **o),
    "heterogeneity": lambda fit, **o: fit.heterogeneity("a", "b", **o),
    "sorting": lambda fit, **o: fit.sorting(**o),
    "gains": lambda fit, **o: fit.gains("a", "b", draws=5_000, **o).effect,
    "policy": lambda fit, **o: fit.policy(**o).value,
}
WITHOUT_DATA: dict[str, Callable[..., EffectTable]] = {
    "decomposition": lambda fit, **o: fit.decompose("a", "b", **o),
    "closing": lambda fit, **o: fit.counterfactual(close=["b"], **o).outcomes,
    "moves": lambda fit, **o: fit.counterfactual(subsidy={"a": 0.3}, **o).moves,
}
ALL = EFFECTS | WITHOUT_DATA


@pytest.mark.parametrize("name", ALL)
def test_every_effect_is_a_tidy_table_that_prints(name: str, fit: ss.FitResult) -> None:
    effect = ALL[name](fit)
    table = effect.table
    assert {"estimate", "std_error", "conf_low", "conf_high"} <= set(table.columns)
    assert table["estimate"].notna().all()
    known = table["std_error"].notna()
    assert (table["conf_low"] <= table["estimate"] + 1e-12)[known].all()
    assert (table["estimate"] <= table["conf_high"] + 1e-12)[known].all()
    assert effect.covariance.shape == (len(table), len(table))
    assert (effect.level, effect.warnings) == (0.95, ())
    text = str(effect)
    assert max(map(len, text.splitlines())) <= 90
    assert "rows of the fit" in text and "97.5%]" in text
    assert effect._repr_html_().count("<tr>") > len(table)
    assert r"\begin" in effect.to_page().to_latex()


@pytest.mark.parametrize("name", ALL)
def test_a_higher_level_makes_wider_intervals(name: str, fit: ss.FitResult) -> None:
    narrow, wide = ALL[name](fit, level=0.8), ALL[name](fit, level=0.99)
    moving = narrow.table["std_error"] > 0
    assert (wide.table["conf_low"] < narrow.table["conf_low"])[moving].all()
    assert (wide.table["conf_high"] > narrow.table["conf_high"])[moving].all()
    with pytest.raises(OptionError, match=r"level=95 is not a confidence level"):
        ALL[name](fit, level=95)


@pytest.mark.parametrize("name", ALL)
def test_rows_taken_as_they_are_leave_smaller_errors(name: str, fit: ss.FitResult) -> None:
    sampled = ALL[name](fit).table["std_error"]
    fixed = ALL[name](fit, covariates="fixed").table["std_error"]
    assert (fixed <= sampled + 1e-12)[sampled.notna()].all()
    assert fixed.sum() < sampled.sum()
    with pytest.raises(OptionError, match=r"covariates='random' is not possible"):
        ALL[name](fit, covariates="random")


@pytest.mark.parametrize("name", ALL)
def test_effects_carry_the_flag_of_a_rejected_assumption(
    name: str, dependent: ss.FitResult
) -> None:
    effect = ALL[name](dependent)
    assert effect.warnings[0].startswith("INDEPENDENCE REJECTED")
    assert str(effect).splitlines()[1].startswith("! INDEPENDENCE REJECTED")
    assert "INDEPENDENCE REJECTED" in effect._repr_html_().split("<table>")[0]


@pytest.mark.parametrize("name", ALL)
def test_a_fit_that_did_not_converge_says_so(name: str, world: Any) -> None:
    with pytest.warns(ss.errors.ConvergenceWarning):
        early = ss.fit(
            world.formula, world.data, chosen="chosen", solver=ss.solvers.Newton(max_steps=1)
        )
    assert ALL[name](early).warnings[0].startswith("NOT CONVERGED")


@pytest.mark.parametrize("name", EFFECTS)
def test_the_rows_of_the_fit_given_as_data_give_the_same(
    name: str, fit: ss.FitResult, world: Any
) -> None:
    mine, given = EFFECTS[name](fit).table, EFFECTS[name](fit, data=world.data).table
    pd.testing.assert_frame_equal(mine, given)


@pytest.mark.parametrize("name", EFFECTS)
def test_a_loaded_fit_needs_rows_and_is_happy_with_them(
    name: str, fit: ss.FitResult, world: Any, tmp_path: Any
) -> None:
    fit.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    with pytest.raises(UnsupportedError, match=r"no longer has its rows. Give the rows to average"):
        EFFECTS[name](loaded)
    pd.testing.assert_frame_equal(
        EFFECTS[name](loaded, data=world.data).table, EFFECTS[name](fit).table, rtol=1e-9
    )


def test_a_loaded_fit_says_which_methods_take_rows_and_they_do(
    fit: ss.FitResult, world: Any, tmp_path: Any
) -> None:
    fit.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    labels = loaded.problem.equations.alternatives
    advice = (
        r"Give rows where a method takes them, as predict\(rows\) and simulate\(rows\) do; else"
    )
    for ask in (loaded.predict, loaded.simulate, lambda: loaded.decompose(*labels[:2])):
        with pytest.raises(UnsupportedError, match=advice):
            ask()
    assert len(loaded.simulate(world.data, seed=1)) == len(loaded.predict(world.data))


@pytest.mark.parametrize("name", EFFECTS)
def test_new_rows_without_a_column_are_refused_by_name(
    name: str, fit: ss.FitResult, world: Any
) -> None:
    with pytest.raises(DataError, match=r"no column 'x'"):
        EFFECTS[name](fit, data=world.data.drop(columns="x"))


def test_a_category_the_fit_has_not_met_is_named(world: Any) -> None:
    fit = ss.fit("outcome ~ x + town", world.data, chosen="chosen")
    strange = world.data.assign(town="south")
    for effect in (fit.potential_outcomes, fit.sorting, fit.policy, fit.choice_probabilities):
        with pytest.raises(DataError, match="south"):
            effect(strange)
    with pytest.raises(DataError, match="south"):
        fit.choice_probabilities(at={"town": "south"})
    with pytest.raises(DataError, match="south"):
        fit.counterfactual(data=strange)


def test_incomplete_rows_are_left_out_with_a_warning(fit: ss.FitResult, world: Any) -> None:
    some = world.data.head(20).copy()
    some.loc[3, "x"] = np.nan
    with pytest.warns(MissingRowsWarning, match="1 of 20 rows have a missing value"):
        found = fit.potential_outcomes(some)
    np.testing.assert_allclose(
        found.table["estimate"], fit.potential_outcomes(some.dropna()).table["estimate"]
    )
    with pytest.raises(DataError, match="No row is complete"), pytest.warns(MissingRowsWarning):
        fit.potential_outcomes(some.loc[[3]])


@pytest.mark.parametrize(
    "ask",
    [
        lambda fit: fit.treatment_effects("a", "z"),
        lambda fit: fit.decompose("z", "b"),
        lambda fit: fit.gains("z", "b"),
        lambda fit: fit.counterfactual(close=["z"]),
        lambda fit: fit.counterfactual(open="z"),
        lambda fit: fit.counterfactual(subsidy={"z": 1.0}),
        lambda fit: fit.counterfactual(quota={"z": 0.1}),
        lambda fit: fit.decompose("a", "b", reference="z"),
    ],
)
def test_an_alternative_there_is_not_is_refused_with_those_there_are(
    ask: Callable[[ss.FitResult], Any], fit: ss.FitResult
) -> None:
    with pytest.raises(OptionError, match=r"no alternative 'z'; there are a, b, c"):
        ask(fit)


def test_a_fit_without_standard_errors_says_so_and_still_estimates() -> None:
    sample = ss.simulators.gaussian(600, 2, 2, norm=2.0, seed=1)
    fit = ss.fit(
        "outcome ~ x1 + x2 - 1", sample.data, alternatives=2, solver=ss.solvers.TwoModels(),
        noise=ss.noises.Independent(1.0),
    )  # fmt: skip
    for effect in (fit.treatment_effects(1, 2), fit.gains(1, 2, draws=2_000).effect):
        assert effect.warnings[0].startswith("NO STANDARD ERRORS")
        assert effect.table["std_error"].isna().all() and effect.table["estimate"].notna().all()


def test_a_fit_without_covariates_has_effects_but_none_that_move(world: Any) -> None:
    fit = ss.fit("outcome ~ 1", world.data, chosen="chosen")
    np.testing.assert_allclose(
        fit.potential_outcomes(at="means").table["estimate"],
        fit.potential_outcomes().table["estimate"],
    )
    with pytest.raises(DataError, match="no covariates"):
        fit.marginal_effects()


def test_no_rows_and_no_seed_are_refused(fit: ss.FitResult, world: Any) -> None:
    with pytest.raises(DataError, match="has no rows"):
        fit.potential_outcomes(world.data.head(0))
    for seed in ("x", -1, None):
        with pytest.raises(OptionError, match="is not a seed"):
            fit.gains("a", "b", seed=seed)


def test_hostile_labels_are_shown_as_text(world: Any) -> None:
    label = "<script>alert(1)</script>"
    data = world.data.replace({"chosen": {"a": label}})
    fit = ss.fit(world.formula, data, chosen="chosen")
    for shown in (fit.potential_outcomes(), fit.counterfactual(close=[label]), fit.policy()):
        assert "<script>" not in shown._repr_html_()
        assert "&lt;script&gt;" in shown._repr_html_()


def test_labels_that_are_numbers_may_be_written_as_text() -> None:
    sample = ss.simulators.gaussian(600, 2, 2, norm=2.0, seed=1)
    fit = ss.fit("outcome ~ x1 + x2", sample.data, alternatives=2)
    pd.testing.assert_series_equal(
        fit.treatment_effects(1, 2).table["estimate"],
        fit.treatment_effects("1", "2").table["estimate"],
    )


def test_a_table_is_written_in_latex_and_named_in_one_line(fit: ss.FitResult) -> None:
    a, b = fit.problem.equations.alternatives[:2]
    found = fit.treatment_effects(a, b)
    assert r"\begin{tabular}" in found.to_latex()
    assert repr(found).startswith("<EffectTable: Effect of")
    assert "\n" not in repr(found)


@pytest.mark.parametrize("name", EFFECTS)
def test_columns_of_a_fit_of_arrays_are_found_by_name(name: str, world: Any) -> None:
    from selfselect.sklearn import SelfSelectionRegressor

    values = world.data[["x", "d"]].to_numpy(dtype=float)
    estimator = SelfSelectionRegressor()
    estimator.fit(values, world.data["outcome"], chosen=world.data["chosen"])
    table = pd.DataFrame(values, columns=["x0", "x1"])
    given, turned = (
        EFFECTS[name](estimator.result_, data=rows).table for rows in (table, table[["x1", "x0"]])
    )
    pd.testing.assert_frame_equal(given, turned)


def test_refusals_name_what_is_in_the_way() -> None:
    villagers = ss.simulators.village(300, seed=1).data
    costly = ss.fit("income ~ height", villagers, chosen="job", cost={"fishing": "~ weight"})
    for ask in (
        lambda: costly.gains("fishing", "hunting"),
        lambda: costly.counterfactual(rule="min"),
        lambda: costly.counterfactual(data=villagers),
    ):
        with pytest.raises(UnsupportedError, match="known costs: the costs of this fit are est"):
            ask()
    paid = villagers.assign(income=villagers["income"].where(villagers["job"] == "fishing"))
    alone = ss.sample_selection("income ~ height", "~ height + weight", paid)
    for ask in (
        alone.policy,
        lambda: alone.gains("outcome", "outcome"),
        lambda: alone.counterfactual(data=paid),
    ):
        with pytest.raises(UnsupportedError, match="several outcomes, and sample selection has"):
            ask()


def test_an_alternative_called_everyone_is_not_everyone() -> None:
    villagers = ss.simulators.village(300, seed=1).data
    villagers["job"] = villagers["job"].replace("hunting", "everyone")
    for fit in (
        ss.fit("income ~ height", villagers, chosen="job"),
        ss.multinomial_switching("income ~ height", "job ~ height + weight", villagers),
    ):
        found = fit.potential_outcomes().table
        assert found["group"].unique().tolist() == ["everyone_", "everyone", "fishing"]
        assert not found.duplicated(["group", "alternative"]).any()


def test_marginal_effects_say_their_unit() -> None:
    villagers = ss.simulators.village(300, seed=1).data
    result = ss.fit("income ~ height", villagers, chosen="job")
    chances, outcomes = (str(result.marginal_effects(of=of)) for of in ("chance", "outcome"))
    assert "dy/dx is the change per unit of the variable (a chance lies between 0" in chances
    assert "dy/dx is the change per unit of the variable (in units of income)" in outcomes
