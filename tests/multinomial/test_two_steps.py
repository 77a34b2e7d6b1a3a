"""Both steps: what they recover, their errors, and what must not change them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import DataError, FormulaError, MissingRowsWarning, OptionError
from selfselect.multinomial.corrections import CORRECTIONS
from selfselect.multinomial.two_steps import influences, solve

from .conftest import CONSTANTS, MIX, SLOPES, made

OUTCOMES, CHOICE = "y ~ x", "job ~ x + z1 + z2"

ROUNDING = 1e-7
"""Newton's method stops within this of the logit's optimum."""


def fitted(table: pd.DataFrame, **options: Any) -> ss.MultinomialResult:
    return ss.multinomial_switching(OUTCOMES, CHOICE, table, **options)


def outcomes(result: ss.MultinomialResult) -> pd.Series:
    return result.params[[label in result.alternatives for label, _ in result.params.index]]


def test_the_truth_is_within_the_errors() -> None:
    result = fitted(made(6_000, 3))
    for j, label in enumerate("abc"):
        truth = np.concatenate([[CONSTANTS[j], SLOPES[j]], MIX[j]])
        assert (np.abs(result.params[label] - truth) < 4 * result.bse[label]).all()
    truth = [0.3, 0.5, 1.0, 0.0, -0.2, -0.3, 0.0, 1.0]
    choice = [label for label in result.equation_labels if label not in result.alternatives]
    assert (np.abs(result.params[choice] - truth) < 4 * result.bse[choice]).all()


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_influences_are_what_a_little_more_weight_does(
    correction: str, table: pd.DataFrame
) -> None:
    result = fitted(table[:300], correction=correction)
    rows = result.rows
    influence = influences(result.model, rows, result.found)
    step = 1e-4
    for place in (0, 17, 120, 299):
        ends = []
        for sign in (1, -1):
            weights = np.ones(len(rows))
            weights[place] += sign * step
            ends.append(solve(result.model, rows.reweighted(weights)).values)
        difference = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(
            influence[place], difference, rtol=1e-4, atol=1e-5 * np.abs(influence).max()
        )


@pytest.mark.parametrize("correction", ["dmf1", "lee"])
def test_bootstrap_errors_agree_with_robust_ones(correction: str) -> None:
    table = made(2_000, 7)
    robust = fitted(table, correction=correction)
    drawn = fitted(table, correction=correction, covariance=ss.inference.Bootstrap(150), seed=1)
    ratio = drawn.bse / robust.bse
    # 150 samples leave a spread of 6% in each standard error.
    assert ratio.between(0.75, 1.3).all() and 0.95 < ratio.mean() < 1.06
    again = fitted(table, correction=correction, covariance=ss.inference.Bootstrap(150), seed=1)
    np.testing.assert_array_equal(again.covariance.matrix, drawn.covariance.matrix)


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_the_base_of_the_choice_does_not_matter(correction: str, table: pd.DataFrame) -> None:
    one, other = (fitted(table, correction=correction, base=base) for base in ("a", "c"))
    np.testing.assert_allclose(outcomes(one), outcomes(other), rtol=ROUNDING, atol=ROUNDING)
    places = [label in one.alternatives for label, _ in one.params.index]
    np.testing.assert_allclose(one.bse[places], other.bse[places], rtol=1e-5)
    assert other.params["choice of a", "z1"] == pytest.approx(
        -fitted(table, correction=correction, base="a").params["choice of c", "z1"], abs=ROUNDING
    )


def test_units_and_the_order_of_rows_do_not_matter(table: pd.DataFrame, dmf1: Any) -> None:
    changed = table.assign(z1=1e5 + 300 * table["z1"], x=table["x"] / 1e4, y=1e3 * table["y"])
    other = fitted(changed.sample(frac=1, random_state=1))
    for label in "abc":
        ours, theirs = dmf1.params[label] * 1e3, other.params[label].copy()
        theirs["x"] /= 1e4
        np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-3)
    statistic, theirs = dmf1.tvalues["b", "x"], other.tvalues["b", "x"]
    assert statistic == pytest.approx(theirs, rel=1e-5)


def test_names_of_alternatives_do_not_matter(table: pd.DataFrame, dmf1: Any) -> None:
    renamed = table.assign(job=table["job"].map({"a": 3, "b": 1, "c": 2}))
    other = fitted(renamed)
    for label, number in (("a", 3), ("b", 1), ("c", 2)):
        np.testing.assert_allclose(
            np.sort(other.params[number]), np.sort(dmf1.params[label]), rtol=1e-6, atol=ROUNDING
        )


def test_frequencies_are_repeated_rows(table: pd.DataFrame) -> None:
    small = table[:400]
    times = np.arange(400) % 3 + 1
    repeated = small.loc[small.index.repeat(times)].reset_index(drop=True)
    weighed = fitted(small.assign(w=times), weights="w", weights_kind="frequency")
    other = fitted(repeated)
    np.testing.assert_allclose(weighed.values, other.values, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(weighed.bse, other.bse, rtol=1e-6)
    assert weighed.nobs == len(repeated)


def test_clusters_of_one_row_are_rows(table: pd.DataFrame, dmf1: Any) -> None:
    alone = fitted(table.assign(g=np.arange(len(table))), cluster="g")
    np.testing.assert_allclose(alone.covariance.matrix, dmf1.covariance.matrix, rtol=1e-9)
    assert alone.covariance.df == len(table) - 1
    house = table.assign(g=np.arange(len(table)) % 30)
    drawn = fitted(house, cluster="g", covariance=ss.inference.Bootstrap(10))
    assert "30 clusters of g over both steps" in drawn.covariance.description


def test_names_of_covariances_mean_what_they_mean_elsewhere(table: pd.DataFrame) -> None:
    plain, corrected = fitted(table, covariance="HC0"), fitted(table, covariance="HC1")
    factor = 900 / (900 - len(plain.values))
    np.testing.assert_allclose(
        corrected.covariance.matrix, plain.covariance.matrix * factor, rtol=1e-12
    )
    for name in ("observed", "nonrobust", "opg"):
        with pytest.raises(OptionError, match="this estimate has two steps"):
            fitted(table, covariance=name)


def test_menus_that_hold_everything_change_nothing(table: pd.DataFrame, dmf1: Any) -> None:
    same = fitted(table.assign(here=True), available={"c": "here"})
    np.testing.assert_allclose(same.values, dmf1.values, rtol=1e-9)
    without = table.assign(here=(table["job"] == "c") | (table["z2"] > -1))
    result = fitted(without, available={"c": "here"})
    chance = result.predict(kind="chance")
    assert (chance.loc[~without["here"], "c"] == 0).all()
    np.testing.assert_allclose(chance.sum(axis=1), 1.0, rtol=1e-12)
    with pytest.raises(DataError, match="not available"):
        fitted(table.assign(here=table["job"] != "c"), available={"c": "here"})


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_rows_without_an_outcome_count_for_the_choice_alone(table, correction):
    lost = table.assign(y=table["y"].mask(table.index % 4 == 0))
    silent = fitted(lost, correction=correction, missing_outcome="silent")
    whole = fitted(table, correction=correction)
    for label in ("choice of b", "choice of c"):
        np.testing.assert_array_equal(silent.params[label], whole.params[label])
        np.testing.assert_array_equal(silent.bse[label], whole.bse[label])
    log_chances = np.log(whole.predict(kind="chance").to_numpy())
    for j, label in enumerate("abc"):
        own = ((lost["job"] == label) & lost["y"].notna()).to_numpy()
        made = silent.model.correction.regressors(log_chances[own], j, j).values
        regressors = np.column_stack([np.ones(own.sum()), lost["x"][own], made])
        wanted = np.linalg.lstsq(regressors, lost["y"][own], rcond=None)[0]
        np.testing.assert_allclose(silent.params[label], wanted, rtol=1e-6)
    assert np.isfinite(silent.bse).all()
    said = " ".join(str(silent.summary()).split())
    count = lost["y"].isna().sum()
    assert f"{count} rows have no recorded outcome; they count for the choice alone" in said
    naive = silent.compare().table["naive"]["b"]
    own = (lost["job"] == "b") & lost["y"].notna()
    design = np.column_stack([np.ones(own.sum()), lost["x"][own]])
    np.testing.assert_allclose(naive, np.linalg.lstsq(design, lost["y"][own], rcond=None)[0])


def test_two_alternatives_are_enough(table: pd.DataFrame) -> None:
    pair = table[table["job"] != "c"]
    for correction in CORRECTIONS:
        result = fitted(pair, correction=correction)
        assert np.isfinite(result.bse).all()
    lee = fitted(pair, correction="lee")
    heckman = ss.switching(OUTCOMES, CHOICE, pair, method="two-step")
    # A logit and a probit of the same choice differ little.
    assert lee.params["b", "x"] == pytest.approx(heckman.params["b", "x"], abs=0.02)


def test_rows_that_lack_something_are_left_out_and_counted(table: pd.DataFrame) -> None:
    lacking = table.copy()
    lacking.loc[:4, "z1"] = np.nan
    with pytest.warns(MissingRowsWarning):
        result = fitted(lacking)
    assert result.nobs == 895 and "5 rows with a missing covariate" in str(result.summary())


@pytest.mark.parametrize(
    ("change", "options", "error", "words"),
    [
        (lambda t: t.assign(z1=np.where(t["job"] == "b", 9.0, 0.0)), {}, DataError, "'z1'"),
        (lambda t: t.assign(z1=t["z2"]), {}, DataError, "repeat each other"),
        (lambda t: t[(t["job"] != "c") | (t.index < 16)], {}, DataError, "parameters"),
        (lambda t: t[t["job"] == "a"], {}, DataError, "Every row has 'a' in 'job'"),
        (lambda t: t, {"base": "d"}, OptionError, "base='d' is no alternative"),
        (lambda t: t, {"correction": "dmf3"}, OptionError, "There is no correction"),
        (lambda t: t, {"seed": -1}, OptionError, "is not a seed"),
    ],
)
def test_data_that_determine_nothing_are_refused(
    change: Any, options: Any, error: Any, words: str, table: pd.DataFrame
) -> None:
    with pytest.raises(error, match=words):
        fitted(change(table), **options)


def test_formulas_that_make_no_sense_are_refused(table: pd.DataFrame) -> None:
    with pytest.raises(FormulaError, match="explained by the outcome 'y'"):
        ss.multinomial_switching(OUTCOMES, "job ~ x + y", table)
    with pytest.raises(DataError, match="No covariate moves the choice"):
        ss.multinomial_switching(OUTCOMES, "job ~ 1", table)
    named = table.rename(columns={"x": "correction"})
    with pytest.raises(FormulaError, match="cannot be named 'correction'"):
        ss.multinomial_switching("y ~ correction", "job ~ correction + z1", named, correction="lee")
    house = table.assign(g=np.arange(900) % 9, h=np.arange(900) % 7)
    with pytest.raises(OptionError, match="not possible for clusters"):
        fitted(house, cluster=["g", "h"], covariance="bootstrap")


def test_an_outcome_with_all_of_the_choice_is_said_to_hang_on_its_form(
    table: pd.DataFrame,
) -> None:
    formulas = {"a": "y ~ x", "b": "y ~ x + z1 + z2", "c": "y ~ x"}
    text = " ".join(str(ss.multinomial_switching(formulas, CHOICE, table).summary()).split())
    assert "b is identified by functional form" in text
    assert "Excluded from a: z1, z2" in text


def test_one_row_and_perfect_predictions_are_refused(table: pd.DataFrame) -> None:
    few = pd.concat([table[table["job"] != "a"], table[table["job"] == "a"].head(1)])
    with pytest.raises(DataError, match="'a' is chosen in 1 row but has 4 parameters"):
        ss.multinomial_switching("y ~ x", "job ~ x + z1", few)
    decided = table.assign(s=np.where(table["job"] == "a", 1.0, -1.0) + 0.1 * table["z1"].abs())
    with pytest.raises(DataError, match="perfectly in some or all rows, by 's' above all"):
        ss.multinomial_switching("y ~ x", "job ~ x + s", decided)
    dummy = table.assign(s=(table["job"] == "a").astype(float))
    with pytest.raises(DataError, match="perfectly in some or all rows, by 's' above all"):
        ss.multinomial_switching("y ~ x", "job ~ x + z1 + s", dummy)
    twice = table.assign(s=2 * table["z1"] + 1)
    with pytest.raises(DataError, match=r"by '(s|z1)' above all, or repeat each other"):
        ss.multinomial_switching("y ~ x", "job ~ x + z1 + s", twice)


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_a_correction_that_covariates_can_stand_for_is_said_with_its_condition_number(
    correction: str, table: pd.DataFrame, tmp_path: Path
) -> None:
    """One covariate that moves the choice a little, and corrections that are straight in it."""
    sound = fitted(table, correction=correction)
    assert max(sound.conditions) < 40
    assert sound.summary().notices == sound.compare().to_page().notices == ()
    assert not any("COLLINEAR" in one for one in sound.explain().alarms)
    near = table.assign(x=0.2 * table["x"])
    fit = ss.multinomial_switching("y ~ x", "job ~ x", near, correction=correction)
    named = [
        f"{label} ({number:,.0f})"
        for label, number in zip("abc", fit.conditions, strict=True)
        if number >= 100
    ]
    assert named
    (said,) = fit.summary().notices
    assert said.startswith("NEARLY COLLINEAR: the correction")
    assert [one for one in named if one not in said] == []
    assert ("correction='lee'" in said) == (correction != "lee")
    assert said in fit.explain().alarms
    assert fit.compare().to_page().notices == (said,)
    if fit.model.correction.levels:
        assert said in fit.treatment_effects("b", "a").warnings
        assert said in fit.potential_outcomes().warnings
    fit.report(tmp_path / "fit.html")
    text = " ".join((tmp_path / "fit.html").read_text(encoding="utf-8").split())
    assert text.count("can hardly be told from the covariates") >= 1
    fit.save(tmp_path / "fit.json")
    assert ss.load(tmp_path / "fit.json").summary().notices == (said,)


def test_condition_numbers_are_those_of_columns_and_do_not_depend_on_units(
    table: pd.DataFrame,
) -> None:
    """With one column on each side they are Belsley's, of columns of length one."""
    alone = ss.multinomial_switching("y ~ 1", "job ~ x + z1", table, correction="lee")
    assert alone.rows is not None
    for j, number in enumerate(alone.conditions):
        own = np.flatnonzero(alone.rows.chosen == j)
        log_p = alone.found.logit.log_chances[own]
        one = alone.model.correction.regressors(log_p, j, j).values[:, 0]
        both = np.column_stack([np.ones(len(own)) / np.sqrt(len(own)), one / np.linalg.norm(one)])
        assert number == pytest.approx(np.linalg.cond(both), rel=1e-9)
    for correction in CORRECTIONS:
        options = {"correction": correction}
        plain = fitted(table, **options).conditions
        turned = table.assign(x=1e3 + 7 * table["x"], z1=-table["z1"] / 50)
        for other in (fitted(turned, **options), fitted(table, base="c", **options)):
            np.testing.assert_allclose(other.conditions, plain, rtol=1e-5)
