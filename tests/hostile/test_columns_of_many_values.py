"""Columns of hundreds of values, as covariates and as alternatives: told before the fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import DataError, OptionError, SelfSelectWarning


@pytest.fixture(scope="module")
def villagers():
    return ss.simulators.village(3_000, seed=1).data


def test_categories_that_an_alternative_has_no_row_of_are_named(villagers):
    table = villagers.assign(nr=np.arange(3_000) // 6)
    with pytest.raises(DataError, match=r"C\(nr\) has 500 categories, and \d+ of them occur in no"):
        ss.fit("income ~ height + C(nr)", table, chosen="job")


@pytest.mark.parametrize("written", ["%Y-%m-%d", "%d/%m/%Y", "%Y-%m-%d %H:%M"])
def test_dates_as_text_are_called_dates(villagers, written):
    days = pd.Timestamp(2015, 1, 1) + pd.to_timedelta(np.arange(3_000) // 6, unit="D")
    table = villagers.assign(hired=days.strftime(written))
    with pytest.raises(
        DataError, match=r"hired holds dates as text, such as .*pd.to_datetime\(dat"
    ):
        ss.fit("income ~ height + hired", table, chosen="job")


def test_very_many_categories_come_with_a_warning(villagers):
    towns = villagers.groupby("job").cumcount() % 260
    table = villagers.assign(town=[f"town {i}" for i in towns])
    with pytest.warns(SelfSelectWarning, match=r"town has 260 categories, and the model 520 param"):
        ss.pose("income ~ town", table, chosen="job")


@pytest.mark.parametrize("column", ["height", "number"])
def test_a_measurement_or_an_identifier_is_no_list_of_alternatives(villagers, column):
    table = villagers.assign(number=np.arange(3_000))
    with pytest.raises(DataError, match=f"'{column}' holds .* no list of alternatives"):
        ss.fit("income ~ weight", table, chosen=column)


def test_a_forgotten_choice_is_what_the_error_says(villagers):
    with pytest.raises(OptionError, match="Neither `chosen` nor `alternatives` is given"):
        ss.fit("income ~ height", villagers)


@pytest.mark.parametrize(
    "spline", ["bs(height, df=4)", "bs(height, df=5, degree=2)", "cr(height, df=4) - 1"]
)
def test_marginal_effects_step_inside_the_knots_of_splines(villagers, spline):
    fit = ss.fit(f"income ~ {spline} + weight", villagers.head(500), chosen="job")
    found = fit.marginal_effects("height", of="outcome").table["estimate"].iloc[0]
    here, step = villagers.head(500), 0.5
    inner = here[
        (here["height"] > here["height"].min() + 1) & (here["height"] < here["height"].max() - 1)
    ]
    up, down = (
        fit.predict(inner.assign(height=inner["height"] + move), kind="outcome").to_numpy().mean()
        for move in (step, -step)
    )
    assert found == pytest.approx((up - down) / (2 * step), abs=0.05)


@pytest.mark.parametrize("formula", ["income ~ town", "income ~ C(town)", "income ~ height:town"])
def test_categories_that_no_memory_holds_are_refused_with_the_numbers(
    villagers, monkeypatch, formula
):
    monkeypatch.setattr("selfselect.data.rows.NO_QUESTION", 0)
    monkeypatch.setattr("selfselect.data.rows.memory_left", lambda: 1e6)
    table = villagers.assign(town=[f"town {i}" for i in range(3_000)])
    with pytest.raises(DataError, match=r"'town' has 3,000 categories.*216 MB of memory, and 1 MB"):
        ss.fit(formula, table, chosen="job")
