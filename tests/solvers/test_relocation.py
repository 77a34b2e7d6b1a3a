"""Moves out of a poor optimum: when they are made, and what they find."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import OptionError
from selfselect.noises import Independent, Mixture, Student
from selfselect.solvers import EM, MaximumLikelihood
from selfselect.solvers._search import Place, SearchSpace
from selfselect.solvers._soundness import relocate
from selfselect.solvers._start import gram_matrices

SAME = 0.01
"""Log-likelihoods this close are of one optimum."""

ROUNDING = 1e-9
"""Coordinates and coefficients agree up to rounding."""

FORMULA = "y ~ a + b + c"


def six_shifted(seed):
    """Return shifted covariates and six alternatives, of which some are hardly ever seen."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((2_000, 3)) + 0.5
    slopes = rng.standard_normal((6, 3))
    slopes *= 3.0 / np.linalg.norm(slopes, axis=1, keepdims=True)
    intercepts = 0.5 * rng.standard_normal(6)
    y = (x @ slopes.T + intercepts + 0.5 * rng.standard_normal((2_000, 6))).max(axis=1)
    truth = np.append(np.column_stack([intercepts, slopes]).ravel(), 0.5)
    return pd.DataFrame(x, columns=list("abc")).assign(y=y), truth


def test_a_better_optimum_beside_the_best_start_is_found_and_shown():
    data, truth = six_shifted(29)
    solver = MaximumLikelihood(starts=2)
    fit = ss.fit(FORMULA, data, alternatives=6, solver=solver, seed=1)
    reference = solver.solve(
        fit.problem, fit.engine_of_rows(), rng=np.random.default_rng(0),
        start=fit.problem.layout.read(truth),
    )  # fmt: skip
    assert fit.llf > reference.loglik - SAME
    added = fit.starts["name"] == "relocated"
    assert added.sum() >= 1
    assert not added[:2].any()
    # Without the move the answer would have been far below.
    assert fit.starts.loc[~added, "behind"].max() < -1.0
    assert f"1 of {len(fit.starts)} starts reached this optimum" in fit.status


@pytest.fixture(scope="module")
def three():
    sample = ss.simulators.gaussian(1_500, 3, 3, norm=2.5, seed=1)
    return ss.fit(sample.formula, sample.data, alternatives=3)


def test_nothing_is_moved_where_starts_agree(three):
    assert (three.starts["behind"] > -SAME).sum() > 4
    assert "relocated" not in set(three.starts["name"])


def test_a_move_from_a_place_with_a_wasted_alternative_finds_the_optimum(three):
    """One alternative is so low that it is never chosen; the other two make up for it."""
    engine = three.engine_of_rows()
    grams = gram_matrices(three.problem, engine)
    space = SearchSpace.build(three.problem, grams, weight=engine.weight_total, floor=0.01)
    poor = space.locate(three.solution.free)
    own = slice(len(space.naive[0]), 2 * len(space.naive[0]))
    poor[own] = space.naive[0]
    poor[own.start] -= 100.0  # The first coordinate moves with the intercept.
    solver = MaximumLikelihood()
    (begun,) = solver.climb_on_sample(space, engine, [Place(poor, -np.inf, 0)])
    assert begun.loglik < three.llf - 10.0
    found = relocate(
        space, engine, begun, np.random.default_rng(0),
        lambda places: solver.climb_on_sample(space, engine, places),
    )  # fmt: skip
    assert found.loglik == pytest.approx(three.llf, abs=SAME)
    assert found.n_evaluations > begun.n_evaluations


# every option that changes where parameters stand


def shifted(seed, n=400):
    """Return rows of three unnamed alternatives, their outcome with and without an offset."""
    rng = np.random.default_rng(seed)
    x, z, b = rng.normal(3.0, 1.0, n), rng.normal(size=n), rng.exponential(1.0, n)
    w = rng.normal(size=(3, 3)) * [1.0, 1.5, 1.5]
    latent = w[:, 0] + np.outer(x, w[:, 1]) + np.outer(z, w[:, 2]) + 0.7 * rng.normal(size=(n, 3))
    y = latent.max(axis=1)
    return pd.DataFrame({"x": x, "z": z, "b": b, "y": y, "with_b": y + b})


OPTIONS = {
    "offset": {"offset": "b"},
    "shared slope": {"shared": ["x"]},
    "shared constant": {"shared": ["Intercept"]},
    "all shared": {"shared": "all"},
    "shared and offset": {"shared": ["z"], "offset": "b"},
    "a scale each": {"shared": ["x"], "noise": Independent("each")},
    "known scales": {"shared": ["x"], "offset": "b", "noise": Independent(0.7)},
    "scales that move": {"shared": ["x"], "noise": Independent("~ z")},
    "estimated shape": {"shared": ["x"], "offset": "b", "noise": Mixture(2)},
    "Student": {"shared": ["x"], "noise": Student()},
    "EM": {"shared": ["x"], "solver": EM(starts=2)},
    "known costs": {"shared": ["x"], "cost": {"p": "b"}},
}


def fitted(data, options):
    """Fit three alternatives; costs need names, and covariates of their own to go with them."""
    y = "with_b" if "offset" in options else "y"
    if "cost" not in options:
        return ss.fit(f"{y} ~ x + z", data, alternatives=3, seed=0, **options)
    return ss.fit(
        {"p": f"{y} ~ x + z + b", "q": f"{y} ~ x + z", "r": f"{y} ~ x"}, data, seed=0, **options
    )


@pytest.mark.filterwarnings("ignore::selfselect.errors.ConvergenceWarning")
@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_an_unknown_index_is_fitted_under_every_option_that_changes_the_layout(options, seed):
    fit = fitted(shifted(seed), options)
    assert np.isfinite(fit.llf)
    assert np.isfinite(fit.params).all()


@pytest.mark.parametrize("scale", ["common", "each"])
@pytest.mark.parametrize("seed", [0, 3])
def test_an_offset_that_is_part_of_the_outcome_changes_nothing(seed, scale):
    data = shifted(seed)
    options = {"alternatives": 3, "noise": Independent(scale), "seed": 0}
    plain = ss.fit("y ~ x + z", data, **options)
    offset = ss.fit("with_b ~ x + z", data, offset="b", **options)
    assert offset.llf == pytest.approx(plain.llf, abs=SAME)
    pd.testing.assert_series_equal(offset.params, plain.params, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("shared", [["x"], ["z"], ["Intercept"]])
def test_what_is_shared_costs_nothing_that_more_starts_would_find(shared):
    data = shifted(0)
    few, many = (
        ss.fit("y ~ x + z", data, alternatives=3, shared=shared, seed=0, solver=solver)
        for solver in (None, MaximumLikelihood(starts=600))
    )
    assert few.llf == pytest.approx(many.llf, abs=SAME)


@pytest.mark.parametrize(
    "options", [{}, {"shared": ["x"]}, {"shared": ["Intercept"]}, {"offset": "b"}]
)
def test_an_equation_is_put_next_to_another_one_and_the_others_stay(options):
    fit = fitted(shifted(0), options)
    engine, layout = fit.engine_of_rows(), fit.problem.layout
    grams = gram_matrices(fit.problem, engine)
    space = SearchSpace.build(fit.problem, grams, weight=engine.weight_total, floor=0.01)
    before = space.locate(fit.solution.free)
    after = space.next_to(before, 2, 0, 1e-12, np.random.default_rng(0))
    was, now = (layout.report(space.free(place)).values for place in (before, after))
    was, now = (np.array(layout.coefficients_of(values)) for values in (was, now))
    np.testing.assert_allclose(now[:2], was[:2], rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(now[2], now[0], rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("options", [{}, {"shared": ["x"]}, {"offset": "b"}])
def test_given_coefficients_are_the_place_a_search_starts_from(options):
    data = shifted(0)
    fit = fitted(data, options)
    layout = fit.problem.layout
    estimates = [
        one[: len(equation.estimated)]
        for one, equation in zip(
            layout.coefficients_of(fit.values), fit.problem.equations.each, strict=True
        )
    ]
    again = fitted(data, {**options, "solver": MaximumLikelihood(starts=1, start=estimates)})
    assert again.llf == pytest.approx(fit.llf, abs=SAME)


def test_an_offset_has_no_coefficient_to_start_from():
    solver = MaximumLikelihood(start=[[0.0, 1.0, 1.0, 1.0]] * 3)
    with pytest.raises(OptionError, match=r"3, 3, 3, the intercept first .* none for an offset"):
        fitted(shifted(0), {"offset": "b", "solver": solver})
