"""The examples of the how-to page that come with their data run, and show what they promise."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).parents[1] / "docs" / "how-to.md").read_text(encoding="utf-8")
WITH_DATA = PAGE[PAGE.index("## Noise that is not independent") :]


def test_the_examples_run_one_after_the_other() -> None:
    blocks = re.findall(r"```python\n(.*?)```", WITH_DATA, flags=re.DOTALL)
    assert len(blocks) == 7
    here: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "how-to.md", "exec"), here)
    names = ("independent", "correlated", "known", "estimated", "home", "top_coded", "partly")
    names += ("typed", "effect")
    assert all(here[name].converged for name in names)
    assert here["independent"].independence_test().rejects()
    assert here["moving"].converged and here["moving"].lr_test(here["constant"]).p_value < 1e-3
    slope, error = (
        one["office", "log scale: age"] for one in (here["moving"].params, here["moving"].bse)
    )
    assert abs(slope - 0.04) < 4 * error
    assert here["correlated"].lr_test(here["independent"]).p_value < 1e-3
    cost, error = (here["estimated"].params, here["estimated"].bse)
    assert abs(cost["farm", "cost: fare"] - 0.5) < 4 * error["farm", "cost: fare"]


def test_the_examples_of_how_much_is_the_data_run_one_after_the_other() -> None:
    page = Path(__file__).parents[1] / "docs" / "how-much-is-the-data.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 6
    here: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, page.name, "exec"), here)
    assert len(here["beside"].outside()) == 0
    assert here["rehearsed"].returned == 1.0
    assert not here["sharper"].tests[0].rejects()
