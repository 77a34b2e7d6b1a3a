"""The result: names, labels and numbers that agree with each other."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import selfselect as ss
from selfselect.errors import OptionError

EXACT = 1e-12
"""The same formula computed twice."""

LABELS = [
    ("fishing", "Intercept"), ("fishing", "height"), ("fishing", "weight"), ("fishing", "scale"),
    ("hunting", "Intercept"), ("hunting", "height"), ("hunting", "weight"), ("hunting", "scale"),
]  # fmt: skip


@pytest.mark.parametrize("name", ["params", "bse", "tvalues", "pvalues"])
def test_every_series_is_labelled_by_alternative_and_term(name: str, result: ss.FitResult) -> None:
    series = getattr(result, name)
    assert list(series.index) == LABELS
    assert series.index.names == ["alternative", "term"]


def test_standard_errors_statistics_and_p_values_agree(result: ss.FitResult) -> None:
    covariance = result.cov_params()
    assert list(covariance.index) == list(covariance.columns) == LABELS
    np.testing.assert_allclose(result.bse, np.sqrt(np.diag(covariance)), rtol=EXACT)
    np.testing.assert_allclose(covariance, covariance.T, rtol=EXACT, atol=EXACT)
    is_scale = np.array([term == "scale" for _, term in LABELS])
    expected = (result.params / result.bse).mask(is_scale)
    np.testing.assert_allclose(result.tvalues, expected, rtol=EXACT)
    np.testing.assert_allclose(
        result.pvalues, 2 * stats.norm.sf(np.abs(expected)), rtol=1e-9, atol=1e-300
    )


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_intervals_are_normal_and_those_of_scales_on_the_log_scale(
    level: float, result: ss.FitResult
) -> None:
    table = result.conf_int(level)
    assert list(table.columns) == ["conf_low", "conf_high"]
    reach = stats.norm.ppf(0.5 + level / 2)
    for label, (low, high) in zip(table.index, table.to_numpy(), strict=True):
        estimate, error = result.params[label], result.bse[label]
        if label[1] == "scale":
            factor = np.exp(reach * error / estimate)
            assert (low, high) == pytest.approx((estimate / factor, estimate * factor), rel=1e-9)
        else:
            ends = (estimate - reach * error, estimate + reach * error)
            assert (low, high) == pytest.approx(ends, rel=1e-9)


@pytest.mark.parametrize("level", [0.0, 1.0, 95, -0.1])
def test_a_level_that_is_none_is_refused(level: float, result: ss.FitResult) -> None:
    for ask in (result.conf_int, result.tidy, result.summary):
        with pytest.raises(OptionError, match="not a confidence level"):
            ask(level)


def test_the_fit_as_a_whole(result: ss.FitResult, villagers: pd.DataFrame) -> None:
    assert result.nobs == len(villagers)
    assert result.n_parameters == len(LABELS)
    assert result.aic == pytest.approx(2 * 8 - 2 * result.llf, rel=EXACT)
    assert result.bic == pytest.approx(8 * np.log(500) - 2 * result.llf, rel=EXACT)
    assert result.counts.to_dict() == villagers["job"].value_counts().to_dict()
    assert result.converged
    assert result.status.startswith("Converged in")
    assert result.n_steps == len(result.trace)
    assert list(result.trace.columns) == ["rows", "loglik", "distance", "step_size"]
    assert result.trace["loglik"].is_monotonic_increasing


def test_the_log_likelihood_is_that_of_the_estimates(
    result: ss.FitResult, villagers: pd.DataFrame
) -> None:
    latent, scales = result.predict(villagers), result.scales
    hunts = (villagers["job"] == "hunting").to_numpy()
    z = {job: (villagers["income"] - latent[job]) / scales[job] for job in scales.index}
    own = {job: stats.norm.logpdf(z[job]) - np.log(scales[job]) for job in scales.index}
    below = {job: stats.norm.logcdf(z[job]) for job in scales.index}
    loglik = np.where(
        hunts, own["hunting"] + below["fishing"], own["fishing"] + below["hunting"]
    ).sum()
    assert result.llf == pytest.approx(loglik, rel=1e-9)


def test_scales_are_listed_whether_estimated_shared_or_fixed(
    result: ss.FitResult, common: ss.FitResult, fixed: ss.FitResult
) -> None:
    for job in ("fishing", "hunting"):
        assert result.scales[job] == result.params[job, "scale"]
        assert common.scales[job] == common.params["(common)", "scale"]
    assert fixed.scales.to_dict() == {"fishing": 9.0, "hunting": 14.0}
    assert "scale" not in fixed.params.index.get_level_values("term")


def test_weights_that_count_rows_are_rows(villagers: pd.DataFrame) -> None:
    twice = np.where(np.arange(len(villagers)) % 3 == 0, 2.0, 1.0)
    repeated = villagers.loc[villagers.index.repeat(twice.astype(int))]
    weighted = ss.fit("income ~ height", villagers, chosen="job", weights=twice)
    longer = ss.fit("income ~ height", repeated, chosen="job")
    np.testing.assert_allclose(weighted.params, longer.params, rtol=1e-6)
    np.testing.assert_allclose(weighted.bse, longer.bse, rtol=1e-6)
    assert weighted.bic == pytest.approx(longer.bic, rel=1e-9)
    assert weighted.nobs == len(villagers)


def test_a_result_is_frozen(result: ss.FitResult) -> None:
    with pytest.raises(FrozenInstanceError):
        result.facts = None  # type: ignore[misc, assignment]


def test_a_fit_that_did_not_converge_says_so_everywhere(stopped: ss.FitResult) -> None:
    assert not stopped.converged
    assert stopped.status.startswith("Stopped after 1 steps")
    assert "NOT CONVERGED" in repr(stopped)
    page = stopped.summary()
    assert page.notices[0].startswith("NOT CONVERGED. Stopped after 1 steps")
    assert str(page).splitlines()[1].startswith("! NOT CONVERGED")
    assert not bool(stopped.glance()["converged"].iloc[0])


def test_its_representation_is_one_line(result: ss.FitResult) -> None:
    assert repr(result).count("\n") == 0
    assert "income of fishing, hunting; 500 rows" in repr(result)
    assert result._repr_html_() == result.summary().to_html()
