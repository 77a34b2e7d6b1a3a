"""Alternatives whose outcome was never recorded: what identifies them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import DataError
from selfselect.noises import Correlated, SharedShock


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(2)
    x, z = rng.normal(size=(2, 120))
    latent = np.column_stack([1.0 + x, 0.5 - x]) + rng.normal(size=(120, 2))
    job = np.array(["works", "stays"])[latent.argmax(axis=1)]
    wage = np.where(job == "works", latent[:, 0], np.nan)
    return pd.DataFrame({"x": x, "z": z, "wage": wage, "job": job, "fare": z**2})


def pose(table, formula="wage ~ x", **options):
    return ss.pose(formula, table, chosen="job", missing_outcome="silent", **options)


@pytest.mark.parametrize("noise", [Correlated(), SharedShock()])
def test_what_a_silent_alternative_shares_cannot_be_estimated_beside_its_scale(table, noise):
    with pytest.raises(DataError, match="No outcome of 'stays' is recorded, and noise is"):
        pose(table, noise=noise)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"noise": Correlated(correlation=0.5)},
        {"noise": Correlated(scale="common")},
        {"noise": Correlated(), "formula": {"works": "wage ~ x + z", "stays": "wage ~ x"}},
        {"noise": Correlated(), "rule": ss.rules.Maximum(cost={"works": "fare"})},
    ],
    ids=["independent", "correlation known", "common scale", "left out", "cost by row"],
)
def test_whatever_fixes_the_stretch_of_the_difference_is_enough(table, options):
    assert pose(table, **options).problem.partial


def test_a_recorded_outcome_is_enough(table):
    told = table.assign(wage=table["wage"].where(table.index != table.index[0], 1.0))
    told.loc[told.index[0], "job"] = "stays"
    assert pose(told, noise=Correlated()).problem.partial


def test_the_cost_of_a_silent_alternative_is_not_told_from_its_outcome(table):
    with pytest.raises(DataError, match="cannot be told apart in 'Intercept'"):
        pose(table, cost={"stays": "~ 1"})
