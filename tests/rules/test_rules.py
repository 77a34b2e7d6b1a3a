from __future__ import annotations

import numpy as np
import pytest

import selfselect as ss
from selfselect.errors import OptionError, RuleError
from selfselect.rules import (
    BoxRule,
    Maximum,
    Minimum,
    MonotoneArgmax,
    Ranked,
    RowData,
    as_rule,
    check,
)

N_ROWS = 3_000
SLACK = 1e-9
"""Bounds go through a transform and back, which costs a few digits."""

RULES = {
    "max": Maximum(),
    "min": Minimum(),
    "rising": MonotoneArgmax(["exp", "identity", np.arctan]),
    "falling": MonotoneArgmax(["negative", -2.0, lambda y: -np.arcsinh(y)]),
    "mixed": MonotoneArgmax([0.5, lambda y: -(y**3) - y, "logistic"]),
    "log": MonotoneArgmax(["log", "log", "sqrt"]),
}


@pytest.fixture(params=sorted(RULES))
def rule(request):
    return RULES[request.param]


@pytest.fixture(params=["plain", "costs", "available", "both"])
def rows(request):
    rng = np.random.default_rng(2)
    costs = rng.normal(0, 0.5, (N_ROWS, 3)) if request.param in ("costs", "both") else None
    available = None
    if request.param in ("available", "both"):
        available = rng.uniform(size=(N_ROWS, 3)) < 0.6
        available[~available.any(axis=1), 1] = True
    return RowData(costs, available)


@pytest.fixture
def latent(rule):
    draws = np.random.default_rng(3).normal(0, 1.5, (N_ROWS, 3))
    return np.exp(draws) if rule is RULES["log"] else draws


def seen(latent, chosen):
    return latent[np.arange(len(latent)), chosen]


def judged(chosen, rows):
    """Mark the entries whose bounds mean something."""
    others = np.arange(3)[None, :] != chosen[:, None]
    return others if rows.available is None else others & rows.available


def test_only_available_alternatives_are_chosen(rule, rows, latent):
    chosen = rule.choose(latent, rows)
    assert np.unique(chosen).size == 3
    if rows.available is not None:
        assert seen(rows.available, chosen).all()


def test_every_latent_outcome_lies_within_the_bounds_of_its_choice(rule, rows, latent):
    chosen = rule.choose(latent, rows)
    lower, upper = rule.bounds(chosen, seen(latent, chosen), rows)
    inside = (latent >= lower - SLACK) & (latent <= upper + SLACK)
    assert inside[judged(chosen, rows)].all()


def test_another_latent_outcome_beyond_its_bound_changes_the_choice(rule, rows, latent):
    chosen = rule.choose(latent, rows)
    lower, upper = (np.broadcast_to(b, latent.shape) for b in rule.bounds(
        chosen, seen(latent, chosen), rows
    ))  # fmt: skip
    for j in range(3):
        for bound, side in ((lower, -1.0), (upper, 1.0)):
            reached = judged(chosen, rows)[:, j] & np.isfinite(bound[:, j])
            moved = latent.copy()
            moved[reached, j] = bound[reached, j] + side * 1e-6 * (1 + np.abs(bound[reached, j]))
            if rule is RULES["log"]:
                reached &= moved[:, j] > 0
            after = rule.choose(moved, rows)
            assert (after[reached] != chosen[reached]).all()


def test_projection_leaves_true_latents_alone(rule, rows, latent):
    chosen = rule.choose(latent, rows)
    projected = rule.project(latent, chosen, seen(latent, chosen), rows)
    np.testing.assert_allclose(projected, latent, atol=SLACK, rtol=SLACK)


def test_projection_lands_in_the_explaining_set_and_stays_there(rule, rows, latent):
    chosen = rule.choose(latent, rows)
    outcome = seen(latent, chosen)
    elsewhere = latent[::-1].copy()
    once = rule.project(elsewhere, chosen, outcome, rows)
    np.testing.assert_array_equal(rule.project(once, chosen, outcome, rows), once)
    np.testing.assert_array_equal(seen(once, chosen), outcome)
    lower, upper = rule.bounds(chosen, outcome, rows)
    assert ((once >= lower) & (once <= upper))[judged(chosen, rows)].all()


def test_projection_moves_no_further_than_to_the_nearest_point(rule, rows, latent):
    chosen = rule.choose(latent, rows)
    elsewhere = latent[::-1].copy()
    projected = rule.project(elsewhere, chosen, seen(latent, chosen), rows)
    use = np.ones(3) if rows.available is None else rows.available
    near = (((projected - elsewhere) ** 2) * use).sum(axis=1)
    far = (((latent - elsewhere) ** 2) * use).sum(axis=1)
    assert (near <= far + SLACK).all()


# Random probes are negative too, where every logarithm is equally bad.
@pytest.mark.parametrize("name", sorted(set(RULES) - {"log"}))
def test_probing_finds_no_fault_in_our_own_rules(name):
    report = check(RULES[name], 3)
    assert report and report.counterexample is None
    assert "No fault" in str(report)


def test_rules_may_be_named_by_a_word():
    assert as_rule("max") == Maximum() and as_rule("min") == Minimum()
    rule = MonotoneArgmax(["exp", "identity"])
    assert as_rule(rule) is rule


@pytest.mark.parametrize("wrong", ["maximum", Maximum, 3, None, lambda latent: latent])
def test_what_is_not_a_rule_is_refused_with_the_possible_ones(wrong):
    with pytest.raises(OptionError, match=r"'max', 'min'"):
        as_rule(wrong)


def test_names_say_what_is_seen():
    assert Maximum().name == "the largest outcome is observed"
    assert "costs" in Minimum(cost={"a": 1}).name
    assert "exp" in MonotoneArgmax({"a": "exp"}).name


def test_ranked_rules_pick_by_rank(latent):
    draws = np.random.default_rng(1).standard_normal((500, 5))
    for rank in range(1, 6):
        chosen = Ranked(rank).choose(draws)
        above = (draws > draws[np.arange(500), chosen][:, None]).sum(axis=1)
        assert (above == rank - 1).all()
    np.testing.assert_array_equal(Ranked("median").choose(draws), Ranked(3).choose(draws))
    np.testing.assert_array_equal(Ranked(1).choose(latent), Maximum().choose(latent))
    np.testing.assert_array_equal(Ranked(3).choose(latent), Minimum().choose(latent))


def test_ranked_rules_say_that_they_are_not_convex():
    assert not Ranked(2).convex and Maximum.convex
    assert "not convex" in Ranked(2).name and "median" in Ranked("median").name
    assert Ranked("median").for_alternatives("abc") == Ranked(2)


class Smallest(Maximum):
    """Chooses otherwise than its parent, whose bounds it keeps."""

    def choose(self, latent, *_):
        return latent.argmin(axis=1)


class SecondOfAll(Ranked):
    def choose(self, latent, *_):
        return np.argsort(-latent, axis=1)[:, 1]


class Sloppy(BoxRule):
    """A user's own box rule whose bounds are not those of its choices."""

    name = "the largest, by other bounds"

    def choose(self, latent, *_):
        return latent.argmax(axis=1)

    def bounds(self, _chosen, outcome, *_):
        upper = outcome[:, None] - 0.5
        return np.broadcast_to(-np.inf, upper.shape), upper


class Negated(Maximum):
    """Changes both, consistently: the smallest."""

    choose = Minimum.choose
    bounds = Minimum.bounds


@pytest.mark.parametrize("rule", [Smallest(), SecondOfAll(1)], ids=lambda one: type(one).__name__)
def test_a_rule_that_changes_only_its_choice_is_not_fitted_as_its_parent(rule):
    sample = ss.simulators.village(100, seed=1)
    for options in ({"chosen": "job"}, {"alternatives": 2}):
        with pytest.raises(RuleError, match=r"changes `choose` of .* would be fitted as"):
            ss.fit("income ~ height", sample.data, rule=rule, **options)


def test_bounds_of_a_box_rule_are_probed_on_the_rows():
    sample = ss.simulators.village(200, seed=1)
    with pytest.raises(RuleError, match="is inconsistent"):
        ss.fit("income ~ height", sample.data, chosen="job", rule=Sloppy())


def test_a_rule_that_changes_choice_and_bounds_is_its_own():
    sample = ss.simulators.village(200, seed=1)
    own, wanted = (
        ss.fit("income ~ height", sample.data, chosen="job", rule=rule)
        for rule in (Negated(), "min")
    )
    np.testing.assert_allclose(own.params, wanted.params, rtol=1e-6)
