"""The one loop of climbs, on hills that are known exactly."""

from __future__ import annotations

import numpy as np
import pytest

import selfselect as ss
from selfselect.engines.memory import RowsInMemory
from selfselect.solvers import Ending, Status
from selfselect.solvers.climb import Hill, Point, approach, ascend, information_at, score_at

TOP = np.array([1.0, -2.0])
CLOSE = 1e-9
"""Distance at which the hill counts as climbed."""


class Quartic(Hill):
    """Minus the fourth power of the distance to the top, and the square of it."""

    def __init__(self, promise=1.0, edge=np.inf):
        self.promise, self.edge = promise, edge

    def at(self, place):
        away = place - TOP
        size = float(away @ away)
        score = -(2.0 + 4.0 * size) * away
        information = (2.0 + 4.0 * size) * np.eye(2) + 8.0 * np.outer(away, away)
        step = self.promise * np.linalg.solve(information, score)
        gain = abs(float(score @ step))
        height = -size - size**2 if np.abs(place).max() < self.edge else np.nan
        return Point(place, height, score, information, step, gain, float(np.sqrt(gain)))

    def arrived(self, here, before, size):
        del before, size
        return here.distance <= CLOSE

    def slack(self, here):
        return 1e-14 * abs(here.loglik)

    def largest_step(self, here):
        del here
        return 1.0


def test_newton_steps_lead_to_the_top():
    found = ascend(Quartic(), np.array([5.0, 5.0]), max_steps=50)
    assert found.ending.status is Status.CONVERGED
    assert found.ending.details == {"steps": len(found.trace), "method": "Newton"}
    np.testing.assert_allclose(found.point.free, TOP, atol=1e-8)
    assert (np.diff([entry.loglik for entry in found.trace]) > 0).all()


def test_steps_that_are_too_long_are_halved():
    found = ascend(Quartic(promise=3.0), np.array([5.0, 5.0]), max_steps=200)
    assert found.ending.converged
    assert min(entry.step_size for entry in found.trace) < 1.0


def test_a_step_downhill_is_not_taken():
    found = ascend(Quartic(promise=-1.0), np.array([5.0, 5.0]), max_steps=50)
    assert found.ending.status is Status.NO_STEP_UP
    np.testing.assert_array_equal(found.point.free, [5.0, 5.0])


def test_too_few_steps_are_said_with_the_distance_that_is_left():
    found = ascend(Quartic(), np.array([5.0, 5.0]), max_steps=2)
    assert found.ending.status is Status.OUT_OF_STEPS and not found.ending.converged
    assert found.ending.details["distance"] == pytest.approx(found.point.distance)


def test_a_start_without_a_log_likelihood_is_said():
    found = ascend(Quartic(edge=4.0), np.array([5.0, 5.0]), max_steps=50)
    assert found.ending.status is Status.NOT_FINITE


def test_a_climb_that_creeps_towards_an_edge_ends_and_says_so():
    """Each step leads beyond the edge and is halved until it ends before it, ever closer."""
    found = ascend(Quartic(edge=1.5), np.array([0.5, 1.4]), max_steps=1_000)
    assert found.ending.status is Status.NO_PROGRESS and not found.ending.converged
    assert len(found.trace) < 30
    assert "the last 10 raised the log-likelihood by" in str(found.ending)


def test_the_caller_may_stop_a_climb():
    boundary = Ending(Status.AT_BOUNDARY, {"reason": "it is high enough."})
    found = ascend(
        Quartic(), np.array([5.0, 5.0]), max_steps=50,
        stop=lambda _, n_steps: boundary if n_steps == 3 else None,
    )  # fmt: skip
    assert found.ending is boundary and len(found.trace) == 3


@pytest.mark.parametrize("learn", [False, True])
def test_a_step_ahead_ends_within_the_tolerance_and_saves_a_pass(monkeypatch, learn):
    fit = ss.fit("income ~ height", ss.simulators.village(3_000, seed=1).data, chosen="job")
    problem, engine, top = fit.problem, fit.engine_of_rows(), fit.solution.free
    exact = information_at(problem, engine, top)
    start = top + np.linalg.solve(np.linalg.cholesky(exact).T, np.ones(len(top)))
    # An information that is a tenth too large.
    rough, tol = 1.1 * exact, 1e-6
    passes = []
    add_up = RowsInMemory.sum

    def counted(rows, task):
        passes[-1] += 1
        return add_up(rows, task)

    monkeypatch.setattr(RowsInMemory, "sum", counted)
    for ahead in (False, True):
        passes.append(0)
        end = approach(problem, engine, start, rough, tol=tol, learn=learn, ahead=ahead)
        passes.append(0)
        score = score_at(problem, engine, end)
        assert np.sqrt(score @ np.linalg.solve(exact, score)) <= 1.2 * tol
    assert passes[2] < passes[0]
