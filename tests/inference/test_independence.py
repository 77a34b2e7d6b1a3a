from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import selfselect as ss
from selfselect.inference.independence import independence_test
from selfselect.inference.sandwich import free_scores
from selfselect.likelihoods import row_terms

REPLICATIONS = 120

DRAWN = 0.05
"""Rows drawn from the model know the spread of what is tested to some 2%."""


def correlated(rho, *, n_alternatives=3, n_rows=1_000, seed=0, rule="max"):
    rng = np.random.default_rng([seed, 21])
    x = rng.normal(0, 1, (n_rows, 2))
    slopes = np.array([[0.8, -0.4], [-0.5, 0.6], [0.2, 0.5]])[:n_alternatives]
    shared = rng.normal(0, 1, (n_rows, 1))
    noise = np.sqrt(rho) * shared + np.sqrt(1 - rho) * rng.normal(0, 1, (n_rows, n_alternatives))
    latent = 0.2 + x @ slopes.T + noise * np.array([0.8, 1.0, 1.3])[:n_alternatives]
    chosen = latent.argmax(axis=1) if rule == "max" else latent.argmin(axis=1)
    return pd.DataFrame(
        {
            "y": latent[np.arange(n_rows), chosen],
            "who": np.array(list("abc"))[chosen],
            "x1": x[:, 0],
            "x2": x[:, 1],
        }
    )


def independence(data, **options):
    return ss.fit("y ~ x1 + x2", data, chosen="who", **options).independence_test()


def test_the_test_keeps_its_size():
    for n_alternatives, df in ((2, 1), (3, 3)):
        tests = [
            independence(correlated(0.0, n_alternatives=n_alternatives, seed=seed))
            for seed in range(REPLICATIONS)
        ]
        assert all(test.df == df for test in tests)
        share = np.mean([test.rejects(0.95) for test in tests])
        # Of 120 samples 5% plus or minus 2% reject where the size is right.
        assert 0.0 < share < 0.12
        # A chi-square averages its degrees of freedom; one of them has a standard error of 0.13.
        assert np.mean([test.statistic for test in tests]) == pytest.approx(df, rel=0.4)


@pytest.mark.parametrize("rule", ["max", "min"])
def test_strong_correlation_is_found(rule):
    rejected = [
        independence(correlated(0.5, n_rows=2_000, seed=seed, rule=rule), rule=rule).rejects()
        for seed in range(20)
    ]
    assert np.mean(rejected) >= 0.8


@pytest.mark.parametrize("scale", ["each", "common", 1.0])
def test_the_statistic_does_not_depend_on_units(scale):
    data = correlated(0.2)
    one = independence(data, noise=ss.noises.Independent(scale=scale))
    moved = data.assign(y=1e3 * data["y"] + 7.0, x1=1e-4 * data["x1"] - 3.0)
    fixed = scale if isinstance(scale, str) else 1e3 * scale
    other = independence(moved, noise=ss.noises.Independent(scale=fixed))
    assert other.statistic == pytest.approx(one.statistic, rel=1e-5)


def test_weights_count_rows():
    data = correlated(0.2, n_rows=300)
    times = np.random.default_rng(0).integers(1, 4, 300)
    weighted = independence(data, weights=times.astype(float))
    repeated = independence(data.loc[data.index.repeat(times)])
    assert weighted.statistic == pytest.approx(repeated.statistic, rel=DRAWN)


def test_negating_the_outcome_turns_the_maximum_into_the_minimum():
    data = correlated(0.2)
    one, other = independence(data), independence(data.assign(y=-data["y"]), rule="min")
    assert other.statistic == pytest.approx(one.statistic, rel=DRAWN)


def by_hand(result, codes=None):
    """Compute the efficient score from the definition, its spread from rows or clusters."""
    problem, rows = result.problem, result.rows
    layout, free, n = problem.layout, result.solution.free, len(rows)
    weights = np.ones(n) if rows.weights is None else rows.weights

    def products(at):
        reported = layout.report(at).values
        w, s = layout.coefficients_of(reported), layout.scales_of(reported)
        design = np.column_stack([np.ones(n), rows.covariates])
        e = np.empty((n, 2))
        for j in range(2):
            a = (rows.outcome - design @ w[j]) / s[j]
            below = -norm.pdf(a) / norm.cdf(a)
            e[:, j] = np.where(rows.chosen == j, a, below)
        return e[:, 0] * e[:, 1] * weights

    step = 1e-6
    slope = np.array(
        [
            (products(free + move).sum() - products(free - move).sum()) / (2 * step)
            for move in step * np.eye(layout.n_free)
        ]
    )
    explained = -slope @ np.linalg.inv(result.solution.information)
    freed = products(free) - free_scores(problem, layout.natural(free), result.engine.batch) @ (
        explained
    )
    total = products(free).sum()
    if codes is None:
        return total**2 / (freed**2).sum()
    clusters = np.bincount(codes, freed)
    return total**2 / (clusters @ clusters * len(clusters) / (len(clusters) - 1))


def test_the_statistic_is_the_efficient_score_by_hand():
    data = correlated(0.2, n_alternatives=2, n_rows=4_000)
    result = ss.fit("y ~ x1", data, chosen="who")
    # By hand derivatives and squares are those of the data, not the expected ones.
    assert result.independence_test().statistic == pytest.approx(by_hand(result), rel=0.1)


def test_under_clusters_products_and_scores_are_summed_by_cluster():
    data = correlated(0.2, n_alternatives=2, n_rows=4_000).assign(g=np.arange(4_000) // 8)
    result = ss.fit("y ~ x1", data, chosen="who", cluster="g")
    wanted = by_hand(result, data["g"].to_numpy())
    assert result.independence_test().statistic == pytest.approx(wanted, rel=0.1)
    whole = ss.fit("y ~ x1", data.loc[data.index.repeat(2)], chosen="who", cluster="g")
    # Rows that are there twice say nothing new where clusters are what counts.
    assert whole.independence_test().statistic == pytest.approx(
        result.independence_test().statistic, rel=DRAWN
    )


def test_probability_weights_multiply_what_a_row_says():
    data = correlated(0.2, n_alternatives=2, n_rows=4_000)
    weights = np.random.default_rng(0).uniform(0.2, 3.0, 4_000)
    result = ss.fit("y ~ x1", data, chosen="who", weights=weights, weights_kind="probability")
    assert result.independence_test().statistic == pytest.approx(by_hand(result), rel=0.1)


def shared_within(seed, *, icc=0.6, groups=60, size=10, n_alternatives=2):
    """Draw rows whose noise is normal and independent across alternatives, not within groups."""
    rng = np.random.default_rng([seed, 8])
    g = np.repeat(np.arange(groups), size)
    x = (rng.normal(size=(groups, 2))[g] + rng.normal(size=(len(g), 2))) / np.sqrt(2)
    noise = np.sqrt(icc) * rng.normal(size=(groups, n_alternatives))[g]
    noise += np.sqrt(1 - icc) * rng.normal(size=(len(g), n_alternatives))
    slopes = np.array([[0.8, -0.4], [-0.5, 0.6], [0.2, 0.5]])[:n_alternatives]
    latent = 0.2 + x @ slopes.T + noise
    chosen = latent.argmax(axis=1)
    return pd.DataFrame(
        {
            "y": latent[np.arange(len(g)), chosen],
            "who": np.array(list("abc"))[chosen],
            "x1": x[:, 0],
            "x2": x[:, 1],
            "g": g,
        }
    )


def test_rows_that_move_together_do_not_make_it_reject():
    samples = [shared_within(seed) for seed in range(80)]
    robust = [independence(data, cluster="g").rejects(0.95) for data in samples]
    plain = [independence(data).rejects(0.95) for data in samples]
    # Of 80 samples 5% plus or minus 2.4% reject where the size is right.
    assert np.mean(robust) < 0.13 < np.mean(plain)


def test_clusters_in_two_ways_are_the_sum_less_the_intersection():
    data = shared_within(1).assign(t=np.arange(600) % 10, c=np.arange(600))

    def ratio(cluster):
        """Return S^2/V; of one way of clustering the statistic is F (see `cluster_sums_test`)."""
        test = independence(data, cluster=cluster)
        left = test.df_residual
        return test.statistic if left is None else left * test.statistic / (left + test.statistic)

    one, other, both, cell = (ratio(name) for name in ("g", "t", ["g", "t"], "c"))
    # With one pair the statistic is S^2/V, and V is what is added and subtracted.
    assert 1 / both == pytest.approx(1 / one + 1 / other - 1 / cell, rel=1e-9)


@pytest.mark.parametrize("options", [{"missing_outcome": "silent"}, {"cost": {"a": "~ x1"}}])
def test_clusters_and_weights_count_where_alternatives_are_joined(options):
    rng = np.random.default_rng(3)
    x, cost = rng.normal(size=(400, 2)), "cost" in options
    latent = x @ np.array([[0.0, -0.5], [-0.4, 0.6]]) + rng.normal(size=(400, 2))
    chosen = (latent - np.column_stack([0.5 * cost * x[:, 0], np.zeros(400)])).argmax(axis=1)
    data = pd.DataFrame(
        {
            "y": latent[np.arange(400), chosen],
            "who": np.array(["a", "b"])[chosen],
            "x1": x[:, 0],
            "x2": x[:, 1],
        }
    )
    if not cost:
        data.loc[data.index[::9], "y"] = np.nan
    formula = {"a": "y ~ x2", "b": "y ~ x1 + x2"}
    twice = data.loc[data.index.repeat(2)].assign(g=np.arange(400).repeat(2))

    def statistic(table, **more):
        return ss.fit(formula, table, chosen="who", **options, **more).independence_test().statistic

    plain, doubled = statistic(data), statistic(twice)
    assert doubled == pytest.approx(2 * plain, rel=1e-3)
    # Scores explain products by derivatives here, and by products of the data there.
    assert statistic(twice, cluster="g") == pytest.approx(plain, rel=0.15)
    weights = np.where(np.arange(400) % 2, 2.0, 1.0)
    counted, sampled = (
        statistic(data, weights=weights, weights_kind=kind) for kind in ("frequency", "probability")
    )
    assert counted > 1.2 * sampled


@pytest.mark.slow
def test_an_alternative_that_is_rarely_chosen_keeps_the_size():
    rejected = []
    for seed in range(120):
        rng = np.random.default_rng([seed, 4])
        x = rng.normal(size=(600, 2))
        slopes = np.array([[0.8, -0.4], [-0.5, 0.6], [0.2, 0.5], [0.4, 0.1]])
        noise = rng.normal(size=(600, 4)) * [0.8, 1.0, 1.3, 3.0]
        latent = np.array([0.2, 0.2, 0.2, -4.2]) + x @ slopes.T + noise
        chosen = latent.argmax(axis=1)
        data = pd.DataFrame(
            {"y": latent[np.arange(600), chosen], "who": chosen, "x1": x[:, 0], "x2": x[:, 1]}
        )
        rejected.append(independence(data).rejects(0.95))
    # Squares in the data in place of expected ones reject 13% here; of 120 samples 5% plus or
    # minus 2% reject where the size is right.
    assert np.mean(rejected) < 0.11


def heavy_tailed(seed):
    """Draw 300 rows of three alternatives, the last of which is rarely chosen."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(300, 2))
    noise = rng.standard_t(3, size=(300, 3))
    slopes = np.array([[0.8, 0.9], [-0.6, 0.0], [0.3, -0.5]])
    latent = np.array([1.0, 0.5, -1.5]) + x @ slopes.T + noise
    chosen = np.array(list("abc"))[latent.argmax(axis=1)]
    return pd.DataFrame({"x": x[:, 0], "z": x[:, 1], "y": latent.max(axis=1), "j": chosen})


def test_independent_heavy_tails_are_not_taken_for_dependence():
    # Products of residuals, and their spread in the data, reject this true model with p = 0.0003.
    fit = ss.fit("y ~ x + z", heavy_tailed(41), chosen="j", noise=ss.noises.Student(3))
    assert fit.independence_test().p_value > 0.05


@pytest.mark.parametrize(
    "noise",
    [ss.noises.Student(3), ss.noises.Student(), ss.noises.Independent("~ x", shape="logistic")],
)
def test_products_are_those_of_scores_in_the_means(noise):
    fit = ss.fit("y ~ x + z", heavy_tailed(5), chosen="j", noise=noise)
    problem, layout = fit.problem, fit.problem.layout
    natural = layout.natural(fit.solution.free)
    batch = fit.engine_of_rows().sum(lambda batch: [batch])[0]
    terms = row_terms(problem, natural, batch)
    # The score in an intercept is that in the mean, times what the row's own scale is larger by.
    h = natural[layout.inverse_scale_positions]
    along = terms.score[:, layout.starts[:-1]] * (h / problem.inverse_scales(natural, batch.rows))
    expected = along[:, :, None] * along[:, None, :]
    np.testing.assert_allclose(terms.products, expected, rtol=1e-9, atol=1e-12)


def test_a_singular_information_is_a_reason_not_a_number():
    result = ss.fit("y ~ x1", correlated(0.0, n_rows=300), chosen="who")
    nothing = np.zeros_like(result.solution.information)
    solution = replace(result.solution, information=nothing)
    test = independence_test(replace(result.evidence, solution=solution))
    assert not test.possible and "singular" in test.reason
    assert not test.rejects() and np.isnan(test.p_value)


@pytest.mark.parametrize("groups", [5, 12])
def test_few_clusters_keep_the_size(groups):
    """A chi-square of 5 clusters cannot exceed 4, so it would never reject at 1%."""
    tests = [
        independence(shared_within(seed, groups=groups, size=60), cluster="g")
        for seed in range(100)
    ]
    assert {(test.df, test.df_residual) for test in tests} == {(1, groups - 1)}
    # Of 100 samples 5% plus or minus 2% reject where the size is right.
    assert 0.0 < np.mean([test.rejects(0.95) for test in tests]) < 0.13
    assert f"F(1, {groups - 1}) = " in str(tests[0])


def test_more_pairs_than_clusters_are_no_test():
    test = independence(shared_within(1, groups=3, size=100, n_alternatives=3), cluster="g")
    assert not test.possible and "3 clusters are too few for a test of 3" in test.reason
