"""Tests whose spread is known from drawn rows allow for how few of those there are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

import selfselect as ss
from selfselect.inference.statistics import drawn_spread_test, excess_of_draws


@pytest.mark.parametrize(
    ("size", "n_scores", "draws"), [(40, 60, 600), (6, 9, 2_000), (60, 5, 300)]
)
def test_the_excess_is_what_few_draws_add_on_average(size, n_scores, draws):
    """Normal sums, of which scores explain a part: the statistic is right on average."""
    rng = np.random.default_rng(0)
    loading = rng.normal(size=(size, n_scores)) / np.sqrt(n_scores)
    plain, corrected = [], []
    for _ in range(60):
        scores = rng.normal(size=(draws, n_scores))
        left = rng.normal(size=(draws, size))
        moments = scores @ loading.T + left
        explained = np.linalg.lstsq(scores, moments, rcond=None)[0]
        rest = moments - scores @ explained
        sign = np.where(np.arange(draws) % 2, -1.0, 1.0)[:, None]
        spread = rest.T @ rest / draws, (sign * rest).T @ rest / draws
        of_scores = scores.T @ scores / draws, (sign * scores).T @ scores / draws
        vector = rng.normal(size=size)
        statistic = float(vector @ np.linalg.solve(spread[0], vector))
        plain.append(statistic)
        corrected.append(statistic * (1.0 - excess_of_draws(spread, of_scores)))
    noise = 3.5 * np.sqrt(2.0 * size / 60)
    assert np.mean(corrected) == pytest.approx(size, abs=noise)
    if (size + n_scores) / draws > 0.1:
        assert np.mean(plain) > size + noise


def test_a_small_excess_is_left_a_larger_one_taken_off_and_a_large_one_decides_nothing():
    small, larger, large = (
        drawn_spread_test("Test", 20.0, 10, "nothing", excess, "draw more")
        for excess in (0.05, 0.1, 0.5)
    )
    assert (small.statistic, small.p_value) == (20.0, pytest.approx(chi2.sf(20.0, 10)))
    assert (larger.statistic, larger.p_value) == (18.0, pytest.approx(chi2.sf(18.0, 10)))
    assert large.statistic == 20.0 and np.isnan(large.p_value)
    assert "10 sums are too many" in large.reason and large.reason.endswith("draw more")


def village_of(n_alternatives, n_rows, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n_rows)
    slopes = 0.2 * rng.normal(size=n_alternatives)
    outcomes = np.outer(x, slopes) + rng.normal(size=(n_rows, n_alternatives))
    return pd.DataFrame({"x": x, "y": outcomes.max(axis=1), "j": outcomes.argmax(axis=1)})


def test_a_true_model_of_many_alternatives_is_not_rejected():
    """Of twenty alternatives the test of all pairs used to reject three of four true models."""
    for seed in range(3):
        fit = ss.fit("y ~ x", village_of(20, 4_000, seed), chosen="j")
        assert np.isnan(fit.independence_test().p_value)
        page = str(fit.summary())
        assert "190 sums are too many" in page.replace("\n ", "")
        assert "join alternatives" in page.replace("\n ", "")
        assert "REJECTED" not in page
    found = [
        ss.fit("y ~ x", village_of(12, 4_000, seed), chosen="j").independence_test().statistic
        for seed in range(12)
    ]
    assert np.mean(found) == pytest.approx(66.0, abs=3.5 * np.sqrt(2.0 * 66.0 / 12))
