"""Coefficients that alternatives share, and offsets, in the parameters solvers move."""

from __future__ import annotations

import numpy as np
import pytest

from selfselect.data.equations import Equation, Equations, SharedTerm
from selfselect.noises import Independent
from selfselect.noises.base import COMMON
from selfselect.problem.parameters import Layout
from selfselect.problem.units import Units

EXACT = 1e-12
DIFFERENCE = 2e-8
"""Central differences of step 1e-6 on numbers of order one to a hundred."""

KINDS = {"each": "each", "common": "common", "number": 0.7, "numbers": [0.5, 2.0, 1.5]}

EACH = (
    Equation("a", ("Intercept", "x1", "x2"), (0, 1, 2)),
    Equation("b", ("Intercept", "x2", "offset(x3)"), (0, 2, 3), has_offset=True),
    Equation("c", ("Intercept", "x3", "x1"), (0, 3, 1)),
)
SHARED = {
    "a slope of two": (SharedTerm("x1", ((0, 1), (2, 2))),),
    "the constant of all": (SharedTerm("Intercept", ((0, 0), (1, 0), (2, 0))),),
    "columns of other units": (SharedTerm("x", ((0, 1), (1, 1), (2, 1))),),
    "much": (
        SharedTerm("Intercept", ((0, 0), (2, 0))),
        SharedTerm("x", ((0, 1), (1, 1))),
        SharedTerm("z", ((0, 2), (2, 1))),
    ),
    "nothing": (),
}
UNITS = Units(
    shift=np.array([0.0, 3.0, -2.0, 1.5]),
    unit=np.array([1.0, 0.5, 4.0, 10.0]),
    outcome_shift=7.0,
    outcome_unit=2.5,
)


@pytest.fixture(params=sorted(KINDS))
def scale(request):
    return KINDS[request.param]


@pytest.fixture(params=sorted(SHARED))
def equations(request):
    return Equations("y", ("x1", "x2", "x3"), EACH, shared=SHARED[request.param])


@pytest.fixture
def layout(equations, scale):
    return Layout.build(equations, Independent(scale=scale), UNITS)


def some_free(layout):
    free = np.random.default_rng(8).normal(0, 1, layout.n_free)
    at_h = layout.position[layout.inverse_scale_positions]
    free[np.unique(at_h[at_h >= 0])] = [1.3, 0.6, 2.0][: len(np.unique(at_h[at_h >= 0]))]
    return free


def differences(function, at, step=1e-6):
    """Return derivatives (..., n) by central differences."""
    moves = step * np.eye(len(at))
    return np.moveaxis(
        np.array([(function(at + m) - function(at - m)) / (2 * step) for m in moves]), 0, -1
    )


def test_reading_a_report_returns_the_free_parameters(layout):
    free = some_free(layout)
    np.testing.assert_allclose(layout.read(layout.report(free).values), free, rtol=1e-10)


def test_gathering_what_was_spread_returns_it(layout):
    free = some_free(layout)
    np.testing.assert_allclose(layout.gather(layout.natural(free)), free, rtol=1e-10)


def test_the_jacobian_of_the_report_is_its_derivative(layout):
    free = some_free(layout)
    found = layout.report(free)
    wanted = differences(lambda at: layout.report(at).values, free)
    np.testing.assert_allclose(found.jacobian, wanted, rtol=DIFFERENCE, atol=100 * DIFFERENCE)
    assert len(found.values) == layout.n_free == len(set(found.labels))


def test_scores_are_pulled_back_along_the_derivative_of_the_natural_parameters(layout):
    free = some_free(layout)
    score = np.random.default_rng(3).normal(size=layout.n_natural)
    wanted = differences(lambda at: score @ layout.natural(at), free)
    np.testing.assert_allclose(layout.pull_back_vector(score, free), wanted, atol=100 * DIFFERENCE)


def test_sums_of_products_give_the_least_squares_of_what_is_shared_and_offset(layout):
    """Moving the solution in any direction makes the sum of squared residuals larger."""
    rng = np.random.default_rng(5)
    ties = layout.ties
    designs = [rng.normal(size=(40, (ties.alternative == j).sum())) for j in range(3)]
    outcomes = [rng.normal(size=40) for _ in designs]
    both = [np.column_stack([x, y]) for x, y in zip(designs, outcomes, strict=True)]
    total, towards = ties.gather_grams([one.T @ one for one in both])

    def squares(moved):
        each = ties.coefficients(moved)
        parts = [each[ties.alternative == j] for j in range(3)]
        residuals = [y - x @ v for x, y, v in zip(designs, outcomes, parts, strict=True)]
        return sum(float(one @ one) for one in residuals)

    best = np.linalg.solve(total, towards)
    np.testing.assert_allclose(differences(squares, best), 0.0, atol=1e-6)
    assert squares(best) < squares(best + 0.01 * rng.normal(size=len(best)))


def test_every_alternative_has_the_coefficients_it_shares_and_one_for_its_offset(layout):
    each = layout.coefficients_of(layout.report(some_free(layout)).values)
    # Read off the internal parameters, not off the places in the report.
    natural = layout.natural(some_free(layout))
    for j in range(3):
        values, _ = layout._coefficients(natural, j)
        np.testing.assert_allclose(values, each[j], rtol=1e-10)
    assert each[1][2] == 1.0
    for shared in layout.equations.shared:
        values = [each[j][place] for j, place in shared.members]
        np.testing.assert_allclose(values, values[0], rtol=EXACT)


def test_all_who_share_are_named():
    equations = Equations("y", ("x1", "x2", "x3"), EACH, shared=SHARED["much"])
    layout = Layout.build(equations, Independent(), UNITS)
    labels = layout.report(np.ones(layout.n_free)).labels
    assert ("(a, c)", "Intercept") in labels and ("(a, b)", "x") in labels
    equations = Equations("y", ("x1", "x2", "x3"), EACH, shared=SHARED["the constant of all"])
    layout = Layout.build(equations, Independent(), UNITS)
    assert (COMMON, "Intercept") in layout.report(np.ones(layout.n_free)).labels
