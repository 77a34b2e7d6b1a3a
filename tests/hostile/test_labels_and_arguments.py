"""Cells that name nothing, and functions that are given more than numbers."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import DataError, FormulaError, OptionError

NO_LABELS = {
    "lists": ([1], [2]),
    "dicts": ({"a": 1}, {"b": 1}),
    "sets": ({1}, {2}),
    "arrays": (np.array([1]), np.array([2])),
    "tuples": ((1,), (2,)),
    "bytes": (b"a", b"b"),
    "complex numbers": (1j, 2j),
    "classes": (int, str),
}
"""What cannot name an alternative; the first four cannot name anything."""


@pytest.fixture(scope="module")
def villagers():
    return ss.simulators.village(300, seed=5).data


def column(villagers, pair):
    made = np.empty(len(villagers), dtype=object)
    made[:] = [pair[job == "hunting"] for job in villagers["job"]]
    return made


@pytest.mark.parametrize("kind", NO_LABELS)
def test_what_names_no_alternative_is_refused(villagers, kind):
    table = villagers.assign(job=column(villagers, NO_LABELS[kind]))
    asked = [
        lambda: ss.fit("income ~ height", table, chosen="job"),
        lambda: ss.switching("income ~ height", "job ~ weight", table),
    ]
    for ask in asked:
        with pytest.raises(DataError, match=r"no\s+labels|names no alternative"):
            ask()


@pytest.mark.parametrize("kind", list(NO_LABELS)[:4])
@pytest.mark.parametrize("stray", [False, True])
def test_cells_that_cannot_be_told_apart_are_no_clusters(villagers, kind, stray):
    firms = column(villagers, NO_LABELS[kind])
    if stray:
        firms[1:] = np.arange(len(firms) - 1) // 5
    table = villagers.assign(firm=firms, town=np.arange(300) // 6)
    for cluster in ("firm", ["town", "firm"], firms):
        with pytest.raises(DataError, match=r"which are no\s+labels. Make them text or whole"):
            ss.fit("income ~ height", table, chosen="job", cluster=cluster)
    halves = table.assign(s=table["job"] == "hunting")
    with pytest.raises(DataError, match="which are no labels"):
        ss.sample_selection("income ~ height", "s ~ weight", halves, cluster="firm")


@pytest.mark.parametrize("place", ["tender", "firm"])
def test_cells_that_cannot_be_told_apart_are_no_cases_or_alternatives(place):
    tenders = ss.simulators.tender(100, seed=1).data
    tenders[place] = [[one] for one in tenders[place]]
    with pytest.raises(DataError, match="which are no labels"):
        ss.fit(
            "bid ~ size", tenders, case="tender", alternatives="firm", chosen="won", rule="min",
        )  # fmt: skip


@pytest.mark.parametrize("place", ["chosen", "cluster", "covariate"])
@pytest.mark.parametrize("engine", [ss.engines.Parquet(), ss.engines.Memory()])
def test_lists_in_a_file_are_refused_in_every_place(villagers, tmp_path, place, engine):
    villagers.assign(bag=[[job] for job in villagers["job"]]).to_parquet(tmp_path / "rows.parquet")
    options = {"chosen": "bag"} if place == "chosen" else {"chosen": "job"}
    options |= {"cluster": "bag"} if place == "cluster" else {}
    formula = "income ~ C(bag)" if place == "covariate" else "income ~ height"
    with pytest.raises(DataError, match=r"\(ndarray\), which are (no labels|neither)"):
        ss.fit(formula, tmp_path / "rows.parquet", engine=engine, **options)


def test_dates_name_alternatives(villagers):
    days = column(villagers, (dt.date(2020, 1, 1), dt.date(2021, 1, 1)))
    found = ss.fit("income ~ height", villagers.assign(job=days), chosen="job")
    wanted = ss.fit("income ~ height", villagers, chosen="job")
    np.testing.assert_array_equal(found.values, wanted.values)


@pytest.mark.parametrize(
    "part",
    [
        "np.log(height, out=weight)", "np.log(height, weight)", "np.add(height, 1, weight)",
        "np.add(height, 1, dtype='float16')", "np.log(height, where=height > 170)",
        "np.log(height, casting='unsafe')", "np.modf(height)", "np.divmod(height, 3)",
        "np.maximum(height)",
    ],
)  # fmt: skip
def test_functions_get_numbers_and_nothing_else(villagers, part, tmp_path):
    """A further argument is where the result is written: another column, in half precision."""
    villagers.to_parquet(tmp_path / "rows.parquet")
    for data in (villagers, tmp_path / "rows.parquet"):
        with pytest.raises(FormulaError, match="other than as a number made of its arguments"):
            ss.fit(f"income ~ {part} + weight", data, chosen="job")
    with pytest.raises(FormulaError, match="other than as a number made of its arguments"):
        ss.fit(part.replace("height", "income") + " ~ weight", villagers, chosen="job")


def test_functions_of_two_numbers_are_computed(villagers):
    found = ss.fit("income ~ np.maximum(height, 2.0 * weight)", villagers, chosen="job")
    larger = np.maximum(villagers["height"], 2.0 * villagers["weight"])
    wanted = ss.fit("income ~ larger", villagers.assign(larger=larger), chosen="job")
    np.testing.assert_allclose(found.values, wanted.values, rtol=1e-12)


def test_a_table_stays_as_it_was_whatever_a_formula_asks(villagers):
    before = villagers.copy()
    with pytest.raises(FormulaError):
        ss.fit("income ~ np.log(height, weight)", villagers, chosen="job")
    pd.testing.assert_frame_equal(villagers, before)


@pytest.mark.parametrize("cost", [{"hunting": "income"}, {"hunting": "job"}, {"hunting": True}])
def test_costs_that_are_the_outcome_the_choice_or_no_amount_are_refused(cost):
    villagers = ss.simulators.village(200, seed=1).data
    said = "is True" if True in cost.values() else "holds the (outcome|choice)"
    for options in ({"cost": cost}, {"rule": ss.rules.Maximum(cost=cost)}):
        with pytest.raises((FormulaError, OptionError), match=said):
            ss.fit("income ~ height", villagers, chosen="job", **options)
    with pytest.raises((FormulaError, OptionError), match=said):
        ss.fit("np.log(income + 100) ~ height", villagers, chosen="job", cost=cost)


def test_a_cost_may_be_a_part_of_a_ratio():
    villagers = ss.simulators.village(200, seed=1).data.assign(hours=2.0)
    villagers["hours"] += villagers["weight"] / 100
    found = ss.fit("I(income / hours) ~ height", villagers, chosen="job", cost={"hunting": "hours"})
    assert found.converged


@pytest.mark.parametrize("kind", [ss.noises.Independent, ss.noises.Correlated, ss.noises.Types])
def test_a_noise_that_was_not_called_is_refused(kind):
    villagers = ss.simulators.village(100, seed=1).data
    said = r"call the class: Independent\(\), not Independent"
    for door in (ss.fit, ss.pose):
        with pytest.raises(OptionError, match=said):
            door("income ~ height", villagers, chosen="job", noise=kind)
    with pytest.raises(OptionError, match=said):
        ss.choose_alternatives("income ~ height", villagers, noise=kind)
    with pytest.raises(OptionError, match=said):
        ss.choose_noise("income ~ height", villagers, chosen="job", candidates={"one": kind})


def test_the_cost_of_another_rule_is_not_the_outcome():
    villagers = ss.simulators.village(200, seed=1).data
    result = ss.fit("income ~ height", villagers, chosen="job")
    with pytest.raises(FormulaError, match="'income', which holds the outcome"):
        result.counterfactual(rule=ss.rules.Maximum(cost={"hunting": "income"}))
