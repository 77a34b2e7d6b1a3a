"""Probabilities of an interval and a selection, against rectangles of Φ₂ and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_ndtr, logsumexp

from selfselect.kernels.orthants import log_bivariate_cdf
from selfselect.kernels.selected import selected_interval_terms
from selfselect.kernels.tails import interval_terms

N_ROWS = 300
TURNS = (0.0, 0.3, -0.8, 2.0, -3.0, 5.0)
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


def log_rectangle(first, last, a, b, rho):
    """Integrate φ(e) times the mass of the selection on a fine grid around its largest value."""
    e = (
        np.clip(first, -12, 12)[:, None]
        + np.linspace(0, 1, 20_001) * (np.clip(last, -12, 12) - np.clip(first, -12, 12))[:, None]
    )
    q = np.sqrt(1 - rho**2)
    upper = np.inf if a is None else (a[:, None] + rho * e) / q
    lower = -np.inf if b is None else (b[:, None] + rho * e) / q
    if a is None or b is None:
        log_mass = log_ndtr(upper) if b is None else log_ndtr(-lower)
    else:
        log_mass = interval_terms(lower, upper).log_mass
    value = -0.5 * e**2 - 0.5 * np.log(2 * np.pi) + log_mass
    simpson = np.resize([2.0, 4.0], 20_001)
    simpson[0] = simpson[-1] = 1.0
    return logsumexp(value, b=simpson * (e[:, 1:2] - e[:, :1]) / 3, axis=1)


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("t", [0.3, -0.8, 2.0])
def test_masses_are_those_of_a_fine_grid(rows, kind, t):
    low, high, mean, a, b = (one[:15] for one in rows)
    ends = ends_of(kind, a, b)
    found = selected_interval_terms(low, high, mean, 1.3, *ends, t)
    wanted = log_rectangle(1.3 * low - mean, 1.3 * high - mean, *ends, np.tanh(t))
    np.testing.assert_allclose(found.log_mass, wanted, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("t", TURNS)
def test_one_limit_and_one_end_are_the_bivariate_normal_distribution(rows, t):
    """Its own integral over the correlation has nothing in common with ours."""
    _, high, mean, a, _ = (one[np.isfinite(rows[1])] for one in rows)
    found = selected_interval_terms(np.full(len(high), -np.inf), high, mean, 0.7, a, None, t)
    # e < h y - ξ and -u < a.
    wanted = log_bivariate_cdf(0.7 * high - mean, a, -np.tanh(t))
    likely = wanted > np.log(1e-4)
    np.testing.assert_allclose(found.log_mass[likely], wanted[likely], atol=1e-9)


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("t", TURNS)
def test_derivatives_are_those_of_finite_differences(rows, kind, t):
    low, high, mean, a, b = rows

    def at(by):
        ends = ends_of(kind, a + by[2], b + by[3])
        return selected_interval_terms(low, high, mean + by[0], 1.3 + by[1], *ends, t + by[4])

    found, step = at(np.zeros(5)), 1e-5
    for i, by in enumerate(step * np.eye(5)):
        above, below = at(by), at(-by)
        for value, one, other in (
            (found.slope[i], above.log_mass, below.log_mass),
            (found.curvature[i], above.slope, below.slope),
        ):
            difference = (one - other) / (2 * step)
            size = 1 + np.abs(value) + np.abs(found.log_mass)
            assert (np.abs(value - difference) / size).max() < 1e-4


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
