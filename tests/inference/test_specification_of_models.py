"""Tests of shape and spread of every model: size, power, clusters, weights, files, pages."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.inference.simulation import draw_outcomes
from selfselect.report.chapters import diagnosis_chapter
from selfselect.report.document import Findings

SAMPLES = 16
"""Of so many samples the mean of a chi-square with 4 degrees has a standard error of 0.7."""

TESTS = ("normality_test", "heteroskedasticity_test")


def skewed(rng, shape):
    return (rng.chisquare(3, size=shape) - 3) / np.sqrt(6)


def outcomes(seed=0, *, n_rows=500, noise=None, spread=0.0, further=0.0, rho=0.0, cost=0.0):
    """Draw two outcomes of which the larger, net of a cost of a, is chosen.

    Log scales move with `spread` times x1 and `further` times x2.
    """
    rng = np.random.default_rng([seed, 77])
    x = rng.normal(size=(n_rows, 2))
    e = rng.normal(size=(n_rows, 2)) if noise is None else noise(rng, (n_rows, 2))
    e[:, 1] = rho * e[:, 0] + np.sqrt(1 - rho**2) * e[:, 1]
    slopes = np.array([[0.0 if cost else 0.8, -0.5], [-0.4, 0.6]])
    scales = np.exp(spread * x[:, :1] + further * x[:, 1:]) * [0.8, 1.0]
    latent = 0.2 + x @ slopes + e * scales
    net = latent - np.column_stack([cost * (0.3 + x[:, 0]), np.zeros(n_rows)])
    chosen = net.argmax(axis=1)
    return pd.DataFrame(
        {
            "y": latent[np.arange(n_rows), chosen],
            "who": np.array(["a", "b"])[chosen],
            "x1": x[:, 0],
            "x2": x[:, 1],
            "g": np.arange(n_rows) // 5,
        }
    )


def selected(seed=0, *, n_rows=500, noise=None, spread=0.0):
    """Draw two outcomes that an index selects, whose noises go with its own."""
    rng = np.random.default_rng([seed, 78])
    x, z, u = rng.normal(size=(3, n_rows))
    own = rng.normal(size=(2, n_rows)) if noise is None else noise(rng, (2, n_rows))
    inside = 0.2 + 0.4 * x + z + u > 0
    e = (np.array([[0.6], [-0.4]]) * u + np.array([[0.8], [0.9]]) * own) * np.exp(spread * x)
    y = np.where(inside, 1 + x + e[0], 0.5 - x + e[1])
    return pd.DataFrame({"y": y, "x": x, "z": z, "where": inside, "g": np.arange(n_rows) // 5})


def correlated(data, **options):
    return ss.fit("y ~ x1 + x2", data, chosen="who", noise="correlated", **options)


def costly(data, **options):
    formula = {"a": "y ~ x2", "b": "y ~ x1 + x2"}
    return ss.fit(formula, data, chosen="who", cost={"a": "~ x1"}, **options)


def silent(data, **options):
    data = data.assign(y=data["y"].where(data.index % 5 > 0))
    return ss.fit("y ~ x1 + x2", data, chosen="who", missing_outcome="silent", **options)


def moving(data, **options):
    noise = ss.noises.Independent("~ x1")
    return ss.fit("y ~ x1 + x2", data, chosen="who", noise=noise, **options)


def switching(data, **options):
    return ss.switching("y ~ x", "where ~ x + z", data, **options)


def sample_selection(data, **options):
    data = data.assign(y=data["y"].where(data["where"]))
    return ss.sample_selection("y ~ x", "where ~ x + z", data, **options)


MODELS = {
    "correlated": (correlated, outcomes, {"rho": 0.5}, (4, 4)),
    "costs": (costly, outcomes, {"cost": 0.5}, (4, 3)),
    "silent": (silent, outcomes, {}, (4, 4)),
    "switching": (switching, selected, {}, (6, 2)),
    "sample selection": (sample_selection, selected, {}, (4, 1)),
}

WITH_MOVING = {**MODELS, "moving": (moving, outcomes, {"spread": 0.3}, (4, 2))}
"""Models whose scales stay, and one whose scales move."""


@pytest.mark.parametrize("name", ["correlated", "switching", "sample selection", "moving"])
def test_asymptotic_tests_of_every_model_are_chi_square(name):
    fit, draw, facts, df = WITH_MOVING[name]
    found = [fit(draw(seed, **facts)) for seed in range(SAMPLES)]
    found = [one for one in found if one.converged]
    assert len(found) > 0.8 * SAMPLES
    for test, wanted in zip(TESTS, df, strict=True):
        tests = [getattr(one, test)(0) for one in found]
        assert {one.df for one in tests} == {wanted}
        error = np.sqrt(2 * wanted / len(tests))
        assert np.mean([one.statistic for one in tests]) == pytest.approx(wanted, abs=4 * error)


@pytest.mark.parametrize("name", MODELS)
def test_skewed_noise_and_a_moving_spread_are_found_in_every_model(name):
    fit, draw, facts, _ = MODELS[name]
    bent = fit(draw(1, n_rows=3_000, noise=skewed, **facts))
    moving = fit(draw(1, n_rows=3_000, spread=0.3, **facts))
    assert bent.normality_test(0).rejects() and moving.heteroskedasticity_test(0).rejects()
    page = " ".join(str(bent.summary()).split())
    assert "NORMALITY REJECTED" in page and "EFFECT ON SLOPES UNKNOWN" in page
    assert "CONSTANT VARIANCE REJECTED" in " ".join(moving.rejections())


@pytest.mark.parametrize("name", WITH_MOVING)
def test_the_bootstrap_agrees_with_the_asymptotic_test(name):
    fit, draw, facts, _ = WITH_MOVING[name]
    result = fit(draw(3, n_rows=1_000, **facts))
    for test in TESTS:
        quick, slow = (getattr(result, test)(n, seed=1) for n in (0, 39))
        assert slow.df == quick.df and slow.replications >= 36
        # A rank among 39 has a standard error of 0.08; chi-squares are approximate besides.
        assert slow.p_value == pytest.approx(quick.p_value, abs=0.4)


@pytest.mark.parametrize("name", WITH_MOVING)
def test_clusters_are_summed_before_moments_are_compared(name):
    fit, draw, facts, _ = WITH_MOVING[name]
    data = draw(4, **facts)
    once = fit(data, cluster="g")
    twice = fit(data.loc[data.index.repeat(2)], cluster="g")
    for test in TESTS:
        one, other = getattr(once, test)(0), getattr(twice, test)(0)
        assert one.undecided and "rows are clustered by g" in one.reason
        # Rows that are there twice say nothing new where clusters are what counts.
        assert other.statistic == pytest.approx(one.statistic, rel=0.1)
    ranked = once.normality_test(19, seed=1)
    assert ranked.possible and 1 / 20 <= ranked.p_value <= 1.0


@pytest.mark.parametrize("name", WITH_MOVING)
def test_frequency_weights_are_repeated_rows_and_probability_weights_are_not(name):
    fit, draw, facts, _ = WITH_MOVING[name]
    data = draw(5, **facts)
    times = np.random.default_rng(0).integers(1, 4, len(data))
    counted = fit(data, weights=times, weights_kind="frequency")
    repeated = fit(data.loc[data.index.repeat(times)])
    sampled = fit(data, weights=times, weights_kind="probability")
    for test in TESTS:
        one, other, third = (getattr(each, test)(0) for each in (counted, repeated, sampled))
        # Each draws its own rows to know the spread by.
        assert one.statistic == pytest.approx(other.statistic, rel=0.15)
        assert third.undecided and third.statistic != pytest.approx(one.statistic, rel=0.01)
    assert sampled.heteroskedasticity_test(19, seed=1).possible


@pytest.mark.parametrize("name", WITH_MOVING)
def test_a_loaded_fit_has_the_same_tests_and_page(name, tmp_path):
    fit, draw, facts, _ = WITH_MOVING[name]
    result = fit(draw(6, **facts))
    result.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    for test in TESTS:
        assert getattr(loaded, test)(0) == getattr(result, test)(0)
    assert str(loaded.summary()) == str(result.summary())
    assert str(loaded.diagnose()) == str(result.diagnose())


def test_where_scales_move_the_tests_look_for_what_else_moves_them():
    sound = moving(outcomes(1, n_rows=3_000, spread=0.3))
    assert not any(getattr(sound, test)(0).rejects() for test in TESTS)
    assert sound.heteroskedasticity_test(0).null == "variance does not depend on further covariates"
    bent = moving(outcomes(1, n_rows=3_000, spread=0.3, noise=skewed))
    wrong = moving(outcomes(1, n_rows=3_000, spread=0.3, further=0.2))
    assert bent.normality_test(0).rejects() and wrong.heteroskedasticity_test(0).rejects()
    said = " ".join(wrong.rejections())
    assert "FORM OF THE VARIANCE REJECTED" in said
    assert "let the scale move with more covariates: noises.Independent(scale='~ ...')" in said


def test_advice_to_let_the_scale_move_names_a_noise_that_can():
    data = outcomes(1, n_rows=3_000, spread=0.3, rho=0.5)
    (said,) = [one for one in correlated(data).rejections() if one.startswith("CONSTANT VAR")]
    assert said.endswith("let the scale move: noises.Correlated(scale='~ ...').")
    data = selected(1, n_rows=3_000, spread=0.3)
    (said,) = [one for one in switching(data).rejections() if one.startswith("CONSTANT VAR")]
    assert said.endswith("Robust standard errors do not correct for this.")


def test_moving_scales_are_tested_where_the_choice_was_not_recorded():
    data = outcomes(2, n_rows=1_000, spread=0.3, noise=skewed)
    fit = ss.fit("y ~ x1 + x2", data, alternatives=2, noise=ss.noises.Independent("~ x1"))
    assert fit.heteroskedasticity_test(0).df == 2
    assert fit.normality_test(0).rejects()
    (said,) = [one for one in fit.rejections() if one.startswith("EFFECT ON SLOPES")]
    assert "no grade" in said and "where the choice was recorded" in said


def test_files_and_memory_agree(tmp_path):
    data = outcomes(7, rho=0.5, n_rows=900)
    data.to_parquet(tmp_path / "rows.parquet", row_group_size=250)
    here, there = correlated(data), correlated(tmp_path / "rows.parquet")
    for test in TESTS:
        one, other = getattr(here, test)(0), getattr(there, test)(0)
        assert other.df == one.df
        assert other.statistic == pytest.approx(one.statistic, rel=1e-4)


def test_a_selection_that_one_dummy_decides_has_no_shape_to_test():
    """Its probit fits every cell: what scores explain in full is left out, and said so."""
    data = selected(8, n_rows=800)
    data["z"] = (data["z"] > 0).astype(float)
    rng = np.random.default_rng(0)
    inside = 0.3 + data["z"] + rng.normal(size=800) > 0
    data = data.assign(where=inside, y=1 + data["x"] + rng.normal(size=800))
    fit = ss.switching("y ~ x", "where ~ z", data)
    test = fit.normality_test(0)
    assert test.possible and test.df <= 6 and test.statistic < 30


def test_every_summary_has_a_line_on_dependence_shape_and_spread():
    fits = [fit(draw(9, **facts)) for fit, draw, facts, _ in MODELS.values()]
    fits.append(ss.switching("y ~ x", "where ~ x + z", selected(9), method="two-step"))
    fits.append(ss.fit("y ~ x1 + x2", outcomes(9), chosen="who", noise=ss.noises.SharedShock()))
    fits.append(ss.fit("y ~ x1 + x2", outcomes(9), alternatives=2))
    for fit in fits:
        notes = fit.summary().notes
        for subject in ("independence", "normality", "heteroskedasticity"):
            (line,) = [note for note in notes if f"est of {subject}" in note]
            assert (
                (" p = " in line or " p <" in line)
                or "not tested, " in line
                or "no verdict: " in line
            )


def test_what_was_not_tested_is_in_the_diagnosis_and_the_report():
    fit = ss.switching("y ~ x", "where ~ x + z", selected(9), method="two-step")
    why = "two-step estimates do not maximise a likelihood"
    said = f"? Not tested: normality and constant variance, {why}"
    assert said in str(fit.diagnose())
    parts = diagnosis_chapter(fit).parts
    sentences = [said for one in parts if isinstance(one, Findings) for _, said in one.entries]
    assert sum(f"not tested, {why}" in said for said in sentences) == 2
    assert not any(said.startswith("Not tested") for said in sentences)


def test_a_binary_outcome_shows_too_little_of_its_noise():
    data = selected(9).assign(y=lambda t: (t["y"] > 0.5).astype(float).where(t["where"]))
    fit = ss.sample_selection("y ~ x", "where ~ x + z", data, binary=True)
    for test in TESTS:
        assert "a binary outcome shows only one side of zero" in getattr(fit, test)(0).reason
    assert "Not tested: normality and constant variance" in str(fit.diagnose())


def test_silent_rows_of_a_selection_are_drawn_as_often_as_they_were():
    data = selected(9, n_rows=3_000)
    data["y"] = data["y"].where(data["where"] & (data.index % 4 > 0))
    fit = ss.sample_selection("y ~ x", "where ~ x + z", data, missing_outcome="silent")
    rng, natural = np.random.default_rng(0), fit.problem.layout.natural(fit.solution.free)
    drawn = draw_outcomes(fit.problem, natural, fit.rows, rng).record()
    selects = drawn.chosen >= 0
    assert np.isnan(drawn.outcome[~selects]).all()
    assert np.isnan(drawn.outcome[selects]).mean() == pytest.approx(0.25, abs=0.03)
    assert selects.mean() == pytest.approx(data["where"].mean(), abs=0.04)
    assert not any(getattr(fit, test)(0).rejects() for test in TESTS)


def test_rows_that_lack_covariates_of_the_other_outcome_cannot_be_drawn():
    data = selected(10)
    data["w"] = np.where(data["where"], np.nan, data["z"] ** 2)
    fit = ss.switching({True: "y ~ x", False: "y ~ x + w"}, "where ~ x + z", data)
    test = fit.normality_test(0)
    assert not test.possible and "some rows lack covariates of an outcome" in str(test)


def test_limits_that_only_some_rows_have_cannot_be_set_to_draws():
    data = outcomes(11)
    high = data["y"] > 1.5
    bounds = data.assign(y=data["y"].where(~high), low=np.where(high, 1.5, np.nan))
    fit = ss.fit("y ~ x1 + x2", bounds, chosen="who", outcome_between=("low", None))
    assert "limits are known only in rows without an outcome" in str(fit.normality_test(0))
    fit = ss.fit("y ~ x1 + x2", bounds.assign(low=1.5), chosen="who", outcome_between=("low", None))
    assert fit.normality_test(0).possible
    wide = data.assign(y=data["y"].where(np.arange(500) % 9 > 0))
    fit = ss.fit("y ~ x1 + x2", wide, chosen="who", outcome_between=(-50.0, None))
    assert "some recorded outcomes lie within their limits" in str(fit.normality_test(0))


def test_normal_noise_fitted_as_logistic_is_found():
    fit = ss.fit("y ~ x1 + x2", outcomes(12, n_rows=4_000), chosen="who",
                 noise=ss.noises.Independent(shape="logistic"))  # fmt: skip
    assert fit.normality_test(0).rejects()
    assert fit.rejections()[0].startswith(("INDEPENDENCE", "LOGISTIC SHAPE REJECTED"))
    assert any(one.startswith("LOGISTIC SHAPE REJECTED") for one in fit.rejections())


def test_the_unknown_index_has_no_grade_and_says_so():
    sample = ss.simulators.gaussian(1_500, 2, 2, norm=2.0, seed=1)
    bent = sample.data.assign(outcome=np.exp(0.5 * sample.data["outcome"]))
    fit = ss.fit("outcome ~ x1 + x2", bent, alternatives=2)
    assert fit.normality_test(0).rejects()
    (said,) = [one for one in fit.rejections() if one.startswith("EFFECT ON SLOPES")]
    assert "no grade" in said and "where the choice was recorded" in said
