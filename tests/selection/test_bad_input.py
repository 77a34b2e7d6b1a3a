"""Bad input as users meet it: each is refused with what is wrong and what to do instead."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import selfselect as ss
from selfselect.errors import DataError, FormulaError, MissingRowsWarning, OptionError

OUTCOME, SELECTION = "wage ~ x", "works ~ x + z"
FORMULAS, CHOICE = {"in": "y ~ x", "out": "y ~ x + w"}, "chosen ~ x + z"


@pytest.mark.parametrize(
    ("outcome", "selection", "change", "error", "words"),
    [
        ("y ~ x", "chosen ~ x", {}, DataError, r"true or false .* 'in'.*data\['chosen'\] == 'in'"),
        ("y ~ x", "weight ~ x", {}, DataError, "true or false"),
        ("wage ~ x", "work ~ x", {}, DataError, "no column 'work'.*Did you mean 'works'"),
        ("wage ~ x", "works ~ x + wage", {}, FormulaError, "explained by the outcome 'wage'"),
        ("wage ~ x", "works", {}, FormulaError, "exactly one '~'"),
        (3, "works ~ x", {}, FormulaError, "A formula is text"),
        ("wage ~ x", None, {}, FormulaError, "A formula is text"),
        ("wage ~ scale", "works ~ x", {"scale": lambda t: t["w"]}, FormulaError, "named 'scale'"),
        ("wage ~ x + c", SELECTION, {"c": lambda _: 5.0}, DataError, "'c' .* does not vary"),
        ("wage ~ x + c", SELECTION, {"c": lambda _: 0.0}, DataError, "zero in every row"),
        (OUTCOME, "works ~ x + z + q", {"q": lambda t: 3 - t["z"]}, DataError,
         "covariates 'z', 'q' of 'selection' are collinear"),
        (OUTCOME, SELECTION, {"wage": lambda t: t["wage"].where(t["w"] < 1)}, DataError,
         "chosen but have no outcome"),
        (OUTCOME, SELECTION, {"works": lambda t: t["works"].astype(float).where(t["w"] < 1)},
         DataError, "no value in 'works'"),
        (OUTCOME, SELECTION, {"wage": lambda t: t["wage"].where(t["w"] < 1, np.inf)}, DataError,
         "infinite"),
        (OUTCOME, SELECTION, {"z": lambda t: t["z"].where(t["w"] < 1, np.inf)}, DataError,
         "covariate 'z' of the selection equation is infinite"),
        (OUTCOME, SELECTION, {"wage": lambda t: 1 + 2 * t["x"]}, DataError, "explain .* exactly"),
        (OUTCOME, SELECTION, {"wage": lambda _: 2.0}, DataError, "does not vary"),
        (OUTCOME, "works ~ s", {"s": lambda t: np.where(t["works"], 1.0, -1.0)}, DataError,
         "perfectly.*'s' above all"),
        (OUTCOME, SELECTION, {"works": lambda _: True, "wage": lambda t: t["y"]}, DataError,
         "Every row is selected"),
        (OUTCOME, SELECTION, {"works": lambda _: False}, DataError, "No row is selected"),
        ("wage ~ . ", SELECTION, {}, FormulaError, "all other columns"),
    ],
)  # fmt: skip
def test_sample_selection_refuses(table, outcome, selection, change, error, words):
    data = table.assign(**{name: make(table) for name, make in change.items()})
    with pytest.raises(error, match=f"(?s){words}"):
        ss.sample_selection(outcome, selection, data)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "2step"}, "no method '2step'. Use one of ml, two-step"),
        ({"start": "zero"}, "no start 'zero'. Use one of search, two-step"),
        ({"covariance": "jackknife"}, "no covariance 'jackknife'.*observed, robust, clustered"),
        ({"weights_kind": "frequency"}, "weights_kind='frequency' says how weights are meant"),
        ({"covariance": "clustered"}, "needs to know the clusters"),
        ({"missing": "impute"}, "missing='impute' is not possible"),
        ({"missing_outcome": "zero"}, "missing_outcome='zero' is not possible"),
    ],
)
def test_options_there_are_not_are_refused_with_those_there_are(table, options, words):
    with pytest.raises(OptionError, match=words):
        ss.sample_selection(OUTCOME, SELECTION, table, **options)


@pytest.mark.parametrize(
    ("weights", "words"),
    [(-1.0, "negative"), (0.0, "all zero"), (np.nan, "missing values")],
)
def test_weights_that_cannot_be_are_refused(table, weights, words):
    with pytest.raises(DataError, match=words):
        ss.sample_selection(OUTCOME, SELECTION, table, weights=np.full(len(table), weights))


@pytest.mark.parametrize(
    ("formula", "selection", "change", "error", "words"),
    [
        ({"a": "y ~ x", "b": "y ~ x"}, CHOICE, {}, DataError, "no formula is given"),
        ({**FORMULAS, "c": "y ~ x"}, CHOICE, {}, DataError, "Switching is between two"),
        ("y ~ x", "k ~ x", {"k": lambda t: np.arange(len(t)) % 3}, DataError, "3 alternatives"),
        ({"in": "y ~ x"}, CHOICE, {}, FormulaError, "at least two"),
        ({"in": "y ~ x", "out": "wage ~ x"}, CHOICE, {}, FormulaError, "different outcomes"),
        ("y ~ x", "I(w > 0) ~ x", {}, OptionError, "is not a column"),
        ("y ~ x", "chosen ~ x + y", {}, FormulaError, "explained by the outcome 'y'"),
        ("y ~ x", CHOICE, {"chosen": lambda _: "in"}, DataError, "alternatives"),
        (FORMULAS, CHOICE, {"chosen": lambda _: "in"}, DataError, "'out' never occurs"),
        ("y ~ x", CHOICE, {"chosen": lambda t: t["chosen"].replace("in", "selection")}, DataError,
         "cannot be named 'selection'"),
        (FORMULAS, CHOICE, {"y": lambda t: t["y"].where(t["w"] < 1)}, DataError,
         "59 rows were chosen but have no outcome"),
    ],
)  # fmt: skip
def test_switching_refuses(table, formula, selection, change, error, words):
    data = table.assign(**{name: make(table) for name, make in change.items()})
    with pytest.raises(error, match=f"(?s){words}"):
        ss.switching(formula, selection, data)


def test_an_index_towards_nowhere_is_refused(table):
    with pytest.raises(OptionError, match=r"towards='north' is no alternative\. Use 'in' or 'out'"):
        ss.switching(FORMULAS, CHOICE, table, towards="north")


def test_too_few_rows_are_refused(table):
    few = table.groupby("works").head(3)
    with pytest.raises(DataError):
        ss.switching(FORMULAS, CHOICE, few)
    with pytest.raises(DataError, match="no rows"):
        ss.switching(FORMULAS, CHOICE, table.iloc[:0])


def test_two_steps_need_something_that_moves_selection(table):
    with pytest.raises(DataError, match="Put a covariate in the selection equation"):
        ss.sample_selection("wage ~ x", "works ~ 1", table, method="two-step")


def test_one_cluster_says_nothing_of_spread(table):
    with pytest.raises(OptionError, match="only one cluster"):
        ss.sample_selection(OUTCOME, SELECTION, table, cluster=np.zeros(len(table)))


def test_what_is_not_needed_may_be_missing(table):
    """Covariates and outcome of rows that were not selected are never looked at."""
    whole = ss.sample_selection("y ~ x + w", SELECTION, table)
    lacking = table.assign(w=table["w"].where(table["works"]), y=table["y"].where(table["works"]))
    fit = ss.sample_selection("y ~ x + w", SELECTION, lacking)
    assert fit.nobs == len(table)
    assert fit.llf == pytest.approx(whole.llf, rel=1e-12)
    own = ss.switching(FORMULAS, CHOICE, table.assign(w=table["w"].where(~table["works"])))
    assert own.nobs == len(table)


def test_what_is_needed_and_missing_is_left_out_with_a_count(table):
    lacking = table.assign(w=table["w"].where(table["w"] < 1))
    with pytest.warns(MissingRowsWarning, match="35 of 400 rows"):
        fit = ss.sample_selection("wage ~ x + w", SELECTION, lacking)
    assert fit.facts.n_dropped == 35
    assert fit.nobs == len(table) - 35
    with pytest.raises(DataError, match="35 rows have a missing covariate"):
        ss.sample_selection("wage ~ x + w", SELECTION, lacking, missing="raise")


def test_rows_without_an_outcome_are_left_out_on_request(table):
    lacking = table.assign(wage=table["wage"].where(table["w"] < 1))
    fit = ss.sample_selection(OUTCOME, SELECTION, lacking, missing_outcome="drop")
    assert fit.facts.n_without_outcome == 35
    assert "left out on request" in " ".join(str(fit.summary()).split())


def test_a_recorded_outcome_is_selection_enough(table):
    named = ss.sample_selection(OUTCOME, SELECTION, table)
    bare = ss.sample_selection(OUTCOME, "~ x + z", table)
    np.testing.assert_array_equal(bare.values, named.values)


def test_a_selection_may_be_computed(table):
    fit = ss.sample_selection("y ~ x", "I(w > 0) ~ x + z", table)
    assert fit.counts["outcome"] == (table["w"] > 0).sum()


@pytest.mark.parametrize(
    "kind",
    [pl.from_pandas, lambda t: t.to_dict("list"), lambda t: t.set_axis([7] * len(t))],
    ids=["polars", "dict", "repeated labels"],
)
def test_tables_of_any_kind_give_the_same(table, kind):
    fit = ss.switching(FORMULAS, CHOICE, table)
    np.testing.assert_allclose(
        ss.switching(FORMULAS, CHOICE, kind(table)).values, fit.values, rtol=1e-9
    )


def test_categories_and_logarithms_work_as_in_every_formula(table):
    data = table.assign(
        sort=pd.Categorical(np.array(["p", "q", "r"])[np.arange(len(table)) % 3]),
        pay=np.exp(table["wage"]),
    )
    fit = ss.sample_selection("np.log(pay) ~ x + sort", "works ~ x + z + sort", data)
    assert "outcome:sort[T.q]" in fit.names
    assert fit.problem.equations.outcome == "np.log(pay)"
    assert np.isfinite(fit.predict(data.iloc[:5], "outcome")).all()


def test_what_can_be_done_with_missing_outcomes_is_advised():
    table = {"x": np.arange(40.0), "z": np.tile([0.0, 1.0, 3.0, 2.0], 10),
             "y": np.where(np.arange(40) == 7, np.nan, np.sin(np.arange(40.0))),
             "job": np.tile(["a", "b"], 20)}  # fmt: skip
    with pytest.raises(ss.errors.DataError, match="missing_outcome='drop' to drop") as caught:
        ss.switching("y ~ x", "job ~ x + z", table)
    assert "missing_outcome='silent' keeps them" in str(caught.value)


def one_row_of(table, column, label):
    """Keep one row of an alternative, and all of the others."""
    return pd.concat([table[table[column] != label], table[table[column] == label].head(1)])


@pytest.mark.parametrize("method", ["ml", "two-step"])
def test_an_alternative_with_one_row_is_refused(table, ordered_table, method):
    few = one_row_of(table, "chosen", "in")
    with pytest.raises(DataError, match="'in' is chosen in 1 row but has 4 parameters"):
        ss.switching(FORMULAS, CHOICE, few, method=method)
    with pytest.raises(DataError, match="'in' is chosen in 1 row but has 4 parameters"):
        ss.multinomial_switching(FORMULAS, CHOICE, few)
    with pytest.raises(DataError, match=r"Only 1 of \d+ rows are selected with a known"):
        ss.sample_selection(OUTCOME, SELECTION, one_row_of(table, "works", True), method=method)
    if method == "ml":
        few = one_row_of(ordered_table, "hours", "part")
        with pytest.raises(DataError, match="'part' is chosen in 1 row but has"):
            ss.switching("pay ~ x", "hours ~ x + z", few, ordered=["none", "part", "full"])
    two = pd.concat([table[~table["works"]], table[table["works"]].head(2)])
    with pytest.raises(DataError, match="'in' is chosen in 2 rows but has 4 parameters"):
        ss.switching(FORMULAS, CHOICE, two, method=method)


@pytest.mark.parametrize("method", ["ml", "two-step"])
def test_a_covariate_that_decides_which_outcome_is_observed_is_refused(table, method):
    decided = table.assign(s=np.where(table["works"], 1.0, -1.0) + 0.1 * table["w"].abs())
    with pytest.raises(DataError, match=r"(?s)perfectly.*'s' above all"):
        ss.switching(FORMULAS, "chosen ~ x + s", decided, method=method)


@pytest.mark.parametrize("method", ["ml", "two-step"])
def test_instruments_that_the_outcome_has_too_are_said(table, method):
    """Then nothing but the shape of the noise tells selection from the outcome."""
    fit = ss.switching({"in": "y ~ x + z", "out": "y ~ x"}, CHOICE, table, method=method)
    said = " ".join(str(fit.summary()).split())
    assert "in is identified by functional form: no covariate of the selection is excluded" in said
    assert "Excluded from out: z" in said


@pytest.mark.parametrize("covariance", ["observed", "HC0"])
@pytest.mark.parametrize(
    ("formula", "options"), [("y ~ x", {}), ("y ~ x", {"shared": "slopes"}), ("y ~ 1", {})]
)
def test_a_covariate_that_decides_some_rows_is_refused_by_maximum_likelihood(
    formula, options, covariance
):
    """The probit that the climb begins from has not gone far yet; its end has."""
    rng = np.random.default_rng(4)
    x, z, u = rng.normal(size=(3, 600))
    chosen = 0.2 + 0.5 * x + z + u > 0
    rows = pd.DataFrame(
        {
            "x": x, "z": z, "d": chosen.astype(int), "rare": chosen & (u > 1),
            "y": 1 + x + 0.5 * u + rng.normal(size=600),
        }
    )  # fmt: skip
    with pytest.raises(DataError, match="perfectly in some or all rows, by 'rare"):
        ss.switching(formula, "d ~ x + z + rare", rows, covariance=covariance, **options)
    assert ss.switching(formula, "d ~ x + z", rows, covariance=covariance, **options).converged


def test_bootstrap_samples_without_a_rare_category_are_not_counted():
    """They say nothing of its coefficient, which is where the climb happened to leave it."""
    rng = np.random.default_rng(5)
    x, z, u = rng.normal(size=(3, 600))
    chosen = (0.5 * x + z + u > 0).astype(int)
    group = np.where(rng.random(600) < 0.2, "r", "a")
    group[chosen == 1] = "a"
    group[np.flatnonzero(chosen)[:3]] = "r"
    y = 1 + x + 0.5 * u + rng.normal(size=600)
    rows = pd.DataFrame({"x": x, "z": z, "g": group, "d": chosen, "y": y})
    options = {"formula": "y ~ x + g", "selection": "d ~ x + z", "data": rows, "seed": 1}
    fit = ss.switching(**options, covariance=ss.inference.Bootstrap(60))
    plain = ss.switching(**options)
    assert fit.bse[1, "g[T.r]"] == pytest.approx(plain.bse[1, "g[T.r]"], rel=0.5)
