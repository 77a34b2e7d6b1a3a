"""What is too large, no seed, no text or no number is refused before anything is built."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.cli.main import main
from selfselect.data import rows
from selfselect.errors import DataError, OptionError

NO_SEEDS = [-1, "a", 1.5, True, [1], float("nan"), np.float64(2.0)]


@pytest.fixture(scope="module")
def villagers():
    return ss.simulators.village(300, seed=5).data


@pytest.fixture(scope="module")
def fit(villagers):
    return ss.fit("income ~ height", villagers, chosen="job")


# seeds


@pytest.mark.parametrize("seed", NO_SEEDS, ids=repr)
def test_what_is_no_seed_is_refused_wherever_one_is_taken(seed, villagers, fit):
    model = {"formula": "income ~ height", "data": villagers}
    simulators = ss.simulators
    asked = [
        lambda: ss.fit(**model, chosen="job", seed=seed),
        lambda: ss.fit(**model, chosen="job", covariance="bootstrap", seed=seed),
        lambda: ss.pose(**model, chosen="job", seed=seed),
        lambda: ss.choose_alternatives(*model.values(), [2], seed=seed),
        lambda: ss.simulate({"a": {"x": 1.0}, "b": {"x": 2.0}}, {"x": [1.0, 2.0]}, seed=seed),
        lambda: fit.normality_test(19, seed=seed),
        lambda: fit.heteroskedasticity_test(19, seed=seed),
        lambda: fit.gains("hunting", "fishing", seed=seed),
        lambda: ss.rules.check(ss.rules.Maximum(), 2, seed=seed),
        lambda: ss.SelfSelectionRegressor(random_state=seed).fit(
            villagers[["height"]].to_numpy(), villagers["income"], chosen=villagers["job"]
        ),
        *(
            lambda make=make: make(20, seed=seed)
            for make in (simulators.village, simulators.market, simulators.auction,
                         simulators.tender, simulators.curved)
        ),
        lambda: simulators.hostile("rare", 200, seed=seed),
        lambda: simulators.gaussian(20, 2, 2, seed=seed),
    ]  # fmt: skip
    for ask in asked:
        with pytest.raises(OptionError, match=r"is not a seed. Give a whole number from 0 on"):
            ask()


def test_a_seed_that_must_be_given_is_not_none(fit):
    for ask in (ss.simulators.village, fit.gains):
        words = (20,) if ask is ss.simulators.village else ("hunting", "fishing")
        with pytest.raises(OptionError, match="seed=None is not a seed"):
            ask(*words, seed=None)


def test_seeds_of_numpy_are_seeds(villagers):
    pd.testing.assert_frame_equal(ss.simulators.village(300, seed=np.int64(5)).data, villagers)


@pytest.mark.parametrize("words", [["simulate", "village", "--rows", "10"], ["demo"]])
def test_the_shell_refuses_what_is_no_seed(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in ("-1", "a", "1.5"):
        with pytest.raises(SystemExit) as ended:
            main([*words, "--seed", seed])
        assert ended.value.code == 2
        assert "internal" not in capsys.readouterr().err


# sizes


def test_a_thousand_million_alternatives_are_refused_at_once(villagers):
    begun = time.perf_counter()
    with pytest.raises(DataError, match=r"1,000,000,000 alternatives .* would take at least .* EB"):
        ss.fit("income ~ height", villagers, alternatives=10**9)
    with pytest.raises(DataError, match="would take at least"):
        ss.pose("income ~ height", villagers, alternatives=10**12)
    with pytest.raises(OptionError, match="More than 1000 numbers"):
        ss.choose_alternatives("income ~ height", villagers, range(1, 10**9))
    assert time.perf_counter() - begun < 5.0


def test_the_shell_survives_a_thousand_million_alternatives(villagers, tmp_path):
    villagers.to_csv(tmp_path / "rows.csv", index=False)
    words = ["fit", str(tmp_path / "rows.csv"), "income ~ height", "--alternatives", "1000000000"]
    ran = subprocess.run(
        [sys.executable, "-m", "selfselect", *words], check=False, capture_output=True, text=True
    )
    assert ran.returncode == 2 and "of memory" in ran.stderr


def test_what_does_not_fit_into_memory_is_refused_with_the_numbers(monkeypatch):
    monkeypatch.setattr(rows, "memory_left", lambda: 3e9)
    rows.refuse_beyond_memory("A table", 2.9e9)
    with pytest.raises(DataError, match=r"A table would take at least 4 GB .* 3 GB are free. Cut."):
        rows.refuse_beyond_memory("A table", 4e9, "Cut.")
    monkeypatch.setattr(rows, "memory_left", lambda: None)
    rows.refuse_beyond_memory("A table", 1e30)


def test_little_is_built_without_asking_how_much_memory_there_is(monkeypatch):
    def never():
        raise AssertionError

    monkeypatch.setattr(rows, "memory_left", never)
    rows.refuse_beyond_memory("Little", 1e8)


def test_memory_that_is_left_is_a_number_that_a_process_can_believe():
    left = rows.memory_left()
    assert left is None or 1e6 < left < 1e15


def test_a_model_of_too_many_parameters_is_refused_before_its_matrices(villagers, monkeypatch):
    monkeypatch.setattr(rows, "memory_left", lambda: 10.0)
    monkeypatch.setattr(rows, "NO_QUESTION", 100)
    with pytest.raises(DataError, match=r"2 alternatives with 6 parameters or more would take"):
        ss.fit("income ~ height", villagers, chosen="job")


# weights


@pytest.mark.parametrize("kind", [None, "probability", "frequency"])
def test_weights_whose_sums_overflow_are_refused(kind, villagers, tmp_path):
    heavy = villagers.assign(w=1e308)
    with pytest.raises(DataError, match=r"The weights go up to 1e\+308"):
        ss.fit("income ~ height", heavy, chosen="job", weights="w", weights_kind=kind)
    heavy.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=r"The weights go up to 1e\+308"):
        ss.fit(
            "income ~ height", str(tmp_path / "rows.parquet"), chosen="job", weights="w",
            weights_kind=kind,
        )  # fmt: skip


def test_weights_of_selection_models_that_overflow_are_refused(villagers):
    heavy = villagers.assign(w=1e308)
    with pytest.raises(DataError, match=r"The weights go up to 1e\+308"):
        ss.switching("income ~ height", "job ~ weight", heavy, weights="w")


# half of a character


def test_names_that_cannot_be_printed_are_refused(villagers):
    half = pd.Series(
        ["\ud800" if job == "hunting" else "b" for job in villagers["job"]], dtype=object
    )
    columns = {name: villagers[name].to_numpy() for name in ("income", "height", "weight")}
    asked = [
        lambda: ss.fit("income ~ height", villagers.assign(job=half), chosen="job"),
        lambda: ss.fit("income ~ height", {**columns, "job": half.to_numpy()}, chosen="job"),
        lambda: ss.fit({"\ud800": "income ~ height", "b": "income ~ weight"}, villagers),
        lambda: ss.fit("income ~ `h\ud800`", {**columns, "h\ud800": columns["height"],
                                              "job": villagers["job"].to_numpy()}, chosen="job"),
        lambda: ss.switching("income ~ height", "job ~ weight", villagers.assign(job=half)),
    ]  # fmt: skip
    for ask in asked:
        with pytest.raises(DataError, match="half of a character") as refused:
            ask()
        str(refused.value).encode("utf-8")
