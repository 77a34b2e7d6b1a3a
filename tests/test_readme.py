"""The README's example and commands run, and what it says is true."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from selfselect.cli.main import cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_runs_and_writes_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) == 1
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks[0], "README.md", "exec"), {})
    assert "income ~ height + weight" in (tmp_path / "fit.html").read_text(encoding="utf-8")
    printed = capsys.readouterr().out
    assert "self-selection, known index" in printed
    assert "self-selection, unknown index" in printed
    assert "difference under the model" in printed


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


def test_it_is_one_screen() -> None:
    assert len(README.splitlines()) <= 50
    code = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)[0]
    assert sum(bool(line.strip()) for line in code.splitlines()) == 10


def test_its_table_of_speed_is_that_of_the_benchmarks() -> None:
    rows, fits, ratios = (
        [cell.strip() for cell in line.strip("|").split("|")[1:]]
        for line in README.splitlines()
        if re.match(r"\| (rows|fit|fit and summary.*?) \|", line)
    )
    measured = (ROOT / "docs" / "studies" / "speed.md").read_text(encoding="utf-8")
    units = {"ms": 1.0, "s": 1e3}
    for n_rows, fit, ratio in zip(rows, fits, ratios, strict=True):
        own = re.search(rf"^\| `ss.fit` on a frame \| {n_rows} \| ([\d.]+) ms", measured, re.M)
        page = re.search(
            rf"^\| `ss.fit` on a frame and its page / .*? \| {n_rows} \| ([\d.]+) \|",
            measured,
            re.M,
        )
        assert own is not None
        assert page is not None
        value, unit = fit.split()
        assert float(value) * units[unit] == pytest.approx(float(own[1]), rel=0.05)
        assert ratio == f"{float(page[1]):.2f}"


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
