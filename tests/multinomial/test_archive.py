"""Saved multinomial switching regressions, and their reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import ArchiveError, UnsupportedError
from selfselect.results.archive import sealed


@pytest.mark.parametrize(
    "options",
    [
        {"correction": "dmf0"},
        {"correction": "dahl", "degree": 3},
        {"correction": "lee", "base": "b"},
    ],
    ids=["dmf0", "dahl", "lee"],
)
def test_a_loaded_fit_says_what_the_fit_said(
    options: dict[str, Any], table: pd.DataFrame, tmp_path: Path
) -> None:
    data = table.assign(sort=np.where(table["x"] > 0, "p", "q"), here=1)
    formulas = {"a": "y ~ x", "b": "y ~ x + sort", "c": "y ~ 1"}
    fit: Any = ss.multinomial_switching(
        formulas, "job ~ x + z1 + z2", data, available={"c": "here"}, **options
    )
    fit.save(tmp_path / "fit.json")
    loaded: Any = ss.load(tmp_path / "fit.json")
    assert isinstance(loaded, ss.MultinomialResult)
    assert str(loaded.summary()) == str(fit.summary()) and repr(loaded) == repr(fit)
    assert loaded.call == fit.call and loaded.glance().equals(fit.glance())
    kind = "chance" if options["correction"] == "dahl" else "latent"
    pd.testing.assert_frame_equal(
        loaded.predict(data, kind, level=0.9), fit.predict(data, kind, level=0.9), check_exact=True
    )
    pd.testing.assert_frame_equal(loaded.nlcom("a:x - b:x").table, fit.nlcom("a:x - b:x").table)
    with pytest.raises(UnsupportedError, match="no longer has its rows"):
        loaded.predict(kind=kind)
    with pytest.raises(UnsupportedError, match="no longer has its rows"):
        loaded.compare()


def test_effects_of_given_rows_are_those_of_the_fit(
    dmf1: ss.MultinomialResult, table: pd.DataFrame, tmp_path: Path
) -> None:
    dmf1.save(tmp_path / "fit.json")
    loaded: Any = ss.load(tmp_path / "fit.json")
    given = dmf1.treatment_effects("b", "a", table)
    assert str(loaded.treatment_effects("b", "a", table)) == str(given)
    with pytest.raises(UnsupportedError, match="Give rows, data"):
        loaded.treatment_effects("b", "a")


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("base", 3, "base is none"),
        ("correction", "dmf9", "no correction"),
        ("degree", 2, "has no degree"),
        ("values", [1.0], "of the wrong kind"),
        ("turn", {"values": []}, "damaged"),
        ("facts", {"n_rows": -1}, "no data has"),
        ("coding", {"coder_of": [0, 1, 2]}, "selection equation, or its formula|other terms"),
        ("logit", {"n_steps": -1}, "no solver returns"),
    ],
)
def test_a_file_that_was_changed_is_refused(
    name: str, change: Any, words: str, dmf1: ss.MultinomialResult, tmp_path: Path
) -> None:
    dmf1.save(tmp_path / "fit.json")
    content = json.loads((tmp_path / "fit.json").read_text())
    content[name] = {**content[name], **change} if isinstance(change, dict) else change
    (tmp_path / "fit.json").write_text(json.dumps(content))
    with pytest.raises(ArchiveError, match="checksum"):
        ss.load(tmp_path / "fit.json")
    (tmp_path / "fit.json").write_text(json.dumps(sealed(content)))
    with pytest.raises(ArchiveError, match=words):
        ss.load(tmp_path / "fit.json")


def test_the_report_holds_summary_effects_and_assumptions(
    dmf1: ss.MultinomialResult, tmp_path: Path
) -> None:
    dmf1.report(tmp_path / "report.html", command="selfselect multinomial rows.csv")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for words in (
        "y by choice: a, b and c", "Effect of a instead of b on y", "Mean y by group",
        "That is not tested here", "Corrected estimates in full", "choice of b instead of a",
        "difference under the model", "multinomial_switching(", "selfselect multinomial rows.csv",
    ):  # fmt: skip
        assert words in page, words
    dmf1.save(tmp_path / "fit.json")
    loaded: Any = ss.load(tmp_path / "fit.json")
    loaded.report(tmp_path / "loaded.html")
    page = (tmp_path / "loaded.html").read_text(encoding="utf-8")
    assert "which keeps none" in page and "no longer has its rows" in page
