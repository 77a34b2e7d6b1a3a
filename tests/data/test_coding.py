"""New rows coded as those of the fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.data.coding import KnownColumns
from selfselect.errors import DataError, MissingRowsWarning, OptionError


@pytest.fixture
def result(villagers: pd.DataFrame) -> ss.FitResult:
    formula = "income ~ bs(height, df=4) + clan + center(weight)"
    return ss.fit(formula, villagers, chosen="job")


def test_new_rows_with_only_some_categories_are_coded_as_before(
    result: ss.FitResult, villagers: pd.DataFrame
) -> None:
    foxes = villagers[villagers["clan"] == "fox"]
    whole = result.predict(villagers)
    pd.testing.assert_frame_equal(result.predict(foxes), whole.loc[foxes.index])
    one = result.predict(foxes.astype({"clan": "category"}).head(1))
    pd.testing.assert_frame_equal(one, whole.loc[foxes.index[:1]])


def test_an_unseen_category_is_an_error_that_names_column_and_category(
    result: ss.FitResult, villagers: pd.DataFrame
) -> None:
    with pytest.raises(DataError, match=r"'clan' has 'wolf', not met .*leave those rows out"):
        result.predict(villagers.head(3).assign(clan=["fox", "wolf", "owl"]))


def test_a_missing_column_is_named_and_the_outcome_is_not_needed(
    result: ss.FitResult, villagers: pd.DataFrame
) -> None:
    with pytest.raises(DataError, match="no column 'weight'"):
        result.predict(villagers[["height", "clan"]])
    assert len(result.predict(villagers[["height", "clan", "weight"]])) == len(villagers)


@pytest.mark.parametrize("kind", ["latent", "chance", "outcome", "given_seen"])
def test_rows_with_a_missing_value_get_a_missing_prediction_and_a_warning(
    kind: str, result: ss.FitResult, villagers: pd.DataFrame
) -> None:
    rows = villagers.head(4).set_axis(["p", "q", "r", "s"])
    holes = rows.astype({"clan": object})
    holes.loc["q", "height"] = np.nan
    holes.loc["s", "clan"] = None
    with pytest.warns(MissingRowsWarning, match="2 of 4 rows"):
        found = result.predict(holes, kind=kind)
    expected = result.predict(rows, kind=kind)
    assert list(found.index) == ["p", "q", "r", "s"]
    assert found.loc[["q", "s"]].isna().to_numpy().all()
    np.testing.assert_array_equal(found.loc[["p", "r"]], expected.loc[["p", "r"]])


def test_no_rows_give_an_empty_prediction(result: ss.FitResult, villagers: pd.DataFrame) -> None:
    found = result.predict(villagers.head(0), kind="chance")
    assert found.shape == (0, 2)
    assert list(found.columns) == ["fishing", "hunting"]


def test_a_term_that_is_infinite_in_new_rows_is_named(villagers: pd.DataFrame) -> None:
    result = ss.fit("income ~ np.log(height)", villagers, chosen="job")
    with pytest.raises(DataError, match=r"'np.log\(height\)' is infinite or not a number"):
        result.predict(villagers.head(2).assign(height=[0.0, 1.0]))


def test_costs_and_availability_are_needed_only_where_choices_matter(
    villagers: pd.DataFrame,
) -> None:
    result = ss.fit(
        "income ~ height",
        villagers,
        chosen="job",
        rule=ss.rules.Maximum(cost={"fishing": "rent"}),
        available={"fishing": "near"},
    )
    bare = villagers[["height"]].head(3)
    assert result.predict(bare).shape == (3, 2)
    with pytest.raises(DataError, match="no column 'rent'"):
        result.predict(bare, kind="chance")
    closed = result.predict(bare.assign(rent=1.0, near=[1, 0, 1]), kind="chance")
    assert closed["fishing"].iloc[1] == 0.0
    assert closed["fishing"].iloc[0] > 0.0


def test_new_rows_without_any_open_alternative_are_refused(villagers: pd.DataFrame) -> None:
    result = ss.fit(
        "income ~ height", villagers, chosen="job",
        available={"fishing": "near", "hunting": "near"},
    )  # fmt: skip
    with pytest.raises(DataError, match="No alternative is available in 1 rows"):
        result.predict(villagers.head(2).assign(near=[1, 0]), kind="chance")


@pytest.mark.parametrize(
    ("cost", "available", "words"),
    [
        ("rent", None, "`cost` must be given by alternative"),
        (None, "near", "`available` must be given by alternative"),
        ({"a": float("nan")}, None, "finite number"),
        ({"a": [1, 2]}, None, "finite number"),
        (None, {"a": True}, "name of a column"),
        ({"z": 1.0}, None, "alternatives are a, b"),
    ],
)
def test_costs_and_availability_of_the_wrong_kind_are_refused(
    cost: object, available: object, words: str
) -> None:
    with pytest.raises(OptionError, match=words):
        KnownColumns.resolve(cost, available, ["a", "b"])  # type: ignore[arg-type]


def test_arrays_must_have_as_many_columns_as_those_of_the_fit(villagers: pd.DataFrame) -> None:
    X = villagers[["height", "weight"]].to_numpy()
    model = ss.SelfSelectionRegressor().fit(X, villagers["income"], chosen=villagers["job"])
    with pytest.raises(DataError, match=r"shape \(3, 1\); the fit had 2 covariates"):
        model.result_.predict(X[:3, :1])
    np.testing.assert_array_equal(model.result_.predict(X[:3]), model.predict_latent(X[:3]))
