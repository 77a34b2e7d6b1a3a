"""Worlds with a known truth and their fits; all are frozen, so they are made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss

COEFFICIENTS = {
    "a": {"Intercept": 0.2, "x": 0.8, "d": 0.3},
    "b": {"Intercept": 0.4, "x": -0.5, "d": 0.1},
    "c": {"Intercept": 0.1, "x": 0.3, "d": -0.6},
}
SCALES = {"a": 0.8, "b": 1.0, "c": 1.2}


def simulate(
    n_rows: int, *, rule: Any = "max", labels: str = "abc", seed: int = 3, **options: Any
) -> Any:
    """Simulate alternatives with a normal covariate, a dummy, a category, fares and a menu."""
    rng = np.random.default_rng([seed, 17])
    table = pd.DataFrame(
        {
            "x": rng.standard_normal(n_rows),
            "d": (rng.uniform(size=n_rows) < 0.4).astype(int),
            "town": rng.choice(["east", "north", "west"], n_rows),
            "fare": rng.uniform(0, 0.5, n_rows),
            "open_c": rng.uniform(size=n_rows) < 0.8,
            "w": rng.integers(1, 4, n_rows).astype(float),
            "group": rng.integers(n_rows // 5, size=n_rows),
        }
    )
    return ss.simulate(
        {label: COEFFICIENTS[label] for label in labels},
        table,
        scales={label: SCALES[label] for label in labels},
        rule=rule,
        seed=seed,
        **options,
    )


@pytest.fixture(scope="session")
def make_world() -> Callable[..., Any]:
    return simulate


@pytest.fixture(scope="session")
def world() -> Any:
    return simulate(400)


@pytest.fixture(scope="session")
def fit(world: Any) -> ss.FitResult:
    """Return a fit of three alternatives, the largest of which is observed."""
    return ss.fit(world.formula, world.data, chosen="chosen")


@pytest.fixture(scope="session")
def village() -> Any:
    return ss.simulators.village(500, seed=4)


@pytest.fixture(scope="session")
def pair(village: Any) -> ss.FitResult:
    """Return a fit of two alternatives."""
    return ss.fit("income ~ height + weight", village.data, chosen="job")


@pytest.fixture(scope="session")
def dependent() -> ss.FitResult:
    """Return a fit of outcomes that are plainly not independent."""
    rng = np.random.default_rng(1)
    x, shared = rng.standard_normal(2_000), rng.standard_normal(2_000)
    latent = np.column_stack([1.0 + x, 0.5 - x]) + 0.3 * rng.standard_normal((2_000, 2))
    latent += shared[:, None]
    seen = latent.argmax(axis=1)
    table = {"x": x, "y": latent.max(axis=1), "seen": np.array(["a", "b"])[seen]}
    result = ss.fit("y ~ x", table, chosen="seen")
    assert result.independence_test().rejects()
    return result
