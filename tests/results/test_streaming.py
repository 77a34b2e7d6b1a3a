"""Predictions for files: the same as in memory, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import selfselect as ss
from selfselect.errors import DataError, MissingRowsWarning, OptionError, UnsupportedError
from selfselect.results import streaming

KINDS = ["latent", "chance", "outcome", "given_seen"]


@pytest.fixture(scope="module")
def village():
    table = ss.simulators.village(300, seed=3).data
    big = np.arange(300) + 2**60
    return table.assign(id=pd.array([*big[:-1], None], dtype="Int64"), name=big.astype(str))


@pytest.fixture(scope="module")
def fitted(village):
    return ss.fit("income ~ height + weight", village, chosen="job")


@pytest.fixture(scope="module")
def mixed(village):
    return ss.fit("income ~ height + weight", village, alternatives=2, seed=1)


@pytest.fixture
def rows(village, tmp_path):
    """Return a folder of two files with rows and one without."""
    folder = tmp_path / "rows"
    folder.mkdir()
    for i, part in enumerate((village.iloc[:110], village.iloc[:0], village.iloc[110:])):
        part.to_parquet(folder / f"part-{i}.parquet", index=False)
    return folder


def read(files: list[Path]) -> pd.DataFrame:
    return pd.concat([pd.read_parquet(path) for path in files], ignore_index=True)


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_those_of_memory_in_the_order_of_the_rows(
    fitted, village, rows, tmp_path, kind
):
    files = fitted.write_predictions(tmp_path / "out", f"{rows}/*.parquet", kind)
    assert [path.name for path in files] == [f"part-{i}.parquet" for i in range(3)]
    assert files == sorted((tmp_path / "out").iterdir())
    assert [len(pd.read_parquet(path)) for path in files] == [110, 0, 190]
    wanted = streaming.flat_columns(fitted.predict(village, kind=kind))
    pd.testing.assert_frame_equal(read(files), wanted.reset_index(drop=True), rtol=1e-12)


def test_the_batches_do_not_matter(fitted, village, rows, tmp_path):
    source = ss.engines.Parquet(7).open(rows)
    files = fitted.write_predictions(tmp_path / "out", source, "chance")
    np.testing.assert_allclose(read(files), fitted.predict(village, kind="chance"), rtol=1e-12)


def test_responsibilities_are_those_of_memory(mixed, village, rows, tmp_path):
    files = mixed.write_responsibilities(tmp_path / "out", rows, keep=["id"])
    found = read(files)
    assert list(found.columns) == ["id", "1", "2"]
    wanted = mixed.responsibilities(village)
    np.testing.assert_allclose(found[["1", "2"]], wanted, atol=1e-12)


def test_columns_that_are_kept_are_copied_to_the_last_digit(fitted, rows, tmp_path):
    files = fitted.write_predictions(tmp_path / "out", rows, keep=["name", "id"])
    made = pq.read_table(files[2])
    read_from = pq.read_table(rows / "part-2.parquet")
    assert made.column_names[:2] == ["name", "id"]
    assert made["id"].equals(read_from["id"]) and made["id"].null_count == 1
    assert made["name"].equals(read_from["name"])
    with pytest.raises(DataError, match=r"no column 'idd' in 3 files.*Did you mean 'id'"):
        fitted.write_predictions(tmp_path / "new", rows, keep="idd")
    with pytest.raises(OptionError, match="have a column 'income', so it cannot be kept"):
        fitted.write_predictions(tmp_path / "new", rows, "outcome", keep="income")
    assert not (tmp_path / "new").exists()


def test_a_fit_of_files_predicts_for_them_unless_told_otherwise(fitted, village, rows, tmp_path):
    streamed = ss.fit("income ~ height + weight", rows, chosen="job")
    found = read(streamed.write_predictions(tmp_path / "out"))
    np.testing.assert_allclose(found, fitted.predict(village), rtol=1e-8)
    with pytest.raises(UnsupportedError, match="in no files"):
        fitted.write_predictions(tmp_path / "new")


def test_files_without_an_out_are_predicted_in_memory(fitted, village, rows):
    np.testing.assert_allclose(fitted.predict(rows), fitted.predict(village), rtol=1e-12)


def test_folders_inside_are_kept(fitted, village, tmp_path):
    table = pa.Table.from_pandas(village.assign(half=[1, 2] * 150))
    pq.write_to_dataset(table, tmp_path / "rows", partition_cols=["half"])
    files = fitted.write_predictions(tmp_path / "out", tmp_path / "rows", keep=["half", "name"])
    assert {path.parent.name for path in files} == {"half=1", "half=2"}
    found = pa.dataset.dataset(tmp_path / "out").to_table().to_pandas()
    assert len(found) == 300


def test_rows_that_lack_a_covariate_have_no_predictions_and_are_counted_once(
    fitted, village, tmp_path
):
    lacking = village.copy()
    lacking.loc[[3, 200], "height"] = np.nan
    lacking.iloc[:150].to_csv(tmp_path / "a.csv", index=False)
    lacking.iloc[150:].to_csv(tmp_path / "b.csv", index=False)
    with pytest.warns(MissingRowsWarning, match="2 of 300 rows") as said:
        files = fitted.write_predictions(tmp_path / "out", [tmp_path / "a.csv", tmp_path / "b.csv"])
    assert len(said) == 1 and said[0].filename == __file__
    assert [path.name for path in files] == ["a.parquet", "b.parquet"]
    assert np.flatnonzero(read(files).isna().all(axis=1)).tolist() == [3, 200]


def test_nothing_is_overwritten_unless_asked(fitted, rows, tmp_path):
    out = tmp_path / "out"
    fitted.write_predictions(out, rows)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match=r"out is not empty\. Give another one, or allow"):
        fitted.write_predictions(out, rows, "chance")
    assert "chance" not in str(list(out.iterdir()))
    fitted.write_predictions(out, rows, "outcome", overwrite=True)
    assert list(pd.read_parquet(out / "part-0.parquet").columns) == ["income"]
    assert (out / "notes.txt").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    assert len(fitted.write_predictions(tmp_path / "empty", rows)) == 3
    with pytest.raises(DataError, match="is a file"):
        fitted.write_predictions(out / "notes.txt", rows)


@pytest.mark.parametrize(
    ("error", "raised"),
    [(KeyboardInterrupt(), KeyboardInterrupt), (OSError(28, "No space left on device"), DataError)],
)
def test_nothing_is_left_of_an_interrupt_or_a_full_disk(
    fitted, rows, tmp_path, monkeypatch, error, raised
):
    written = streaming._Writer.write

    def fail(self, name, table):
        if name.endswith("part-2.parquet"):
            raise error
        written(self, name, table)

    monkeypatch.setattr(streaming._Writer, "write", fail)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(
        raised, match="Nothing was written to .*No space left" if raised is DataError else None
    ):
        fitted.write_predictions(tmp_path / "out", rows)
    assert sorted(os.listdir(tmp_path)) == before


def test_a_file_that_cannot_be_read_is_named_and_nothing_is_left(fitted, rows, tmp_path):
    path = rows / "part-2.parquet"
    content = bytearray(path.read_bytes())
    content[4:3_000] = b"\xff" * 2_996
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"part-2\.parquet cannot be read"):
        fitted.write_predictions(tmp_path / "out", rows)
    assert not (tmp_path / "out").exists()


def test_a_category_that_the_fit_did_not_meet_is_named_with_its_file(village, tmp_path):
    coded = village.assign(side=["left", "right", "middle"] * 100)
    found = ss.fit("income ~ height + side", coded, chosen="job")
    new = coded.copy()
    new.loc[299, "side"] = "nowhere"
    new.to_parquet(tmp_path / "new.parquet")
    with pytest.raises(DataError, match=r"new\.parquet: The column 'side' has 'nowhere', not met"):
        found.write_predictions(tmp_path / "out", tmp_path / "new.parquet")


def test_what_cannot_be_written_is_said_at_once(fitted, mixed, village, rows, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(OptionError, match="no prediction 'mean'"):
        fitted.write_predictions(out, rows, "mean")
    with pytest.raises(OptionError, match="the choice was recorded"):
        fitted.write_responsibilities(out, rows)
    with pytest.raises(DataError, match=r"A DataFrame is no file.*predict\(\)"):
        fitted.write_predictions(out, village)
    village.drop(columns="income").to_parquet(tmp_path / "without.parquet")
    with pytest.raises(DataError, match="no column 'income'"):
        mixed.write_responsibilities(out, tmp_path / "without.parquet")
    with pytest.raises(DataError, match="no rows"):
        fitted.write_predictions(out, rows / "part-1.parquet")
    assert not out.exists()
