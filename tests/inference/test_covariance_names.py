"""Covariances by the names that other programs have for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import OptionError
from selfselect.inference.sandwich import row_products


@pytest.fixture(scope="module")
def villagers() -> pd.DataFrame:
    return ss.simulators.village(400, seed=5).data


def fitted(villagers: pd.DataFrame, covariance: Any, **options: Any) -> ss.FitResult:
    return ss.fit(
        "income ~ height + weight", villagers, chosen="job", covariance=covariance, **options
    )


def switched(villagers: pd.DataFrame, covariance: Any, method: str) -> ss.FitResult:
    return ss.switching(
        "income ~ height", "job ~ height + weight", villagers, method=method, covariance=covariance
    )


@pytest.mark.parametrize(
    ("name", "same"),
    [("nonrobust", "observed"), ("OIM", "observed"), ("sandwich", "HC0"), ("Robust", "robust")],
)
def test_names_of_other_programs_mean_what_they_mean_there(
    name: str, same: str, villagers: pd.DataFrame
) -> None:
    one, other = fitted(villagers, name), fitted(villagers, same)
    assert one.covariance.kind == other.covariance.kind == same
    np.testing.assert_array_equal(one.covariance.matrix, other.covariance.matrix)


def test_hc0_and_opg_are_made_of_plain_scores(villagers: pd.DataFrame) -> None:
    observed = fitted(villagers, "observed")
    free, jacobian = observed.solution.free, observed.reported.jacobian
    meat, count = row_products(observed.problem, observed.engine_of_rows(), free, repeated=False)
    bread = np.linalg.inv(observed.solution.information)
    assert count == 400
    np.testing.assert_allclose(
        fitted(villagers, "hc0").covariance.matrix,
        jacobian @ bread @ meat @ bread @ jacobian.T,
        rtol=1e-9,
    )
    np.testing.assert_allclose(
        fitted(villagers, "opg").covariance.matrix,
        jacobian @ np.linalg.inv(meat) @ jacobian.T,
        rtol=1e-9,
    )


def test_hc1_is_hc0_times_rows_over_rows_less_parameters(villagers: pd.DataFrame) -> None:
    plain, factor = fitted(villagers, "HC0"), 400 / (400 - 8)
    np.testing.assert_allclose(
        fitted(villagers, "HC1").covariance.matrix, plain.covariance.matrix * factor, rtol=1e-12
    )


@pytest.mark.parametrize(("method", "n_parameters"), [("ml", 11), ("two-step", 9)])
def test_hc1_of_a_selection_counts_the_parameters_of_all_equations(
    method: str, n_parameters: int, villagers: pd.DataFrame
) -> None:
    # Two-step scales and correlations are no estimates of their own.
    one, other = (switched(villagers, name, method) for name in ("HC1", "HC0"))
    np.testing.assert_allclose(
        one.covariance.matrix, other.covariance.matrix * 400 / (400 - n_parameters), rtol=1e-12
    )


def test_frequency_weights_count_as_the_rows_they_stand_for(villagers: pd.DataFrame) -> None:
    twice = pd.concat([villagers, villagers], ignore_index=True)
    weighed = fitted(villagers.assign(w=2), "HC1", weights="w", weights_kind="frequency")
    np.testing.assert_allclose(
        weighed.covariance.matrix, fitted(twice, "HC1").covariance.matrix, rtol=1e-6
    )


def test_uncorrected_sandwiches_are_sandwiches_everywhere(villagers: pd.DataFrame) -> None:
    result = fitted(villagers, "HC1")
    assert "robust (HC1)" in str(result.summary())
    assert "Robust standard errors allow for" in str(result.summary())
    smaller = ss.fit("income ~ height", villagers, chosen="job", covariance="HC1")
    assert "robust covariance" in str(result.lr_test(smaller))
    with pytest.raises(ss.errors.UnsupportedError, match="robust or clustered"):
        result.conf_int(method="profile")
    # Errors of averages cross estimation and sampling, as they do for "robust".
    one, other = (
        fit.treatment_effects("hunting", "fishing").table["std_error"].to_numpy()
        for fit in (result, fitted(villagers, "robust"))
    )
    np.testing.assert_allclose(one, other, rtol=0.05)


def test_a_saved_fit_keeps_the_name(villagers: pd.DataFrame, tmp_path: Any) -> None:
    fitted(villagers, "HC1").save(tmp_path / "fit.json")
    assert ss.load(tmp_path / "fit.json").covariance.kind == "HC1"


def test_clusters_are_not_ignored_by_a_name_that_ignores_them(villagers: pd.DataFrame) -> None:
    table = villagers.assign(house=np.arange(400) % 50)
    assert fitted(table, "cluster", cluster="house").covariance.kind == "clustered"
    for name in ("HC0", "HC1", "opg"):
        with pytest.raises(OptionError, match="rows are clustered by house"):
            fitted(table, name, cluster="house")
    with pytest.raises(OptionError, match="probability weights"):
        fitted(table.assign(w=1.5), "opg", weights="w", weights_kind="probability")
    with pytest.raises(OptionError, match="needs to know the clusters"):
        fitted(table, "cluster")


def test_what_is_no_covariance_is_refused(villagers: pd.DataFrame) -> None:
    with pytest.raises(OptionError, match="There is no covariance 'HC7'"):
        fitted(villagers, "HC7")
    with pytest.raises(OptionError, match="this estimate has two steps"):
        switched(villagers, "opg", "two-step")
