from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import selfselect as ss
from selfselect.inference.independence import independence_test
from selfselect.inference.sandwich import free_scores

REPLICATIONS = 300


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
        # Of 300 samples 5% plus or minus 1.3% reject where the size is right.
        assert 0.015 < share < 0.10
        # A chi-square averages its degrees of freedom.
        assert np.mean([test.statistic for test in tests]) == pytest.approx(df, rel=0.25)


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
    assert weighted.statistic == pytest.approx(repeated.statistic, rel=1e-6)


def test_negating_the_outcome_turns_the_maximum_into_the_minimum():
    data = correlated(0.2)
    one, other = independence(data), independence(data.assign(y=-data["y"]), rule="min")
    assert other.statistic == pytest.approx(one.statistic, rel=1e-6)


def test_the_statistic_is_the_efficient_score_by_hand():
    result = ss.fit("y ~ x1", correlated(0.3, n_alternatives=2, n_rows=300), chosen="who")
    problem, engine = result.problem, result.engine
    layout, free = problem.layout, result.solution.free

    def products(at):
        """Multiply the generalised residuals, written out from the definition."""
        reported = layout.report(at).values
        w, s = layout.coefficients_of(reported), layout.scales_of(reported)
        design = np.column_stack([np.ones(300), engine.rows.covariates])
        e = np.empty((300, 2))
        for j in range(2):
            a = (engine.rows.outcome - design @ w[j]) / s[j]
            below = -norm.pdf(a) / norm.cdf(a)
            e[:, j] = np.where(engine.rows.chosen == j, a, below)
        return e[:, 0] * e[:, 1]

    step = 1e-6
    slope = np.array(
        [
            (products(free + move).sum() - products(free - move).sum()) / (2 * step)
            for move in step * np.eye(layout.n_free)
        ]
    )
    explained = -slope @ np.linalg.inv(result.solution.information)
    scores = free_scores(problem, layout.natural(free), engine.batch)
    freed = products(free) - scores @ explained
    wanted = products(free).sum() ** 2 / (freed**2).sum()
    assert result.independence_test().statistic == pytest.approx(wanted, rel=1e-6)


def test_a_singular_information_is_a_reason_not_a_number():
    result = ss.fit("y ~ x1", correlated(0.0, n_rows=300), chosen="who")
    nothing = np.zeros_like(result.solution.information)
    test = independence_test(result.problem, result.engine, result.solution.free, nothing)
    assert not test.possible and "singular" in test.reason
    assert not test.rejects() and np.isnan(test.p_value)
