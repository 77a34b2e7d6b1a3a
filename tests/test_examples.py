"""The worked applications run, say what they should, and draw."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("careers", "INDEPENDENCE REJECTED"),
        ("doctor", "Regret by patients on record"),
        ("scores", "the rule matters"),
        ("auctions", "Truth: the mean winning log bid"),
    ],
)
def test_an_example_runs_and_draws(
    name: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load(name).main(tmp_path)
    assert sentence in capsys.readouterr().out
    (picture,) = tmp_path.iterdir()
    assert picture.name == f"{name}.png" and picture.stat().st_size > 10_000


def test_the_policy_of_the_doctor_beats_least_squares_by_far() -> None:
    curve = load("doctor").learning_curve((1_000,), seeds=2)
    assert curve["corrected"].iloc[0] < 0.05 * curve["least squares"].iloc[0]


def test_the_simulated_careers_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    load("careers").check_against_truth()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.strip()[:2] == "AT"]
    assert len(lines) == 3
    for line in lines:
        estimate, error, *_, truth = (float(number) for number in line.split()[-7:])
        assert abs(estimate - truth) < 4 * error


def test_the_simulated_market_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    load("housing").check_against_truth()
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    found = [row for row in rows if row[0] in ("demand", "supply", "(common)")]
    assert len(found) == 7
    for *_, estimate, error, truth in found:
        assert abs(float(estimate) - float(truth)) < 4 * float(error)
