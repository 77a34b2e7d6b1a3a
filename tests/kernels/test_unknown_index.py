"""The mathematics of an unknown index against integrals and differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm

from selfselect.kernels.unknown_index import memberships, row_scores, sum_rows

pytestmark = pytest.mark.usefixtures("every_kernel")

STEP = 1e-5
FIRST = 1e-8
"""Central differences of step 1e-5 err by 1e-10 in the step and 1e-11 in rounding, per row."""

INTEGRAL = 1e-8
"""What adaptive quadrature is asked for, with a digit to spare."""

N_ROWS = 40


@pytest.fixture(params=[1.0, -1.0], ids=["max", "min"])
def side(request):
    return request.param


@pytest.fixture(params=[2, 3])
def n_alternatives(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["all open", "some closed"])
def candidate(request, n_alternatives):
    if not request.param:
        return None
    open_to = np.random.default_rng(3).uniform(size=(N_ROWS, n_alternatives)) < 0.6
    open_to[~open_to.any(axis=1), 0] = True
    return open_to


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def weights(request):
    return np.random.default_rng(4).uniform(0.0, 2.0, N_ROWS) if request.param else None


@pytest.fixture
def designs(n_alternatives):
    """Return covariates of different numbers per alternative."""
    rng = np.random.default_rng(1)
    return [
        np.column_stack([np.ones(N_ROWS), rng.standard_normal((N_ROWS, 1 + j % 2))])
        for j in range(n_alternatives)
    ]


@pytest.fixture
def natural(designs):
    rng = np.random.default_rng(2)
    return np.concatenate([np.append(rng.standard_normal(x.shape[1]), 0.6) for x in designs])


LIMIT = np.random.default_rng(5).normal(0.0, 1.5, N_ROWS)


def split(designs, natural):
    ends = np.cumsum([x.shape[1] + 1 for x in designs])
    blocks = np.split(natural, ends[:-1])
    return [block[:-1] for block in blocks], np.array([block[-1] for block in blocks])


def sums(designs, natural, side, candidate, weights, curvature="exact"):
    g, h = split(designs, natural)
    return sum_rows(
        designs, h, LIMIT, side=side, candidate=candidate, weights=weights, natural_g=g,
        curvature=curvature,
    )  # fmt: skip


def differences(function, at):
    moves = STEP * np.eye(len(at))
    return np.array([(function(at + move) - function(at - move)) / (2 * STEP) for move in moves]).T


def density_by_hand(y, means, scales, side):
    """Differentiate the distribution function of the largest or smallest."""
    total = 0.0
    for j in range(len(means)):
        others = [m for m in range(len(means)) if m != j]
        beyond = np.prod(norm.cdf(side * (y - means[others]) / scales[others]))
        total += norm.pdf(y, means[j], scales[j]) * beyond
    return total


def test_the_density_is_that_of_the_largest_or_smallest_and_integrates_to_one(side, n_alternatives):
    rng = np.random.default_rng(6)
    means, h = rng.normal(0, 1, n_alternatives), rng.uniform(0.5, 2.0, n_alternatives)

    def density(y):
        found = memberships((means * h)[None, :], h, np.array([y]), side=side, candidate=None)
        return float(np.exp(found.loglik[0]))

    for y in (-3.0, 0.2, 2.5):
        assert density(y) == pytest.approx(density_by_hand(y, means, 1 / h, side), rel=1e-12)
    total = integrate.quad(density, -30, 30, limit=200, epsabs=1e-10)[0]
    assert total == pytest.approx(1.0, abs=INTEGRAL)


def test_the_distribution_function_is_a_product(side, n_alternatives):
    """P(largest <= t) is the product of all P(y_j <= t); the smallest is its mirror image."""
    rng = np.random.default_rng(7)
    means, h = rng.normal(0, 1, n_alternatives), rng.uniform(0.5, 2.0, n_alternatives)

    def density(y):
        found = memberships((means * h)[None, :], h, np.array([y]), side=side, candidate=None)
        return float(np.exp(found.loglik[0]))

    for t in (-1.0, 0.5, 2.0):
        reach = (-30.0, t) if side > 0 else (t, 30.0)
        mass = integrate.quad(density, *reach, limit=200, epsabs=1e-10)[0]
        assert mass == pytest.approx(np.prod(norm.cdf(side * (t - means) * h)), abs=INTEGRAL)


def test_memberships_are_the_posterior_by_simulation():
    """Among simulated rows whose largest outcome is close to y, count whose it was."""
    rng = np.random.default_rng(8)
    means, scales, y = np.array([0.0, 0.6, -0.5]), np.array([1.0, 0.7, 1.5]), 1.2
    latent = means + scales * rng.standard_normal((2_000_000, 3))
    close = np.abs(latent.max(axis=1) - y) < 0.02
    counted = np.bincount(latent[close].argmax(axis=1), minlength=3) / close.sum()
    found = memberships((means / scales)[None, :], 1 / scales, np.array([y]), side=1.0,
                        candidate=None)  # fmt: skip
    # Four standard errors of the counts.
    np.testing.assert_allclose(found.chance[0], counted, atol=4 * 0.5 / np.sqrt(close.sum()))


def test_memberships_add_up_and_leave_the_closed_out(designs, natural, side, candidate):
    g, h = split(designs, natural)
    location = np.column_stack([x @ w for x, w in zip(designs, g, strict=True)])
    found = memberships(location, h, LIMIT, side=side, candidate=candidate)
    np.testing.assert_allclose(found.chance.sum(axis=1), 1.0, rtol=1e-14)
    if candidate is not None:
        assert (found.chance[~candidate] == 0.0).all()
        for i in range(N_ROWS):
            own = candidate[i]
            alone = memberships(
                location[[i]][:, own], h[own], LIMIT[[i]], side=side, candidate=None
            )
            assert found.loglik[i] == pytest.approx(alone.loglik[0], rel=1e-13)


def test_the_score_is_the_derivative(designs, natural, side, candidate, weights):
    found = sums(designs, natural, side, candidate, weights)
    wanted = differences(
        lambda at: sums(designs, at, side, candidate, weights, "none").loglik, natural
    )
    np.testing.assert_allclose(found.score, wanted, rtol=FIRST, atol=FIRST * N_ROWS)


def test_the_exact_hessian_is_the_second_derivative(designs, natural, side, candidate, weights):
    found = sums(designs, natural, side, candidate, weights)
    wanted = differences(
        lambda at: sums(designs, at, side, candidate, weights, "none").score, natural
    )
    np.testing.assert_allclose(found.hessian, wanted, rtol=FIRST, atol=FIRST * N_ROWS)


def test_the_complete_hessian_holds_memberships_fixed(designs, natural, side, candidate):
    """It is the second derivative of EM's objective: the expected complete log-likelihood."""
    g, h = split(designs, natural)
    location = np.column_stack([x @ w for x, w in zip(designs, g, strict=True)])
    chance = memberships(location, h, LIMIT, side=side, candidate=candidate).chance
    open_to = np.ones_like(chance, dtype=bool) if candidate is None else candidate

    def expected(at):
        g, h = split(designs, at)
        total = 0.0
        for j, (x, w) in enumerate(zip(designs, g, strict=True)):
            a = side * (h[j] * LIMIT - x @ w)
            seen, unseen = np.log(h[j]) + norm.logpdf(a), norm.logcdf(a)
            total += (open_to[:, j] * (chance[:, j] * seen + (1 - chance[:, j]) * unseen)).sum()
        return total

    step = 1e-4
    moves = step * np.eye(len(natural))
    wanted = np.array(
        [
            [
                (expected(natural + a + b) - expected(natural + a - b)
                 - expected(natural - a + b) + expected(natural - a - b)) / (4 * step**2)
                for b in moves
            ]
            for a in moves
        ]
    )  # fmt: skip
    found = sums(designs, natural, side, candidate, None, "complete")
    # Second differences of step 1e-4 err by 1e-8 in the step and 1e-6 in rounding.
    np.testing.assert_allclose(found.hessian, wanted, atol=2e-5)
    assert np.linalg.eigvalsh(found.hessian)[-1] < 0


def test_missing_knowledge_only_loses_information(designs, natural, side, candidate, weights):
    exact = sums(designs, natural, side, candidate, weights).hessian
    complete = sums(designs, natural, side, candidate, weights, "complete").hessian
    assert np.linalg.eigvalsh(exact - complete)[0] > -1e-9


def test_row_scores_add_up_to_the_score(designs, natural, side, candidate, weights):
    g, h = split(designs, natural)
    location = np.column_stack([x @ w for x, w in zip(designs, g, strict=True)])
    found = memberships(location, h, LIMIT, side=side, candidate=candidate)
    scores = np.column_stack(
        [
            row_scores(x, found, j, inverse_scale=h[j], limit=LIMIT, side=side)
            for j, x in enumerate(designs)
        ]
    )
    weight = np.ones(N_ROWS) if weights is None else weights
    total = sums(designs, natural, side, candidate, weights, "none").score
    np.testing.assert_allclose(weight @ scores, total, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("far", [40.0, 1e3, 1e6])
def test_far_rows_stay_finite(side, far):
    location = np.array([[0.0, 0.0], [far, -far], [-far, far]])
    for y in (-far, 0.0, far):
        found = memberships(location, np.ones(2), np.full(3, y), side=side, candidate=None)
        for part in vars(found).values():
            assert np.isfinite(part).all()
        np.testing.assert_allclose(found.chance.sum(axis=1), 1.0, rtol=1e-12)
