"""The quasi-Newton minimiser against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from selfselect.solvers._lbfgs import MEMORY, _State, minimise

CLOSE = 1e-5
"""Both stop where the objective is flat to about 1e-12."""


def rosenbrock(at):
    return float(rosen(at)), rosen_der(at)


def side_by_side(objective):
    """Return an objective of several places of one that takes a single place."""

    def several(places, which):
        del which
        found = [objective(place) for place in places]
        return np.array([value for value, _ in found]), np.array([slope for _, slope in found])

    return several


class One:
    """The end of a single start."""

    def __init__(self, found):
        (self.place,), (self.value,) = found.places, found.values
        (self.n_evaluations,) = found.n_evaluations


def run(objective, start, *, max_steps=500, first_step=1e-3, flat=1e-13, **options):
    start = np.asarray(start, float)[None]
    return One(
        minimise(
            side_by_side(objective), start, max_steps=max_steps, first_step=first_step, flat=flat,
            **options,
        )
    )  # fmt: skip


def test_starts_side_by_side_end_where_each_ends_alone():
    rng = np.random.default_rng(0)
    starts = 2.0 * rng.standard_normal((12, 4))
    starts[3] = 1.0  # One is at the optimum already.
    upper = np.array([np.inf, 0.8, np.inf, np.inf])
    together = minimise(
        side_by_side(rosenbrock), starts, max_steps=60, first_step=1e-3, flat=1e-13, upper=upper
    )
    for number, start in enumerate(starts):
        alone = run(rosenbrock, start, max_steps=60, upper=upper)
        np.testing.assert_allclose(together.places[number], alone.place, rtol=1e-12, atol=1e-12)
        assert together.values[number] == pytest.approx(alone.value, rel=1e-12, abs=1e-12)
        assert together.n_evaluations[number] == alone.n_evaluations


def test_an_objective_is_told_which_start_a_place_belongs_to():
    centres = np.array([[1.0, 2.0], [-3.0, 0.5], [0.0, 4.0]])
    seen = []

    def objective(places, which):
        seen.append(len(which))
        away = places - centres[which]
        # The second start is flat from the beginning, and drops out.
        size = np.where(which == 1, 0.0, 1.0 + which)[:, None]
        return (size[:, 0] * (away**2).sum(axis=1)), 2.0 * size * away

    found = minimise(objective, np.zeros((3, 2)), max_steps=50, first_step=0.1, flat=1e-13)
    np.testing.assert_allclose(found.places[[0, 2]], centres[[0, 2]], atol=CLOSE)
    np.testing.assert_array_equal(found.places[1], 0.0)
    assert seen[0] == 3 and max(seen[1:]) == 2


@pytest.mark.parametrize("size", [2, 5, 20])
def test_the_valley_of_rosenbrock_is_followed_to_its_end(size):
    start = np.tile([-1.2, 1.0], size)[:size]
    found = run(rosenbrock, start)
    by_scipy = minimize(rosen, start, jac=rosen_der, method="L-BFGS-B", options={"maxiter": 1_000})
    assert found.value <= by_scipy.fun + 1e-8
    if size < 4:  # Longer valleys have a second end.
        np.testing.assert_allclose(found.place, 1.0, atol=CLOSE)
    assert found.n_evaluations < 4 * by_scipy.nfev


@pytest.mark.parametrize("upper", [[0.5, np.inf], [np.inf, 0.25], [-0.5, np.inf], [0.3, 0.05]])
def test_upper_bounds_hold_and_the_best_place_within_is_found(upper):
    start = np.minimum([-1.2, 1.0], upper)
    found = run(rosenbrock, start, upper=np.array(upper))
    by_scipy = minimize(
        rosen, start, jac=rosen_der, method="L-BFGS-B", bounds=[(None, u) for u in upper]
    )
    assert (found.place <= upper).all()
    assert found.value == pytest.approx(by_scipy.fun, abs=1e-6)
    np.testing.assert_allclose(found.place, by_scipy.x, atol=1e-3)


def test_a_start_beyond_its_bound_is_brought_back():
    found = run(lambda x: (float(x @ x), 2 * x), [3.0, 2.0], upper=np.array([-1.0, np.inf]))
    np.testing.assert_allclose(found.place, [-1.0, 0.0], atol=CLOSE)


@pytest.mark.parametrize("condition", [1.0, 1e2, 1e6])
def test_quadratics_of_any_condition_are_solved(condition):
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((10, 10)))[0]
    matrix = turn @ np.diag(np.geomspace(1.0, condition, 10)) @ turn.T
    wanted = rng.standard_normal(10)

    def objective(x):
        gradient = matrix @ (x - wanted)
        return float(0.5 * (x - wanted) @ gradient), gradient

    found = run(objective, np.zeros(10), max_steps=2_000, first_step=1.0, flat=0.0)
    assert found.value < 1e-8


def test_a_wall_of_infinities_is_backed_away_from():
    """The objective is infinite beyond 1, as a likelihood is where a trial step overflows."""

    def objective(x):
        if x[0] >= 1.0:
            return np.inf, np.zeros(1)
        return float(-np.log1p(-x[0]) + (x[0] - 0.9) ** 2 * 50), np.array(
            [1 / (1 - x[0]) + 100 * (x[0] - 0.9)]
        )

    found = run(objective, [-5.0], max_steps=100, first_step=1.0)
    assert abs(objective(found.place)[1][0]) < 1e-3


def test_no_slope_is_no_step():
    found = run(lambda x: (1.0, np.zeros_like(x)), [1.0, 2.0])
    np.testing.assert_array_equal(found.place, [1.0, 2.0])
    assert found.n_evaluations == 1


def two_loops(gradient, pairs, first_step):
    """Multiply a gradient by the inverse curvature of (step, change), oldest first, by Nocedal's
    recursion.
    """
    result, weights = gradient.copy(), []
    for step, change in reversed(pairs):
        weights.append(step @ result / (step @ change))
        result = result - weights[-1] * change
    if pairs:
        step, change = pairs[-1]
        result = result * (step @ change) / (change @ change)
    else:
        result = result * first_step
    for step, change in pairs:
        result = result + (weights.pop() - change @ result / (step @ change)) * step
    return result


@pytest.mark.parametrize("n_steps", [0, 1, 3, MEMORY, 2 * MEMORY + 7])
def test_remembered_steps_turn_a_gradient_as_the_two_loops_do(n_steps):
    """Of three starts the second remembers every other step only, and the third has forgotten."""
    rng = np.random.default_rng(n_steps)
    size = 30
    root = rng.standard_normal((size, size)) / np.sqrt(size)
    curvature = root @ root.T + 0.1 * np.eye(size)
    gradients = rng.standard_normal((3, size))
    state = _State.at(np.arange(3), np.zeros((3, size)), np.zeros(3), gradients, 10)
    pairs = [[], [], []]
    for number in range(n_steps):
        which = np.array([0, 2] if number % 2 else [0, 1, 2])
        steps = rng.standard_normal((len(which), size)) * 10.0 ** rng.uniform(-6, 2)
        changes = steps @ curvature
        state._remember(which, steps, changes, (steps * changes).sum(axis=1))
        for one, step, change in zip(which, steps, changes, strict=True):
            pairs[one] = [*pairs[one], (step, change)][-MEMORY:]
        if number == n_steps // 2:
            state._forget(np.array([False, False, True]))
            pairs[2] = []
    found = state._turned(slice(None), gradients, 0.3)
    for one, gradient, own in zip(found, gradients, pairs, strict=True):
        wanted = two_loops(gradient, own, 0.3)
        np.testing.assert_allclose(one, wanted, rtol=0, atol=1e-10 * np.abs(wanted).max())
