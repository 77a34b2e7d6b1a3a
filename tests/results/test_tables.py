"""Tidy tables, the naive fit and the comparison."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss

NORMAL_EQUATIONS = 1e-7
"""Normal equations in internal units against QR in the user's."""


def test_tidy_has_the_columns_and_the_order_users_know(result: ss.FitResult) -> None:
    table = result.tidy()
    assert list(table.columns) == [
        "alternative", "term", "estimate", "std_error", "statistic", "p_value",
        "conf_low", "conf_high",
    ]  # fmt: skip
    assert table["alternative"].tolist() == ["fishing"] * 4 + ["hunting"] * 4
    assert table["term"].tolist() == ["Intercept", "height", "weight", "scale"] * 2
    scales = table[table["term"] == "scale"]
    assert scales[["statistic", "p_value"]].isna().to_numpy().all()
    assert scales["conf_low"].gt(0).all()
    narrow = result.tidy(level=0.5)
    assert (narrow["conf_low"] > table["conf_low"]).all()


def test_terms_keep_the_order_of_the_formula(villagers: pd.DataFrame) -> None:
    fit = ss.fit("income ~ weight + clan + height", villagers, chosen="job")
    assert fit.tidy()["term"].tolist()[:6] == [
        "Intercept", "weight", "clan[T.fox]", "clan[T.owl]", "height", "scale",
    ]  # fmt: skip


def test_a_common_scale_stands_once_and_a_fixed_one_not_at_all(
    common: ss.FitResult, fixed: ss.FitResult
) -> None:
    scales = common.tidy()[common.tidy()["term"] == "scale"]
    assert scales["alternative"].tolist() == ["(common)"]
    assert "scale" not in fixed.tidy()["term"].tolist()


def test_glance_is_one_row_for_the_fit(result: ss.FitResult) -> None:
    row = result.glance()
    assert len(row) == 1
    for name in ("nobs", "n_parameters", "llf", "aic", "bic", "converged", "n_steps"):
        assert row[name].iloc[0] == getattr(result, name)
    assert row["independence_p_value"].iloc[0] == result.independence_test().p_value


@pytest.mark.parametrize("formula", ["income ~ height + weight", "income ~ height + clan - 1"])
def test_the_naive_fit_is_least_squares_by_group(formula: str, villagers: pd.DataFrame) -> None:
    fit = ss.fit(formula, villagers, chosen="job")
    dummies = pd.get_dummies(villagers["clan"]).to_numpy(dtype=float)
    height, weight = villagers["height"].to_numpy(), villagers["weight"].to_numpy()
    X = (
        np.column_stack([height, dummies])
        if "clan" in formula
        else np.column_stack([np.ones(len(height)), height, weight])
    )
    order = {"height": 0, "clan[bear]": 1, "clan[fox]": 2, "clan[owl]": 3}
    for job in ("fishing", "hunting"):
        own = (villagers["job"] == job).to_numpy()
        y = villagers["income"].to_numpy()[own]
        terms = [term for term in fit.naive.loc[job].index if term != "scale"]
        places = [order[term] for term in terms] if "clan" in formula else [0, 1, 2]
        Z = X[own][:, places]
        coefficients, *_ = np.linalg.lstsq(Z, y, rcond=None)
        variance = ((y - Z @ coefficients) ** 2).sum() / (len(y) - Z.shape[1])
        errors = np.sqrt(np.diag(np.linalg.inv(Z.T @ Z)) * variance)
        found = fit.naive.loc[job]
        np.testing.assert_allclose(found.loc[terms, "estimate"], coefficients,
                                   rtol=NORMAL_EQUATIONS)  # fmt: skip
        np.testing.assert_allclose(found.loc[terms, "std_error"], errors, rtol=NORMAL_EQUATIONS)
        assert found.loc["scale", "estimate"] == pytest.approx(np.sqrt(variance), rel=1e-9)


def test_the_comparison_puts_naive_and_corrected_side_by_side(result: ss.FitResult) -> None:
    table = result.compare().table
    assert list(table.columns) == [
        "naive", "naive_se", "corrected", "corrected_se", "difference under the model",
    ]  # fmt: skip
    assert list(table.index) == list(result.params.index)
    np.testing.assert_array_equal(table["corrected"], result.params)
    np.testing.assert_array_equal(table["corrected_se"], result.bse)
    np.testing.assert_array_equal(
        table["difference under the model"], table["corrected"] - table["naive"]
    )


def test_the_comparison_knows_common_and_fixed_scales(
    common: ss.FitResult, fixed: ss.FitResult
) -> None:
    for job in ("fishing", "hunting"):
        row = common.compare().table.loc[(job, "scale")]
        assert row["corrected"] == common.params["(common)", "scale"]
        assert row["corrected_se"] == common.bse["(common)", "scale"]
        row = fixed.compare().table.loc[(job, "scale")]
        assert row["corrected"] == fixed.scales[job]
        assert np.isnan(row["corrected_se"])


def test_the_correction_is_nearer_to_the_truth_than_least_squares() -> None:
    sample = ss.simulators.village(20_000, seed=1)
    table = ss.fit(sample.formula, sample.data, chosen="job").compare().table
    slopes = [("hunting", "height"), ("fishing", "weight"), ("hunting", "weight")]
    for label in slopes:
        truth = sample.params[label]
        assert abs(table.loc[label, "corrected"] - truth) < 4 * table.loc[label, "corrected_se"]
        assert abs(table.loc[label, "naive"] - truth) > 4 * table.loc[label, "naive_se"]


@pytest.mark.parametrize("labels", [(True, False), (2, 1), ("<b>", "&")])
def test_tables_and_pages_work_for_labels_of_every_kind(
    labels: tuple[object, object], villagers: pd.DataFrame
) -> None:
    jobs = [labels[0] if job == "hunting" else labels[1] for job in villagers["job"]]
    for noise in (None, ss.noises.Independent("common"), ss.noises.Independent(10.0)):
        fit = ss.fit("income ~ height", villagers.assign(job=jobs), chosen="job", noise=noise)
        assert {label for label, _ in fit.compare().table.index} == set(labels)
        page = fit.compare().to_page()
        assert [len(block.rows) for block in page.blocks] == [3, 3]
        assert str(labels[0]) in str(fit.summary())


def test_a_comparison_prints_as_a_page_and_keeps_its_table(result):
    found = result.compare()
    assert "Naive least squares and corrected estimates" in str(found)
    assert repr(found).startswith("<Comparison: ")
    assert "<table" in found._repr_html_()
    assert found.table.columns[0] == "naive"


def test_alpha_is_one_less_the_level(result):
    pd.testing.assert_frame_equal(result.conf_int(alpha=0.1), result.conf_int(0.9))
    with pytest.raises(ss.errors.OptionError, match="Give one"):
        result.conf_int(0.9, alpha=0.1)
    with pytest.raises(ss.errors.OptionError, match="between 0 and 1"):
        result.conf_int(alpha=5)
