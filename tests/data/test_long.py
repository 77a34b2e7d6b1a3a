"""Long tables: one row per case and alternative."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.cli.main import main
from selfselect.data.long import build_long_design
from selfselect.errors import DataError, FormulaError, MissingRowsWarning, OptionError

LONG: dict[str, Any] = {"chosen": "won", "case": "tender", "alternatives": "firm"}
FORMULA = "bid ~ size + distance"


@pytest.fixture(scope="module")
def tenders() -> pd.DataFrame:
    return ss.simulators.tender(300, seed=5).data


def fit(data: Any, formula: Any = FORMULA, **options: Any) -> ss.FitResult:
    return ss.fit(formula, data, **({"rule": "min"} | LONG | options))


def wide_of(tenders: pd.DataFrame) -> pd.DataFrame:
    """Make one row per tender, with a column per firm, for the wide door."""
    wide = tenders.pivot(index="tender", columns="firm", values="distance")
    there = wide.notna().add_prefix("open_")
    won = tenders[tenders["won"]].set_index("tender")
    return wide.fillna(0.0).add_prefix("distance_").join(there).join(won[["size", "bid", "firm"]])


def test_a_long_table_is_fitted_like_the_wide_one_it_stands_for(tenders: pd.DataFrame) -> None:
    firms = sorted(tenders["firm"].unique())
    for long, wide in (
        ({}, {}),
        (
            {"shared": ["distance"]},
            {"shared": {"distance": {firm: f"distance_{firm}" for firm in firms}}},
        ),
    ):
        one = fit(tenders, **long)
        other = ss.fit(
            {firm: f"bid ~ size + distance_{firm}" for firm in firms}, wide_of(tenders),
            chosen="firm", available={firm: f"open_{firm}" for firm in firms}, rule="min", **wide,
        )  # fmt: skip
        assert one.llf == pytest.approx(other.llf, rel=1e-9)
        np.testing.assert_allclose(one.params, other.params, rtol=1e-5)
        np.testing.assert_allclose(one.bse, other.bse, rtol=1e-4)


def test_terms_keep_their_names_and_have_a_covariate_per_alternative(tenders: pd.DataFrame) -> None:
    design = build_long_design(FORMULA, tenders, **LONG)
    equations = design.equations
    assert {one.terms for one in equations.each} == {("Intercept", "size", "distance")}
    assert equations.covariates == ("size", "distance[Alder]", "distance[Birch]",
                                    "distance[Cedar]", "distance[Dogwood]")  # fmt: skip
    assert len(design.rows) == tenders["tender"].nunique()
    wide = wide_of(tenders)
    place = equations.covariates.index("distance[Birch]")
    there = wide["open_Birch"].to_numpy()
    np.testing.assert_array_equal(
        design.rows.covariates[there, place], wide["distance_Birch"][there]
    )
    np.testing.assert_array_equal(design.rows.known.available[:, 1], there)


def test_categories_and_transforms_are_learnt_from_all_rows(tenders: pd.DataFrame) -> None:
    # Alder never has the category 'c'; it has its coefficient nevertheless, as it is shared.
    kind = np.array(["a", "b", "c"])[np.arange(len(tenders)) % 3]
    kind[(tenders["firm"] == "Alder") & (kind == "c")] = "a"
    data = tenders.assign(kind=kind)
    result = fit(data, "bid ~ size + center(distance) + kind", shared="all")
    assert ("(common)", "kind[T.c]") in result.params
    plain = fit(data, "bid ~ size + distance + kind", shared="all")
    assert result.llf == pytest.approx(plain.llf, rel=1e-9)
    new = result.predict(data[data["tender"] <= 3])
    np.testing.assert_allclose(new, plain.predict(data[data["tender"] <= 3]), rtol=1e-6)


def test_new_rows_are_predicted_case_by_case(tenders: pd.DataFrame) -> None:
    result = fit(tenders, shared=["distance"])
    assert result.predict().index.name == "tender"
    pd.testing.assert_frame_equal(result.predict(tenders), result.predict())
    chance = result.predict(tenders, kind="chance")
    np.testing.assert_allclose(chance.sum(axis=1), 1.0)
    latent = result.predict(tenders.iloc[1:3])
    assert latent.isna().sum().sum() == latent.size - 2
    own = tenders.iloc[1]
    coefficients = result.params
    expected = (coefficients[own["firm"], "Intercept"] + coefficients[own["firm"], "size"]
                * own["size"] + coefficients["(common)", "distance"] * own["distance"])  # fmt: skip
    assert latent.loc[own["tender"], own["firm"]] == pytest.approx(expected)
    with pytest.warns(MissingRowsWarning):
        part = result.predict(tenders.assign(distance=tenders["distance"].where(tenders.index > 0)))
    assert part.iloc[0].isna().all() and not part.iloc[1].isna().all()
    with pytest.raises(DataError, match="holds 'Elm', which the fit did not have"):
        result.predict(tenders.assign(firm="Elm"))
    varying = tenders.assign(size=np.arange(len(tenders)) * 1.0)
    with pytest.raises(DataError, match="'size' did not vary within the cases of the fit"):
        result.predict(varying)


def test_offsets_and_costs_are_read_from_each_alternatives_own_row(tenders: pd.DataFrame) -> None:
    firms = sorted(tenders["firm"].unique())
    wide = wide_of(tenders)
    backlog = tenders.pivot(index="tender", columns="firm", values="backlog").fillna(0.0)
    wide = wide.join(backlog.add_prefix("backlog_"))
    one = fit(tenders, offset="backlog", rule=ss.rules.Minimum(cost={"Birch": "distance"}))
    other = ss.fit(
        {firm: f"bid ~ size + distance_{firm}" for firm in firms}, wide, chosen="firm",
        available={firm: f"open_{firm}" for firm in firms},
        offset={firm: f"backlog_{firm}" for firm in firms},
        rule=ss.rules.Minimum(cost={"Birch": "distance_Birch"}),
    )  # fmt: skip
    assert one.llf == pytest.approx(other.llf, rel=1e-9)


def test_costs_are_estimated_from_each_alternatives_own_rows(tenders: pd.DataFrame) -> None:
    firms = sorted(tenders["firm"].unique())
    one = fit(tenders, shared=["distance"], cost={"Birch": "~ backlog"})
    backlog = tenders.pivot(index="tender", columns="firm", values="backlog").fillna(0.0)
    other = ss.fit(
        {firm: f"bid ~ size + distance_{firm}" for firm in firms},
        wide_of(tenders).join(backlog.add_prefix("backlog_")), chosen="firm", rule="min",
        available={firm: f"open_{firm}" for firm in firms}, cost={"Birch": "~ backlog_Birch"},
        shared={"distance": {firm: f"distance_{firm}" for firm in firms}},
    )  # fmt: skip
    assert one.llf == pytest.approx(other.llf, rel=1e-8)
    assert ("Birch", "cost: backlog") in one.params


def test_formulas_of_their_own_take_each_alternatives_own_values(tenders: pd.DataFrame) -> None:
    firms = sorted(tenders["firm"].unique())
    more = {firm: " + backlog" if firm == "Birch" else "" for firm in firms}
    one = fit(tenders, {firm: f"bid ~ size + distance{more[firm]}" for firm in firms})
    assert "distance[Birch]" in one.problem.equations.covariates
    backlog = tenders.pivot(index="tender", columns="firm", values="backlog").fillna(0.0)
    more["Birch"] = " + backlog_Birch"
    other = ss.fit(
        {firm: f"bid ~ size + distance_{firm}{more[firm]}" for firm in firms},
        wide_of(tenders).join(backlog.add_prefix("backlog_")), chosen="firm", rule="min",
        available={firm: f"open_{firm}" for firm in firms},
    )  # fmt: skip
    assert one.llf == pytest.approx(other.llf, rel=1e-9)


def test_weights_and_clusters_belong_to_cases(tenders: pd.DataFrame) -> None:
    data = tenders.assign(weight=1.0 + tenders["tender"] % 2, town=tenders["tender"] // 10)
    result = fit(data, shared="all", weights="weight", cluster="town")
    assert "clustered by town (31 clusters)" in result.covariance.description
    assert result.facts.weight_total == 450
    with pytest.raises(DataError, match="'weight' has several values in"):
        fit(data.assign(weight=np.arange(len(data)) + 1.0), weights="weight")


def test_a_case_that_lacks_a_covariate_is_left_out_whole(tenders: pd.DataFrame) -> None:
    gap = tenders.assign(distance=tenders["distance"].where(tenders.index != 0))
    with pytest.warns(MissingRowsWarning, match="1 of 300 cases have a row with a missing"):
        result = fit(gap)
    whole = fit(tenders[tenders["tender"] != tenders["tender"].iloc[0]])
    assert result.nobs == 299 and result.llf == pytest.approx(whole.llf)
    with pytest.raises(DataError, match="1 of 300 cases have a row with a missing covariate"):
        fit(gap, missing="raise")


def test_a_winner_without_a_bid_is_refused_or_counts_by_its_choice(tenders: pd.DataFrame) -> None:
    silent = tenders.assign(bid=tenders["bid"].where(tenders["tender"] > 20))
    with pytest.raises(DataError, match=r"20 rows were chosen but have no outcome 'bid' \(rows 1"):
        fit(silent)
    result = fit(silent, shared="all", missing_outcome="silent")
    assert result.converged and result.facts.n_silent == 20 and result.nobs == 300


def test_the_shell_reads_long_tables(
    tenders: pd.DataFrame, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    table, saved = tmp_path / "tenders.csv", tmp_path / "fit.json"
    tenders.to_csv(table, index=False)

    def shell(*arguments: Any) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([str(one) for one in arguments])
        return int(str(ended.value.code)), *capsys.readouterr()

    code, out, _ = shell("fit", table, FORMULA, "--case", "tender", "--alternatives", "firm",
                         "--chosen", "won", "--rule", "min", "--shared", "all", "--save",
                         saved)  # fmt: skip
    assert code == 0 and "Cases: 300" in out
    code, out, _ = shell("predict", saved, table, "--kind", "chance")
    assert code == 0 and len(out.splitlines()) == 301
    code, _, said = shell("fit", table, FORMULA, "--alternatives", "firm", "--chosen", "won")
    assert code == 2 and "with --case" in said


# bad input


def test_cases_without_one_winner_are_named(tenders: pd.DataFrame) -> None:
    nobody = tenders.assign(won=tenders["won"] & (tenders["tender"] != 7))
    with pytest.raises(DataError, match=r"1 cases have no row marked in 'won' \(first 7\)"):
        fit(nobody)
    all_of = tenders.assign(won=tenders["won"] | (tenders["tender"] == 7))
    with pytest.raises(DataError, match=r"1 cases have several rows marked in 'won' \(first 7\)"):
        fit(all_of)
    with pytest.raises(DataError, match=r"must be true \(1\) in the row of the chosen alternative"):
        fit(tenders, chosen="firm")
    with pytest.raises(DataError, match=r"must be true \(1\) in the row .* but 2 is in"):
        fit(tenders.assign(won=2 * tenders["won"]))


def test_repeated_and_unlabelled_rows_are_named(tenders: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="1 rows repeat a case and alternative"):
        fit(pd.concat([tenders, tenders.iloc[[4]]]))
    with pytest.raises(DataError, match="1 rows have no value in 'tender'"):
        fit(tenders.assign(tender=tenders["tender"].where(tenders.index != 4)))
    with pytest.raises(DataError, match="1 rows have no value in 'firm'"):
        fit(tenders.assign(firm=tenders["firm"].where(tenders.index != 4)))


def test_options_that_do_not_go_with_long_data_are_refused(tenders: pd.DataFrame) -> None:
    with pytest.raises(OptionError, match="give alternatives='column', not None"):
        fit(tenders, alternatives=None)
    with pytest.raises(OptionError, match="`case` must be the name of a column, not 3"):
        fit(tenders, case=3)
    with pytest.raises(DataError, match="Only one alternative is in 'firm'"):
        fit(tenders[tenders["firm"] == "Alder"].assign(won=True, bid=1.0), shared="all")
    with pytest.raises(OptionError, match="available to a case if the case has a row"):
        fit(tenders, available={"Alder": "won"})
    with pytest.raises(OptionError, match="`weights` must be the name of a column"):
        fit(tenders, weights=np.ones(len(tenders)))
    with pytest.raises(OptionError, match="give case='column' too"):
        fit(tenders, case=None)
    with pytest.raises(DataError, match="have the same covariates, so nothing distinguishes"):
        fit(tenders.groupby("tender").filter(lambda part: len(part) == 4), "bid ~ size",
            chosen=None)  # fmt: skip
    bids = tenders.assign(bid=np.arange(len(tenders)) * 1.0)
    with pytest.raises(DataError, match="'bid' has several values in"):
        fit(bids, chosen=None)


def test_the_outcome_and_the_choice_are_no_covariates(tenders: pd.DataFrame) -> None:
    with pytest.raises(FormulaError, match="hold the outcome 'bid' itself"):
        fit(tenders, "bid ~ size + np.log(bid)")
    with pytest.raises(FormulaError, match="hold the choice 'won'"):
        fit(tenders, "bid ~ size + won")
