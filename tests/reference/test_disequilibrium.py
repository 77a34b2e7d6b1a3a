"""A market in disequilibrium with correlated shocks, against R's optim on the same rows."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import selfselect as ss

HERE = Path(__file__).parent

SIX_DIGITS = 1e-6
FLAT = 2e-4
"""Where optim stops by its log-likelihood, parameters are off by the root of what it allows."""


@pytest.fixture(scope="module")
def market() -> ss.FitResult:
    data = pd.read_csv(HERE / "market_data.csv")
    sides = {"demand": "quantity ~ rate + stock", "supply": "quantity ~ rate + deposits"}
    return ss.fit(sides, data, rule="min", noise=ss.noises.Correlated(scale="each"))


@pytest.fixture(scope="module")
def reference() -> pd.Series:
    return pd.read_csv(HERE / "disequilibrium_result.csv").set_index("name")["value"]


def test_the_log_likelihood_is_that_of_r(market: ss.FitResult, reference: pd.Series) -> None:
    assert market.converged
    assert market.llf == pytest.approx(reference["loglik"], rel=SIX_DIGITS)


def test_the_estimates_are_those_of_r(market: ss.FitResult, reference: pd.Series) -> None:
    found = dict(zip(market.names, market.values, strict=True))
    found["correlation"] = found.pop("demand & supply:correlation")
    for name, value in reference.drop("loglik").items():
        assert found[str(name)] == pytest.approx(value, abs=FLAT), name
