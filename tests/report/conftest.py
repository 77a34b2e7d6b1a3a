"""Fits to report on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import selfselect as ss

HOSTILE = "<script>alert(1)</script>"
HOSTILE_COLUMN = '"><img src=x onerror=alert(2)>'


@pytest.fixture(scope="session")
def village() -> ss.FitResult:
    sample = ss.simulators.village(400, seed=4)
    return ss.fit(sample.formula, sample.data, chosen="job")


@pytest.fixture(scope="session")
def market() -> ss.FitResult:
    sample = ss.simulators.market(250, seed=1)
    return ss.fit(sample.formula, sample.data, rule="min")


@pytest.fixture(scope="session")
def loaded(village: ss.FitResult, tmp_path_factory: pytest.TempPathFactory) -> ss.FitResult:
    path = tmp_path_factory.mktemp("saved") / "fit.json"
    village.save(path)
    return ss.load(path)


@pytest.fixture(scope="session")
def hostile_names() -> tuple[str, str]:
    """Return the label and the column that want to be commands."""
    return HOSTILE, HOSTILE_COLUMN


@pytest.fixture(scope="session")
def hostile() -> ss.FitResult:
    """Return a fit whose labels, columns and formula would be commands to a careless page."""
    rng = np.random.default_rng([7, 1])
    x = rng.normal(size=(300, 2))
    latent = x + rng.normal(size=(300, 2))
    table = pd.DataFrame({HOSTILE_COLUMN: x[:, 0], "x2": x[:, 1], "y</script>": latent.max(axis=1)})
    table["who"] = np.where(latent[:, 0] > latent[:, 1], HOSTILE, "</style><!--")
    return ss.fit(f"`y</script>` ~ `{HOSTILE_COLUMN}` + x2", table, chosen="who")


@pytest.fixture(scope="session")
def reports(
    village: ss.FitResult,
    market: ss.FitResult,
    loaded: ss.FitResult,
    hostile: ss.FitResult,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """Write one report of each kind of fit."""
    folder = tmp_path_factory.mktemp("reports")
    fits = {"village": village, "market": market, "loaded": loaded, "hostile": hostile}
    for name, fit in fits.items():
        fit.report(folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in fits}
