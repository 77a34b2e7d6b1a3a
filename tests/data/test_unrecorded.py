"""Rows in which something was not recorded, and costs: what is read, what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.data.build import build_design
from selfselect.errors import DataError, FormulaError, OptionError, UnsupportedError

FORMULA = "income ~ height + weight"


@pytest.fixture(scope="module")
def villagers():
    table = ss.simulators.village(200, seed=2).data
    rng = np.random.default_rng(2)
    return table.assign(rent=rng.uniform(0, 2, 200), cap=90.0, open=1, shut=0)


def silent(table, label="fishing", n_rows=None):
    """Return the table without the outcomes of (some of) those who chose an alternative."""
    lost = np.flatnonzero(table["job"] == label)[:n_rows]
    income = table["income"].copy()
    income.iloc[lost] = np.nan
    return table.assign(income=income)


def undecided(table, n_rows=20):
    return table.assign(job=table["job"].where(np.arange(len(table)) >= n_rows))


def build(table, formula=FORMULA, **options):
    return build_design(formula, table, **({"chosen": "job"} | options))


def test_silent_rows_are_kept_and_counted(villagers):
    table = silent(villagers, n_rows=12)
    design = build(table, missing_outcome="silent")
    assert len(design.rows) == 200 and design.partial
    assert design.facts.n_silent == 12 and np.isnan(design.rows.outcome).sum() == 12
    assert build(table, missing_outcome="drop").facts.n_without_outcome == 12
    with pytest.raises(DataError, match=r"12 rows were chosen .*missing_outcome='silent'"):
        build(table)


def test_limits_are_read_from_columns_and_numbers(villagers):
    table = silent(villagers, n_rows=12)
    between = build(table, outcome_between=("cap", None)).rows.between
    assert (between[:, 0] == 90.0).all() and np.isnan(between[:, 1]).all()
    between = build(table, outcome_between=(10, np.float64(95.0))).rows.between
    assert (between == [10.0, 95.0]).all()


@pytest.mark.parametrize(
    ("between", "message"),
    [
        (90.0, r"must be a pair \(lowest, highest\)"),
        (("cap",), "must be a pair"),
        (("cap", [1, 2]), "neither a column nor a number"),
        ((np.nan, None), "neither a column nor a number"),
        ((True, None), "neither a column nor a number"),
        (("capp", None), r"no column 'capp'.*Did you mean 'cap'"),
        ((95.0, 90.0), "not below the highest in 12 rows"),
        ((90.0, 90.0), "where both are equal, the outcome is known"),
        ((np.inf, None), "not below the highest"),
        (("job", None), "column of limits 'job' must hold numbers"),
    ],
)
def test_bad_limits_are_refused(villagers, between, message):
    with pytest.raises((DataError, OptionError), match=message):
        build(silent(villagers, n_rows=12), outcome_between=between)


def test_limits_and_leaving_rows_out_contradict_each_other(villagers):
    with pytest.raises(OptionError, match="Give one of the two"):
        build(villagers, outcome_between=("cap", None), missing_outcome="drop")


def test_rows_without_a_chooser_need_to_know_who_it_may_have_been(villagers):
    with pytest.raises(DataError, match=r"20 rows have no value in 'job'.*give `possible`"):
        build(undecided(villagers))
    design = build(undecided(villagers), possible={"fishing": "open"})
    assert design.facts.n_undecided == 20 and design.partial
    assert sum(design.facts.counts) == 180


def test_keeping_rows_without_an_outcome_does_not_drop_those_without_a_choice(villagers):
    for told in ({"missing_outcome": "silent"}, {"outcome_between": (0.0, None)}):
        with pytest.raises(DataError, match=r"20 rows have no value in 'job'.*give `possible`"):
            build(undecided(villagers), **told)


def test_a_set_of_choosers_that_excludes_the_recorded_one_is_refused(villagers):
    with pytest.raises(DataError, match=r"`possible` excludes the alternative that was recorded"):
        build(undecided(villagers), possible={"hunting": "shut"})


def test_a_set_of_choosers_in_which_nobody_is_left_is_refused(villagers):
    table = undecided(villagers).assign(may=np.arange(200) >= 20)
    with pytest.raises(DataError, match="No alternative may be the chosen one in 20 rows"):
        build(table, possible={"hunting": "may", "fishing": "may"})
    near = table.assign(near=(np.arange(200) >= 20))
    with pytest.raises(DataError, match=r"No alternative .* in 20 rows .*not available"):
        build(near, possible={"hunting": "may"}, available={"fishing": "near"})


@pytest.mark.parametrize(
    ("possible", "message"),
    [
        ("open", "given by alternative"),
        ({"farming": "open"}, "'farming'"),
        ({"fishing": "cap"}, "must be true or false"),
        ({"fishing": "nowhere"}, "no column 'nowhere'"),
    ],
)
def test_bad_sets_of_choosers_are_refused(villagers, possible, message):
    with pytest.raises((DataError, OptionError), match=message):
        build(undecided(villagers), possible=possible)


def test_a_silent_row_of_an_alternative_that_is_not_available_is_refused(villagers):
    with pytest.raises(DataError, match="marked as not available"):
        build(silent(villagers), missing_outcome="silent", available={"fishing": "shut"})


def test_where_nobody_knows_who_it_was_any_may_be_closed_to_the_row(villagers):
    table = undecided(villagers)
    near = (table["job"] == "hunting") | (np.arange(200) % 2 == 0) & table["job"].isna()
    near |= table["job"] == "fishing"
    design = build(table.assign(near=near), possible={"fishing": "open"},
                   available={"hunting": "near"})  # fmt: skip
    assert design.facts.n_undecided == 20


def test_a_table_without_any_outcome_is_refused(villagers):
    nothing = villagers.assign(income=np.nan)
    with pytest.raises(DataError, match="No row has an outcome 'income'"):
        build(nothing, missing_outcome="silent")


def test_rows_that_say_nothing_at_all_are_refused(villagers):
    table = silent(villagers, n_rows=12).drop(columns="job")
    with pytest.raises(DataError, match="they contain no information"):
        build(table, chosen=None, alternatives=2, missing_outcome="silent")


def test_who_may_have_been_seen_counts_where_nobody_was_recorded():
    sample = ss.simulators.gaussian(400, 2, 2, norm=2.0, seed=1)
    data = sample.data.assign(may=1)
    plain = ss.fit("outcome ~ x1 + x2", data, alternatives=2)
    narrowed = ss.fit("outcome ~ x1 + x2", data, alternatives=2, possible={1: "may"})
    assert narrowed.llf == pytest.approx(plain.llf, abs=1e-6)
    assert narrowed.solution.solver.startswith("Continuation")


def test_who_may_have_been_seen_gives_alternatives_their_names():
    """Which of two is called 1 is arbitrary, unless it is said where it may have been seen."""
    sample = ss.simulators.gaussian(400, 2, 2, norm=2.0, seed=1)
    first = sample.data["chosen"] == sample.latent.columns[0]
    # In every third row in which the second was chosen, the first is ruled out.
    data = sample.data.assign(odd=first | (np.arange(400) % 3 > 0))
    found = ss.fit("outcome ~ x1 + x2", data, alternatives=2, possible={1: "odd"})
    turned = ss.fit("outcome ~ x1 + x2", data, alternatives=2, possible={2: "odd"})
    assert found.llf == pytest.approx(turned.llf, abs=1e-6)
    own, other = (one.params for one in (found, turned))
    np.testing.assert_allclose(own[1].to_numpy(), other[2].to_numpy(), atol=1e-5)


def test_limits_are_used_where_nobody_recorded_who_was_seen():
    sample = ss.simulators.gaussian(600, 2, 2, norm=2.0, seed=1)
    cap = float(sample.data["outcome"].quantile(0.85))
    data = sample.data.assign(outcome=sample.data["outcome"].where(sample.data["outcome"] < cap))
    found = ss.fit("outcome ~ x1 + x2", data, alternatives=2, outcome_between=(cap, None))
    whole = ss.fit("outcome ~ x1 + x2", sample.data, alternatives=2)
    assert found.converged and found.facts.n_silent == 90
    assert ((found.params - whole.params) / whole.bse).abs().max() < 3


# costs


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ({"fishing": "rent"}, "The cost column 'rent' has 1 missing values"),
        ({"fishing": "~ nowhere"}, "no column 'nowhere'"),
        ({"fishing": "rent ~ height"}, "must begin with '~'"),
        ({"farming": "~ rent"}, "'farming'"),
        ({"fishing": "~ rent +"}, "~ rent"),
        ({"fishing": "~ height", "hunting": "~ height"}, "costs of all alternatives depend on"),
        ({"fishing": "~ height", "hunting": "~ weight"}, "depend on 'Intercept'"),
        ("rent", "must be given by alternative"),
        ({"fishing": np.nan}, "a finite number"),
    ],
)
def test_bad_costs_are_refused(villagers, cost, message):
    broken = villagers.copy()
    if cost == {"fishing": "rent"}:
        broken.loc[3, "rent"] = np.nan
    with pytest.raises((DataError, OptionError, FormulaError), match=message):
        build(broken, cost=cost)


def test_a_covariate_of_a_cost_that_is_missing_is_left_out_and_counted(villagers):
    broken = villagers.copy()
    broken.loc[3, "rent"] = np.nan
    with pytest.warns(ss.errors.MissingRowsWarning, match="rent: 1"):
        assert build(broken, cost={"fishing": "~ rent"}).facts.n_dropped == 1


def test_costs_are_given_once_and_not_with_every_rule(villagers):
    with pytest.raises(OptionError, match="given twice"):
        ss.fit(FORMULA, villagers, chosen="job", cost={"fishing": "~ rent"},
               rule=ss.rules.Maximum(cost={"fishing": 1.0}))  # fmt: skip
    with pytest.raises(UnsupportedError, match="Costs can be estimated where"):
        ss.fit(FORMULA, villagers, chosen="job", cost={"fishing": "~ rent"},
               rule=ss.rules.MonotoneArgmax({"fishing": "logistic"}))  # fmt: skip
    with pytest.raises(UnsupportedError, match="Costs can be estimated where"):
        ss.fit(FORMULA, villagers, alternatives=2, cost={1: "~ rent"})


# what cannot be found


def test_a_silent_alternative_that_nothing_identifies_is_refused_with_what_would(villagers):
    table = silent(villagers)
    options = {"chosen": "job", "missing_outcome": "silent"}
    for noise in ("correlated", "shared shock"):
        with pytest.raises(DataError, match=r"No outcome of 'fishing'.*would identify it: .*cost"):
            ss.fit(FORMULA, table, noise=noise, **options)
    with pytest.raises(DataError, match=r"cost of 'fishing'.*told apart in 'Intercept'"):
        ss.fit(FORMULA, table, cost={"fishing": "~ rent"}, **options)
    with pytest.raises(DataError, match=r"cost of 'hunting'.*told apart in 'height'"):
        ss.fit(FORMULA, table, cost={"hunting": "~ height - 1"}, **options)


def test_what_the_refusal_proposes_makes_the_fit_possible(villagers):
    """Fixed at any value the correlation gives the same fit: it was not determined, indeed."""
    noises = [ss.noises.Correlated(correlation=rho) for rho in (0.2, 0.5)]
    one, other = (
        ss.fit(FORMULA, silent(villagers), chosen="job", missing_outcome="silent", noise=noise)
        for noise in noises
    )
    assert one.converged and other.converged
    assert one.llf == pytest.approx(other.llf, abs=1e-5)
    assert np.isfinite(one.bse).all()


def test_the_summary_counts_what_was_not_recorded(villagers):
    table = undecided(silent(villagers, n_rows=12), 30)
    result = ss.fit(FORMULA, table, chosen="job", missing_outcome="silent",
                    possible={"fishing": "open"})  # fmt: skip
    page = " ".join(str(result.summary()).split())
    n_silent = int(pd.isna(table["income"]).sum())
    assert (
        f"{n_silent} rows have no recorded outcome; they contribute what is known about it" in page
    )
    assert "In 30 rows the chosen alternative was not recorded" in page


def test_who_was_seen_is_inferred_in_rows_that_lack_it(villagers):
    result = ss.fit(FORMULA, undecided(villagers), chosen="job", possible={"fishing": "open"})
    chances = result.responsibilities()
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    recorded = villagers["job"].iloc[20:]
    assert (chances.iloc[20:].idxmax(axis=1) == recorded).all()
    assert ((chances.iloc[:20] > 0.01) & (chances.iloc[:20] < 0.99)).any(axis=None)
    with pytest.raises(OptionError, match="its own rows that lack it"):
        result.responsibilities(villagers)
