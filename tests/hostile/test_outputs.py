"""Outputs under attack and on full disks: whole or not at all, and never through a link."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.cli._tables import for_spreadsheets, write_table
from selfselect.cli.main import _say, main
from selfselect.errors import ArchiveError, DataError, ReportError
from selfselect.results.streaming import whole_file, whole_folder, write_whole

FORMULA = "income ~ height + weight"


@pytest.fixture(scope="module")
def villagers():
    return ss.simulators.village(400, seed=5).data


@pytest.fixture(scope="module")
def fit(villagers):
    return ss.fit(FORMULA, villagers, chosen="job")


def run(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    out, err = capsys.readouterr()
    return ended.value.code, out, err


class FullDisk(io.FileIO):
    """A file on a disk that has room for 100 bytes."""

    room = 100

    def write(self, data):
        if self.room < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= len(data)
        return super().write(data)


@pytest.fixture
def full_disk(monkeypatch):
    """Let every file that is written whole run out of room."""
    from selfselect.results import streaming

    def opened(number, mode, closefd):
        return io.BufferedWriter(FullDisk(number, mode, closefd=closefd))

    monkeypatch.setattr(streaming, "open", opened, raising=False)


# several writers


def test_many_threads_save_to_one_file_and_it_is_always_whole(fit, tmp_path):
    target, errors = tmp_path / "fit.json", []

    def save_often():
        try:
            for _ in range(15):
                fit.save(target)
                ss.load(target)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=save_often) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert list(tmp_path.iterdir()) == [target]
    assert ss.load(target).params.tolist() == fit.params.tolist()


def test_many_processes_write_one_file_and_it_is_always_whole(tmp_path):
    code = (
        "import sys\nfrom selfselect.results.streaming import write_whole\n"
        "for i in range(60):\n    write_whole(sys.argv[1], sys.argv[2] * 50_000)\n"
    )
    target = tmp_path / "file"
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(target), letter]) for letter in "abcd"
    ]
    assert [process.wait() for process in running] == [0, 0, 0, 0]
    text = target.read_text()
    assert len(text) == 50_000 and len(set(text)) == 1
    assert list(tmp_path.iterdir()) == [target]


# names that are prepared by others


def test_nothing_is_written_through_a_symbolic_link(fit, villagers, tmp_path, capsys):
    precious, link = tmp_path / "precious", tmp_path / "link.json"
    precious.write_text("precious")
    link.symlink_to(precious)
    with pytest.raises(ArchiveError, match="symbolic link"):
        fit.save(link)
    with pytest.raises(ReportError, match="symbolic link"):
        fit.report(link)
    with pytest.raises(DataError, match="symbolic link"):
        write_table(villagers, str(link), index=False)
    with pytest.raises(ArchiveError, match="symbolic link"):
        ss.fit(FORMULA, villagers, chosen="job", checkpoint=link)
    code, _, err = run(capsys, "simulate", "village", "--out", link)
    assert code == 2 and "symbolic link" in err
    assert precious.read_text() == "precious" and link.is_symlink()


def test_a_link_to_nowhere_is_refused_too(fit, tmp_path):
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArchiveError, match="symbolic link"):
        fit.save(link)
    assert sorted(tmp_path.iterdir()) == [link]


def test_a_link_put_in_place_while_we_write_is_not_followed(tmp_path):
    target, precious = tmp_path / "file", tmp_path / "precious"
    precious.write_text("precious")

    def write():
        with whole_file(target) as file:
            file.write(b"new")
            target.symlink_to(precious)

    with pytest.raises(OSError, match="symbolic link"):
        write()
    assert precious.read_text() == "precious"
    assert sorted(tmp_path.iterdir()) == [target, precious]


def test_devices_and_pipes_are_not_replaced(fit, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for target in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(ArchiveError, match="no regular file"):
            fit.save(target)
        with pytest.raises(ArchiveError, match="no regular file"):
            ss.fit(FORMULA, ss.simulators.village(200).data, chosen="job", checkpoint=target)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_names_of_unfinished_files_cannot_be_guessed(tmp_path, monkeypatch):
    opened = []
    whole = os.open

    def spy(path, flags, *rest, **more):
        opened.append((str(path), flags))
        return whole(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", spy)
    for _ in range(2):
        write_whole(tmp_path / "file", "text")
    names = [name for name, flags in opened if flags & os.O_CREAT]
    assert len(set(names)) == 2
    assert all(flags & os.O_EXCL and flags & os.O_NOFOLLOW for name, flags in opened
               if flags & os.O_CREAT)  # fmt: skip
    assert all(len(Path(name).name) > 30 and "file" not in Path(name).name for name in names)


def test_permissions_are_those_of_the_umask_or_of_the_file_before(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "new", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o600)
    write_whole(tmp_path / "new", "other")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


def test_a_folder_of_outputs_follows_no_link_inside(tmp_path):
    out, precious = tmp_path / "out", tmp_path / "precious"
    out.mkdir()
    precious.write_text("precious")
    (out / "a").symlink_to(precious)

    def write():
        with whole_folder(out, overwrite=True) as folder:
            (folder / "a").write_text("new")
            (folder / "b").write_text("new")

    with pytest.raises(OSError, match="symbolic link"):
        write()
    assert precious.read_text() == "precious"
    assert [path.name for path in out.iterdir()] == ["a"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "precious"]


# full disks


@pytest.fixture
def saved(fit, tmp_path):
    """Return a fit that was saved while there was room."""
    fit.save(tmp_path / "fit.json")
    return tmp_path / "fit.json"


@pytest.mark.usefixtures("saved", "full_disk")
def test_a_full_disk_leaves_every_old_output_as_it_was(fit, saved, villagers, tmp_path, capsys):
    table = tmp_path / "rows.parquet"
    villagers.to_parquet(table)
    for name, words in {
        "predictions.csv": ["predict", saved, table, "--out"],
        "predictions.parquet": ["predict", saved, table, "--out"],
        "predictions.csv.gz": ["predict", saved, table, "--kind", "chance", "--out"],
        "effects.csv": ["effects", saved, table, "--out"],
        "rows.csv": ["simulate", "village", "--out"],
        "report.html": ["show", saved, "--report"],
        "saved.json": ["fit", table, FORMULA, "--chosen", "job", "--save"],
    }.items():
        target = tmp_path / name
        target.write_text("old")
        code, _, err = run(capsys, *words, target)
        assert code == 2, (name, err)
        assert "No space left on device" in err and "internal" not in err, name
        assert target.read_text() == "old", name
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    with pytest.raises(ArchiveError, match="No space left"):
        fit.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == "old"


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_under_the_demo_is_one_error(tmp_path, capsys):
    code, _, err = run(capsys, "demo", "--rows", 100, "--folder", tmp_path / "demo")
    assert code == 2 and "No space left" in err
    assert list((tmp_path / "demo").iterdir()) == []


def test_outputs_still_come_out_as_they_were_asked_for(villagers, tmp_path):
    for name, read in {
        "a.csv": pd.read_csv,
        "a.csv.gz": pd.read_csv,
        "a.csv.xz": pd.read_csv,
        "a.parquet": pd.read_parquet,
    }.items():
        write_table(villagers, str(tmp_path / name), index=False)
        pd.testing.assert_frame_equal(read(tmp_path / name), villagers)


# checkpoints


def test_a_checkpoint_that_holds_something_else_is_refused_and_kept(villagers, tmp_path):
    path = tmp_path / "fit.ckpt"
    for content in [
        b'{"format": "geojson", "features": []}',
        b'{"format": 2, "about": {"a": "b"}}',
        b"\0" * 64,
        b'{"format": 1, "about": {}}\n',
        b'{"format": 2, "about": []}\nx\n',
        b"[1]\n[2]\n",
        b"\xff\xfe\n",
    ]:
        path.write_bytes(content)
        with pytest.raises(ArchiveError):
            ss.fit(FORMULA, villagers, chosen="job", checkpoint=path)
        assert path.read_bytes() == content


def test_a_file_that_took_the_checkpoints_place_is_not_deleted(tmp_path):
    from selfselect.engines.checkpoint import Checkpoint

    path = tmp_path / "fit.ckpt"
    checkpoint = Checkpoint(path, {"a": "b"})
    path.unlink()
    path.write_text("precious")
    checkpoint.remove()
    assert path.read_text() == "precious"


def test_asking_whether_a_place_will_do_touches_nothing(tmp_path):
    from selfselect.engines.checkpoint import check_place

    check_place(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ArchiveError, match="cannot be written"):
        check_place(tmp_path / "no" / "folder")


@pytest.mark.parametrize(
    "found",
    [
        {"is": "selfselect.__main__:x", "fields": {}},
        {"class": "selfselect.problem.batch:Evaluation", "fields": {}},
        {"array": "AAAA", "type": "|O", "shape": [1], "order": "C"},
        {"is": "evaluation/1", "loglik": "a", "score": 1, "hessian": None},
        {"is": "parts/1"},
        {"scalar": 1.0, "type": "|O"},
        json.loads("[" * 100 + "]" * 100),
        {},
        {"float": "1; import os"},
    ],
    ids=str,
)
def test_a_hostile_line_of_a_checkpoint_is_a_clear_error(found, tmp_path):
    from selfselect.engines.checkpoint import Checkpoint

    path = tmp_path / "fit.ckpt"
    first = Checkpoint(path, {"a": "b"})
    first.close()
    with path.open("a") as file:
        file.write(json.dumps({"what": "pass 0", "asked": "x", "found": found}) + "\n")
    second = Checkpoint(path, {"a": "b"})
    with pytest.raises(ArchiveError, match="is damaged at pass 0"):
        second.recall("pass 0", "x")
    second.close()


# text that a spreadsheet would run


def test_text_that_a_spreadsheet_would_run_is_marked_as_text_and_numbers_are_not():
    table = pd.DataFrame(
        {
            "=cmd": ["=1+1", "+a", "-b", "@c", "\tx", "\rx", " =d", "plain", "-1.5", "1e3"],
            "number": np.linspace(-1, 1, 10),
        }
    )
    made = for_spreadsheets(table)
    assert list(made.columns) == ["'=cmd", "number"]
    assert made.iloc[:, 0].tolist() == [
        "'=1+1", "'+a", "'-b", "'@c", "'\tx", "'\rx", "' =d", "plain", "-1.5", "1e3",
    ]  # fmt: skip
    pd.testing.assert_series_equal(made["number"], table["number"])
    mixed = pd.DataFrame({"a": [None, "=x", 3]}, dtype=object)
    assert for_spreadsheets(mixed)["a"].tolist() == [None, "'=x", 3]


def test_labels_do_not_become_formulas_in_csv(villagers, tmp_path, capsys):
    table, saved = tmp_path / "rows.csv", tmp_path / "fit.json"
    evil = villagers.assign(job=villagers["job"].map({"hunting": "=HYPERLINK(1)", "fishing": "-1"}))
    evil.assign(id="@name").to_csv(table, index=False)
    code, out, _ = run(
        capsys, "fit", table, FORMULA, "--chosen", "job", "--save", saved, "--format", "csv"
    )
    assert code == 0
    assert "'=HYPERLINK(1)" in out and "\n=HYPERLINK" not in out and "\n-1," in out
    code, out, _ = run(capsys, "predict", saved, table, "--keep", "id")
    assert code == 0
    head, first = out.splitlines()[:2]
    assert head == "id,-1,'=HYPERLINK(1)" and first.startswith("'@name,")


def test_what_is_simulated_is_read_back_as_it_was(tmp_path, capsys):
    path = tmp_path / "rows.csv"
    for name in ("village", "market", "auction", "gaussian"):
        assert run(capsys, "simulate", name, "--rows", 50, "--out", path)[0] == 0
        made = getattr(ss.simulators, name)(50).data
        pd.testing.assert_frame_equal(pd.read_csv(path), made)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device")
def test_standard_output_on_a_full_disk_is_one_error():
    words = [sys.executable, "-m", "selfselect", "simulate", "village", "--rows", "50"]
    with open("/dev/full", "w") as full:
        ran = subprocess.run(words, check=False, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: The output cannot be written: No space left on device")


def test_standard_output_that_is_only_read_from_is_one_error():
    words = [sys.executable, "-m", "selfselect", "simulate", "village", "--rows", "50"]
    with open(os.devnull) as only_read:
        ran = subprocess.run(
            words, check=False, stdout=only_read, stderr=subprocess.PIPE, text=True
        )
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1].startswith("error: The output cannot be written: Bad file")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device")
def test_standard_error_on_a_full_disk_leaves_the_exit_code():
    words = [sys.executable, "-m", "selfselect", "estimate"]
    with open("/dev/full", "w") as full:
        assert subprocess.run(words, check=False, stderr=full).returncode == 2


def test_a_fit_with_both_outputs_closed_ends_as_if_they_were_read(villagers, tmp_path):
    villagers.iloc[:100].to_csv(tmp_path / "rows.csv", index=False)
    words = ["fit", "rows.csv", "income ~ height", "--chosen", "job", "--save", "fit.json"]
    shell = f'exec {sys.executable} -m selfselect "$@" >&- 2>&-'
    ran = subprocess.run(["sh", "-c", shell, "sh", *words], cwd=tmp_path, check=False)
    assert ran.returncode == 0
    assert ss.load(tmp_path / "fit.json").converged


def test_a_warning_that_cannot_be_written_does_not_end_the_command(capsys, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("selfselect.cli.main.click.echo", full)
    _say("warning: something is odd")
    assert capsys.readouterr().err == ""


# outputs over inputs, and names that promise another format


@pytest.fixture
def written(villagers, fit, tmp_path):
    villagers.to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "folder").mkdir()
    villagers.to_csv(tmp_path / "folder" / "rows.csv", index=False)
    fit.save(tmp_path / "fit.json")
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        "predict fit.json rows.csv --out rows.csv",
        "predict fit.json rows.csv --out ./folder/../rows.csv",
        "predict fit.json rows.csv --out fit.json",
        "predict fit.json folder --out folder/rows.csv",
        "effects fit.json rows.csv --out rows.csv",
        "effects fit.json rows.csv --out fit.json",
        "fit rows.csv FORMULA --chosen job --save rows.csv",
        "fit rows.csv FORMULA --chosen job --report rows.csv",
        "fit folder FORMULA --chosen job --save folder/rows.csv",
        "show fit.json --report fit.json",
    ],
)
def test_nothing_is_written_over_what_is_read(words, written, capsys, monkeypatch):
    monkeypatch.chdir(written)
    before = {path: path.read_bytes() for path in written.rglob("*") if path.is_file()}
    code, _, err = run(capsys, *(FORMULA if one == "FORMULA" else one for one in words.split()))
    assert code == 2 and "is read by this command" in err
    assert before == {path: path.read_bytes() for path in written.rglob("*") if path.is_file()}


@pytest.mark.parametrize("ending", ["xlsx", "json", "feather", "dta", "tsv", "html"])
def test_a_table_is_not_written_under_a_name_that_promises_another_format(
    ending, written, capsys, monkeypatch
):
    monkeypatch.chdir(written)
    for command in ("predict", "effects"):
        code, _, err = run(capsys, command, "fit.json", "rows.csv", "--out", f"made.{ending}")
        assert code == 2 and f"ends in .{ending}, but tables are written as CSV or Parquet" in err
    assert not (written / f"made.{ending}").exists()


def test_a_fit_is_saved_again_beside_the_rows_it_was_made_of(written, capsys, monkeypatch):
    monkeypatch.chdir(written / "folder")
    words = ["fit", ".", FORMULA, "--chosen", "job", "--save", "fit.json"]
    for _ in range(2):
        assert run(capsys, *words)[0] == 0
