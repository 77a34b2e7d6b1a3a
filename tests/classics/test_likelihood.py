"""The likelihood is the probability of what was seen, and its derivatives are exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from selfselect.classics.likelihood import evaluate, row_scores
from selfselect.classics.parameters import Layout

INTEGRATED = 1e-6
"""What adaptive quadrature of a smooth density is asked for."""
DIFFERENCED = 1e-6
"""Central differences of a function of size one, in double precision."""


def natural_of(layout, correlations, seed=1):
    rng = np.random.default_rng(seed)
    natural = 0.3 * rng.standard_normal(layout.n_natural)
    for equation, rho in zip(layout.design.equations, correlations, strict=False):
        natural[layout.t_of(equation) - 1] = rng.uniform(0.6, 1.4)
        natural[layout.t_of(equation)] = np.arctanh(rho)
    return natural


@pytest.fixture
def small(table, build):
    return build(table.iloc[:25])


@pytest.fixture(params=[(0.6, -0.5), (-0.9, 0.95), (0.0, 0.0)], ids=str)
def natural(small, request):
    return natural_of(Layout(small), request.param)


def integrated_loglik(design, reported, layout):
    """Integrate the joint density of outcome and selection noise, row by row."""
    parameters = dict(zip(layout.labels, reported, strict=True))
    index = design.selection.matrix @ [
        parameters["selection", term] for term in design.selection.terms
    ]
    sign = design.sign
    total = 0.0
    for i in design.silent:
        total += np.log(quad(norm.pdf, 0, np.inf, args=(sign[i] * index[i],), epsabs=1e-13)[0])
    for equation in design.equations:
        beta = [parameters[equation.label, term] for term in equation.side.terms]
        scale = parameters[equation.label, "scale"]
        rho = parameters[equation.label, "correlation"]
        for x, y, i in zip(equation.side.matrix, equation.outcome, equation.rows, strict=True):
            noise = (y - x @ beta) / scale

            def joint(u, noise=noise, scale=scale, rho=rho):
                # Outcome noise given that of the selection, which is the other way round.
                spread = np.sqrt(1 - rho**2)
                return norm.pdf(u) * norm.pdf((noise - rho * u) / spread) / (scale * spread)

            # Selected if u > -index; the density is nothing beyond nine standard deviations.
            low, high = (-index[i], 9.0) if equation.sign > 0 else (-9.0, -index[i])
            near = np.clip(rho * noise, low, high)
            pieces = [quad(joint, *ends, epsabs=1e-14, limit=200)[0]
                      for ends in ((low, near), (near, high))]  # fmt: skip
            total += np.log(sum(pieces))
    return total


def test_the_log_likelihood_is_the_integral_of_the_density(small, natural):
    layout = Layout(small)
    reported = layout.report(natural).values
    found = evaluate(small, layout, natural).loglik
    assert found == pytest.approx(integrated_loglik(small, reported, layout), abs=INTEGRATED)


def test_the_score_is_the_slope_of_the_log_likelihood(small, natural):
    layout = Layout(small)
    found = evaluate(small, layout, natural)
    step = 1e-6
    for place in range(layout.n_natural):
        move = np.zeros(layout.n_natural)
        move[place] = step
        up, down = (evaluate(small, layout, natural + d) for d in (move, -move))
        slope = (up.loglik - down.loglik) / (2 * step)
        assert found.score[place] == pytest.approx(slope, rel=DIFFERENCED, abs=1e-5)
        curve = (up.score - down.score) / (2 * step)
        size = np.abs(found.hessian).max()
        np.testing.assert_allclose(found.hessian[place], curve, atol=DIFFERENCED * size)


def test_a_rows_score_is_the_slope_of_its_own_log_likelihood(table, build):
    design = build(table.iloc[:30])
    layout = Layout(design)
    natural = natural_of(layout, (0.4, -0.3))
    found = row_scores(design, layout, natural)
    step = 1e-6
    for i in range(30):
        alone = only_row(design, i)
        for place, move in enumerate(step * np.eye(layout.n_natural)):
            up, down = (evaluate(alone, layout, natural + d).loglik for d in (move, -move))
            slope = (up - down) / (2 * step)
            assert found[i, place] == pytest.approx(slope, rel=DIFFERENCED, abs=1e-6)


def only_row(design, i):
    """Return a design in which one row alone counts, in the units of all."""
    weights = (np.arange(len(design.positive)) == i).astype(float)
    equations = tuple(replace(one, weights=weights[one.rows]) for one in design.equations)
    for one, whole in zip(equations, design.equations, strict=True):
        one.__dict__.update(naive=whole.naive, unit=whole.unit)
    return replace(design, weights=weights, equations=equations)


def test_rows_scores_add_up_to_the_score(table, build):
    for weights in (None, "weight"):
        design = build(table, weights=weights)
        layout = Layout(design)
        natural = natural_of(layout, (0.4, -0.3))
        rows = row_scores(design, layout, natural)
        np.testing.assert_allclose(
            rows.sum(axis=0), evaluate(design, layout, natural).score, rtol=1e-10, atol=1e-9
        )


def test_a_weight_is_a_number_of_rows(table, build):
    small = table.iloc[:60]
    repeated = small.loc[small.index.repeat(small["weight"].astype(int))]
    weighted, plain = build(small, weights="weight"), build(repeated)
    layouts = Layout(weighted), Layout(plain)
    reported = layouts[0].report(natural_of(layouts[0], (0.4, -0.3))).values
    a, b = (
        evaluate(design, layout, layout.natural(reported)).loglik
        for design, layout in zip((weighted, plain), layouts, strict=True)
    )
    assert a == pytest.approx(b, rel=1e-10)


def test_for_a_fixed_correlation_it_is_concave(small, natural):
    layout = Layout(small)
    hessian = evaluate(small, layout, natural).hessian
    moving = [i for i in range(layout.n_natural)
              if i not in {layout.t_of(equation) for equation in small.equations}]  # fmt: skip
    assert np.linalg.eigvalsh(hessian[np.ix_(moving, moving)]).max() < 0


def test_natural_and_reported_parameters_are_each_others_image(small, natural):
    layout = Layout(small)
    reported = layout.report(natural)
    np.testing.assert_allclose(layout.natural(reported.values), natural, rtol=1e-9, atol=1e-9)


def test_the_jacobian_is_the_slope_of_reported_parameters(small, natural):
    layout = Layout(small)
    jacobian = layout.report(natural).jacobian
    step = 1e-6
    for place in range(layout.n_natural):
        move = np.zeros(layout.n_natural)
        move[place] = step
        up, down = (layout.report(natural + d).values for d in (move, -move))
        np.testing.assert_allclose(
            jacobian[:, place], (up - down) / (2 * step), rtol=1e-6, atol=1e-7
        )


def test_far_tails_neither_overflow_nor_underflow(table, build):
    design = build(table)
    layout = Layout(design)
    natural = natural_of(layout, (0.999, -0.999))
    natural[layout.gamma] *= 50
    found = evaluate(design, layout, natural)
    assert np.isfinite(found.loglik)
    assert np.isfinite(found.score).all()
    assert np.isfinite(found.hessian).all()
