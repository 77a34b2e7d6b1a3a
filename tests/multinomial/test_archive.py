"""Saved multinomial switching regressions, and their reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import ArchiveError, UnsupportedError
from selfselect.multinomial.corrections import CORRECTIONS
from selfselect.results.archive import sealed

VARIANTS: list[dict[str, Any]] = [
    *({"correction": name} for name in CORRECTIONS),
    {"correction": "dahl", "degree": 1, "cluster": "group"},
    {"correction": "dahl", "degree": 4, "covariance": ss.inference.Bootstrap(4), "seed": 1},
    {"correction": "lee", "base": "b", "weights": "w", "weights_kind": "probability"},
]

SAID: dict[str, Callable[[Any, pd.DataFrame], Any]] = {
    "summary": lambda fit, _: str(fit.summary(0.9, stars=True)),
    "LaTeX": lambda fit, _: fit.to_latex(),
    "repr and call": lambda fit, _: (repr(fit), fit.call),
    "covariance": lambda fit, _: fit.cov_params(),
    "tidy": lambda fit, _: fit.tidy(),
    "glance": lambda fit, _: fit.glance(),
    "latent": lambda fit, rows: fit.predict(rows, "latent", level=0.9),
    "chance": lambda fit, rows: fit.predict(rows, "chance", level=0.9),
    "outcome": lambda fit, rows: fit.predict(rows, "outcome", level=0.9),
    "given_seen": lambda fit, rows: fit.predict(rows, "given_seen", level=0.9),
    "treatment effects": lambda fit, rows: fit.treatment_effects("b", "a", rows).table,
    "potential outcomes": lambda fit, rows: fit.potential_outcomes(rows).table,
    "combination": lambda fit, _: fit.nlcom("exp(a:x) - b:x").table,
    "tests": lambda fit, _: [
        fit.selection_test(), fit.selection_test("b"), fit.wald_test("a:x = b:x"),
    ],
}  # fmt: skip


def said(of: Callable[[Any, pd.DataFrame], Any], fit: Any, rows: pd.DataFrame) -> Any:
    try:
        return of(fit, rows)
    except UnsupportedError as error:
        return str(error)


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_a_loaded_fit_says_what_the_fit_said_to_the_last_digit(
    options: dict[str, Any], table: pd.DataFrame, tmp_path: Path
) -> None:
    data = table.head(400).assign(
        sort=np.where(table["x"].head(400) > 0, "p", "q"), here=1, group=np.arange(400) % 30,
        w=1.0 + np.arange(400) % 3,
    )  # fmt: skip
    formulas = {"a": "y ~ x", "b": "y ~ x + sort", "c": "y ~ 1"}
    fit: Any = ss.multinomial_switching(
        formulas, "job ~ x + z1 + z2", data, available={"c": "here"}, **options
    )
    fit.save(tmp_path / "fit.json")
    loaded: Any = ss.load(tmp_path / "fit.json")
    assert isinstance(loaded, ss.MultinomialResult)
    for name, of in SAID.items():
        ours, theirs = (said(of, one, data.tail(60)) for one in (fit, loaded))
        if isinstance(ours, pd.DataFrame):
            pd.testing.assert_frame_equal(ours, theirs, check_exact=True, obj=name)
        elif isinstance(ours, pd.Series):
            pd.testing.assert_series_equal(ours, theirs, check_exact=True, obj=name)
        else:
            assert repr(ours) == repr(theirs), name
    for refused in (loaded.compare, lambda: loaded.predict(kind="chance")):
        with pytest.raises(UnsupportedError, match="no longer has its rows"):
            refused()
    with pytest.raises(UnsupportedError, match=r"Give rows, data|levels"):
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
        ("conditions", [1.0, 0.5, 2.0], "condition numbers"),
        ("conditions", [1.0], "condition numbers"),
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
        "y by choice: a, b and c", "Effect of b instead of a on y", "Mean y by group",
        "This is not tested", "Corrected estimates in full", "choice of b instead of a",
        "difference under the model", "multinomial_switching(", "selfselect multinomial rows.csv",
    ):  # fmt: skip
        assert words in page, words
    dmf1.save(tmp_path / "fit.json")
    loaded: Any = ss.load(tmp_path / "fit.json")
    loaded.report(tmp_path / "loaded.html")
    page = (tmp_path / "loaded.html").read_text(encoding="utf-8")
    assert "which keeps none" in page and "Least squares needs rows" in page


def test_a_fit_of_columns_with_colons_in_their_names_loads(
    table: pd.DataFrame, tmp_path: Path
) -> None:
    named = table.rename(columns={"x": "a:x", "z1": "b:z"})
    fit = ss.multinomial_switching("y ~ `a:x`", "job ~ `a:x` + `b:z` + z2", named)
    fit.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    assert str(loaded.summary()) == str(fit.summary())
    assert loaded.predict(named).equals(fit.predict(named))
