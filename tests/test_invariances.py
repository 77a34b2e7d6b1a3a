"""What a fit must not depend on."""

from __future__ import annotations

import numpy as np
import pytest

import selfselect as ss
from selfselect.rules import Maximum, Minimum, MonotoneArgmax

SAME = 1e-8
"""Newton stops within 1e-6 standard errors, in its last step quadratically closer."""

DRAWN = 0.05
"""Rows drawn from the model know the spread of what is tested to some 2%."""

FORMULA = "outcome ~ x1 + x2"


def fit(data, **options):
    return ss.fit(FORMULA, data, chosen="chosen", **options)


@pytest.fixture
def data(world):
    return world("max", 500).data


@pytest.fixture
def plain(data):
    return fit(data)


def test_the_names_of_alternatives_do_not_matter(data, plain):
    names = {"a": "zebra", "b": "mule", "c": "ant"}
    renamed = fit(data.assign(chosen=data["chosen"].map(names)))
    assert list(renamed.counts.index) == ["ant", "mule", "zebra"]
    for old, new in names.items():
        np.testing.assert_allclose(renamed.params[new], plain.params[old], atol=SAME)
        np.testing.assert_allclose(renamed.bse[new], plain.bse[old], atol=SAME)
    assert renamed.llf == pytest.approx(plain.llf, rel=1e-12)
    independence = renamed.independence_test(), plain.independence_test()
    assert independence[0].statistic == pytest.approx(independence[1].statistic, rel=DRAWN)


def test_the_order_of_equations_does_not_matter(data, plain):
    turned = ss.fit(dict.fromkeys("cab", FORMULA), data, chosen="chosen")
    assert list(turned.counts.index) == ["c", "a", "b"]
    for label in "abc":
        np.testing.assert_allclose(turned.params[label], plain.params[label], atol=SAME)


@pytest.mark.parametrize(("factor", "shift"), [(1e-6, 0.0), (1.0, 5.0), (-3.0, 2.0), (1e6, 1e7)])
def test_covariates_may_be_rescaled_and_shifted(data, plain, factor, shift):
    moved = fit(data.assign(x1=factor * data["x1"] + shift))
    assert moved.llf == pytest.approx(plain.llf, rel=1e-10)
    for label in "abc":
        old, new = plain.params[label], moved.params[label]
        assert new["x1"] * factor == pytest.approx(old["x1"], rel=1e-6)
        assert new["x2"] == pytest.approx(old["x2"], rel=1e-6)
        assert new["scale"] == pytest.approx(old["scale"], rel=1e-6)
        assert new["Intercept"] + shift * new["x1"] == pytest.approx(old["Intercept"], abs=1e-6)
        assert moved.bse[label]["x1"] * abs(factor) == pytest.approx(plain.bse[label]["x1"], 1e-6)


@pytest.mark.parametrize(("factor", "shift"), [(1e-6, 0.0), (2.0, -5.0), (1e6, 1e7)])
@pytest.mark.parametrize("scale", ["each", "common"])
def test_the_outcome_may_be_rescaled_and_shifted(data, factor, shift, scale):
    noise = ss.noises.Independent(scale=scale)
    plain = fit(data, noise=noise)
    moved = fit(data.assign(outcome=factor * data["outcome"] + shift), noise=noise)
    wanted = factor * plain.params + shift * np.array(
        [term == "Intercept" for _, term in plain.params.index]
    )
    np.testing.assert_allclose(moved.params, wanted, rtol=1e-6, atol=1e-7 * factor)
    np.testing.assert_allclose(moved.bse, factor * plain.bse, rtol=1e-6)
    # Each of 500 densities is per unit of the outcome.
    assert moved.llf == pytest.approx(plain.llf - 500 * np.log(factor), rel=1e-9)


def test_the_minimum_is_the_maximum_of_the_negative(world, with_known):
    made = world("min", 500, known=with_known)
    smallest = made.fit()
    cost = made.rule.cost
    turned = made.fit(made.data.assign(outcome=-made.data["outcome"]), rule=Maximum(cost=cost))
    sign = np.array([1.0 if term == "scale" else -1.0 for _, term in smallest.params.index])
    np.testing.assert_allclose(turned.params, sign * smallest.params, atol=SAME)
    np.testing.assert_allclose(turned.bse, smallest.bse, atol=SAME)
    assert turned.llf == pytest.approx(smallest.llf, rel=1e-12)


@pytest.mark.parametrize("word", ["identity", "negative"])
def test_monotone_argmax_contains_the_maximum_and_the_minimum(world, word, with_known):
    made = world("max" if word == "identity" else "min", 500, known=with_known)
    cost = made.rule.cost
    general = made.fit(rule=MonotoneArgmax(dict.fromkeys("abc", word), cost=cost))
    special = made.fit(rule=(Maximum if word == "identity" else Minimum)(cost=cost))
    np.testing.assert_allclose(general.params, special.params, atol=SAME)
    assert general.llf == pytest.approx(special.llf, rel=1e-12)


def test_one_transform_for_all_changes_nothing(data, plain):
    bent = fit(data, rule=MonotoneArgmax(dict.fromkeys("abc", np.arcsinh)))
    np.testing.assert_allclose(bent.params, plain.params, atol=SAME)


@pytest.mark.parametrize("rule_class", [Maximum, Minimum])
def test_a_constant_added_to_all_costs_changes_nothing(world, rule_class):
    data = world("max" if rule_class is Maximum else "min", 500).data
    costs = {"a": 0.1, "b": 0.0, "c": -0.2}
    one = fit(data, rule=rule_class(cost=costs))
    other = fit(data, rule=rule_class(cost={label: cost + 7.0 for label, cost in costs.items()}))
    np.testing.assert_allclose(one.params, other.params, atol=SAME)
    assert one.llf == pytest.approx(other.llf, rel=1e-12)


def test_robust_errors_do_not_depend_on_the_level_of_the_weights(data):
    one, ten = (fit(data, weights=np.full(500, w), covariance="robust") for w in (1.0, 5.0))
    np.testing.assert_allclose(one.bse, ten.bse, rtol=1e-6)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
@pytest.mark.parametrize("noise", [ss.noises.Correlated(), ss.noises.SharedShock()])
def test_the_unit_of_the_outcome_does_not_move_errors_of_effects(noise, unit):
    # Differences by steps of fixed size once went beyond scales of a millionth.
    data = ss.simulators.gaussian(300, 2, 2, seed=3).data
    formula = "outcome ~ x1 + x2"
    plain = ss.fit(formula, data, chosen="chosen", noise=noise)
    scaled = data.assign(outcome=unit * data["outcome"])
    other = ss.fit(formula, scaled, chosen="chosen", noise=noise)
    for ask, size in (
        (lambda fit: fit.choice_probabilities(), 1.0),
        (lambda fit: fit.potential_outcomes(), unit),
    ):
        np.testing.assert_allclose(
            ask(other).table["std_error"], size * ask(plain).table["std_error"], rtol=1e-4
        )
