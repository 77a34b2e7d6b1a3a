"""The likelihood of a selection model: concave, exact in the tails, its parameters carried over."""

from __future__ import annotations

import numpy as np
import pytest

from selfselect.problem.batch import Batch


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
