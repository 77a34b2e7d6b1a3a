from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize

import selfselect as ss
from selfselect.errors import ConvergenceWarning, DataError, OptionError
from selfselect.likelihoods import evaluate
from selfselect.solvers import Newton

SAME_OPTIMUM = 1e-6
"""Newton stops within 1e-6 standard errors; standard errors here are below one."""

SAME_PLACE = 1e-10
"""Steps that only round differently end this close."""


def climb(result, start):
    """Maximise the exact log-likelihood by another hand."""
    layout = result.problem.layout

    def minus(free):
        h = layout.natural(free)[layout.inverse_scale_positions]
        if (h <= 0).any():
            return np.inf, np.zeros_like(free)
        found = result.engine.sum(partial(evaluate, result.problem, layout.natural(free)))
        return -found.loglik, -layout.pull_back_vector(found.score)

    return minimize(minus, start, jac=True, method="BFGS", options={"gtol": 1e-7})


def solve(result, **options):
    start = options.pop("start", None)
    return Newton(**options).solve(
        result.problem, result.engine, rng=np.random.default_rng(0), start=start
    )


def test_newton_reaches_the_optimum_that_bfgs_finds(world, rule_name, noise, with_known):
    result = world(rule_name, 300, known=with_known).fit(noise=noise, weights="w")
    assert result.converged
    found = climb(result, result.solution.free * 0.9)
    np.testing.assert_allclose(result.solution.free, found.x, atol=1e-5)
    assert result.llf >= -found.fun - 1e-8
    assert result.llf == pytest.approx(-found.fun, abs=1e-7)


@pytest.mark.parametrize(
    "formula",
    [
        "outcome ~ x1 + x2 - 1",
        "outcome ~ 1",
        {"a": "outcome ~ x1 - 1", "b": "outcome ~ 1", "c": "outcome ~ x1 + x2"},
        "outcome ~ x1 * x2 + np.exp(x3) + C(group % 3)",
    ],
)
def test_equations_of_any_shape_reach_the_optimum_that_bfgs_finds(world, formula):
    result = ss.fit(formula, world("max", 400).data, chosen="chosen")
    found = climb(result, result.solution.free * 0.9)
    assert result.converged
    np.testing.assert_allclose(result.solution.free, found.x, atol=1e-5)
    assert result.llf == pytest.approx(-found.fun, abs=1e-7)


def test_twenty_alternatives_are_no_harder():
    sample = ss.simulators.gaussian(4_000, 2, 20, seed=1)
    result = ss.fit(sample.formula, sample.data, chosen="chosen")
    found = climb(result, result.solution.free)
    assert result.converged
    assert result.llf == pytest.approx(-found.fun, abs=1e-6)


def test_every_start_leads_to_the_one_optimum(world, rule_name, noise):
    result = world(rule_name, 300).fit(noise=noise)
    layout = result.problem.layout
    at_h = np.unique(layout.position[layout.inverse_scale_positions])
    rng = np.random.default_rng(3)
    for h in (0.01, 1.0, 50.0):
        start = rng.normal(0, 10, layout.n_free)
        start[at_h[at_h >= 0]] = h
        again = solve(result, start=start)
        assert again.converged
        np.testing.assert_allclose(again.free, result.solution.free, atol=SAME_OPTIMUM)
        assert again.loglik == pytest.approx(result.llf, abs=1e-8)


def test_the_score_vanishes_at_the_solution(world, rule_name):
    result = world(rule_name, 400).fit()
    layout = result.problem.layout
    found = result.engine.sum(
        partial(evaluate, result.problem, layout.natural(result.solution.free))
    )
    errors = np.sqrt(np.diag(np.linalg.inv(result.solution.information)))
    assert np.abs(layout.pull_back_vector(found.score) * errors).max() < SAME_OPTIMUM
    assert found.loglik == pytest.approx(result.llf, abs=1e-9)
    np.testing.assert_allclose(
        -layout.pull_back_matrix(found.hessian), result.solution.information, rtol=1e-5, atol=1e-5
    )


def test_integer_weights_are_as_good_as_rows_repeated(world, rule_name):
    made = world(rule_name, 200)
    times = np.random.default_rng(1).integers(1, 4, 200)
    weighted = made.fit(weights=times.astype(float))
    repeated = made.fit(made.data.loc[made.data.index.repeat(times)])
    np.testing.assert_allclose(weighted.params, repeated.params, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(weighted.bse, repeated.bse, rtol=1e-6)
    assert weighted.llf == pytest.approx(repeated.llf, rel=1e-11)


def test_a_start_on_a_sample_ends_where_a_start_on_all_rows_ends(world):
    made = world("max", 5_000)
    short = made.fit(solver=Newton(sample=500))
    full = made.fit(solver=Newton(sample=10_000))
    assert set(short.trace["rows"]) == {500, 5_000} and set(full.trace["rows"]) == {5_000}
    np.testing.assert_allclose(short.params, full.params, atol=SAME_OPTIMUM)
    assert short.llf == pytest.approx(full.llf, abs=1e-7)


def test_a_sample_has_a_tenth_of_the_rows_where_that_spares_time(world):
    made = world("max", 12_000)
    tenth, fewer = made.fit(), made.fit(solver=Newton(sample=100))
    assert set(tenth.trace["rows"]) == {1_200, 12_000}
    np.testing.assert_allclose(tenth.params, fewer.params, atol=SAME_OPTIMUM)
    assert set(world("max", 5_000).fit().trace["rows"]) == {5_000}


def test_the_seed_of_the_sample_does_not_matter(world):
    made = world("min", 5_000)
    one, other = (made.fit(solver=Newton(sample=500), seed=seed) for seed in (1, 2))
    np.testing.assert_allclose(one.params, other.params, atol=SAME_OPTIMUM)


@pytest.mark.parametrize("scale", ["each", "common", 1.0])
@pytest.mark.parametrize("rule", ["max", "min"])
def test_a_dummy_where_the_alternative_is_never_seen_is_named(world, rule, scale):
    data = world(rule, 600).data
    data = data.assign(island=((data["chosen"] != "b") & (data["x2"] > 1.0)).astype(float))
    with pytest.warns(ConvergenceWarning, match="'island' of 'b'"):
        result = ss.fit(
            "outcome ~ x1 + island",
            data,
            chosen="chosen",
            rule=rule,
            noise=ss.noises.Independent(scale=scale),
        )
    assert not result.converged
    assert "No finite estimate" in result.status and "'island' of 'b'" in result.status


def test_a_dummy_seen_only_a_few_times_still_has_an_estimate(world):
    data = world("max", 600).data
    seen, unseen = (np.flatnonzero((data["chosen"] == "b") == kind)[:6] for kind in (True, False))
    island = np.zeros(600)
    island[np.concatenate([seen, unseen])] = 1.0
    result = ss.fit("outcome ~ x1 + island", data.assign(island=island), chosen="chosen")
    assert result.converged and np.isfinite(result.bse).all()


def test_too_few_steps_are_reported_not_hidden(world):
    with pytest.warns(ConvergenceWarning, match="Stopped after 1 steps"):
        result = world("max", 300).fit(solver=Newton(max_steps=1))
    assert not result.converged
    assert "standard errors from the optimum" in result.status


@pytest.mark.parametrize("scale", [1e-2, 1e-4, 1e-6])
def test_nearly_perfect_fits_are_found(scale):
    rng = np.random.default_rng(4)
    x = rng.normal(0, 1, (500, 2))
    truth = np.array([[1.0, 0.5, -0.3], [0.8, -0.7, 0.4]])
    latent = truth[:, 0] + x @ truth[:, 1:].T + scale * rng.normal(0, 1, (500, 2))
    chosen = latent.argmax(axis=1)
    table = {"y": latent.max(axis=1), "who": np.array(["a", "b"])[chosen]}
    table |= {"x1": x[:, 0], "x2": x[:, 1]}
    result = ss.fit("y ~ x1 + x2", table, chosen="who")
    assert result.converged
    np.testing.assert_allclose(result.scales, scale, rtol=0.2)
    estimates = np.array([result.params["a"].iloc[:3], result.params["b"].iloc[:3]])
    np.testing.assert_allclose(estimates, truth, atol=scale)


def test_a_perfect_fit_is_not_taken_for_an_estimate():
    rng = np.random.default_rng(5)
    x = rng.normal(0, 1, 200)
    latent = np.column_stack([1.0 + x, 0.5 - x])
    table = {"y": latent.max(axis=1), "who": latent.argmax(axis=1), "x": x}
    with pytest.warns(ConvergenceWarning):
        assert not ss.fit("y ~ x", table, chosen="who").converged


@pytest.mark.parametrize("outcome_unit", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("covariate_unit", [1e-9, 1e9])
def test_units_of_any_size_converge_alike(world, outcome_unit, covariate_unit):
    data = world("max", 400).data
    data = data.assign(
        outcome=outcome_unit * data["outcome"], x1=covariate_unit * (data["x1"] + 30.0)
    )
    result = ss.fit("outcome ~ x1 + x2", data, chosen="chosen")
    plain = ss.fit("outcome ~ x1 + x2", world("max", 400).data, chosen="chosen")
    assert result.converged
    np.testing.assert_allclose(
        result.params["a"]["x1"] * covariate_unit / outcome_unit, plain.params["a"]["x1"], rtol=1e-6
    )


@pytest.mark.parametrize(
    ("extra", "names"),
    [
        (lambda data: 2 * data["x1"] - data["x2"], "'x1', 'x2', 'extra'"),
        (lambda data: 0 * data["x1"] + 4.0, "'extra' of 'a' does not vary"),
        (lambda data: 0 * data["x1"], "'extra'"),
        (lambda data: 1e6 + data["x1"], "'x1', 'extra'"),
    ],
)
def test_collinear_covariates_are_named(world, extra, names):
    data = world("max", 300).data
    with pytest.raises(DataError, match=names):
        ss.fit("outcome ~ x1 + x2 + extra", data.assign(extra=extra(data)), chosen="chosen")


def test_collinearity_is_found_on_all_rows_where_the_sample_misses_it(world):
    data = world("max", 3_000).data.assign(rare=0.0)
    data.loc[[5, 800, 1_500, 2_900], "rare"] = [1.0, 2.0, -1.0, 0.5]
    formula = "outcome ~ x1 + rare"
    result = ss.fit(formula, data, chosen="chosen", solver=Newton(sample=100))
    full = ss.fit(formula, data, chosen="chosen")
    np.testing.assert_allclose(result.params, full.params, atol=SAME_OPTIMUM)


def test_the_trace_rises(world):
    trace = world("max", 400).fit().trace
    assert (np.diff(trace["loglik"]) > 0).all()
    assert trace["distance"].iloc[-1] < trace["distance"].iloc[0]


def test_a_start_next_to_the_optimum_converges_where_the_log_likelihood_is_zero():
    sample = ss.simulators.gaussian(30_000, 2, 3, seed=0)
    first = ss.fit(sample.formula, sample.data, chosen="chosen")
    # In these units terms of either sign cancel, and only their rounding is left.
    unit = np.exp(first.llf / first.nobs)
    data = sample.data.assign(outcome=unit * sample.data["outcome"])
    result = ss.fit(sample.formula, data, chosen="chosen")
    assert abs(result.llf) < 1e-6
    directions = np.linalg.cholesky(np.linalg.inv(result.solution.information)).T
    for direction in directions:
        for distance in (1.5e-6, 3e-6, 1e-5):
            again = solve(result, start=result.solution.free + distance * direction)
            assert again.converged and again.n_passes <= 3


@pytest.mark.parametrize("unit", [3.0, 1e6, 1e9])
def test_the_unit_of_the_weights_does_not_matter(unit):
    """Weights that are all the same are no weights: it stops at the same step and place."""
    data = ss.simulators.village(800, seed=1).data
    plain = ss.fit("income ~ height + weight", data, chosen="job")
    scaled = ss.fit(
        "income ~ height + weight", data, chosen="job", weights=np.full(800, unit),
        weights_kind="frequency",
    )  # fmt: skip
    np.testing.assert_allclose(scaled.params, plain.params, rtol=SAME_PLACE)
    assert scaled.status == plain.status
    np.testing.assert_allclose(scaled.trace["distance"], plain.trace["distance"], rtol=1e-3)
    assert scaled.llf == pytest.approx(unit * plain.llf, rel=SAME_PLACE)


@pytest.mark.parametrize("solver", [ss.solvers.Newton, ss.solvers.MaximumLikelihood, ss.solvers.EM])
@pytest.mark.parametrize("name", ["sample", "max_steps"])
@pytest.mark.parametrize("value", [0, -1, 2.5, None, True])
def test_counts_that_are_none_are_refused(solver, name, value):
    with pytest.raises(OptionError, match=rf"{name}={value!r}\) must be a whole number"):
        solver(**{name: value})
