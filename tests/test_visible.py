"""Labels that would turn, hide or break what stands after them are shown with their escapes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import selfselect as ss
from selfselect.cli.main import main
from selfselect.visible import left_to_right, visible

TURNED = "fi\u202eshing"
COLOURED = "\x1b[31mhun\nting\u2067"
COLUMN = "hei\u202dght"
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    made = ss.simulators.village(300, seed=1).data
    made["job"] = made["job"].map({"fishing": TURNED, "hunting": COLOURED})
    made["ki\u202end"] = ["a\u202eb", "c", "d"] * 100
    return made.rename(columns={"height": COLUMN})


@pytest.fixture(scope="module")
def fit(table: pd.DataFrame) -> ss.FitResult:
    return ss.fit(f"income ~ `{COLUMN}` + weight + `ki\u202end`", table, chosen="job")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (TURNED, r"fi\u202eshing"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\rb\x07", r"a\rb\x07"),
        ("\u2066x\u2069\u200f\u061c\u2028", r"\u2066x\u2069\u200f\u061c\u2028"),
        ("lone \ud800", r"lone \ud800"),
    ],
)
def test_what_turns_or_hides_text_is_written_as_python_writes_it(text: str, shown: str) -> None:
    assert visible(text) == shown == repr(text)[1:-1]


@pytest.mark.parametrize(
    "text",
    ["Zoë", "דיג", "صيد", "می\u200cروم", "👩\u200d🔬", "two\nlines", "a\tb", "100\xa0%", "\\u"],
)
def test_all_other_text_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


def test_words_from_right_to_left_are_ended_in_pages_of_a_browser() -> None:
    assert left_to_right("\u05d3\u05d9\u05d2: -6.4") == "\u05d3\u05d9\u05d2\u200e: -6.4"
    assert (
        left_to_right("\u0635\u064a\u062f \u0628\u0631, 5")
        == "\u0635\u064a\u062f \u0628\u0631\u200e, 5"
    )
    assert left_to_right("a: 5, b\u202e") == r"a: 5, b\u202e"


def pages(fit: ss.FitResult) -> dict[str, Any]:
    return {
        "summary": fit.summary(),
        "explain": fit.explain(),
        "compare": fit.compare(),
        "effects": fit.treatment_effects(TURNED, COLOURED),
        "change": fit.counterfactual(close=[TURNED]),
    }


@pytest.mark.parametrize("name", ["summary", "explain", "compare", "effects", "change"])
def test_no_page_lets_a_label_turn_its_text(fit: ss.FitResult, name: str) -> None:
    page = pages(fit)[name]
    made = page if name == "summary" else page.to_page()
    for text in (made.to_text(), made.to_html(), made.to_latex(), made.to_markdown()):
        assert not HIDDEN.search(text)
        assert "u202e" in text
    assert "\n ting" not in made.to_text() and "\nting" not in made.to_text()


def test_one_line_of_a_prompt_is_one_line(fit: ss.FitResult) -> None:
    for shown in (fit, *pages(fit).values()):
        assert repr(shown).isprintable()


def test_labels_that_are_keys_stay_unchanged(fit: ss.FitResult, table: pd.DataFrame) -> None:
    assert set(fit.params.index.get_level_values(0)) == {TURNED, COLOURED}
    assert (TURNED, COLUMN) in fit.params.index
    effects = fit.choice_probabilities()
    assert set(effects.table["alternative"]) == {TURNED, COLOURED}
    assert list(fit.predict(table.head(3), kind="chance")) == [COLOURED, TURNED]


@pytest.mark.parametrize("kind", ["report", "explore"])
def test_pages_to_send_hold_no_such_character(fit: ss.FitResult, tmp_path: Path, kind: str) -> None:
    page = tmp_path / "page.html"
    getattr(fit, kind)(page)
    text = page.read_text(encoding="utf-8")
    assert not HIDDEN.search(text)
    for held in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text):
        # What a script reads from them is shown too.
        assert not HIDDEN.search(json.dumps(json.loads(held), ensure_ascii=False))
    assert r"fi\u202eshing" in text


def test_pictures_show_the_escapes(fit: ss.FitResult) -> None:
    (axis, *_) = fit.plot.choice_probabilities(COLUMN).axes
    axis.figure.canvas.draw()
    names = {text.get_text() for text in axis.get_legend().get_texts()}
    assert names == {r"fi\u202eshing", r"\x1b[31mhun ting\u2067"}
    assert axis.get_xlabel() == r"hei\u202dght"


def test_the_shell_prints_no_such_character(
    fit: ss.FitResult, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit.save(tmp_path / "fit.json")
    calls = [["show", str(tmp_path / "fit.json"), "--compare", "--diagnose"],
             ["show", str(tmp_path / "no\x1b[31msuch\u202e.json")]]  # fmt: skip
    for call in calls:
        with pytest.raises(SystemExit):
            main(call)
        printed = capsys.readouterr()
        assert not HIDDEN.search(printed.out + printed.err)
