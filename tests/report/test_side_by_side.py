"""Equations side by side, and stars where they are asked for."""

from __future__ import annotations

import pandas as pd
import pytest

import selfselect as ss
from selfselect.report.page import format_number, stars_of


@pytest.fixture(scope="module")
def villagers() -> pd.DataFrame:
    return ss.simulators.village(300, seed=1).data


@pytest.fixture(scope="module")
def switching(villagers: pd.DataFrame) -> ss.FitResult:
    return ss.switching("income ~ height", "job ~ height + weight", villagers)


def test_every_equation_has_a_column_and_every_estimate_its_error(
    switching: ss.FitResult,
) -> None:
    page = switching.side_by_side()
    (block,) = page.blocks
    assert block.header == ("", "fishing", "hunting", "selection")
    names = [row[0] for row in block.rows[::2]]
    assert names == ["Intercept", "height", "weight", "scale", "correlation"]
    for row, below in zip(block.rows[::2], block.rows[1::2], strict=True):
        for label, shown, error in zip(block.header[1:], row[1:], below[1:], strict=True):
            if (label, row[0]) in switching.params.index:
                assert shown == format_number(switching.params[label, row[0]])
                assert error == f"({format_number(switching.bse[label, row[0]])})"
            else:
                assert shown == error == ""


def test_rows_and_log_likelihood_are_the_facts_that_stand_with_the_table(
    switching: ss.FitResult,
) -> None:
    facts = dict(switching.side_by_side().facts)
    assert set(facts) == {"Rows", "Log-likelihood"}
    assert facts["Rows"].startswith("300")
    assert float(facts["Log-likelihood"]) == pytest.approx(switching.llf, abs=0.01)


def test_latex_has_one_table_with_rules_and_escapes(villagers: pd.DataFrame) -> None:
    table = villagers.rename(columns={"height": "body_height"}).assign(
        job=villagers["job"].replace({"hunting": "hunting & more"})
    )
    result = ss.fit("income ~ body_height", table, chosen="job")
    text = result.to_latex()
    assert text.count(r"\begin{tabular}{lrr}") == 1
    assert r" & fishing & hunting \& more \\" in text
    assert r"body\_height & " in text
    assert text.count(r"\midrule") == 1 and r"\textbf{}" not in text
    for rendered in (result.side_by_side().to_html(), result.side_by_side().to_markdown()):
        assert "caption" not in rendered and "****" not in rendered


def test_what_belongs_to_no_equation_stands_in_a_column_of_its_own(
    villagers: pd.DataFrame,
) -> None:
    result = ss.fit("income ~ height", villagers, chosen="job", noise="correlated")
    (block,) = result.side_by_side().blocks
    assert block.header[-1] == "across"
    assert "correlation of fishing & hunting" in [row[0] for row in block.rows]


def test_estimates_without_an_error_have_no_parentheses(villagers: pd.DataFrame) -> None:
    result = ss.switching("income ~ height", "job ~ height + weight", villagers, method="two-step")
    (block,) = result.side_by_side().blocks
    assert "()" not in str(block)
    assert [row[0] for row in block.rows[::2]][-3:] == ["mills ratio", "scale", "correlation"]


def test_notices_go_with_the_table(villagers: pd.DataFrame) -> None:
    with pytest.warns(ss.errors.ConvergenceWarning):
        result = ss.fit(
            "income ~ height", villagers, chosen="job", solver=ss.solvers.Newton(max_steps=1)
        )
    assert "NOT CONVERGED" in result.to_latex()


def test_stars_are_there_only_where_they_are_asked_for(switching: ss.FitResult) -> None:
    assert "*" not in str(switching.summary()) and "*" not in str(switching.side_by_side())
    assert "***" in str(switching.summary(stars=True))
    assert "*** p < 0.001" in str(switching.summary(stars=True))
    assert "*** p < 0.001" in str(switching.side_by_side(stars=True))
    pvalue = switching.pvalues["fishing", "height"]
    shown = dict(
        zip(("", "fishing"), switching.side_by_side(stars=True).blocks[0].rows[2], strict=False)
    )
    assert shown["fishing"].count("*") == stars_of(pvalue).count("*")


def test_stars_follow_p_values() -> None:
    assert [stars_of(p).strip() for p in (0.0, 0.0009, 0.004, 0.03, 0.05, float("nan"))] == [
        "***", "***", "**", "*", "", "",
    ]  # fmt: skip
