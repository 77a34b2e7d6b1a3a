"""The Roy model is a switching regression whose selection follows from its outcomes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import selfselect as ss

SAME = 1e-9
"""Two ways to write one sum of logarithms."""

FORMULA = "y ~ x + z"


def roy_as_switching(coefficients, scales, correlation, rule):
    """Return what a Roy model says of selection: its coefficients, and both correlations.

    The index is the difference of both outcomes over its standard deviation.
    """
    (a, b), (s, t) = coefficients, scales
    spread = np.sqrt(s**2 + t**2 - 2 * correlation * s * t)
    sign = 1.0 if rule == "max" else -1.0
    terms = dict.fromkeys([*a, *b])
    gamma = {term: sign * (a.get(term, 0.0) - b.get(term, 0.0)) / spread for term in terms}
    first, second = (s - correlation * t) / spread, (correlation * s - t) / spread
    return gamma, (sign * first, sign * second)


def simulate(n_rows, correlation, rule="max", seed=0):
    rng = np.random.default_rng([seed, 9])
    x, z, u, v = rng.standard_normal((4, n_rows))
    v = correlation * u + np.sqrt(1 - correlation**2) * v
    latent = np.column_stack([0.3 + x + 0.2 * z + u, 0.1 + 0.4 * x + 0.9 * z + 0.7 * v])
    chosen = latent.argmax(axis=1) if rule == "max" else latent.argmin(axis=1)
    return pd.DataFrame(
        {"x": x, "z": z, "job": np.array(["a", "b"])[chosen],
         "y": np.take_along_axis(latent, chosen[:, None], axis=1)[:, 0]}
    )  # fmt: skip


def loglik_at(model, coefficients, scales, gamma, correlations):
    values = {("selection", term): value for term, value in gamma.items()}
    for label, beta, scale, rho in zip("ab", coefficients, scales, correlations, strict=True):
        values |= {(label, term): value for term, value in beta.items()}
        values |= {(label, "scale"): scale, (label, "correlation"): rho}
    labels = model.layout.report(np.ones(model.layout.n_free)).labels
    reported = np.array([values[label] for label in labels])
    return model.evaluate(model.layout.natural(model.layout.read(reported))).loglik


@pytest.fixture(params=["max", "min"])
def rule(request):
    return request.param


def test_both_likelihoods_are_equal_at_the_roy_models_parameters(rule, model_of):
    table = simulate(500, 0.0, rule)
    roy = ss.fit(FORMULA, table, chosen="job", rule=rule)
    switching = ss.switching(FORMULA, "job ~ x + z", table, towards="a")
    coefficients = [roy.params.loc[label].drop("scale").to_dict() for label in "ab"]
    scales = roy.scales.to_numpy()
    gamma, correlations = roy_as_switching(coefficients, scales, 0.0, rule)
    there = loglik_at(model_of(switching), coefficients, scales, gamma, correlations)
    assert there == pytest.approx(roy.llf, rel=SAME)
    assert switching.llf > roy.llf


@pytest.mark.parametrize("correlation", [-0.6, 0.0, 0.5])
def test_a_roy_model_of_correlated_noise_nests_too(rule, correlation, model_of):
    table = simulate(200, correlation, rule)
    switching = ss.switching(FORMULA, "job ~ x + z", table, towards="a")
    coefficients = [{"Intercept": 0.3, "x": 1.0, "z": 0.2}, {"Intercept": 0.1, "x": 0.4, "z": 0.9}]
    scales = (1.0, 0.7)
    x = np.column_stack([np.ones(200), table["x"], table["z"]])
    means = [x @ list(beta.values()) for beta in coefficients]
    noise = [(table["y"] - mean) / s for mean, s in zip(means, scales, strict=True)]
    root, sign = np.sqrt(1 - correlation**2), 1.0 if rule == "max" else -1.0
    total = 0.0
    for own, other in ((0, 1), (1, 0)):
        seen = (table["job"] == "ab"[own]).to_numpy()
        beyond = norm.logcdf(sign * (noise[other] - correlation * noise[own]) / root)
        total += (norm.logpdf(noise[own]) - np.log(scales[own]) + beyond)[seen].sum()
    gamma, correlations = roy_as_switching(coefficients, scales, correlation, rule)
    there = loglik_at(model_of(switching), coefficients, scales, gamma, correlations)
    assert there == pytest.approx(total, rel=SAME)


def test_the_likelihood_ratio_tests_the_restrictions_of_the_roy_model(rule):
    table = simulate(1_000, 0.0, rule)
    roy = ss.fit(FORMULA, table, chosen="job", rule=rule)
    switching = ss.switching(FORMULA, "job ~ x + z", table)
    test = switching.lr_test(roy)
    # The selection's three coefficients and both correlations are free in the larger model.
    assert test.df == 5
    assert test.statistic == pytest.approx(2 * (switching.llf - roy.llf))
    assert not test.rejects(0.999)
    assert "Roy model" in test.null
    assert roy.lr_test(switching) == test


def test_it_rejects_where_selection_follows_something_else(table):
    roy = ss.fit("y ~ x + z", table, chosen="chosen")
    switching = ss.switching("y ~ x + z", "chosen ~ x + z", table)
    assert switching.lr_test(roy).rejects(0.999)


@pytest.mark.parametrize(
    ("fit", "reason"),
    [
        ({"formula": "y ~ x + z", "chosen": "job", "rule": ss.rules.Maximum(cost={"a": 0.1})},
         "plain or net of estimated costs"),
        ({"formula": "y ~ x + z + w", "chosen": "job"}, "lacks terms"),
        ({"formula": "x ~ y + z", "chosen": "job"}, "different outcomes"),
        ({"formula": "y ~ x", "alternatives": 2}, "a record of the chosen one"),
        ({"formula": "y ~ x + z", "chosen": "three"}, "two alternatives"),
    ],
    ids=["cost", "terms", "outcome", "unknown", "three"],
)  # fmt: skip
def test_what_does_not_nest_is_refused_with_a_reason(fit, reason):
    table = simulate(300, 0.0).assign(w=np.arange(300) % 7)
    table["three"] = np.array(list("pqr"))[np.arange(300) % 3]
    options = dict(fit)
    other = ss.fit(options.pop("formula"), table, **options)
    test = ss.switching(FORMULA, "job ~ x + z", table).lr_test(other)
    assert not test.possible
    assert reason in test.reason


def test_the_selection_must_have_all_covariates_of_the_outcomes():
    table = simulate(300, 0.0)
    roy = ss.fit(FORMULA, table, chosen="job")
    test = ss.switching(FORMULA, "job ~ x", table).lr_test(roy)
    assert "selection equation lacks z" in test.reason


def test_other_rows_and_other_models_are_refused():
    table = simulate(300, 0.0)
    roy = ss.fit(FORMULA, table, chosen="job")
    fewer = ss.switching(FORMULA, "job ~ x + z", table.iloc[:250])
    assert "different rows" in fewer.lr_test(roy).reason
    one = ss.sample_selection("y ~ x", "s ~ x + z", table.assign(s=table["job"] == "a"))
    assert "two outcomes" in one.lr_test(roy).reason
    steps = ss.switching(FORMULA, "job ~ x + z", table, method="two-step")
    assert "maximum likelihood" in steps.lr_test(roy).reason
    assert "not a fit of selfselect" in fewer.lr_test("a text").reason


def test_nested_switching_models_are_compared(table):
    large = ss.switching("y ~ x + w", "chosen ~ x + z + w", table)
    small = ss.switching("y ~ x", "chosen ~ x + z", table)
    test = large.lr_test(small)
    assert test.df == 3
    assert test.statistic == pytest.approx(2 * (large.llf - small.llf))
    assert small.lr_test(large) == test
    crossed = ss.switching("y ~ x + w", "chosen ~ z", table)
    assert (
        "not all in the larger" in crossed.lr_test(small).reason
        or not crossed.lr_test(small).possible
    )
