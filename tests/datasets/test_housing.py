"""The housing market that comes with the package: derived columns by hand."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import pandas as pd
import pytest

import selfselect as ss


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return ss.datasets.housing()


@pytest.fixture(scope="module")
def raw() -> pd.DataFrame:
    with files("selfselect.datasets.housing").joinpath("housing.csv").open("rb") as file:
        return pd.read_csv(file)


def test_the_table_is_as_described(table: pd.DataFrame) -> None:
    assert table.shape == (144, 11)
    assert table["date"].iloc[0] == pd.Timestamp("1958-01-01")
    assert table["date"].dt.year.max() == 1969
    assert table["date"].is_monotonic_increasing and table["date"].is_unique
    assert table["trend"].tolist() == list(range(1, 145))
    assert table["month"].tolist() == table["date"].dt.strftime("%b").tolist()
    assert (table["starts"] > 0).all()


@pytest.mark.parametrize("row", [20, 50, 143])
def test_derived_columns_are_what_they_say(
    table: pd.DataFrame, raw: pd.DataFrame, row: int
) -> None:
    here = table.iloc[row]
    assert here["starts"] == raw["HS"][row]
    assert here["rate"] == raw["RM"][row]
    assert here["rate_lag1"] == raw["RM"][row - 1]
    assert here["rate_lag2"] == raw["RM"][row - 2]
    assert here["stock"] == pytest.approx(sum(raw["HS"][:row]))
    savings = raw["DSLA"] + raw["DMSB"]
    changes = [savings[m] - savings[m - 1] for m in range(row - 6, row)]
    assert here["deposits"] == pytest.approx(np.mean(changes))
    loans = [raw["DHLB"][m] - raw["DHLB"][m - 1] for m in range(row - 4, row - 1)]
    assert here["advances"] == pytest.approx(np.mean(loans))
    assert here["month"] == here["date"].strftime("%b")
    assert here["working_days"] == raw["W"][row]


def test_what_is_missing_is_missing_at_the_start(table: pd.DataFrame) -> None:
    """Lags need the months before, and rates were not recorded at first."""
    holes = table.isna().any(axis=1)
    first = int(np.flatnonzero(~holes)[0])
    assert holes[:first].all() and not holes[first:].any()
    assert table["deposits"].isna().sum() == 7
    assert table["advances"].isna().sum() == 5
    assert table["stock"].isna().sum() == 1


def test_the_licence_travels_with_the_data() -> None:
    text = files("selfselect.datasets.housing").joinpath("LICENCE.md").read_text()
    assert "MIT" in text or "Permission is hereby granted" in text


def test_a_market_can_be_fitted(table: pd.DataFrame) -> None:
    formulas = {
        "demand": "starts ~ trend + stock + rate_lag2",
        "supply": "starts ~ trend + deposits + advances + rate_lag1",
    }
    fit = ss.fit(formulas, table.dropna(), rule="min")
    assert fit.converged
    assert fit.responsibilities().shape == (len(table.dropna()), 2)
    # In 1972 too deposits drew supply along.
    assert fit.params["supply", "deposits"] > 0
