"""Files that change, that are encoded otherwise, or whose labels look like numbers."""

from __future__ import annotations

import os
import time

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.cli.main import main
from selfselect.data.files import open_files, read_fragment
from selfselect.errors import DataError, OptionError

FORMULA = "income ~ height + weight"
LABELS = {"hunting": "pêche", "fishing": "chasse à l'arc"}


@pytest.fixture(scope="module")
def villagers():
    return ss.simulators.village(600, seed=5).data


def run(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    out, err = capsys.readouterr()
    return ended.value.code, out, err


# files that change


def later(path):
    """Give a file another time of change, as a write in a later moment would."""
    now = time.time() + 5
    os.utime(path, (now, now))


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def changing(monkeypatch, villagers, tmp_path):
    """Write a file that becomes another one after the first pass over it."""
    path = tmp_path / "rows.parquet"
    villagers.to_parquet(path)
    from selfselect.data import stream

    whole = stream._survey

    def surveyed(*arguments, **options):
        found = whole(*arguments, **options)
        villagers.assign(income=villagers["income"] * 2.0).to_parquet(path)
        later(path)
        return found

    monkeypatch.setattr(stream, "_survey", surveyed)
    return path


def test_files_on_a_cluster_that_change_after_the_first_pass_are_refused(client, changing):
    with pytest.raises(DataError, match=r"rows\.parquet has changed since it was first read"):
        ss.fit(FORMULA, str(changing), chosen="job", engine=ss.engines.Dask(client))


def test_files_read_piece_by_piece_that_change_are_refused(changing):
    with pytest.raises(DataError, match=r"rows\.parquet has changed since it was first read"):
        ss.fit(FORMULA, str(changing), chosen="job")


def test_a_partition_that_is_read_again_is_refused_where_its_file_changed(villagers, tmp_path):
    """A worker that was lost is made up for by another, which reads the same part once more."""
    path = tmp_path / "rows.parquet"
    villagers.to_parquet(path)
    files = open_files(str(path))
    _, fragment = next(files.fragments())
    asked = (fragment, files.dataset.schema, ["income"], files.text, files.states)
    assert len(read_fragment(*asked)) == len(villagers)
    later(path)
    with pytest.raises(DataError, match="has changed"):
        read_fragment(*asked)


def test_a_file_that_changes_between_opening_and_the_first_pass_is_refused(villagers, tmp_path):
    for name, write in (("a.csv", villagers.to_csv), ("a.parquet", villagers.to_parquet)):
        path = tmp_path / name
        write(path)
        files = open_files(str(path))
        later(path)
        with pytest.raises(DataError, match="has changed"):
            files.table(["income"])
        with pytest.raises(DataError, match="has changed"):
            list(files.map(lambda piece: piece.number, ["income"], n_threads=1))


def test_a_file_that_changes_while_it_is_read_is_refused(villagers, tmp_path):
    path = tmp_path / "rows.parquet"
    villagers.to_parquet(path, row_group_size=100)
    batches = open_files(str(path), batch_rows=100).batches(["income"])
    next(batches)
    later(path)
    with pytest.raises(DataError, match="has changed"):
        list(batches)


# encodings


@pytest.fixture
def latin(villagers, tmp_path):
    """Write a table that is not in UTF-8."""
    path = tmp_path / "rows.csv"
    villagers.assign(job=villagers["job"].map(LABELS)).to_csv(path, index=False, encoding="cp1252")
    return path


def test_a_csv_that_is_not_in_utf8_is_refused_and_read_with_its_encoding(latin, villagers):
    with pytest.raises(DataError, match=r"not in UTF-8: the column 'job'.*encoding='cp1252'"):
        ss.fit(FORMULA, str(latin), chosen="job")
    engine = ss.engines.Parquet(encoding="cp1252")
    result = ss.fit(FORMULA, str(latin), chosen="job", engine=engine)
    assert set(result.problem.equations.alternatives) == set(LABELS.values())
    plain = ss.fit(FORMULA, villagers.assign(job=villagers["job"].map(LABELS)), chosen="job")
    np.testing.assert_allclose(result.params, plain.params, rtol=1e-6)


def test_a_cluster_reads_with_the_encoding_too(latin, client):
    engine = ss.engines.Dask(client, encoding="latin-1")
    result = ss.fit(FORMULA, str(latin), chosen="job", engine=engine)
    assert set(result.problem.equations.alternatives) == set(LABELS.values())


def test_a_header_or_a_late_row_that_is_not_in_utf8_is_said(tmp_path):
    head, late = tmp_path / "head.csv", tmp_path / "late.csv"
    head.write_bytes("h\u00f6he,y\n1,2\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"not in UTF-8.*encoding="):
        open_files(str(head))
    assert open_files(str(head), encoding="latin-1").names == ["höhe", "y"]
    late.write_bytes(b"x,l\n" + b"1,abc\n" * 400_000 + b"2,p\xeache\n")
    with pytest.raises(DataError, match=r"not encoded as it is read.*encoding="):
        open_files(str(late)).table(["l"])


def test_an_encoding_that_is_none_or_has_no_place_is_refused(latin, villagers, tmp_path):
    with pytest.raises(OptionError, match="'klingon' is not known"):
        open_files(str(latin), encoding="klingon")
    villagers.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(OptionError, match="is for CSV files"):
        open_files(str(tmp_path / "rows.parquet"), encoding="latin-1")


def test_the_shell_says_and_takes_encodings(latin, tmp_path, capsys):
    saved, out = tmp_path / "fit.json", tmp_path / "out"
    fitted = ["fit", latin, FORMULA, "--chosen", "job", "--format", "csv"]
    code, _, err = run(capsys, *fitted)
    assert code == 2 and "--encoding cp1252" in err and "internal" not in err
    code, text, _ = run(capsys, *fitted, "--encoding", "cp1252", "--save", saved)
    assert code == 0 and "pêche" in text
    code, pieces, _ = run(capsys, *fitted, "--encoding", "cp1252", "--engine", "parquet")
    assert code == 0 and "pêche" in pieces
    pattern = ["fit", latin.with_name("*.csv"), *fitted[2:], "--encoding", "cp1252"]
    for engine in ([], ["--engine", "memory"]):
        code, pieces, _ = run(capsys, *pattern, *engine)
        assert code == 0 and "pêche" in pieces
    code, text, _ = run(capsys, "predict", saved, latin, "--encoding", "cp1252", "--keep", "job")
    assert code == 0 and "pêche" in text
    code, _, err = run(capsys, "predict", saved, latin, "--keep", "job")
    assert code == 2 and "--encoding" in err
    code, _, _ = run(
        capsys, "predict", saved, latin, "--encoding", "cp1252", "--keep", "job", "--out", f"{out}/"
    )
    assert code == 0
    assert set(pd.read_parquet(out / "rows.parquet")["job"]) == set(LABELS.values())
    code, _, err = run(capsys, *fitted, "--encoding", "klingon")
    assert code == 2 and "'klingon' is not known" in err
    code, _, err = run(capsys, "effects", saved, latin)
    assert code == 2 and "--encoding" in err
    assert run(capsys, "effects", saved, latin, "--encoding", "cp1252")[0] == 0


# labels of digits


@pytest.fixture
def numbered(villagers, tmp_path):
    """Write a table whose labels are 01 and 1, and another whose labels are 1 and 2."""
    paths = {}
    for name, labels in {"zeros": ("01", "1"), "plain": ("2", "1")}.items():
        table = villagers.assign(job=np.where(villagers["job"] == "hunting", *labels))
        table["town"] = np.array(["007", "7", "12"])[table.index % 3]
        table["size"] = "0" + (table["height"] * 10).astype(int).astype(str)
        paths[name] = tmp_path / f"{name}.csv"
        table.to_csv(paths[name], index=False)
    return paths


@pytest.mark.parametrize("engine", [None, ss.engines.Memory()])
def test_labels_with_a_leading_zero_stay_two_labels_in_files(engine, numbered):
    result = ss.fit(FORMULA, str(numbered["zeros"]), chosen="job", engine=engine)
    assert result.problem.equations.alternatives == ("01", "1")
    result = ss.fit(FORMULA, str(numbered["plain"]), chosen="job", engine=engine)
    assert result.problem.equations.alternatives == (1, 2)


def test_categories_with_a_leading_zero_stay_apart_and_numbers_stay_numbers(numbered):
    result = ss.fit("income ~ C(town) + size", str(numbered["zeros"]), chosen="job")
    assert list(result.problem.equations.covariates) == [
        "C(town)[T.12]", "C(town)[T.7]", "size",
    ]  # fmt: skip


def test_the_shell_keeps_labels_with_a_leading_zero_apart(numbered, tmp_path, capsys):
    saved, path = tmp_path / "fit.json", numbered["zeros"]
    formula = "income ~ C(town) + size"
    words = ["fit", path, formula, "--chosen", "job", "--format", "csv", "--save", saved]
    code, text, _ = run(capsys, *words)
    assert code == 0
    lines = text.splitlines()[1:]
    assert {line.split(",")[0] for line in lines} == {"01", "1"}
    assert sum("size" in line for line in lines) == 2
    code, text, err = run(capsys, "predict", saved, path)
    assert code == 0, err
    assert text.splitlines()[0] == "01,1"
    code, _, err = run(capsys, "predict", saved, path, "--out", f"{tmp_path / 'out'}/")
    assert code == 0, err
    code, text, _ = run(
        capsys, "switching", path, "job ~ weight", "income ~ height", "--format", "csv"
    )
    assert code in (0, 3)
    assert {line.split(",")[0] for line in text.splitlines()[1:]} >= {"01", "1"}


# folders that name a column


def foldered(table, root, labels, ending, *, kept=False):
    """Write the rows of each job into a folder of its own; files keep the column if `kept`."""
    for label, job in zip(labels, ("fishing", "hunting"), strict=True):
        folder = root / f"job={label}"
        folder.mkdir(parents=True)
        rows = table[table["job"] == job]
        rows = rows if kept else rows.drop(columns="job")
        if ending == "csv":
            rows.to_csv(folder / "rows.csv", index=False)
        else:
            rows.to_parquet(folder / "rows.parquet", index=False)
    return root


@pytest.mark.parametrize("engine", [None, ss.engines.Memory()])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        (("01", "1"), ("01", "1")),
        (("01", "02"), ("01", "02")),
        (("1", "2"), (1, 2)),
        (("-1", "0"), (-1, 0)),
        (("1", "1.0"), ("1", "1.0")),
        (("1", "a"), ("1", "a")),
        (("a%2Fb", "c"), ("a/b", "c")),
        ((str(2**60), str(2**60 + 1)), (str(2**60), str(2**60 + 1))),
    ],
)
def test_labels_of_folders_stay_as_many_as_they_are(
    villagers, tmp_path, engine, ending, labels, wanted
):
    found = ss.fit(
        FORMULA, foldered(villagers, tmp_path / "rows", labels, ending), chosen="job", engine=engine
    )
    assert found.problem.equations.alternatives == wanted
    np.testing.assert_allclose(
        found.values, ss.fit(FORMULA, villagers, chosen="job").values, rtol=1e-6
    )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_column_that_files_have_themselves_is_not_read_from_folders(villagers, tmp_path, ending):
    root = foldered(villagers, tmp_path / "rows", ("x", "y"), ending, kept=True)
    found = ss.fit(FORMULA, root, chosen="job")
    assert found.problem.equations.alternatives == ("fishing", "hunting")


def test_an_empty_name_is_not_the_folder_one_is_in(villagers, tmp_path, monkeypatch):
    villagers.to_csv(tmp_path / "rows.csv", index=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="name of the file is empty"):
        ss.fit(FORMULA, "", chosen="job")
