"""Pages on a terminal fit its columns; what goes elsewhere stays as it is."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

import selfselect as ss
from selfselect.report.page import WIDTH, Block, Page, fold, narrowed

NARROW = 60


@pytest.fixture(scope="module")
def fit() -> ss.FitResult:
    sample = ss.simulators.village(300, seed=1)
    return ss.fit(sample.formula, sample.data, chosen="job")


@pytest.fixture(scope="module")
def files(fit: ss.FitResult, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("shell")
    fit.save(folder / "fit.json")
    table = ss.simulators.village(300, seed=1).data
    table.to_csv(folder / "villagers.csv", index=False)
    return folder / "fit.json", folder / "villagers.csv"


def on_terminal(words: list[str], columns: int, environment: dict[str, str]) -> tuple[int, str]:
    """Run the shell tool on a terminal of so many columns; return its code and what it printed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    kept = {name: one for name, one in os.environ.items() if name != "COLUMNS"}
    started = subprocess.Popen(
        [sys.executable, "-m", "selfselect", *words], stdin=theirs, stdout=theirs, stderr=theirs,
        env=kept | {"PYTHONPATH": ":".join(sys.path)} | environment,
    )  # fmt: skip
    os.close(theirs)
    printed = b""
    try:
        while piece := os.read(ours, 65536):
            printed += piece
    except OSError:  # Linux says so where the other end is closed.
        pass
    os.close(ours)
    return started.wait(), printed.decode("utf-8").replace("\r\n", "\n")


def longest(text: str) -> int:
    return max(map(len, text.splitlines()))


def numbers_of(text: str) -> set[str]:
    return set(re.findall(r"-?\d+\.\d+", text))


@pytest.mark.parametrize(
    ("columns", "environment"), [(NARROW, {}), (200, {"COLUMNS": str(NARROW)})]
)
def test_a_narrow_terminal_gets_narrow_pages(
    fit: ss.FitResult, files: tuple[Path, Path], columns: int, environment: dict[str, str]
) -> None:
    words = ["show", str(files[0]), str(files[1]), "--compare", "--diagnose", "--explain"]
    code, printed = on_terminal(words, columns, environment)
    assert code == 0 and longest(printed) <= NARROW
    assert "\x1b" not in printed
    wide = "\n".join(map(str, (fit.summary(), fit.compare(), fit.diagnose())))
    assert numbers_of(wide) <= numbers_of(printed)


def test_errors_and_warnings_are_folded_at_words(files: tuple[Path, Path]) -> None:
    code, printed = on_terminal(["fit", str(files[1]), "income ~ hight", "--chosen", "job"], 40, {})
    assert code == 2 and longest(printed) <= 40
    assert "Did you mean 'height' or" in " ".join(printed.split())


def test_wide_terminals_and_pipes_get_the_same_page(
    fit: ss.FitResult, files: tuple[Path, Path]
) -> None:
    _, printed = on_terminal(["show", str(files[0])], 200, {})
    piped = subprocess.run(
        [sys.executable, "-m", "selfselect", "show", str(files[0])], capture_output=True, text=True,
        env=dict(os.environ) | {"COLUMNS": "60", "PYTHONPATH": ":".join(sys.path)}, check=True,
    )  # fmt: skip
    assert printed == piped.stdout == f"{fit.summary()}\n"


def test_a_page_to_explore_does_not_fill_a_terminal(files: tuple[Path, Path]) -> None:
    code, printed = on_terminal(["explore", *map(str, files)], 200, {})
    assert code == 2 and printed == (
        "error: The page is not for a terminal. Give --out page.html, or send standard output to "
        "a file.\n"
    )


def pages(fit: ss.FitResult) -> dict[str, Any]:
    pair = ("hunting", "fishing")
    return {
        "summary": fit.summary(),
        "explain": fit.explain(),
        "compare": fit.compare(),
        "treatment": fit.treatment_effects(*pair),
        "outcomes": fit.potential_outcomes(),
        "chances": fit.choice_probabilities(),
        "marginal": fit.marginal_effects(),
        "decompose": fit.decompose(*pair),
        "gains": fit.gains(*pair),
        "sorting": fit.sorting(),
        "policy": fit.policy(),
        "close": fit.counterfactual(close=["fishing"]),
        "bounds": fit.bounds(),
        "diagnosis": fit.diagnose(),
    }


@pytest.mark.parametrize("columns", [40, NARROW])
def test_every_page_fits_and_loses_no_number(fit: ss.FitResult, columns: int) -> None:
    for name, page in pages(fit).items():
        with narrowed(columns):
            narrow, again = str(page), str(page)
        assert longest(narrow) <= columns, name
        assert numbers_of(narrow) == numbers_of(str(page)), name
        assert narrow == again


def test_without_a_terminal_nothing_changes(fit: ss.FitResult) -> None:
    wide = str(fit.summary())
    with narrowed(None):
        assert str(fit.summary()) == wide
    with narrowed(500):
        assert str(fit.summary()) == wide
    assert longest(wide) == WIDTH


def test_columns_are_folded_in_groups_with_the_ends_of_an_interval_together() -> None:
    header = ("", "estimate", "std err", "z", "[2.5%", "97.5%]")
    row = ("a name", "1.2345678", "0.1234567", "10.123", "-1.234567", "12.345678")
    page = Page("title", (), (), (Block("what", header, (row,)),), ())
    with narrowed(40):
        lines = str(page).splitlines()
    heads = [line.split() for line in lines if "estimate" in line or "%" in line]
    assert heads == [["estimate", "std", "err", "z"], ["[2.5%", "97.5%]"]]
    assert [line.split()[2:] for line in lines if line.startswith("a name")] == [
        list(row[1:4]),
        list(row[4:]),
    ]


def test_long_names_are_folded_above_their_numbers() -> None:
    name = "a very long name of a covariate: its interaction with another"
    page = Page("t", (), (), (Block("", ("", "coef"), ((name, "1.2345"), ("x", "-2.3456"))),), ())
    with narrowed(40):
        printed = str(page)
    assert longest(printed) <= 40
    assert name in " ".join(printed.replace("1.2345", "").split())
    ends = [line.index(one) + len(one) for line in printed.splitlines()
            for one in ("1.2345", "-2.3456") if one in line]  # fmt: skip
    assert len(set(ends)) == 1


def test_sentences_are_folded_only_on_a_terminal() -> None:
    sentence = "! " + "word " * 30 + "end"
    assert fold(sentence) == sentence
    with narrowed(30):
        lines = fold(sentence).splitlines()
    assert max(map(len, lines)) <= 30 and all(line.startswith("  ") for line in lines[1:])
    assert " ".join(" ".join(lines).split()) == sentence
