"""Files from the shell: one or many, in memory or piece by piece."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.cli import _options
from selfselect.cli.main import main

FORMULA = "income ~ height + weight"


@pytest.fixture
def shell(capsys):
    def run(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return int(stop.value.code or 0), said.out, said.err

    return run


@pytest.fixture(scope="module")
def villagers():
    return ss.simulators.village(300, seed=3).data.assign(id=np.arange(300))


@pytest.fixture
def files(villagers, tmp_path):
    paths = [tmp_path / f"part-{i}.parquet" for i in range(3)]
    for i, path in enumerate(paths):
        villagers.iloc[100 * i : 100 * (i + 1)].to_parquet(path)
    return paths


@pytest.fixture
def saved(villagers, tmp_path):
    ss.fit(FORMULA, villagers, chosen="job").save(tmp_path / "fit.json")
    return tmp_path / "fit.json"


@pytest.mark.parametrize("engine", [(), ("--engine", "parquet"), ("--engine", "memory")])
def test_many_files_are_fitted_with_the_formula_first_or_last(shell, villagers, files, engine):
    wanted = str(ss.fit(FORMULA, villagers, chosen="job").summary())
    notice = "notice: in all commands DATA comes first, then formulas.\n"
    for words in ((*files, FORMULA), (FORMULA, f"{files[0].parent}/*.parquet")):
        said = notice if words[0] == FORMULA else ""
        assert shell("fit", *words, "--chosen", "job", *engine) == (0, f"{wanted}\n", said)


def test_one_file_is_read_piece_by_piece_where_asked(shell, files, monkeypatch):
    opened = []
    open_files = ss.engines.Parquet.open
    monkeypatch.setattr(
        ss.engines.Parquet, "open", lambda self, data: opened.append(data) or open_files(self, data)
    )
    shell("fit", files[0], FORMULA, "--chosen", "job")
    assert not opened
    shell("fit", files[0], FORMULA, "--chosen", "job", "--engine", "parquet")
    assert opened == [[str(files[0])]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--engine", "abacus"), "there is no 'abacus'. Use memory, parquet, torch, dask."),
        (("--engine", "memory:3"), "takes nothing after a colon"),
        (("y ~ z",), "Several formulas are given"),
    ],
)
def test_mistakes_are_one_line(shell, files, arguments, words):
    code, out, err = shell("fit", files[0], FORMULA, "--chosen", "job", *arguments)
    assert (code, out) == (2, "") and err.startswith("error: ") and words in err


def test_no_file_is_a_mistake(shell):
    code, _, err = shell("fit", FORMULA, "--chosen", "job")
    assert code == 2 and "No file is given" in err


def test_an_engine_that_is_not_there_is_said_to_be_missing(monkeypatch):
    monkeypatch.setitem(_options.ENGINES, "abacus", "Abacus")
    with pytest.raises(_options.click.UsageError, match="has no engine 'abacus'"):
        _options.engine_named("abacus")


def test_a_file_with_a_tilde_in_its_name_is_a_file(tmp_path):
    (tmp_path / "rows~1.csv").write_text("")
    name = str(tmp_path / "rows~1.csv")
    assert _options.split_words([name, "y ~ x"]) == ([name], "y ~ x")


def test_predictions_are_written_into_a_folder(shell, villagers, files, saved, tmp_path):
    out = tmp_path / "predictions"
    asked = ("predict", saved, *files, "--kind", "chance", "--keep", "id", "--out", f"{out}/")
    assert shell(*asked) == (0, "", "")
    found = pd.concat([pd.read_parquet(out / path.name) for path in files], ignore_index=True)
    assert list(found.columns) == ["id", "fishing", "hunting"]
    wanted = ss.load(saved).predict(villagers, kind="chance")
    np.testing.assert_allclose(found[["fishing", "hunting"]], wanted, rtol=1e-12)
    code, _, err = shell(*asked)
    assert code == 2 and "is not empty" in err
    assert shell(*asked, "--overwrite")[0] == 0


def test_predictions_of_many_files_fit_in_one(shell, files, saved, tmp_path):
    code, out, _ = shell("predict", saved, *files, "--keep", "id")
    found = pd.read_csv(io.StringIO(out))
    assert code == 0 and found["id"].tolist() == list(range(300))
    shell("predict", saved, *files, "--out", tmp_path / "all.parquet", "--keep", "id")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "all.parquet"), found, rtol=1e-12)
    code, _, err = shell("predict", saved, *files, "--keep", "id", "--keep", "idd")
    assert code == 2 and "no column 'idd'" in err


def test_responsibilities_are_a_kind_of_prediction(shell, villagers, files, tmp_path):
    result = ss.fit(FORMULA, villagers, alternatives=2, seed=1)
    result.save(tmp_path / "mixed.json")
    asked = ("predict", tmp_path / "mixed.json", *files, "--kind", "responsibilities")
    code, out, _ = shell(*asked)
    assert code == 0
    wanted = result.responsibilities(villagers)
    np.testing.assert_allclose(pd.read_csv(io.StringIO(out)), wanted, atol=1e-9)
    assert shell(*asked, "--out", tmp_path / "who")[0] == 0
    found = pd.concat([pd.read_parquet(tmp_path / "who" / path.name) for path in files])
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    assert shell(*asked, "--scale", "level")[0] == 2
