"""Rows in files: every format and layout, and everything that must be learnt from all rows."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import selfselect as ss
from selfselect.data import survey
from selfselect.data.files import open_files
from selfselect.data.rows import Piece
from selfselect.data.tables import TextFiles
from selfselect.errors import (
    DataError,
    FormulaError,
    MissingRowsWarning,
    OptionError,
    UnsupportedError,
)

FORMULA = "outcome ~ x1 + x2"
SAME = {"rtol": 1e-8, "atol": 1e-8}
"""Engines add up the same numbers in another order."""


def write(folder: Path, *parts: pd.DataFrame, ending: str = "parquet") -> str:
    """Write each part to a file of its own, and return a pattern for all."""
    for i, part in enumerate(parts):
        path = folder / f"part-{i}.{ending}"
        if ending == "parquet":
            part.to_parquet(path, index=False)
        elif ending in ("feather", "arrow"):
            part.reset_index(drop=True).to_feather(path)
        else:
            part.to_csv(path, index=False, sep="\t" if ending.startswith("tsv") else ",")
    return f"{folder}/*.{ending}"


def halves(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    return table.iloc[: len(table) // 2], table.iloc[len(table) // 2 :]


def fit(data: Any, formula: Any = FORMULA, **options: Any) -> Any:
    return ss.fit(formula, data, **{"chosen": "chosen"} | options)


def assert_as_in_memory(data: Any, table: pd.DataFrame, formula: Any = FORMULA, **options: Any):
    found, wanted = fit(data, formula, **options), fit(table, formula, **options)
    assert list(found.params.index) == list(wanted.params.index)
    np.testing.assert_allclose(found.params, wanted.params, **SAME)
    np.testing.assert_allclose(found.bse, wanted.bse, rtol=1e-6)
    return found


@pytest.fixture
def table(people) -> pd.DataFrame:
    return people.iloc[:400].reset_index(drop=True)


# formats and layouts


@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz", "tsv", "feather", "arrow"])
def test_every_format_is_read(table, tmp_path, ending):
    pattern = write(tmp_path, *halves(table), ending=ending)
    assert_as_in_memory(pattern, table, "outcome ~ x1 + x2 + region + urban")


def test_files_are_given_as_a_folder_a_path_a_list_or_a_dataset(table, tmp_path):
    write(tmp_path, *halves(table))
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".part-9.parquet").write_text("left behind by a writer")
    wanted = fit(table).params
    files = [tmp_path / "part-0.parquet", str(tmp_path / "part-1.parquet")]
    for data in (
        tmp_path, str(tmp_path), files, tuple(files), pa.dataset.dataset(tmp_path),
        pa.dataset.dataset(pa.Table.from_pandas(table)),
    ):  # fmt: skip
        np.testing.assert_allclose(fit(data).params, wanted, **SAME)
    one = fit(files[0])
    np.testing.assert_allclose(one.params, fit(halves(table)[0]).params, **SAME)


def test_folders_that_name_a_value_are_a_column(table, tmp_path):
    pq.write_to_dataset(pa.Table.from_pandas(table), tmp_path, partition_cols=["region"])
    ordered = table.sort_values("region", kind="stable")
    assert_as_in_memory(str(tmp_path), ordered, "outcome ~ x1 + region")


@pytest.mark.parametrize("engine", [ss.engines.Parquet, "parquet", 4])
def test_what_is_no_engine_is_refused(table, engine):
    with pytest.raises(OptionError, match="it is not an engine"):
        fit(table, engine=engine)


def test_samples_of_a_bootstrap_all_differ(table, tmp_path):
    table.to_parquet(tmp_path / "rows.parquet")
    engine = fit(tmp_path / "rows.parquet").engine
    rng = np.random.default_rng(1)
    totals = [
        engine.resampled(rng, repeated=False, n_clusters=0).sum(
            lambda batch: float(batch.rows.weights @ batch.rows.outcome)
        )
        for _ in range(60)
    ]
    assert len(set(totals)) == 60


def test_memory_reads_files_at_once(table, tmp_path):
    pattern = write(tmp_path, *halves(table))
    found = fit(pattern, engine=ss.engines.Memory())
    assert found.has_rows and len(found.predict()) == len(table)
    np.testing.assert_array_equal(found.params, fit(table).params)


@pytest.mark.parametrize("batch_rows", [1, 7, 100, 10**6])
def test_answers_do_not_depend_on_the_pieces(table, tmp_path, batch_rows):
    pattern = write(tmp_path, *halves(table.iloc[:150]))
    engine = ss.engines.Parquet(batch_rows)
    found, wanted = fit(pattern, engine=engine), fit(table.iloc[:150])
    np.testing.assert_allclose(found.params, wanted.params, **SAME)


def test_columns_with_odd_names_are_read(table, tmp_path):
    odd = table.rename(
        columns={"x1": "a b", "x2": "ratio (%)", "outcome": "my y", "chosen": "who?"}
    )
    pattern = write(tmp_path, *halves(odd))
    assert_as_in_memory(pattern, odd, "`my y` ~ `a b` + `ratio (%)`", chosen="who?")


# what is learnt in the first pass


def test_a_category_first_met_in_the_last_file_is_one_like_any_other(table, tmp_path):
    last = table.assign(region=np.where(table.index % 3 == 0, "aaa", table["region"])).iloc[300:]
    parts = (table.iloc[:300], last)
    pattern = write(tmp_path, *parts)
    found = assert_as_in_memory(pattern, pd.concat(parts), "outcome ~ x1 + region")
    assert ("a", "region[T.north]") in found.params.index


def test_an_alternative_first_met_in_the_last_file_is_one_like_any_other(table, tmp_path):
    parts = (table[table["chosen"] == "b"], table[table["chosen"] == "c"],
             table[table["chosen"] == "a"])  # fmt: skip
    assert_as_in_memory(write(tmp_path, *parts), pd.concat(parts))


def test_categories_keep_their_order(table, tmp_path):
    ordered = table.assign(
        region=pd.Categorical(table["region"], ["south", "nowhere", "north", "east"])
    )
    found = assert_as_in_memory(write(tmp_path, *halves(ordered)), ordered, "outcome ~ x1 + region")
    assert ("a", "region[T.south]") not in found.params.index


def test_files_may_know_different_categories(table, tmp_path):
    many = pd.Categorical(
        table["region"], [*(f"c{i}" for i in range(300)), *"xyz", "north", "south", "east"]
    )
    parts = halves(table)
    first = parts[0].assign(region=parts[0]["region"].astype("category"))
    second = parts[1].assign(region=many[len(parts[0]) :])
    pattern = write(tmp_path, first, second)
    assert_as_in_memory(pattern, table, "outcome ~ x1 + region")


@pytest.mark.parametrize("term", ["C(year)", "C(firm > 30)", "region", "C(region):x1", "urban",
                                  "center(x3)", "scale(x3)", "bs(x3, df=4)", "poly(x3, 2)",
                                  "np.exp(x3)", "hashed(region, levels=3)"])  # fmt: skip
def test_terms_are_coded_as_in_memory(table, tmp_path, term):
    pattern = write(tmp_path, *halves(table))
    try:
        fit(table, f"outcome ~ x1 + {term}")
    except DataError:
        with pytest.raises(DataError):
            fit(pattern, f"outcome ~ x1 + {term}")
        return
    assert_as_in_memory(pattern, table, f"outcome ~ x1 + {term}")


def test_centres_are_those_of_all_rows_not_of_the_sample(table, tmp_path, monkeypatch):
    monkeypatch.setattr(survey, "SAMPLE", 50)
    pattern = write(tmp_path, *halves(table))
    found, wanted = (fit(data, "outcome ~ scale(x1) + bs(x2, df=4)") for data in (pattern, table))
    np.testing.assert_allclose(found.params, wanted.params, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_chosen_may_be_whole_numbers_some_of_them_missing(table, tmp_path, ending):
    coded = table.assign(chosen=table["chosen"].map({"a": 3, "b": 1, "c": 2}).astype("Int64"))
    coded.loc[[5, 300], "chosen"] = pd.NA
    pattern = write(tmp_path, *halves(coded), ending=ending)
    options = {"missing_outcome": "drop"}
    found = assert_as_in_memory(pattern, coded, **options)
    assert list(found.counts.index) == [1, 2, 3] and found.facts.n_without_outcome == 2


def test_numbers_as_categories_are_named_as_in_memory_though_some_are_missing(table, tmp_path):
    lacking = table.assign(year=table["year"].astype(float))
    lacking.loc[350, "year"] = np.nan
    parts = [part.assign(year=part["year"].astype("Int64")) for part in halves(lacking)]
    pattern = write(tmp_path, *parts)
    with pytest.warns(MissingRowsWarning):
        found, wanted = (
            fit(pattern, "outcome ~ x1 + C(year)"),
            fit(lacking, "outcome ~ x1 + C(year)"),
        )
    assert list(found.params.index) == list(wanted.params.index)
    np.testing.assert_allclose(found.params, wanted.params, **SAME)


def test_true_and_false_may_be_missing(table, tmp_path):
    lacking = table.assign(urban=table["urban"].astype(object))
    lacking.loc[350, "urban"] = None
    pattern = write(
        tmp_path,
        *(part.assign(urban=part["urban"].astype("boolean")) for part in halves(lacking)),
    )
    with pytest.warns(MissingRowsWarning):
        found = fit(pattern, "outcome ~ x1 + urban")
    wanted = fit(table.drop(index=350), "outcome ~ x1 + urban")
    np.testing.assert_allclose(found.params, wanted.params, **SAME)


def test_rows_that_lack_a_covariate_are_counted_over_all_files_with_one_warning(table, tmp_path):
    lacking = table.copy()
    lacking.loc[[0, 10, 390], "x1"] = np.nan
    lacking.loc[[10, 391], "x2"] = np.nan
    pattern = write(tmp_path, *halves(lacking))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = fit(pattern)
        found.summary()
    assert [str(one.message) for one in said] == [
        "4 of 400 rows have a missing covariate (x1: 3, x2: 2) and were left out."
    ]
    assert said[0].filename == __file__
    np.testing.assert_allclose(
        found.params, fit(table.drop(index=[0, 10, 390, 391])).params, **SAME
    )
    assert found.facts.n_dropped == 4
    with pytest.raises(DataError, match=r"4 rows have a missing covariate \(x1: 3, x2: 2\)"):
        fit(pattern, missing="raise")


def test_rows_without_an_outcome_are_refused_by_file(table, tmp_path):
    lacking = table.copy()
    lacking.loc[399, "outcome"] = np.nan
    pattern = write(tmp_path, *halves(lacking))
    with pytest.raises(DataError, match=r"part-1\.parquet.*1 rows were chosen but have no outcome"):
        fit(pattern)


def test_the_sample_is_of_all_rows_alike_and_in_their_order():
    frame = pd.DataFrame({"place": np.arange(400)})
    pieces = [Piece(i, "", frame.iloc[37 * i : 37 * (i + 1)]) for i in range(11)]
    drawn = np.zeros(400)
    for seed in range(100):
        parts = [survey.DrawnRows.of(piece, piece.frame, seed, 40) for piece in pieces]
        sample = reduce(add, parts).rows["place"].to_numpy()
        assert len(sample) == 40 and (np.diff(sample) > 0).all()
        shuffled = reduce(add, parts[::-1]).rows["place"].to_numpy()
        np.testing.assert_array_equal(sample, shuffled)
        drawn[sample] += 1
    # Each is drawn ten times on average, with a standard deviation of three.
    assert drawn.min() >= 1 and drawn.max() <= 25


def test_levels_are_joined_piece_by_piece(monkeypatch):
    monkeypatch.setattr(survey, "UNSORTED", 3)
    values = np.random.default_rng(0).integers(50, size=2_000)
    pieces = [survey.Levels.of(pd.Series(part)) for part in np.array_split(values, 100)]
    total = sum(pieces[1:], pieces[0])
    assert sum(map(len, total.parts)) <= 2 * 50 + 3 + 50
    assert set(total.met) == set(values)
    assert set(total.repeated(60)) == set(values)


# types


def test_numbers_of_several_types_are_decimals(table, tmp_path):
    parts = halves(table.assign(x3=np.round(table["x3"] * 3)))
    pattern = write(
        tmp_path,
        parts[0].assign(x3=parts[0]["x3"].astype("int8"), x2=parts[0]["x2"].astype("float32")),
        parts[1].assign(x3=parts[1]["x3"] + 0.25),
    )
    joined = pd.concat([
        parts[0].assign(x2=parts[0]["x2"].astype("float32").astype(float)),
        parts[1].assign(x3=parts[1]["x3"] + 0.25),
    ])  # fmt: skip
    assert_as_in_memory(pattern, joined, "outcome ~ x1 + x2 + x3")


def test_exact_decimals_are_numbers(table, tmp_path):
    rounded = table.assign(x3=table["x3"].round(2))
    exact = pa.Table.from_pandas(rounded)
    place = exact.schema.get_field_index("x3")
    exact = exact.set_column(place, "x3", exact["x3"].cast(pa.decimal128(20, 2)))
    pq.write_table(exact, tmp_path / "exact.parquet")
    assert_as_in_memory(tmp_path / "exact.parquet", rounded, "outcome ~ x1 + x3")


def test_whole_numbers_of_csv_may_turn_into_decimals_later(table, tmp_path):
    mixed = table.assign(x1=np.where(table.index < 390, np.round(table["x1"]), table["x1"]))
    text = mixed.to_csv(index=False).replace(".0,", ",")
    (tmp_path / "rows.csv").write_text(text)
    assert_as_in_memory(tmp_path / "rows.csv", mixed)


def test_a_column_may_be_empty_in_the_first_file(table, tmp_path):
    first, second = halves(table)
    pattern = write(tmp_path, first.assign(region=None), second)
    with pytest.warns(MissingRowsWarning, match="200 of 400"):
        found = fit(pattern, "outcome ~ x1 + region")
    np.testing.assert_allclose(found.params, fit(second, "outcome ~ x1 + region").params, **SAME)


# bad input


def test_files_with_other_columns_or_types_are_named(table, tmp_path):
    pattern = write(tmp_path, table, table.drop(columns="x2"))
    with pytest.raises(DataError, match=r"part-1\.parquet has no column 'x2', which the first"):
        fit(pattern)
    pattern = write(tmp_path, table, table.assign(x2=table["x2"].astype(str)))
    with pytest.raises(DataError, match=r"'x2' holds text in .*part-1\.parquet but number in"):
        fit(pattern)


def test_a_column_that_is_nowhere_is_named_with_the_nearest(table, tmp_path):
    with pytest.raises(DataError, match=r"no column 'x9' in 2 files.*Did you mean 'x3'|'x1'"):
        fit(write(tmp_path, *halves(table)), "outcome ~ x1 + x9")


def test_files_without_rows_do_no_harm_unless_all_are(table, tmp_path):
    assert_as_in_memory(write(tmp_path, table.iloc[:0], table, table.iloc[:0]), table)
    for path in tmp_path.glob("*"):
        path.unlink()
    with pytest.raises(DataError, match="no rows in"):
        fit(write(tmp_path, table.iloc[:0], table.iloc[:0]))


@pytest.mark.parametrize("ending", ["parquet", "feather", "csv"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_file_of_no_bytes_is_named(table, tmp_path, ending, place):
    pattern = write(tmp_path, *halves(table), ending=ending)
    (tmp_path / f"part-{place}.{ending}").write_bytes(b"")
    with pytest.raises(DataError, match=rf"part-{place}\.{ending} cannot be read"):
        fit(pattern)


@pytest.mark.parametrize("place", [0, 1])
def test_a_truncated_file_is_named_before_any_row_is_read(table, tmp_path, place):
    pattern = write(tmp_path, *halves(table))
    path = tmp_path / f"part-{place}.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=rf"part-{place}\.parquet cannot be read"):
        open_files(pattern)


def test_a_file_corrupt_in_the_middle_is_named_in_the_first_pass(table, tmp_path):
    pattern = write(tmp_path, *halves(table))
    path = tmp_path / "part-1.parquet"
    content = bytearray(path.read_bytes())
    content[4:2_000] = b"\xff" * 1_996
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"part-1\.parquet cannot be read"):
        fit(pattern)


def test_text_among_the_numbers_of_csv_is_named(table, tmp_path):
    pattern = write(tmp_path, *halves(table), ending="csv")
    path = tmp_path / "part-1.csv"
    lines = path.read_text().splitlines()
    lines[50] = lines[50].replace(lines[50].split(",")[0], "oops", 1)
    path.write_text("\n".join(lines))
    with pytest.raises(DataError, match=r"part-1\.csv cannot be read.*oops"):
        fit(pattern)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("nowhere/*.parquet", "There is no file nowhere"),
        ("rows.sas7bdat", "There is no file rows.sas7bdat"),
        (["a.parquet", "b.parquet"], "There is no file a.parquet"),
    ],
)
def test_what_is_not_there_is_named(data, words):
    with pytest.raises(DataError, match=words):
        fit(data)


def test_formats_are_known_and_one(table, tmp_path):
    write(tmp_path, table)
    write(tmp_path, table, ending="csv")
    with pytest.raises(DataError, match=r"different formats \(csv, parquet\)"):
        fit(tmp_path)
    (tmp_path / "rows.dta").write_text("")
    with pytest.raises(DataError, match=r"rows\.dta is of no known format\. Files end in \.parq"):
        fit(tmp_path / "rows.dta")
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match=r"The folder .*none has no \.parquet or"):
        fit(tmp_path / "none")
    path = tmp_path / "part-0.parquet"
    with pytest.raises(DataError, match="given twice"):
        fit([path, path])


@pytest.mark.parametrize("batch_rows", [0, -1, 2.5, True, "many"])
def test_a_batch_has_a_whole_number_of_rows(batch_rows):
    with pytest.raises(OptionError, match="batch_rows="):
        fit("rows.parquet", engine=ss.engines.Parquet(batch_rows))


def test_a_table_is_not_for_the_engine_of_files(table):
    with pytest.raises(DataError, match=r"A DataFrame is no file.*engines\.Memory"):
        fit(table, engine=ss.engines.Parquet())


def test_an_alternative_that_is_nowhere_is_an_error(table, tmp_path):
    pattern = write(tmp_path, *halves(table))
    formulas = dict.fromkeys(["a", "b", "c", "d"], FORMULA)
    with pytest.raises(DataError, match="'d' never occurs in 'chosen'"):
        fit(pattern, formulas)


def test_what_looks_at_other_rows_is_refused(table, tmp_path):
    pattern = write(tmp_path, *halves(table))
    for data in (pattern, table):
        with pytest.raises(FormulaError, match=r"'lag\(x2\)', which looks at other rows"):
            fit(data, "outcome ~ x1 + lag(x2)")
    with pytest.raises(UnsupportedError, match=r"depends on all rows at once through scale\(\)"):
        fit(pattern, "scale(outcome) ~ x1")
    with pytest.raises(UnsupportedError, match=r"Long data \(case='firm'\) is not read piece"):
        fit(pattern, case="firm", alternatives="region")


@pytest.mark.parametrize("option", ["weights", "cluster"])
def test_values_beside_the_files_are_refused(table, tmp_path, option):
    pattern = write(tmp_path, *halves(table))
    for values in (table["w"], np.ones(400), [1.0] * 400):
        with pytest.raises(OptionError, match=f"`{option}` must be a column of 2 files"):
            fit(pattern, **{option: values})


def test_too_many_categories_are_taken_for_a_mistake(table, tmp_path, monkeypatch):
    monkeypatch.setattr(survey, "MOST_LEVELS", 50)
    named = table.assign(name=[f"person {i}" for i in range(400)])
    with pytest.raises(DataError, match="'name' has 400 categories"):
        fit(write(tmp_path, *halves(named)), "outcome ~ x1 + name")


def test_errors_in_later_pieces_say_where(table, tmp_path):
    bad = table.copy()
    bad.loc[390, "x1"] = np.inf
    with pytest.raises(
        DataError, match=r"part-1\.parquet, rows from 150: The covariate 'x1' is inf"
    ):
        fit(write(tmp_path, *halves(bad)), engine=ss.engines.Parquet(50))


def test_files_that_change_after_the_first_pass_are_named(table, tmp_path):
    pattern = write(tmp_path, *halves(table))
    found = fit(pattern)
    table.iloc[:350].to_parquet(tmp_path / "part-1.parquet")
    with pytest.raises(DataError, match=r"part-1\.parquet has changed since it was first read"):
        _ = found.naive
    (tmp_path / "part-0.parquet").unlink()
    with pytest.raises(DataError, match=r"part-0\.parquet has changed"):
        _ = found.naive


# threads


def test_few_pieces_are_in_memory_at_a_time(table, tmp_path):
    source = open_files(write(tmp_path, table), batch_rows=4)
    alive, most, lock = [0], [0], threading.Lock()
    batches = source.batches

    def counted(columns):
        for one in batches(columns):
            with lock:
                alive[0] += 1
                most[0] = max(most[0], alive[0])
            yield one

    object.__setattr__(source, "batches", counted)
    for _ in source.map(lambda piece: len(piece.frame), ["x1"], n_threads=2):
        with lock:
            alive[0] -= 1
    assert most[0] <= 8 and alive[0] == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ZeroDivisionError])
def test_an_interrupt_leaves_no_thread_behind(table, tmp_path, error):
    source = open_files(write(tmp_path, table), batch_rows=4)
    before, begun = threading.active_count(), []

    def task(piece):
        begun.append(piece.number)
        if piece.number == 5:
            raise error

    with pytest.raises(error):
        list(source.map(task, ["x1"], n_threads=2))
    assert threading.active_count() == before
    assert len(begun) < 20


# without pyarrow

WITHOUT = """
import sys
sys.modules["pyarrow"] = None
import selfselect as ss
memory = {"chosen": "chosen", "engine": ss.engines.Memory()}
found = ss.fit(sys.argv[2], sys.argv[1] + "/*.csv", **memory)
found.save("fit.json")
plain = ss.fit("outcome ~ x1", sys.argv[1] + "/part-0.csv", **memory)
plain.predict(sys.argv[1] + "/part-1.csv").to_csv("predicted.txt")
for data, options in (("part-0.csv", {"chosen": "chosen"}), ("rows.parquet", memory)):
    try:
        ss.fit(sys.argv[2], f"{sys.argv[1]}/{data}", **options)
    except ss.errors.MissingDependencyError as error:
        print(error)
"""


def test_csv_files_are_read_at_once_without_pyarrow(world, tmp_path, monkeypatch):
    table = world().data.assign(area=lambda rows: np.where(rows.x1 > 0, "01", "1"))
    files, formula = write(tmp_path, *halves(table), ending="csv"), f"{FORMULA} + C(area)"
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    monkeypatch.chdir(tmp_path)
    script = [sys.executable, "-c", WITHOUT, str(tmp_path), formula]
    said = subprocess.run(script, check=True, capture_output=True, text=True).stdout.splitlines()
    assert len(said) == 2
    assert all("pip install 'selfselect[parquet]'" in line for line in said)
    assert all("engine=selfselect.engines.Memory()" in line for line in said)
    found, wanted = ss.load("fit.json"), fit(files, formula, engine=ss.engines.Memory())
    assert list(found.params.index) == list(wanted.params.index)
    np.testing.assert_allclose(found.params, wanted.params, **SAME)
    first, second = halves(table)
    predicted = pd.read_csv("predicted.txt", index_col=0)
    np.testing.assert_allclose(predicted, fit(first, "outcome ~ x1").predict(second), **SAME)


def test_csv_files_that_differ_are_refused_where_they_are_read_at_once(world, tmp_path):
    first, second = halves(world().data)

    def read(*parts: pd.DataFrame) -> pd.DataFrame:
        write(tmp_path, *parts, ending="csv")
        paths = tuple(f"{tmp_path}/part-{i}.csv" for i in range(2))
        return TextFiles(paths).table(["x1", "x2"])

    np.testing.assert_allclose(read(first, second), world().data[["x1", "x2"]])
    with pytest.raises(DataError, match=r"part-1.csv has no column 'x2'"):
        read(first, second.drop(columns="x2"))
    with pytest.raises(DataError, match=r"'x2' holds text in .*part-1.csv but number in the first"):
        read(first, second.assign(x2="tall"))
    (tmp_path / "part-1.csv").write_bytes("x1,größe\n1,2\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"part-1.csv is not in UTF-8"):
        TextFiles((f"{tmp_path}/part-1.csv",)).table(["x1"])


def test_a_file_of_semicolons_is_refused_with_what_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "euro.csv"
    file.write_text("y;x;c\n1,5;2,5;a\n2,5;1,5;b\n", encoding="utf-8-sig")
    with pytest.raises(DataError, match=r"semicolons.*read_csv\(.*euro.csv', sep=';', decimal"):
        ss.fit("y ~ x", str(file), chosen="c")
