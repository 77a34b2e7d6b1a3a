"""The likelihood is the probability of what was recorded, and its derivatives are exact."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from selfselect.kernels.joint import correlated_pair_atoms
from selfselect.problem.batch import Batch

INTEGRATED = 1e-6
"""What adaptive quadrature of a smooth density is asked for."""
DIFFERENCED = 1e-6
"""Central differences of a function of size one, in double precision."""


def natural_of(model, correlations, seed=1):
    rng = np.random.default_rng(seed)
    natural = 0.3 * rng.standard_normal(model.layout.n_natural)
    natural[model.layout.inverse_scale_positions] = rng.uniform(0.6, 1.4, len(model.at_t))
    natural[model.at_t] = np.arctanh(correlations[: len(model.at_t)])
    return natural


@pytest.fixture
def small(table, build):
    return build(table.iloc[:25])


@pytest.fixture(params=[(0.6, -0.5), (-0.9, 0.95), (0.0, 0.0)], ids=str)
def natural(small, request):
    return natural_of(small, request.param)


def integrated_loglik(model, reported):
    """Integrate the joint density of outcome and selection noise, row by row."""
    parameters = dict(zip(reported.labels, reported.values, strict=True))
    equations, rows, signs = model.problem.equations, model.engine.rows, model.signs
    gamma = [parameters["selection", term] for term in equations.selection.terms]
    index = model.design() @ gamma
    total = 0.0
    for i in np.flatnonzero(rows.chosen < 0):
        total += np.log(quad(norm.pdf, 0, np.inf, args=(signs[i] * index[i],), epsabs=1e-13)[0])
    for j, equation in enumerate(equations.each):
        label, x = equation.alternative, model.design(j)
        beta = [parameters[label, term] for term in equation.terms]
        scale, rho = parameters[label, "scale"], parameters[label, "correlation"]
        for i in np.flatnonzero(rows.chosen == j):
            noise = (rows.outcome[i] - x[i] @ beta) / scale

            def joint(u, noise=noise, scale=scale, rho=rho):
                # Outcome noise given that of the selection, which is the other way round.
                spread = np.sqrt(1 - rho**2)
                return norm.pdf(u) * norm.pdf((noise - rho * u) / spread) / (scale * spread)

            # Selected if u > -index; the density is nothing beyond nine standard deviations.
            low, high = (-index[i], 9.0) if signs[i] > 0 else (-9.0, -index[i])
            near = np.clip(rho * noise, low, high)
            pieces = [quad(joint, *ends, epsabs=1e-14, limit=200)[0]
                      for ends in ((low, near), (near, high))]  # fmt: skip
            total += np.log(sum(pieces))
    return total


def test_the_log_likelihood_is_the_integral_of_the_density(small, natural):
    found = small.evaluate(natural).loglik
    wanted = integrated_loglik(small, small.layout.report(natural))
    assert found == pytest.approx(wanted, abs=INTEGRATED)


def test_each_row_is_a_correlated_pair_of_outcome_and_index(small, natural):
    """The kernel of correlated noise gives the same, with the index an outcome of limit zero."""
    rows, signs = small.engine.rows, small.signs
    reported = small.layout.report(natural)
    parameters = dict(zip(reported.labels, reported.values, strict=True))
    equations = small.problem.equations
    index = small.design() @ [parameters["selection", term] for term in equations.selection.terms]
    total = norm.logcdf(-index[rows.chosen < 0]).sum()
    for j, equation in enumerate(equations.each):
        own = rows.chosen == j
        label, sign = equation.alternative, signs[own][0]
        scale, rho = parameters[label, "scale"], parameters[label, "correlation"]
        beta = [parameters[label, term] for term in equation.terms]
        noise = (rows.outcome[own] - small.design(j)[own] @ beta) / scale
        pair = np.column_stack([noise, sign * index[own]])
        side = np.ones(pair.shape, dtype=np.int8)
        first = np.zeros(len(pair), dtype=np.intp)
        terms = correlated_pair_atoms(pair, first, side, -sign * rho, curvature=False)
        total += (terms.loglik - np.log(scale)).sum()
    assert small.evaluate(natural).loglik == pytest.approx(total, rel=1e-12)


def test_the_score_is_the_slope_of_the_log_likelihood(small, natural):
    found = small.evaluate(natural)
    step = 1e-6
    for place in range(len(natural)):
        move = np.zeros(len(natural))
        move[place] = step
        up, down = (small.evaluate(natural + d) for d in (move, -move))
        slope = (up.loglik - down.loglik) / (2 * step)
        assert found.score[place] == pytest.approx(slope, rel=DIFFERENCED, abs=1e-5)
        curve = (up.score - down.score) / (2 * step)
        size = np.abs(found.hessian).max()
        np.testing.assert_allclose(found.hessian[place], curve, atol=DIFFERENCED * size)


def test_a_row_says_of_itself_what_it_adds_to_the_sum(table, build):
    model = build(table.iloc[:30])
    natural = natural_of(model, (0.4, -0.3))
    terms = model.problem.likelihood.rows(natural, model.engine.batch)
    unit = np.log(model.problem.units.outcome_unit)
    for i in range(30):
        alone = model.engine.batch.take(np.array([i]))
        found = model.problem.likelihood.evaluate(natural, alone, "none")
        observed = model.engine.rows.chosen[i] >= 0
        assert terms.loglik[i] - observed * unit == pytest.approx(found.loglik, rel=1e-10)
        np.testing.assert_allclose(terms.score[i], found.score, rtol=1e-9, atol=1e-10)
        assert not found.hessian.any()


def test_rows_scores_add_up_to_the_score_and_batches_to_the_whole(table, build):
    for weights in (None, "weight"):
        model = build(table, weights=weights)
        natural = natural_of(model, (0.4, -0.3))
        whole, batch = model.evaluate(natural), model.engine.batch
        rows = model.row_scores(natural)
        if batch.rows.weights is not None:
            rows *= batch.rows.weights[:, None]
        np.testing.assert_allclose(rows.sum(axis=0), whole.score, rtol=1e-10, atol=1e-9)
        likelihood = model.problem.likelihood
        parts = [likelihood.evaluate(natural, batch.take(slice(a, a + 90)), "exact")
                 for a in range(0, len(batch), 90)]  # fmt: skip
        added = sum(parts[1:], parts[0])
        assert added.loglik == pytest.approx(whole.loglik, rel=1e-12)
        np.testing.assert_allclose(added.score, whole.score, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(added.hessian, whole.hessian, rtol=1e-9, atol=1e-9)


def test_a_weight_is_a_number_of_rows(table, build):
    small = table.iloc[:60]
    repeated = small.loc[small.index.repeat(small["weight"].astype(int))]
    weighted, plain = build(small, weights="weight"), build(repeated)
    reported = weighted.layout.report(natural_of(weighted, (0.4, -0.3))).values
    a, b = (
        one.evaluate(one.layout.natural(one.layout.read(reported))).loglik
        for one in (weighted, plain)
    )
    assert a == pytest.approx(b, rel=1e-10)


def test_for_a_fixed_correlation_it_is_concave(small, natural):
    hessian = small.evaluate(natural).hessian
    moving = np.setdiff1d(np.arange(len(natural)), small.at_t)
    assert np.linalg.eigvalsh(hessian[np.ix_(moving, moving)]).max() < 0


def test_natural_and_reported_parameters_are_each_others_image(small, natural):
    reported = small.layout.report(natural)
    again = small.layout.natural(small.layout.read(reported.values))
    np.testing.assert_allclose(again, natural, rtol=1e-9, atol=1e-9)


def test_the_jacobian_is_the_slope_of_reported_parameters(small, natural):
    jacobian = small.layout.report(natural).jacobian
    step = 1e-6
    for place in range(len(natural)):
        move = np.zeros(len(natural))
        move[place] = step
        up, down = (small.layout.report(natural + d).values for d in (move, -move))
        np.testing.assert_allclose(
            jacobian[:, place], (up - down) / (2 * step), rtol=1e-6, atol=1e-7
        )


def test_far_tails_neither_overflow_nor_underflow(table, build):
    model = build(table)
    natural = natural_of(model, (0.999, -0.999))
    natural[-3:] *= 50
    found = model.evaluate(natural)
    assert np.isfinite(found.loglik)
    assert np.isfinite(found.score).all()
    assert np.isfinite(found.hessian).all()


def test_a_covariate_of_another_equation_that_is_missing_enters_no_sum(table, build):
    lacking = table.assign(w=table["w"].where(~table["works"]))
    whole, part = build(table), build(lacking)
    natural = natural_of(whole, (0.4, -0.3))
    assert np.isnan(part.engine.rows.covariates).any() == (len(whole.at_t) == 2)
    reported = whole.layout.report(natural).values
    found = part.evaluate(part.layout.natural(part.layout.read(reported)))
    assert found.loglik == pytest.approx(whole.evaluate(natural).loglik, rel=1e-12)
    assert np.isfinite(found.hessian).all()


def test_what_is_made_of_a_batch_once_is_that_of_its_equations_and_units(table, build):
    """Batches keep what was made of their rows; another problem must not read it."""
    moved = table.assign(x=3.0 * table["x"], wage=2.0 * table["wage"], y=2.0 * table["y"])
    one, other = build(table), build(moved)
    natural = natural_of(one, (0.4, -0.3))
    batch = one.engine.batch
    first = one.problem.likelihood.evaluate(natural, batch, "none").loglik
    mixed = other.problem.likelihood.evaluate(natural, batch, "none").loglik
    fresh = Batch(batch.rows, batch.observation)
    assert mixed == other.problem.likelihood.evaluate(natural, fresh, "none").loglik != first


def test_drawn_rows_are_what_the_equations_make_of_the_noise(table, build):
    """Each outcome has a noise of its own, and the last decides which outcome is recorded."""
    model = build(table)
    natural = natural_of(model, (0.6, -0.5))
    reported = model.layout.report(natural)
    parameters = dict(zip(reported.labels, reported.values, strict=True))
    equations, rng = model.problem.equations, np.random.default_rng(7)
    noise = rng.standard_normal((len(table), len(equations.each) + 1))
    drawn = model.problem.likelihood.draw(natural, model.engine.rows, noise, rng).record()
    index = model.design() @ [parameters["selection", term] for term in equations.selection.terms]
    ends = model.problem.rule.intervals(equations.alternatives)
    taken = np.zeros(len(table), dtype=bool)
    for j, equation in enumerate(equations.each):
        sign = 1.0 if ends[j][1] is None else -1.0
        own = sign * (index + noise[:, -1]) > 0
        np.testing.assert_array_equal(drawn.chosen == j, own)
        values = [parameters[equation.alternative, term] for term in equation.terms]
        outcome = model.design(j) @ values
        outcome += parameters[equation.alternative, "scale"] * noise[:, j]
        np.testing.assert_allclose(drawn.outcome[own], outcome[own], rtol=1e-9, atol=1e-9)
        taken |= own
    assert (drawn.chosen[~taken] == -1).all() and np.isnan(drawn.outcome[~taken]).all()
