from __future__ import annotations

import numpy as np
import pytest

import selfselect as ss
from selfselect.errors import OptionError, RuleError
from selfselect.kernels.known_index import UNKNOWN
from selfselect.rules import Maximum, Minimum, MonotoneArgmax, Transform, check

FOUND = 1e-9
"""Bisection runs until the bracket is one rounding wide; the transform may cost some digits."""

OUTCOME = np.concatenate([-np.logspace(1.2, -4, 40), [0.0], np.logspace(-4, 1.2, 40)])

PAIRS = {
    "exp": (np.exp, np.log),
    "cube": (lambda y: y**3, np.cbrt),
    "arcsinh": (np.arcsinh, np.sinh),
    "falling": (lambda y: -3 * y + 1, lambda v: (1 - v) / 3),
    "falling exp": (lambda y: np.exp(-y), lambda v: -np.log(v)),
    "logistic": (lambda y: 1 / (1 + np.exp(-y)), lambda v: np.log(v) - np.log1p(-v)),
    "arctan": (np.arctan, np.tan),
}


def bounds(rule, chosen, outcome):
    return rule.bounds(np.full(len(outcome), chosen), np.asarray(outcome, float))


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_an_inverse_given_and_one_found_agree(name):
    function, inverse = PAIRS[name]
    given = bounds(MonotoneArgmax([function, (function, inverse)]), 0, OUTCOME)
    found = bounds(MonotoneArgmax([function, function]), 0, OUTCOME)
    for one, other in zip(given, found, strict=True):
        np.testing.assert_allclose(one[:, 1], other[:, 1], rtol=FOUND, atol=FOUND)


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_equal_transforms_bound_every_other_outcome_by_the_one_seen(name):
    function, _ = PAIRS[name]
    lower, upper = bounds(MonotoneArgmax([function, function]), 0, OUTCOME)
    rising = name not in ("falling", "falling exp")
    finite, infinite = (upper, lower) if rising else (lower, upper)
    np.testing.assert_allclose(finite[:, 1], OUTCOME, rtol=1e-7, atol=1e-7)
    assert np.isinf(infinite[:, 1]).all()


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "logistic", "negative", "identity"])
def test_named_transforms_undo_themselves(name):
    outcome = np.linspace(0.1, 5, 50)
    lower, upper = bounds(MonotoneArgmax([name, name]), 0, outcome)
    side = lower if name == "negative" else upper
    np.testing.assert_allclose(side[:, 1], outcome, rtol=FOUND)


def test_identity_is_the_maximum_and_negative_the_minimum():
    outcome = np.array([-1.0, 0.0, 2.5])
    for transform, plain in (("identity", Maximum()), ("negative", Minimum())):
        rule = MonotoneArgmax([transform] * 2)
        for one, other in zip(bounds(rule, 0, outcome), bounds(plain, 0, outcome), strict=True):
            np.testing.assert_array_equal(one[:, 1], np.broadcast_to(other, (3, 1))[:, 0])


def test_a_level_above_a_bounded_transform_leaves_the_other_unbounded():
    _, upper = bounds(MonotoneArgmax(["identity", "logistic"]), 0, [0.5, 1.0, 7.0])
    assert upper[0, 1] == pytest.approx(0.0, abs=FOUND)
    assert np.isposinf(upper[1:, 1]).all()


def test_a_level_below_a_bounded_transform_cannot_be_explained():
    _, upper = bounds(MonotoneArgmax(["identity", "logistic"]), 0, [-0.5])
    assert np.isneginf(upper[0, 1])


@pytest.mark.parametrize(
    ("transform", "level", "bound"),
    [
        ((np.arctan, np.tan), 2.0, np.inf),
        ((np.arctan, np.tan), -2.0, -np.inf),
        ("sqrt", -2.0, 0.0),
        (Transform(np.arcsin, np.sin, (-1.0, 1.0)), 2.0, 1.0),
        (Transform(np.arcsin, np.sin, (-1.0, 1.0)), -2.0, -1.0),
        (Transform(np.sqrt, domain=(0.0, np.inf)), -2.0, 0.0),
    ],
)
def test_an_inverse_is_not_believed_beyond_the_range_of_its_function(transform, level, bound):
    _, upper = bounds(MonotoneArgmax(["identity", transform]), 0, [level])
    assert upper[0, 1] == pytest.approx(bound, abs=FOUND)


def test_rules_with_a_domain_keep_their_promises_outside_of_it_too():
    square_root = Transform(lambda y: -np.sqrt(y), domain=(0.0, np.inf))
    for transform in ("sqrt", "log", square_root):
        assert check(MonotoneArgmax(["identity", transform, "exp"]), 3)


def fit(rule, y_b):
    rng = np.random.default_rng(1)
    n = 60
    table = {
        "y": np.where(np.arange(n) % 2 == 0, rng.normal(0, 1, n), y_b),
        "who": np.where(np.arange(n) % 2 == 0, "a", "b"),
        "x": rng.normal(0, 1, n),
    }
    table["y"] = table["y"] + 0.01 * rng.normal(0, 1, n)
    return ss.fit("y ~ x", table, chosen="who", rule=rule)


def test_rows_that_a_bounded_transform_cannot_explain_are_counted_and_named():
    with pytest.raises(
        RuleError, match="30 rows could not have been recorded as they were"
    ) as caught:
        fit(MonotoneArgmax({"a": "logistic"}), -2.0)
    assert "'a'" in str(caught.value)


def test_rows_above_a_bounded_transform_only_say_nothing_of_it():
    result = fit(MonotoneArgmax({"a": "logistic"}), 5.0)
    status = result.engine.batch.observation.status
    assert (status[result.rows.chosen == 1, 0] == UNKNOWN).all()


def test_an_outcome_beyond_the_domain_is_the_worst_there_is():
    rule = MonotoneArgmax(["log", "identity"])
    assert rule.choose(np.array([[-1.0, -50.0], [3.0, 1.0]])).tolist() == [1, 0]
    _, upper = bounds(rule, 1, [-50.0])
    assert upper[0, 0] == pytest.approx(np.exp(-50.0), rel=FOUND)


def test_a_domain_bounded_on_both_sides_is_searched_inside():
    odds = Transform(lambda p: p / (1 - p), domain=(0.0, 1.0))
    _, upper = bounds(MonotoneArgmax(["identity", odds]), 0, [1.0, 3.0, 1e6])
    np.testing.assert_allclose(upper[:, 1], [0.5, 0.75, 1e6 / (1 + 1e6)], rtol=FOUND)


@pytest.mark.parametrize(
    ("transform", "sentence"),
    [
        (np.square, "not monotone"),
        (np.sin, "not monotone"),
        (np.zeros_like, "constant"),
        (np.log, "not defined at"),
        ((np.exp, np.sqrt), "not its inverse"),
        ((lambda y: 2 * y, lambda v: 2 * v), "not its inverse"),
        (lambda y: y.sum(), "elementwise"),
        (0.0, "not monotone"),
        (np.inf, "not monotone"),
        (Transform(np.exp, increasing=False), "declared decreasing"),
    ],
)
def test_a_bad_transform_is_refused_with_its_reason(transform, sentence):
    with pytest.raises(RuleError, match=sentence):
        MonotoneArgmax([transform, "identity"])


@pytest.mark.parametrize("transform", ["cube", True, {"a": 1}, (np.exp,)])
def test_what_is_not_a_transform_is_refused_with_the_possible_ones(transform):
    with pytest.raises(OptionError, match="identity, log"):
        MonotoneArgmax([transform, "identity"])


def test_a_kink_within_the_outcomes_is_found_before_the_fit():
    def bent(y):
        return np.where(np.abs(y - 0.5) < 0.02, -y, y)

    with pytest.raises(RuleError, match="not monotone"):
        fit(MonotoneArgmax({"a": bent}), 2.0)


def test_transforms_by_label_need_the_order_of_the_alternatives():
    rule = MonotoneArgmax({"b": "exp"})
    with pytest.raises(RuleError, match="order"):
        rule.choose(np.zeros((1, 2)))
    ordered = rule.for_alternatives(["a", "b"])
    assert ordered.choose(np.array([[2.0, 1.0], [3.0, 1.0]])).tolist() == [1, 0]


def test_transforms_of_alternatives_there_are_not_are_refused():
    with pytest.raises(OptionError, match="Did you mean 'fishing'"):
        MonotoneArgmax({"fisching": "exp"}).for_alternatives(["hunting", "fishing"])
    with pytest.raises(RuleError, match="2 transforms but there are 3"):
        MonotoneArgmax(["exp", "exp"]).for_alternatives(["a", "b", "c"])
    with pytest.raises(RuleError, match="at least one"):
        MonotoneArgmax({})


def test_an_outcome_worth_nothing_bounds_the_others_by_the_end_of_their_range():
    rule = MonotoneArgmax(["exp", "log"])
    _, upper = rule.bounds(np.array([1]), np.array([-1.0]))
    assert upper[0, 0] == -np.inf
