"""Fits that many tests of results read; all are frozen, so they are made once."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss


@pytest.fixture(scope="session")
def villagers() -> pd.DataFrame:
    table = ss.simulators.village(500, seed=4).data
    rng = np.random.default_rng(4)
    return table.assign(
        clan=rng.choice(["bear", "fox", "owl"], len(table)),
        rent=rng.uniform(0.0, 3.0, len(table)),
        near=((table["job"] == "fishing") | (rng.uniform(size=len(table)) < 0.8)).astype(int),
        w=rng.integers(1, 4, len(table)).astype(float),
    )


@pytest.fixture(scope="session")
def result(villagers: pd.DataFrame) -> ss.FitResult:
    """Return the plain fit of the village."""
    return ss.fit("income ~ height + weight", villagers, chosen="job")


@pytest.fixture(scope="session")
def common(villagers: pd.DataFrame) -> ss.FitResult:
    """Return a fit with one scale for all."""
    noise = ss.noises.Independent("common")
    return ss.fit("income ~ height + weight", villagers, chosen="job", noise=noise)


@pytest.fixture(scope="session")
def fixed(villagers: pd.DataFrame) -> ss.FitResult:
    """Return a fit whose scales are known."""
    noise = ss.noises.Independent({"hunting": 14.0, "fishing": 9.0})
    return ss.fit("income ~ height + weight", villagers, chosen="job", noise=noise)


@pytest.fixture(scope="session")
def stopped(villagers: pd.DataFrame) -> ss.FitResult:
    """Return a fit that was stopped too early."""
    with pytest.warns(ss.errors.ConvergenceWarning, match="Not converged. Stopped after 1 steps"):
        return ss.fit(
            "income ~ height + weight", villagers, chosen="job",
            solver=ss.solvers.Newton(max_steps=1),
        )  # fmt: skip
