"""The examples of the how-to page that come with their data run, and show what they promise."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[1] / "docs"
WITHOUT_DATA = {"how-to.md": "## Noise that is not independent"}
"""Pages whose examples have their data only from this heading on."""


def examples(page: str) -> list[str]:
    """Return the Python of a page, block by block."""
    text = (DOCS / page).read_text(encoding="utf-8")
    text = text[text.index(WITHOUT_DATA.get(page, "")) :]
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def run(page: str) -> dict[str, Any]:
    """Run the examples of a page one after the other; return all that they name."""
    here: dict[str, Any] = {}
    for block in examples(page):
        exec(compile(block, page, "exec"), here)
    return here


def test_the_examples_run_one_after_the_other() -> None:
    assert len(examples("how-to.md")) == 7
    here = run("how-to.md")
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
    assert len(examples("how-much-is-the-data.md")) == 7
    here = run("how-much-is-the-data.md")
    assert len(here["beside"].outside()) == 0
    assert here["rehearsed"].returned == 1.0
    assert not here["sharper"].tests[0].rejects()


def test_the_front_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("index.md")["result"].converged
    assert "demand" in capsys.readouterr().out


def test_the_page_for_duration_models_finds_the_truth_with_censored_rows() -> None:
    here = run("from-duration-models.md")
    truth = [4.5, -0.04, 0.1, 0.5, 3.0, -0.02, 0.5, 0.6]
    for fit in (here["result"], here["censored"]):
        assert fit.converged
        assert (abs(fit.params.to_numpy() - truth) < 4 * fit.bse.to_numpy()).all()
    assert here["well"].sum() > 50


def test_the_page_for_scikit_learn_runs() -> None:
    here = run("from-scikit-learn.md")
    assert here["potential"].shape == here["chances"].shape == (2_000, 2)
