"""Probabilities of an interval and a selection where the correlation is nearly one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_ndtr

from selfselect.kernels.selected import selected_interval_terms

N_ROWS = 300
ENDS = ("above", "below", "between")


@pytest.fixture(scope="module")
def rows():
    """Limits, means and ends of an index, of every width and beyond either side."""
    rng = np.random.default_rng(3)
    low = 2.0 * rng.standard_normal(N_ROWS)
    high = low + 10.0 ** rng.uniform(-3, 1, N_ROWS)
    low[::5], high[1::5] = -np.inf, np.inf
    a = 1.5 * rng.standard_normal(N_ROWS)
    return low, high, rng.standard_normal(N_ROWS), a, a - 10.0 ** rng.uniform(-1, 0.5, N_ROWS)


def ends_of(kind, a, b):
    return {"above": (a, None), "below": (None, b), "between": (a, b)}[kind]


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("t", [8.0, -11.0, 13.0])
def test_slopes_are_those_of_finite_differences_where_the_correlation_is_nearly_one(rows, kind, t):
    """The mass of the selection is then a step, of which the integrand's mode may be the foot."""
    low, high, mean, a, b = rows

    def at(by):
        ends = ends_of(kind, a + by[2], b + by[3])
        return selected_interval_terms(low, high, mean + by[0], 1.3 + by[1], *ends, t + by[4])

    found, step = at(np.zeros(5)), 0.01 / np.cosh(t)
    for i, by in enumerate(step * np.diag([1.0, 1.0, 1.0, 1.0, np.cosh(t)])):
        difference = (at(by).log_mass - at(-by).log_mass) / (2 * by.sum())
        assert (np.abs(found.slope[i] - difference) / (1 + np.abs(found.slope[i]))).max() < 1e-3


def test_a_narrow_interval_is_the_density_times_its_width(rows):
    _, _, mean, a, _ = rows
    y, width, h, t = np.linspace(-3, 3, N_ROWS), 1e-9, 1.3, 0.6
    found = selected_interval_terms(y - width / 2, y + width / 2, mean, h, a, None, t)
    e = h * y - mean
    density = -0.5 * e**2 - 0.5 * np.log(2 * np.pi) + np.log(h)
    density += log_ndtr(a * np.cosh(t) + e * np.sinh(t))
    # Limits of size 3 hold a width of 1e-9 to seven digits.
    np.testing.assert_allclose(found.log_mass - np.log(width), density, atol=1e-6)
    np.testing.assert_allclose(found.noise, e, atol=1e-8)
