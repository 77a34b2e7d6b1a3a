"""Counterfactuals against draws, identities between them, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import (
    DataError,
    ExtrapolationWarning,
    OptionError,
    RuleError,
    UnsupportedError,
)

QUADRATURE = 1e-6
"""Integrals under a transform are cut into few pieces."""

FIRST_ORDER = 1e-5
"""What is left of an error in the fee, after a correction to first order."""

MONTE_CARLO = 5.0
"""Standard errors by which simulated numbers may differ."""


def value(effect: Any, *keys: Any) -> float:
    """Return the estimate whose keys are given, in the order of the key columns."""
    names = list(effect.table.columns[: len(keys)])
    found = effect.table.set_index(names)["estimate"]
    return float(found.loc[keys if len(keys) > 1 else keys[0]])


def test_closing_all_but_one_gives_its_latent_mean(fit: ss.FitResult) -> None:
    found = fit.counterfactual(close=["a", "c"], draws=2_000)
    latent = fit.potential_outcomes().table.set_index(["group", "alternative"])
    assert value(found.outcomes, "mean outcome", "after") == pytest.approx(
        latent["estimate"]["everyone", "b"], rel=1e-12
    )
    error = found.outcomes.table.set_index("when")["std_error"]["after"]
    assert error == pytest.approx(latent["std_error"]["everyone", "b"], rel=1e-9)
    shares = found.shares.table.query("when == 'after'")["estimate"]
    np.testing.assert_allclose(shares, [0.0, 1.0, 0.0], atol=1e-12)


CHANGES: dict[str, dict[str, Any]] = {
    "closed": {"close": "a"},
    "subsidy": {"subsidy": {"b": 0.7}},
    "tax": {"subsidy": {"b": -0.7}},
    "price": {"quota": {"a": 0.2}},
    "lottery": {"quota": {"a": 0.2}, "rationing": "lottery"},
}


@pytest.mark.parametrize(
    "rule", ["max", "min", ss.rules.MonotoneArgmax({"a": "exp", "c": 1.5})], ids=str
)
@pytest.mark.parametrize("name", CHANGES)
def test_moves_add_up_to_what_is_seen_before_and_after(
    name: str, rule: Any, make_world: Any
) -> None:
    world = make_world(300, rule=rule)
    fit = ss.fit(world.formula, world.data, chosen="chosen", rule=rule)
    found = fit.counterfactual(**CHANGES[name])
    moves = found.moves.table.iloc[1:].pivot(
        index=["from", "to"], columns="quantity", values="estimate"
    )
    for when, key in (("before", "from"), ("after", "to")):
        shares = moves["share"].groupby(key).sum().reindex(list("abc"), fill_value=0.0)
        table = found.shares.table.query(f"when == '{when}'")["estimate"]
        np.testing.assert_allclose(shares, table, atol=QUADRATURE)
        mean = (moves["share"] * moves[f"outcome {when}"]).sum()
        assert mean == pytest.approx(value(found.outcomes, "mean outcome", when), abs=QUADRATURE)
    stay = moves[[one == other for one, other in moves.index]]
    np.testing.assert_allclose(stay["change"], 0.0, atol=QUADRATURE)
    moving = 1 - stay["share"].sum()
    assert found.moves.table["estimate"][0] == pytest.approx(moving, abs=QUADRATURE)
    assert "mc_error" not in found.moves.table


@pytest.mark.parametrize("name", ["closed", "subsidy", "price"])
def test_moves_in_closed_form_are_those_of_draws(name: str, fit: ss.FitResult) -> None:
    found = fit.counterfactual(**CHANGES[name])
    rng = np.random.default_rng(3)
    latent = np.tile(fit.predict().to_numpy(), (500, 1))
    latent = latent + rng.standard_normal(latent.shape) * fit.scales.to_numpy()
    score = latent.copy()
    if name == "closed":
        score[:, 0] = -np.inf
    elif name == "subsidy":
        score[:, 1] += 0.7
    else:
        score[:, 0] -= value(found.outcomes, "fee for a place", "after")
    each = np.arange(len(latent))
    before, after = latent.argmax(axis=1), score.argmax(axis=1)
    change = latent[each, after] - latent[each, before]
    for row in found.moves.table.iloc[1:].itertuples(index=False):
        g, h = "abc".index(row[0]), "abc".index(row[1])
        here = (before == g) & (after == h)
        if row.quantity == "share":
            error = np.sqrt(row.estimate / len(latent))
            assert abs(here.mean() - row.estimate) <= MONTE_CARLO * error
        elif row.quantity == "change":
            error = change[here].std() / np.sqrt(here.sum())
            assert abs(change[here].mean() - row.estimate) <= MONTE_CARLO * error + 1e-7


def test_a_subsidy_is_paid_to_those_seen_there_afterwards(fit: ss.FitResult) -> None:
    found = fit.counterfactual(subsidy={"b": 0.7})
    paid = value(found.outcomes, "subsidies paid, per row", "after")
    assert paid == pytest.approx(0.7 * value(found.shares, "b", "after"))
    # People moved away from where they earn most, so earnings without the subsidy fall.
    assert value(found.outcomes, "mean outcome", "change") < 0
    nothing = fit.counterfactual(subsidy={"b": 0.0})
    assert value(nothing.outcomes, "mean outcome", "change") == pytest.approx(0, abs=1e-12)


def test_a_subsidy_is_a_cost_turned_round(world: Any) -> None:
    plain = ss.fit(world.formula, world.data, chosen="chosen")
    subsidised = plain.counterfactual(subsidy={"b": 0.4})
    costly = plain.counterfactual(rule=ss.rules.Maximum(cost={"a": 0.4, "c": 0.4}), draws=2_000)
    np.testing.assert_allclose(
        subsidised.shares.table["estimate"], costly.shares.table["estimate"], atol=1e-10
    )
    np.testing.assert_allclose(
        subsidised.shares.table["std_error"], costly.shares.table["std_error"], atol=1e-10
    )


@pytest.mark.parametrize("rationing", ["price", "lottery"])
def test_a_quota_is_filled_and_its_share_has_no_error(fit: ss.FitResult, rationing: str) -> None:
    found = fit.counterfactual(quota={"a": 0.2}, rationing=rationing)
    row = found.shares.table.query("alternative == 'a' and when == 'after'").iloc[0]
    assert row["estimate"] == pytest.approx(0.2, abs=1e-9)
    assert row["std_error"] == pytest.approx(0.0, abs=1e-9)
    assert (found.outcomes.table["std_error"] > 0).all()


def test_those_who_gain_most_fill_a_quota_by_price(fit: ss.FitResult) -> None:
    price = fit.counterfactual(quota={"a": 0.2})
    lottery = fit.counterfactual(quota={"a": 0.2}, rationing="lottery")
    assert value(price.outcomes, "mean outcome", "after") > value(
        lottery.outcomes, "mean outcome", "after"
    )
    closed = fit.counterfactual(close="a")
    left = value(closed.outcomes, "mean outcome", "change")
    losers = 1 - 0.2 / value(lottery.shares, "a", "before")
    assert value(lottery.outcomes, "mean outcome", "change") == pytest.approx(left * losers)


def test_the_error_of_the_fee_is_that_of_fits_to_other_samples(make_world: Any) -> None:
    """Fees over samples scatter as much as their standard error says."""
    fees, errors = [], []
    for seed in range(50):
        world = make_world(200, labels="ab", seed=seed)
        fit = ss.fit(world.formula, world.data, chosen="chosen")
        row = fit.counterfactual(quota={"a": 0.3}).outcomes.table.iloc[-1]
        fees.append(row["estimate"])
        errors.append(row["std_error"])
    # A standard deviation over 50 samples is known to 10%.
    assert np.std(fees, ddof=1) == pytest.approx(np.mean(errors), rel=0.3)


def test_another_rule_is_told_with_its_simulated_moves(pair: ss.FitResult) -> None:
    found = pair.counterfactual(rule="min", draws=40_000, seed=1)
    table = found.moves.table.set_index(["from", "to", "quantity"])
    # With two alternatives the smaller is always the one the larger is not.
    assert table.loc[("(any)", "(another)", "share"), "estimate"] == pytest.approx(1.0)
    share = table.loc[("fishing", "hunting", "share")]
    exact = value(found.shares, "fishing", "before")
    assert abs(share["estimate"] - exact) <= MONTE_CARLO * share["mc_error"]
    effects = pair.treatment_effects("hunting", "fishing").table.set_index("effect")
    change = table.loc[("fishing", "hunting", "change")]
    assert change["std_error"] == pytest.approx(effects["std_error"]["ATU"], rel=0.1)
    assert "simulated with seed 1" in str(found)
    again = pair.counterfactual(rule="min", draws=40_000, seed=1)
    pd.testing.assert_frame_equal(found.moves.table, again.moves.table)


def test_a_rule_that_only_chooses_is_simulated(fit: ss.FitResult) -> None:
    class Largest:
        name = "largest, by hand"

        def choose(self, latent: Any, rows: Any = None) -> Any:
            del rows
            return latent.argmax(axis=1)

    found = fit.counterfactual(rule=Largest(), draws=40_000)
    row = found.outcomes.table.iloc[1]
    exact = fit.counterfactual(rule="max", draws=2_000).outcomes.table.iloc[1]
    assert abs(row["estimate"] - exact["estimate"]) <= MONTE_CARLO * row["mc_error"]
    assert row["std_error"] == pytest.approx(exact["std_error"], rel=0.1)
    assert found.outcomes.table["estimate"][2] == pytest.approx(0.0, abs=1e-12)
    fewer = pd.DataFrame({"x": [0.1, 0.2], "d": [0, 1]})
    with pytest.raises(ss.errors.UnsupportedError, match="needs the same number of rows"):
        fit.counterfactual(rule=Largest(), data=fewer)


def test_other_covariates_move_the_same_rows(pair: ss.FitResult, village: Any) -> None:
    taller = village.data.assign(height=village.data["height"] + 5)
    with pytest.warns(ExtrapolationWarning):
        found = pair.counterfactual(data=taller, draws=20_000)
    after = pair.predict(taller, kind="outcome").mean()
    assert value(found.outcomes, "mean income", "after") == pytest.approx(after, abs=1e-5)
    moves = found.moves.table
    # Height helps hunters more than fishers, so nobody leaves hunting.
    assert not ((moves["from"] == "hunting") & (moves["to"] == "fishing")).any()


def test_another_population_has_no_moves(pair: ss.FitResult, village: Any) -> None:
    found = pair.counterfactual(data=village.data.head(100))
    assert found.moves is None
    assert "covariates are those of 100 other rows" in str(found)
    change = found.outcomes.table.set_index("when")
    # The two groups of rows are other people: both of their samplings count.
    assert change["std_error"]["change"] > 0


def test_opening_undoes_what_availability_closes(make_world: Any) -> None:
    world = make_world(300, available={"c": "open_c"})
    fit = ss.fit(world.formula, world.data, chosen="chosen", available={"c": "open_c"})
    found = fit.counterfactual(open=["c"])
    everyone = fit.choice_probabilities(world.data.assign(open_c=True)).table["estimate"]
    after = found.shares.table.query("when == 'after'")["estimate"]
    np.testing.assert_allclose(after, everyone, atol=1e-12)
    assert set(found.moves.table["to"]) == {"(another)", "a", "b", "c"}
    moves = found.moves.table.query("`from` != to and quantity == 'share'").iloc[1:]
    assert set(moves["to"]) == {"c"}
    with pytest.raises(OptionError, match=r"nothing is left to \d+ rows"):
        fit.counterfactual(close=["a", "b"])


def test_changes_may_come_together(fit: ss.FitResult) -> None:
    both = fit.counterfactual(close="c", subsidy={"b": 0.3}, draws=20_000)
    assert both.question == "c is closed and b is subsidised by 0.3"
    assert value(both.shares, "c", "after") == pytest.approx(0.0, abs=1e-12)
    row = both.moves.table.query("`from` == 'c' and to == 'b' and quantity == 'change'").iloc[0]
    lines = str(both).splitlines()
    headed = lines[next(i for i, line in enumerate(lines) if line.startswith("Who moves")) + 1]
    moved = next(line for line in lines if line.startswith("c to b"))
    assert headed.split()[-2:] == ["MC", "err"]
    assert float(moved.split()[-1]) == pytest.approx(row["mc_error"], rel=1e-2)
    assert "Numbers with an MC err were simulated" in str(both)
    assert "MC err" not in str(fit.counterfactual(close="c"))
    lottery = fit.counterfactual(close="c", quota={"a": 0.2}, rationing="lottery")
    assert lottery.moves is None and "not listed for a lottery" in str(lottery)


def test_a_loaded_fit_takes_its_rows_as_base(
    pair: ss.FitResult, village: Any, tmp_path: Any
) -> None:
    pair.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    with pytest.raises(UnsupportedError, match=r"Give the rows to average over, base=\.\.\."):
        loaded.counterfactual(close="fishing", data=village.data)
    found = loaded.counterfactual(close="fishing", base=village.data)
    expected = pair.counterfactual(close="fishing")
    np.testing.assert_allclose(
        found.outcomes.table[["estimate", "std_error"]],
        expected.outcomes.table[["estimate", "std_error"]],
        rtol=1e-9,
    )


def test_costs_of_another_rule_may_be_columns(make_world: Any) -> None:
    world = make_world(300)
    fit = ss.fit(world.formula, world.data, chosen="chosen")
    rule = ss.rules.Maximum(cost={"a": "fare"})
    with pytest.raises(DataError, match="no column 'fare'"):
        fit.counterfactual(rule=rule)
    found = fit.counterfactual(rule=rule, data=world.data, draws=2_000)
    assert value(found.shares, "a", "change") < 0


class TwoOnly:
    """A rule made for two alternatives."""

    name = "first or second"

    def choose(self, latent: Any, rows: Any = None) -> Any:
        del rows
        return (latent @ np.array([1.0, -1.0]) < 0).astype(np.intp)


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({}, OptionError, "Nothing is changed"),
        ({"close": ["a", "b", "c"]}, OptionError, "nothing is left to 400 rows"),
        ({"open": "a"}, OptionError, "'a' is open to everyone already"),
        ({"close": {"a": True}}, OptionError, "Give alternatives as a list"),
        ({"subsidy": 5}, OptionError, "must be given by alternative"),
        ({"subsidy": {"a": "much"}}, OptionError, "must be a finite number"),
        ({"subsidy": {"a": np.inf}}, OptionError, "must be a finite number"),
        ({"quota": 0.3}, OptionError, "must name one alternative"),
        ({"quota": {"a": 0.3, "b": 0.3}}, OptionError, "Several at once are not possible"),
        ({"quota": {"a": 0}}, OptionError, r"give a share between 0 and 1"),
        ({"quota": {"a": 0.9}}, OptionError, "The quota does not bind"),
        ({"quota": {"a": 0.1}, "rationing": "merit"}, OptionError, "no rationing 'merit'"),
        ({"rule": "median"}, OptionError, "no rule named 'median'"),
        ({"rule": ss.rules.MonotoneArgmax(["exp", 2.0])}, RuleError, "2 transforms but"),
        ({"rule": TwoOnly()}, RuleError, "cannot choose among the 3 alternatives"),
        ({"rule": ss.rules.Ranked(2), "subsidy": {"a": 1}}, OptionError, "Ranked has no costs"),
        ({"rule": "min", "draws": 1.5}, OptionError, "not a number of draws"),
        ({"data": {"x": [1.0]}}, DataError, "no column 'd'"),
    ],
)  # fmt: skip
def test_bad_changes_are_refused(
    change: dict[str, Any], error: Any, sentence: str, fit: ss.FitResult
) -> None:
    with pytest.raises(error, match=sentence):
        fit.counterfactual(**change)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
@pytest.mark.parametrize("share", [0.05, 0.25])
def test_a_fee_has_the_unit_of_what_the_rule_compares(
    world: Any, unit: float, share: float
) -> None:
    def fee(unit: float) -> pd.DataFrame:
        of_unit = (lambda y: unit * y, lambda v: v / unit)
        rule = ss.rules.MonotoneArgmax([of_unit] * 3)
        fit = ss.fit(world.formula, world.data, chosen="chosen", rule=rule)
        found = fit.counterfactual(quota={"a": share}).outcomes.table
        numbers = found.set_index(["quantity", "when"])[["estimate", "std_error"]]
        numbers.iloc[-1] /= unit
        return numbers

    np.testing.assert_allclose(fee(unit), fee(1.0), rtol=FIRST_ORDER)


def test_a_quota_that_no_fee_reaches_is_refused(make_world: Any) -> None:
    world = make_world(300)
    closed = {"b": "open_c", "c": "open_c"}
    data = world.data.assign(open_c=world.data["open_c"] | (world.data["chosen"] != "a"))
    fit = ss.fit(world.formula, data, chosen="chosen", available=closed)
    alone = 1 - data["open_c"].mean()
    assert alone > 0.01
    with pytest.raises(OptionError, match="No fee brings the share down"):
        fit.counterfactual(quota={"a": 0.5 * alone})


def test_a_counterfactual_prints_whole(fit: ss.FitResult) -> None:
    found = fit.counterfactual(close="a")
    text = str(found)
    assert text.splitlines()[0].strip() == "If a is closed"
    assert all(word in text for word in ("Who chooses what", "Who moves", "a to b", "all who move"))
    assert "a to a" not in text
    assert len(text.splitlines()) < 35
    assert repr(found) == "<Counterfactual: if a is closed; tables .outcomes, .shares and .moves>"
    assert "<table>" in found._repr_html_()


def test_alternatives_may_be_called_what_movers_are() -> None:
    table = ss.simulators.village(300, seed=1).data
    names = {"hunting": "(any)", "fishing": "(another)"}
    renamed = table.assign(job=table["job"].map(names))
    found, plain = (
        ss.fit("income ~ height + weight", one, chosen="job").counterfactual(close=[label])
        for one, label in ((renamed, "(any)"), (table, "hunting"))
    )
    assert found.moves is not None and plain.moves is not None
    moves = found.moves.table
    assert moves[["from", "to"]].iloc[0].tolist() == ["(any)_", "(another)_"]
    np.testing.assert_allclose(
        np.sort(moves["estimate"]), np.sort(plain.moves.table["estimate"]), rtol=1e-5
    )
    assert "(any) to (another)" in str(found) and "all who move" in str(found)
