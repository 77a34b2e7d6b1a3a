"""The README's example and commands run, and what it says is true."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import selfselect as ss
from selfselect.cli.main import cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_prints_what_the_readme_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```", README, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    ss.simulators.village(2_000, seed=1).data.to_csv("villagers.csv", index=False)
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert capsys.readouterr().out == printed
    assert "income ~ height + weight" in (tmp_path / "fit.html").read_text(encoding="utf-8")
    assert (tmp_path / "explore.html").stat().st_size > 0
    row = names["result"].compare().table.loc[("hunting", "weight")]
    shown = f"−0.30<br>{row['naive']:+.2f}<br>{row['corrected']:+.2f}".replace("-", "−")
    assert shown in README
    assert ss.simulators.village(10, seed=1).params["hunting", "weight"] == -0.3


def test_its_published_numbers_are_those_of_the_page_that_says_where_they_are_from() -> None:
    page = (ROOT / "docs" / "from-stata-and-r.md").read_text(encoding="utf-8")
    lines = re.findall(
        r"^\| .*(?:likelihood|effect).*\| (.*) \| (.*) \|$", README, flags=re.MULTILINE
    )
    assert len(lines) == 3
    for number in re.findall(r"[\d.]+", " ".join(" ".join(pair) for pair in lines)):
        assert number in page


def test_its_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "test"):
        assert f"make {target}" in README
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


def test_its_commands_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = re.findall(r"^selfselect (.*)$", README, flags=re.MULTILINE)
    assert len(commands) == 2
    monkeypatch.chdir(tmp_path)
    for command in commands:
        assert CliRunner().invoke(cli, shlex.split(command)).exit_code == 0
    assert {one.name for one in tmp_path.iterdir()} == {"villagers.csv", "fit.html"}


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 75
    assert max(map(len, README.splitlines())) <= 210


def test_its_speed_is_that_of_the_benchmarks() -> None:
    measured = (ROOT / "docs" / "studies" / "speed.md").read_text(encoding="utf-8")
    fit = re.search(r"^\| `ss.fit` on a frame \| 1,000,000 \| ([\d.]+) ms", measured, re.MULTILINE)
    page = re.search(
        r"^\| `ss.fit` on a frame and its page / .*? \| 1,000,000 \| ([\d.]+) \|",
        measured,
        re.MULTILINE,
    )
    assert fit is not None
    assert page is not None
    assert f"{float(fit[1]) / 1e3:.2f} s with standard errors" in README
    assert f"{float(page[1]):.2f} of the time of least squares" in README


def test_its_links_lead_to_files() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README) + re.findall(r'src="([^"]+)"', README)
    assert links
    missing = [link for link in links if not (ROOT / link).exists()]
    assert not missing


def test_its_badges_say_what_the_project_says() -> None:
    badges = runpy.run_path(str(ROOT / "docs" / "badges.py"))
    facts = badges["facts"]()
    assert set(facts) == {"python", "licence", "tests"}
    for name, value in facts.items():
        file = ROOT / "docs" / "images" / f"badge-{name}.svg"
        assert file.read_text(encoding="utf-8") == badges["badge"](name, value), (
            "run python docs/badges.py"
        )
        assert f"![{name}: {value}](docs/images/badge-{name}.svg)" in README
    assert "MIT License" in (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert facts["licence"] == "MIT"
    assert not re.search(r"!\[[^]]*\]\(http", README)  # no picture from the network
