"""The bivariate normal distribution function, in the middle and far out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr

from selfselect.kernels.orthants import bivariate_terms, log_bivariate_cdf

CORRELATIONS = (0.0, 0.3, -0.6, 0.9, -0.95, 0.99, -0.99)
DIFFERENCED = 1e-5


def integrated(a, b, rho):
    """Integrate one argument out, relative to the largest value of the integrand."""
    q = np.sqrt(1 - rho**2)

    def log_inside(s):
        return -0.5 * s * s - 0.5 * np.log(2 * np.pi) + log_ndtr((b - rho * s) / q)

    grid = np.linspace(min(a, b) - 45, a, 400_001)
    values = log_inside(grid)
    top = grid[np.argmax(values)]
    pieces = [quad(lambda s: np.exp(log_inside(s) - values.max()), *ends, epsabs=0, epsrel=1e-11,
                   limit=200)[0]
              for ends in ((top - 12, top - 1), (top - 1, top), (top, min(a, top + 1)),
                           (min(a, top + 1), min(a, top + 12)))]  # fmt: skip
    return values.max() + np.log(sum(pieces))


@pytest.mark.parametrize("rho", CORRELATIONS)
def test_it_is_the_integral_in_the_middle_and_in_the_tails(rho):
    a = np.array([0.3, -1.2, 2.0, -3.0, -6.0, 1.5, -8.0, 4.0])
    b = np.array([-0.4, 0.8, 1.5, -2.0, -5.0, -7.0, 3.0, 4.0])
    found = log_bivariate_cdf(a, b, rho)
    wanted = [integrated(one, other, rho) for one, other in zip(a, b, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("rho", CORRELATIONS)
def test_both_sides_add_up_and_arguments_change_places(rho):
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 2, (2, 200))
    both = np.exp(log_bivariate_cdf(a, b, rho)) + np.exp(log_bivariate_cdf(-a, b, -rho))
    np.testing.assert_allclose(both, ndtr(b), rtol=1e-9)
    np.testing.assert_allclose(
        log_bivariate_cdf(a, b, rho), log_bivariate_cdf(b, a, rho), rtol=1e-8, atol=1e-10
    )


def test_without_correlation_it_is_a_product_and_at_one_the_smaller():
    a, b = np.array([0.5, -1.0, -30.0]), np.array([-0.2, 2.0, -20.0])
    np.testing.assert_allclose(log_bivariate_cdf(a, b, 0.0), log_ndtr(a) + log_ndtr(b), rtol=1e-12)
    np.testing.assert_allclose(
        log_bivariate_cdf(a, b, 1 - 1e-9), log_ndtr(np.minimum(a, b)), rtol=1e-5
    )


@pytest.mark.parametrize("t", [0.0, 0.5, -1.5, 3.0])
def test_slopes_and_curvature_are_differences(t):
    rng = np.random.default_rng(1)
    a, b = rng.normal(0, 1.5, (2, 50))
    found, step = bivariate_terms(a, b, t), 1e-5
    for place, moves in enumerate(np.eye(3) * step):
        up = bivariate_terms(a + moves[0], b + moves[1], t + moves[2])
        down = bivariate_terms(a - moves[0], b - moves[1], t - moves[2])
        np.testing.assert_allclose(
            found.slope[place], (up.log_mass - down.log_mass) / (2 * step), atol=DIFFERENCED
        )
        np.testing.assert_allclose(
            found.curvature[place], (up.slope - down.slope) / (2 * step), atol=1e-4
        )


@pytest.mark.parametrize(
    ("rho", "exact"), [(0.98, -15.572090596644292), (0.99, -15.403063901714559)]
)
def test_long_tails_beyond_a_steep_mode_are_integrated_whole(rho, exact):
    """Values by mpmath, with thirty digits."""
    found = log_bivariate_cdf(np.array([-5.0]), np.array([-5.0]), rho)
    assert found[0] == pytest.approx(exact, rel=1e-11)
