"""Fits of every kind that a page can compute, and their pages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss


def careers(n_rows: int = 260) -> pd.DataFrame:
    """Return rows with a number, a transformed one, ordered categories and whole numbers."""
    rng = np.random.default_rng([3, 7])
    table = pd.DataFrame(
        {
            "age": rng.uniform(20, 60, n_rows),
            "wealth": rng.lognormal(2, 0.7, n_rows),
            "children": rng.integers(0, 5, n_rows),
            "school": pd.Categorical(
                rng.choice(["none", "some", "much"], n_rows), ["none", "some", "much"], ordered=True
            ),
            "city": rng.choice([False, True], n_rows),
        }
    )
    level = table["school"].cat.codes.to_numpy()
    one = 1 + 0.05 * table["age"] + 0.4 * level + rng.normal(0, 1, n_rows)
    two = 2 + 0.5 * np.log(table["wealth"]) + 0.2 * table["children"] + rng.normal(0, 1.4, n_rows)
    table["wage"] = np.maximum(one, two)
    table["work"] = np.where(one > two, "desk", "field")
    return table


def fit_pair() -> Any:
    formula = "wage ~ age*school + np.log(wealth) + C(children) + city"
    return ss.fit(formula, careers(), chosen="work")


def fit_costs(world: Callable[..., Any]) -> Any:
    return world("min", 220, known=True).fit()


def fit_unknown(world: Callable[..., Any]) -> Any:
    del world
    sample = ss.simulators.market(250, seed=1)
    return ss.fit(sample.formula, sample.data, rule="min")


def fit_correlated(world: Callable[..., Any]) -> Any:
    made = world("max", 500, labels=("a", "b"))
    return made.fit(noise=ss.noises.Correlated())


def fit_spread(world: Callable[..., Any]) -> Any:
    return world("max", 300).fit(noise=ss.noises.Independent(scale="~ x1"))


def fit_weighted(world: Callable[..., Any]) -> Any:
    return world("max", 200, labels=("a", "b")).fit(
        weights="w", noise=ss.noises.Independent(scale="common")
    )


@pytest.fixture(scope="session")
def fits(world: Callable[..., Any]) -> dict[str, Any]:
    """Return a fit of every kind."""
    return {
        "pair": fit_pair(),
        "costs": fit_costs(world),
        "unknown": fit_unknown(world),
        "correlated": fit_correlated(world),
        "spread": fit_spread(world),
        "weighted": fit_weighted(world),
    }


@pytest.fixture(scope="session")
def pages(fits: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write the page of every fit; some take a sample of the rows."""
    folder = tmp_path_factory.mktemp("pages")
    for name, fit in fits.items():
        few = {"pair": 90, "spread": 50}.get(name)
        given = [-0.5, 0.5] if name == "correlated" else None
        fit.explore(folder / f"{name}.html", rows=few, correlations=given, level=0.9)
    return {name: folder / f"{name}.html" for name in fits}
