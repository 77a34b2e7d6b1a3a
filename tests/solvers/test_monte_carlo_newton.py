"""MonteCarloNewton reaches the optimum of the likelihood, up to the error that it reports."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_ndtr

import selfselect as ss
from selfselect.errors import ConvergenceWarning, OptionError
from selfselect.noises import Independent, KnownCovariance
from selfselect.rules import ConvexRule, LinearArgmax, Maximum
from selfselect.samplers import BoxExact, EllipticalSlice
from selfselect.solvers import MonteCarloNewton

QUICK = MonteCarloNewton(mc_tol=0.3, loglik_draws=64)

DEVIATIONS = 4.5
"""Reported Monte-Carlo errors within which an estimate must be of the exact one."""


SPREAD = 1.5
"""Room for a root mean square over nine or more gaps of which each has at most the error asked
for; they are correlated."""


def largest(latent):
    return latent.argmax(axis=1)


HIDDEN = ConvexRule(largest)


@pytest.fixture(scope="module")
def sample():
    return ss.simulators.gaussian(500, 2, 3, seed=1)


def fit(sample, **options):
    return ss.fit(sample.formula, sample.data, **({"chosen": "chosen"} | options))


@pytest.mark.parametrize("scale", ["each", "common", 1.0])
def test_without_bounds_it_finds_what_newton_finds_with_them(sample, scale):
    exact = fit(sample, noise=Independent(scale))
    drawn = fit(sample, noise=Independent(scale), rule=HIDDEN)
    assert drawn.converged and drawn.solution.solver.startswith("MonteCarloNewton(mc_tol=0.1")
    gap = (drawn.params - exact.params) / exact.bse
    assert np.sqrt(np.mean(gap**2)) < SPREAD * 0.1
    assert (np.abs(drawn.params - exact.params) < DEVIATIONS * drawn.mc_error).all()
    assert (drawn.mc_error <= 0.1 * drawn.bse).all() and (drawn.mc_error > 0).all()
    np.testing.assert_allclose(drawn.bse, exact.bse, rtol=0.1)
    assert abs(drawn.llf - exact.llf) < DEVIATIONS * drawn.solution.loglik_error + 0.01


def test_a_smaller_error_is_reached_when_asked_for(sample):
    exact = fit(sample, noise=Independent(1.0))
    solver = MonteCarloNewton(mc_tol=0.02, loglik_draws=64)
    drawn = fit(sample, noise=Independent(1.0), rule=HIDDEN, solver=solver)
    assert drawn.converged
    gap = (drawn.params - exact.params) / exact.bse
    assert np.sqrt(np.mean(gap**2)) < SPREAD * 0.02
    # Standard errors are asked for to 1%, root mean square over the parameters.
    np.testing.assert_allclose(drawn.bse, exact.bse, rtol=0.03)


def test_with_exact_moments_it_is_newton(world):
    made = world("max", 300, known=True)
    exact, drawn = made.fit(weights="w"), made.fit(weights="w", solver=MonteCarloNewton())
    assert drawn.converged and (drawn.mc_error == 0).all()
    # A step from within half a standard error is off by a few per cent of its square.
    assert (np.abs(drawn.params - exact.params) < 0.05 * exact.bse).all()
    assert drawn.llf == pytest.approx(exact.llf, abs=0.05)


def test_standard_errors_include_the_monte_carlo_error(sample):
    solver = MonteCarloNewton(mc_tol=0.8, loglik_draws=64)
    result = fit(sample, rule=HIDDEN, noise=Independent(1.0), solver=solver)
    alone = np.linalg.inv(result.solution.information)
    jacobian = result.reported.jacobian
    variance = np.diag(jacobian @ alone @ jacobian.T)
    np.testing.assert_allclose(result.bse**2, variance + result.mc_error**2)
    assert "with Monte-Carlo error" in result.covariance.description


def test_the_same_seed_gives_the_same_answer(sample):
    options = {"rule": HIDDEN, "noise": Independent(1.0), "solver": QUICK}
    one, again, other = (fit(sample, seed=seed, **options) for seed in (1, 1, 2))
    assert (one.params == again.params).all() and one.llf == again.llf
    assert (one.params != other.params).all()


def test_the_answer_does_not_depend_on_the_number_of_threads(sample):
    result = fit(sample, rule=HIDDEN, noise=Independent(1.0), solver=QUICK)
    alone = result.engine.single_threaded()
    solve = {"rng": np.random.default_rng(0), "progress": False}
    one = QUICK.solve(result.problem, alone, **solve)
    two = QUICK.solve(result.problem, result.engine, **(solve | {"rng": np.random.default_rng(0)}))
    np.testing.assert_array_equal(one.free, two.free)


def test_large_data_starts_on_a_sample():
    sample = ss.simulators.gaussian(1_500, 2, 3, seed=2)
    options = {"rule": HIDDEN, "noise": Independent(1.0), "seed": 1}
    solver = MonteCarloNewton(mc_tol=0.3, sample=400, loglik_draws=64)
    result = fit(sample, solver=solver, **options)
    at_once = fit(sample, solver=QUICK, **options)
    exact = fit(sample, noise=Independent(1.0))
    assert result.converged and result.solution.n_passes < at_once.solution.n_passes
    assert (np.abs(result.params - exact.params) < DEVIATIONS * result.mc_error).all()


def test_correlated_noise_of_two_alternatives_meets_its_closed_form():
    covariance = np.array([[1.0, 0.6], [0.6, 1.5]])
    noise = KnownCovariance(covariance)
    x = np.random.default_rng(0).standard_normal(600)
    truth = {"a": {"Intercept": 0.2, "x": 0.8}, "b": {"Intercept": 0.0, "x": -0.5}}
    sample = ss.simulate(truth, {"x": x}, noise=noise, seed=1)
    result = fit(sample, noise=noise)
    assert result.converged and "correlated across alternatives" in result.solver_reason
    y, j = sample.data["outcome"].to_numpy(), (sample.data["chosen"] == "b").to_numpy().astype(int)
    scale, rho = np.sqrt(np.diag(covariance)), 0.6 / np.sqrt(1.5)

    def loglik(values):
        means = np.column_stack([values[0] + values[1] * x, values[2] + values[3] * x])
        a = (y[:, None] - means) / scale
        seen, other = a[np.arange(600), j], a[np.arange(600), 1 - j]
        tail = log_ndtr((other - rho * seen) / np.sqrt(1.0 - rho**2))
        density = -0.5 * seen**2 - np.log(scale[j]) - 0.5 * np.log(2 * np.pi)
        return float((density + tail).sum())

    values, step = result.values, 1e-4
    slope = np.array([loglik(values + step * e) - loglik(values - step * e) for e in np.eye(4)])
    newton = result.cov_params().to_numpy() @ (slope / (2 * step))
    assert (np.abs(newton) < DEVIATIONS * result.mc_error).all()
    assert abs(result.llf - loglik(values)) < DEVIATIONS * result.solution.loglik_error
    independent = fit(sample, noise=Independent({"a": 1.0, "b": np.sqrt(1.5)}))
    assert np.abs((independent.params - result.params) / result.bse).max() > 1.0


def test_robust_and_clustered_errors_are_those_of_the_exact_fit(sample):
    data = sample.data.assign(group=np.arange(500) % 50)
    for kind in ({"covariance": "robust"}, {"cluster": "group"}):
        options = {"noise": Independent(1.0), "chosen": "chosen", **kind}
        exact = ss.fit(sample.formula, data, **options)
        drawn = ss.fit(sample.formula, data, rule=HIDDEN, **options)
        np.testing.assert_allclose(drawn.bse, exact.bse, rtol=0.12)
        assert drawn.covariance.description.startswith(exact.covariance.description)


def test_a_bootstrap_of_draws_works(sample):
    bootstrap = ss.inference.Bootstrap(replications=12)
    options = {"rule": HIDDEN, "noise": Independent(1.0), "solver": QUICK}
    result = fit(sample, covariance=bootstrap, **options)
    exact = fit(sample, noise=Independent(1.0))
    ratio = result.bse / exact.bse
    # Twelve samples know a spread to about a fifth.
    assert 0.6 < ratio.mean() < 1.6


def interrupted_after(calls):
    """Return a rule whose function is interrupted once, after so many calls."""
    left = [calls]

    def choose(latent):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return latent.argmax(axis=1)

    return ConvexRule(choose)


def test_an_interrupt_returns_the_best_so_far_marked_not_converged(sample):
    counted = {"noise": Independent(1.0), "solver": MonteCarloNewton(mc_tol=0.01)}
    with pytest.warns(ConvergenceWarning, match="Interrupted after"):
        late = fit(sample, rule=interrupted_after(2_500), **counted)
    assert not late.converged and np.isfinite(late.bse).all()
    exact = fit(sample, noise=Independent(1.0))
    assert (np.abs(late.params - exact.params) < exact.bse).all()


def test_an_interrupt_before_the_first_estimate_has_no_standard_errors(sample):
    with pytest.warns(ConvergenceWarning, match="Interrupted after"):
        early = fit(sample, rule=interrupted_after(620), noise=Independent(1.0))
    assert not early.converged and early.bse.isna().all()
    assert "NOT CONVERGED. Interrupted after 0 passes" in " ".join(str(early.summary()).split())


def test_too_few_passes_are_said(sample):
    solver = MonteCarloNewton(mc_tol=0.01, max_passes=12, loglik_draws=64)
    with pytest.warns(ConvergenceWarning, match="max_passes"):
        result = fit(sample, rule=HIDDEN, noise=Independent(1.0), solver=solver)
    assert not result.converged


def test_any_sampler_will_do(sample):
    exact = fit(sample, noise=Independent(1.0))
    for rule, sampler in ((HIDDEN, EllipticalSlice()), (Maximum(), BoxExact(moments=False))):
        solver = MonteCarloNewton(mc_tol=0.3, sampler=sampler, loglik_draws=64)
        result = fit(sample, rule=rule, noise=Independent(1.0), solver=solver)
        assert result.converged
        assert (np.abs(result.params - exact.params) < DEVIATIONS * result.mc_error).all()


def test_options_that_are_none_are_refused():
    with pytest.raises(OptionError, match="share of the standard error"):
        MonteCarloNewton(mc_tol=0.0)
    with pytest.raises(OptionError, match="not a sampler"):
        MonteCarloNewton(sampler=EllipticalSlice)


@pytest.mark.parametrize("scale", ["each", "common"])
def test_the_truth_is_found_by_a_polyhedral_rule_with_unknown_scales(scale):
    rule = LinearArgmax({"a": {"a": 1, "b": 0.4}, "b": {"b": 1, "c": 0.4}, "c": {"c": 1, "a": 0.4}})
    sample = ss.simulators.gaussian(1_200, 2, 3, rule=rule, scales=[0.8] * 3, seed=3)
    solver = MonteCarloNewton(mc_tol=0.2, loglik_draws=64)
    result = fit(sample, rule=rule, noise=Independent(scale), solver=solver)
    assert result.converged
    truth = sample.params.to_dict() | {("(common)", "scale"): 0.8}
    z = [(value - truth[key]) / result.bse[key] for key, value in result.params.items()]
    assert np.abs(z).max() < 4.0 and np.sqrt(np.mean(np.square(z))) < 1.6
