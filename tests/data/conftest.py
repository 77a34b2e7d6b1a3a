"""A village with more columns: categories, odd names, weights, costs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss


@pytest.fixture
def villagers() -> pd.DataFrame:
    """Return 400 villagers, afresh for every test."""
    table = ss.simulators.village(400, seed=1).data
    rng = np.random.default_rng(1)
    return table.assign(
        clan=rng.choice(["bear", "fox", "owl"], len(table)),
        year=rng.integers(2000, 2003, len(table)),
        rent=rng.uniform(0.0, 3.0, len(table)),
        near=1,
        weighting=rng.integers(1, 4, len(table)).astype(float),
        hut=rng.integers(40, size=len(table)),
        **{"net income": table["income"], "boat size": rng.normal(size=len(table))},
    )
