"""Fits that the pictures are drawn of."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
import pytest

import selfselect as ss

matplotlib.use("Agg")


@pytest.fixture(scope="session")
def known() -> ss.FitResult:
    sample = ss.simulators.village(600, seed=2)
    return ss.fit(sample.formula, sample.data, chosen="job")


@pytest.fixture(scope="session")
def unknown() -> ss.FitResult:
    sample = ss.simulators.market(300, seed=1)
    return ss.fit(sample.formula, sample.data, rule="min")


@pytest.fixture(scope="session")
def ranked() -> ss.FitResult:
    rng = np.random.default_rng([4, 1])
    x = pd.DataFrame(rng.normal(size=(500, 2)), columns=["x1", "x2"])
    sample = ss.simulate(
        {"a": {"x1": 1.0}, "b": {"x2": 1.0}, "c": {"x1": -1.0}}, x, rule=ss.rules.Ranked(2), seed=4
    )
    return ss.fit(sample.formula, sample.data, chosen="chosen", rule=ss.rules.Ranked(2))


@pytest.fixture(scope="session")
def loaded(known: ss.FitResult, tmp_path_factory: pytest.TempPathFactory) -> ss.FitResult:
    path = tmp_path_factory.mktemp("saved") / "fit.json"
    known.save(path)
    return ss.load(path)
