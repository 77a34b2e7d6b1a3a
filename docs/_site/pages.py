"""Pages that the package itself makes, as examples: a report and a page to explore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import selfselect as ss

__all__ = ["FOLDER", "build"]

FOLDER = Path(__file__).parents[1] / "_pages"
"""Copied into the site as it is."""

OCCUPATIONS = ("white collar", "blue collar", "military")


def build(app: Any) -> None:
    """Write the pages."""
    del app
    villagers = ss.simulators.village(2_000, seed=1).data
    fit = ss.fit("income ~ height + weight", villagers, chosen="job")
    fit.report(FOLDER / "example-report.html")
    years = ss.datasets.careers()
    working = years[years["choice"].isin(OCCUPATIONS) & years["wage"].gt(0)].copy()
    working["log_wage"] = np.log(working["wage"])
    working["experience"] = (working["age"] - working["schooling"] - 6).clip(lower=0)
    formula = "log_wage ~ schooling + experience + I(experience**2)"
    ss.fit(formula, working, chosen="choice").explore(FOLDER / "example-explore.html")
