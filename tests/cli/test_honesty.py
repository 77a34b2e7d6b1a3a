"""The shell's options for weights, ways of clustering, tests of the noise, and levels."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.cli.main import main


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(3)
    villagers = ss.simulators.village(300, seed=3).data
    villagers = villagers.assign(
        times=rng.integers(0, 4, 300), w=rng.uniform(0.5, 2.0, 300), hut=rng.integers(25, size=300),
        year=rng.integers(12, size=300), good=np.exp(villagers["income"] / 20.0),
    )  # fmt: skip
    path = tmp_path_factory.mktemp("table") / "villagers.csv"
    villagers.to_csv(path, index=False)
    return path


def run(capsys: Any, *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return int(stop.value.code or 0), said.out, said.err


def fitted(capsys: Any, table: Path, *options: object) -> dict[str, Any]:
    code, out, _ = run(
        capsys, "fit", table, "income ~ height + weight", "--chosen", "job", "--format", "json",
        *options,
    )  # fmt: skip
    assert code == 0
    content: dict[str, Any] = json.loads(out)
    return content


def test_weights_are_meant_as_the_shell_says(table: Path, capsys: Any) -> None:
    villagers = pd.read_csv(table)
    counted = fitted(capsys, table, "--weights", "times", "--weights-kind", "frequency")
    assert counted["fit"]["nobs"] == villagers["times"].sum()
    sampled = fitted(capsys, table, "--weights", "w", "--weights-kind", "probability")
    assert sampled["fit"]["covariance"] == "robust"


def test_several_clusters_are_several_ways(table: Path, capsys: Any) -> None:
    both = fitted(capsys, table, "--cluster", "hut", "--cluster", "year")
    by_hand = ss.fit(
        "income ~ height + weight", pd.read_csv(table), chosen="job", cluster=["hut", "year"]
    )
    errors = [row["std_error"] for row in both["coefficients"]]
    np.testing.assert_allclose(errors, by_hand.bse, rtol=1e-6)


def test_tests_of_the_noise_are_in_the_json_and_by_bootstrap_on_request(
    table: Path, capsys: Any
) -> None:
    quick = fitted(capsys, table)
    assert quick["normality_test"]["replications"] == 0
    slow = fitted(capsys, table, "--test-noise", 99, "--seed", 1)
    for name in ("normality_test", "heteroskedasticity_test"):
        assert slow[name]["replications"] == 99
        assert slow[name]["p_value"] * 100 == pytest.approx(round(slow[name]["p_value"] * 100))


def test_levels_are_predicted_with_a_saved_fit(table: Path, tmp_path: Path, capsys: Any) -> None:
    saved = tmp_path / "fit.json"
    code, _, _ = run(
        capsys, "fit", table, "np.log(good) ~ height", "--chosen", "job", "--save", saved
    )
    assert code == 0
    code, out, _ = run(capsys, "predict", saved, table, "--kind", "outcome", "--scale", "level")
    assert code == 0
    found = pd.read_csv(io.StringIO(out))
    assert list(found.columns) == ["good"]
    wanted = ss.load(saved).predict(pd.read_csv(table), kind="outcome", scale="level")
    np.testing.assert_allclose(found["good"], wanted, rtol=1e-9)


def test_levels_of_what_is_no_logarithm_are_one_line_of_error(
    table: Path, tmp_path: Path, capsys: Any
) -> None:
    saved = tmp_path / "fit.json"
    run(capsys, "fit", table, "income ~ height", "--chosen", "job", "--save", saved)
    code, _, error = run(capsys, "predict", saved, table, "--scale", "level")
    assert code == 2
    assert "undoes a logarithm" in error and len(error.strip().splitlines()) == 1
    code, _, error = run(
        capsys, "fit", table, "income ~ height", "--chosen", "job", "--test-noise", 3
    )
    assert code == 2 and "cannot reject at the level of the pages, 0.01. Give 99" in error
