"""The test of one scale for all: its size, its power, and that it is near the likelihood ratio."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import selfselect as ss
from selfselect.inference.independence import common_scale_test
from selfselect.noises import Correlated, Independent

SAMPLES = 60
"""Of 60 samples 5% plus or minus 2.8% reject where the size is right."""

DIFFERENCE = 1e-5
"""Half a step of central differences: they cancel in the statistic, which has no unit."""


def draw(scales, seed, n_rows=400):
    rng = np.random.default_rng([seed, 41])
    x = rng.normal(size=(n_rows, 1))
    latent = x * [1.5, -1.5] + rng.normal(size=(n_rows, 2)) * scales
    chosen = np.array(["a", "b"])[latent.argmax(axis=1)]
    return pd.DataFrame({"y": latent.max(axis=1), "x": x[:, 0], "who": chosen})


def fit_of(data, *, known=True, scale="common", **options):
    which = {"chosen": "who"} if known else {"alternatives": 2}
    return ss.fit("y ~ x", data, noise=Independent(scale), **which, **options)


def asked(fit, **options):
    given = replace(fit.dependence, **options)
    return common_scale_test(fit.problem, fit.engine_of_rows(), fit.solution, given)


def test_a_true_restriction_is_rejected_as_often_as_it_should_be():
    tests = [asked(fit_of(draw([1.0, 1.0], seed))) for seed in range(SAMPLES)]
    assert {test.df for test in tests} == {1}
    assert np.mean([test.rejects(0.95) for test in tests]) < 0.13
    assert np.mean([test.statistic for test in tests]) == pytest.approx(1.0, abs=0.5)


@pytest.mark.parametrize("known", [True, False])
def test_it_is_near_the_likelihood_ratio(known):
    for scales in ([1.0, 1.0], [0.6, 1.4]):
        data = draw(scales, 1, n_rows=800)
        common, each = (fit_of(data, known=known, scale=one) for one in ("common", "each"))
        ratio = each.lr_test(common)
        found = asked(common)
        assert found.statistic == pytest.approx(ratio.statistic, rel=0.5, abs=0.5)
        assert found.rejects() == ratio.rejects() == (scales[0] != scales[1])


def test_weights_count_as_what_they_are():
    data = draw([1.0, 1.0], 3)
    times = np.random.default_rng(0).integers(1, 4, len(data))
    weighted = fit_of(data, weights=times, weights_kind="frequency")
    repeated = fit_of(data.loc[data.index.repeat(times)])
    assert asked(weighted).statistic == pytest.approx(asked(repeated).statistic, rel=1e-4)
    scaled = [fit_of(data, weights=w, weights_kind="probability") for w in (times, 7.0 * times)]
    one, other = (asked(fit).statistic for fit in scaled)
    assert one == pytest.approx(other, rel=1e-4) and one < asked(weighted).statistic


def test_probability_weights_multiply_what_each_row_says():
    """The score of each row by differences of its density, and the spread of weighted scores."""
    data = draw([1.0, 1.3], 5)
    weights = np.random.default_rng(2).uniform(0.2, 3.0, len(data))
    fit = fit_of(data, weights=weights, weights_kind="probability")
    at = fit.values[[0, 1, 2, 3, 4, 4]]

    def logliks(place):
        means = place[:4].reshape(2, 2) @ np.stack([np.ones(len(data)), data["x"]])
        first, second = (data["y"].to_numpy() - means) / place[4:, None]
        from_a = norm.logpdf(first) - np.log(place[4]) + norm.logcdf(second)
        from_b = norm.logpdf(second) - np.log(place[5]) + norm.logcdf(first)
        return np.where(data["who"] == "a", from_a, from_b)

    steps = DIFFERENCE * np.eye(len(at))
    scores = np.stack([logliks(at + one) - logliks(at - one) for one in steps], axis=1)
    weighted = weights[:, None] * scores
    total = weighted.sum(axis=0)
    wanted = total @ np.linalg.solve(weighted.T @ weighted, total)
    assert asked(fit).statistic == pytest.approx(wanted, rel=1e-3)


def test_where_it_cannot_be_done_there_is_a_reason():
    data = draw([1.0, 1.0], 4)
    assert "no scale in common" in asked(fit_of(data, scale="each")).reason
    joined = ss.fit("y ~ x", data, chosen="who", noise=Correlated("common"))
    assert "no scale in common" in asked(joined).reason
    assert "clusters" in asked(fit_of(data), clusters=(12,)).reason
