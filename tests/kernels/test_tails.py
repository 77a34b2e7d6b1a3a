from __future__ import annotations

import mpmath
import numpy as np
import pytest

from selfselect.kernels.tails import interval_terms, mills_terms

pytestmark = pytest.mark.usefixtures("every_kernel")

RELATIVE = 1e-12
"""Some thousand roundings of a double: cancellation is allowed to cost three digits, no more."""

EVERYWHERE = np.concatenate(
    [
        -np.logspace(5, -3, 97),
        [0.0],
        np.logspace(-3, 1.5, 46),
        [-30.0, np.nextafter(-30.0, -np.inf), np.nextafter(-30.0, 0.0)],
    ]
)


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(60):
        yield


def upper_tail(a):
    return mpmath.erfc(mpmath.mpf(float(a)) / mpmath.sqrt(2)) / 2


def density(a):
    a = mpmath.mpf(float(a))
    return mpmath.exp(-a * a / 2) / mpmath.sqrt(2 * mpmath.pi)


def mass(low, high):
    if low + high > 0:
        return upper_tail(low) - upper_tail(high)
    return upper_tail(-high) - upper_tail(-low)


def log_mass(low, high):
    if low < 0 < high:
        return mpmath.log1p(-upper_tail(-low) - upper_tail(high))
    return mpmath.log(mass(low, high))


def relative_error(found, exact):
    return float(abs((mpmath.mpf(float(found)) - exact) / exact))


def close(found, exact):
    """Say whether a number is right to RELATIVE, or both are too small for full digits."""
    return max(abs(found), abs(exact)) < 1e-300 or relative_error(found, exact) < RELATIVE


def test_log_cdf_is_exact_in_both_tails():
    found = mills_terms(EVERYWHERE).log_cdf
    for a, value in zip(EVERYWHERE, found, strict=True):
        exact = mpmath.log1p(-upper_tail(a)) if a > 0 else mpmath.log(upper_tail(-a))
        assert relative_error(value, exact) < RELATIVE, a


def test_mills_ratio_is_exact_in_both_tails():
    found = mills_terms(EVERYWHERE).ratio
    for a, value in zip(EVERYWHERE, found, strict=True):
        assert relative_error(value, density(a) / upper_tail(-a)) < RELATIVE, a


def test_slope_of_the_mills_ratio_is_exact_in_both_tails():
    found = mills_terms(EVERYWHERE).slope
    for a, value in zip(EVERYWHERE, found, strict=True):
        ratio = density(a) / upper_tail(-a)
        assert relative_error(value, ratio * (ratio + mpmath.mpf(float(a)))) < RELATIVE, a


@pytest.mark.parametrize("a", [1e3, 1e6, 1e100, 1e150])
def test_terms_stay_finite_at_any_distance(a):
    left, right = mills_terms(np.array([-a])), mills_terms(np.array([a]))
    assert left.log_cdf[0] == pytest.approx(-0.5 * a * a, rel=1e-4)
    assert left.ratio[0] == pytest.approx(a, rel=1e-5)
    assert left.slope[0] == pytest.approx(1.0, rel=1e-5)
    assert (right.log_cdf[0], right.ratio[0], right.slope[0]) == (0.0, 0.0, 0.0)


def test_slope_never_leaves_zero_to_one():
    slope = mills_terms(np.linspace(-200, 50, 20_001)).slope
    assert (slope >= 0).all() and (slope <= 1).all()


INTERVALS = [
    (low, low + width)
    for low in (-1e3, -200.0, -37.5, -8.0, -1.0, -0.3, 0.0, 0.2, 5.0, 36.0, 500.0, 1e3)
    for width in (1e-6, 1e-3, 0.1, 0.6, 1.7, 10.0, 300.0)
]


@pytest.mark.parametrize(("low", "high"), INTERVALS)
def test_interval_terms_are_exact_in_both_tails(low, high):
    found = interval_terms(np.array([low]), np.array([high]))
    exact = mass(low, high)
    assert close(found.log_mass[0], log_mass(low, high))
    for value, end in ((found.lower_density[0], low), (found.upper_density[0], high)):
        assert close(value, density(end) / exact)


def test_an_interval_with_one_open_end_is_a_tail():
    a = np.array([-50.0, -2.0, 0.0, 3.0])
    below = interval_terms(np.full(4, -np.inf), a)
    above = interval_terms(-a, np.full(4, np.inf))
    tail = mills_terms(a)
    for one in (below, above):
        np.testing.assert_allclose(one.log_mass, tail.log_cdf, rtol=RELATIVE)
    np.testing.assert_allclose(below.upper_density, tail.ratio, rtol=RELATIVE)
    np.testing.assert_allclose(above.lower_density, tail.ratio, rtol=RELATIVE)
    assert (below.lower_density == 0).all() and (above.upper_density == 0).all()
