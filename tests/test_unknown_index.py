"""Fits of outcomes whose alternative nobody recorded: the front door and what it returns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import selfselect as ss
from selfselect.errors import OptionError
from selfselect.inference import Bootstrap
from selfselect.noises import Independent
from selfselect.solvers import EM, MaximumLikelihood

SAME = 1e-6
"""Newton stops within 1e-6 standard errors of an optimum; errors here are below 0.2."""

N_ROWS = 800
FORMULA = "outcome ~ x1 + x2"


@pytest.fixture(scope="module")
def sample():
    return ss.simulators.gaussian(N_ROWS, 2, 3, norm=2.5, seed=3)


@pytest.fixture(scope="module")
def data(sample):
    return sample.data


@pytest.fixture(scope="module")
def result(data):
    return ss.fit(FORMULA, data, alternatives=3)


@pytest.fixture(scope="module")
def market():
    return ss.simulators.market(800, seed=2)


@pytest.fixture(scope="module")
def short_side(market):
    return ss.fit(market.formula, market.data, rule="min")


def quick(data, **options):
    options = {"alternatives": 3, "solver": MaximumLikelihood(starts=4)} | options
    return ss.fit(FORMULA, data, **options)


# what is returned


def test_unnamed_alternatives_are_numbered_by_their_mean_outcome(result, data):
    assert list(result.counts.index) == [1, 2, 3]
    means = result.predict().mean()
    assert list(means.sort_values(ascending=False).index) == [1, 2, 3]
    assert result.converged
    assert result.names == [
        *(f"{j}:{term}" for j in (1, 2, 3) for term in ("Intercept", "x1", "x2")),
        "(common):scale",
    ]
    assert "chosen" in data, "the column of choices is there, and is not used"


def test_neither_rows_nor_seeds_change_the_order(data, result):
    for other in (
        quick(data.sample(frac=1.0, random_state=1)),
        quick(data, seed=11),
        quick(data, seed=12),
    ):
        np.testing.assert_allclose(other.params, result.params, atol=SAME)
        np.testing.assert_allclose(other.cov_params(), result.cov_params(), atol=SAME)


def test_the_same_seed_gives_the_same_answer_to_the_last_digit(data):
    one, other = (quick(data, seed=5) for _ in range(2))
    np.testing.assert_array_equal(one.values, other.values)
    pd.testing.assert_frame_equal(one.starts, other.starts)
    assert str(one.summary()) == str(other.summary())


def test_named_equations_keep_their_names_and_their_order(market, short_side):
    assert list(short_side.counts.index) == ["demand", "supply"]
    assert short_side.converged
    off = (short_side.params - _common_scale(market, short_side)) / short_side.bse
    assert off.abs().max() < 4
    turned = dict(reversed(market.formula.items()))
    other = ss.fit(turned, market.data, rule="min", seed=9)
    assert list(other.counts.index) == ["supply", "demand"]
    np.testing.assert_allclose(other.params[short_side.params.index], short_side.params, atol=SAME)


def _common_scale(sample, fit):
    truth = sample.params.copy()
    truth["(common)", "scale"] = truth.iloc[-1]
    return truth[fit.params.index]


def test_responsibilities_are_the_posterior_by_hand(result, data):
    chance = result.responsibilities()
    assert chance.shape == (N_ROWS, 3)
    np.testing.assert_allclose(chance.sum(axis=1), 1.0, rtol=1e-12)
    z = (data["outcome"].to_numpy()[:, None] - result.predict().to_numpy()) / result.scales[1]
    ratio = np.exp(norm.logpdf(z) - norm.logcdf(z))
    by_hand = ratio / ratio.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(chance, by_hand, rtol=1e-9, atol=1e-12)
    new = result.responsibilities(data.iloc[10:20])
    np.testing.assert_allclose(new, chance.iloc[10:20], rtol=1e-10)
    assert list(new.index) == list(data.index[10:20])


def test_responsibilities_are_calibrated(result, sample):
    """Of rows said to be an alternative's with some probability, that share is."""
    truth = sample.data["chosen"].to_numpy()
    chance = result.responsibilities()
    for j in (1, 2, 3):
        label = max("abc", key=lambda name: chance.loc[truth == name, j].mean())
        for low, high in ((0.0, 0.2), (0.2, 0.8), (0.8, 1.0)):
            within = chance[j].between(low, high).to_numpy()
            error = 0.5 / np.sqrt(within.sum())
            assert abs((truth[within] == label).mean() - chance.loc[within, j].mean()) < 4 * error


def test_rows_with_holes_have_no_responsibilities(result, data):
    broken = data.head(4).copy()
    broken.loc[1, "outcome"] = np.nan
    broken.loc[2, "x1"] = np.nan
    with pytest.warns(ss.errors.MissingRowsWarning, match="2 of 4 rows have a missing value"):
        found = result.responsibilities(broken)
    assert found.isna().any(axis=1).tolist() == [False, True, True, False]


def test_a_recorded_index_has_no_responsibilities(data):
    fit = ss.fit(FORMULA, data, chosen="chosen")
    with pytest.raises(OptionError, match="the choice was recorded"):
        fit.responsibilities()


def test_shares_are_the_mean_responsibilities(result):
    np.testing.assert_allclose(result.shares, result.responsibilities().mean(), rtol=1e-12)
    np.testing.assert_allclose(result.counts, N_ROWS * result.shares, rtol=1e-12)
    # Responsibilities are chances updated by outcomes, so on average they agree.
    np.testing.assert_allclose(result.shares, result.predict(kind="chance").mean(), atol=0.03)


def test_predictions_are_those_of_the_largest_of_all(result, data):
    rng = np.random.default_rng(0)
    means = result.predict(data.head(3)).to_numpy()
    draws = means[:, None, :] + result.scales[1] * rng.standard_normal((3, 400_000, 3))
    simulated = draws.max(axis=2)
    error = 5 * simulated.std(axis=1) / np.sqrt(400_000)
    assert (np.abs(result.predict(data.head(3), "outcome") - simulated.mean(axis=1)) < error).all()


def test_compare_sets_least_squares_of_all_rows_beside_every_alternative(result, data):
    design = np.column_stack([np.ones(N_ROWS), data[["x1", "x2"]]])
    naive = np.linalg.lstsq(design, data["outcome"], rcond=None)[0]
    table = result.compare().table
    for j in (1, 2, 3):
        np.testing.assert_allclose(
            table.loc[[(j, term) for term in ("Intercept", "x1", "x2")], "naive"], naive, rtol=1e-8
        )
    assert "expected share of rows" in str(result.compare().to_page())


# how it got there


def test_starts_say_where_each_ended(result):
    starts = result.starts
    assert list(starts.columns) == ["name", "rows", "loglik", "behind", "fault"]
    assert len(starts) == 100_000 // N_ROWS
    assert {"subspace", "cells", "random", "annealed"} == set(starts["name"])
    assert starts["behind"].max() == 0.0
    assert (starts["rows"] == N_ROWS).all()
    assert starts["loglik"].max() == pytest.approx(result.llf, abs=1e-3)
    reached = int((starts["behind"] > -0.01).sum())
    assert f"{reached} of {len(starts)} starts reached this optimum" in result.status


def test_the_summary_says_what_is_not_known(result):
    said = " ".join(str(result.summary()).split())
    assert "Linear regression under self-selection, unknown index" in said
    for j in (1, 2, 3):
        assert f"{j} (expected share of rows {100 * result.shares[j]:.1f}%)" in said
    assert "starts reached this optimum" in said
    assert "one scale for all" in said
    assert "FRAGILE" not in said
    assert "The chosen alternative can be inferred with probability" in str(result.diagnose())


@pytest.mark.parametrize(("reached", "n_starts", "fragile"), [
    (1, 8, True), (2, 8, True), (3, 8, False), (2, 256, True), (3, 256, False), (1, 1, False),
])  # fmt: skip
def test_an_optimum_that_another_seed_may_miss_is_called_fragile(
    result, reached, n_starts, fragile
):
    """Of as many other starts none reaches it with a chance of more than 5%."""
    assert ((1 - reached / n_starts) ** n_starts > 0.05) == fragile
    one = result.solution.starts[0]
    starts = [replace(one, behind=0.0 if i < reached else -3.0) for i in range(n_starts)]
    shown = replace(result, solution=replace(result.solution, starts=tuple(starts)))
    said = f"FRAGILE OPTIMUM: only {reached} of {n_starts} starts reached it"
    assert (said in " ".join(shown.summary().notices)) == fragile


def test_a_hard_problem_shows_that_starts_differ():
    """Four alternatives in one covariate and few rows: not every start ends at the best."""
    sample = ss.simulators.gaussian(300, 1, 4, norm=2.0, seed=1)
    fit = ss.fit("outcome ~ x1", sample.data, alternatives=4, noise=Independent(1.0))
    assert fit.starts["behind"].min() < -0.05
    assert "the next best was" in fit.status or "discarded" in fit.status


def test_the_optimum_of_em_is_that_of_maximum_likelihood(data, result):
    em = ss.fit(FORMULA, data, alternatives=3, solver=EM(starts=2))
    assert em.converged and "EM steps" in em.status
    assert em.llf == pytest.approx(result.llf, abs=1e-4)
    np.testing.assert_allclose(em.params, result.params, atol=1e-3)
    # Standard errors are of the exact information, not of the complete data's.
    np.testing.assert_allclose(em.bse, result.bse, rtol=1e-2)


def test_em_never_lowers_the_likelihood(data):
    trace = ss.fit(FORMULA, data, alternatives=3, solver=EM(starts=1, tol=1e-6)).trace
    assert (np.diff(trace["loglik"]) > -1e-8).all()


# scales


@pytest.mark.parametrize("scale", ["each", "common", 1.0])
def test_every_kind_of_scale_can_be_fitted(scale, data):
    fit = quick(data, noise=Independent(scale))
    assert fit.converged
    assert len(fit.params) == {"each": 12, "common": 10, 1.0: 9}[scale]
    np.testing.assert_allclose(fit.scales, 1.0, atol=0.25)


def test_a_common_scale_is_the_default_and_one_each_fits_no_worse(data, result):
    assert result.problem.noise.scale == "common"
    each = quick(data, noise=Independent("each"))
    assert each.llf >= result.llf
    assert each.lr_test(result).df == 2


def test_known_scales_that_differ_stay_with_their_numbers(data):
    """Then alternatives are not alike, and none may change places with another."""
    one = quick(data, noise=Independent([1.0, 1.0, 1.6]))
    other = quick(data, noise=Independent([1.6, 1.0, 1.0]))
    assert one.llf == pytest.approx(other.llf, abs=SAME)
    np.testing.assert_allclose(one.params[3], other.params[1], atol=SAME)
    np.testing.assert_allclose(one.params[1], other.params[2], atol=SAME)
    z = (data["outcome"].to_numpy()[:, None] - one.predict().to_numpy()) / [1.0, 1.0, 1.6]
    ratio = norm.pdf(z) / norm.cdf(z) / [1.0, 1.0, 1.6]
    llf = norm.logcdf(z).sum() + np.log(ratio.sum(axis=1)).sum()
    assert one.llf == pytest.approx(llf, rel=1e-10)


# weights, covariances


@pytest.mark.parametrize("level", [3.0, 1e3, 1e6])
def test_the_level_of_the_weights_changes_no_estimate(level, data, result):
    fit = quick(data, weights=np.full(N_ROWS, level), weights_kind="frequency")
    np.testing.assert_allclose(fit.params, result.params, atol=1e-5)
    assert fit.converged
    assert "discarded" not in fit.status
    assert not any("FRAGILE" in notice for notice in fit.summary().notices)
    robust = quick(data, weights=np.full(N_ROWS, level), weights_kind="probability")
    plain = quick(data, covariance="robust")
    np.testing.assert_allclose(robust.bse, plain.bse, rtol=1e-4)


def test_robust_and_clustered_errors_agree_with_the_observed_where_the_model_holds(data, result):
    robust = quick(data, covariance="robust")
    np.testing.assert_allclose(robust.params, result.params, atol=SAME)
    assert (robust.bse / result.bse).min() > 0.7 and (robust.bse / result.bse).max() < 1.4
    alone = quick(data, cluster=np.arange(N_ROWS))
    np.testing.assert_allclose(alone.bse, robust.bse, rtol=1e-6)
    twice = quick(pd.concat([data, data]), cluster=np.tile(np.arange(N_ROWS), 2))
    # Rows seen twice in one cluster count once, but for the correction of n / (n - 1).
    np.testing.assert_allclose(twice.bse, robust.bse, rtol=1e-4)


def test_bootstrapped_errors_agree_with_the_observed(data, result):
    boot = quick(data, covariance=Bootstrap(60), seed=1)
    assert (boot.bse / result.bse).min() > 0.6 and (boot.bse / result.bse).max() < 1.6


def test_alternatives_that_change_places_do_not_widen_the_bootstrap():
    """Without a constant, mean outcomes are all but equal: the order of samples is a toss."""
    sample = ss.simulators.gaussian(500, 2, 2, norm=2.5, intercept=False, seed=1)
    fit = ss.fit(sample.formula, sample.data, alternatives=2)
    boot = ss.fit(sample.formula, sample.data, alternatives=2, covariance=Bootstrap(60), seed=1)
    assert (boot.bse / fit.bse).max() < 1.6


# invariances


def test_the_smallest_is_the_largest_of_the_negatives(market, short_side):
    negative = market.data.assign(quantity=-market.data["quantity"])
    largest = ss.fit(market.formula, negative, rule="max")
    sign = np.array([1.0 if term == "scale" else -1.0 for _, term in largest.params.index])
    np.testing.assert_allclose(sign * largest.params, short_side.params, atol=SAME)
    np.testing.assert_allclose(largest.bse, short_side.bse, rtol=1e-5)
    np.testing.assert_allclose(largest.responsibilities(), short_side.responsibilities(), atol=SAME)
    assert largest.llf == pytest.approx(short_side.llf, rel=1e-10)


def test_a_search_on_a_sample_of_the_rows_ends_at_the_optimum_of_all(data, result):
    fit = ss.fit(FORMULA, data, alternatives=3, solver=MaximumLikelihood(sample=400))
    np.testing.assert_allclose(fit.params, result.params, atol=SAME)
    assert set(fit.starts["rows"]) == {400}


def test_an_alternative_that_is_closed_was_not_seen(data, sample):
    """Who is open is known, so it tells alternatives apart and their numbers stay."""
    rng = np.random.default_rng(6)
    opened = rng.uniform(size=N_ROWS) < 0.6
    latent = sample.latent.to_numpy().copy()
    latent[~opened, 2] = -np.inf
    closed = data.assign(outcome=latent.max(axis=1), open=opened)
    for number in (1, 2, 3):
        fit = quick(closed, available={number: "open"}, seed=number)
        assert fit.converged
        chance = fit.responsibilities()
        assert (chance.loc[~opened, number] == 0.0).all()
        truth = sample.params["c"].drop("scale")
        found = fit.params[number]
        assert ((found - truth) / fit.bse[number]).abs().max() < 4
        rest = [j for j in (1, 2, 3) if j != number]
        means = fit.predict(kind="latent")[rest].mean()
        assert means.is_monotonic_decreasing
        pd.testing.assert_frame_equal(
            fit.responsibilities(closed.head(9)), chance.head(9), check_exact=False
        )


# archives


def test_a_saved_fit_comes_back(result, data, tmp_path: Path):
    result.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    pd.testing.assert_frame_equal(loaded.tidy(), result.tidy())
    pd.testing.assert_series_equal(loaded.shares, result.shares)
    pd.testing.assert_series_equal(loaded.counts, result.counts)
    pd.testing.assert_frame_equal(loaded.starts, result.starts)
    assert str(loaded.summary()) == str(result.summary())
    assert (loaded.status, loaded.problem.index) == (result.status, "unknown")
    pd.testing.assert_frame_equal(
        loaded.responsibilities(data.head(7)), result.responsibilities(data.head(7))
    )
    assert loaded.independence_test() == result.independence_test()
    with pytest.raises(ss.errors.UnsupportedError, match="no longer has its rows"):
        loaded.responsibilities()


def test_a_saved_fit_of_a_transformed_outcome_knows_the_transform(market, tmp_path: Path):
    table = market.data.assign(quantity=np.exp(market.data["quantity"] / 10))
    formulas = {
        label: formula.replace("quantity", "np.log(quantity)")
        for label, formula in market.formula.items()
    }
    fit = ss.fit(formulas, table, rule="min", solver=MaximumLikelihood(starts=2))
    fit.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    expected = fit.responsibilities().iloc[:6]
    np.testing.assert_allclose(loaded.responsibilities(table.head(6)), expected, rtol=1e-10)


def test_a_moment_estimate_can_be_saved(tmp_path: Path):
    sample = ss.simulators.gaussian(500, 2, 2, intercept=False, norm=2.0, seed=1)
    fit = ss.fit(sample.formula, sample.data, alternatives=2, solver=ss.solvers.TwoModels())
    fit.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    assert loaded.bse.isna().all()
    assert str(loaded.summary()) == str(fit.summary())


# tests between fits


def test_numbers_of_alternatives_are_not_compared_by_a_likelihood_ratio(data, result):
    test = quick(data, alternatives=2).lr_test(result)
    assert not test.possible and "choose_alternatives" in test.reason


def test_moment_estimates_are_not_compared_by_a_likelihood_ratio():
    sample = ss.simulators.gaussian(500, 2, 2, intercept=False, norm=2.0, seed=1)
    options = {"alternatives": 2, "solver": ss.solvers.TwoModels()}
    small = ss.fit("outcome ~ x1 - 1", sample.data, **options)
    large = ss.fit("outcome ~ x1 + x2 - 1", sample.data, **options)
    assert "not one of maximum likelihood" in small.lr_test(large).reason
