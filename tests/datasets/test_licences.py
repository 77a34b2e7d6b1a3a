"""Every data set says whose it is, where it is from, what was changed, and its licence."""

from __future__ import annotations

from pathlib import Path

import pytest

import selfselect.datasets

FOLDER = Path(selfselect.datasets.__file__).parent
NOTICE = Path(__file__).parents[2] / "NOTICE"

SETS = sorted(path.parent.name for path in FOLDER.glob("*/*.csv"))


@pytest.mark.parametrize("name", SETS)
def test_a_data_set_has_its_licence_in_full(name: str) -> None:
    text = (FOLDER / name / "LICENCE.md").read_text(encoding="utf-8")
    for part in ("**What.**", "**Whence.**", "**What was changed.**", "**Licence.**"):
        assert part in text
    assert "MIT License\n\nCopyright (c) 20" in text
    assert "The above copyright notice and this permission notice shall be included" in text
    assert 'THE SOFTWARE IS PROVIDED "AS IS"' in text


@pytest.mark.parametrize("name", SETS)
def test_the_notice_names_every_data_set_and_its_right_holder(name: str) -> None:
    notice = NOTICE.read_text(encoding="utf-8")
    holder = next(
        line
        for line in (FOLDER / name / "LICENCE.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("Copyright (c)")
    )
    assert f"datasets/{name} " in notice and holder in notice


def test_data_sets_are_listed_with_descriptions_and_sources() -> None:
    found = selfselect.datasets.listed()
    assert found.index.tolist() == SETS
    assert found["description"].str.contains("rows").all()
    assert found["source"].str.contains("licence").all()


def test_the_list_of_data_sets_is_printed_in_full_and_is_a_table() -> None:
    found = selfselect.datasets.listed()
    printed = str(found)
    assert max(map(len, printed.splitlines())) <= selfselect.datasets.WIDTH
    for sentence in (*found["description"], *found["source"]):
        assert sentence in " ".join(printed.split())
        assert sentence.split()[-1] in found._repr_html_()
    assert found.loc["careers", "source"].startswith("Keane and Wolpin")
