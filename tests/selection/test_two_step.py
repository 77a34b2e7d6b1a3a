"""Two steps are a probit and least squares, with errors that know the first was estimated."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

import selfselect as ss
from selfselect.solvers.selection_search import fit_independent, selection_places

CLOSE = 1e-6
"""BFGS on a smooth concave function, started at the answer's neighbourhood."""
EXACT = 1e-8


def fit_of(table, model, **options):
    if model == "sample selection":
        return ss.sample_selection("wage ~ x", "works ~ x + z", table, method="two-step", **options)
    formulas = {"in": "y ~ x", "out": "y ~ x + w"}
    return ss.switching(formulas, "chosen ~ x + z", table, method="two-step", **options)


@pytest.fixture(params=["sample selection", "switching"])
def model(request):
    return request.param


def test_the_first_step_is_the_probit_and_least_squares(table, build):
    model = build(table)
    found = fit_independent(model.problem, model.engine)
    z, sign = model.design(), model.signs
    other = minimize(lambda g: -norm.logcdf(sign * (z @ g)).sum(), np.zeros(3), tol=1e-10)
    reported = model.layout.report(found.free)
    np.testing.assert_allclose(reported.values[-3:], other.x, atol=1e-4)
    total = -other.fun
    for j in range(len(model.at_t)):
        own = model.engine.rows.chosen == j
        x, y = model.design(j)[own], model.engine.rows.outcome[own]
        left_over = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
        total += norm.logpdf(left_over, scale=np.sqrt(np.mean(left_over**2))).sum()
    assert found.loglik == pytest.approx(total, rel=1e-9)
    assert not found.free[model.at_t].any()
    assert list(selection_places(model.problem)) == list(
        range(len(found.free) - 3, len(found.free))
    )


def parts_of(fit, posed):
    """Yield by alternative its parameters, rows, signs, covariates and outcomes."""
    for j, label in enumerate(fit.problem.equations.alternatives):
        own = np.flatnonzero(posed.engine.rows.chosen == j)
        yield (
            label,
            own,
            posed.signs[own][0],
            posed.design(j)[own],
            posed.engine.rows.outcome[own],
        )


def test_the_second_step_is_least_squares_on_the_mills_ratio(table, model, model_of):
    fit = fit_of(table, model)
    posed = model_of(fit)
    index = posed.design() @ fit.params.loc["selection"]
    for label, rows, sign, x, outcome in parts_of(fit, posed):
        m = sign * index[rows]
        ratio = sign * norm.pdf(m) / norm.cdf(m)
        regressors = np.column_stack([x, ratio])
        b, *_ = np.linalg.lstsq(regressors, outcome, rcond=None)
        own = fit.params.loc[label]
        np.testing.assert_allclose(own.iloc[: len(b)], b, rtol=EXACT)
        left_over = outcome - regressors @ b
        delta = np.abs(ratio) * (np.abs(ratio) + m)
        scale = np.sqrt(np.mean(left_over**2) + b[-1] ** 2 * delta.mean())
        assert own["scale"] == pytest.approx(scale, rel=EXACT)
        assert own["correlation"] == pytest.approx(b[-1] / scale, rel=EXACT)


def test_the_covariance_is_heckmans_formula(table, model, model_of):
    """By the textbook: s2 A (X'(I - r2 D)X + Q) A with Q = r2 X'D Z V Z'D X (Greene, ch. 19)."""
    fit = fit_of(table, model)
    posed = model_of(fit)
    z = posed.design()
    gamma = fit.params.loc["selection"].to_numpy()
    index = z @ gamma
    m = posed.signs * index
    ratio = norm.pdf(m) / norm.cdf(m)
    first = np.linalg.inv(z.T @ (z * (ratio * (ratio + m))[:, None]))
    covariance = fit.cov_params()
    np.testing.assert_allclose(covariance.loc["selection", "selection"], first, rtol=CLOSE)
    for label, rows, sign, own_x, _ in parts_of(fit, posed):
        own = fit.params.loc[label]
        scale, rho = own["scale"], own["correlation"]
        lam = ratio[rows]
        delta = lam * (lam + m[rows])
        x = np.column_stack([own_x, sign * lam])
        a = np.linalg.inv(x.T @ x)
        f = x.T @ (z[rows] * delta[:, None])
        q = rho**2 * f @ first @ f.T
        wanted = scale**2 * a @ (x.T @ (x * (1 - rho**2 * delta)[:, None]) + q) @ a
        size = len(wanted)
        found = covariance.loc[label, label].to_numpy()[:size, :size]
        np.testing.assert_allclose(found, wanted, rtol=CLOSE)


def test_the_robust_covariance_is_that_of_the_stacked_equations(table, model, model_of):
    """The sandwich of all estimating equations at once, its bread by finite differences."""
    fit = fit_of(table, model, covariance="robust")
    posed = model_of(fit)
    z, sign = posed.design(), posed.signs
    sides = list(parts_of(fit, posed))
    kept = [i for i, (_, term) in enumerate(fit.reported.labels)
            if term not in ("scale", "correlation")]  # fmt: skip

    def equations(theta):
        gamma = theta[-z.shape[1] :]
        m = sign * (z @ gamma)
        lam = norm.pdf(m) / norm.cdf(m)
        parts, place = [], 0
        for _, rows, own_sign, own_x, outcome in sides:
            x = np.column_stack([own_x, own_sign * lam[rows]])
            b = theta[place : place + x.shape[1]]
            place += x.shape[1]
            part = np.zeros((len(z), x.shape[1]))
            part[rows] = x * (outcome - x @ b)[:, None]
            parts.append(part)
        return np.hstack([*parts, z * (sign * lam)[:, None]])

    theta = fit.values[kept]
    step = 1e-6
    bread = np.column_stack(
        [
            (equations(theta + d).sum(axis=0) - equations(theta - d).sum(axis=0)) / (2 * step)
            for d in step * np.eye(len(theta))
        ]
    )
    rows = equations(theta)
    assert np.abs(rows.sum(axis=0)).max() < 1e-6
    n = len(rows)
    inverse = np.linalg.inv(bread)
    wanted = inverse @ (rows.T @ rows * n / (n - 1)) @ inverse.T
    found = fit.covariance.matrix[np.ix_(kept, kept)]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-10)


def test_clusters_of_one_row_are_rows(table, model):
    robust = fit_of(table, model, covariance="robust")
    clustered = fit_of(table, model, cluster=np.arange(len(table)))
    np.testing.assert_allclose(clustered.bse, robust.bse, rtol=EXACT)


def test_a_weight_is_a_number_of_rows(table, model):
    repeated = table.loc[table.index.repeat(table["weight"].astype(int))]
    weighted, plain = fit_of(table, model, weights="weight"), fit_of(repeated, model)
    np.testing.assert_allclose(weighted.params, plain.params, rtol=1e-7)
    np.testing.assert_allclose(weighted.bse, plain.bse, rtol=1e-7)


def test_an_outcome_that_covariates_nearly_explain_is_the_same_model(table, model):
    """All but 1e-9 of its variance is explained; least squares do not mind."""
    small = 3e-5
    outcomes = {name: 3.0 * table["x"] + small * table[name] for name in ("y", "wage")}
    shrunk = table.assign(**outcomes)
    plain, found = fit_of(table, model).params, fit_of(shrunk, model).params
    of_outcome = ~plain.index.isin(["selection"], level=0)
    terms = plain.index.get_level_values(1)
    wanted = plain.where(~of_outcome | (terms == "correlation"), small * plain)
    wanted += 3.0 * (of_outcome & (terms == "x"))
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_what_has_no_standard_error_says_so(table, model):
    fit = fit_of(table, model)
    assert fit.bse.xs("scale", level="term").isna().all()
    assert fit.bse.xs("correlation", level="term").isna().all()
    assert np.isfinite(fit.bse.xs("mills ratio", level="term")).all()
    assert np.isnan([fit.llf, fit.aic, fit.bic]).all()
    assert "no standard errors of scales and correlations" in " ".join(str(fit.summary()).split())


def test_both_methods_agree_in_large_samples(simulate, model):
    table = simulate(20_000, seed=1)
    steps = fit_of(table, model)
    options = {"table": table, "model": model}
    best = fit_by_likelihood(**options)
    common = best.params.index
    gap = (steps.params[common] - best.params) / best.bse
    # The difference of an efficient and another estimator is as wide as the loss of efficiency.
    assert np.abs(gap).max() < 6
    assert np.abs(steps.params[common] - best.params).max() < 0.15


def fit_by_likelihood(table, model):
    if model == "sample selection":
        return ss.sample_selection("wage ~ x", "works ~ x + z", table)
    return ss.switching({"in": "y ~ x", "out": "y ~ x + w"}, "chosen ~ x + z", table)


def test_an_impossible_correlation_is_named(simulate):
    for seed in range(40):
        table = simulate(60, seed=seed)
        fit = ss.sample_selection("wage ~ x", "works ~ x", table, method="two-step")
        if abs(fit.correlations["outcome"]) > 1:
            assert "IMPOSSIBLE CORRELATION" in str(fit.summary())
            assert np.isfinite(fit.bse["outcome", "x"])
            return
    pytest.fail("no sample of forty had an implied correlation beyond one")
