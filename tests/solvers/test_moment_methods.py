"""The paper's algorithms and the closed form: where they work, and where they are refused."""

from __future__ import annotations

import warnings
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

import selfselect as ss
from selfselect.errors import ConvergenceWarning, DataError, OptionError, UnsupportedError
from selfselect.inference import Bootstrap
from selfselect.noises import Independent
from selfselect.solvers import MinVariance, NetSearch, TwoModels
from selfselect.solvers.paper.base import matched_distance, measure_normality

TWO = np.array([[2.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]])
THREE = np.array([[3.0, 0, 0, 0], [0, 3.0, 0, 0], [0, 0, 3.0, 0]])
FORMULA = "y ~ x0 + x1 + x2 + x3 - 1"


def draw(truth, n_rows, seed, side=1.0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n_rows, truth.shape[1]))
    latent = side * (x @ truth.T) + rng.standard_normal((n_rows, len(truth)))
    y = latent.max(axis=1) if side > 0 else latent.min(axis=1)
    return pd.DataFrame(x, columns=[f"x{i}" for i in range(truth.shape[1])]).assign(y=y)


def fit(data, truth, solver, **options):
    options = {"alternatives": len(truth), "noise": Independent(1.0)} | options
    with warnings.catch_warnings():
        # Covers and nets are coarse: with many rows the likelihood's optimum is far from them.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return ss.fit(FORMULA, data, solver=solver, **options)


def error(result, truth, side=1.0):
    """Return the largest distance of a coefficient vector under the best matching."""
    found = np.array([result.params[j + 1].iloc[:4] for j in range(len(truth))])
    return min(
        np.linalg.norm(found - side * truth[list(order)], axis=1).max()
        for order in permutations(range(len(truth)))
    )


@pytest.mark.parametrize("n_rows", [1_500, 24_000])
def test_a_method_close_to_the_optimum_of_the_likelihood_has_converged(n_rows):
    found = fit(draw(TWO, n_rows, 0), TWO, TwoModels())
    assert found.converged
    assert "standard errors away" in str(found.status)


def test_whether_it_converged_does_not_depend_on_the_unit_of_weights():
    data, weights = draw(TWO, 3_000, 2), np.ones(3_000)
    one, many = (
        fit(data, TWO, TwoModels(), weights=unit * weights, weights_kind="probability")
        for unit in (1.0, 1e4)
    )
    assert one.converged and many.converged
    assert str(one.status) == str(many.status)


def test_a_method_far_from_the_optimum_of_the_likelihood_has_not_converged():
    data, options = draw(THREE, 200_000, 0), {"alternatives": 3, "noise": Independent(1.0)}
    with pytest.warns(ConvergenceWarning, match="the likelihood does not agree: "):
        found = ss.fit(FORMULA, data, solver=NetSearch(), **options)
    assert error(found, THREE) > 0.1
    assert found.solution.ending.status is ss.solvers.Status.FROM_MOMENTS_TOO_FAR


METHODS = {
    "closed form": TwoModels(),
    "exclusion": MinVariance(),
    "reflection": MinVariance(second="reflection"),
    "exclusion, residual": MinVariance(subspace="residual"),
    "reflection, residual": MinVariance(second="reflection", subspace="residual"),
    "known separation": MinVariance(separation=2.0),
}


@pytest.mark.parametrize("name", METHODS)
def test_two_models_are_found_and_the_error_shrinks_with_the_rows(name):
    few, many = (
        np.mean([error(fit(draw(TWO, n, seed), TWO, METHODS[name]), TWO) for seed in range(3)])
        for n in (1_500, 24_000)
    )
    # The error falls as the root of the rows, to a quarter.
    assert many < 0.5 * few
    assert many < 0.12


def test_the_mesh_of_a_cover_is_no_floor_of_the_error():
    data = draw(TWO, 300_000, 0)
    fine, coarse = (fit(data, TWO, MinVariance(cover=cover)) for cover in (0.05, 0.1))
    assert error(fine, TWO) < 0.02
    assert error(coarse, TWO) == pytest.approx(error(fine, TWO), rel=1e-3)


def test_the_closed_form_is_as_accurate_as_theory_says_and_likelihood_better():
    errors = {"moments": [], "likelihood": []}
    for seed in range(4):
        data = draw(TWO, 8_000, seed)
        errors["moments"].append(error(fit(data, TWO, TwoModels()), TWO))
        best = ss.solvers.MaximumLikelihood(starts=1, start=TwoModels())
        errors["likelihood"].append(error(fit(data, TWO, best), TWO))
    assert np.mean(errors["moments"]) < 0.12
    assert np.mean(errors["likelihood"]) < 0.8 * np.mean(errors["moments"])


@pytest.mark.parametrize("subspace", ["paper", "residual"])
def test_a_net_finds_well_separated_directions(subspace):
    """Its error does not vanish at a fixed order and width; it is of degrees, not of signs."""
    long = 1.5 * TWO
    for seed in range(2):
        found = fit(draw(long, 30_000, seed), long, NetSearch(subspace=subspace))
        assert error(found, long) < 0.6


def test_a_net_finds_three_with_many_rows():
    assert error(fit(draw(THREE, 200_000, 0), THREE, NetSearch()), THREE) < 0.9


def test_a_net_is_a_start_for_the_likelihood():
    long = 1.5 * TWO
    data = draw(long, 30_000, 0)
    solver = ss.solvers.MaximumLikelihood(starts=1, start=NetSearch())
    assert error(fit(data, long, solver), long) < 0.05


@pytest.mark.parametrize("solver", [TwoModels(), MinVariance(), NetSearch()], ids=repr)
def test_the_smallest_is_found_like_the_largest(solver):
    long = 1.5 * TWO
    largest = draw(long, 10_000, 1)
    smallest = largest.assign(y=-largest["y"])
    one = fit(largest, long, solver)
    other = fit(smallest, long, solver, rule="min")
    np.testing.assert_allclose(
        np.sort(other.params.to_numpy()), np.sort(-one.params.to_numpy()), atol=1e-8
    )


def test_the_closed_form_estimates_scales_too():
    data = draw(TWO, 8_000, 2)
    for scale in ("common", "each"):
        found = fit(data, TWO, TwoModels(), noise=Independent(scale))
        np.testing.assert_allclose(found.scales, 1.0, atol=0.1)


def test_weights_count_rows():
    data = draw(1.5 * TWO, 6_000, 3)
    weights = 1 + np.arange(6_000) % 3
    again = data.loc[data.index.repeat(weights)]
    for solver in (TwoModels(), MinVariance()):
        weighted = fit(data, TWO, solver, weights=weights)
        np.testing.assert_allclose(weighted.params, fit(again, TWO, solver).params, atol=1e-6)


def test_a_net_listens_to_weights():
    """Rows of another model that hardly count must not be found."""
    long = 1.5 * TWO
    turned = long[:, ::-1]
    data = pd.concat([draw(long, 20_000, 1), draw(turned, 20_000, 2)], ignore_index=True)
    weights = np.repeat([1.0, 1e-9], 20_000)
    assert (
        error(fit(data, long, NetSearch(), weights=weights, weights_kind="probability"), long) < 0.6
    )


def test_boosting_keeps_a_run_that_others_agree_with():
    data = draw(TWO, 10_000, 4)
    wild = data.copy()
    wild.loc[:20, "y"] += 300.0
    boosted = fit(wild, TWO, TwoModels(boost=41), seed=1)
    plain = fit(wild, TWO, TwoModels())
    assert error(boosted, TWO) < 0.6 < error(plain, TWO)
    # A single run is not split, and more of them are.
    assert error(fit(data, TWO, TwoModels(boost=5)), TWO) < 0.3
    with pytest.raises(OptionError, match="boost=0 is not possible"):
        fit(data, TWO, TwoModels(boost=0))


# what they do not give


@pytest.mark.parametrize("solver", [TwoModels(), MinVariance(), NetSearch()], ids=repr)
def test_there_are_no_standard_errors_and_the_summary_says_why(solver):
    result = fit(draw(1.5 * TWO, 10_000, 1), TWO, solver)
    assert result.bse.isna().all()
    said = " ".join(str(result.summary()).split())
    name = type(solver).__name__
    assert f"NO STANDARD ERRORS: {name} does not maximise the likelihood" in said
    assert "covariance='bootstrap'" in said and "singular" not in said
    assert "not by maximum likelihood" in said
    assert not result.independence_test().possible
    assert str(result.diagnose())


def test_the_bootstrap_gives_them():
    """Four standard errors from the truth, in one sample; and no swapped alternatives among it."""
    result = fit(draw(TWO, 2_000, 5), TWO, TwoModels(), covariance=Bootstrap(60), seed=1)
    assert (result.bse < 0.2).all() and (result.bse > 0.01).all()
    assert "NO STANDARD ERRORS" not in str(result.summary())
    found = np.array([result.params[j] for j in (1, 2)])
    truth = TWO if found[0, 0] > 1 else TWO[::-1]
    spread = np.array([result.bse[j] for j in (1, 2)])
    assert (np.abs(found - truth) < 4 * spread).all()


# where they are refused


@pytest.mark.parametrize("solver", [TwoModels(), MinVariance(), NetSearch()], ids=repr)
def test_what_the_moments_say_nothing_about_is_refused(solver):
    data = draw(TWO, 500, 1).assign(open=1)
    name = type(solver).__name__
    options = {"solver": solver, "noise": Independent(1.0)}
    with pytest.raises(UnsupportedError, match=f"{name} needs equations without an intercept"):
        ss.fit("y ~ x0 + x1", data, alternatives=2, **options)
    with pytest.raises(UnsupportedError, match=f"{name} needs the same covariates"):
        ss.fit({"a": "y ~ x0 - 1", "b": "y ~ x1 - 1"}, data, **options)
    with pytest.raises(UnsupportedError, match=f"{name} needs every alternative to be available"):
        ss.fit("y ~ x0 + x1 - 1", data, alternatives=2, available={1: "open"}, **options)


@pytest.mark.parametrize("solver", [TwoModels(), MinVariance()], ids=repr)
def test_three_alternatives_are_too_many_for_methods_of_two(solver):
    with pytest.raises(UnsupportedError, match=r"is for two alternatives, not 3\. Use NetSearch"):
        fit(draw(THREE, 500, 1), THREE, solver)


@pytest.mark.parametrize("solver", [MinVariance(), NetSearch()], ids=repr)
@pytest.mark.parametrize("scale", ["common", "each", [1.0, 2.0]])
def test_an_unknown_scale_is_refused_where_the_method_needs_it(solver, scale):
    with pytest.raises(UnsupportedError, match="needs a known noise scale, the same for"):
        fit(draw(TWO, 500, 1), TWO, solver, noise=Independent(scale))


def test_a_net_that_finds_too_little_says_so():
    close = np.array([[1.0, 0.0, 0.0, 0.0], [1.05, 0.0, 0.0, 0.0], [1.1, 0.0, 0.0, 0.0]])
    with pytest.raises(DataError, match=r"NetSearch separated only \d of 3 alternatives"):
        fit(draw(close, 2_000, 1), close, NetSearch(separation=3.0))
    with pytest.raises(OptionError, match="order=3 must be an even number"):
        NetSearch(order=3)


CENTRED = {
    "shifted": lambda rng, shape: rng.standard_normal(shape) + 0.5,
    "skewed": lambda rng, shape: rng.exponential(size=shape) - 1.0,
    "heavy": lambda rng, shape: rng.standard_t(5, size=shape),
    "light": lambda rng, shape: rng.uniform(-2.0, 2.0, size=shape),
    "binary": lambda rng, shape: rng.choice([-1.0, 1.0], size=shape),
    "together": lambda rng, shape: (
        rng.standard_normal(shape) * np.exp(0.5 * rng.standard_normal((shape[0], 1)))
    ),
}


@pytest.mark.parametrize("kind", CENTRED)
@pytest.mark.parametrize("solver", [TwoModels(), MinVariance(), NetSearch()], ids=repr)
def test_covariates_that_are_not_centred_normal_are_refused(kind, solver):
    rng = np.random.default_rng(1)
    x = CENTRED[kind](rng, (5_000, 4))
    latent = x @ TWO.T + rng.standard_normal((5_000, 2))
    data = pd.DataFrame(x, columns=[f"x{i}" for i in range(4)]).assign(y=latent.max(axis=1))
    with pytest.raises(UnsupportedError, match="These are not: rejected"):
        fit(data, TWO, solver)


def test_as_a_start_of_the_likelihood_a_method_may_be_wrong():
    rng = np.random.default_rng(1)
    x = rng.exponential(size=(2_000, 4)) - 1.0
    latent = x @ TWO.T + rng.standard_normal((2_000, 2))
    data = pd.DataFrame(x, columns=[f"x{i}" for i in range(4)]).assign(y=latent.max(axis=1))
    solver = ss.solvers.MaximumLikelihood(starts=4, start=TwoModels())
    assert error(fit(data, TWO, solver), TWO) < 0.3


def test_normal_covariates_of_any_covariance_are_seldom_refused():
    """At a level of one over the rows, and never more than a hundredth."""
    refused = 0
    for seed in range(200):
        rng = np.random.default_rng([7, seed])
        x = rng.standard_normal((300, 3)) @ np.array([[1.0, 0.9, 0], [0, 0.3, 4.0], [0, 0, 2.0]])
        data = pd.DataFrame(x, columns=list("abc")).assign(y=rng.standard_normal(300))
        posed = ss.pose("y ~ a + b + c - 1", data, alternatives=2)
        found = measure_normality(posed.problem, posed.engine_of_rows())
        assert set(found.p_values) == {"mean", "skewness", "fourth moments"}
        refused += sum(p < 0.05 for p in found.p_values.values())
        assert found.level == pytest.approx(1.0 / 300)
    # Of 600 tests at 5%, 30 reject by chance, give or take 11.
    assert 12 <= refused <= 52


def p_values_of(x):
    names = [f"x{i}" for i in range(x.shape[1])]
    y = np.random.default_rng(0).standard_normal(len(x))
    data = pd.DataFrame(x, columns=names).assign(y=y)
    posed = ss.pose(f"y ~ {' + '.join(names)}", data, alternatives=2)
    return measure_normality(posed.problem, posed.engine_of_rows()).p_values


def test_of_one_covariate_skewness_and_kurtosis_are_tested_as_ever():
    x = np.random.default_rng(4).standard_t(12, size=(300, 1))
    z = (x - x.mean()) / x.std()
    found = p_values_of(x)
    wanted = {
        "skewness": chi2.sf(300 * np.mean(z**3) ** 2 / 6, 1),
        "fourth moments": chi2.sf(300 * (np.mean(z**4) - 3) ** 2 / 24, 1),
    }
    assert found == pytest.approx(wanted, rel=1e-9)


def test_of_covariates_alike_in_all_directions_fourth_moments_are_mardias_kurtosis():
    """Points on two circles: E[xx'|x|²] is a multiple of the identity."""
    angles = np.linspace(0.0, 2.0 * np.pi, 12, endpoint=False)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    radii = np.repeat([0.3, 1.0], [6, 4])
    x = np.concatenate([radius * circle for radius in radii])
    kurtosis = 4.0 * np.mean(radii**4) / np.mean(radii**2) ** 2
    found = p_values_of(x)
    assert found["skewness"] == pytest.approx(1.0)
    wanted = chi2.sf(len(x) * (kurtosis - 8.0) ** 2 / 64.0, 3)
    assert found["fourth moments"] == pytest.approx(wanted, rel=1e-9)


def test_boosting_matches_many_alternatives_at_once():
    """Ten labels have 3.6 million orders; the best is found without trying them."""
    rng = np.random.default_rng(0)
    one = rng.standard_normal((10, 3))
    order = rng.permutation(10)
    assert matched_distance(one, one[order]) == pytest.approx(0.0, abs=1e-12)
    assert matched_distance(one, one[order] + 0.01) == pytest.approx(0.01 * np.sqrt(30))
