"""Kernels that join the alternatives: far out, steep, or simulated, and points that stay."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy import integrate
from scipy.special import ndtr
from scipy.stats import norm

from selfselect.kernels.ghk import ghk_atoms, row_keys
from selfselect.kernels.joint import (
    correlated_pair_atoms,
    independent_atoms,
    shared_shock_atoms,
    shared_shock_means,
)

pytestmark = pytest.mark.usefixtures("every_kernel")

STEP = 1e-5

EXACT = 1e-6
"""What every likelihood owes to brute force; adaptive quadrature itself is good to 1e-9."""

FAR_OUT = 1e-5
"""What is left of 64 nodes over the shock where a limit is 45 deviations away."""

N_ATOMS = 12
KEYS = row_keys(np.random.default_rng(8).standard_normal(N_ATOMS))


def atoms(k, seed=0):
    """Return inputs, who is seen, and sides of every kind: below, above, nothing known."""
    rng = np.random.default_rng([seed, k])
    a = 1.5 * rng.standard_normal((N_ATOMS, k))
    seen = rng.integers(k, size=N_ATOMS)
    side = rng.choice([1, -1, 0], size=(N_ATOMS, k)).astype(np.int8)
    side[0], side[1], side[2] = 1, -1, 0
    return a, seen, side


def matrix_of(correlations, k):
    matrix = np.eye(k)
    for (j, m), value in zip(combinations(range(k), 2), correlations, strict=True):
        matrix[j, m] = matrix[m, j] = value
    return matrix


def log_chance_of_sides(a, seen, side, covariance):
    """Return log density of the one seen plus log chance of the others, by scipy."""
    others = [m for m in range(len(a)) if m != seen and side[m]]
    spread = np.sqrt(covariance[seen, seen])
    density = norm.logpdf(a[seen], scale=spread)
    if not others:
        return density
    sign = side[others].astype(float)
    given = covariance[others, seen] / covariance[seen, seen]
    left = covariance[np.ix_(others, others)] - np.outer(given, covariance[others, seen])
    limit = sign * (a[others] - given * a[seen])
    return density + np.log(normal_chance(limit, left * np.outer(sign, sign)))


def normal_chance(limit, covariance):
    """Return the chance of an orthant of up to three dimensions, by Gauss-Legendre over all but
    the last, which is a normal chance given the others."""
    root = np.linalg.cholesky(covariance)
    at, weight = np.polynomial.legendre.leggauss(120)
    shift, mass = [np.zeros(1)] * len(limit), np.ones(1)
    low = -9.0
    for m in range(len(limit) - 1):
        top = (limit[m] - shift[m]) / root[m, m]
        width = np.maximum(top, low + 1e-9) - low
        z = low + width[:, None] * 0.5 * (1.0 + at)
        mass = (mass[:, None] * 0.5 * width[:, None] * weight * norm.pdf(z)).ravel()
        drawn = z.ravel()
        shift = [np.repeat(one, len(at)) for one in shift]
        for later in range(m + 1, len(limit)):
            shift[later] = shift[later] + root[later, m] * drawn
    return float(mass @ norm.cdf((limit[-1] - shift[-1]) / root[-1, -1]))


def by_shock(a, seen, side, loadings):
    """Return the log-likelihood of an atom by adaptive quadrature over the shared shock."""

    def density(z):
        return np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)

    def integrand(u):
        value = density(u) * density(a[seen] - loadings[seen] * u)
        for m in range(len(a)):
            if m != seen and side[m]:
                value *= ndtr(side[m] * (a[m] - loadings[m] * u))
        return value

    total = 1.0 + loadings[seen] ** 2
    centre, spread = loadings[seen] * a[seen] / total, 1.0 / np.sqrt(total)
    steps = [a[m] / loadings[m] for m in range(len(a)) if loadings[m]]
    low, high = centre - 12 * spread, centre + 12 * spread
    cuts = [low, *sorted(s for s in (*steps, centre) if low < s < high), high]
    pieces = [
        integrate.quad(integrand, one, other, epsabs=0.0, epsrel=1e-9, limit=200)[0]
        for one, other in pairwise(cuts)
    ]
    return np.log(np.sum(pieces))


CORRELATIONS = {3: np.array([0.5, -0.3, 0.2]), 4: np.array([0.3, -0.2, 0.5, 0.1, 0.2, -0.3])}
LOADINGS = {2: np.array([0.7, 0.7]), 4: np.array([0.9, -0.4, 0.0, 1.3])}
STEEP = np.array([0.2, -6.0, 4.0, 0.5])
"""Loadings under which others' chances are steps to those who hardly load on the shock."""


def independent(k):
    _, seen, side = atoms(k)
    return lambda a, _, curvature: independent_atoms(a, seen, side, curvature=curvature)


def pair(_):
    _, seen, side = atoms(2)
    return lambda a, extra, curvature: correlated_pair_atoms(
        a, seen, side, float(extra[0]), curvature=curvature
    )


def shock(k):
    _, seen, side = atoms(k)
    return lambda a, extra, curvature: shared_shock_atoms(
        a, seen, side, extra, nodes=25, curvature=curvature
    )


def ghk(k):
    _, seen, side = atoms(k)
    return lambda a, extra, curvature: ghk_atoms(
        a, seen, side, extra, KEYS, draws=64, curvature=curvature
    )


@pytest.mark.parametrize(
    "loadings", [LOADINGS[2], LOADINGS[4], STEEP], ids=["two", "four", "steep"]
)
def test_a_shared_shock_is_integrated_out(loadings):
    k = len(loadings)
    a, seen, side = atoms(k)
    found = shared_shock_atoms(a, seen, side, loadings, nodes=41, curvature=False).loglik
    wanted = [by_shock(a[i], seen[i], side[i], loadings) for i in range(5)]
    np.testing.assert_allclose(found[:5], wanted, rtol=0, atol=EXACT)


def test_steps_of_a_steep_shock_have_the_derivatives_of_the_integral():
    """Where the range is cut, the cuts move with the parameters; the integral must not notice."""
    a, seen, side = atoms(4)
    terms = shared_shock_atoms(a, seen, side, STEEP, nodes=41, curvature=True)
    for place in range(4):
        ends = []
        for sign in (STEP, -STEP):
            moved = a.copy()
            moved[:, place] += sign
            ends.append(shared_shock_atoms(moved, seen, side, STEEP, nodes=41, curvature=False))
        slope = (ends[0].loglik - ends[1].loglik) / (2 * STEP)
        bend = (ends[0].gradient - ends[1].gradient) / (2 * STEP)
        np.testing.assert_allclose(terms.gradient[:, place], slope, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(terms.hessian[:, place], bend, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("k", [3, 4])
def test_simulated_atoms_come_as_close_to_the_normal_chance_as_their_draws_allow(k):
    a, seen, side = atoms(k)
    covariance = matrix_of(CORRELATIONS[k], k)
    wanted = [log_chance_of_sides(a[i], seen[i], side[i], covariance) for i in range(N_ATOMS)]
    off = [
        np.abs(
            ghk_atoms(
                a, seen, side, CORRELATIONS[k], KEYS, draws=draws, curvature=False
            ).loglik - wanted
        ).max()
        for draws in (64, 16_384)
    ]  # fmt: skip
    # Errors of scrambled Sobol points fall about as fast as their number grows.
    assert off[0] < 0.2 and off[1] < 1e-3 and off[1] < off[0] / 20


def test_far_in_the_tails_log_likelihoods_and_gradients_stay_finite():
    """Thirty standard deviations out every factor underflows; its logarithm does not."""
    a = np.array([[0.0, -30.0, -25.0], [0.0, 30.0, -30.0], [40.0, -40.0, 2.0]])
    seen, side = np.zeros(3, dtype=np.intp), np.ones((3, 3), dtype=np.int8)
    keys = KEYS[:3]
    r = CORRELATIONS[3]
    far = {
        "independent": independent_atoms(a, seen, side, curvature=True),
        "pair": correlated_pair_atoms(a[:, :2], seen, side[:, :2], 0.6, curvature=True),
        "shock": shared_shock_atoms(a, seen, side, np.ones(3), nodes=15, curvature=True),
        "ghk": ghk_atoms(a, seen, side, r, keys, draws=64, curvature=True),
    }
    for name, terms in far.items():
        for part in (terms.loglik, terms.gradient, terms.hessian):
            assert np.isfinite(part).all(), name
        assert terms.loglik[0] < -300, name
    pair_of = norm.logpdf(a[:, 0]) + norm.logcdf((a[:, 1] - 0.6 * a[:, 0]) / 0.8)
    np.testing.assert_allclose(far["pair"].loglik, pair_of, rtol=1e-10)


def test_correlations_of_no_distribution_have_no_likelihood():
    a, seen, side = atoms(3)
    found = ghk_atoms(
        a, seen, side, np.array([0.9, 0.9, -0.9]), KEYS, draws=32, curvature=False
    ).loglik
    assert np.isneginf(found).all()


def test_points_belong_to_the_row_and_never_change():
    a, seen, side = atoms(4)
    again = [
        ghk_atoms(a, seen, side, CORRELATIONS[4], KEYS, draws=32, curvature=False).loglik
        for _ in range(2)
    ]
    np.testing.assert_array_equal(*again)
    order = np.arange(N_ATOMS)[::-1]
    turned = ghk_atoms(
        a[order], seen[order], side[order], CORRELATIONS[4], KEYS[order], draws=32, curvature=False
    ).loglik
    np.testing.assert_array_equal(turned[order], again[0])
    other = ghk_atoms(a, seen, side, CORRELATIONS[4], KEYS[order], draws=32, curvature=False)
    assert np.abs(other.loglik - again[0]).max() > 1e-6


@pytest.mark.parametrize("limit", [1.5, -2.0, -45.0])
def test_means_given_a_shared_shock_are_integrals_however_far_the_limit(limit):
    """By a fine grid over the shock, on the scale of logarithms."""
    observed, own, other = 0.7, 0.8, 0.5
    a, side = np.array([[observed, limit]]), np.array([[0, 1]], dtype=np.int8)
    found = shared_shock_means(a, np.array([0]), side, np.array([own, other]), nodes=64)[1, 0, 1]
    u = np.linspace(-60.0, 60.0, 200_001)
    beyond = limit - other * u
    log_weight = norm.logpdf(u) + norm.logpdf(observed - own * u) + norm.logcdf(beyond)
    weight = np.exp(log_weight - log_weight.max())
    mean = other * u - np.exp(norm.logpdf(beyond) - norm.logcdf(beyond))
    wanted = weight @ mean / weight.sum() / np.sqrt(1.0 + other**2)
    assert found == pytest.approx(wanted, rel=FAR_OUT)
