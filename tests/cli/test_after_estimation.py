"""What the shell offers after estimation: intervals, combinations, levels."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.cli.main import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("after")
    table = ss.simulators.village(300, seed=1).data
    table["pay"] = np.exp(0.05 * table["income"] - 4)
    table.to_csv(made / "rows.csv", index=False)
    fit = ss.fit("log(pay) ~ height + weight", table, chosen="job", covariance="hc1")
    fit.save(made / "fit.json")
    return made


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run(*words: object, code: int = 0) -> str:
        with pytest.raises(SystemExit) as stopped:
            main([str(word) for word in words])
        said = capsys.readouterr()
        assert (stopped.value.code or 0) == code, said
        return said.out + said.err

    return run


def test_predictions_have_intervals(shell: Callable[..., str], folder: Path) -> None:
    shell("predict", folder / "fit.json", folder / "rows.csv", "--level", 0.9, "--kind", "chance",
        "--out", folder / "made.csv")  # fmt: skip
    made = pd.read_csv(folder / "made.csv")
    assert made.columns[:4].tolist() == [
        f"fishing:{name}" for name in ("estimate", "std_error", "conf_low", "conf_high")
    ]
    fit, rows = ss.load(folder / "fit.json"), pd.read_csv(folder / "rows.csv")
    np.testing.assert_allclose(made, fit.predict(rows, kind="chance", level=0.9), rtol=1e-9)


def test_a_saved_fit_shows_combinations_and_stars(shell: Callable[..., str], folder: Path) -> None:
    text = shell(
        "show", folder / "fit.json", "--stars", "--combination", "exp(hunting:height) - 1",
        "--combination", "hunting:height - fishing:height",
    )  # fmt: skip
    assert "exp(hunting:height) - 1" in text
    assert "* p < 0.05" in text


def test_effects_have_a_scale(shell: Callable[..., str], folder: Path) -> None:
    asked = ("effects", folder / "fit.json", folder / "rows.csv", "--scale", "level")
    text = shell(*asked, "--what", "treatment", "--to", "hunting", "--versus", "fishing")
    assert "per cent" in text
    assert "Mean pay by group" in shell(*asked)
    assert "has no --scale: leave it out" in shell(*asked, "--what", "chances", code=2)


def test_a_saved_switching_regression_has_marginal_treatment_effects(
    shell: Callable[..., str], folder: Path
) -> None:
    rows = pd.read_csv(folder / "rows.csv")
    fit = ss.switching("income ~ height", "job ~ height + weight", rows)
    fit.save(folder / "switching.json")
    asked = ("effects", folder / "switching.json", folder / "rows.csv", "--what", "mte")
    text = shell(*asked)
    assert "Marginal effect of fishing instead of hunting" in text and "ATU" in text
    shell(*asked, "--out", folder / "curve.csv")
    curve = pd.read_csv(folder / "curve.csv")
    np.testing.assert_allclose(curve["estimate"], fit.mte().table["estimate"], rtol=1e-8)


def test_a_saved_fit_is_said_in_words(shell: Callable[..., str], folder: Path) -> None:
    said = shell("show", folder / "fit.json", folder / "rows.csv", "--explain")
    assert "hunting instead of fishing: " in " ".join(said.split())
    assert "Effect of job on the mean of pay" in said
    without = " ".join(shell("show", folder / "fit.json", "--explain").split())
    assert "`selfselect show FIT ROWS --explain`" in without
    assert "DATA is for --explain" in shell(
        "show", folder / "fit.json", folder / "rows.csv", code=2
    )


def test_a_fit_is_said_in_words_and_judged(shell: Callable[..., str], folder: Path) -> None:
    asked = ("fit", folder / "rows.csv", "income ~ height", "--chosen", "job")
    said = shell(*asked, "--verdict", "--question", "hunting:height", "--explain")
    assert "Verdict on hunting:height" in said
    assert "VERDICT. AGREED" in said  # quoted among the words
    assert "Give --verdict too" in shell(*asked, "--question", "hunting:height", code=2)


@pytest.mark.parametrize(
    ("effect", "words"),
    [("ATT", "for those who choose it (ATT)"), ("ATU", "for those who do not choose it (ATU)")],
)
def test_a_verdict_on_the_effect_for_those_who_choose(
    shell: Callable[..., str], folder: Path, effect: str, words: str
) -> None:
    asked = ("fit", folder / "rows.csv", "income ~ height", "--chosen", "job")
    said = shell(*asked, "--verdict", "--question", f"hunting - fishing, {effect}")
    assert words in " ".join(said.split())


def test_a_verdict_is_saved_with_its_fit(shell: Callable[..., str], folder: Path) -> None:
    asked = ("fit", folder / "rows.csv", "income ~ height", "--chosen", "job", "--verdict")
    shell(*asked, "--save", folder / "judged.json")
    made = ss.load(folder / "judged.json").verdict()
    said = shell("show", folder / "judged.json", folder / "rows.csv", "--explain")
    assert " ".join(made.agreed.split()) in " ".join(said.split())


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("hunting:hight", "--question: .*hunting:height"),
        ("hunting:height = 1", "--question: .*has an '='"),
        ("hunting:scale", "--question: .*another thing under another noise"),
        ("hunting - hunting", "--question: .*compared with itself"),
        ("hunting - fishing, ATX", "--question: There is no effect 'ATX'. Use one of ATE, ATT"),
    ],
)
@pytest.mark.parametrize(
    "model", [("fit", "income ~ height", "--chosen", "job"),
              ("switching", "income ~ height", "job ~ height + weight")],
)  # fmt: skip
def test_a_question_that_cannot_be_asked_is_refused_before_the_fit(
    shell: Callable[..., str], folder: Path, question: str, said: str, model: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def solve(*_: object, **__: object) -> None:
        raise AssertionError("the fit was solved")

    monkeypatch.setattr(ss.solvers.Newton, "solve", solve)
    monkeypatch.setattr("selfselect.solvers.selection_search.SelectionSearch.solve", solve)
    command, *words = model
    found = shell(command, folder / "rows.csv", *words, "--verdict", "--question", question, code=2)
    assert re.search(said, found)


def test_a_verdict_of_files_read_piece_by_piece_is_refused_before_the_fit(
    shell: Callable[..., str], folder: Path
) -> None:
    (folder / "more.csv").write_text((folder / "rows.csv").read_text())
    both = ("fit", folder / "rows.csv", folder / "more.csv", "income ~ height", "--chosen", "job")
    assert "not held in memory" in shell(*both, "--verdict", code=2)
