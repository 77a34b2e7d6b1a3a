"""Tables of every kind, and what is not one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import selfselect as ss
from selfselect.data.tables import COPIES_ON_WRITE, in_table_order, nearest, to_frame
from selfselect.errors import DataError

KINDS = {
    "pandas": lambda table: table,
    "polars": pl.from_pandas,
    "polars lazy": lambda table: pl.from_pandas(table).lazy(),
    "pyarrow": pa.Table.from_pandas,
    "dict of arrays": lambda table: {name: table[name].to_numpy() for name in table},
    "dict of lists": lambda table: {name: table[name].to_list() for name in table},
    "dict of series": lambda table: {name: table[name] for name in table},
    "pandas with an odd index": lambda table: table.set_axis(table["hut"].to_numpy()),
    "pandas nullable": lambda table: table.convert_dtypes(),
    "pandas categories": lambda table: table.astype({"clan": "category", "job": "category"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_the_same_estimates(kind: str, villagers: pd.DataFrame) -> None:
    formula = "income ~ height + clan + C(year)"
    expected = ss.fit(formula, villagers, chosen="job")
    data = KINDS[kind](villagers)
    found = ss.fit(formula, data, chosen="job", weights=None)
    pd.testing.assert_series_equal(found.params, expected.params)
    np.testing.assert_array_equal(found.predict(data), expected.predict(villagers))


def test_series_in_a_dict_belong_together_by_position(villagers: pd.DataFrame) -> None:
    elsewhere = villagers["height"].set_axis(np.arange(len(villagers)) + 1_000)
    frame = to_frame({"height": elsewhere, "income": villagers["income"]}, ["height", "income"])
    np.testing.assert_array_equal(frame["height"], villagers["height"])


def test_a_lazy_table_is_read_once_and_only_the_columns_needed() -> None:
    reads: list[int] = []

    def count(column: pl.Series) -> pl.Series:
        reads.append(len(column))
        return column

    lazy = pl.LazyFrame({"x": [1.0, 2.0], "rest": [1.0, 2.0]}).with_columns(
        pl.col("x").map_batches(count, return_dtype=pl.Float64),
        pl.col("rest").map_batches(lambda _: 1 / 0, return_dtype=pl.Float64),
    )
    assert to_frame(lazy, ["x"])["x"].tolist() == [1.0, 2.0]
    assert reads == [2]


def test_an_unknown_column_is_answered_with_the_nearest_names(villagers: pd.DataFrame) -> None:
    for data in (villagers, pl.from_pandas(villagers), dict(villagers)):
        with pytest.raises(DataError, match=r"no column 'heigth'.*Did you mean 'height'"):
            to_frame(data, ["heigth"])


def test_where_no_name_is_near_all_are_listed() -> None:
    assert nearest("zzz", ["one", "two"]) == " It has: one, two."
    assert nearest("zzz", []) == " It has no columns at all."


def test_a_column_that_is_there_twice_is_refused(villagers: pd.DataFrame) -> None:
    twice = pd.concat([villagers, villagers[["height"]]], axis=1)
    with pytest.raises(DataError, match="2 columns named 'height'"):
        ss.fit("income ~ height", twice, chosen="job")
    assert ss.fit("income ~ weight", twice, chosen="job").converged


def test_columns_whose_names_are_numbers_can_be_used() -> None:
    assert to_frame(pd.DataFrame({7: [1.0]}), ["7"])["7"].tolist() == [1.0]


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(DataError, match=r"different lengths \(x: 2, y: 3\)"):
        to_frame({"x": [1, 2], "y": [1, 2, 3]}, ["x", "y"])


@pytest.mark.parametrize(
    ("values", "words"), [(1.0, "single value"), (np.ones((2, 2)), "not one-dimensional")]
)
def test_a_column_has_one_value_per_row(values: Any, words: str) -> None:
    with pytest.raises(DataError, match=f"'x' is {words}|'x' {words}|{words}"):
        to_frame({"x": values, "y": [1.0, 2.0]}, ["x", "y"])


@pytest.mark.parametrize("data", [np.ones((3, 2)), None, 5, [1, 2], pd.Series([1])])
def test_what_is_not_a_table_is_refused(data: Any) -> None:
    with pytest.raises(DataError, match="not a table"):
        ss.fit("income ~ height", data, chosen="job")


@pytest.mark.parametrize("wanted", [["c", "a", "b"], ["c", "b"], ["b"], []])
def test_columns_of_a_frame_that_stand_together_are_not_copied(wanted):
    frame = pd.DataFrame(np.ones((5, 3)), columns=["a", "b", "c"])
    found = to_frame(frame, in_table_order(frame, wanted))
    assert list(found.columns) == sorted(wanted) and len(found) == 5
    for name in wanted:
        shared = np.shares_memory(found[name].to_numpy(), frame[name].to_numpy())
        assert shared == COPIES_ON_WRITE
    assert list(to_frame(frame, wanted).columns) == wanted
    assert list(frame.columns) == ["a", "b", "c"]
    frame.loc[:, "b"] = 2.0
    assert (found == 1.0).all(axis=None)


@pytest.mark.parametrize("read", ["frame", "lazy", "arrow", "file", "file in pieces", "ipc"])
def test_categories_of_polars_without_an_order_are_sorted_and_an_enum_keeps_its_order(
    read: str, villagers: pd.DataFrame, tmp_path: Path
) -> None:
    if read == "arrow":
        try:
            pl.DataFrame({"clan": ["elk"]}, schema={"clan": pl.Categorical}).to_arrow().to_pandas()
        except pa.ArrowTypeError:
            pytest.skip("this pyarrow does not convert the unsigned dictionaries of polars")

    def names(kind: Any, *, backwards: bool) -> list[str]:
        table = pl.from_pandas(villagers).with_columns(pl.col("clan").cast(kind))
        table = table.reverse() if backwards else table
        table.write_parquet(tmp_path / "rows.parquet")
        table.write_ipc(tmp_path / "rows.arrow")
        data: Any = {
            "frame": table,
            "lazy": table.lazy(),
            "arrow": table.to_arrow(),
            "file": str(tmp_path / "rows.parquet"),
            "file in pieces": str(tmp_path / "rows.parquet"),
            "ipc": str(tmp_path / "rows.arrow"),
        }[read]
        engine = ss.engines.Parquet(batch_rows=100) if read == "file in pieces" else None
        fit = ss.fit("income ~ height + clan", data, chosen="job", engine=engine)
        return [term for label, term in fit.params.index if label == "fishing"]

    clans = sorted(set(villagers["clan"]))
    for backwards in (False, True):
        expected = [f"clan[T.{one}]" for one in clans[1:]]
        assert [
            one for one in names(pl.Categorical, backwards=backwards) if "clan" in one
        ] == expected
        expected = [f"clan[T.{one}]" for one in clans[-2::-1]]
        enum = pl.Enum(clans[::-1])
        assert [one for one in names(enum, backwards=backwards) if "clan" in one] == expected
