"""Tests of normality and constant variance: size, power, invariance, and clear refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

import selfselect as ss
from selfselect.errors import DataError, OptionError, UnsupportedError
from selfselect.results.rejections import rejections

SAMPLES = 100
"""Of 100 samples 5% plus or minus 2% reject where the size is right."""


def table(seed=0, *, n_rows=600, noise=None, spread=0.0, rule="max"):
    """Draw two alternatives; `noise` draws standardised noise, `spread` moves its scale with x."""
    rng = np.random.default_rng([seed, 5])
    x = rng.normal(size=(n_rows, 2))
    e = rng.normal(size=(n_rows, 2)) if noise is None else noise(rng, (n_rows, 2))
    e = e * np.exp(spread * x[:, :1])
    latent = 0.2 + np.column_stack([x @ [0.8, -0.3], x @ [-0.5, 0.6]]) + e * [0.8, 1.0]
    chosen = latent.argmax(axis=1) if rule == "max" else latent.argmin(axis=1)
    return pd.DataFrame(
        {
            "y": latent[np.arange(n_rows), chosen],
            "who": np.array(["a", "b"])[chosen],
            "x1": x[:, 0],
            "x2": x[:, 1],
        }
    )


def heavy(rng, shape):
    return rng.standard_t(5, size=shape) / np.sqrt(5 / 3)


def skewed(rng, shape):
    return (rng.chisquare(3, size=shape) - 3) / np.sqrt(6)


def fit_of(data, **options):
    return ss.fit("y ~ x1 + x2", data, chosen="who", **options)


def test_asymptotic_tests_keep_their_size_and_are_chi_square():
    found = [fit_of(table(seed)) for seed in range(SAMPLES)]
    for name in ("normality_test", "heteroskedasticity_test"):
        tests = [getattr(fit, name)(0) for fit in found]
        assert {test.df for test in tests} == {4}
        assert 0.0 < np.mean([test.rejects(0.95) for test in tests]) < 0.12
        assert np.mean([test.statistic for test in tests]) == pytest.approx(4.0, rel=0.2)


def test_bootstrap_p_values_are_uniform_under_the_model():
    found = [fit_of(table(seed, n_rows=200)) for seed in range(40)]
    for name in ("normality_test", "heteroskedasticity_test"):
        p_values = np.array([getattr(fit, name)(39, seed=1).p_value for fit in found])
        # The mean of 40 uniform numbers has a standard error of 0.046.
        assert p_values.mean() == pytest.approx(0.5, abs=0.18)
        assert (p_values <= 0.1).mean() < 0.25


def test_both_versions_agree_on_the_same_data():
    fit = fit_of(table(n_rows=3_000))
    for name in ("normality_test", "heteroskedasticity_test"):
        quick, slow = getattr(fit, name)(0), getattr(fit, name)(199, seed=2)
        assert quick.replications == 0 and slow.replications == 199
        # 199 samples know a variance to 10%, and four of them are in the statistic.
        assert slow.statistic == pytest.approx(quick.statistic, rel=0.35)
        assert slow.p_value == pytest.approx(quick.p_value, abs=0.12)


@pytest.mark.parametrize("noise", [heavy, skewed])
@pytest.mark.parametrize("rule", ["max", "min"])
def test_noise_of_another_shape_is_found(noise, rule):
    fit = fit_of(table(noise=noise, n_rows=3_000, rule=rule), rule=rule)
    assert fit.normality_test(0).rejects(0.99)
    assert fit.normality_test(39, seed=1).p_value == pytest.approx(1 / 40)


def test_a_variance_that_moves_with_a_covariate_is_found():
    fit = fit_of(table(spread=0.3, n_rows=3_000))
    assert fit.heteroskedasticity_test(0).rejects(0.99)
    assert fit.heteroskedasticity_test(39, seed=1).p_value == pytest.approx(1 / 40)


def test_a_rejection_comes_first_and_says_what_it_means():
    fit = fit_of(table(noise=skewed, n_rows=3_000))
    page = fit.summary()
    assert any(notice.startswith("NORMALITY REJECTED") for notice in page.notices)
    assert page.notices[: len(fit.rejections())] == fit.rejections() == rejections(fit)


def test_a_summary_shows_the_bootstrap_once_it_was_run():
    fit = fit_of(table())
    assert "Asymptotic conditional-moment test of normality" in " ".join(fit.summary().notes)
    test = fit.normality_test(99, seed=3)
    said = " ".join(fit.summary().notes)
    assert f"{test}." in said and "(parametric bootstrap, 99 samples)" in said
    assert "Asymptotic conditional-moment test of normality" not in said


def test_pages_do_not_depend_on_a_test_that_cannot_reject():
    # The smallest p-value of 39 samples is 0.025, and pages reject at 0.01.
    fit = fit_of(table(noise=skewed, n_rows=3_000))
    before, page = fit.rejections(), str(fit.summary())
    few = fit.normality_test(39, seed=1)
    assert not few.rejects() and "(parametric bootstrap, 39 samples; 99 could reject)" in str(few)
    assert any(one.startswith("NORMALITY REJECTED") for one in before)
    assert fit.rejections() == before and str(fit.summary()) == page


def test_pages_keep_the_test_of_more_samples():
    fit = fit_of(table(n_rows=300))
    more = fit.normality_test(199, seed=1)
    fit.normality_test(99, seed=1)
    assert f"{more}." in fit.summary().notes
    again = fit.normality_test(199, seed=2)
    assert f"{again}." in fit.summary().notes


def test_a_test_that_cannot_reject_leaves_untested_what_has_no_law():
    data = table(n_rows=400).assign(g=np.arange(400) // 8)
    fit = fit_of(data, cluster="g")
    said = str(fit.diagnose())
    assert fit.normality_test(19, seed=1).possible and "Not tested: normality" in said
    assert str(fit.diagnose()) == said


def test_the_same_seed_gives_the_same_p_value_and_another_may_not():
    data = table(n_rows=300)
    one, again = (fit_of(data).normality_test(99, seed=1) for _ in range(2))
    other = fit_of(data).normality_test(99, seed=2)
    assert one == again and other.statistic != one.statistic


@pytest.mark.parametrize("name", ["normality_test", "heteroskedasticity_test"])
def test_statistics_do_not_depend_on_units(name):
    data = table(noise=heavy)
    moved = data.assign(y=1e3 * data["y"] + 7.0, x1=1e-4 * data["x1"] - 3.0)
    one, other = (getattr(fit_of(each), name)(0) for each in (data, moved))
    assert other.statistic == pytest.approx(one.statistic, rel=1e-4)


@pytest.mark.parametrize("scale", ["each", "common", 1.0])
def test_scales_may_be_each_common_or_fixed(scale):
    noise = ss.noises.Independent({"a": 0.8, "b": 1.0} if scale == 1.0 else scale)
    statistics = [
        fit_of(table(seed, n_rows=400), noise=noise).normality_test(0).statistic
        for seed in range(20)
    ]
    if scale == "common":
        # The two scales differ, so a common one is wrong: nothing to compare with.
        assert np.isfinite(statistics).all()
    else:
        assert np.mean(statistics) == pytest.approx(4.0, abs=4 * np.sqrt(chi2.var(4) / 20))


def test_repeated_rows_and_frequency_weights_have_the_same_statistic():
    data = table(n_rows=300)
    times = np.random.default_rng(0).integers(0, 4, 300)
    weighted = fit_of(data, weights=times, weights_kind="frequency")
    repeated = fit_of(data.loc[data.index.repeat(times)])
    for name in ("normality_test", "heteroskedasticity_test"):
        one, other = (getattr(fit, name)(0) for fit in (weighted, repeated))
        # Each draws its own rows to know the spread by, two percent apart.
        assert one.statistic == pytest.approx(other.statistic, rel=0.1)
        one, other = (getattr(fit, name)(199, seed=1) for fit in (weighted, repeated))
        assert one.statistic == pytest.approx(other.statistic, rel=0.3)


def test_probability_weights_keep_the_size():
    rng = np.random.default_rng(1)
    statistics = []
    for seed in range(40):
        data = table(seed, n_rows=400)
        weights = rng.uniform(0.1, 5.0, len(data))
        fit = fit_of(data, weights=weights, weights_kind="probability")
        shape, spread = fit.normality_test(0), fit.heteroskedasticity_test(0)
        independence = fit.independence_test()
        statistics.append([shape.statistic, spread.statistic, 4.0 * independence.statistic])
    error = np.sqrt([8, 8, 32]) / np.sqrt(40)
    assert (np.abs(np.mean(statistics, axis=0) - 4.0) < 4 * error).all()


def test_the_unknown_index_is_tested_too():
    sample = ss.simulators.gaussian(600, 2, 2, norm=2.0, seed=1)
    fit = ss.fit("outcome ~ x1 + x2", sample.data, alternatives=2)
    for test in (fit.normality_test(39, seed=1), fit.heteroskedasticity_test(39, seed=1)):
        assert test.possible and test.df == 4 and test.p_value > 1 / 40


# what cannot be done


@pytest.mark.parametrize("replications", [-1, 5, 2.5, True, "199", None])
def test_a_number_of_samples_that_gives_no_p_value_is_refused(replications):
    with pytest.raises(OptionError, match="Give a whole number of bootstrap"):
        fit_of(table()).normality_test(replications)


def test_more_moments_than_samples_are_refused():
    rng = np.random.default_rng(0)
    data = table(n_rows=800).assign(**{f"z{i}": rng.normal(size=800) for i in range(8)})
    formula = "y ~ x1 + x2 + " + " + ".join(f"z{i}" for i in range(8))
    fit = ss.fit(formula, data, chosen="who")
    with pytest.raises(OptionError, match=r"19 bootstrap samples are too few for 20 moments"):
        fit.heteroskedasticity_test(19)


def test_an_estimate_that_is_no_optimum_is_a_reason_not_a_number():
    data = table()
    with pytest.warns(ss.errors.ConvergenceWarning):
        fit = fit_of(data, solver=ss.solvers.Newton(max_steps=1))
    for test in (fit.normality_test(), fit.heteroskedasticity_test(0)):
        assert test.reason == "the fit did not converge" and np.isnan(test.p_value)
    assert fit.rejections() == () or "INDEPENDENCE" in fit.rejections()[0]


def test_a_loaded_fit_keeps_what_its_summary_showed(tmp_path):
    fit = fit_of(table())
    test = fit.normality_test(99, seed=1)
    fit.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    assert loaded.normality_test(99) == test
    assert str(loaded.summary()) == str(fit.summary())
    with pytest.raises(UnsupportedError, match="no longer has its rows"):
        loaded.normality_test(199)


def test_frequencies_of_more_rows_than_can_be_drawn_are_refused():
    fit = fit_of(table(), weights=np.full(600, 10**6), weights_kind="frequency")
    assert fit.normality_test(0).possible
    with pytest.raises(DataError, match="stand for 6e\\+08 rows, too many to draw"):
        fit.normality_test()


def test_a_wrong_shape_is_named_as_a_reason_why_independence_is_rejected():
    rng = np.random.default_rng(3)
    x, e = rng.normal(size=(4_000, 2)), skewed(rng, (4_000, 3)) * [0.8, 1.0, 1.3]
    latent = 0.2 + x @ np.array([[0.8, -0.5, 0.2], [-0.4, 0.6, 0.5]]) + e
    chosen = latent.argmax(axis=1)
    data = pd.DataFrame({"y": latent[np.arange(4_000), chosen], "who": chosen, "x1": x[:, 0],
                         "x2": x[:, 1]})  # fmt: skip
    said = fit_of(data).rejections()
    assert said[0].startswith("INDEPENDENCE REJECTED")
    assert "the shape and spread of the noise alone account for it" in said[0]
    assert "correlated" not in said[0]
