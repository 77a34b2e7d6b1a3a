"""The assumptions of the theory, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss


def by_hand(slopes):
    """Return B and Δ, written out from assumption (A)."""
    lengths = [np.linalg.norm(w) for w in slopes]
    separation = min(
        lengths[j] - abs(slopes[i] @ slopes[j]) / lengths[j]
        for i in range(len(slopes))
        for j in range(len(slopes))
        if i != j
    )
    return max(lengths), separation


@pytest.fixture(scope="module")
def sample():
    return ss.simulators.gaussian(1_500, 2, 2, norm=2.0, seed=1)


@pytest.fixture(scope="module")
def result(sample):
    return ss.fit("outcome ~ x1 + x2", sample.data, alternatives=2)


def test_both_numbers_are_those_of_the_definition(result, sample):
    found = ss.assumptions(result)
    spread = sample.data[["x1", "x2"]].std(ddof=0).to_numpy()
    slopes = [result.params[j][["x1", "x2"]].to_numpy() * spread / result.scales[j] for j in (1, 2)]
    bound, separation = by_hand(slopes)
    assert found["B"] == pytest.approx(bound, rel=1e-9)
    assert found["Delta"] == pytest.approx(separation, rel=1e-9)
    assert found["smallest share"] == result.shares.min()
    assert f"B = {bound:.3g}" in str(found)


def test_they_do_not_depend_on_units(result, sample):
    moved = sample.data.assign(
        x1=1e3 * sample.data["x1"] + 5.0, outcome=0.01 * sample.data["outcome"] - 7.0
    )
    other = ss.assumptions(ss.fit("outcome ~ x1 + x2", moved, alternatives=2))
    for name in ("B", "Delta", "smallest share"):
        assert other[name] == pytest.approx(ss.assumptions(result)[name], rel=1e-4)


def test_opposite_slopes_break_the_assumption_and_it_is_said():
    """The model is identified all the same: a shift of both would mend it (paper's slip)."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(1_000)
    y = np.maximum(2 * x, -2 * x) + 0.0
    table = pd.DataFrame({"x": x, "y": y + rng.standard_normal(1_000) * 0.5})
    found = ss.assumptions(ss.fit("y ~ x - 1", table, alternatives=2))
    assert found["Delta"] < 0.2
    weak = ss.assumptions(ss.fit("y ~ 1", table, alternatives=2))
    assert weak["B"] == 0.0 and weak["Delta"] == 0.0
    assert "! Δ = 0: assumption (A) fails" in str(weak)


def test_equations_with_covariates_of_their_own_are_compared_over_all(result):
    del result
    market = ss.simulators.market(800, seed=1)
    fit = ss.fit(market.formula, market.data, rule="min")
    spread = market.data[["rate", "stock", "deposits"]].std(ddof=0).to_numpy()
    scale = fit.scales["demand"]
    demand = np.array([fit.params["demand", "rate"], fit.params["demand", "stock"], 0.0])
    supply = np.array([fit.params["supply", "rate"], 0.0, fit.params["supply", "deposits"]])
    bound, separation = by_hand([demand * spread / scale, supply * spread / scale])
    found = ss.assumptions(fit)
    assert found["B"] == pytest.approx(bound, rel=1e-9)
    assert found["Delta"] == pytest.approx(separation, rel=1e-9)


def test_a_recorded_index_has_them_too():
    village = ss.simulators.village(500, seed=1)
    fit = ss.fit(village.formula, village.data, chosen="job")
    found = ss.assumptions(fit)
    assert found["smallest share"] == fit.shares.min() == fit.counts.min() / 500
