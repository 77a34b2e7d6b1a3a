"""Transforms and categories of every equation are learnt from all rows that have its columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import DataError, OptionError, UnsupportedError


@pytest.mark.parametrize("term", ["scale(x)", "center(x)", "poly(x, 1)", "standardize(x)"])
def test_what_transforms_learn_does_not_depend_on_who_was_selected(table, term):
    """Shared slopes, tests across equations and effects are those of the column itself."""
    plain = ss.switching("y ~ x", "chosen ~ x + z", table, shared="slopes")
    made = ss.switching(f"y ~ {term}", "chosen ~ x + z", table, shared="slopes")
    np.testing.assert_allclose(made.llf, plain.llf, rtol=1e-9)
    a, b = plain.problem.equations.alternatives
    one, other = (fit.treatment_effects(a, b).table for fit in (made, plain))
    for name in ("estimate", "std_error"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-5)
    free = ss.switching(f"y ~ {term}", "chosen ~ x + z", table)
    coded = free.problem.equations.each[0].terms[1]
    found = free.wald_test(f"{a}:{coded} = {b}:{coded}")
    wanted = ss.switching("y ~ x", "chosen ~ x + z", table).wald_test(f"{a}:x = {b}:x")
    np.testing.assert_allclose(found.statistic, wanted.statistic, rtol=1e-5)


@pytest.fixture
def industries():
    """Rows with effect 1 for everyone, and a category that one alternative never shows."""
    rng = np.random.default_rng(0)
    x, z, u = rng.normal(size=(3, 3000))
    g = rng.choice(["a", "b", "c"], 3000)
    d = (x + z + u > 0).astype(int)
    y = 1.0 * d + x + 2 * (g == "b") + 3 * (g == "c") + 0.5 * u + rng.normal(size=3000)
    rows = pd.DataFrame({"x": x, "z": z, "g": g, "d": d, "y": y})
    return rows[~((rows["d"] == 1) & (rows["g"] == "c"))]


@pytest.mark.parametrize("call", [ss.switching, ss.multinomial_switching])
@pytest.mark.parametrize("names", [{"a": "a", "b": "b", "c": "c"}, {"a": "b", "b": "c", "c": "a"}])
@pytest.mark.parametrize("formula", ["y ~ x + g", "y ~ x * g", "y ~ x + C(g)"])
def test_a_category_that_one_alternative_never_shows_is_refused(industries, call, names, formula):
    rows = industries.assign(g=industries["g"].map(names))
    with pytest.raises(DataError, match=r"(?s)show the outcome of 1.*g.*\[.*has no row"):
        call(formula, "d ~ x + z", rows)


@pytest.mark.parametrize("names", [{"a": "a", "b": "b", "c": "c"}, {"a": "b", "b": "c", "c": "a"}])
def test_a_category_that_one_alternative_never_shows_may_be_shared(industries, names):
    fit = ss.switching(
        "y ~ x + g", "d ~ x + z", industries.assign(g=industries["g"].map(names)), shared="slopes"
    )
    dummies = industries.assign(b=industries["g"] == "b", c=industries["g"] == "c")
    wanted = ss.switching("y ~ x + b + c", "d ~ x + z", dummies, shared="slopes")
    np.testing.assert_allclose(fit.llf, wanted.llf, rtol=1e-9)
    effects = fit.treatment_effects(1, 0).table
    np.testing.assert_allclose(effects["estimate"], 1.0, atol=2.5 * effects["std_error"].max())
    again = fit.treatment_effects(1, 0, data=industries.assign(g=industries["g"].map(names)))
    np.testing.assert_allclose(again.table["estimate"], effects["estimate"], rtol=1e-9)


def test_a_single_outcome_is_learnt_from_the_rows_that_show_it(table, tmp_path):
    """What unselected rows hold of its columns may mean nothing: a category of their own, zeros."""
    sort = np.where(np.arange(len(table)) % 2, "a", "b")
    hours = np.where(table["works"], np.exp(table["w"]), 0.0)
    rows = table.assign(sort=np.where(table["works"], sort, "none"), hours=hours)
    formula = "wage ~ x + sort + center(log(hours)) + bs(hours, df=4)"
    fit = ss.sample_selection(formula, "works ~ x + z", rows)
    assert "outcome:sort[T.b]" in fit.names and "outcome:sort[T.none]" not in fit.names
    with pytest.raises(UnsupportedError, match="do not show the outcome and lack a covariate"):
        fit.potential_outcomes()
    some = rows.assign(sort=np.where(sort == "a", "a", "b"))
    idle = np.flatnonzero(~rows["works"])[:3]
    some.iloc[idle, some.columns.get_loc("sort")] = "none"
    with pytest.raises(UnsupportedError, match=r"3 of 400 rows .* category of it that was not met"):
        ss.sample_selection("wage ~ x + sort", "works ~ x + z", some).potential_outcomes()
    missing = rows.assign(
        sort=rows["sort"].where(rows["works"].astype(bool)), hours=rows["hours"].replace(0, np.nan)
    )
    rows.to_parquet(tmp_path / "rows.parquet", row_group_size=70)
    for data in (missing, tmp_path / "rows.parquet"):
        again = ss.sample_selection(formula, "works ~ x + z", data)
        assert again.names == fit.names
        np.testing.assert_allclose(again.values, fit.values, rtol=1e-6, atol=1e-8)


def test_what_a_transform_learns_from_zeros_of_others_is_refused_with_what_to_do(table):
    hours = np.where(table["chosen"] == "in", np.exp(table["w"]), 0.0)
    formulas = {"in": "y ~ x + center(log(hours))", "out": "y ~ x"}
    with pytest.raises(DataError, match="where the column means nothing, set it missing"):
        ss.switching(formulas, "chosen ~ x + z", table.assign(hours=hours))
    rows = table.assign(hours=pd.Series(hours, table.index).replace(0, np.nan))
    assert ss.switching(formulas, "chosen ~ x + z", rows).converged


def test_transforms_and_categories_are_learnt_alike_from_files(industries, tmp_path):
    """Rows that lack a column of one equation are learnt from by the other all the same."""
    rows = industries.assign(w=np.exp(industries["x"]))
    rows["t"] = np.where(rows["d"].eq(0), np.nan, rows["z"] ** 2)
    rows.to_parquet(tmp_path / "rows.parquet", row_group_size=400)
    formulas = {1: "y ~ bs(w, df=4) + scale(t)", 0: "y ~ scale(w) + g"}
    one = ss.switching(formulas, "d ~ scale(x) + z", rows)
    other = ss.switching(formulas, "d ~ scale(x) + z", tmp_path / "rows.parquet")
    assert one.names == other.names
    np.testing.assert_allclose(other.values, one.values, rtol=1e-6, atol=1e-8)


def test_a_term_that_learnt_other_things_in_each_equation_is_not_shared(industries):
    rows = industries.assign(t=industries["z"] ** 2)
    rows.loc[rows["d"].eq(0) & (rows["x"] > 0), "t"] = np.nan
    formulas = {1: "y ~ scale(x) + t", 0: "y ~ scale(x)"}
    with pytest.raises(OptionError, match=r"'scale\(x\)' cannot be shared"):
        ss.switching(formulas, "d ~ x + z", rows, shared=["scale(x)"])


def test_alternatives_keep_the_order_of_their_categories(industries, tmp_path):
    named = np.where(industries["d"] == 1, "yes", "no")
    rows = industries.assign(d=pd.Categorical(named, ["yes", "no"]))
    rows.to_parquet(tmp_path / "rows.parquet", row_group_size=700)
    formula, choice = "y ~ x", "d ~ x + z"
    for data in (rows, tmp_path / "rows.parquet"):
        assert ss.switching(formula, choice, data).problem.equations.alternatives == ("yes", "no")
    assert ss.multinomial_switching(formula, choice, rows).alternatives == ("yes", "no")
    fit = ss.fit(formula, rows, chosen="d")
    assert fit.problem.equations.alternatives == ("yes", "no")
    text = ss.fit(formula, rows.assign(d=named), chosen="d")
    assert text.problem.equations.alternatives == ("no", "yes")
    assert fit.llf == pytest.approx(text.llf, rel=1e-12)
