"""Sample selection and switching from the shell."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.cli.main import main


@pytest.fixture
def shell(capsys):
    def run(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return int(stop.value.code or 0), said.out, said.err

    return run


@pytest.fixture
def table():
    rng = np.random.default_rng(2)
    x, z, u, v = rng.standard_normal((4, 400))
    works = 0.3 + x + z + u > 0
    y = np.where(works, 1 + x + 0.5 * u + v, x - 0.3 * u + v)
    return pd.DataFrame(
        {"x": x, "z": z, "works": works.astype(int), "y": y, "wage": np.where(works, y, np.nan)}
    )


@pytest.fixture
def file(table, tmp_path):
    table.to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path / "rows.csv"


def test_selection_prints_the_summary(shell, file, table):
    code, out, err = shell("selection", file, "wage ~ x", "works ~ x + z")
    assert (code, err) == (0, "")
    fit = ss.sample_selection("wage ~ x", "works ~ x + z", table)
    assert out == f"{fit.summary()}\n"


def test_switching_takes_one_formula_or_two(shell, file, table):
    code, out, _ = shell("switching", file, "works ~ x + z", "y ~ x", "--format", "json")
    assert code == 0
    found = json.loads(out)
    fit = ss.switching("y ~ x", "works ~ x + z", table)
    assert found["fit"]["llf"] == pytest.approx(fit.llf)
    code, out, _ = shell(
        "switching", file, "works ~ x + z", "--equation", "1=y ~ x", "--equation", "0=y ~ 1",
        "--method", "two-step", "--format", "csv",
    )  # fmt: skip
    assert code == 0
    assert "mills ratio" in out


def test_a_selection_without_a_left_side_is_of_the_rows_with_an_outcome(shell, file):
    named = shell("selection", file, "wage ~ x", "works ~ x + z", "--format", "csv")
    bare = shell("selection", file, "wage ~ x", "~ x + z", "--format", "csv")
    assert bare == named


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("switching", "FILE", "works ~ x"), "either a FORMULA or --equation"),
        (("switching", "FILE", "works ~ x", "y ~ q"), "no column 'q'"),
        (("selection", "FILE", "wage ~ x", "z ~ x"), "true or false"),
        (("selection", "nowhere.csv", "wage ~ x", "works ~ x"), "no file"),
        (("selection", "FILE", "wage ~ x", "works ~ x", "--covariance", "clustered"), "clusters"),
    ],
)
def test_bad_input_is_one_sentence_and_code_two(shell, file, arguments, words):
    code, out, err = shell(*(file if word == "FILE" else word for word in arguments))
    assert (code, out) == (2, "")
    assert words in err
    assert "Traceback" not in err


def test_a_fit_is_saved_reported_shown_and_predicted_with(shell, file, tmp_path):
    saved, page = tmp_path / "fit.json", tmp_path / "fit.html"
    code, out, err = shell(
        "switching", file, "y ~ x", "works ~ x + z", "--save", saved, "--report", page, "--compare",
    )  # fmt: skip
    assert (code, err) == (0, "") and "Naive least squares and corrected estimates" in out
    assert "selfselect switching" in page.read_text()
    code, shown, _ = shell("show", saved)
    assert code == 0 and out.startswith(shown.rstrip("\n"))
    code, chances, err = shell("predict", saved, file, "--kind", "chance")
    assert code == 0, err
    assert len(chances.splitlines()) == 401
    asked = ("effects", saved, file, "--what", "treatment", "--to", "1", "--versus", "0")
    code, effects, err = shell(*asked)
    assert code == 0, err
    assert "ATT" in effects
    code, _, err = shell("effects", saved, file, "--what", "gains", "--to", "1", "--versus", "0")
    assert code == 2 and "no row shows two outcomes" in " ".join(err.split())


def test_rows_may_be_clustered_in_two_ways_and_drawn_again(shell, tmp_path, table):
    data = table.assign(a=np.arange(400) % 50, b=np.arange(400) % 45)
    data.to_csv(tmp_path / "rows.csv", index=False)
    call = ("selection", tmp_path / "rows.csv", "wage ~ x", "works ~ x + z")
    code, out, _ = shell(*call, "--cluster", "a", "--cluster", "b")
    assert code == 0 and "clustered by a and b (50 and 45 clusters)" in " ".join(out.split())
    code, out, _ = shell(*call, "--covariance", "bootstrap", "--seed", "1")
    assert code == 0 and "bootstrap of rows, 400 samples" in out


def test_tests_of_the_noise_are_by_bootstrap_on_request(shell, file, table):
    asked = ("switching", file, "works ~ x + z", "y ~ x", "--format", "json")
    code, out, _ = shell(*asked, "--test-noise", 99, "--seed", 1)
    assert code == 0
    fit = ss.switching("y ~ x", "works ~ x + z", table)
    for name in ("normality_test", "heteroskedasticity_test"):
        test = getattr(fit, name)(99, seed=1)
        assert json.loads(out)[name]["p_value"] == pytest.approx(test.p_value)
        assert json.loads(out)[name]["replications"] == 99


def test_limits_and_instruments_are_those_of_the_library(shell, file, table):
    top = table.assign(wage=table["wage"].mask(table["wage"] > 2), q=np.sin(np.arange(400)))
    top.to_csv(file, index=False)
    code, out, _ = shell(
        "selection", file, "wage ~ x", "works ~ x + z", "--outcome-between", "2", "-",
        "--format", "json",
    )  # fmt: skip
    fit = ss.sample_selection("wage ~ x", "works ~ x + z", top, outcome_between=(2.0, None))
    assert code == 0 and json.loads(out)["fit"]["llf"] == pytest.approx(fit.llf)
    code, out, _ = shell(
        "switching", file, "works ~ x + z", "y ~ x", "--endogenous", "x=~ q", "--method", "two-step"
    )
    assert code == 0 and "First stage of x: q; F(1, 397)" in out
