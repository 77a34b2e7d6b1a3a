"""Multinomial switching from the shell."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.cli.main import main


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run(*words: object, code: int = 0) -> str:
        with pytest.raises(SystemExit) as stopped:
            main([str(word) for word in words])
        said = capsys.readouterr()
        assert (stopped.value.code or 0) == code, said
        return said.out + said.err

    return run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rng = np.random.default_rng(2)
    x, z = rng.standard_normal((2, 500))
    pull = np.column_stack([0 * x, 0.5 * x + z, z - 0.5 * x]) + rng.gumbel(size=(500, 3))
    job = np.array(["a", "b", "c"])[pull.argmax(axis=1)]
    table = pd.DataFrame({"x": x, "z": z, "job": job, "y": x + rng.standard_normal(500)})
    table["here"] = True
    table.to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path / "rows.csv"


def test_it_prints_the_summary_and_effects(shell: Callable[..., str], file: Path) -> None:
    text = shell(
        "multinomial", file, "job ~ x + z", "y ~ x", "--correction", "dmf2", "--effect", "b=a",
        "--available", "c=here",
    )  # fmt: skip
    assert "Multinomial switching regression" in text and "noises turned normal" in text
    assert "Effect of b instead of a on y" in text


def test_tables_are_those_of_the_library(shell: Callable[..., str], file: Path) -> None:
    made = pd.read_csv(
        StringIO(
            shell("multinomial", file, "job ~ x + z", "--format", "csv", "--correction", "lee",
                  "--equation", "a=y ~ x", "--equation", "b=y ~ x", "--equation", "c=y ~ 1")
        )
    )  # fmt: skip
    formulas = {"a": "y ~ x", "b": "y ~ x", "c": "y ~ 1"}
    result = ss.multinomial_switching(formulas, "job ~ x + z", pd.read_csv(file), correction="lee")
    np.testing.assert_allclose(made["estimate"], result.values, rtol=1e-9)
    np.testing.assert_allclose(made["std_error"], result.bse, rtol=1e-9)


def test_results_are_explained_from_a_table_and_from_a_saved_fit(
    shell: Callable[..., str], file: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "fit.json"
    text = shell("multinomial", file, "job ~ x + z", "y ~ x", "--explain", "--save", saved)
    result = ss.multinomial_switching("y ~ x", "job ~ x + z", pd.read_csv(file))
    assert str(result.explain()) in text
    said = shell("show", saved, file, "--explain")
    assert str(result.explain(pd.read_csv(file)).answers[0])[:60] in " ".join(said.split())


def test_bad_input_is_one_sentence_and_code_two(shell: Callable[..., str], file: Path) -> None:
    assert "either a FORMULA" in shell("multinomial", file, "job ~ z", code=2)
    said = shell("multinomial", file, "job ~ x + z", "y ~ x", "--degree", 3, code=2)
    assert "has no degree" in said
    said = shell("multinomial", file, "job ~ x + z", "y ~ x", "--correction", "dahl",
                 "--effect", "b=a", code=2)  # fmt: skip
    assert "not identified" in said


def test_an_alternative_is_compared_with_several_others(
    shell: Callable[..., str], file: Path
) -> None:
    text = shell("multinomial", file, "job ~ x + z", "y ~ x", "--effect", "b=a", "--effect", "b=c")
    assert "Effect of b instead of a on y" in text and "Effect of b instead of c on y" in text


def test_a_saved_fit_is_shown_predicts_and_has_effects(
    shell: Callable[..., str], file: Path, tmp_path: Path
) -> None:
    saved, report = tmp_path / "fit.json", tmp_path / "report.html"
    text = shell("multinomial", file, "y ~ x", "job ~ x + z", "--save", saved, "--report", report)
    assert "selfselect multinomial" in report.read_text(encoding="utf-8")
    assert shell("show", saved) == text
    content = json.loads(shell("show", saved, "--format", "json"))
    assert content["fit"]["correction"] == "dmf1" and content["selection_test"]["df"] == 9
    result = ss.multinomial_switching("y ~ x", "job ~ x + z", pd.read_csv(file))
    made = pd.read_csv(StringIO(shell("predict", saved, file, "--kind", "chance")))
    np.testing.assert_allclose(made, result.predict(kind="chance"), rtol=1e-9)
    said = shell("effects", saved, file, "--what", "treatment", "--to", "b", "--versus", "a")
    assert said.strip() == str(result.treatment_effects("b", "a", pd.read_csv(file))).strip()
    for words in (
        ("effects", saved, file, "--what", "gains", "--to", "b", "--versus", "a"),
        ("effects", saved, file, "--scale", "level"),
        ("predict", saved, file, "--scale", "level"),
        ("predict", saved, file, "--kind", "scale"),
        ("show", saved, "--diagnose"),
        ("explore", saved, file, "--out", tmp_path / "page.html"),
        ("plot", saved, "--what", "coefficients", "--out", tmp_path / "picture.png"),
        (
            "plot",
            saved,
            file,
            "--what",
            "gains",
            "--to",
            "b",
            "--versus",
            "a",
            "--out",
            tmp_path / "picture.png",
        ),
    ):
        assert "multinomial switching regression" in shell(*words, code=2)
