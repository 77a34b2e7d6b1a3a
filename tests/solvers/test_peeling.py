"""Identification from the distribution function itself (Theorem 2)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_ndtr

import selfselect as ss
from selfselect.errors import UnsupportedError
from selfselect.solvers import Peeling, Population

EXACT = 1e-3
"""Each vector is refined on the far tail; what is left over from the first enters the next."""


def random_vectors(n_alternatives, n_covariates, seed):
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((n_alternatives, n_covariates))
    return (
        w
        * np.linspace(2.6, 2.0, n_alternatives)[:, None]
        / np.linalg.norm(w, axis=1, keepdims=True)
    )


def assert_recovered(found, truth):
    distance = np.linalg.norm(found[:, None, :] - truth[None, :, :], axis=2)
    assert sorted(distance.argmin(axis=1)) == list(range(len(truth)))
    assert distance.min(axis=1).max() < EXACT


def test_a_population_is_its_distribution_function():
    w = np.array([[1.0, -0.5], [0.3, 2.0]])
    x, t = np.array([[0.5, 1.0], [-1.0, 0.2]]), np.array([0.1, -0.7])
    wanted = log_ndtr(t - x @ w[0]) + log_ndtr(t - x @ w[1])
    np.testing.assert_allclose(Population.of(w).log_cdf(x, t), wanted, rtol=1e-12)


def test_peeling_one_off_leaves_the_shifted_rest():
    w = np.array([[1.0, -0.5], [0.3, 2.0]])
    x, t = np.array([[0.5, 1.0], [-1.0, 0.2]]), np.array([0.1, -0.7])
    rest = Population.of(w).without(w[0])
    wanted = Population.of(w[1:] - w[0]).log_cdf(x, t)
    np.testing.assert_allclose(rest.log_cdf(x, t), wanted, atol=1e-12)
    assert rest.n_alternatives == 1


@pytest.mark.parametrize("order", [50, 200])
def test_high_moments_along_a_line_tend_to_the_longest_projection(order):
    w = random_vectors(3, 2, 0)
    population = Population.of(w)
    for angle in (0.0, 0.8, 2.0):
        direction = np.array([np.cos(angle), np.sin(angle)])
        limit = np.sqrt(((w @ direction) ** 2).max() + 1)
        # Within the factor (1/2 to k)^(1/order) of the limit.
        ratio = Peeling(order=order).limit(population, direction) / limit
        assert 0.5 ** (1 / order) - 0.01 < ratio < 3 ** (1 / order) + 0.01


@pytest.mark.parametrize("truth", [[2.5, -1.0], [-2.6, 0.4], [2.2, 1.0, -1.5]])
def test_slopes_of_one_covariate_are_recovered(truth):
    slopes = np.array(truth)[:, None]
    assert_recovered(Peeling(tries=2).recover(Population.of(slopes)), slopes)


@pytest.mark.parametrize("truth", [
    [-6.0, 1.0], [40.0, -3.0], [1.0, 1.0], [-20.0, 3.0, 3.0], [0.0, 0.0], [2.0, -2.0], [1.0, 1.01],
], ids=repr)  # fmt: skip
def test_long_short_and_equal_slopes_are_recovered(truth):
    found = Peeling(tries=1).recover(Population.of(np.array(truth)[:, None]))
    np.testing.assert_allclose(np.sort(found[:, 0]), np.sort(truth), atol=1e-6)


def test_a_distribution_that_is_of_no_such_population_is_refused():
    """Noise of twice the scale: the slope would be right and the distribution another."""

    def log_cdf(x, t):
        return log_ndtr((t - 2.0 * x[:, 0]) / 2.0)

    with pytest.raises(UnsupportedError, match=r"distribution function differs .* by up to 0\."):
        Peeling(tries=1).recover(Population(log_cdf, 1, 1))


@pytest.mark.slow
@pytest.mark.parametrize(("n_alternatives", "n_covariates"), [(2, 2), (2, 3), (3, 2), (3, 3)])
def test_vectors_in_more_dimensions_are_recovered(n_alternatives, n_covariates):
    truth = random_vectors(n_alternatives, n_covariates, 0)
    assert_recovered(Peeling().recover(Population.of(truth)), truth)


def test_what_was_peeled_is_an_estimate_or_where_the_likelihood_starts():
    sample = ss.simulators.gaussian(3_000, 3, 3, norm=2.0, intercept=False, seed=5)
    truth = sample.params.drop(index="scale", level="term").to_numpy().reshape(3, 3)
    peeled = Peeling(tries=8).recover(Population.of(truth))
    solver = ss.solvers.MaximumLikelihood(starts=1, start=peeled)
    result = ss.fit(sample.formula, sample.data, alternatives=3, solver=solver)
    assert result.converged
    assert list(result.starts["name"]) == ["given"]
    other = ss.fit(sample.formula, sample.data, alternatives=3)
    assert result.llf == pytest.approx(other.llf, abs=1e-4)


def test_coefficients_of_another_size_are_no_start():
    sample = ss.simulators.gaussian(300, 3, 3, norm=2.0, intercept=False, seed=5)
    solver = ss.solvers.MaximumLikelihood(start=[[1.0, 2.0], [0.0, 1.0], [0.0, 0.0]])
    with pytest.raises(ss.errors.OptionError, match=r"lists of 2, 2, 2 .* have 3, 3, 3"):
        ss.fit(sample.formula, sample.data, alternatives=3, solver=solver)
