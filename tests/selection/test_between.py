"""Outcomes known only to lie between limits, in rows that a selection equation selects."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import DataError, OptionError, UnsupportedError
from selfselect.likelihoods import evaluate
from selfselect.report.chapters import data_chapter
from selfselect.results.memberships import generalised_residuals

EDGES = np.array([-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0])
LIMITS = ("low", "high")
FORMULAS = {"in": "y ~ x", "out": "y ~ x + w"}
ORDERED = {"none": "pay ~ x", "part": "pay ~ x + w", "full": "pay ~ x"}


def selection(data, **options):
    return ss.sample_selection("wage ~ x", "works ~ x + z", data, **options)


def switching(data, **options):
    return ss.switching(FORMULAS, "chosen ~ x + z", data, **options)


def ordered(data, **options):
    return ss.switching(ORDERED, "hours ~ x + z", data, ordered=[*ORDERED], **options)


MODELS = {"sample selection": selection, "switching": switching, "ordered": ordered}
OUTCOMES = {selection: "wage", switching: "y", ordered: "pay"}


def bracketed(table, outcome, *, recorded=None):
    """Put outcomes into brackets; the first and the last have one limit. Keep some as they are."""
    y = table[outcome].to_numpy()
    place = np.searchsorted(EDGES, y)
    inner = np.append(EDGES, np.nan)
    low, high = np.append(np.nan, EDGES)[place], inner[place]
    nothing = np.isnan(y)
    low[nothing] = high[nothing] = np.nan
    kept = np.zeros(len(y), dtype=bool) if recorded is None else recorded
    return table.assign(**{"low": low, "high": high, outcome: np.where(kept, y, np.nan)})


@pytest.fixture(params=MODELS)
def call(request):
    return MODELS[request.param]


@pytest.fixture
def whole(call, table, ordered_table):
    return ordered_table if call is ordered else table


def test_narrow_intervals_give_the_fit_of_the_outcomes_themselves(call, whole):
    outcome, width = OUTCOMES[call], 1e-6
    y = whole[outcome]
    narrow = whole.assign(low=y - width / 2, high=y + width / 2).drop(columns=outcome)
    fit = call(narrow.assign(**{outcome: np.nan}), outcome_between=LIMITS)
    exact = call(whole)
    np.testing.assert_allclose(fit.values, exact.values, atol=1e-6)
    np.testing.assert_allclose(fit.bse, exact.bse, rtol=1e-6)
    assert fit.llf == pytest.approx(exact.llf + y.notna().sum() * np.log(width), abs=1e-4)
    # The fit without correlation is the best there is without it, too.
    assert fit.independence_test().statistic == pytest.approx(
        exact.independence_test().statistic, abs=1e-4
    )


def test_outcomes_in_brackets_are_followed_to_a_correlation_of_one():
    rng = np.random.default_rng(5)
    x, z, u = rng.standard_normal((3, 400))
    wage, works = 0.5 + x + u, (0.3 + 0.5 * x + z + u > 0).astype(int)
    seen = np.where(works, wage, np.nan)
    data = pd.DataFrame({"x": x, "z": z, "works": works, "wage": seen})
    fit = selection(bracketed(data, "wage", recorded=x > 0), outcome_between=LIMITS)
    assert fit.converged and fit.boundary == ("outcome",)
    assert fit.correlations["outcome"] == pytest.approx(1.0)


def test_a_step_on_which_cut_points_would_change_places_is_not_taken(ordered_table):
    fit = ordered(bracketed(ordered_table, "pay"), outcome_between=LIMITS, start="two-step")
    natural = fit.problem.layout.natural(fit.solution.free)
    crossed = natural.copy()
    crossed[-2:] = natural[[-1, -2]]
    batch = fit.engine.batch
    assert np.isfinite(evaluate(fit.problem, natural, batch).loglik)
    assert evaluate(fit.problem, crossed, batch).loglik == -np.inf


def test_outcomes_that_are_recorded_need_no_limits(call, whole):
    outcome = OUTCOMES[call]
    limits = {"low": whole[outcome] - 1, "high": whole[outcome] + 1}
    fit, exact = call(whole.assign(**limits), outcome_between=LIMITS), call(whole)
    np.testing.assert_allclose(fit.values, exact.values, atol=1e-8)
    assert fit.llf == pytest.approx(exact.llf, abs=1e-8)


def test_brackets_recover_the_truth_about_as_well_as_outcomes(simulate):
    table = simulate(1_500, seed=2)
    fit = switching(bracketed(table, "y"), outcome_between=LIMITS)
    exact = switching(table)
    away = np.array([(fit.params[key] - value) / fit.bse[key]
                     for key, value in simulate.truth.items()])  # fmt: skip
    assert np.abs(away).max() < 3.5
    assert (fit.bse > 0.99 * exact.bse).all() and (fit.bse < 1.6 * exact.bse).all()


def test_results_have_what_others_have(table, tmp_path):
    data = bracketed(table, "wage", recorded=table["w"].to_numpy() > 0.5)
    fit = selection(data, outcome_between=LIMITS)
    n_between = int((table["works"] & (table["w"] <= 0.5)).sum())
    assert fit.facts.n_between == n_between and fit.facts.n_selected_silent == 0
    assert fit.counts["outcome"] == table["works"].sum()
    said = " ".join(str(fit.summary()).split())
    assert f"{n_between} outcomes are known only to lie between limits" in said
    assert "normality: not tested, some outcomes are known only to lie between limits" in said
    fit.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    assert str(loaded.summary()) == str(fit.summary())
    np.testing.assert_array_equal(loaded.predict(table), fit.predict(table))
    effects = fit.potential_outcomes().table
    assert np.isfinite(effects["std_error"]).all()
    residuals = generalised_residuals(fit)["outcome"].to_numpy()
    mean = fit.params["outcome"]["Intercept"] + fit.params["outcome"]["x"] * table["x"]
    inside = (mean + residuals * fit.params["outcome"]["scale"])[table["works"]]
    own = data[table["works"]]
    assert (inside > own["low"].fillna(-np.inf)).all()
    assert (inside < own["high"].fillna(np.inf)).all()
    with pytest.raises(UnsupportedError, match="Samples cannot be drawn"):
        fit.rehearse()


def test_no_outcome_need_be_recorded_at_all(table):
    fit = selection(bracketed(table, "wage"), outcome_between=LIMITS)
    assert fit.converged and fit.facts.n_between == table["works"].sum()
    assert "0.0%" in str(data_chapter(fit))


def test_numbers_are_limits_of_all_and_rows_without_any_count_for_the_selection(table):
    """Top-coded wages are above one number; a wage that says nothing is silent."""
    top = table["wage"] > 2.0
    capped = selection(table.assign(wage=table["wage"].mask(top)), outcome_between=(2.0, None))
    column = table.assign(low=np.where(top, 2.0, np.nan), wage=table["wage"].mask(top))
    assert capped.llf == pytest.approx(selection(column, outcome_between=("low", None)).llf)
    lost = table["w"] > 1.0
    some = table.assign(wage=table["wage"].mask(lost), low=np.nan, high=np.nan)
    fit = selection(some, outcome_between=LIMITS)
    assert fit.llf == pytest.approx(selection(some, missing_outcome="silent").llf, abs=1e-8)
    assert fit.facts.n_selected_silent == (lost & table["works"]).sum()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"outcome_between": ("high", "low")}, DataError, "not below the highest"),
        ({"outcome_between": "low"}, OptionError, "must be a pair"),
        ({"method": "two-step"}, UnsupportedError, "each outcome itself"),
        ({"binary": True}, OptionError, "A binary outcome has no limits"),
        ({"missing_outcome": "drop"}, OptionError, "Give one of the two"),
    ],
)  # fmt: skip
def test_limits_that_cannot_be_are_refused(table, options, error, words):
    data = table.assign(low=table["wage"] - 1, high=table["wage"] + 1, wage=np.nan)
    with pytest.raises(error, match=words):
        selection(data, **{"outcome_between": LIMITS, **options})


def test_a_selection_without_a_left_side_is_refused(table):
    with pytest.raises(OptionError, match="Name the column that says which rows were selected"):
        ss.sample_selection("wage ~ x", "~ x + z", table, outcome_between=(0.0, None))
