"""Sorting, gaps and gains are what simulation says, for every rule and menu."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import selfselect as ss
from selfselect.rules import Maximum, Minimum, MonotoneArgmax, Ranked

DRAWS = 400
"""Latent outcomes drawn per row."""

MONTE_CARLO = 5.0
"""Standard errors by which a simulated mean may be off: some hundred are compared."""

CASES: dict[str, dict[str, Any]] = {
    "max": {"rule": Maximum()},
    "min": {"rule": Minimum()},
    "costs and a menu": {
        "rule": Maximum(cost={"a": "fare", "c": 0.2}),
        "available": {"c": "open_c"},
    },
    "transforms": {"rule": MonotoneArgmax({"a": "exp", "c": 1.5})},
    "ranked": {"rule": Ranked(2)},
}


@pytest.fixture(scope="module", params=list(CASES))
def case(
    request: pytest.FixtureRequest, make_world: Any
) -> tuple[ss.FitResult, np.ndarray, np.ndarray]:
    """Return a fit, latent outcomes (draws, n, k) drawn from it, and the choices in them."""
    options = CASES[request.param]
    world = make_world(300, **options)
    fit = ss.fit(world.formula, world.data, chosen="chosen", **options)
    rng = np.random.default_rng(8)
    means = fit.predict().to_numpy()
    latent = means + rng.standard_normal((DRAWS, *means.shape)) * fit.scales.to_numpy()
    rule, known = fit.problem.ordered_rule, fit.rows.known
    seen = np.stack([rule.choose(one, known) for one in latent])
    return fit, latent, seen


def assert_mean(found: float, draws: np.ndarray, where: np.ndarray | None = None) -> None:
    """Compare with a mean over draws, conditional on `where`."""
    where = np.ones(draws.shape, bool) if where is None else where
    share = where.mean()
    mean = (draws * where).mean() / share
    # Each column of draws is one row of the data: only what varies within it is chance.
    influence = where * (draws - mean) / share
    error = np.sqrt(influence.var(axis=0).mean() / draws.size)
    assert abs(found - mean) <= MONTE_CARLO * error + 1e-9


def test_sorting(case: Any) -> None:
    fit, latent, seen = case
    table = fit.sorting().table.set_index(["alternative", "quantity"])["estimate"]
    mean = fit.predict().to_numpy()
    for g, label in enumerate("abc"):
        here = seen == g
        noise = latent[..., g] - mean[:, g]
        assert_mean(table[label, "advantage by noise"], noise, here)
        predicted = np.broadcast_to(mean[:, g] - mean[:, g].mean(), here.shape)
        assert_mean(table[label, "advantage by covariates"], predicted, here)
        gain = latent[..., g] - np.delete(latent, g, axis=-1).mean(axis=-1)
        gain = gain - (mean[:, g] - np.delete(mean, g, axis=1).mean(axis=1)).mean()
        assert_mean(table[label, "comparative advantage"], gain, here)
        covariance = table[label, "share"] * table[label, "comparative advantage"]
        assert table[label, "covariance of choice and gain"] == pytest.approx(covariance)


def test_the_parts_of_the_gap_add_up(case: Any) -> None:
    fit, latent, seen = case
    table = fit.decompose("a", "b").table.set_index("part")["estimate"]
    parts = table["covariates"] + table["pay"] + table["selection"]
    assert parts == pytest.approx(table["gap under the model"], abs=1e-12)
    groups = fit.potential_outcomes().table.set_index(["group", "alternative"])["estimate"]
    assert table["gap under the model"] == pytest.approx(groups["a", "a"] - groups["b", "b"])
    noise = latent - fit.predict().to_numpy()
    assert_mean(table["selection"] + np.mean(noise[..., 1][seen == 1]), noise[..., 0], seen == 0)
    recorded = fit.rows.outcome[fit.rows.chosen == 0].mean()
    recorded -= fit.rows.outcome[fit.rows.chosen == 1].mean()
    assert table["gap in the data"] == pytest.approx(recorded)
    assert table["not reproduced"] == pytest.approx(recorded - table["gap under the model"])


def test_a_gap_of_which_outcomes_are_not_recorded_is_left_out_with_its_reason(world: Any) -> None:
    chose_a = world.data["chosen"] == "a"
    silent = world.data.assign(outcome=world.data["outcome"].mask(chose_a & (world.data["d"] == 1)))
    fit = ss.fit(world.formula, silent, chosen="chosen", missing_outcome="silent")
    found = fit.decompose("a", "b")
    assert found.table["part"].tolist() == ["covariates", "pay", "selection", "gap under the model"]
    n_silent = int(silent["outcome"].isna().sum())
    said = " ".join(found.notes)
    assert f"The gap in the data is not known: {n_silent} rows of those who chose a or b" in said
    assert "no row is expected" not in said
    recorded = fit.decompose("b", "c").table.set_index("part")["estimate"]
    means = silent.groupby("chosen")["outcome"].mean()
    assert recorded["gap in the data"] == pytest.approx(means["b"] - means["c"])


def test_the_reference_decides_what_covariates_are_worth(fit: ss.FitResult) -> None:
    each = {
        reference: fit.decompose("a", "b", reference=reference).table.set_index("part")["estimate"]
        for reference in ("both", "a", "b")
    }
    for part in ("covariates", "pay"):
        average = (each["a"][part] + each["b"][part]) / 2
        assert each["both"][part] == pytest.approx(average)
    assert each["a"]["selection"] == pytest.approx(each["b"]["selection"])
    with pytest.raises(ss.errors.OptionError, match=r"reference='c' is neither 'a' nor 'b'"):
        fit.decompose("a", "b", reference="c")


def test_weights_make_weighted_averages(world: Any) -> None:
    weighted = ss.fit(world.formula, world.data, chosen="chosen", weights="w")
    found = weighted.potential_outcomes().table["estimate"][:3]
    means = weighted.predict().to_numpy()
    expected = np.average(means, axis=0, weights=world.data["w"])
    np.testing.assert_allclose(found, expected)
    doubled = pd.concat([world.data, world.data])
    twice = ss.fit(world.formula, doubled, chosen="chosen")
    counted = ss.fit(world.formula, world.data.assign(w=2.0), chosen="chosen", weights="w")
    columns = ["estimate", "std_error"]
    np.testing.assert_allclose(
        twice.treatment_effects("a", "b").table[columns],
        counted.treatment_effects("a", "b").table[columns],
        rtol=1e-5,
    )


def test_an_outcome_that_nobody_recorded_has_effects_too() -> None:
    market = ss.simulators.market(600, seed=1)
    fit = ss.fit(market.formula, market.data, rule="min")
    table = fit.treatment_effects("demand", "supply").table.set_index("effect")
    latent, short = market.latent, market.data["side"] == "demand"
    gap = latent["demand"] - latent["supply"]
    truth = {"ATE": gap.mean(), "ATT": gap[short].mean(), "ATU": gap[~short].mean()}
    for effect, value in truth.items():
        low, high = table.loc[effect, ["conf_low", "conf_high"]]
        wide = 0.5 * (high - low)
        assert low - wide <= value <= high + wide
    parts = fit.decompose("demand", "supply").table["part"].tolist()
    assert "gap in the data" not in parts  # nobody recorded whose outcome it was


def test_gains_are_those_of_the_outcomes(fit: ss.FitResult) -> None:
    found = fit.gains("a", "b", draws=40_000, seed=2)
    table = found.table.set_index(["group", "quantity"])
    effects = fit.treatment_effects("a", "b").table.set_index("effect")
    for group, effect in (("everyone", "ATE"), ("a chosen", "ATT")):
        simulated = table.loc[(group, "mean")]
        gap = abs(simulated["estimate"] - effects["estimate"][effect])
        assert gap <= MONTE_CARLO * simulated["mc_error"]
        # Two ways to the same standard error: differences of draws, and exact derivatives.
        assert simulated["std_error"] == pytest.approx(effects["std_error"][effect], rel=0.05)
    means, scales = fit.predict().to_numpy(), fit.scales.to_numpy()
    spread = np.sqrt((means[:, 0] - means[:, 1]).var() + (scales[:2] ** 2).sum())
    std = table.loc[("everyone", "std")]
    assert abs(std["estimate"] - spread) <= MONTE_CARLO * std["mc_error"]
    assert set(found.draws["seen"]) == {"a", "b", "c"}
    assert str(found) == str(found.effect) and found.warnings == ()


def test_two_alternatives_gain_only_where_they_are_seen(pair: ss.FitResult) -> None:
    table = pair.gains("hunting", "fishing", draws=5_000).table.set_index(["group", "quantity"])
    assert table.loc[("hunting chosen", "share above zero"), "estimate"] == 1.0
    assert table.loc[("fishing chosen", "share above zero"), "estimate"] == 0.0
    shown = pair.gains("hunting", "fishing", draws=5_000, seed=0).table
    pd.testing.assert_frame_equal(shown, pair.gains("hunting", "fishing", draws=5_000).table)
    for bad, sentence in (
        ({"quantiles": [0.5, 1.2]}, "must lie between 0 and 1"),
        ({"draws": 0}, "not a number of draws"),
    ):
        with pytest.raises(ss.errors.OptionError, match=sentence):
            pair.gains("hunting", "fishing", **bad)
    with pytest.raises(ss.errors.OptionError, match="compared with itself"):
        pair.gains("hunting", "hunting")


def test_rules_without_bounds_have_no_closed_form(fit: ss.FitResult) -> None:
    class OnlyChooses:
        name = "who knows"

        def choose(self, latent: Any, rows: Any = None) -> Any:
            del rows
            return latent.argmax(axis=1)

    other = replace(fit, problem=replace(fit.problem, rule=OnlyChooses()))
    with pytest.raises(ss.errors.UnsupportedError, match="offers no `bounds`"):
        other.potential_outcomes()


@pytest.mark.parametrize("x", [0.3, 0.7, 1.0, 1.5])
def test_effects_on_the_few_who_do_not_choose_are_no_rounding(x):
    """Nearly everyone chooses a: those who do not are far from a difference of two means."""
    rng = np.random.default_rng(0)
    covariate = rng.normal(size=3000)
    a, b = 1 + 2 * covariate, 1 - 2 * covariate
    a, b = (mean + 0.3 * rng.normal(size=3000) for mean in (a, b))
    rows = pd.DataFrame({"y": np.maximum(a, b), "c": np.where(a > b, "a", "b"), "x": covariate})
    fit = ss.fit("y ~ x", rows, chosen="c")
    found = fit.treatment_effects("a", "b", at={"x": x}).table["estimate"].to_numpy()
    index = {label: fit.params[label]["Intercept"] + x * fit.params[label]["x"] for label in "ab"}
    spread = {label: fit.params[label]["scale"] for label in "ab"}
    both = np.hypot(spread["a"], spread["b"])
    gap = (index["a"] - index["b"]) / both
    # E[d | d < 0] of a normal d, by the Mills ratio.
    ratio = np.exp(norm.logpdf(gap) - norm.logsf(gap))
    np.testing.assert_allclose(found[2], both * (gap - ratio), rtol=1e-5)
    np.testing.assert_allclose(found[0], index["a"] - index["b"], rtol=1e-9)
