"""Conditional moments of the noise against integrals, and against derivatives of a likelihood."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import selfselect as ss
from selfselect.inference.simulation import noise_moments

INTEGRAL = 1e-7
"""Both sides are exact but for quadrature and the rounding of truncated tails."""

COLUMNS = {"x": [0.3, -1.0, 0.8, 0.1, -0.4, 1.5]}

RULES = {
    "max": "max",
    "min": "min",
    "transforms": ss.rules.MonotoneArgmax({"a": "exp", "b": "negative", "c": 2.0}),
}


def hermite(order, z):
    return np.polynomial.hermite_e.hermeval(z, [0] * order + [1])


def sample_of(rule, n_rows=400, seed=3):
    rng = np.random.default_rng(seed)
    return ss.simulate(
        {"a": {"Intercept": 0.3, "x": 0.5}, "b": {"x": -0.5, "Intercept": 0.1},
         "c": {"Intercept": 0.2, "x": 0.2}},
        {"x": rng.normal(size=n_rows)}, scales={"a": 0.7, "b": 1.0, "c": 1.3}, rule=rule, seed=seed,
    )  # fmt: skip


def noise_bounds(fit, row):
    """Return what the rule says of each alternative's standardised noise in a row."""
    problem, rows = fit.problem, fit.rows.take(slice(row, row + 1))
    lower, upper = problem.ordered_rule.bounds(rows.chosen, rows.outcome, rows.known)
    shape = (1, problem.equations.n_alternatives)
    mean = fit.predict().iloc[row].to_numpy()
    scale = fit.scales.to_numpy()
    return [(np.broadcast_to(bound, shape)[0] - mean) / scale for bound in (lower, upper)], (
        rows.outcome[0] - mean
    ) / scale


@pytest.mark.parametrize("name", RULES)
def test_moments_given_a_row_are_integrals_over_what_it_leaves_open(name):
    sample = sample_of(RULES[name])
    fit = ss.fit(sample.formula, sample.data, chosen="chosen", rule=sample.rule)
    natural = fit.problem.layout.natural(fit.solution.free)
    shape, spread = noise_moments(fit.problem, natural, fit.engine.batch).values()
    x = fit.problem.units.design(fit.rows.covariates, (1,))[:, 0]
    for row in range(12):
        (low, high), own = noise_bounds(fit, row)
        for j in range(3):
            for order in (2, 3, 4):
                if fit.rows.chosen[row] == j:
                    wanted = hermite(order, own[j])
                else:
                    mass = norm.cdf(high[j]) - norm.cdf(low[j])
                    ends = np.clip([low[j], high[j]], -10, 10)
                    wanted = quad(lambda z, r=order: hermite(r, z) * norm.pdf(z), *ends)[0] / mass
                found = spread[row, j] / x[row] if order == 2 else shape[row, 2 * j + order - 3]
                assert found == pytest.approx(wanted, rel=INTEGRAL, abs=INTEGRAL)


def test_two_sided_bounds_are_integrals_too():
    class Farthest(ss.rules.BoxRule):
        """See the alternative farthest from zero: the others lie between two bounds."""

        name = "farthest from zero"

        def choose(self, latent, rows=None):
            del rows
            return np.abs(latent).argmax(axis=1)

        def bounds(self, chosen, outcome, rows=None):
            del chosen, rows
            size = np.abs(outcome)[:, None]
            return -size, size

    rng = np.random.default_rng(0)
    latent = np.column_stack([0.4 + rng.normal(size=300), -0.3 + rng.normal(size=300)])
    chosen = np.abs(latent).argmax(axis=1)
    data = pd.DataFrame({"y": latent[np.arange(300), chosen], "who": np.array(["a", "b"])[chosen]})
    fit = ss.fit("y ~ 1", data, chosen="who", rule=Farthest())
    natural = fit.problem.layout.natural(fit.solution.free)
    shape = noise_moments(fit.problem, natural, fit.engine.batch)["normality"]
    for row in range(10):
        other = 1 - fit.rows.chosen[row]
        (low, high), _ = noise_bounds(fit, row)
        low, high = low[other], high[other]
        mass = norm.cdf(high) - norm.cdf(low)
        for order in (3, 4):
            wanted = quad(lambda z, r=order: hermite(r, z) * norm.pdf(z), low, high)[0] / mass
            assert shape[row, 2 * other + order - 3] == pytest.approx(wanted, rel=1e-6)
    # Nothing but a constant explains the outcome, so nothing could move the variance.
    test = fit.heteroskedasticity_test()
    assert not test.possible and "no equation has a covariate" in test.reason


@pytest.mark.parametrize("rule", ["max", "min"])
def test_where_nobody_was_recorded_both_cases_are_weighed(rule):
    sample = ss.simulators.gaussian(400, 2, 2, norm=2.0, rule=rule, seed=1)
    fit = ss.fit("outcome ~ x1 + x2", sample.data, alternatives=2, rule=rule)
    natural = fit.problem.layout.natural(fit.solution.free)
    shape = noise_moments(fit.problem, natural, fit.engine.batch)["normality"]
    chance, scale = fit.responsibilities().to_numpy(), fit.scales.to_numpy()
    z = (fit.rows.outcome[:, None] - fit.predict().to_numpy()) / scale
    for row in range(8):
        for j in range(2):
            ends = (-10, z[row, j]) if rule == "max" else (z[row, j], 10)
            mass = norm.cdf(ends[1]) - norm.cdf(ends[0])
            for order in (3, 4):
                cut = quad(lambda t, r=order: hermite(r, t) * norm.pdf(t), *ends)[0] / mass
                wanted = chance[row, j] * hermite(order, z[row, j]) + (1 - chance[row, j]) * cut
                assert shape[row, 2 * j + order - 3] == pytest.approx(wanted, rel=1e-6)


def test_the_excess_variance_times_a_covariate_is_the_score_of_its_scale():
    """Differentiate the log-likelihood of scales that move with x, written out by hand."""
    sample = sample_of("max", n_rows=200)
    fit = ss.fit(sample.formula, sample.data, chosen="chosen")
    mean, scale = fit.predict().to_numpy(), fit.scales.to_numpy()
    x = fit.problem.units.design(fit.rows.covariates, (1,))[:, 0]

    def loglik(j, slope):
        spread = scale[j] * np.exp(slope * x)
        z = (fit.rows.outcome - mean[:, j]) / spread
        seen = fit.rows.chosen == j
        return np.where(seen, norm.logpdf(z) - np.log(spread), norm.logcdf(z)).sum()

    natural = fit.problem.layout.natural(fit.solution.free)
    moments = noise_moments(fit.problem, natural, fit.engine.batch)
    found = moments["heteroskedasticity"].sum(axis=0)
    for j in range(3):
        slope = (loglik(j, 1e-5) - loglik(j, -1e-5)) / 2e-5
        assert found[j] == pytest.approx(slope, rel=1e-5, abs=1e-5)


def test_the_ranked_moments_average_zero_under_the_model():
    sample = sample_of(ss.rules.Ranked(2), n_rows=3_000)
    fit = ss.fit(sample.formula, sample.data, chosen="chosen", rule=ss.rules.Ranked(2))
    natural = fit.problem.layout.natural(fit.solution.free)
    for found in noise_moments(fit.problem, natural, fit.engine.batch).values():
        z = found.mean(axis=0) / (found.std(axis=0) / np.sqrt(len(found)))
        # Estimating parameters only makes the means smaller than chance does.
        assert np.abs(z).max() < 4.0
        assert found.std(axis=0).min() > 0.1
