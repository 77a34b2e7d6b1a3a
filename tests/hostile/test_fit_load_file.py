"""A fit, the same fit loaded, and the fit of a file: they code alike, and refuse alike."""

from __future__ import annotations

from decimal import Decimal
from itertools import cycle, islice

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import DataError, SelfSelectError

ROWS = 300
SAME = 1e-6
"""Engines add up the same numbers in another order, and stop at a gradient of 1e-8."""


@pytest.fixture(scope="module")
def table():
    made = ss.simulators.village(ROWS, seed=3).data
    rng = np.random.default_rng(0)
    return made.assign(
        age=rng.integers(20, 90, ROWS).astype("int8"),
        kids=rng.integers(0, 5, ROWS).astype("uint8"),
        year=rng.choice([2001, 2002, 2003], ROWS).astype("int16"),
        clan=rng.choice(["ant", "bee", "cat"], ROWS),
        rank=pd.Categorical(
            rng.choice(["low", "mid", "high"], ROWS), ["low", "mid", "high", "top"]
        ),
        flag=rng.uniform(size=ROWS) < 0.5,
        price=[Decimal(int(one)) / 8 for one in rng.integers(1, 80, ROWS)],
        short=made["height"].astype("float32"),
    )


SIDES = [
    "height",
    "age + I(age**2)",
    "age*kids",
    "I(kids - 3) + age:kids",
    "np.log(age)",
    "C(year)",
    "C(year) + year:height",
    "clan",
    "clan*height",
    "rank",
    "rank:clan",
    "flag + I(flag + kids)",
    "price + I(price**2)",
    "short",
    "center(age)",
    "scale(height) + poly(age, 2)",
    "bs(age, df=4)",
    "C(clan, contr.sum)",
    "I(clan == 'bee')",
]


@pytest.mark.parametrize("side", SIDES)
def test_fit_loaded_fit_and_file_agree(side, table, tmp_path):
    table.to_parquet(tmp_path / "rows.parquet")
    fit = ss.fit(f"income ~ {side}", table, chosen="job")
    fit.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    filed = ss.fit(
        f"income ~ {side}", tmp_path / "rows.parquet", chosen="job", engine=ss.engines.Parquet()
    )
    assert filed.names == fit.names
    np.testing.assert_allclose(filed.values, fit.values, rtol=SAME, atol=SAME)
    new = table.iloc[[5, 2, 9]].drop(columns=["income", "job"])
    wanted = fit.predict(new)
    pd.testing.assert_frame_equal(loaded.predict(new), wanted)
    pd.testing.assert_frame_equal(loaded.predict(new[list(new)[::-1]]), wanted)
    np.testing.assert_allclose(filed.predict(new), wanted, rtol=SAME, atol=SAME)
    wide = new.astype({"age": "int64", "kids": "float64", "year": "float64", "flag": "int64"})
    pd.testing.assert_frame_equal(loaded.predict(wide), wanted)


ODD = {
    "text": ["tall", "short", "tall"],
    "text of numbers": ["170", "180", "n/a?"],
    "dates": pd.to_datetime(["2020-01-01"] * 3),
    "durations": pd.to_timedelta([1, 2, 3], "D"),
    "complex": np.array([1j, 2, 3]),
    "lists": [[1], [2], [3]],
    "a category": pd.Categorical([1.0, 2.0, 3.0]),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("side", ["height", "I(height**2)", "center(height)", "clan*height"])
def test_fit_and_loaded_fit_refuse_alike(side, odd, table, tmp_path):
    fit = ss.fit(f"income ~ {side}", table, chosen="job")
    fit.save(tmp_path / "fit.json")
    rows = table.iloc[:3].assign(height=ODD[odd])
    said = []
    for one in (fit, ss.load(tmp_path / "fit.json")):
        with pytest.raises(DataError, match="'height' held numbers when the model was fitted"):
            one.treatment_effects("fishing", "hunting", data=rows)
        with pytest.raises(DataError, match="'height' held numbers when the model was fitted"):
            one.choice_probabilities(data=rows)
        with pytest.raises(DataError) as caught:
            one.predict(rows)
        said.append(str(caught.value))
    assert said[0] == said[1]


@pytest.mark.parametrize("odd", ["dates", "durations", "lists", "text of numbers"])
@pytest.mark.parametrize("place", ["covariate", "outcome", "weights", "cost", "offset", "between"])
def test_files_refuse_what_tables_refuse(odd, place, table, tmp_path):
    rows = table.assign(odd=pd.Series(list(islice(cycle(ODD[odd]), ROWS)), index=table.index))
    rows.to_parquet(tmp_path / "rows.parquet")
    formula, options = {
        "covariate": ("income ~ I(odd * 2)", {}),
        "outcome": ("odd ~ height", {}),
        "weights": ("income ~ height", {"weights": "odd"}),
        "cost": ("income ~ height", {"cost": {"fishing": "odd"}}),
        "offset": ("income ~ height", {"offset": {"fishing": "odd"}}),
        "between": ("income ~ height", {"outcome_between": ("odd", None)}),
    }[place]
    for data in (rows, tmp_path / "rows.parquet"):
        with pytest.raises(SelfSelectError, match="odd"):
            ss.fit(formula, data, chosen="job", **options)


def test_a_table_without_rows_has_predictions_without_rows(table, tmp_path):
    fit = ss.fit("income ~ height*clan", table, chosen="job")
    fit.save(tmp_path / "fit.json")
    for one in (fit, ss.load(tmp_path / "fit.json")):
        for empty in (table.iloc[:0], table.iloc[:0].astype(object)):
            assert one.predict(empty).shape == (0, 2)
        single = table.iloc[:1].astype(object)
        np.testing.assert_array_equal(one.predict(single), fit.predict(table.iloc[:1]))
