"""What every page of a fit says first: the same on all of them, and of a saved fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.report.document import notices
from selfselect.results.estimates import sentences

KINDS = {
    "correlated": ["rejected", "effect on slopes"],
    "unknown": ["too many", "hardly distinct", "weakly determined"],
    "weak": ["weak exclusions"],
    "skewed": ["rejected", "effect on slopes", "boundary"],
    "few": ["few clusters", "not tested"],
    "mixture": ["noise"],
}
"""Kinds of facts that each fit has, among others."""


def _fit(name: str) -> ss.FitResult | ss.MultinomialResult:
    rng = np.random.default_rng(5)
    x, z, u, common = rng.normal(size=(4, 600))
    noise = rng.normal(size=(600, 2)) + 2.0 * (name == "correlated") * common[:, None]
    latent = np.column_stack([1 + x, 0.5 - x]) + noise
    table = pd.DataFrame({"x": x, "z": z, "group": np.arange(600) % 5, "y": latent.max(axis=1)})
    table["job"] = np.where(latent[:, 0] > latent[:, 1], "a", "b")
    if name == "unknown":
        return ss.fit("y ~ x", table.assign(y=x + u), alternatives=2)
    if name == "weak":
        return ss.multinomial_switching("y ~ x", "job ~ x + z", table)
    if name == "skewed":
        wage = np.where(x + z + u > 0, np.exp(1 + x + 0.8 * u + 0.6 * common), np.nan)
        works = np.isfinite(wage)
        return ss.sample_selection(
            "wage ~ x", "works ~ x + z", table.assign(wage=wage, works=works)
        )
    options = {"few": {"cluster": "group"}, "mixture": {"noise": ss.noises.Mixture(2)}}
    return ss.fit("y ~ x", table, chosen="job", **options.get(name, {}))


@pytest.fixture(scope="module", params=list(KINDS))
def case(request: pytest.FixtureRequest) -> tuple[list[str], ss.FitResult | ss.MultinomialResult]:
    return KINDS[request.param], _fit(request.param)


def test_they_are_on_the_summary_the_explanation_and_the_report(case) -> None:
    kinds, fit = case
    facts = fit.page_facts()
    assert set(kinds) <= {one.kind for one in facts}
    summary, alarms = fit.summary(), fit.explain().alarms
    grave, weak = sentences(facts, "grave"), sentences(facts, "weak")
    assert summary.notices == fit.compare().to_page().notices == grave
    assert set(weak) <= set(summary.notes)
    assert (
        alarms[: len(grave) + len(weak)]
        == notices(fit)
        == tuple(one.sentence for one in facts if one.grade != "note")
    )
    told = [one.sentence for one in facts if one.grade == "note" and one.kind != "not tested"]
    assert set(told) <= set(summary.notes)


def test_a_saved_fit_has_the_same(case, tmp_path: Path) -> None:
    _, fit = case
    fit.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    assert loaded.page_facts() == fit.page_facts()
    assert loaded.explain().alarms[:3] == fit.explain().alarms[:3]
