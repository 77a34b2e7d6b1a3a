from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import sqrtm

import selfselect as ss
import selfselect.inference.sandwich as module_of_sandwich
from selfselect.errors import ConvergenceWarning, OptionError
from selfselect.inference.sandwich import free_scores, reduce_bias
from selfselect.likelihoods import evaluate
from selfselect.noises import Independent

EXACT = 1e-8
NEAR = 1e-4
"""Rows' parts in the information are differences of scores."""


def row_scores_by_hand(result):
    """Differentiate each row's own log-likelihood, one row and one parameter at a time."""
    layout, engine = result.problem.layout, result.engine
    step = 1e-5
    scores = np.empty((engine.n_rows, layout.n_free))
    for i in range(engine.n_rows):
        row = engine.batch.take(slice(i, i + 1))
        for m in range(layout.n_free):
            move = step * (np.arange(layout.n_free) == m)
            ahead, behind = (
                evaluate(result.problem, layout.natural(result.solution.free + side * move), row)
                for side in (1, -1)
            )
            scores[i, m] = (ahead.loglik - behind.loglik) / (2 * step)
    return scores


def sandwich(result, meat):
    bread = np.linalg.inv(result.solution.information)
    jacobian = result.reported.jacobian
    return jacobian @ bread @ meat @ bread @ jacobian.T


def test_row_scores_are_those_of_single_rows_and_add_up_to_zero(world, rule_name, noise):
    result = world(rule_name, 60).fit(noise=noise, weights="w")
    natural = result.problem.layout.natural(result.solution.free)
    scores = free_scores(result.problem, natural, result.engine.batch)
    # Differences of terms of order one with a step of 1e-5.
    np.testing.assert_allclose(scores, row_scores_by_hand(result), atol=1e-7)
    errors = np.sqrt(np.diag(np.linalg.inv(result.solution.information)))
    assert np.abs(scores.sum(axis=0) * errors).max() < 1e-6


def test_observed_errors_are_the_inverse_information_in_the_users_units(world, noise):
    result = world("max", 300).fit(noise=noise)
    jacobian = result.reported.jacobian
    wanted = jacobian @ np.linalg.inv(result.solution.information) @ jacobian.T
    np.testing.assert_allclose(result.cov_params(), wanted, rtol=EXACT, atol=1e-12)


def meat_by_hand(result, groups):
    """Correct the score of each group for its part in the information, by matrix square roots."""
    layout, free, batch = result.problem.layout, result.solution.free, result.engine.batch
    information = result.solution.information
    meat = np.zeros_like(information)
    for group in np.unique(groups):
        rows = batch.take(np.flatnonzero(groups == group))
        found = evaluate(result.problem, layout.natural(free), rows)
        score = layout.pull_back_vector(found.score, free)
        part = -layout.pull_back_hessian(found.hessian, found.score, free)
        left = np.eye(len(free)) - part @ np.linalg.inv(information)
        corrected = np.linalg.inv(np.real(sqrtm(left))) @ score
        meat += np.outer(corrected, corrected)
    return meat


@pytest.mark.parametrize("weights", [None, "w"])
def test_robust_errors_are_the_corrected_sandwich_of_loops(world, noise, weights):
    result = world("min", 120).fit(noise=noise, weights=weights, covariance="robust")
    wanted = sandwich(result, meat_by_hand(result, np.arange(120)))
    np.testing.assert_allclose(result.cov_params(), wanted, rtol=NEAR, atol=NEAR)
    assert result.covariance.kind == "robust" and np.isinf(result.covariance.df)


def test_many_rows_have_the_plain_sandwich(world, monkeypatch):
    made = world("min", 120)
    corrected = made.fit(covariance="robust")
    monkeypatch.setattr(module_of_sandwich, "CORRECTED_ROWS", 100)
    result = made.fit(covariance="robust")
    natural = result.problem.layout.natural(result.solution.free)
    scores = free_scores(result.problem, natural, result.engine.batch)
    meat = scores.T @ scores * 120 / 119
    np.testing.assert_allclose(result.cov_params(), sandwich(result, meat), rtol=EXACT)
    # The correction is of the order of parameters over rows.
    assert 1.0 < np.mean(corrected.bse / result.bse) < 1.05


@pytest.mark.parametrize("noise", [None, ss.noises.Correlated()], ids=["independent", "correlated"])
def test_clusters_of_many_rows_are_corrected_by_their_exact_information(world, monkeypatch, noise):
    made = world("max", 160, labels=("a", "b"))
    by_rows = made.fit(cluster="group", noise=noise)
    monkeypatch.setattr(module_of_sandwich, "CORRECTED_ROWS", 100)
    by_clusters = made.fit(cluster="group", noise=noise)
    np.testing.assert_allclose(by_rows.cov_params(), by_clusters.cov_params(), rtol=NEAR, atol=NEAR)
    monkeypatch.setattr(module_of_sandwich, "CORRECTED_CLUSTERS", 5)
    plain = made.fit(cluster="group", noise=noise)
    assert (plain.bse < by_clusters.bse).mean() > 0.5


def test_in_least_squares_the_correction_is_cr2():
    rng = np.random.default_rng(3)
    groups = rng.integers(0, 6, 60)
    x = np.column_stack([np.ones(60), rng.normal(size=(60, 2))])
    left = rng.normal(size=60) + rng.normal(size=6)[groups]
    left -= x @ np.linalg.lstsq(x, left, rcond=None)[0]
    information = x.T @ x
    scores, parts, wanted = [], [], []
    for group in range(6):
        own = x[groups == group]
        hat = own @ np.linalg.solve(information, own.T)
        shrunk = np.linalg.inv(np.real(sqrtm(np.eye(len(own)) - hat)))
        wanted.append(own.T @ shrunk @ left[groups == group])
        scores.append(own.T @ left[groups == group])
        parts.append(own.T @ own)
    found = reduce_bias(np.array(scores), np.array(parts), information)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("weights", [None, "w"])
def test_clustered_errors_are_the_corrected_sandwich_of_loops(world, noise, weights):
    made = world("max", 160)
    result = made.fit(noise=noise, weights=weights, cluster="group")
    groups = made.data["group"].to_numpy()
    wanted = sandwich(result, meat_by_hand(result, groups))
    np.testing.assert_allclose(result.cov_params(), wanted, rtol=NEAR, atol=NEAR)
    sizes = np.bincount(groups, None if weights is None else made.data[weights])
    effective = sizes.sum() ** 2 / (sizes**2).sum()
    assert result.covariance.df == pytest.approx(effective - 1)
    assert result.covariance.kind == "clustered" and "group" in result.covariance.description


def test_clusters_of_one_row_each_are_the_robust_errors(world):
    made = world("max", 200)
    alone = made.fit(cluster=np.arange(200), covariance="clustered")
    np.testing.assert_allclose(alone.bse, made.fit(covariance="robust").bse, rtol=EXACT)


def test_labels_of_clusters_do_not_matter(world):
    made = world("max", 200)
    groups = made.data["group"].to_numpy()
    numbers, words = made.fit(cluster=groups), made.fit(cluster=[f"g{9 * g}" for g in groups])
    np.testing.assert_allclose(numbers.bse, words.bse, rtol=EXACT)


def test_repeating_every_row_in_its_cluster_leaves_clustered_errors_alone(world):
    made = world("max", 200)
    once = made.fit(cluster=np.arange(200))
    twice = made.fit(made.data.loc[made.data.index.repeat(2)], cluster=np.arange(200).repeat(2))
    np.testing.assert_allclose(once.bse, twice.bse, rtol=1e-6)
    ignored = made.fit(made.data.loc[made.data.index.repeat(2)])
    assert np.mean(ignored.bse / once.bse) == pytest.approx(np.sqrt(0.5), abs=0.05)


def test_a_covariance_that_cannot_be_had_is_refused_with_a_reason(world):
    made = world("max", 200)
    for options, sentence in (
        ({"covariance": "HC3"}, "observed, robust, clustered, bootstrap"),
        ({"covariance": "clustered"}, "needs to know the clusters"),
        ({"cluster": np.zeros(200)}, "only one cluster"),
        ({"covariance": None}, "There is no covariance"),
    ):
        with pytest.raises(OptionError, match=sentence):
            made.fit(**options)


def test_intervals_of_scales_are_positive_and_even_on_the_log_scale(world):
    result = world("max", 120).fit()
    intervals = result.conf_int(0.999999)
    scales = intervals.xs("scale", level="term")
    assert (scales > 0).all(axis=None)
    middle = np.sqrt(scales["conf_low"] * scales["conf_high"])
    np.testing.assert_allclose(middle, result.params.xs("scale", level="term"), rtol=1e-12)


def misspecified(seed, n_rows):
    """One common scale is fitted where there are two; slopes stay far from zero."""
    rng = np.random.default_rng([seed, 5])
    x = rng.normal(0, 1, n_rows)
    sample = ss.simulate(
        {"a": {"Intercept": 0.0, "x": 1.0}, "b": {"Intercept": 0.2, "x": -1.0}},
        {"x": x},
        scales={"a": 0.4, "b": 2.0},
        seed=seed,
    )
    return ss.fit(
        sample.formula,
        sample.data,
        chosen="chosen",
        noise=ss.noises.Independent(scale="common"),
        covariance="robust",
    )


def spread_and_claims(replications, n_rows):
    fits = [misspecified(seed, n_rows) for seed in range(replications)]
    spread = np.std([fit.params for fit in fits], axis=0, ddof=1)
    robust = np.mean([fit.bse for fit in fits], axis=0)
    observed = np.mean(
        [np.sqrt(np.diag(sandwich_bread(fit))) for fit in fits],
        axis=0,
    )
    return robust / spread, observed / spread


def sandwich_bread(result):
    jacobian = result.reported.jacobian
    return jacobian @ np.linalg.inv(result.solution.information) @ jacobian.T


def test_robust_errors_match_the_spread_of_estimates_under_a_wrong_scale():
    robust, observed = spread_and_claims(300, 600)
    # The spread of 300 estimates is itself known to 4%, so three of its errors are allowed.
    np.testing.assert_allclose(robust, 1.0, atol=0.15)
    assert np.abs(observed - 1.0).max() > 0.25


@pytest.mark.slow
def test_robust_errors_match_the_spread_closely_in_a_long_study():
    robust, observed = spread_and_claims(4_000, 1_000)
    # Known to 1.1%; the errors' own bias at a thousand rows is about as large.
    np.testing.assert_allclose(robust, 1.0, atol=0.05)
    assert np.abs(observed - 1.0).max() > 0.25


def test_restrictions_that_few_samples_do_not_show_are_not_tested(world):
    """Four samples have a covariance of rank three: its inverse is rounding."""
    few = world("max", 160, labels=("a", "b")).fit(covariance=ss.inference.Bootstrap(4), seed=1)
    test = few.wald_test([f"{name} = 0.1" for name in few.names[:4]])
    assert not test.possible and "draw more samples" in test.reason
    assert few.wald_test([f"{name} = 0.1" for name in few.names[:2]]).possible


def separated(seed):
    """Make rows that all choose the same where d = 1: its coefficient has no finite value."""
    rng = np.random.default_rng(seed)
    x, d = rng.normal(size=40), (rng.uniform(size=40) < 0.15) * 1.0
    latent = np.column_stack([x + rng.normal(size=40), 0.5 - x + rng.normal(size=40)])
    latent[d > 0, 1] = latent[d > 0, 0] - 1.0
    job = np.array(["a", "b"])[latent.argmax(axis=1)]
    group = rng.integers(0, 8, 40)
    return pd.DataFrame({"y": latent.max(axis=1), "x": x, "d": d, "job": job, "group": group})


@pytest.mark.parametrize("noise", [Independent("each"), Independent("~ d"), "correlated"])
@pytest.mark.parametrize("options", [{"covariance": "robust"}, {"cluster": "group"}])
@pytest.mark.parametrize("seed", [0, 2, 24])
def test_a_sandwich_that_rounding_has_eaten_is_missing_with_a_reason(
    tmp_path, noise, options, seed
):
    with pytest.warns(ConvergenceWarning):
        fit = ss.fit("y ~ x + d", separated(seed), chosen="job", noise=noise, **options)
    matrix = fit.cov_params().to_numpy()
    if np.isnan(fit.bse).any():
        assert np.isnan(matrix).all()
        assert "NO STANDARD ERRORS: the information matrix is singular" in str(fit.summary())
    else:
        np.testing.assert_array_equal(matrix, matrix.T)
        assert (matrix.diagonal() > 0).all()
    fit.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    np.testing.assert_array_equal(loaded.cov_params(), fit.cov_params())
    if noise == Independent("each"):
        shares = fit.counterfactual(rule="min", draws=2_000).shares.table
        assert np.isfinite(shares["estimate"]).all()
        assert np.isnan(shares["std_error"]).all() == np.isnan(matrix).all()
