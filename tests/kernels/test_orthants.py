"""Chances of normals below their limits: values against quadrature and draws, and derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from selfselect.kernels.orthants import TRIPLE_NODES as PANEL
from selfselect.kernels.orthants import (
    _triple_panels,
    hermite_means,
    keys,
    log_bivariate_cdf,
    log_orthant,
    log_trivariate_cdf,
    orthant_slopes,
)

STEP = 1e-5
EXACT = 1e-14
"""Rounding of a probability of about one."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)


def loadings(q, seed, dimensions=3):
    """Return rows of length one that are not close to dependent."""
    rng = np.random.default_rng(seed)
    while True:
        rows = rng.standard_normal((q, dimensions))
        rows /= np.sqrt((rows**2).sum(axis=1))[:, None]
        if np.linalg.eigvalsh(rows @ rows.T)[0] > 0.05:
            return rows


def by_quadrature(a, correlation):
    """Integrate over the first of three normals by 1,200 nodes."""
    given = correlation[1:, 0]
    left = np.sqrt(1.0 - given**2)
    rho = float((correlation[1, 2] - given[0] * given[1]) / (left[0] * left[1]))
    found = np.empty(a.shape[1])
    ends = np.linspace(-30.0, 0.0, 31)
    for i, (x, y, z) in enumerate(a.T):
        low, high = x + ends[:-1, None], x + ends[1:, None]
        s = (0.5 * (low + high) + 0.5 * (high - low) * NODES).ravel()
        weight = (0.5 * (high - low) * WEIGHTS).ravel()
        value = log_bivariate_cdf((y - given[0] * s) / left[0], (z - given[1] * s) / left[1], rho)
        value += -0.5 * s * s - 0.5 * np.log(2.0 * np.pi)
        found[i] = value.max() + np.log(weight @ np.exp(value - value.max()))
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shift", [0.0, -6.0, -25.0])
def test_three_normals_against_quadrature_also_far_out(seed, shift):
    rows = loadings(3, seed)
    correlation = rows @ rows.T
    a = np.random.default_rng(seed).normal(shift, 1.5, (3, 8))
    np.testing.assert_allclose(
        log_trivariate_cdf(a, correlation), by_quadrature(a, correlation), rtol=1e-11, atol=1e-11
    )


def of_one_factor(a, loadings):
    """Integrate over the factor that makes three normals dependent: no Φ₂ and no path is used."""
    left = np.sqrt(1.0 - loadings**2)
    bends = (a / loadings)[:, None] + np.linspace(-8.0, 8.0, 33) * (left / abs(loadings))[:, None]
    ends = np.unique(
        np.clip(np.concatenate([bends.ravel(), np.linspace(-12.0, 12.0, 49)]), -12, 12)
    )
    low, high = ends[:-1, None], ends[1:, None]
    s = (0.5 * (low + high) + 0.5 * (high - low) * NODES).ravel()
    chances = ndtr((a[:, None] - loadings[:, None] * s) / left[:, None]).prod(axis=0)
    density = np.exp(-0.5 * s * s) / np.sqrt(2.0 * np.pi)
    return (0.5 * (high - low) * WEIGHTS).ravel() @ (chances * density)


@pytest.mark.parametrize("signs", [(1, 1, 1), (1, -1, 1), (-1, 1, 1)])
@pytest.mark.parametrize("largest", [0.5, 0.8, 0.95, 0.99, 0.999])
@pytest.mark.parametrize("others", [1.0, 0.6])
def test_close_to_dependence_it_is_as_exact_as_elsewhere(signs, largest, others):
    loadings = np.array(signs) * np.sqrt(largest * np.array([1.0, 1.0, others]))
    correlation = np.outer(loadings, loadings)
    np.fill_diagonal(correlation, 1.0)
    a = np.random.default_rng(0).normal(0.0, 1.2, (3, 40))
    wanted = np.array([of_one_factor(one, loadings) for one in a.T])
    np.testing.assert_allclose(
        np.exp(log_trivariate_cdf(a, correlation)), wanted, rtol=1e-10, atol=EXACT
    )


def test_ordinary_correlations_take_one_panel():
    for size in (0.0, 0.3, 0.6):
        correlation = np.full((3, 3), size) + (1.0 - size) * np.eye(3)
        assert len(_triple_panels(correlation)[0]) == len(PANEL)


def test_a_steep_mode_with_a_long_tail_is_resolved():
    """Two normals with a correlation of 0.96, far out: orders of integration agree."""
    correlation = np.array([[1.0, 0.2704, 0.9645], [0.2704, 1.0, 0.0935], [0.9645, 0.0935, 1.0]])
    a = np.array([[-7.3, -40.0, -7.0], [-6.05, -6.0, -300.0], [-6.41, -35.0, -6.0]])
    wanted = by_quadrature(a[:, :1], correlation)
    np.testing.assert_allclose(log_trivariate_cdf(a[:, :1], correlation), wanted, rtol=1e-12)
    order = [2, 0, 1]
    there = log_trivariate_cdf(a[order], correlation[np.ix_(order, order)])
    np.testing.assert_allclose(log_trivariate_cdf(a, correlation), there, rtol=1e-12)
    # A limit of -300 costs its square, whatever the others do.
    assert there[2] == pytest.approx(-0.5 * 300.0**2, rel=1e-3)


def test_independent_normals_have_the_product():
    a = np.random.default_rng(0).normal(size=(3, 50))
    np.testing.assert_allclose(log_trivariate_cdf(a, np.eye(3)), np.log(ndtr(a)).sum(axis=0))


def test_the_order_of_the_normals_does_not_matter():
    rows = loadings(3, 5)
    a = np.random.default_rng(1).normal(-1.0, 2.0, (3, 50))
    order = [2, 0, 1]
    here = log_trivariate_cdf(a, rows @ rows.T)
    there = log_trivariate_cdf(a[order], rows[order] @ rows[order].T)
    np.testing.assert_allclose(here, there, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_slopes_are_those_of_finite_differences_at_every_order(q):
    rows = loadings(q, 2)
    correlation = rows @ rows.T
    limit = np.random.default_rng(q).normal(size=(q, 6))
    log_chance, slopes = orthant_slopes(limit, correlation, 4)
    np.testing.assert_array_equal(log_chance, log_orthant(limit, correlation))
    for order in range(1, 5):
        for place in range(q):
            ends = []
            for sign in (1.0, -1.0):
                moved = limit.copy()
                moved[place] += sign * STEP
                log_there, there = orthant_slopes(moved, correlation, order - 1)
                ends.append(np.exp(log_there - log_chance) * there[order - 1])
            wanted = (ends[0] - ends[1]) / (2.0 * STEP)
            into = [keys(q, order)[tuple(sorted((place, *key)))] for key in keys(q, order - 1)]
            np.testing.assert_allclose(slopes[order][into], wanted, rtol=1e-6, atol=1e-6)


def test_slopes_stay_finite_where_the_chance_underflows():
    rows = loadings(3, 3)
    limit = np.full((3, 1), -60.0)
    log_chance, slopes = orthant_slopes(limit, rows @ rows.T, 2)
    assert log_chance[0] < -1_000 and all(np.isfinite(one).all() for one in slopes)


def test_means_of_hermite_polynomials_are_those_of_draws():
    rows = loadings(2, 4)
    limit = np.array([[0.3], [0.6]])
    _, slopes = orthant_slopes(limit, rows @ rows.T, 4)
    found = [one[:, 0] for one in hermite_means(slopes, rows)]
    e = np.random.default_rng(0).standard_normal((400_000, 3))
    e = e[(e @ rows.T <= limit[:, 0]).all(axis=1)]
    error = 5.0 / np.sqrt(len(e))
    for key, mean in zip(keys(3, 2), found[2], strict=True):
        drawn = np.mean(e[:, key[0]] * e[:, key[1]]) - (key[0] == key[1])
        assert mean == pytest.approx(drawn, abs=2 * error)
    np.testing.assert_allclose(found[1], e.mean(axis=0), atol=error)
    for j, m in ((0, 1), (1, 2), (2, 0)):
        square, third, fourth = e[:, m] ** 2 - 1.0, keys(3, 3), keys(3, 4)
        mean = found[3][third[tuple(sorted((j, m, m)))]]
        assert mean == pytest.approx(np.mean(e[:, j] * square), abs=2 * error)
        mean = found[4][fourth[tuple(sorted((j, j, m, m)))]]
        assert mean == pytest.approx(np.mean((e[:, j] ** 2 - 1.0) * square), abs=3 * error)
