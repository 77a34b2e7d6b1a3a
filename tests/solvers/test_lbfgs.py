"""The quasi-Newton minimiser against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from selfselect.solvers._lbfgs import minimise

CLOSE = 1e-5
"""Both stop where the objective is flat to about 1e-12."""


def rosenbrock(at):
    return float(rosen(at)), rosen_der(at)


def run(objective, start, **options):
    return minimise(
        objective, np.asarray(start, float), max_steps=500, first_step=1e-3, flat=1e-13, **options
    )


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

    found = minimise(objective, np.zeros(10), max_steps=2_000, first_step=1.0, flat=0.0)
    assert found.value < 1e-8


def test_a_wall_of_infinities_is_backed_away_from():
    """The objective is infinite beyond 1, as a likelihood is where a trial step overflows."""

    def objective(x):
        if x[0] >= 1.0:
            return np.inf, np.zeros(1)
        return float(-np.log1p(-x[0]) + (x[0] - 0.9) ** 2 * 50), np.array(
            [1 / (1 - x[0]) + 100 * (x[0] - 0.9)]
        )

    found = minimise(objective, np.array([-5.0]), max_steps=100, first_step=1.0, flat=1e-13)
    assert abs(objective(found.place)[1][0]) < 1e-3


def test_no_slope_is_no_step():
    found = run(lambda x: (1.0, np.zeros_like(x)), [1.0, 2.0])
    np.testing.assert_array_equal(found.place, [1.0, 2.0])
    assert found.n_evaluations == 1
