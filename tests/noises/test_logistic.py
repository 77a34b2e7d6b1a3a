"""Logistic noise: what `test_shapes.py` does not ask of every shape."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import selfselect as ss
from selfselect.errors import OptionError, UnsupportedError
from selfselect.inference.dependence import Dependence
from selfselect.inference.independence import common_scale_test
from selfselect.likelihoods import row_terms
from selfselect.noises import Independent
from selfselect.noises.shapes.logistic import SHAPE
from selfselect.solvers import MaximumLikelihood, MonteCarloNewton, ProjectedSGD

LOGISTIC = Independent(shape="logistic")


COEFFICIENTS = {
    "a": {"Intercept": 1.0, "x": 1.0, "z": 0.5},
    "b": {"Intercept": 0.5, "x": -0.5, "z": 1.0},
}
SCALES = {"a": 1.0, "b": 0.7}


def rows(n_rows=600, seed=1):
    rng = np.random.default_rng([seed, 7])
    table = pd.DataFrame(rng.standard_normal((n_rows, 2)), columns=["x", "z"])
    return table.assign(town=np.arange(n_rows) % 40)


def simulated(n_rows=600, seed=1, **options):
    options = {"scales": SCALES, "noise": LOGISTIC} | options
    return ss.simulate(COEFFICIENTS, rows(n_rows, seed), seed=seed, **options).data


@pytest.fixture(scope="module")
def data():
    return simulated()


@pytest.fixture(scope="module")
def result(data):
    return ss.fit("outcome ~ x + z", data, chosen="chosen", noise=LOGISTIC)


# the shape


def test_its_tails_stay_exact_at_any_distance():
    far = np.array([-800.0, -300.0, 300.0, 800.0])
    np.testing.assert_array_equal(SHAPE.below(far).value[:2], far[:2])
    np.testing.assert_allclose(SHAPE.below(far).value[2:], -np.exp(-far[2:]), rtol=1e-12)
    np.testing.assert_array_equal(SHAPE.density(far).value, -np.abs(far))
    for terms in (SHAPE.density(far), SHAPE.below(far), SHAPE.above(far)):
        assert all(np.isfinite(part).all() for part in terms)
    # The mean over the tail, times its mass e^a: a - 1.
    left = np.array([-40.0, -300.0, -700.0])
    np.testing.assert_allclose(SHAPE.partial_mean(left), (left - 1.0) * np.exp(left), rtol=1e-12)
    np.testing.assert_array_equal(SHAPE.partial_mean(-left), SHAPE.partial_mean(left))


# what belongs to a fit


def test_residuals_are_means_of_the_noise(result):
    found = ss.plots.residuals(result).data
    assert (np.abs(found["mean"]) < 5.0 * found["std_error"]).all()
    residuals = row_terms(
        result.problem, result.problem.layout.natural(result.solution.free), result.engine.batch
    ).residual
    chosen = (result.table["chosen"] == "b").to_numpy().astype(int)
    outcome, means = result.table["outcome"].to_numpy(), result.predict().to_numpy()
    scales, each = result.scales.to_numpy(), np.arange(len(outcome))
    a = (outcome[:, None] - means) / scales
    np.testing.assert_allclose(residuals[each, chosen], a[each, chosen], rtol=1e-9, atol=1e-9)
    other = a[each, 1 - chosen]
    wanted = other - np.logaddexp(0.0, other) / expit(other)
    np.testing.assert_allclose(residuals[each, 1 - chosen], wanted, rtol=1e-9)


def test_independence_is_tested_with_its_size_where_rows_come_in_clusters():
    p_values = []
    for seed in range(40):
        fit = ss.fit("outcome ~ x + z", simulated(400, seed), chosen="chosen", noise=LOGISTIC,
                     cluster="town")  # fmt: skip
        p_values.append(fit.independence_test().p_value)
    # Of 40 uniform p-values more than 7 are below 5% once in a thousand times.
    assert np.sum(np.array(p_values) < 0.05) <= 7
    assert 0.3 < np.mean(p_values) < 0.7


def test_dependence_is_found():
    shock = 2.0 * np.random.default_rng(9).logistic(size=3_000)
    table = rows(3_000)
    means = np.column_stack([1.0 + table["x"] + 0.5 * table["z"], 0.5 - 0.5 * table["x"]])
    latent = means + shock[:, None] + np.random.default_rng(10).logistic(size=(3_000, 2))
    data = table.assign(outcome=latent.max(axis=1), chosen=np.array(["a", "b"])[latent.argmax(1)])
    fit = ss.fit("outcome ~ x + z", data, chosen="chosen", noise=LOGISTIC)
    assert fit.independence_test().p_value < 1e-3


def test_one_scale_for_all_is_tested_under_the_same_shape(data):
    fit = ss.fit("outcome ~ x + z", data, chosen="chosen",
                 noise=Independent("common", shape="logistic"))  # fmt: skip
    each = ss.fit("outcome ~ x + z", data, chosen="chosen", noise=LOGISTIC)
    score = common_scale_test(
        fit.problem, fit.engine, fit.solution, dependence=Dependence((), None, None)
    )
    ratio = fit.lr_test(each)
    assert ratio.possible
    assert score.statistic == pytest.approx(ratio.statistic, rel=0.5)


def test_the_naive_scale_is_comparable():
    """Where nothing is selected both estimate the scale, not the standard deviation."""
    table = rows(4_000)
    table["to_a"], table["to_b"] = table["town"] % 2 == 0, table["town"] % 2 == 1
    only = {"a": "to_a", "b": "to_b"}
    sample = ss.simulate(COEFFICIENTS, table, scales=SCALES, noise=LOGISTIC, available=only, seed=1)
    fit = ss.fit(sample.formula, sample.data, chosen="chosen", available=only, noise=LOGISTIC)
    compared = fit.compare().table.xs("scale", level="term")
    np.testing.assert_allclose(compared["naive"], compared["corrected"], rtol=0.03)
    np.testing.assert_allclose(compared["naive"], list(SCALES.values()), rtol=0.05)


# what is made for normal noise


def test_its_own_shape_and_spread_are_tested_and_departures_refused(result):
    shape, spread = result.normality_test(0), result.heteroskedasticity_test(0)
    assert shape.possible and spread.possible and not (shape.rejects() or spread.rejects())
    assert "test of the logistic shape (null: logistic noise)" in str(shape)
    with pytest.raises(UnsupportedError, match="assumes logistic noise"):
        result.departures()


@pytest.mark.parametrize("kind", ["wald", "lr"])
def test_independence_is_not_compared_with_correlated_normal_noise(result, kind):
    assert "normal noise only" in str(result.independence_test(kind))


def test_pages_name_the_shape_and_never_claim_normality(result, tmp_path):
    page = str(result.summary())
    assert "Noise: logistic, independent across alternatives (assumed)" in page
    assert "logistic noise" in " ".join(page.split())
    result.report(tmp_path / "report.html")
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "the logistic shape and constant variance are not rejected" in report
    assert "against logistic ones" in report
    for words in ("ormality is not rejected", "against normal", "noise is normal"):
        assert words not in report
        assert words not in page


def test_levels_of_a_logarithm_are_refused(data):
    table = data.assign(wage=np.exp(data["outcome"]))
    fit = ss.fit("log(wage) ~ x + z", table, chosen="chosen", noise=LOGISTIC)
    for kind in ("latent", "outcome", "given_seen"):
        with pytest.raises(UnsupportedError, match="scale='level' needs noise that is normal"):
            fit.predict(kind=kind, scale="level")
    assert fit.predict(kind="outcome").notna().all()


def test_solvers_that_draw_and_rules_without_bounds_are_refused(data):
    known = Independent(scale=[1.0, 0.7], shape="logistic")
    for solver, noise in ((MonteCarloNewton(), LOGISTIC), (ProjectedSGD(), known)):
        with pytest.raises(UnsupportedError, match="drawn for normal noise only"):
            ss.fit("outcome ~ x + z", data, chosen="chosen", noise=noise, solver=solver, seed=1)
    with pytest.raises(UnsupportedError, match="MaximumLikelihood"):
        ss.fit("outcome ~ x + z", data, alternatives=2, noise=LOGISTIC, solver=MaximumLikelihood())
    with pytest.raises(UnsupportedError, match="Ranked rules need normal noise"):
        ss.fit("outcome ~ x + z", data, chosen="chosen", noise=LOGISTIC, rule=ss.rules.Ranked(1))


def test_what_compares_normal_fits_is_refused(data, result):
    with pytest.raises(UnsupportedError, match="has logistic noise"):
        result.sensitivity([0.0, 0.3])
    with pytest.raises(OptionError, match="under normal noise only, not logistic"):
        ss.choose_alternatives("outcome ~ x + z", data, [1, 2], noise=LOGISTIC)
    correlated = ss.fit("outcome ~ x + z", data, chosen="chosen", noise="correlated")
    assert "not a special case" in str(result.lr_test(correlated))
    assert "theorems assume normal noise" in str(ss.assumptions(result))


def test_quantiles_are_drawn_against_logistic_ones(result):
    points = ss.plots.qq(result).data
    inner = points[points["logistic"].abs() < 2.0]
    assert (np.abs(inner["logistic"] - inner["empirical"]) < 2.0 * inner["reach"]).all()


def test_a_card_is_asked_for_nothing_it_does_not_know(data, result):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    fit = ss.fit("outcome ~ x + z", data, chosen="chosen", noise=LOGISTIC,
                 engine=ss.engines.Torch("cpu"))  # fmt: skip
    np.testing.assert_allclose(fit.params, result.params, rtol=1e-7)


def test_shapes_that_do_not_exist_are_refused_with_those_that_do():
    with pytest.raises(OptionError, match="one of gumbel, gumbel_min, laplace, logistic, normal"):
        Independent(shape="logit")
