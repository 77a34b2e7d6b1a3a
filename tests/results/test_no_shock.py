"""A likelihood ratio against noise without a shared shock knows that the null is at an edge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

import selfselect as ss
from selfselect.inference.independence import no_shock_test
from selfselect.noises import SharedShock

FORMULAS = {"a": "y ~ x", "b": "y ~ x + z"}
SAMPLES = 40
NOTHING = 1e-3
"""A likelihood ratio of a loading that was estimated as zero, up to where the solver stops."""


def independent_sample(seed, n_rows=400):
    rng = np.random.default_rng([seed, 3])
    x, z = rng.standard_normal((2, n_rows))
    latent = np.column_stack([0.2 + 0.8 * x, 0.4 - 0.5 * x + 0.6 * z])
    latent += rng.standard_normal((n_rows, 2))
    seen = latent.argmax(axis=1)
    return pd.DataFrame(
        {"x": x, "z": z, "y": latent.max(axis=1), "seen": np.array(["a", "b"])[seen]}
    )


def ratio(table):
    small = ss.fit(FORMULAS, table, chosen="seen")
    return ss.fit(FORMULAS, table, chosen="seen", noise=SharedShock()).lr_test(small)


def test_half_of_all_samples_without_a_shock_gain_nothing_and_p_values_are_uniform_above():
    tests = [ratio(independent_sample(seed)) for seed in range(SAMPLES)]
    assert all(test.possible for test in tests)
    nothing = sum(test.statistic < NOTHING for test in tests)
    # Three standard deviations of a count with chance one half.
    assert abs(nothing - SAMPLES / 2) < 3 * np.sqrt(SAMPLES / 4)
    rejected = sum(test.rejects(0.9) for test in tests)
    assert rejected <= SAMPLES / 10 + 3 * np.sqrt(SAMPLES * 0.09)


def test_one_loading_is_tested_on_one_side():
    test = ratio(independent_sample(0))
    assert "cannot be negative" in test.null
    assert test.p_value == pytest.approx(0.5 * chi2.sf(test.statistic, 1))


@pytest.fixture(scope="module")
def of_four():
    """A problem with four alternatives and independent noise."""
    sample = ss.simulators.gaussian(400, 1, 4, seed=1)
    return ss.fit(sample.formula, sample.data, chosen=sample.chosen).problem


@pytest.mark.parametrize(
    ("noise", "others", "df"),
    [
        (SharedShock(), 0, 6),
        (SharedShock(), 2, 8),
        (SharedShock(scale="common"), 0, 9),
        (SharedShock(scale=1.0), 0, 10),
        (SharedShock(loading={"a": 0.0}), 0, 3),
    ],
    ids=str,
)
def test_loadings_each_are_bounded_by_all_covariances(of_four, noise, others, df):
    problem = replace(of_four, noise=noise)
    n_loadings = 3 if isinstance(noise.loading, dict) else 4
    found = no_shock_test("test", problem, 9.0, n_loadings + others)
    assert found.df == df
    assert found.p_value == pytest.approx(chi2.sf(9.0, df))
    assert "upper bound" in found.null


def test_that_bound_holds_where_as_many_degrees_as_loadings_do_not():
    """In the limit: covariances known with normal errors, fitted by products of loadings."""
    rng = np.random.default_rng(0)
    n_samples, k = 3_000, 4
    pairs = np.triu_indices(k, 1)
    errors = rng.standard_normal((n_samples, len(pairs[0])))
    matrix = np.zeros((n_samples, k, k))
    matrix[:, pairs[0], pairs[1]] = errors
    matrix += matrix.transpose(0, 2, 1)
    ratio = np.zeros(n_samples)
    for _ in range(8):
        loadings = rng.standard_normal((n_samples, k))
        for _ in range(40):
            for j in range(k):
                # The best of one loading given the others, which is a least-squares slope.
                others = (loadings**2).sum(axis=1) - loadings[:, j] ** 2
                loadings[:, j] = np.einsum("nl,nl->n", matrix[:, j], loadings) / others
        products = loadings[:, pairs[0]] * loadings[:, pairs[1]]
        ratio = np.maximum(ratio, (2 * errors * products - products**2).sum(axis=1))
    rejected = [(ratio > chi2.ppf(0.95, df)).mean() for df in (k, len(pairs[0]))]
    assert rejected[0] > 0.06
    assert rejected[1] <= 0.05


def test_a_loading_for_all_has_no_p_value_of_its_own():
    result = ss.fit(FORMULAS, independent_sample(0), chosen="seen", noise=SharedShock())
    table = result.tidy().set_index(["alternative", "term"])
    row = table.loc[("(common)", "loading")]
    assert np.isnan(row["p_value"]) and np.isnan(row["statistic"])
    assert np.isfinite(row["std_error"])
    assert np.isfinite(table.loc[("a", "x"), "p_value"])
    assert str(result.summary())
