"""`selfselect bounds` has the options of `selfselect.bounds` and gives its numbers."""

from __future__ import annotations

import inspect

import pandas as pd
import pytest

import selfselect as ss
from selfselect.cli.bounds import command
from selfselect.cli.main import main


@pytest.fixture(scope="module")
def villagers(tmp_path_factory):
    path = tmp_path_factory.mktemp("bounds") / "villagers.csv"
    data = ss.simulators.village(300, seed=1).data
    data.assign(region=["north", "south", "west"] * 100).to_csv(path, index=False)
    return path


def run(*words):
    with pytest.raises(SystemExit) as ended:
        main(["bounds", *map(str, words)])
    return ended.value.code


def test_the_command_prints_the_page(villagers, capsys):
    assert run(villagers, "income ~ 1", "--chosen", "job", "--support", "0", "300") == 0
    shown = capsys.readouterr().out
    found = ss.bounds("income", pd.read_csv(villagers), chosen="job", support=(0, 300))
    assert shown.strip() == str(found).strip()


def test_the_command_writes_a_table(villagers, tmp_path):
    out = tmp_path / "bounds.csv"
    words = ["--chosen", "job", "--by", "region", "--quantile", "0.5", "--out", out]
    assert run(villagers, "income ~ 1", *words) == 0
    found = ss.bounds("income", pd.read_csv(villagers), chosen="job", by="region", quantiles=[0.5])
    pd.testing.assert_frame_equal(pd.read_csv(out), found.quantiles)


def test_errors_are_one_sentence_on_standard_error(villagers, capsys):
    assert run(villagers, "income ~ 1") == 2
    assert "no bounds without --chosen" in capsys.readouterr().err


def test_every_option_of_the_function_is_one_of_the_command():
    named = {"quantiles": "quantiles", "formula": "words", "data": "words", "progress": None}
    taken = {parameter.name for parameter in command.params}
    taken |= {"available", "possible"}
    renamed = {"cost": "costs", "cluster": "clusters", "points": "points"}
    for option in inspect.signature(ss.bounds).parameters:
        wanted = named.get(option, renamed.get(option, option))
        assert wanted is None or wanted in taken, option


def test_the_outcome_alone_is_enough(villagers, capsys):
    assert run(villagers, "income ~ 1", "--chosen", "job") == 0
    expected = capsys.readouterr().out
    assert run(villagers, "income", "--chosen", "job") == 0
    assert capsys.readouterr().out == expected
