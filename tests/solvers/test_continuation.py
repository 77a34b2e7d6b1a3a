"""Fits whose likelihood joins the alternatives: special cases, boundaries, seeds, resolution."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import ConvergenceWarning, OptionError, UnsupportedError
from selfselect.noises import Correlated, Independent, SharedShock
from selfselect.noises.correlated import NEARLY_ONE, ONE
from selfselect.solvers import continuation
from selfselect.solvers._soundness import settle
from selfselect.solvers.base import Ending, Status
from selfselect.solvers.climb import log_likelihood
from selfselect.solvers.continuation import _rough_climb

SAME = 1e-6
"""Both fits end within 1e-6 standard errors of the optimum; log-likelihoods agree far better."""


@pytest.fixture(scope="module")
def correlated():
    """Return a sample of two alternatives whose noises have correlation 0.5."""
    return sample(Correlated(correlation=0.5), n_rows=800)


def sample(noise, n_rows, seed=1, **options):
    rng = np.random.default_rng([seed, 5])
    table = pd.DataFrame(rng.standard_normal((n_rows, 3)), columns=["x1", "x2", "x3"])
    coefficients = {
        "a": {"Intercept": 0.3, "x1": 1.5, "x2": -0.4},
        "b": {"Intercept": 0.5, "x1": -1.0, "x3": 0.6},
    }
    return ss.simulate(coefficients, table, noise=noise, seed=seed, **options)


def fit(made, noise=None, *, index="known", **options):
    chosen = {"chosen": "chosen"} if index == "known" else {}
    data = made.data if index == "known" else made.data.drop(columns="chosen")
    return ss.fit(made.formula, data, noise=noise, **chosen, **options)


@pytest.mark.parametrize("index", ["known", "unknown"])
@pytest.mark.parametrize("noise", [Correlated("common", 0.0), SharedShock("common", 1e-7)])
def test_without_correlation_the_fit_is_the_independent_one(correlated, noise, index):
    plain = fit(correlated, Independent("common"), index=index)
    joined = fit(correlated, noise, index=index)
    assert joined.converged and joined.llf == pytest.approx(plain.llf, rel=1e-10)
    np.testing.assert_allclose(joined.params, plain.params, atol=SAME)
    np.testing.assert_allclose(joined.bse, plain.bse, rtol=1e-5)


def test_a_climb_whose_correlations_do_not_go_with_a_fixed_one_begins_without_them():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 3))
    latent = x + rng.normal(size=(200, 3))
    table = pd.DataFrame(x, columns=["xa", "xb", "xc"]).assign(
        y=latent.max(axis=1), who=np.array(list("abc"))[latent.argmax(axis=1)]
    )
    posed = ss.pose(
        {label: f"y ~ x{label}" for label in "abc"}, table, chosen="who",
        noise=Correlated(correlation={("a", "b"): 0.8}),
    )  # fmt: skip
    problem, layout = posed.problem, posed.problem.layout
    # Of three, a and b cannot be alike while c is like the one and unlike the other.
    impossible, possible = (
        np.concatenate([[0.0, 1.0, 1.0] * 3, own]) for own in ([0.9, -0.9], [0.0, 0.0])
    )
    assert len(impossible) == layout.n_free
    assert not np.isfinite(log_likelihood(problem, posed.engine, impossible))
    found = _rough_climb(problem, posed.engine, impossible)
    expected = _rough_climb(problem, posed.engine, possible)
    np.testing.assert_allclose(found.free, expected.free, rtol=1e-12)
    assert found.loglik > log_likelihood(problem, posed.engine, possible)


def test_one_start_is_one_start_and_finds_the_same_optimum_of_a_market():
    made = ss.simulators.market(500)
    many, one = (
        ss.fit(made.formula, made.data, rule="min", noise=Correlated(), seed=0,
               solver=ss.solvers.Continuation(starts=starts))
        for starts in (4, 1)
    )  # fmt: skip
    assert len(many.starts) == 3 and len(one.starts) == 0
    assert one.converged and one.llf == pytest.approx(many.llf, abs=1e-9)
    np.testing.assert_allclose(one.params, many.params, atol=SAME)


def test_a_number_of_starts_that_is_none_is_refused():
    with pytest.raises(OptionError, match="starts=0"):
        ss.solvers.Continuation(starts=0)


@pytest.mark.parametrize("index", ["known", "unknown"])
def test_one_loading_and_one_scale_are_a_correlation_in_other_words(correlated, index):
    pair = fit(correlated, Correlated("common"), index=index)
    shock = fit(correlated, SharedShock("common"), index=index)
    assert shock.llf == pytest.approx(pair.llf, abs=1e-6)
    own, loading = (shock.params["(common)", term] for term in ("scale", "loading"))
    assert pair.params["a & b", "correlation"] == pytest.approx(
        loading**2 / (own**2 + loading**2), abs=1e-5
    )
    assert pair.params["(common)", "scale"] == pytest.approx(np.hypot(own, loading), abs=1e-5)


def test_a_fixed_correlation_is_a_point_of_the_profile(correlated):
    free = fit(correlated, Correlated())
    at = free.params["a & b", "correlation"]
    fixed = fit(correlated, Correlated(correlation=float(at)))
    assert fixed.llf == pytest.approx(free.llf, abs=1e-8)
    assert ("a & b", "correlation") not in fixed.params.index
    elsewhere = fit(correlated, Correlated(correlation=float(at) - 0.2))
    assert elsewhere.llf < free.llf - 0.1
    assert free.lr_test(fit(correlated)).p_value < 0.01


def test_the_same_seed_gives_the_same_answer():
    few = sample(Correlated(correlation=0.5), n_rows=200)
    one, other = (fit(few, Correlated(), index="unknown", seed=3) for _ in range(2))
    pd.testing.assert_series_equal(one.params, other.params)
    assert one.llf == other.llf


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_correlation_at_its_limit_is_a_boundary_and_no_estimate(sign):
    """Noise of one mirrors the other's up to a hundredth: the data ask for a limit."""
    made = sample(Correlated(correlation=sign * 0.9999), n_rows=400)
    with pytest.warns(ConvergenceWarning, match=r"At the boundary: the correlation of 'a' and 'b'"):
        result = fit(made, Correlated())
    assert not result.converged
    kind = "positive" if sign > 0 else "negative"
    assert f"the noise of one is a {kind} multiple of the other's" in result.status
    assert "identical" not in result.status
    assert "NOT CONVERGED" in str(result.summary())


@pytest.mark.parametrize("rho", [0.9965, -0.9965, 0.9987, 0.9997, -0.9995])
def test_a_correlation_near_its_limit_from_which_the_likelihood_falls_is_an_estimate(rho):
    rng = np.random.default_rng(0)
    x, (one, own) = rng.standard_normal((3_000, 2)), rng.standard_normal((2, 3_000))
    latent = x + np.column_stack([one, rho * one + np.sqrt(1 - rho**2) * own])
    table = pd.DataFrame({"y": latent.max(axis=1), "x1": x[:, 0], "x2": x[:, 1],
                          "who": np.array(["a", "b"])[latent.argmax(axis=1)]})  # fmt: skip
    result = ss.fit({"a": "y ~ x1", "b": "y ~ x2"}, table, chosen="who", noise="correlated")
    found, error = (each["a & b", "correlation"] for each in (result.params, result.bse))
    assert result.converged and NEARLY_ONE < abs(found) < ONE
    assert abs(found - rho) < 3 * error


@pytest.mark.parametrize("correlation", ["common", "each"])
def test_correlations_that_are_impossible_together_are_a_boundary(correlation):
    """Noises that sum to zero: no correlation is near -1, and their matrix is singular."""
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=120), rng.normal(size=(120, 3))
    y = np.outer(x, [0.6, -0.5, 0.1]) + noise - noise.mean(axis=1, keepdims=True)
    data = pd.DataFrame({"x": x, "y": y.min(axis=1), "job": np.array(list("pqr"))[y.argmin(1)]})
    noise = Correlated("common", correlation=correlation, draws=64)
    with pytest.warns(ConvergenceWarning, match="At the boundary: the correlations of 'p', 'q'"):
        fit = ss.fit("y ~ x", data, chosen="job", rule="min", noise=noise)
    assert fit.solution.ending.status is Status.AT_BOUNDARY


def test_a_vanishing_own_part_is_a_boundary():
    made = sample(SharedShock(0.004, 1.0), n_rows=300)
    with pytest.warns(ConvergenceWarning, match="At the boundary"):
        result = fit(made, SharedShock())
    assert not result.converged


THREE = {
    "a": {"Intercept": 0.3, "x1": 1.0},
    "b": {"Intercept": 0.5, "x2": 1.0},
    "c": {"Intercept": 0.2, "x1": -1.0, "x2": -0.5},
}


@pytest.fixture(scope="module")
def three():
    """Return a sample of three alternatives that load alike on a shared shock."""
    rng = np.random.default_rng(9)
    table = pd.DataFrame(rng.standard_normal((1_500, 2)), columns=["x1", "x2"])
    return ss.simulate(THREE, table, noise=SharedShock(loading=0.8), seed=2)


def test_some_correlations_may_be_fixed_and_others_estimated(three):
    three = replace(three, data=three.data.head(300))
    matrix = np.array([[1.0, 0.4, np.nan], [0.4, 1.0, 0.4], [np.nan, 0.4, 1.0]])
    by_matrix = fit(three, Correlated(correlation=matrix, draws=32),
                    solver=ss.solvers.Continuation(steady=None))  # fmt: skip
    by_pair = fit(three, Correlated(correlation={("b", "a"): 0.4, ("b", "c"): 0.4}, draws=32),
                  solver=ss.solvers.Continuation(steady=None))  # fmt: skip
    names = [label for label in by_matrix.params.index if label[1] == "correlation"]
    assert names == [("a & c", "correlation")]
    pd.testing.assert_series_equal(by_matrix.params, by_pair.params)


def test_some_loadings_may_be_fixed_and_others_estimated(three):
    result = fit(three, SharedShock(loading={"a": 0.8}))
    names = [label[0] for label in result.params.index if label[1] == "loading"]
    assert names == ["b", "c"] and result.converged
    off = (result.params - three.params[result.params.index]) / result.bse
    assert off.abs().max() < 4


def test_points_are_doubled_until_the_estimates_stay(three):
    coarse = fit(
        three, SharedShock(loading="common", nodes=3), solver=ss.solvers.Continuation(steady=None)
    )
    refined = fit(three, SharedShock(loading="common", nodes=3))
    exact = fit(
        three, SharedShock(loading="common", nodes=61), solver=ss.solvers.Continuation(steady=None)
    )
    assert coarse.solution.points is None and refined.solution.points > 3
    assert "nodes estimates moved by at most" in refined.status
    gap = [np.abs((one.params - exact.params) / exact.bse).max() for one in (coarse, refined)]
    assert gap[1] < 0.02 < gap[0]


def test_a_shared_shock_needs_no_sign_of_its_own(three):
    result = fit(three, SharedShock())
    loadings = result.params.xs("loading", level=1)
    assert loadings[loadings.abs().idxmax()] > 0


def test_other_solvers_are_refused_for_joined_likelihoods_and_this_one_for_others(correlated):
    with pytest.raises(UnsupportedError, match="Newton is not for likelihoods that join"):
        fit(correlated, Correlated(), solver=ss.solvers.Newton())
    with pytest.raises(UnsupportedError, match="Continuation is for likelihoods that join"):
        fit(correlated, solver=ss.solvers.Continuation())


def test_robust_errors_come_close_to_the_observed_ones(correlated):
    ratio = (
        fit(correlated, Correlated(), covariance="robust").bse / fit(correlated, Correlated()).bse
    )
    assert ratio.min() > 0.8 and ratio.max() < 1.25


def test_what_is_known_of_the_correlation_is_tested(correlated):
    result = fit(correlated, Correlated())
    test = result.independence_test()
    # Both are on Fisher's scale.
    assert test.statistic == pytest.approx(result.tvalues["a & b", "correlation"] ** 2, rel=1e-6)
    assert "all correlations are fixed" in str(
        fit(correlated, Correlated(correlation=0.3)).independence_test()
    )
    assert "lr_test" in str(fit(correlated, SharedShock()).independence_test())


def max_affine_least_squares(x, y, start):
    """Alternate between who is largest and least squares on those rows."""
    joined = np.column_stack([np.ones(len(x)), x])
    found = np.array(start, dtype=float)
    for _ in range(100):
        largest = (joined @ found.T).argmax(axis=1)
        found = np.array(
            [
                np.linalg.lstsq(joined[largest == j], y[largest == j], rcond=None)[0]
                for j in range(len(found))
            ]
        )
    return found


def test_without_own_noise_a_shared_shock_is_max_affine_regression():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(400)
    y = np.maximum(0.5 + 1.5 * x, 0.2 - x) + 0.5 * rng.standard_normal(400)
    limit = max_affine_least_squares(x, y, [[0.5, 1.5], [0.2, -1.0]])
    gaps = []
    for scale in (0.3, 0.02):
        noise = ss.noises.SharedShock(scale=scale, loading="common")
        result = ss.fit("y ~ x", pd.DataFrame({"x": x, "y": y}), alternatives=2, noise=noise)
        assert result.converged
        found = result.values[:4].reshape(2, 2)
        gaps.append(np.abs(found - limit).max())
    # The kink stays a little rounded at any scale above zero.
    assert gaps[0] > 2.0 * gaps[1] and gaps[1] < 0.02


def lumps(seed, n_rows, n_covariates=2):
    """Return rows of a market of two whose noise has two lumps, and the coefficients."""
    rng = np.random.default_rng([seed, 77])
    x = rng.standard_normal((n_rows, n_covariates))
    coefficients = np.random.default_rng([seed, 78]).standard_normal((2, n_covariates + 1))
    coefficients[:, 0] *= 0.5
    side = np.where(rng.uniform(size=(n_rows, 2)) < 0.5, -1.0, 1.0)
    noise = (side + 0.3 * rng.standard_normal((n_rows, 2))) / np.sqrt(1.09)
    y = (coefficients[:, 0] + x @ coefficients[:, 1:].T + 0.8 * noise).max(axis=1)
    return pd.DataFrame(x, columns=["x1", "x2"]).assign(y=y), coefficients


@pytest.mark.parametrize(("components", "n_rows"), [(3, 1500), (2, 310)])
def test_without_the_index_random_equations_find_what_normal_noise_leads_away_from(
    components, n_rows, monkeypatch
):
    table, coefficients = lumps(1, n_rows)
    options = {"alternatives": 2, "noise": ss.noises.Mixture(components), "seed": 0}
    fit = ss.fit("y ~ x1 + x2", table, **options)
    assert fit.converged and fit.solution.settled is None
    assert sum("random equations" in record.name for record in fit.solution.starts) == 32
    found = fit.params.drop("(common)").to_numpy().reshape(2, -1)[:, :3]
    off = min(np.abs(found[order] - coefficients).max() for order in ([0, 1], [1, 0]))
    assert off < 0.15
    # From the normal fit alone it ends elsewhere, far below.
    monkeypatch.setattr(continuation, "RANDOM_STARTS", 0)
    few = ss.fit("y ~ x1 + x2", table, **options)
    assert few.converged and fit.llf > few.llf + 50


def test_a_number_of_starts_counts_random_equations_too():
    table, _ = lumps(0, 310)
    for starts in (2, 3, 5, 40):
        solver = ss.solvers.Continuation(starts=starts)
        fit = ss.fit("y ~ x1 + x2", table, alternatives=2, noise=ss.noises.Mixture(2), seed=0,
                     solver=solver)  # fmt: skip
        assert len(fit.solution.starts) == starts


def test_an_end_after_doubted_ones_stands_only_well_above_simpler_noise():
    made = sample(Independent(), n_rows=400)
    posed = ss.pose(made.formula, made.data, chosen="chosen", noise=ss.noises.Mixture(2))
    problem, engine, rng = posed.problem, posed.engine, np.random.default_rng(0)

    def end(found, doubted):
        return settle(problem, engine, found, doubted, rng=rng, progress=False)

    simple = end(None, ["component 2 is narrow."])
    assert simple.settled == ss.noises.Mixture(1)
    assert "but component 2 is narrow. The estimates are those of simpler noise" in str(
        simple.ending
    )
    # What such an end holds matters no further: only its log-likelihood and whether it converged.
    close, better = (replace(simple, loglik=simple.loglik + gain) for gain in (1.0, 3.0))
    assert end(close, []) is close and end(better, ["narrow."]) is better
    assert "but narrow." in str(end(close, ["narrow."]).ending)
    stopped = replace(close, ending=Ending(Status.OUT_OF_STEPS, {"steps": 1, "distance": 1.0}))
    assert "the components coincide: the log-likelihood is 1 above" in str(end(stopped, []).ending)


def test_costs_say_whose_equation_it_is_where_covariates_hardly_do():
    """The search without costs cannot tell the names but by a covariate that moves nothing."""
    rng = np.random.default_rng(1)
    x, idle = rng.standard_normal((2, 300))
    costs = rng.uniform(high=3.0, size=(300, 2))
    latent = np.column_stack([2.0 * x, 0.5 - 2.0 * x]) + 0.5 * rng.standard_normal((300, 2))
    outcome = latent[np.arange(300), (latent - costs).argmax(axis=1)]
    data = pd.DataFrame({"y": outcome, "x": x, "idle": idle, "c": costs[:, 0], "d": costs[:, 1]})
    options = {"cost": {"a": "c", "b": "d"}, "seed": 1}
    found = ss.fit({"a": "y ~ x", "b": "y ~ x + idle"}, data, **options)
    other = ss.fit({"a": "y ~ x + idle", "b": "y ~ x"}, data, **options)
    for fit in (found, other):
        assert fit.converged
        assert fit.params["a", "x"] > 0.0 > fit.params["b", "x"]
