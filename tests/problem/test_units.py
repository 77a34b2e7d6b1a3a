from __future__ import annotations

import numpy as np
import pytest

from selfselect.data.equations import Equations
from selfselect.data.rows import Rows
from selfselect.problem.units import measure_units

WITH = Equations.build("y", [["Intercept", "x"], ["Intercept", "x"]], ["a", "b"])
WITHOUT = Equations.build("y", [["Intercept", "x"], ["x"]], ["a", "b"])


def measured(equations, x, y):
    return measure_units(equations, Rows(np.asarray(x, float)[:, None], np.asarray(y, float)))


@pytest.mark.parametrize("factor", [1e-200, 1e-8, 1.0, 1e8, 1e200])
def test_internal_units_have_mean_zero_and_spread_one(factor):
    x = factor * np.random.default_rng(0).normal(3, 2, 500)
    units = measured(WITH, x, x)
    inside = units.design(x[:, None], (0, 1))
    np.testing.assert_allclose(inside[:, 0], 1.0)
    assert inside[:, 1].mean() == pytest.approx(0.0, abs=1e-12)
    assert inside[:, 1].std() == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(units.limits(x), inside[:, 1], rtol=1e-12)


def test_nothing_is_shifted_where_an_equation_has_no_constant():
    units = measured(WITHOUT, [1.0, 2.0, 3.0], [4.0, 5.0, 9.0])
    assert units.outcome_shift == 0.0 and (units.shift == 0.0).all()
    assert units.unit[1] == pytest.approx(np.sqrt(14 / 3))


def test_a_constant_column_keeps_its_unit():
    units = measured(WITH, [5.0, 5.0, 5.0], [1.0, 2.0, 3.0])
    assert np.isfinite(units.design(np.full((3, 1), 5.0), (0, 1))).all()
