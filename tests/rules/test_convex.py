"""Rules from a user's functions, and the linear argmax."""

from __future__ import annotations

import numpy as np
import pytest

from selfselect.errors import OptionError, RuleError
from selfselect.rules import ConvexRule, HasBounds, HasProjection, LinearArgmax, RowData, check
from selfselect.simulators import curved_rule

MATRIX = np.array([[1.0, 0.4, 0.0], [0.0, 1.0, 0.4], [0.4, 0.0, 1.0]])

NEAREST = 1e-6
"""Slack of a projection's optimality, for outcomes of size one: Hildreth's method stops at 1e-10
per constraint."""


def largest(latent):
    return latent.argmax(axis=1)


def below_the_outcome(_, outcome):
    return np.full((len(outcome), 1), -np.inf), outcome[:, None]


def test_what_is_not_given_is_not_offered():
    only = ConvexRule(largest)
    assert not isinstance(only, HasBounds) and not isinstance(only, HasProjection)
    assert only.name == "chosen as largest says" and check(only, 3)


def test_bounds_give_a_projection():
    boxed = ConvexRule(largest, bounds=below_the_outcome)
    assert isinstance(boxed, HasBounds) and isinstance(boxed, HasProjection)
    assert check(boxed, 3)


def test_a_function_that_takes_row_data_gets_it():
    rule = ConvexRule(lambda latent, rows: (latent - rows.costs).argmax(axis=1), cost={"b": 1.0})
    rows = RowData(costs=np.array([[0.0, 1.0], [0.0, 0.2]]))
    latent = np.array([[0.5, 1.0], [0.5, 1.0]])
    assert rule.choose(latent, rows).tolist() == [0, 1]


def test_rules_of_the_same_functions_are_equal():
    assert ConvexRule(largest) == ConvexRule(largest) != ConvexRule(np.argmin)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda latent: latent[:, 0], "one integer per row"),
        (lambda latent: latent.argmax(), "one integer per row"),
        (lambda latent: latent.argmax(axis=1)[:, None], r"shape \(5, 1\)"),
    ],
)
def test_a_choice_of_wrong_shape_or_type_is_refused(answer, words):
    with pytest.raises(RuleError, match=words):
        ConvexRule(answer).choose(np.zeros((5, 2)))


def test_a_projection_of_wrong_shape_or_without_an_answer_is_refused():
    at = (np.zeros((2, 2)), np.zeros(2, dtype=int), np.zeros(2))
    with pytest.raises(RuleError, match="project must return latent outcomes like those"):
        ConvexRule(largest, project=lambda latent, *_: latent[0]).project(*at)
    with pytest.raises(RuleError, match="not finite"):
        ConvexRule(largest, project=lambda latent, *_: latent * np.nan).project(*at)


def test_bounds_that_are_no_pair_or_of_wrong_shape_are_refused():
    at = (np.zeros(2, dtype=int), np.zeros(2))
    with pytest.raises(RuleError, match="a pair of arrays"):
        ConvexRule(largest, bounds=lambda _, outcome: outcome).bounds(*at)
    with pytest.raises(RuleError, match=r"limits of shape \(n, k\)"):
        ConvexRule(largest, bounds=lambda _, outcome: (outcome, outcome)).bounds(*at)


def test_what_is_no_function_or_takes_other_arguments_is_refused():
    with pytest.raises(RuleError, match="choose must be a function"):
        ConvexRule("largest")
    with pytest.raises(RuleError, match="project takes 1 arguments"):
        ConvexRule(largest, project=lambda latent: latent)
    with pytest.raises(RuleError, match="choose takes 3 arguments, but it is called with 1"):
        ConvexRule(lambda latent, rows, more: latent + rows + more)


def test_costs_and_availability_that_a_function_cannot_see_are_refused():
    with pytest.raises(RuleError, match="does not take row data, so it cannot use it"):
        ConvexRule(largest, cost={"a": 1.0})
    with pytest.raises(RuleError, match="largest does not take row data"):
        ConvexRule(largest).choose(np.zeros((1, 2)), RowData(available=np.ones((1, 2), bool)))


def test_the_curved_rule_is_convex_and_the_outside_of_a_disc_is_not():
    assert check(curved_rule(), 4, n_probes=20_000)
    outside = ConvexRule(lambda latent: np.where((latent[:, 1:] ** 2).sum(axis=1) > 4.0, 0, 1))
    found = check(outside, 3)
    assert not found and "not convex" in str(found)


def test_the_linear_rule_keeps_its_promises():
    for rule, k in ((LinearArgmax(MATRIX), 3), (LinearArgmax(MATRIX, [0.3, 0.0, -0.3]), 3)):
        assert check(rule, k)


def test_the_linear_rule_sees_the_largest_combination_net_of_costs():
    rule = LinearArgmax([[1.0, 0.5], [0.0, 1.0]], [0.0, 0.1])
    latent = np.array([[1.0, 1.5], [0.0, 1.0]])
    assert rule.choose(latent).tolist() == [0, 1]
    assert rule.choose(latent, RowData(costs=np.array([[0.5, 0.0]] * 2))).tolist() == [1, 1]
    closed = RowData(available=np.array([[False, True]] * 2))
    assert rule.choose(latent, closed).tolist() == [1, 1]


def test_weights_by_label_are_put_in_order():
    by_label = LinearArgmax({"b": {"b": 1.0}, "a": {"b": 0.5}}, {"b": 0.1})
    ordered = by_label.for_alternatives(["a", "b"])
    assert ordered == LinearArgmax([[1.0, 0.5], [0.0, 1.0]], [0.0, 0.1])
    with pytest.raises(RuleError, match="does not know the alternatives' order yet"):
        by_label.choose(np.zeros((1, 2)))
    with pytest.raises(OptionError, match="row of weights is given for 'b'"):
        by_label.for_alternatives(["a", "c"])


def test_a_projection_is_the_nearest_point():
    rule, rng = LinearArgmax(MATRIX, [0.2, 0.0, 0.1]), np.random.default_rng(0)
    inside = rng.standard_normal((4_000, 3))
    chosen = rule.choose(inside)
    outcome = inside[np.arange(len(inside)), chosen]
    start = 3.0 * rng.standard_normal(inside.shape)
    start[np.arange(len(inside)), chosen] = outcome
    nearest = rule.project(start, chosen, outcome)
    # The plane through the nearest point, across the way to it, has the whole set behind it.
    ahead = np.einsum("nk,nk->n", start - nearest, inside - nearest)
    assert ahead.max() < NEAREST
    assert (np.abs(nearest - start).max(axis=1) > 0.1).mean() > 0.3


def test_alternatives_that_are_not_available_do_not_bind_a_projection():
    rule = LinearArgmax(np.eye(3))
    rows = RowData(available=np.array([[True, False, True]]))
    moved = rule.project(np.array([[0.0, 5.0, 5.0]]), np.array([0]), np.array([1.0]), rows)
    np.testing.assert_allclose(moved, [[1.0, 5.0, 1.0]], atol=NEAREST)


@pytest.mark.parametrize(
    ("matrix", "constant", "words"),
    [
        ([[1.0, 0.0]], None, "must be square"),
        ([[1.0, np.nan], [0.0, 1.0]], None, "finite numbers"),
        ([["a", 0], [0, 1]], None, "must hold numbers"),
        (np.eye(2), [1.0], "has 2 rows"),
        ({"a": 1.0}, None, "must be a mapping by alternative"),
    ],
)
def test_a_linear_rule_that_is_none_is_refused(matrix, constant, words):
    with pytest.raises(RuleError, match=words):
        LinearArgmax(matrix, constant)


def test_a_linear_rule_of_other_size_than_the_alternatives_is_refused():
    with pytest.raises(RuleError, match="3 rows but there are 2 alternatives"):
        LinearArgmax(MATRIX).for_alternatives(["a", "b"])


def test_a_function_that_works_in_place_is_refused():
    """It gives the same answer twice, so no probe sees it, and would move the draws."""

    def clipped(latent):
        return np.maximum(latent, -1.0, out=latent).argmax(axis=1)

    latent = np.array([[-2.0, -3.0], [1.0, 0.0]])
    with pytest.raises(RuleError, match=r"clipped changes the arrays .* latent\.copy\(\)"):
        ConvexRule(clipped).choose(latent)
    assert latent.min() == -3.0


def test_a_rule_of_the_users_own_is_shown_by_the_names_of_its_functions() -> None:
    def highest(latent):
        return latent.argmax(axis=1)

    assert repr(ConvexRule(highest)).startswith("ConvexRule(choose=highest, ")
