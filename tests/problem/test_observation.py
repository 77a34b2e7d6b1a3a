from __future__ import annotations

import numpy as np
import pytest

from selfselect.data.rows import Rows
from selfselect.errors import RuleError
from selfselect.kernels.known_index import ABOVE, BELOW, BETWEEN, OBSERVED, UNKNOWN
from selfselect.problem.batch import observe
from selfselect.rules import Maximum, Minimum, MonotoneArgmax, RowData

LABELS = ("a", "b", "c")
OUTCOME = np.array([1.0, -2.0, 0.5])
CHOSEN = np.array([0, 1, 2])


class Bounds:
    """A rule that returns the bounds it was given."""

    name = "as given"

    def __init__(self, lower, upper):
        self.lower, self.upper = lower, upper

    def bounds(self, chosen, *_):
        n_rows = len(chosen)
        return (
            np.broadcast_to(np.asarray(self.lower, float), (n_rows, 3)),
            np.broadcast_to(np.asarray(self.upper, float), (n_rows, 3)),
        )


def see(rule, **known):
    rows = Rows(np.zeros((3, 0)), OUTCOME, CHOSEN, known=RowData(**known))
    return observe(rule, rows, LABELS)


def test_the_maximum_says_of_all_others_that_they_lie_below():
    observation = see(Maximum())
    wanted = np.full((3, 3), BELOW)
    np.fill_diagonal(wanted, OBSERVED)
    np.testing.assert_array_equal(observation.status, wanted)
    np.testing.assert_array_equal(observation.limit, OUTCOME[:, None])
    assert observation.upper is None


def test_the_minimum_says_of_all_others_that_they_lie_above():
    observation = see(Minimum())
    assert (observation.status[~np.eye(3, dtype=bool)] == ABOVE).all()
    assert (np.diag(observation.status) == OBSERVED).all()


def test_costs_move_the_limits_but_not_the_outcome():
    costs = np.array([[0.0, 1.0, 3.0]] * 3)
    observation = see(Maximum(), costs=costs)
    wanted = OUTCOME[:, None] - np.diag(costs)[:, None] + costs
    np.testing.assert_allclose(observation.limit, wanted)
    np.testing.assert_array_equal(np.diag(observation.limit), OUTCOME)


def test_what_was_not_available_stays_unknown():
    available = np.array([[1, 0, 1], [1, 1, 0], [1, 1, 1]], dtype=bool)
    status = see(Maximum(), available=available).status
    assert (status[~available] == UNKNOWN).all()
    assert (status[available] != UNKNOWN).all()


def test_decreasing_transforms_bound_from_below_and_increasing_from_above():
    observation = see(MonotoneArgmax(["identity", "negative", 2.0]))
    np.testing.assert_array_equal(
        observation.status,
        [[OBSERVED, ABOVE, BELOW], [BELOW, OBSERVED, BELOW], [BELOW, ABOVE, OBSERVED]],
    )
    np.testing.assert_allclose(
        observation.limit, [[1.0, -1.0, 0.5], [2.0, -2.0, 1.0], [1.0, -1.0, 0.5]]
    )


def test_two_limits_are_kept_both():
    observation = see(Bounds([-1.0, -np.inf, -3.0], [np.inf, 2.0, 4.0]))
    np.testing.assert_array_equal(
        observation.status,
        [[OBSERVED, BELOW, BETWEEN], [ABOVE, OBSERVED, BETWEEN], [ABOVE, BELOW, OBSERVED]],
    )
    assert observation.limit[0, 2] == -3.0 and observation.upper[0, 2] == 4.0
    np.testing.assert_array_equal(np.diag(observation.limit), OUTCOME)


def test_no_limit_at_all_is_unknown():
    assert (see(Bounds(-np.inf, np.inf)).status[~np.eye(3, dtype=bool)] == UNKNOWN).all()


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        (-np.inf, -np.inf),
        (np.inf, np.inf),
        (2.0, 1.0),
        (1.0, 1.0),
        (np.nan, np.inf),
        (-np.inf, np.nan),
    ],
)
def test_limits_that_hold_nothing_are_refused_with_count_and_label(lower, upper):
    low, high = np.full(3, -np.inf), np.full(3, np.inf)
    low[1], high[1] = lower, upper
    with pytest.raises(RuleError, match=r"2 rows could not .*'b'"):
        see(Bounds(low, high))


def test_an_impossible_limit_of_what_was_not_available_does_not_matter():
    low, high = np.full(3, -np.inf), np.array([np.inf, -np.inf, np.inf])
    available = np.ones((3, 3), dtype=bool)
    available[[0, 2], 1] = False
    assert see(Bounds(low, high), available=available).status[0, 1] == UNKNOWN


def test_taking_rows_takes_all_parts():
    observation = see(Bounds(-5.0, 4.0))
    part = observation.take(np.array([2, 0]))
    np.testing.assert_array_equal(part.status, observation.status[[2, 0]])
    np.testing.assert_array_equal(part.upper, observation.upper[[2, 0]])
    np.testing.assert_array_equal(part.limit_of(1), observation.limit[[2, 0], 1])
