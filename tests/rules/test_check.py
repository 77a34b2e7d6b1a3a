from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from selfselect.rules import LinearArgmax, Maximum, MonotoneArgmax, RowData, check

NOTHING = RowData()


def seen(latent, chosen):
    return latent[np.arange(len(latent)), chosen]


@dataclass(frozen=True)
class LowBound(Maximum):
    def bounds(self, chosen, outcome, rows=NOTHING):
        lower, upper = super().bounds(chosen, outcome, rows)
        return lower, upper - 0.5


@dataclass(frozen=True)
class HighBound(Maximum):
    def bounds(self, chosen, outcome, rows=NOTHING):
        lower, upper = super().bounds(chosen, outcome, rows)
        return lower, upper + 0.5


@dataclass(frozen=True)
class LazyProjection(Maximum):
    def project(self, latent, *_):
        return latent


@dataclass(frozen=True)
class RestlessProjection(Maximum):
    def project(self, latent, chosen, outcome, rows=NOTHING):
        return super().project(latent, chosen, outcome, rows) + 0.01


@dataclass(frozen=True)
class CreepingProjection(Maximum):
    """Goes half of the way into the set at each call, by its own margin."""

    def project(self, latent, chosen, outcome, rows=NOTHING):
        projected = super().project(latent, chosen, outcome, rows)
        outside = np.abs(projected - latent).max(axis=1, keepdims=True) > 1e-9
        return np.where(outside, 0.5 * (latent + projected), projected)


class Fickle:
    name = "a new answer each time"

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def choose(self, latent, *_):
        return self.rng.integers(latent.shape[1], size=len(latent))


class MedianOfThree:
    name = "the middle outcome is seen"

    def choose(self, latent, *_):
        return latent.argsort(axis=1)[:, 1]


class Ring:
    """See the first alternative where the others are neither close to zero nor far from it."""

    name = "a ring"

    def choose(self, latent, *_):
        radius = np.hypot(latent[:, 1], latent[:, 2])
        return np.where((radius > 1) & (radius < 3), 0, np.where(latent[:, 1] > 0, 1, 2))


class OutOfRange:
    name = "a fourth of three"

    def choose(self, latent, *_):
        return np.full(len(latent), 3)


class Fractional:
    name = "not an index"

    def choose(self, latent, *_):
        return latent.max(axis=1)


@pytest.mark.parametrize(
    ("rule", "promise"),
    [
        (LowBound(), "chosen outside the bounds"),
        (HighBound(), "not chosen although all others are within"),
        (LazyProjection(), "lands outside"),
        (RestlessProjection(), "moves latent outcomes that already explain"),
        (CreepingProjection(), "not idempotent"),
        (Fickle(), "two answers"),
        (MedianOfThree(), "not convex"),
        (Ring(), "not convex"),
        (OutOfRange(), "index from 0 to 2"),
        (Fractional(), "one integer per row"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_probing_finds_the_broken_promise(rule, promise):
    report = check(rule, 3)
    assert not report
    assert promise in report.counterexample.promise
    assert promise in str(report)


def test_the_counterexample_of_a_bad_bound_can_be_followed_by_hand():
    found = check(HighBound(), 3).counterexample
    _, upper = HighBound().bounds(np.array([found.chosen]), np.array([found.outcome]))
    others = np.delete(found.latent, found.chosen)
    assert (others < upper[0, 0]).all()
    assert found.latent[found.chosen] == found.outcome
    assert HighBound().choose(found.latent[None])[0] != found.chosen


def test_the_counterexample_of_a_set_that_is_not_convex_lies_outside_it():
    found = check(MedianOfThree(), 3).counterexample
    assert MedianOfThree().choose(found.latent[None])[0] != found.chosen
    assert found.latent[found.chosen] == pytest.approx(found.outcome)


def test_the_same_seed_finds_the_same_counterexample():
    one, other = check(Ring(), 3, seed=4), check(Ring(), 3, seed=4)
    np.testing.assert_array_equal(one.counterexample.latent, other.counterexample.latent)


@pytest.mark.parametrize("n_alternatives", [2, 3, 7])
def test_a_good_rule_passes_with_any_number_of_alternatives(n_alternatives):
    assert check(Maximum(), n_alternatives)


class OffCentreProjection(Maximum):
    """Lands in the explaining set, leaves its points alone, and is not the nearest point."""

    def project(self, latent, chosen, outcome, rows=NOTHING):
        near = super().project(latent, chosen, outcome, rows)
        moved = np.abs(near - latent) > 0
        moved[np.arange(len(latent)), chosen] = False
        return np.where(moved, near - 1.0, near)


@pytest.mark.parametrize("n_alternatives", [2, 3])
def test_a_projection_that_is_not_the_nearest_point_is_found(n_alternatives):
    found = check(OffCentreProjection(), n_alternatives)
    assert not found
    assert "project does not land at the nearest point" in str(found)


@pytest.mark.parametrize(
    "rule",
    [Maximum(), MonotoneArgmax(["exp", 1.0, "exp"]), LinearArgmax(np.eye(3) + 0.2)],
    ids=repr,
)
def test_projections_of_the_package_are_nearest_points(rule):
    assert check(rule, 3)
