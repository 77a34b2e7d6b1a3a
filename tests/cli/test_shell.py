"""Manners of the shell: standard streams, one order, one spelling, hints, JSON lines, a manual."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.cli import _tables
from selfselect.cli._streams import in_shell_spelling
from selfselect.cli.fit import command as fit_command
from selfselect.cli.main import cli, main

FORMULA = "income ~ height + weight"
FIT = ("--chosen", "job")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a saved fit and the table it was fitted to."""
    folder = tmp_path_factory.mktemp("shell")
    villagers = ss.simulators.village(200, seed=3).data
    villagers.to_csv(folder / "villagers.csv", index=False)
    ss.fit(FORMULA, villagers, chosen="job").save(folder / "fit.json")
    return folder / "fit.json", folder / "villagers.csv"


@pytest.fixture
def shell(capsysbinary: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the command in this process; `given` is what standard input holds."""

    def run(*arguments: object, given: bytes = b"") -> tuple[int, str, str]:
        capsysbinary.readouterr()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        said = capsysbinary.readouterr()
        return int(stop.value.code or 0), said.out.decode(), said.err.decode()

    return run


def test_a_pipe_goes_from_a_table_to_predictions_without_a_file(files, shell):
    fit, data = files
    code, saved, summary = shell("fit", "-", FORMULA, *FIT, "--save", "-", given=data.read_bytes())
    assert code == 0 and "known index" in summary
    assert json.loads(saved)["format"] == "selfselect fit"
    code, out, err = shell("predict", "-", data, "--out", "-", given=saved.encode())
    assert (code, err) == (0, "")
    expected = ss.load(fit).predict(pd.read_csv(data))
    np.testing.assert_allclose(pd.read_csv(io.StringIO(out)), expected)
    _, shown, _ = shell("show", "-", "--format", "csv", given=saved.encode())
    assert shown == shell("show", fit, "--format", "csv")[1]


def test_parquet_is_read_from_standard_input_too(files, shell):
    fit, data = files
    held = io.BytesIO()
    pd.read_csv(data).to_parquet(held)
    wanted = shell("effects", fit, data, "--json")
    assert wanted[0] == 0 and shell("effects", fit, "-", "--json", given=held.getvalue()) == wanted


def test_labels_of_standard_input_are_those_of_a_file(files, shell, tmp_path):
    table = pd.read_csv(files[1]).replace({"job": {"fishing": "01", "hunting": "1"}})
    table.to_csv(tmp_path / "coded.csv", index=False)
    call = ("fit", "-", FORMULA, *FIT, "--json")
    out = shell(*call, given=(tmp_path / "coded.csv").read_bytes())[1]
    assert [json.loads(line)["alternative"] for line in out.splitlines()][::4] == ["01", "1"]


def test_one_stream_serves_one_file(files, shell):
    data = files[1]
    code, _, err = shell("effects", "-", "-")
    assert code == 2 and "one standard input" in err
    code, _, err = shell("fit", data, FORMULA, *FIT, "--save", "-", "--report", "-")
    assert code == 2 and "one standard output" in err


@pytest.mark.parametrize(
    "call",
    [
        ("fit", "DATA", FORMULA, *FIT),
        ("show", "FIT"),
        ("predict", "FIT", "DATA", "--keep", "job"),
        ("effects", "FIT", "DATA", "--what", "sorting"),
        ("bounds", "DATA", "income ~ 1", *FIT),
        ("choose", "DATA", "income ~ height", "--range", "1:2"),
        ("choose-noise", "DATA", "income ~ height", *FIT),
        ("bootstrap", "DATA", "income ~ height", *FIT, "--replications", "3", "--seed", "1"),
        ("switching", "DATA", "income ~ weight", "job ~ height", "--method", "two-step"),
    ],
    ids=lambda call: call[0],
)
def test_every_line_of_json_is_a_row(files, shell, call):
    words = [{"FIT": files[0], "DATA": files[1]}.get(word, word) for word in call]
    code, out, _ = shell(*words, "--json")
    assert code in (0, 3)
    rows = [json.loads(line, parse_constant=pytest.fail) for line in out.splitlines()]
    assert len(rows) > 1 and all(set(row) == set(rows[0]) for row in rows)


def test_old_orders_work_with_a_notice(files, shell):
    fit, data = files
    for old, new in (
        (("fit", FORMULA, data, *FIT), ("fit", data, FORMULA, *FIT)),
        (("effects", data, fit), ("effects", fit, data)),
        (("predict", data, fit), ("predict", fit, data)),
        (
            ("switching", data, "job ~ height", "income ~ weight", "--method", "two-step"),
            ("switching", data, "income ~ weight", "job ~ height", "--method", "two-step"),
        ),
    ):
        code, out, err = shell(*old)
        assert err.startswith("notice: in all commands") and err.count("\n") == 1
        assert (code, out, "") == shell(*new)


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (("fti", "DATA"), "Did you mean 'fit'?"),
        (("effect", "FIT", "DATA"), "Did you mean 'effects'?"),
        (("fit", "DATA", FORMULA, "--chosn", "job"), "Did you mean '--chosen' or"),
        (
            ("fit", "DATA", FORMULA, *FIT, "--verdict", "--question", "hunting - fishin"),
            "there are fishing, hunting. Did you mean 'hunting - fishing'?",
        ),
        (
            ("fit", "DATA", FORMULA, *FIT, "--noise", "types", "--types", "x"),
            "--types takes a whole number of at least 1, or 'bic', not 'x'.",
        ),
        (("effects", "FIT", "DATA", "--what", "treatmnt"), "Did you mean 'treatment'?"),
        (("effects", "FIT", "DATA", "--scale", "LEVEL"), "Did you mean 'level'?"),
        (("effects", "FIT", "DATA", "--what", "mte"), "Fit it with selfselect switching."),
        (("fit", "DATA", "income ~ heigth", *FIT), "Did you mean 'height'"),
        (("fit", "DATA", FORMULA, "--chosen", "jop"), "Did you mean 'job'"),
        (("effects", "FIT", "DATA", "--what", "gain"), "'gains'"),
        (
            ("effects", "FIT", "DATA", "--what", "quota", "--quota", "hunting=-2"),
            "--quota hunting=-2.0 is not possible: give a share between 0 and 1. To close it use "
            "--what close --alternative hunting.",
        ),
        (("completion",), "Choose from: bash, zsh, fish"),
        (("simulate",), "Choose from: village, gaussian"),
    ],
)
def test_a_slip_of_the_keyboard_gets_a_hint(files, shell, call, hint):
    words = [{"FIT": files[0], "DATA": files[1]}.get(word, word) for word in call]
    code, out, err = shell(*words)
    assert (code, out) == (2, "") and hint in err and err.count("\n") == 1


def test_a_file_that_is_not_there_is_told_from_its_neighbour(files, shell):
    _, _, err = shell("fit", files[1].with_name("vilagers.csv"), FORMULA, *FIT)
    assert "Did you mean" in err and "villagers.csv" in err
    code, _, err = shell("show", files[0].with_name("ft.json"))
    assert code == 2 and "Did you mean" in err and "fit.json" in err


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("Pass missing_outcome='drop' to drop them.", "Pass --missing-outcome drop to drop them."),
        ("Give `possible`, or cluster=.", "Give --possible, or --cluster."),
        ("offset={'a': 'b c'} is odd.", "--offset 'a=b c' is odd."),
        ("shared=['x', 'y'] names.", "--shared x --shared y names."),
        ("Use engine=engines.Memory().", "Use --engine memory."),
        ("Use engine=selfselect.engines.Torch('cuda').", "Use --engine torch:cuda."),
        ("Leave `solver` out: a=b stays.", "Leave `solver` out: a=b stays."),
        (
            "Names with spaces or signs go in backticks: `monthly pay`.",
            "Names with spaces or signs go in backticks, and the formula in single quotes: "
            "`monthly pay`.",
        ),
        ("alternatives=3 is too many.", "--alternatives 3 is too many."),
        ("Use selfselect.switching.", "Use selfselect switching."),
        ("selfselect.choose_noise() shows it.", "selfselect choose-noise shows it."),
        ("Or selfselect.sample_selection(...)", "Or selfselect.sample_selection(...)"),
    ],
)
def test_sentences_name_options_as_they_are_typed(said, meant):
    assert in_shell_spelling(said, fit_command) == meant


def test_errors_and_warnings_have_the_spelling_of_the_shell(files, shell, tmp_path):
    table = pd.read_csv(files[1])
    table.loc[3, "income"] = np.nan
    table.to_csv(tmp_path / "lacking.csv", index=False)
    code, _, err = shell("fit", tmp_path / "lacking.csv", FORMULA, *FIT)
    assert code == 2 and "--missing-outcome drop" in err and "missing_outcome" not in err


def test_a_table_for_programs_is_not_mixed_with_pages(files, shell):
    fit, data = files
    for call in (("fit", data, FORMULA, *FIT), ("show", fit)):
        _, alone, _ = shell(*call, "--format", "csv")
        _, out, err = shell(*call, "--format", "csv", "--compare")
        assert out == alone and "Naive least squares" in err
    for table, column in (("outcomes", "quantity"), ("shares", "alternative"), ("moves", "from")):
        _, out, _ = shell("effects", fit, data, "--what", "close", "--alternative", "hunting",
                          "--table", table, "--out", "-")  # fmt: skip
        assert column in pd.read_csv(io.StringIO(out)).columns


@pytest.mark.parametrize(
    "asked",
    [
        ("coefficients", "--term", "height"),
        ("selection_lines", "--covariate", "height"),
        ("choice_probabilities", "--covariate", "weight"),
        ("potential_outcomes", "--covariate", "weight", "--level", "0.9"),
        ("residuals",),
    ],
    ids=lambda asked: asked[0],
)
def test_pictures_are_written(files, shell, tmp_path, asked):
    out = tmp_path / "picture.png"
    assert shell("plot", *files, "--what", *asked, "--out", out) == (0, "", "")
    assert out.read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_drawn_says_what_it_needs(files, shell, tmp_path):
    for words, said in (
        ((files[0], "--what", "qq", "--out", tmp_path / "a.png"), "give DATA after FIT"),
        ((*files, "--what", "selection_lines", "--out", tmp_path / "a.png"), "--covariate"),
        ((files[0], "--out", tmp_path / "a.doc"), ".png, .svg or .pdf"),
    ):
        code, _, err = shell("plot", *words)
        assert code == 2 and said in err
    assert not list(tmp_path.iterdir())
    assert shell("plot", files[0], "--out", "-")[1].startswith("<?xml")


def test_a_bootstrap_is_that_of_the_library(files, shell):
    code, out, _ = shell("bootstrap", files[1], FORMULA, *FIT, "--replications", "5", "--seed", "1",
                         "--format", "csv")  # fmt: skip
    plan = ss.inference.Bootstrap(5)
    wanted = ss.fit(FORMULA, pd.read_csv(files[1]), chosen="job", covariance=plan, seed=1).tidy()
    assert code == 0
    np.testing.assert_allclose(pd.read_csv(io.StringIO(out))["std_error"], wanted["std_error"])


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_shells_are_told_how_to_complete(shell, name):
    code, out, _ = shell("completion", name)
    assert code == 0 and "_SELFSELECT_COMPLETE" in out


def test_the_manual_has_every_command_and_option(shell):
    code, page, _ = shell("man")
    assert code == 0 and page.startswith(".TH SELFSELECT 1")
    plain = page.replace("\\-", "-").replace("\\e", "\\")
    context = click.Context(cli)
    for name in cli.list_commands(context):
        assert f'.SS "{name}"' in page
        for one in cli.get_command(context, name).params:
            assert not isinstance(one, click.Option) or one.opts[0] in plain


@pytest.mark.parametrize("name", [(), *((name,) for name in cli.list_commands(click.Context(cli)))])
def test_help_fits_sixty_columns(shell, name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    code, out, _ = shell(*name, "--help")
    # Commands to be copied stay on one line.
    told, _, examples = out.partition("Example")
    told += "\n" + examples.partition("Exit codes")[2]
    lines = [line for line in told.splitlines() if "selfselect completion" not in line]
    assert code == 0 and max(map(len, lines)) <= 60


def test_a_long_list_of_choices_is_folded_between_them(shell, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    _, out, _ = shell("effects", "--help")
    listed = " ".join(out.split()).replace("| ", "|")
    assert "--what [outcomes|chances|marginal|treatment|mte|heterogeneity|" in listed


def test_sixty_columns_and_no_colours_are_enough():
    done = subprocess.run(
        [sys.executable, "-m", "selfselect", "fit", "--help"], capture_output=True, text=True,
        env={"PATH": "", "COLUMNS": "60", "NO_COLOR": "1", "PYTHONPATH": ":".join(sys.path)},
        check=True,
    )  # fmt: skip
    wrapped = done.stdout.partition("Examples:")[0]
    # The name of an option and what it takes stay together.
    assert max(len(line) for line in wrapped.splitlines() if "  -" not in line[:4]) <= 60
    assert not re.search("\x1b", done.stdout) and done.stderr == ""


def test_formulas_may_be_longer_than_names_of_files(shell, tmp_path):
    names = [f"covariate_{number}" for number in range(40)]
    rng = np.random.default_rng([8, 1])
    table = pd.DataFrame(rng.normal(size=(400, len(names))), columns=names)
    table["y"], table["who"] = rng.normal(size=400), np.where(rng.random(400) < 0.5, "a", "b")
    table.to_csv(tmp_path / "rows.csv", index=False)
    formula = "y ~ " + " + ".join(names)
    assert len(formula) > 255
    code, out, _ = shell("fit", tmp_path / "rows.csv", formula, "--chosen", "who", "--json")
    assert code == 0 and out.count(names[-1]) == 2
    code, out, err = shell("fit", f"{'rows' * 100}.csv", formula, "--chosen", "who")
    assert (code, out) == (2, "") and err.startswith("error: There is no file")


def test_a_table_written_in_pieces_is_the_same_text(tmp_path, monkeypatch):
    table = pd.DataFrame({"a": [0.1, 2.0, 1e-300, np.nan, 5.0], "b": list("=wxyz")})
    for name, at_once in {"pieces.csv": 2, "whole.csv": 100}.items():
        monkeypatch.setattr(_tables, "ROWS_AT_ONCE", at_once)
        _tables.write_table(table, str(tmp_path / name), index=False)
    assert (tmp_path / "pieces.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert len((tmp_path / "whole.csv").read_text(encoding="utf-8").splitlines()) == 6


@pytest.mark.parametrize("n_rows", [0, 1])
def test_a_table_of_few_rows_has_its_head(tmp_path, n_rows):
    table = pd.DataFrame({"a": [1.5] * n_rows})
    _tables.write_table(table, str(tmp_path / "few.csv"), index=False)
    lines = (tmp_path / "few.csv").read_text(encoding="utf-8").splitlines()
    assert lines == ["a", *["1.5"] * n_rows]
