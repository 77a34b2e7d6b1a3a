"""Joined alternatives find the truth that their sample was drawn from."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.noises import Correlated, SharedShock

FOUR_ERRORS = 4.0
"""Beyond four standard errors lies one estimate in 16,000 where the model is right."""

COEFFICIENTS = {
    "a": {"Intercept": 0.3, "x1": 0.8, "x2": -0.4},
    "b": {"Intercept": 0.5, "x1": -0.5, "x3": 0.6},
    "c": {"Intercept": 0.1, "x1": 0.2, "x2": 0.9},
    "d": {"Intercept": 0.2, "x2": -0.7, "x3": -0.8},
}


def draw(k, noise, n_rows, rule="max", seed=4):
    rng = np.random.default_rng([seed, k])
    table = pd.DataFrame(rng.standard_normal((n_rows, 3)), columns=["x1", "x2", "x3"])
    table["fare"] = rng.uniform(0, 2, n_rows)
    chosen = {label: COEFFICIENTS[label] for label in "abcd"[:k]}
    return ss.simulate(chosen, table, noise=noise, rule=rule, seed=seed)


def assert_recovered(result, truth):
    assert result.converged, result.status
    off = (result.params - truth[result.params.index]) / result.bse
    assert off.abs().max() < FOUR_ERRORS, off
    # Squares of standard normals average one; they are correlated here, and few.
    assert (off**2).mean() < 3.0


@pytest.mark.parametrize("rule", ["max", "min"])
@pytest.mark.parametrize("rho", [-0.5, 0.7])
def test_two_correlated_alternatives(rule, rho):
    made = draw(2, Correlated(correlation=rho), 6_000, rule)
    result = ss.fit(made.formula, made.data, chosen="chosen", noise="correlated", rule=rule)
    assert_recovered(result, made.params)
    plain = ss.fit(made.formula, made.data, chosen="chosen", rule=rule)
    assert plain.independence_test().rejects() and result.llf > plain.llf + 10


def test_three_correlated_alternatives():
    matrix = np.array([[1.0, 0.5, -0.2], [0.5, 1.0, 0.3], [-0.2, 0.3, 1.0]])
    made = draw(3, Correlated(correlation=matrix), 800)
    result = ss.fit(made.formula, made.data, chosen="chosen", noise=Correlated(draws=32),
                    solver=ss.solvers.Continuation(steady=None))  # fmt: skip
    assert_recovered(result, made.params)


def test_four_alternatives_with_a_shared_shock():
    loading = {"a": 0.8, "b": 0.5, "c": 1.0, "d": 0.7}
    made = draw(4, SharedShock(loading=loading), 2_000)
    result = ss.fit(made.formula, made.data, chosen="chosen", noise="shared shock")
    assert_recovered(result, made.params)


def test_the_best_transformed_outcome_with_correlated_noise():
    rule = ss.rules.MonotoneArgmax({"a": 0.5, "b": "identity"})
    made = draw(2, Correlated(correlation=0.5), 6_000, rule)
    result = ss.fit(made.formula, made.data, chosen="chosen", noise="correlated", rule=rule)
    assert_recovered(result, made.params)


def test_nobody_recorded_who_was_seen_and_noise_is_correlated():
    made = draw(2, Correlated(correlation=0.4), 2_500)
    data = made.data.drop(columns="chosen")
    result = ss.fit(made.formula, data, noise="correlated")
    assert_recovered(result, made.params)
    assert result.responsibilities().sum(axis=1).to_numpy() == pytest.approx(1.0)


@pytest.mark.parametrize("rho", [0.0, 0.4])
def test_an_alternative_without_any_outcome(rho):
    """Nobody at home has a wage; who stays there still says what home is worth."""
    made = draw(2, Correlated(correlation=rho), 1_500)
    home = made.data.assign(outcome=made.data["outcome"].where(made.data["chosen"] == "a"))
    noise = "correlated" if rho else "independent"
    result = ss.fit(made.formula, home, chosen="chosen", missing_outcome="silent", noise=noise)
    truth = made.params if rho else made.params.drop(("a & b", "correlation"))
    assert_recovered(result, truth)
    assert result.facts.n_silent == home["outcome"].isna().sum()


@pytest.mark.parametrize("noise", [None, Correlated(correlation=0.5)])
def test_a_cost_that_is_estimated(noise):
    made = draw(2, noise, 6_000)
    latent, fare = made.latent, made.data["fare"]
    to_b = latent["b"] - (0.4 + 0.5 * fare) > latent["a"]
    data = made.data.assign(
        chosen=np.where(to_b, "b", "a"), outcome=np.where(to_b, latent["b"], latent["a"])
    )
    fitted = ss.fit(made.formula, data, chosen="chosen", cost={"b": "~ fare"},
                    noise="correlated" if noise else None)  # fmt: skip
    truth = {**made.params, ("b", "cost: Intercept"): 0.4, ("b", "cost: fare"): 0.5}
    assert_recovered(fitted, pd.Series(truth))
    # Costs of zero are pure self-selection.
    pure = ss.fit(made.formula, data, chosen="chosen", noise="correlated" if noise else None)
    assert fitted.lr_test(pure).p_value < 1e-6


def test_top_coded_outcomes_and_choosers_nobody_recorded():
    made = draw(2, None, 5_000)
    data = made.data.assign(cap=2.0)
    data["outcome"] = data["outcome"].where(data["outcome"] < 2.0)
    data.loc[data.index % 4 == 0, "chosen"] = None
    possible = {"a": "open", "b": "open"}
    result = ss.fit(made.formula, data.assign(open=1), chosen="chosen",
                    outcome_between=("cap", None), possible=possible)  # fmt: skip
    assert_recovered(result, made.params)
    assert result.facts.n_undecided == 1_250 and result.facts.n_silent > 300
    whole = ss.fit(made.formula, made.data, chosen="chosen")
    assert (result.bse / whole.bse).min() > 1.0


def test_outcomes_weighed_before_the_best_is_seen_need_no_recorded_chooser():
    rng = np.random.default_rng(3)
    covariates = {"x": rng.standard_normal(1_200), "z": rng.standard_normal(1_200)}
    rule = ss.rules.MonotoneArgmax({1: 2.0, 2: 0.8})
    sample = ss.simulate(
        {
            1: {"Intercept": 1.0, "x": 2.0, "z": 0.3},
            2: {"Intercept": 1.5, "x": -1.4, "z": 1.5},
        },
        covariates,
        rule=rule,
        scales=1.0,
        seed=3,
    )
    noise = ss.noises.Independent("common")
    result = ss.fit("outcome ~ x + z", sample.data, alternatives=2, rule=rule, noise=noise)
    assert result.converged
    truth = sample.params.drop(index="scale", level="term").to_numpy()
    assert (np.abs(result.values[:6] - truth) < 4.0 * result.bse.to_numpy()[:6]).all()
    # Which equation is whose, only the weights tell: the other numbering fits far worse.
    assert result.starts["behind"].min() < -10.0
    costly = ss.rules.Maximum(cost={1: 0.0})
    plain = ss.fit("outcome ~ x + z", sample.data, alternatives=2, noise=noise)
    with_cost = ss.fit("outcome ~ x + z", sample.data, alternatives=2, rule=costly, noise=noise)
    assert with_cost.llf == pytest.approx(plain.llf, abs=1e-5)
