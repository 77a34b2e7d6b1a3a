"""Rows that were selected and have no outcome count for the selection alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import selfselect as ss
from selfselect.errors import DataError
from selfselect.likelihoods import row_terms


@pytest.fixture(scope="module")
def lost(table):
    """Leave out some outcomes, and an own covariate of some of them."""
    rng = np.random.default_rng(3)
    gone = rng.random(len(table)) < 0.2
    return table.assign(
        wage=table["wage"].mask(gone), y=table["y"].mask(gone), w=table["w"].mask(gone), gone=gone
    )


def selection(data, **options):
    return ss.sample_selection("wage ~ x + w", "works ~ x + z", data, **options)


def switching(data, **options):
    return ss.switching({"in": "y ~ x", "out": "y ~ x + w"}, "chosen ~ x + z", data, **options)


@pytest.fixture(params=[selection, switching], ids=["sample selection", "switching"])
def call(request):
    return request.param


def test_selection_is_estimated_from_all_rows_and_better(lost, call):
    fit = call(lost, missing_outcome="silent")
    dropped = call(lost.assign(w=lost["w"].fillna(0.0)), missing_outcome="drop")
    assert fit.nobs == len(lost) and dropped.nobs < len(lost)
    assert (fit.bse["selection"] < dropped.bse["selection"]).all()
    said = " ".join(str(fit.summary()).split())
    step = "selection" if call is selection else "choice"
    assert f"have no recorded outcome; they count for the {step} alone" in said


def test_two_steps_and_robust_errors_take_them_too(lost, call):
    two = call(lost, missing_outcome="silent", method="two-step")
    probit = call(lost.assign(wage=lost["wage"].fillna(0.0), y=lost["y"].fillna(0.0),
                              w=lost["w"].fillna(0.0)), method="two-step")  # fmt: skip
    np.testing.assert_allclose(two.params["selection"], probit.params["selection"], rtol=1e-6)
    robust = call(lost, missing_outcome="silent", covariance="robust")
    assert np.isfinite(robust.bse).all()


def test_the_share_of_the_selected_counts_them(lost):
    fit = selection(lost, missing_outcome="silent")
    assert fit.shares["outcome"] == pytest.approx(lost["works"].mean())
    assert fit.counts["outcome"] == lost["works"].sum()
    assert f"(observed in {(lost['works'] & ~lost['gone']).sum()} rows)" in str(fit.summary())
    ss.plots.residuals(fit)


def test_rows_without_an_outcome_were_chosen_too(lost, tmp_path):
    # Their outcome is missing, and not their choice: counts and shares are of the choice.
    lost = lost.assign(y=lost["y"].mask(lost["gone"] | (lost["works"] & (lost.index % 2 == 0))))
    wanted, shown = lost["chosen"].value_counts(), lost["chosen"][lost["y"].notna()].value_counts()
    lost.to_parquet(tmp_path / "rows.parquet")
    for data in (lost, tmp_path / "rows.parquet"):
        fit = switching(data, missing_outcome="silent")
        assert fit.counts.to_dict() == wanted.to_dict()
        assert fit.shares.to_dict() == pytest.approx((wanted / len(lost)).to_dict(), rel=1e-12)
        assert fit.facts.n_selected_silent == lost["y"].isna().sum()
        text = str(fit.summary())
        assert all(f"{label} (observed in {shown[label]} rows)" in text for label in shown.index)
        assert f"'in' is observed in {shown['in']} of {len(lost)} rows" in str(fit.diagnose())
    fit.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    pd.testing.assert_series_equal(loaded.counts, fit.counts)
    pd.testing.assert_series_equal(loaded.shares, fit.shares)
    assert str(loaded.summary()) == str(fit.summary())


@pytest.mark.parametrize("kind", ["frequency", "probability"])
def test_their_counts_follow_the_kind_of_weights(lost, call, kind):
    lost = lost.assign(weight=lost["weight"].mask(lost.index % 11 == 0, 0.0))
    fit = call(lost, missing_outcome="silent", weights="weight", weights_kind=kind)
    each = lost["weight"] if kind == "frequency" else (lost["weight"] > 0).astype(float)
    groups = lost["works"].map({True: "in", False: "out"})
    wanted = each.groupby(groups).sum() / each.sum()
    seen = lost["gone"].groupby(groups).agg(lambda gone: each[gone.index][~gone].sum())
    label = fit.shares.index[0]
    assert fit.shares[label] == pytest.approx(wanted["in"], rel=1e-12)
    assert fit.counts[label] == round(wanted["in"] * each.sum())
    assert f"(observed in {seen['in']:.0f} rows)" in str(fit.summary())


def test_too_few_outcomes_of_many_choices_are_refused(lost):
    shown = (lost["works"] & ~lost["gone"]).cumsum()
    few = lost.assign(y=lost["y"].where((lost["chosen"] == "out") | (shown <= 3)))
    with pytest.raises(DataError, match="'in' is chosen in 3 rows with a known outcome but has 4"):
        switching(few, missing_outcome="silent")


def test_outcomes_that_are_all_missing_and_unknown_choices_are_refused(lost, call):
    empty = lost.assign(wage=np.nan, y=np.where(lost["works"], np.nan, lost["y"]))
    with pytest.raises(DataError, match="No row"):
        call(empty, missing_outcome="silent")
    unknown = lost.assign(works=lost["works"].astype(object).mask(lost.index == 3),
                          chosen=lost["chosen"].mask(lost.index == 3))  # fmt: skip
    with pytest.raises(DataError, match="the chosen alternative is not known"):
        call(unknown, missing_outcome="silent")
    with pytest.raises(DataError, match="missing_outcome='silent' keeps them"):
        call(lost.assign(w=lost["w"].fillna(0.0)))


def test_ordered_alternatives_have_them_too(ordered_table):
    order = ["none", "part", "full"]
    lost = ordered_table.assign(pay=ordered_table["pay"].mask(ordered_table.index % 7 == 0))
    fit = ss.switching("pay ~ x", "hours ~ x + z", lost, ordered=order, missing_outcome="silent")
    params = fit.params["selection"]
    index = (params["x"] * lost["x"] + params["z"] * lost["z"]).to_numpy()
    ends = np.array([-np.inf, params["cut none|part"], params["cut part|full"], np.inf])
    place = lost["hours"].map(order.index).to_numpy()
    chance = np.log(norm.cdf(ends[place + 1] - index) - norm.cdf(ends[place] - index))
    silent = lost["pay"].isna().to_numpy()
    each = row_terms(fit.problem, fit.problem.layout.natural(fit.solution.free), fit.engine.batch)
    np.testing.assert_allclose(each.loglik[silent], chance[silent], rtol=1e-9)
    assert isinstance(fit.summary().notes, tuple) and pd.notna(fit.bse).all()
