"""The command `effects`: every kind prints its page or writes its table; bad input exits with 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import selfselect as ss
from selfselect.cli.main import BAD_INPUT, main

KINDS: dict[str, tuple[tuple[str, ...], str]] = {
    "outcomes": ((), "Mean income by group"),
    "chances": ((), "Chance that each alternative is chosen"),
    "marginal": ((), "variable: height"),
    "treatment": (("--to", "hunting", "--versus", "fishing"), "ATT, hunting chosen"),
    "heterogeneity": (("--to", "hunting", "--versus", "fishing"), "ATT, ATU and ATT - ATU"),
    "sorting": ((), "comparative advantage"),
    "gains": (("--to", "hunting", "--versus", "fishing"), "share above zero"),
    "policy": ((), "policy - expert"),
    "decompose": (("--to", "hunting", "--versus", "fishing"), "gap in the data"),
    "subsidy": (("--subsidy", "fishing=5"), "fishing is subsidised by 5"),
    "quota": (("--quota", "fishing=0.3", "--rationing", "lottery"), "fishing"),
    "close": (("--alternative", "fishing"), "If fishing is closed"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a saved fit and the table it was fitted to."""
    folder = tmp_path_factory.mktemp("effects")
    villagers = ss.simulators.village(200, seed=3).data
    villagers.to_csv(folder / "villagers.csv", index=False)
    ss.fit("income ~ height + weight", villagers, chosen="job").save(folder / "fit.json")
    return folder / "fit.json", folder / "villagers.csv"


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return int(stop.value.code or 0), said.out, said.err

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_prints_and_writes(
    kind: str, files: tuple[Path, Path], shell: Callable[..., Any], tmp_path: Path
) -> None:
    options, words = KINDS[kind]
    code, out, err = shell("effects", *files, "--what", kind, *options)
    assert (code, err) == (0, "") and words in out
    target = tmp_path / "table.csv"
    code, out, _ = shell("effects", *files, "--what", kind, *options, "--out", target)
    assert (code, out) == (0, "")
    assert len(pd.read_csv(target)) >= 2


def test_the_table_is_that_of_the_method(
    files: tuple[Path, Path], shell: Callable[..., Any], tmp_path: Path
) -> None:
    target = tmp_path / "effects.csv"
    arguments = ("--what", "treatment", "--to", "hunting", "--versus", "fishing", "--level", "0.9")
    shell("effects", *files, *arguments, "--out", target)
    data = pd.read_csv(files[1])
    expected = ss.load(files[0]).treatment_effects("hunting", "fishing", data, level=0.9).table
    pd.testing.assert_frame_equal(pd.read_csv(target), expected, check_dtype=False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--what", "treatment", "--to", "hunting"), "needs two alternatives"),
        (("--what", "close"), "needs at least one --alternative"),
        (("--what", "close", "--alternative", "mining"), "no alternative 'mining'"),
        (("--what", "wages"), "'wages' is not one of"),
        (("--what", "subsidy"), "needs at least one --subsidy"),
        (("--what", "quota", "--quota", "fishing=many"), "takes ALTERNATIVE=NUMBER"),
        (("--what", "chances", "--quota", "fishing=0.2"), "--quota is not for --what chances"),
        (("--subsidy", "fishing=3"), "--subsidy is not for --what outcomes"),
        (("--what", "sorting", "--to", "hunting"), "--to is not for --what sorting"),
        (("--level", "95"), "not a confidence level"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: tuple[str, ...], words: str, files: tuple[Path, Path], shell: Callable[..., Any]
) -> None:
    code, out, err = shell("effects", *files, *arguments)
    assert (code, out) == (BAD_INPUT, "") and words in err
    assert err.startswith("error: ") and err.count("\n") == 1
