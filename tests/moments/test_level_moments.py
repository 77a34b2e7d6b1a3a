"""Moments of levels whose logarithm was modelled, against draws of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.moments.levels import LevelMoments, Logarithm

DRAWS = 20_000
SIMULATED = 0.02
"""Relative error of means of so many draws of levels that spread by about their mean."""


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    x, z = rng.standard_normal((2, 400))
    latent = np.column_stack([0.4 + 0.5 * x, 0.2 + 0.3 * z]) + 0.5 * rng.standard_normal((400, 2))
    job = np.array(["a", "b"])[latent.argmax(axis=1)]
    return pd.DataFrame({"x": x, "z": z, "job": job, "y": latent.max(axis=1)})


@pytest.fixture(scope="module", params=["roy", "switching"])
def fit(request: pytest.FixtureRequest, table: pd.DataFrame) -> Any:
    if request.param == "roy":
        return ss.fit("y ~ x + z", table, chosen="job")
    return ss.switching("y ~ x", "job ~ x + z", table)


def moments_of(fit: Any, rate: float, offset: float) -> LevelMoments:
    return LevelMoments(fit.problem, fit.problem.ordered_rule, Logarithm("wage", rate, offset))


def test_levels_among_those_who_choose_are_those_of_draws(fit: Any, table: pd.DataFrame) -> None:
    row = table.iloc[[3]]
    drawn = fit.simulate(pd.concat([row] * DRAWS, ignore_index=True), seed=1)
    found = moments_of(fit, 0.5, 0.0).expectations(fit.values, fit.rows.take(slice(3, 4)))
    levels = np.exp(0.5 * drawn["y"].to_numpy())
    assert found.outcome.item() == pytest.approx(levels.mean(), rel=SIMULATED)
    for place, label in enumerate(("a", "b")):
        own = (drawn["job"] == label).to_numpy()
        assert found.chance[0, place] == pytest.approx(own.mean(), abs=SIMULATED)
        assert found.given_seen[0, place, place] == pytest.approx(levels[own].mean(), rel=SIMULATED)


def test_levels_of_log1p_are_lower_by_one_in_every_group(fit: Any) -> None:
    plain, lower = moments_of(fit, 1.0, 0.0), moments_of(fit, 1.0, 1.0)
    rows = fit.rows.take(slice(0, 50))
    one, other = (moments.expectations(fit.values, rows) for moments in (plain, lower))
    np.testing.assert_array_equal(other.chance, one.chance)
    np.testing.assert_allclose(other.outcome, one.outcome - 1.0, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(other.given_seen, one.given_seen - 1.0, rtol=1e-12, atol=1e-12)
    means = [moments.latent(fit.values, rows) for moments in (plain, lower)]
    np.testing.assert_allclose(means[1], means[0] - 1.0, rtol=1e-12, atol=1e-12)
