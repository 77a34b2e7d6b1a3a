"""Cells that name nothing, and functions that are given more than numbers."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import DataError, FormulaError

NO_LABELS = {
    "lists": ([1], [2]),
    "dicts": ({"a": 1}, {"b": 1}),
    "sets": ({1}, {2}),
    "arrays": (np.array([1]), np.array([2])),
    "tuples": ((1,), (2,)),
    "bytes": (b"a", b"b"),
    "complex numbers": (1j, 2j),
    "classes": (int, str),
}
"""What cannot name an alternative; the first four cannot name anything."""


@pytest.fixture(scope="module")
def villagers():
    return ss.simulators.village(300, seed=5).data


def column(villagers, pair):
    made = np.empty(len(villagers), dtype=object)
    made[:] = [pair[job == "hunting"] for job in villagers["job"]]
    return made


@pytest.mark.parametrize("kind", NO_LABELS)
def test_what_names_no_alternative_is_refused(villagers, kind):
    table = villagers.assign(job=column(villagers, NO_LABELS[kind]))
    asked = [
        lambda: ss.fit("income ~ height", table, chosen="job"),
        lambda: ss.switching("income ~ height", "job ~ weight", table),
    ]
    for ask in asked:
        with pytest.raises(DataError, match=r"no\s+labels|names no alternative"):
            ask()


@pytest.mark.parametrize("kind", list(NO_LABELS)[:4])
@pytest.mark.parametrize("stray", [False, True])
def test_cells_that_cannot_be_told_apart_are_no_clusters(villagers, kind, stray):
    firms = column(villagers, NO_LABELS[kind])
    if stray:
        firms[1:] = np.arange(len(firms) - 1) // 5
    table = villagers.assign(firm=firms, town=np.arange(300) // 6)
    for cluster in ("firm", ["town", "firm"], firms):
        with pytest.raises(DataError, match=r"which are no\s+labels. Make them text or whole"):
            ss.fit("income ~ height", table, chosen="job", cluster=cluster)
    halves = table.assign(s=table["job"] == "hunting")
    with pytest.raises(DataError, match="which are no labels"):
        ss.sample_selection("income ~ height", "s ~ weight", halves, cluster="firm")


@pytest.mark.parametrize("place", ["tender", "firm"])
def test_cells_that_cannot_be_told_apart_are_no_cases_or_alternatives(place):
    tenders = ss.simulators.tender(100, seed=1).data
    tenders[place] = [[one] for one in tenders[place]]
    with pytest.raises(DataError, match="which are no labels"):
        ss.fit(
            "bid ~ size", tenders, case="tender", alternatives="firm", chosen="won", rule="min",
        )  # fmt: skip


@pytest.mark.parametrize("place", ["chosen", "cluster", "covariate"])
@pytest.mark.parametrize("engine", [ss.engines.Parquet(), ss.engines.Memory()])
def test_lists_in_a_file_are_refused_in_every_place(villagers, tmp_path, place, engine):
    villagers.assign(bag=[[job] for job in villagers["job"]]).to_parquet(tmp_path / "rows.parquet")
    options = {"chosen": "bag"} if place == "chosen" else {"chosen": "job"}
    options |= {"cluster": "bag"} if place == "cluster" else {}
    formula = "income ~ C(bag)" if place == "covariate" else "income ~ height"
    with pytest.raises(DataError, match=r"\(ndarray\), which are (no labels|neither)"):
        ss.fit(formula, tmp_path / "rows.parquet", engine=engine, **options)


def test_dates_name_alternatives(villagers):
    days = column(villagers, (dt.date(2020, 1, 1), dt.date(2021, 1, 1)))
    found = ss.fit("income ~ height", villagers.assign(job=days), chosen="job")
    wanted = ss.fit("income ~ height", villagers, chosen="job")
    np.testing.assert_array_equal(found.values, wanted.values)


@pytest.mark.parametrize(
    "part",
    [
        "np.log(height, out=weight)", "np.log(height, weight)", "np.add(height, 1, weight)",
        "np.add(height, 1, dtype='float16')", "np.log(height, where=height > 170)",
        "np.log(height, casting='unsafe')", "np.modf(height)", "np.divmod(height, 3)",
        "np.maximum(height)",
    ],
)  # fmt: skip
def test_functions_get_numbers_and_nothing_else(villagers, part, tmp_path):
    """A further argument is where the result is written: another column, in half precision."""
    villagers.to_parquet(tmp_path / "rows.parquet")
    for data in (villagers, tmp_path / "rows.parquet"):
        with pytest.raises(FormulaError, match="other than as a number made of its arguments"):
            ss.fit(f"income ~ {part} + weight", data, chosen="job")
    with pytest.raises(FormulaError, match="other than as a number made of its arguments"):
        ss.fit(part.replace("height", "income") + " ~ weight", villagers, chosen="job")


def test_functions_of_two_numbers_are_computed(villagers):
    found = ss.fit("income ~ np.maximum(height, 2.0 * weight)", villagers, chosen="job")
    larger = np.maximum(villagers["height"], 2.0 * villagers["weight"])
    wanted = ss.fit("income ~ larger", villagers.assign(larger=larger), chosen="job")
    np.testing.assert_allclose(found.values, wanted.values, rtol=1e-12)


def test_a_table_stays_as_it_was_whatever_a_formula_asks(villagers):
    before = villagers.copy()
    with pytest.raises(FormulaError):
        ss.fit("income ~ np.log(height, weight)", villagers, chosen="job")
    pd.testing.assert_frame_equal(villagers, before)
