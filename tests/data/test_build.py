"""From a formula and a table to coded rows: missing values, labels, weights, costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.data.build import build_design
from selfselect.errors import DataError, FormulaError, MissingRowsWarning, OptionError


def fit(data: Any, formula: Any = "income ~ height + weight", **options: Any) -> ss.FitResult:
    return ss.fit(formula, data, chosen="job", **options)


# missing values


def test_rows_without_a_covariate_are_dropped_counted_and_warned_of(
    villagers: pd.DataFrame,
) -> None:
    holes = villagers.copy()
    holes.loc[[3, 5], "height"] = np.nan
    holes.loc[[5, 8, 9], "weight"] = np.nan
    with pytest.warns(MissingRowsWarning, match=r"4 of 400 rows .*height: 2, weight: 3"):
        result = fit(holes)
    complete = fit(villagers.drop(index=[3, 5, 8, 9]))
    pd.testing.assert_series_equal(result.params, complete.params)
    assert (result.nobs, result.facts.n_dropped) == (396, 4)
    assert "4 rows with a missing covariate were left out" in str(result.summary())


def test_the_warning_points_at_the_line_that_called_fit(villagers: pd.DataFrame) -> None:
    villagers.loc[3, "height"] = np.nan
    with pytest.warns(MissingRowsWarning) as caught:
        ss.fit("income ~ height", villagers, chosen="job")
    assert caught[0].filename == __file__


def test_a_hole_in_a_column_nobody_asked_for_does_not_matter(villagers: pd.DataFrame) -> None:
    villagers.loc[3, "rent"] = np.nan
    assert fit(villagers).nobs == len(villagers)


def test_missing_raise_refuses_rows_without_a_covariate(villagers: pd.DataFrame) -> None:
    villagers.loc[3, "height"] = np.nan
    with pytest.raises(DataError, match=r"1 rows have a missing covariate \(height: 1\)"):
        fit(villagers, missing="raise")


def test_a_missing_category_counts_as_a_missing_covariate(villagers: pd.DataFrame) -> None:
    villagers["clan"] = villagers["clan"].astype(object)
    villagers.loc[3, "clan"] = None
    with pytest.warns(MissingRowsWarning, match="clan: 1"):
        assert fit(villagers, "income ~ clan").nobs == len(villagers) - 1


def test_a_missing_outcome_is_an_error_that_counts_and_says_why(villagers: pd.DataFrame) -> None:
    villagers.loc[[2, 7], "income"] = np.nan
    with pytest.raises(DataError, match=r"2 rows were chosen .*rows 2, 7.*select on the outcome"):
        fit(villagers)


def test_without_a_recorded_choice_no_row_is_said_to_be_chosen() -> None:
    sample = ss.simulators.market(50, seed=1)
    sample.data.loc[[2, 7], "quantity"] = np.nan
    with pytest.raises(DataError, match=r"^2 rows have no outcome 'quantity'") as caught:
        ss.fit(sample.formula, sample.data, rule="min")
    assert "silent" not in str(caught.value)


def test_insisting_drops_rows_without_outcome_and_the_summary_says_so(
    villagers: pd.DataFrame,
) -> None:
    villagers.loc[[2, 7], "income"] = np.nan
    result = fit(villagers, missing_outcome="drop")
    assert (result.nobs, result.facts.n_without_outcome) == (398, 2)
    summary = " ".join(str(result.summary()).split())
    assert "2 rows without a recorded outcome were left out on request" in summary


def test_a_missing_choice_is_an_error(villagers: pd.DataFrame) -> None:
    villagers["job"] = villagers["job"].astype(object)
    villagers.loc[4, "job"] = None
    with pytest.raises(DataError, match=r"1 rows have no value in 'job' \(row 4\)"):
        fit(villagers)
    assert fit(villagers, missing_outcome="drop").nobs == 399


def test_a_table_without_a_complete_row_is_refused(villagers: pd.DataFrame) -> None:
    with (
        pytest.warns(MissingRowsWarning),
        pytest.raises(DataError, match="No row is complete"),
    ):
        fit(villagers.assign(height=np.nan))


# alternatives


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (("b", "a"), ["a", "b"]),
        ((10, 9), [9, 10]),
        ((True, False), [False, True]),
        ((2.0, 1.0), [1, 2]),
        ((1.5, 0.5), [0.5, 1.5]),
    ],
)
def test_labels_of_every_kind_are_kept_and_sorted(
    labels: tuple[Any, Any], expected: list[Any], villagers: pd.DataFrame
) -> None:
    hunts = villagers["job"] == "hunting"
    result = fit(villagers.assign(job=[labels[0] if hunting else labels[1] for hunting in hunts]))
    assert list(result.counts.index) == expected
    assert result.counts[labels[0]] == hunts.sum()
    assert {type(label) for label in result.problem.equations.alternatives} == {type(expected[0])}


def test_alternatives_keep_the_order_of_categories_and_unused_ones_are_forgotten(
    villagers: pd.DataFrame,
) -> None:
    jobs = pd.Categorical(villagers["job"], categories=["hunting", "fishing", "farming"])
    assert list(fit(villagers.assign(job=jobs)).counts.index) == ["hunting", "fishing"]


def test_a_dict_of_formulas_sets_the_order(villagers: pd.DataFrame) -> None:
    formulas = {"hunting": "income ~ height", "fishing": "income ~ weight"}
    result = fit(villagers, formulas)
    assert list(result.counts.index) == ["hunting", "fishing"]
    assert result.names == [
        "hunting:Intercept", "hunting:height", "hunting:scale",
        "fishing:Intercept", "fishing:weight", "fishing:scale",
    ]  # fmt: skip


def test_equal_formulas_in_a_dict_are_the_same_model_as_one_formula(
    villagers: pd.DataFrame,
) -> None:
    one = fit(villagers, "income ~ clan + height")
    two = fit(villagers, dict.fromkeys(["hunting", "fishing"], "income ~ clan + height"))
    assert one.llf == pytest.approx(two.llf, rel=1e-12)  # the same sums in another order
    assert set(one.names) == set(two.names)


@pytest.mark.parametrize("number", [int, float])
def test_keys_may_be_the_text_of_a_number(number: type, villagers: pd.DataFrame) -> None:
    coded = villagers.assign(job=(villagers["job"] == "hunting").astype(number))
    result = fit(coded, {"1": "income ~ height", "0": "income ~ weight"})
    assert list(result.counts.index) == [1, 0]


def test_labels_that_read_alike_are_refused(villagers: pd.DataFrame) -> None:
    jobs = [(1 if i % 2 else "1") if job == "hunting" else "2"
            for i, job in enumerate(villagers["job"])]  # fmt: skip
    with pytest.raises(DataError, match="two different labels that both read '1'"):
        fit(villagers.assign(job=pd.Series(jobs, dtype=object)))


def test_a_label_without_a_formula_is_named(villagers: pd.DataFrame) -> None:
    farmers = villagers.assign(job=villagers["job"].where(villagers.index > 9, "farming"))
    with pytest.raises(DataError, match="'job' holds 'farming', for which no formula is given"):
        fit(farmers, {"hunting": "income ~ height", "fishing": "income ~ weight"})


def test_formulas_with_different_outcomes_are_refused(villagers: pd.DataFrame) -> None:
    with pytest.raises(FormulaError, match=r"different outcomes \(income, rent\)"):
        fit(villagers, {"hunting": "income ~ height", "fishing": "rent ~ weight"})


def test_the_intercept_stands_first_wherever_the_formula_puts_it(villagers: pd.DataFrame) -> None:
    result = fit(villagers, "income ~ height + 1 + weight")
    assert result.names[:3] == ["fishing:Intercept", "fishing:height", "fishing:weight"]


def test_a_covariate_named_like_a_scale_is_refused(villagers: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="cannot be named 'scale'"):
        fit(villagers.assign(scale=villagers["height"]), "income ~ scale")


@pytest.mark.parametrize("formula", ["`net income` ~ height", "income ~ `boat size` + height"])
def test_names_with_spaces_are_written_in_backticks(formula: str, villagers: pd.DataFrame) -> None:
    assert fit(villagers, formula).converged


def test_a_transformed_outcome_is_computed(villagers: pd.DataFrame) -> None:
    rows = build_design("np.exp(income / 100) ~ height", villagers, chosen="job").rows
    np.testing.assert_allclose(rows.outcome, np.exp(villagers["income"] / 100))


# weights, clusters, costs, availability


def test_weights_are_a_column_or_an_array(villagers: pd.DataFrame) -> None:
    by_name = fit(villagers, weights="weighting")
    for given in (villagers["weighting"].to_numpy(), villagers["weighting"].to_list()):
        pd.testing.assert_series_equal(fit(villagers, weights=given).params, by_name.params)
    assert by_name.facts.weights == "weighting"
    assert not by_name.params.equals(fit(villagers).params)


def test_an_array_of_weights_does_not_replace_a_column_named_weights(
    villagers: pd.DataFrame,
) -> None:
    named = villagers.rename(columns={"height": "weights", "weight": "cluster"})
    ones = np.ones(len(named))
    found = fit(named, "income ~ weights + cluster", weights=ones, cluster=named["hut"])
    expected = fit(villagers, "income ~ height + weight", cluster="hut")
    np.testing.assert_allclose(found.params, expected.params)
    np.testing.assert_allclose(found.bse, expected.bse)


def test_weights_stay_with_their_rows_when_others_are_dropped(villagers: pd.DataFrame) -> None:
    holes = villagers.copy()
    holes.loc[[0, 5], "height"] = np.nan
    with pytest.warns(MissingRowsWarning):
        found = fit(holes, weights=villagers["weighting"].to_numpy())
    kept = villagers.drop(index=[0, 5])
    expected = fit(kept, weights="weighting")
    pd.testing.assert_series_equal(found.params, expected.params)


@pytest.mark.parametrize("given", [np.ones(7), np.ones((400, 1)), 5, [1.0]])
@pytest.mark.parametrize("option", ["weights", "cluster"])
def test_weights_and_clusters_need_one_value_per_row(
    option: str, given: Any, villagers: pd.DataFrame
) -> None:
    with pytest.raises(DataError, match=rf"`{option}` has the shape .* the table has 400 rows"):
        fit(villagers, **{option: given})


def test_missing_weights_and_clusters_are_refused(villagers: pd.DataFrame) -> None:
    holes = villagers.assign(
        weighting=villagers["weighting"].where(villagers.index > 1),
        hut=villagers["hut"].where(villagers.index > 2),
    )
    with pytest.raises(DataError, match=r"'weighting' has 2 missing values \(rows 0, 1\)"):
        fit(holes, weights="weighting")
    with pytest.raises(DataError, match=r"'hut' has 3 missing values"):
        fit(holes, cluster="hut")


def test_missing_and_infinite_costs_are_refused(villagers: pd.DataFrame) -> None:
    rule = ss.rules.Maximum(cost={"fishing": "rent"})
    villagers.loc[4, "rent"] = np.nan
    with pytest.raises(DataError, match=r"cost column 'rent' has 1 missing values \(row 4\)"):
        fit(villagers, rule=rule)
    villagers.loc[4, "rent"] = np.inf
    with pytest.raises(DataError, match=r"cost column 'rent' has 1 infinite values \(row 4\)"):
        fit(villagers, rule=rule)


def test_availability_must_be_true_or_false(villagers: pd.DataFrame) -> None:
    with pytest.raises(DataError, match=r"'near' must be true or false.* hold 2"):
        fit(villagers.assign(near=2), available={"fishing": "near"})
    with pytest.raises(DataError, match="'clan' must hold numbers"):
        fit(villagers, available={"fishing": "clan"})


@pytest.mark.parametrize("dtype", [bool, int, float, "boolean"])
def test_availability_may_be_of_any_kind(dtype: Any, villagers: pd.DataFrame) -> None:
    near = ((villagers["job"] == "fishing") | (villagers.index % 2 == 0)).astype(dtype)
    result = fit(villagers.assign(near=near), available={"fishing": "near"})
    assert result.rows.known.available[:, 0].sum() == near.astype(int).sum()


def test_a_row_seen_where_it_could_not_be_is_refused(villagers: pd.DataFrame) -> None:
    near = (villagers["job"] == "fishing") & (villagers.index > 50)
    with pytest.raises(DataError, match=r"not available to them .*chosen: 'fishing'"):
        fit(villagers.assign(near=near), available={"fishing": "near"})


def test_a_cost_for_an_alternative_that_is_not_there_is_refused(villagers: pd.DataFrame) -> None:
    with pytest.raises(OptionError, match=r"cost is given for 'fishin'.*'fishing'"):
        fit(villagers, rule=ss.rules.Maximum(cost={"fishin": 1.0}))


@pytest.mark.parametrize("formula", ["np.log(income) ~ height", "np.sqrt(income) ~ height"])
def test_a_recorded_outcome_of_which_no_number_can_be_made_is_not_missing(
    villagers: pd.DataFrame, formula: str
) -> None:
    villagers = villagers.assign(income=villagers["income"].where(villagers.index != 5, -1.0))
    for missing_outcome in ("raise", "silent", "drop"):
        with pytest.raises(DataError, match=r"not a number in 1 rows \(row 5\)"):
            build_design(formula, villagers, chosen="job", missing_outcome=missing_outcome)


# what outcomes decide


@pytest.mark.parametrize(
    "asked",
    [
        {"formula": "income ~ height + income"},
        {"formula": "np.log(income) ~ height + income"},
        {"formula": "income ~ height * np.log(income)"},
        {"formula": {"fishing": "income ~ height", "hunting": "income ~ I(income**2)"}},
        {"formula": "I(income / weight) ~ height + log(income * weight)"},
        {"formula": "income ~ height", "cost": {"fishing": "~ income"}},
        {"formula": "income ~ height", "offset": {"fishing": "income"}},
    ],
)
def test_the_outcome_is_refused_as_its_own_covariate(
    asked: dict[str, Any], villagers: pd.DataFrame, tmp_path: Path
) -> None:
    villagers.to_parquet(tmp_path / "rows.parquet")
    for data, engine in ((villagers, None), (str(tmp_path), ss.engines.Parquet())):
        with pytest.raises(FormulaError, match=r"hold the outcome .* itself"):
            fit(data, engine=engine, **asked)


@pytest.mark.parametrize(
    "asked",
    [
        {"formula": "income ~ job"},
        {"formula": "income ~ height * C(job)"},
        {"formula": {"fishing": "income ~ height", "hunting": "income ~ job"}},
        {"formula": "income ~ height", "cost": {"fishing": "~ job"}},
        {"formula": "income ~ height", "noise": ss.noises.Independent(scale="~ job")},
    ],
)
def test_the_choice_is_refused_as_a_covariate(
    asked: dict[str, Any], villagers: pd.DataFrame, tmp_path: Path
) -> None:
    villagers.to_parquet(tmp_path / "rows.parquet")
    for data, engine in ((villagers, None), (str(tmp_path), ss.engines.Parquet())):
        with pytest.raises(FormulaError, match="hold the choice 'job'"):
            fit(data, engine=engine, **asked)


def test_a_part_of_a_ratio_may_explain_it(villagers: pd.DataFrame) -> None:
    assert fit(villagers, "I(income / weight) ~ height + weight").converged
