"""Long data in which cases lack a row for an alternative: what is not known of it is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import MissingRowsWarning, RuleError, UnsupportedError

SAME = {"rtol": 1e-5, "atol": 1e-6}
"""Two fits of the same likelihood stop within their tolerance of each other."""

LABELS = ("bus", "car", "train")


def draw(n_cases: int = 500, *, seed: int = 1) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Draw trips: a wide table, a long one of what was open, and a long one with every row."""
    rng = np.random.default_rng(seed)
    shape = (n_cases, len(LABELS))
    town = rng.normal(size=n_cases)
    speed = rng.uniform([0.0, -1.5, -1.5], [3.0, 1.5, 1.5], size=shape)
    fare = rng.uniform([0.5, 0.0, 0.0], [1.5, 1.0, 1.0], size=shape)
    is_open = np.ones(shape, dtype=bool)
    is_open[:, 0] = rng.random(n_cases) > 0.4
    latent = 2.0 + 0.5 * town[:, None] + speed + rng.normal(size=shape)
    who = np.where(is_open, latent - fare, -np.inf).argmax(axis=1)
    each = np.arange(n_cases)
    wide = pd.DataFrame(
        {"town": town, "y": latent[each, who], "who": np.array(LABELS)[who]}, index=each
    )
    for j, label in enumerate(LABELS):
        wide[f"speed_{label}"], wide[f"fare_{label}"] = speed[:, j], fare[:, j]
        wide[f"open_{label}"] = is_open[:, j]
    case, alternative = (one.ravel() for one in np.indices(shape))
    full = pd.DataFrame(
        {
            "case": case, "mode": np.array(LABELS)[alternative], "town": town[case],
            "speed": speed.ravel(), "fare": fare.ravel(),
            "taken": (who[:, None] == np.arange(3)).ravel(), "y": wide["y"].to_numpy()[case],
        }
    )  # fmt: skip
    return wide, full[is_open.ravel()], full


def fit_wide(data: pd.DataFrame, **options: Any) -> Any:
    return ss.fit(
        {label: f"y ~ town + speed_{label}" for label in LABELS}, data, chosen="who",
        available={label: f"open_{label}" for label in LABELS},
        cost={label: f"fare_{label}" for label in LABELS}, **options,
    )  # fmt: skip


def fit_long(data: pd.DataFrame, formula: str = "y ~ town + speed", **options: Any) -> Any:
    fares = options.pop("cost", dict.fromkeys(LABELS, "fare"))
    return ss.fit(
        formula, data, case="case", alternatives="mode", chosen="taken", cost=fares, **options
    )


@pytest.fixture(scope="module")
def tables() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    return draw()


@pytest.fixture(scope="module")
def wide(tables: Any) -> Any:
    return fit_wide(tables[0])


@pytest.fixture(scope="module")
def long(tables: Any) -> Any:
    return fit_long(tables[1])


def with_every_row(data: pd.DataFrame) -> pd.DataFrame:
    return data[data[[f"open_{label}" for label in LABELS]].all(axis=1)]


def test_long_and_wide_have_the_same_likelihood(wide: Any, long: Any) -> None:
    assert long.llf == pytest.approx(wide.llf, rel=1e-10)


ASKED: dict[str, Callable[..., Any]] = {
    "treatment effects": lambda fit, **data: fit.treatment_effects("bus", "car", **data),
    "potential outcomes": lambda fit, **data: fit.potential_outcomes(**data),
    "sorting": lambda fit, **data: fit.sorting(**data),
    "heterogeneity": lambda fit, **data: fit.heterogeneity("bus", "car", **data),
}


@pytest.mark.parametrize("name", ASKED)
def test_effects_are_those_of_wide_data_on_the_cases_with_all_rows(
    name: str, tables: Any, wide: Any, long: Any
) -> None:
    some = with_every_row(tables[0])
    found, same = ASKED[name](long), ASKED[name](wide, data=some)
    np.testing.assert_allclose(found.table["estimate"], same.table["estimate"], **SAME)
    np.testing.assert_allclose(found.table["std_error"], same.table["std_error"], rtol=1e-3)
    said = f"over {len(some)} of the 500 cases of the fit, as the others have no row for bus"
    assert said in " ".join(found.notes)
    given = ASKED[name](long, data=tables[1])
    np.testing.assert_allclose(given.table["estimate"], same.table["estimate"], **SAME)
    assert f"over {len(some)} of 500 given cases" in " ".join(given.notes)


def test_effects_of_alternatives_with_all_rows_are_over_all_cases(wide: Any, long: Any) -> None:
    found, same = (fit.treatment_effects("train", "car") for fit in (long, wide))
    np.testing.assert_allclose(found.table["estimate"], same.table["estimate"], **SAME)
    np.testing.assert_allclose(found.table["std_error"], same.table["std_error"], rtol=1e-4)
    assert "over the 500 cases of the fit;" in found.notes[0]


def test_a_decomposition_compares_recorded_outcomes_of_the_same_cases(
    tables: Any, wide: Any, long: Any
) -> None:
    some = with_every_row(tables[0])
    mean = some.groupby("who")["y"].mean()
    found = long.decompose("bus", "car").table.set_index("part")
    assert found.loc["gap in the data", "estimate"] == pytest.approx(mean["bus"] - mean["car"])
    gap = wide.potential_outcomes(some).table.set_index(["group", "alternative"])["estimate"]
    expected = gap["bus", "bus"] - gap["car", "car"]
    assert found.loc["gap under the model", "estimate"] == pytest.approx(expected, abs=1e-5)
    assert np.isfinite(found["std_error"]).all()


@pytest.mark.parametrize("of", ["chance", "outcome"])
def test_what_depends_on_open_alternatives_alone_is_over_all_cases(
    of: Any, wide: Any, long: Any
) -> None:
    found, same = (fit.choice_probabilities().table for fit in (long, wide))
    np.testing.assert_allclose(found["estimate"], same["estimate"], **SAME)
    np.testing.assert_allclose(found["std_error"], same["std_error"], rtol=1e-4)
    found, same = (fit.marginal_effects("town", of=of).table for fit in (long, wide))
    np.testing.assert_allclose(found["estimate"], same["estimate"], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    "change",
    [{"close": ["bus"]}, {"close": ["train"]}, {"subsidy": {"bus": 0.5}}, {"quota": {"car": 0.2}}],
    ids=str,
)
def test_closing_and_prices_are_over_all_cases(
    change: dict[str, Any], wide: Any, long: Any
) -> None:
    found, same = (fit.counterfactual(**change) for fit in (long, wide))
    for part in ("outcomes", "shares", "moves"):
        mine, other = getattr(found, part).table, getattr(same, part).table
        np.testing.assert_allclose(mine["estimate"], other["estimate"], rtol=1e-3, atol=1e-5)


def test_opening_is_refused_and_other_data_does_it(tables: Any, wide: Any, long: Any) -> None:
    lacking = int((~tables[0]["open_bus"]).sum())
    with pytest.raises(UnsupportedError, match=f"'bus' cannot be opened .*: {lacking} of 500 case"):
        long.counterfactual(open=["bus"])
    found, same = long.counterfactual(data=tables[2]), wide.counterfactual(open=["bus"])
    for part in ("outcomes", "shares"):
        mine, other = getattr(found, part).table, getattr(same, part).table
        np.testing.assert_allclose(mine["estimate"], other["estimate"], rtol=1e-4, atol=1e-5)


def test_gains_are_over_the_cases_with_both_rows(tables: Any, wide: Any, long: Any) -> None:
    found = long.gains("bus", "car", draws=40_000)
    same = wide.gains("bus", "car", with_every_row(tables[0]), draws=40_000)
    errors = np.hypot(found.table["mc_error"], same.table["mc_error"])
    assert (abs(found.table["estimate"] - same.table["estimate"]) < 5.0 * errors).all()
    assert "have no row for bus" in found.effect.notes[0]


def test_a_policy_sends_nobody_where_nothing_is_known(wide: Any, long: Any) -> None:
    found, same = long.policy(), wide.policy()
    pd.testing.assert_frame_equal(found.rows, same.rows, check_names=False, rtol=1e-3, atol=1e-4)
    listed = set(found.value.table["quantity"])
    assert "everyone in car" in listed and "everyone in bus" not in listed
    assert "Everyone in bus is not listed" in " ".join(found.value.notes)
    mine = same.value.table.set_index("quantity").loc[found.value.table["quantity"]]
    np.testing.assert_allclose(found.value.table["estimate"], mine["estimate"], **SAME)


@pytest.mark.parametrize("kind", ["latent", "chance", "outcome", "given_seen"])
def test_predictions_are_those_of_wide_data_where_they_are_known(
    kind: str, tables: Any, wide: Any, long: Any
) -> None:
    same = wide.predict(kind=kind)
    if kind == "latent":
        same.loc[~tables[0]["open_bus"], "bus"] = np.nan
    if kind == "given_seen":
        same.loc[~tables[0]["open_bus"], "bus"] = np.nan
    for data in (None, tables[1]):
        found = long.predict(data, kind)
        np.testing.assert_allclose(found, same, **SAME)
        errors = long.predict(data, kind, level=0.9)
        assert (errors.isna().to_numpy().sum() == 4 * same.isna().to_numpy().sum()).all()


def test_covariates_that_belong_to_the_case_are_known_without_a_row(tables: Any) -> None:
    data, table, _ = tables
    plain = fit_long(table, "y ~ town", cost=None)
    same = ss.fit(
        "y ~ town", data, chosen="who", available={label: f"open_{label}" for label in LABELS}
    )
    assert plain.llf == pytest.approx(same.llf, rel=1e-10)
    for ask in ASKED.values():
        found, expected = ask(plain), ask(same)
        np.testing.assert_allclose(found.table["estimate"], expected.table["estimate"], **SAME)
    found, expected = (one.counterfactual(open=["bus"]).shares.table for one in (plain, same))
    np.testing.assert_allclose(found["estimate"], expected["estimate"], **SAME)
    np.testing.assert_allclose(plain.predict(), same.predict(), **SAME)
    priced = fit_long(table, "y ~ town")
    np.testing.assert_allclose(priced.predict().notna(), True)
    with pytest.raises(UnsupportedError, match="'bus' cannot be opened"):
        priced.counterfactual(open="bus")


def test_alternatives_that_are_never_open_together_are_not_compared(tables: Any) -> None:
    table = tables[1]
    has_bus = table["case"].isin(table.loc[table["mode"] == "bus", "case"])
    apart = table[~(has_bus & (table["mode"] == "train") & ~table["taken"])]
    apart = apart[~apart["case"].isin(table.loc[has_bus & (table["mode"] == "train")
                                                & table["taken"], "case"])]  # fmt: skip
    fit = fit_long(apart)
    with pytest.raises(UnsupportedError, match=r"an alternative has no row \(bus or train\)"):
        fit.treatment_effects("bus", "train")
    assert len(fit.treatment_effects("bus", "car").table) == 3
    said = " ".join(str(fit.explain()).split())
    assert "train instead of bus: not known" in said and "car instead of bus: " in said
    assert np.isfinite(fit.choice_probabilities().table["estimate"]).all()


def test_weights_clusters_and_levels_go_with_absent_rows(tables: Any) -> None:
    data, table, _ = tables
    weight = 1.0 + np.arange(500) % 3
    table = table.assign(w=weight[table["case"]], town_id=table["case"] // 10, e=np.exp(table["y"]))
    data = data.assign(w=weight, town_id=data.index // 10, e=np.exp(data["y"]))
    long = fit_long(table, "np.log(e) ~ town + speed", weights="w", cluster="town_id")
    found = long.treatment_effects("bus", "car", scale="level")
    wide = ss.fit(
        {label: f"np.log(e) ~ town + speed_{label}" for label in LABELS}, data, chosen="who",
        available={label: f"open_{label}" for label in LABELS}, cluster="town_id", weights="w",
        cost={label: f"fare_{label}" for label in LABELS},
    )  # fmt: skip
    some = with_every_row(data)
    repeated = some.loc[some.index.repeat(some["w"].astype(int))]
    same = wide.treatment_effects("bus", "car", repeated, scale="level")
    np.testing.assert_allclose(found.table["estimate"], same.table["estimate"], rtol=1e-4)
    assert (found.table["std_error"] > 0).all()


def test_a_report_and_an_explanation_say_which_cases_count(long: Any) -> None:
    assert "over the cases with a row for both" in str(long.explain())


def test_a_case_without_a_known_cost_has_no_prediction(tables: Any, wide: Any, long: Any) -> None:
    first = tables[1].index[tables[1]["case"] == 0][0]
    table = tables[1].assign(fare=tables[1]["fare"].where(tables[1].index != first))
    with pytest.warns(MissingRowsWarning):
        found = long.predict(table, "chance")
    assert found.iloc[0].isna().all() and found.iloc[1:].notna().all().all()
    with pytest.warns(MissingRowsWarning):
        same = wide.predict(
            tables[0].assign(fare_car=tables[0]["fare_car"].where(tables[0].index > 0)), "chance"
        )
    assert same.iloc[0].isna().all()
    assert long.predict(table, "latent").iloc[0].notna().any()


def test_a_picture_of_residuals_has_the_cases_with_a_row(long: Any) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    found = ss.plots.residuals(long).data
    n_rows = found.groupby("alternative")["rows"].sum()
    assert n_rows["bus"] < 500 and n_rows["car"] == n_rows["train"] == 500


def test_given_cases_that_lack_a_value_in_a_row_are_left_out_whole(tables: Any, long: Any) -> None:
    table = tables[1]
    at = table.index[(table["case"] == 2) & table["taken"]][0]
    lacking = table.assign(speed=table["speed"].where(table.index != at))
    whole = table[table["case"] != 2]
    for ask in (ss.FitResult.choice_probabilities, ss.FitResult.potential_outcomes):
        with pytest.warns(MissingRowsWarning, match="1 of 500 cases have a missing value"):
            found = ask(long, lacking)
        pd.testing.assert_frame_equal(found.table, ask(long, whole).table)


def test_a_verdict_says_which_cases_it_is_about_and_the_rule_bounds_the_same(
    tables: Any, long: Any
) -> None:
    some = int(with_every_row(tables[0]).shape[0])
    found = long.verdict("bus - car", support=(-8.0, 14.0))
    assert f"over {some} of 500 cases, those with a row for both" in found.agreed
    has_bus = tables[1].loc[tables[1]["mode"] == "bus", "case"]
    means = fit_long(tables[1][tables[1]["case"].isin(has_bus)]).bounds(support=(-8.0, 14.0)).means
    ends = means.set_index("of").loc["bus - car", ["conf_low", "conf_high"]].to_numpy(dtype=float)
    rule = found.table.iloc[-1][["conf_low", "conf_high"]].to_numpy(dtype=float)
    np.testing.assert_allclose(rule, ends, rtol=1e-10)
    assert "cases" not in long.verdict("train - car").question


def test_sensitivity_says_over_which_cases_gaps_are(wide: Any, long: Any) -> None:
    said = "over the cases with a row for both"
    assert said in str(long.sensitivity([0.0])) and said not in str(wide.sensitivity([0.0]))


def test_a_rule_that_weighs_every_outcome_needs_every_row(tables: Any) -> None:
    data, table, full = tables
    matrix = np.eye(3) + 0.1 * np.array([[0, 1, -1], [1, 0, 1], [-1, 1, 0]])
    mixed = ss.rules.LinearArgmax(matrix)
    with pytest.raises(RuleError, match="without a row for an alternative do not say"):
        fit_long(table, cost=None, rule=mixed)
    columns = {label: f"y ~ town + speed_{label}" for label in LABELS}
    wide = ss.fit(columns, data, chosen="who", rule=mixed)
    assert fit_long(full, cost=None, rule=mixed).llf == pytest.approx(wide.llf, rel=1e-9)
    # What belongs to the case is known without a row, and so is what no choice depends on.
    options = {"chosen": "who", "available": {label: f"open_{label}" for label in LABELS}}
    wide = ss.fit("y ~ town", data, rule=mixed, **options)
    found = fit_long(table, "y ~ town", cost=None, rule=mixed)
    assert found.llf == pytest.approx(wide.llf, rel=1e-9)
    known = ss.noises.KnownCovariance(np.eye(3) + 0.3)
    assert fit_long(table, cost=None, noise=known, seed=1).converged
