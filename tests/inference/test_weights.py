"""What weights mean: repeated rows, unequal sampling, and rows that count for nothing."""

from __future__ import annotations

import numpy as np
import pytest

import selfselect as ss
from selfselect.errors import DataError, OptionError
from selfselect.inference import Bootstrap, sandwich

EXACT = 1e-6
"""Two fits of the same optimum, each within 1e-6 standard errors of it."""

BY_STEPS = 1e-5
"""What rows add to the information is found by differences, with steps of 1e-6."""

DRAWN = 0.1
"""Rows drawn from the model know the spread of what is tested to some 2%, each of two fits."""


def times_of(made, seed=0):
    return np.random.default_rng(seed).integers(0, 4, len(made.data))


@pytest.mark.parametrize("covariance", ["observed", "robust", "clustered"])
def test_frequency_weights_are_repeated_rows_in_every_number(world, covariance):
    made = world("max", 250)
    times = times_of(made)
    cluster = "group" if covariance == "clustered" else None
    weighted = made.fit(
        weights=times, weights_kind="frequency", covariance=covariance, cluster=cluster
    )
    repeated = made.fit(
        made.data.loc[made.data.index.repeat(times)], covariance=covariance, cluster=cluster
    )
    np.testing.assert_allclose(weighted.params, repeated.params, rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(weighted.bse, repeated.bse, rtol=EXACT)
    assert weighted.nobs == repeated.nobs == times.sum()
    assert weighted.counts.tolist() == repeated.counts.tolist()
    for name in ("llf", "aic", "bic"):
        assert getattr(weighted, name) == pytest.approx(getattr(repeated, name), rel=1e-9)
    np.testing.assert_allclose(weighted.shares, repeated.shares)
    assert weighted.independence_test().statistic == pytest.approx(
        repeated.independence_test().statistic, rel=DRAWN
    )
    assert weighted.covariance.description == repeated.covariance.description


@pytest.mark.parametrize("limit", [300, 500])
@pytest.mark.parametrize("options", [{"covariance": "robust"}, {"cluster": "group"}])
def test_frequency_weights_count_where_small_samples_are_corrected(
    world, monkeypatch, limit, options
):
    """250 rows stand for 403: the limit is on those, whichever side of it they are."""
    made = world("max", 250)
    times = times_of(made)
    assert 300 < times.sum() < 500
    monkeypatch.setattr(sandwich, "CORRECTED_ROWS", limit)
    weighted = made.fit(weights=times, weights_kind="frequency", **options)
    repeated = made.fit(made.data.loc[made.data.index.repeat(times)], **options)
    np.testing.assert_allclose(weighted.bse, repeated.bse, rtol=EXACT)
    ours, theirs = (one.treatment_effects("a", "b").table for one in (weighted, repeated))
    np.testing.assert_allclose(ours["std_error"], theirs["std_error"], rtol=1e-4)


BENT = {
    "a scale that moves": {"noise": ss.noises.Independent("~ x1")},
    "a shared slope": {"shared": ["x1"]},
    "a shared slope, and scales that move": {
        "noise": ss.noises.Independent("~ x1"),
        "shared": ["x1"],
    },
}
"""Models whose internal parameters bend, about the middle of the rows."""


@pytest.mark.parametrize("model", BENT)
@pytest.mark.parametrize("options", [{"covariance": "robust"}, {"cluster": "group"}])
def test_frequency_weights_are_repeated_rows_where_internal_parameters_bend(world, model, options):
    """Errors of few rows are corrected in coordinates that do not depend on the middle of rows."""
    made = world("max", 120, labels=("a", "b"))
    times = np.where(made.data["x1"] > 1.0, 5, 1)
    weighted = made.fit(weights=times, weights_kind="frequency", **options, **BENT[model])
    repeated = made.fit(made.data.loc[made.data.index.repeat(times)], **options, **BENT[model])
    np.testing.assert_allclose(weighted.params, repeated.params, rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(weighted.bse, repeated.bse, rtol=BY_STEPS)
    ours, theirs = (one.treatment_effects("a", "b").table for one in (weighted, repeated))
    np.testing.assert_allclose(ours["std_error"], theirs["std_error"], rtol=1e-4)


@pytest.mark.parametrize("model", BENT)
def test_many_clusters_of_which_some_are_large_do_not_depend_on_the_middle_of_rows(
    world, monkeypatch, model
):
    """Large ones of many clusters are corrected by an evaluation of their own."""
    monkeypatch.setattr(sandwich, "CORRECTED_ROWS", 50)
    monkeypatch.setattr(sandwich, "CORRECTED_CLUSTERS", 12)
    made = world("max", 120, labels=("a", "b"))
    times = np.where(made.data["x1"] > 1.0, 5, 1)
    alike = made.data.loc[made.data.index.repeat(times)]
    weighted = made.fit(weights=times, weights_kind="frequency", cluster="group", **BENT[model])
    repeated = made.fit(alike, cluster="group", **BENT[model])
    np.testing.assert_allclose(weighted.bse, repeated.bse, rtol=BY_STEPS)


def test_a_bootstrap_of_frequency_weights_draws_single_rows(world):
    made = world("max", 200)
    times = times_of(made)
    weighted = made.fit(weights=times, weights_kind="frequency", covariance=Bootstrap(200), seed=1)
    repeated = made.fit(
        made.data.loc[made.data.index.repeat(times)], covariance=Bootstrap(200), seed=2
    )
    # Two spreads of 200 draws each differ by 7% by chance; three and a half times that.
    np.testing.assert_allclose(weighted.bse / repeated.bse, 1.0, atol=0.25)


def test_probability_weights_imply_robust_errors_and_only_their_ratios_matter(world):
    made = world("max", 300)
    one, tenfold = (
        made.fit(weights=factor * made.data["w"].to_numpy(), weights_kind="probability")
        for factor in (1.0, 1e4)
    )
    robust = made.fit(weights="w", covariance="robust")
    np.testing.assert_allclose(one.bse, robust.bse, rtol=EXACT)
    np.testing.assert_allclose(one.bse, tenfold.bse, rtol=EXACT)
    assert one.covariance.kind == "robust"
    assert one.llf == pytest.approx(tenfold.llf, rel=1e-9) and one.nobs == 300
    assert one.bic == pytest.approx(tenfold.bic, rel=1e-9)
    said = " ".join(str(one.summary()).split())
    assert "pseudo-likelihood" in said and "(probability, sum 300)" in said


def test_probability_weights_undo_unequal_sampling():
    """Keep rows with a large outcome rarely: weights recover what all rows say."""
    truth = {"a": {"Intercept": 0.0, "x": 1.0}, "b": {"Intercept": 0.3, "x": -0.5}}
    rng = np.random.default_rng(2)
    sample = ss.simulate(truth, {"x": rng.normal(size=30_000)}, seed=2)
    chance = 1.0 / (1.0 + np.exp(2.0 * (sample.data["outcome"] - 0.5)))
    kept = rng.uniform(size=30_000) < 0.1 + 0.9 * chance
    data = sample.data[kept].assign(w=1.0 / (0.1 + 0.9 * chance[kept]))
    fit = ss.fit(sample.formula, data, chosen="chosen", weights="w", weights_kind="probability")
    away = (fit.params - sample.params[fit.params.index]) / fit.bse
    assert np.abs(away).max() < 4.0
    ignored = ss.fit(sample.formula, data, chosen="chosen")
    assert np.abs((ignored.params - sample.params[fit.params.index]) / ignored.bse).max() > 10.0


@pytest.mark.parametrize("kind", [None, "frequency", "probability"])
@pytest.mark.parametrize("cluster", [None, "group", ["group", "other"]])
def test_a_row_of_weight_zero_is_as_good_as_absent(world, kind, cluster):
    made = world("max", 240)
    rng = np.random.default_rng(3)
    data = made.data.assign(other=rng.integers(0, 12, 240), count=rng.integers(1, 4, 240))
    off = (data["group"] == data["group"].iloc[0]) | (np.arange(240) % 7 == 0)
    data["count"] = np.where(off, 0, data["count"])
    options = {"weights": "count", "weights_kind": kind, "cluster": cluster}
    if cluster is None:
        options["covariance"] = "robust"
    zero, absent = made.fit(data, **options), made.fit(data[~off], **options)
    np.testing.assert_allclose(zero.params, absent.params, rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(zero.bse, absent.bse, rtol=EXACT)
    assert zero.nobs == absent.nobs
    assert zero.counts.tolist() == absent.counts.tolist()
    assert zero.bic == pytest.approx(absent.bic, rel=1e-9)
    assert zero.covariance.description == absent.covariance.description


def test_ratios_of_weighted_pseudo_likelihoods_are_no_test(world):
    made = world("max", 200)
    options = {"weights": "w", "weights_kind": "probability"}
    large = made.fit(**options)
    small = made.fit(noise=ss.noises.Independent("common"), **options)
    test = large.lr_test(small)
    assert not test.possible and "use wald_test" in test.reason


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"weights": "w", "weights_kind": "analytic"}, OptionError, "'frequency' or 'probability'"),
        ({"weights_kind": "frequency"}, OptionError, "there are none"),
        ({"weights": np.full(200, 0.5), "weights_kind": "frequency"}, DataError, "identical rows"),
        ({"weights": np.full(200, 0.5)}, DataError, "'probability' for .*'frequency' for numbers"),
        ({"weights": np.full(200, 6.0)}, DataError, "add up to 1200, 6 times the 200 rows"),
        ({"weights": -np.ones(200), "weights_kind": "probability"}, DataError, "negative"),
        ({"weights": np.zeros(200), "weights_kind": "probability"}, DataError, "all zero"),
    ],
)
def test_weights_that_cannot_be_meant_are_refused(world, options, error, sentence):
    with pytest.raises(error, match=sentence):
        world("max", 200).fit(**options)
