"""The README's example runs, and its commands are there."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_runs_and_saves_a_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) == 1
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks[0], "README.md", "exec"), {})
    assert (tmp_path / "fit.json").exists()
    printed = capsys.readouterr().out
    assert "self-selection, known index" in printed
    assert "self-selection, unknown index" in printed
    assert "difference under the model" in printed


def test_its_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "test"):
        assert f"make {target}" in README
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


def test_its_links_lead_to_files() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README)
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
