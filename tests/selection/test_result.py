"""Results speak as every other result does: tables, pages, tests."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import ConvergenceWarning, DataError


@pytest.fixture(scope="module")
def selection(table):
    return ss.sample_selection("wage ~ x", "works ~ x + z", table)


@pytest.fixture(scope="module")
def switching(table):
    return ss.switching({"in": "y ~ x", "out": "y ~ x + w"}, "chosen ~ x + z", table)


@pytest.fixture(params=["selection", "switching"])
def fit(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("method", ["ml", "two-step"])
def test_a_choice_in_backticks_is_the_column_of_that_name(table, method, tmp_path):
    renamed = table.rename(columns={"chosen": "my choice"})
    formulas = {"in": "y ~ x", "out": "y ~ x + w"}
    result = ss.switching(formulas, "`my choice` ~ x + z", renamed, method=method)
    same = ss.switching(formulas, "chosen ~ x + z", table, method=method)
    np.testing.assert_allclose(result.params, same.params)
    assert result.facts.chosen == "my choice"
    assert "my choice" in result.simulate(seed=1)
    result.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    np.testing.assert_allclose(
        loaded.predict(renamed, kind="chance"), result.predict(kind="chance")
    )


def test_a_choice_in_backticks_may_be_misspelt(table):
    with pytest.raises(DataError, match="no column 'my chosen'"):
        ss.switching("y ~ x", "`my chosen` ~ x + z", table)


def test_parameters_are_labelled_by_alternative_and_term(selection, switching):
    assert selection.names == [
        "outcome:Intercept", "outcome:x", "outcome:scale", "outcome:correlation",
        "selection:Intercept", "selection:x", "selection:z",
    ]  # fmt: skip
    assert switching.params.index.names == ["alternative", "term"]
    assert list(switching.scales.index) == ["in", "out"]
    assert list(switching.correlations.index) == ["in", "out"]
    assert switching.counts.sum() == switching.nobs == 400
    assert selection.counts["outcome"] < selection.nobs == 400


def test_tables_agree_with_each_other(fit):
    table = fit.tidy()
    np.testing.assert_allclose(table["estimate"], fit.params)
    np.testing.assert_allclose(fit.bse**2, np.diag(fit.cov_params()))
    coefficient = ~table["term"].isin(["scale", "correlation"])
    np.testing.assert_allclose(
        table["statistic"][coefficient], (fit.params / fit.bse)[coefficient.to_numpy()]
    )
    rho, error = fit.correlations, fit.bse.xs("correlation", level="term")
    np.testing.assert_allclose(
        table["statistic"][table["term"] == "correlation"],
        np.arctanh(rho) * (1 - rho**2) / error,
    )
    coefficient = table["term"] != "scale"
    np.testing.assert_array_equal(fit.tvalues, table["statistic"])
    np.testing.assert_array_equal(fit.pvalues, table["p_value"])
    assert table["statistic"][~coefficient].isna().all()


def test_intervals_of_correlations_stay_within_one(fit):
    ends = fit.conf_int(0.999999).xs("correlation", level="term")
    assert (ends["conf_low"] > -1).all()
    assert (ends["conf_high"] < 1).all()
    own = fit.conf_int(0.9).xs("correlation", level="term")
    rho, error = fit.correlations, fit.bse.xs("correlation", level="term")
    reach = 1.6448536269514722 * error / (1 - rho**2)
    np.testing.assert_allclose(own["conf_low"], np.tanh(np.arctanh(rho) - reach))
    np.testing.assert_allclose(own["conf_high"], np.tanh(np.arctanh(rho) + reach))


def test_criteria_follow_from_the_log_likelihood(fit):
    assert fit.n_parameters == len(fit.params)
    assert fit.aic == pytest.approx(2 * len(fit.params) - 2 * fit.llf)
    assert fit.bic == pytest.approx(np.log(400) * len(fit.params) - 2 * fit.llf)
    assert fit.glance()["llf"][0] == fit.llf


def test_naive_estimates_are_least_squares_of_what_was_seen(table, switching):
    own = table[table["chosen"] == "out"]
    x = np.column_stack([np.ones(len(own)), own["x"], own["w"]])
    b, *_ = np.linalg.lstsq(x, own["y"], rcond=None)
    left_over = own["y"] - x @ b
    errors = np.sqrt(np.diag(np.linalg.inv(x.T @ x)) * (left_over @ left_over) / (len(own) - 3))
    compared = switching.compare().table.loc["out"].drop(index="scale")
    np.testing.assert_allclose(compared["naive"], b, rtol=1e-9)
    np.testing.assert_allclose(compared["naive_se"], errors, rtol=1e-9)
    np.testing.assert_allclose(compared["corrected"], switching.params.loc["out"].iloc[:3])
    difference = compared["corrected"] - compared["naive"]
    np.testing.assert_allclose(compared["difference under the model"], difference)


def test_independence_is_rejected_where_noise_is_correlated(table, fit):
    test = fit.independence_test()
    assert test.df == len(fit.correlations)
    assert test.statistic == pytest.approx(2 * (fit.llf - fit.llf_independent))
    assert test.rejects()
    for method in ("ml", "two-step"):
        other = ss.switching(
            {"in": "y ~ x", "out": "y ~ x + w"}, "chosen ~ x + z", table, method=method,
            covariance="robust",
        ).independence_test()  # fmt: skip
        assert "Wald" in other.name
        assert other.rejects()


def test_without_correlation_the_likelihood_is_the_probits_and_least_squares(table, switching):
    from scipy.stats import norm

    probit = ss.switching("y ~ 1", "chosen ~ x + z", table, method="two-step")
    gamma = probit.params.loc["selection"].to_numpy()
    index = np.column_stack([np.ones(400), table["x"], table["z"]]) @ gamma
    total = norm.logcdf(np.where(table["works"], index, -index)).sum()
    for label, columns in (("in", ["x"]), ("out", ["x", "w"])):
        own = table[table["chosen"] == label]
        x = np.column_stack([np.ones(len(own)), own[columns]])
        b, *_ = np.linalg.lstsq(x, own["y"], rcond=None)
        left_over = own["y"] - x @ b
        total += norm.logpdf(left_over, scale=np.sqrt(np.mean(left_over**2))).sum()
    assert switching.llf_independent == pytest.approx(total, rel=1e-9)


def test_the_summary_says_what_matters(selection, switching):
    text = str(switching.summary())
    for words in (
        "Endogenous switching (tobit-5), maximum likelihood", "in (observed in",
        "selection towards in",
        "correlation", "Excluded from in: z; strength chi2(1) =",
        "Likelihood-ratio test of independence", "observed information",
    ):  # fmt: skip
        assert words in text
    assert "Sample selection (tobit-2)" in str(selection.summary())
    assert max(map(len, text.splitlines())) <= 79


def test_the_strength_of_an_exclusion_is_walds_test_of_the_first_step(table):
    data = table.assign(noise=np.random.default_rng(4).standard_normal(len(table)))
    for method in ("ml", "two-step"):
        fit = ss.sample_selection("wage ~ x", "works ~ x + z + noise", data, method=method)
        (found,) = fit.exclusions()
        same = fit.wald_test("selection:z = 0, selection:noise = 0")
        assert (found.alternative, found.terms) == ("outcome", ("z", "noise"))
        assert (found.test.statistic, found.test.df) == (pytest.approx(same.statistic), 2)
        assert not found.weak
        weak = ss.sample_selection("wage ~ x + z", "works ~ x + z + noise", data, method=method)
        (found,) = weak.exclusions()
        assert found.weak and found.terms == ("noise",)
        said = " ".join(str(weak.summary()).split())
        assert "Excluded from outcome: noise; strength chi2(1) = " in said and ", weak." in said
        assert ('conf_int(method="profile")' if method == "ml" else "method='ml'") in said
    clustered = ss.sample_selection("wage ~ x", "works ~ x + z", data, cluster="group")
    assert clustered.exclusions()[0].test.df_residual is not None
    roy = ss.fit("y ~ x", data, chosen="chosen")
    with pytest.raises(ss.errors.UnsupportedError, match="Only models with a selection equation"):
        roy.exclusions()


def test_the_summary_says_when_only_functional_form_identifies(table):
    fit = ss.sample_selection("wage ~ x", "works ~ x", table)
    assert fit.exclusions()[0].weak and fit.exclusions()[0].test is None
    assert "identified by functional form" in " ".join(str(fit.summary()).split())
    assert "of the Mills ratio's size" in " ".join(str(fit.summary()).split())


def test_pages_come_in_every_form(fit):
    page = fit.summary()
    assert "<table>" in page.to_html()
    assert "<table>" in fit._repr_html_()
    assert r"\begin{tabular}" in page.to_latex()
    assert "| correlation |" in page.to_markdown()
    assert "converged" in repr(fit)


def test_rows_left_out_are_counted_and_said(table):
    lacking = table.assign(z=table["z"].where(table.index != 3))
    with pytest.warns(ss.errors.MissingRowsWarning, match="1 of 400 rows"):
        fit = ss.sample_selection("wage ~ x", "works ~ x + z", lacking)
    assert fit.nobs == 399
    assert "1 rows with a missing covariate were left out" in str(fit.summary())


def test_a_climb_that_is_cut_short_says_so(table, monkeypatch):
    monkeypatch.setattr("selfselect.solvers.climb._lands", lambda *_: False)
    with pytest.warns(ConvergenceWarning, match="Not converged"):
        fit = ss.sample_selection("wage ~ x", "works ~ x + z", table)
    assert not fit.converged
    assert "NOT CONVERGED" in str(fit.summary())
    assert not fit.independence_test().possible


def test_maketables_prints_it_beside_others(fit):
    import maketables

    printed = maketables.ETable([fit]).make(type="tex")
    assert "correlation" in str(printed)


def test_starts_are_listed(fit):
    assert isinstance(fit.starts, pd.DataFrame)
    assert fit.starts["name"].iloc[0] == "two-step"
    assert fit.starts["loglik"].max() == fit.llf
