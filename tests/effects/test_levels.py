"""Effects on the level of an outcome whose logarithm was modelled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.effects._moments import Setting
from selfselect.effects._scenario import draw
from selfselect.errors import ExtrapolationWarning, OptionError, UnsupportedError
from selfselect.moments.mixed import LevelMoments
from selfselect.results.averaged_rows import find_logarithm, sample_of

DRAWS = 800


def made(n: int = 700, seed: int = 4) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, z = rng.standard_normal((2, n))
    a = 1.0 + 0.5 * x + 0.6 * rng.standard_normal(n)
    b = 0.8 + 0.2 * x + 0.3 * z + 0.4 * rng.standard_normal(n)
    chosen = np.where(a > b, "a", "b")
    return pd.DataFrame({"x": x, "z": z, "job": chosen, "wage": np.exp(np.maximum(a, b))})


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return made()


@pytest.fixture(scope="module")
def roy(table: pd.DataFrame) -> ss.FitResult:
    return ss.fit({"a": "log(wage) ~ x", "b": "log(wage) ~ x + z"}, table, chosen="job")


@pytest.fixture(scope="module")
def switching(table: pd.DataFrame) -> ss.FitResult:
    formulas = {"a": "log(wage) ~ x", "b": "log(wage) ~ x"}
    return ss.switching(formulas, "job ~ x + z", table)


def simulated(fit: ss.FitResult) -> np.ndarray:
    """Return level effects and their per cents over the rows of a Roy fit, by draws."""
    rng = np.random.default_rng(9)
    means = fit.predict().to_numpy()
    latent = means + fit.scales.to_numpy() * rng.standard_normal((DRAWS, *means.shape))
    levels, first = np.exp(latent), latent[..., 0] > latent[..., 1]
    found, base = [], []
    for group in (np.ones_like(first), first, ~first):
        mean = levels[group].mean(axis=0)
        found.append(mean[0] - mean[1])
        base.append(mean[1])
    return np.concatenate([found, 100 * np.array(found) / base])


def test_level_effects_are_those_of_simulated_levels(roy: ss.FitResult) -> None:
    effects = roy.treatment_effects("a", "b", scale="level").table
    # 600,000 draws of levels with a spread of about 3 leave an error of half a hundredth.
    np.testing.assert_allclose(effects["estimate"], simulated(roy), rtol=0.01, atol=0.02)
    assert effects["unit"].tolist() == ["wage"] * 3 + ["per cent"] * 3
    assert effects["effect"].tolist() == ["ATE", "ATT", "ATU"] * 2


def test_levels_of_log1p_are_those_of_the_logarithm_less_one_and_stay_above_minus_one(
    table: pd.DataFrame, roy: ss.FitResult
) -> None:
    lower = table.assign(wage=table["wage"] - 1.0)
    shifted = ss.fit(
        {"a": "np.log1p(wage) ~ x", "b": "np.log1p(wage) ~ x + z"}, lower, chosen="job"
    )
    columns = ["estimate", "conf_low", "conf_high"]
    found, expected = (
        fit.potential_outcomes(scale="level").table[columns] for fit in (shifted, roy)
    )
    np.testing.assert_allclose(found, expected - 1.0, rtol=0, atol=1e-7)


@pytest.mark.parametrize("model", ["roy", "switching"])
def test_heterogeneity_of_levels_holds_their_means_and_effects(
    model: str, request: pytest.FixtureRequest
) -> None:
    fit: ss.FitResult = request.getfixturevalue(model)
    asked = fit.heterogeneity("a", "b", scale="level")
    assert str(asked).strip().startswith("Mean wage of those who choose a")
    found = asked.table.set_index(["group", "of"])[["estimate", "std_error"]]
    effects = fit.treatment_effects("a", "b", scale="level").table.set_index(["unit", "effect"])
    means = fit.potential_outcomes(scale="level").table.set_index(["group", "alternative"])
    for group, name in (("a chosen", "ATT"), ("a not chosen", "ATU")):
        wanted = effects.loc[("wage", name), ["estimate", "std_error"]].astype(float)
        np.testing.assert_allclose(found.loc[(group, "effect")], wanted, rtol=1e-9)
    for of in ("a", "b"):
        wanted = means.loc[("a", of), ["estimate", "std_error"]].astype(float)
        np.testing.assert_allclose(found.loc[("a chosen", of)], wanted, rtol=1e-9)


def test_the_overall_effect_is_the_weighted_mean_of_its_parts(roy: ss.FitResult) -> None:
    ate, att, atu = roy.treatment_effects("a", "b", scale="level").table["estimate"][:3]
    share = roy.choice_probabilities().table.set_index("alternative")["estimate"]["a"]
    assert ate == pytest.approx(share * att + (1 - share) * atu, rel=1e-9)


@pytest.mark.parametrize("model", ["roy", "switching"])
def test_slopes_by_differences_agree_with_smaller_steps(
    model: str, request: pytest.FixtureRequest
) -> None:
    fit: ss.FitResult = request.getfixturevalue(model)
    moments = LevelMoments(fit.problem, fit.problem.ordered_rule, find_logarithm(fit))
    rows = fit.rows.take(slice(0, 50))
    weights = np.linspace(0.5, 1.5, 50)
    _, slope = moments.cells_and_slope(fit.values, rows, weights)
    for place in range(len(fit.values)):
        step = 3e-4 * fit.bse.to_numpy()[place]
        up, down = fit.values.copy(), fit.values.copy()
        up[place] += step
        down[place] -= step
        found = weights @ (moments.cells(up, rows) - moments.cells(down, rows)) / (2 * step)
        np.testing.assert_allclose(slope[:, place], found, rtol=1e-4, atol=1e-4)


def test_errors_of_levels_are_those_of_predictions(roy: ss.FitResult, table: pd.DataFrame) -> None:
    row = table[3:4]
    means = roy.potential_outcomes(row, covariates="fixed", scale="level").table[:2]
    exact = roy.predict(row, scale="level", level=0.95)
    for label in ("a", "b"):
        own = means[means["alternative"] == label].iloc[0]
        assert own["estimate"] == pytest.approx(exact[label]["estimate"].iloc[0], rel=1e-9)
        assert own["std_error"] == pytest.approx(exact[label]["std_error"].iloc[0], rel=1e-5)


def test_per_cents_do_not_depend_on_the_unit_of_the_level(
    roy: ss.FitResult, table: pd.DataFrame
) -> None:
    cents = table.assign(wage=100 * table["wage"])
    other = ss.fit({"a": "log(wage) ~ x", "b": "log(wage) ~ x + z"}, cents, chosen="job")
    one, two = (fit.treatment_effects("a", "b", scale="level").table for fit in (roy, other))
    np.testing.assert_allclose(two["estimate"][:3], 100 * one["estimate"][:3], rtol=1e-6)
    np.testing.assert_allclose(two["std_error"][3:], one["std_error"][3:], rtol=1e-5)


def test_marginal_effects_are_differences_of_predicted_levels(
    roy: ss.FitResult, table: pd.DataFrame
) -> None:
    found = roy.marginal_effects("z", of="outcome", scale="level").table.iloc[0]
    step = 1e-4
    up, down = (
        roy.predict(table.assign(z=table["z"] + move), kind="outcome", scale="level").mean()
        for move in (step, -step)
    )
    assert found["estimate"] == pytest.approx((up - down) / (2 * step), rel=1e-3)
    assert found["std_error"] > 0


def test_effects_are_said_in_per_cent(roy: ss.FitResult) -> None:
    text = " ".join(str(roy.treatment_effects("a", "b", scale="level")).split())
    assert "the mean of wage by" in text and "per cent for everyone (95% interval" in text
    assert "per cent for those who choose a (95%" in text
    assert "per cent for those who do not choose a (95%" in text


def test_a_logarithm_is_found_inside_of_what_leaves_it_as_it_is(table: pd.DataFrame) -> None:
    plain, wrapped = (
        ss.fit(f"{left} ~ x + z", table, chosen="job").treatment_effects("a", "b", scale="level")
        for left in ("log(wage)", "I(np.log(wage))")
    )
    assert wrapped.title == plain.title
    pd.testing.assert_frame_equal(wrapped.table, plain.table)


def test_a_level_that_overflows_is_said_to_without_a_warning(
    roy: ss.FitResult, recwarn: pytest.WarningsRecorder
) -> None:
    far = {"x": [1e5]}
    for ask in (
        lambda: roy.treatment_effects("a", "b", at=far, scale="level"),
        lambda: roy.potential_outcomes(at=far, scale="level"),
    ):
        found = ask()
        assert np.isnan(found.table["std_error"]).all()
        assert any("too large for a number of the computer" in note for note in found.notes)
        assert not any(note.startswith("Means are missing") for note in found.notes)
    assert {one.category for one in recwarn} == {ExtrapolationWarning}
    assert not any("too large" in note for note in roy.potential_outcomes(scale="level").notes)


def test_sampled_covariates_add_to_the_error(roy: ss.FitResult) -> None:
    sampled, fixed = (
        roy.treatment_effects("a", "b", scale="level", covariates=word).table["std_error"]
        for word in ("sampled", "fixed")
    )
    assert (sampled[:3] > fixed[:3]).all()


def test_a_level_without_a_logarithm_is_refused(table: pd.DataFrame, roy: ss.FitResult) -> None:
    plain = ss.fit("wage ~ x", table, chosen="job")
    with pytest.raises(OptionError, match="undoes a logarithm"):
        plain.treatment_effects("a", "b", scale="level")
    with pytest.raises(OptionError, match="There is no scale 'log'"):
        roy.potential_outcomes(scale="log")
    with pytest.raises(OptionError, match="A chance has no scale"):
        roy.marginal_effects("x", scale="level")
    logistic = replace(
        roy, problem=replace(roy.problem, noise=ss.noises.Independent(shape="logistic"))
    )
    with pytest.raises(UnsupportedError, match="normal or a mixture of normals"):
        logistic.potential_outcomes(scale="level")


@pytest.fixture(scope="module")
def noisy() -> ss.FitResult:
    """A fit whose per cents are large beside what is left: few rows, wide noise."""
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal((2, 40))
    a, b = 2.0 * rng.standard_normal(40) - 0.5, 3.0 + x + z + 1.5 * rng.standard_normal(40)
    table = pd.DataFrame(
        {"x": x, "z": z, "wage": np.exp(np.maximum(a, b)), "job": np.where(a > b, "a", "b")}
    )
    return ss.fit({"a": "log(wage) ~ x", "b": "log(wage) ~ x + z"}, table, chosen="job")


def log_ratio(fit: ss.FitResult, values: np.ndarray) -> float:
    """Return the logarithm of the ratio of the mean levels of a and b over all rows."""
    moments = LevelMoments(fit.problem, fit.problem.ordered_rule, find_logarithm(fit))
    a, b = moments.latent(values, fit.rows).mean(axis=0)
    return float(np.log(a / b))


def test_per_cents_are_those_of_the_log_ratio_carried_back(noisy: ss.FitResult) -> None:
    slope = np.empty(len(noisy.values))
    for place, step in enumerate(1e-5 * noisy.bse.to_numpy()):
        up, down = noisy.values.copy(), noisy.values.copy()
        up[place] += step
        down[place] -= step
        slope[place] = (log_ratio(noisy, up) - log_ratio(noisy, down)) / (2 * step)
    error = float(np.sqrt(slope @ noisy.covariance.matrix @ slope))
    value = log_ratio(noisy, noisy.values)
    low, high = (100 * np.expm1(value + sign * 1.959963985 * error) for sign in (-1, 1))
    table = noisy.treatment_effects("a", "b", scale="level", covariates="fixed").table
    row = table[table["unit"] == "per cent"].iloc[0]
    assert row["estimate"] - 1.959963985 * row["std_error"] < -100.0
    np.testing.assert_allclose([row["conf_low"], row["conf_high"]], [low, high], rtol=1e-4)
    assert row["statistic"] == pytest.approx(value / error, rel=1e-4)


def test_no_interval_of_levels_leaves_what_levels_can_be(noisy: ss.FitResult) -> None:
    for at in (None, {"x": [0.0, 1.0]}):
        effects = noisy.treatment_effects("a", "b", scale="level", at=at).table
        per_cent = effects[effects["unit"] == "per cent"]
        assert (per_cent["conf_low"] > -100.0).all()
        away = (per_cent["conf_low"] > 0) | (per_cent["conf_high"] < 0)
        assert (away == (per_cent["p_value"] < 0.05)).all()
        means = noisy.potential_outcomes(scale="level", at=at).table
        assert (means["conf_low"] > 0.0).all()
        assert (means["conf_low"] < means["estimate"]).all()


@pytest.fixture(scope="module")
def three() -> ss.FitResult:
    rng = np.random.default_rng(8)
    x = rng.standard_normal(900)
    latent = np.column_stack([1.0 + 0.5 * x, 0.9 - 0.2 * x, 0.8 + 0.0 * x])
    latent += rng.standard_normal(latent.shape) * [0.6, 0.4, 0.5]
    jobs, wages = np.array(list("abc"))[latent.argmax(axis=1)], np.exp(latent.max(axis=1))
    table = pd.DataFrame({"x": x, "job": jobs, "wage": wages})
    return ss.fit("log(wage) ~ x", table, chosen="job")


def drawn_change(fit: ss.FitResult, costs: list[float]) -> tuple[np.ndarray, ...]:
    """Return levels (draws, n, k) and who chooses what before and after costs."""
    rng = np.random.default_rng(9)
    means = fit.predict().to_numpy()
    latent = means + fit.scales.to_numpy() * rng.standard_normal((DRAWS, *means.shape))
    return np.exp(latent), latent.argmax(axis=-1), (latent - costs).argmax(axis=-1)


def taken(levels: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    return np.take_along_axis(levels, chosen[..., None], axis=-1)[..., 0]


@pytest.mark.parametrize("costs", [[np.inf, 0.0, 0.0], [0.0, -0.3, 0.0], [0.2, 0.0, 0.0]])
def test_a_counterfactual_of_levels_is_that_of_simulated_levels(
    three: ss.FitResult, costs: list[float]
) -> None:
    change: dict[str, Any] = {"subsidy": {"abc"[i]: -c for i, c in enumerate(costs) if c}}
    if np.isinf(costs[0]):
        change = {"close": ["a"]}
    found = three.counterfactual(**change, scale="level")
    levels, first, then = drawn_change(three, costs)
    before, after = taken(levels, first), taken(levels, then)
    wanted = [before.mean(), after.mean(), (after - before).mean()]
    wanted.append(100 * wanted[2] / wanted[0])
    if "subsidy" in change:
        wanted.append((np.expm1(-np.array(costs))[then] * after).mean())
    table = found.outcomes.table
    np.testing.assert_allclose(table["estimate"], wanted, rtol=0.01, atol=0.02)
    assert table["quantity"].tolist()[:4] == ["mean wage"] * 3 + ["mean wage, per cent"]
    assert found.moves is not None
    moves = found.moves.table.set_index(["from", "to", "quantity"])["estimate"]
    for g, origin in enumerate("abc"):
        for h, goal in enumerate("abc"):
            those = (first == g) & (then == h)
            if those.mean() < 0.01:
                continue
            expected = [before[those].mean(), after[those].mean()]
            listed = moves.loc[[(origin, goal, f"outcome {when}") for when in ("before", "after")]]
            np.testing.assert_allclose(listed, expected, rtol=0.02)


def test_subsidies_of_the_smallest_level_pay_for_what_is_taken_off_it() -> None:
    rng = np.random.default_rng(8)
    x = rng.standard_normal(900)
    latent = np.column_stack([1.0 + 0.5 * x, 0.9 - 0.2 * x]) + 0.5 * rng.standard_normal((900, 2))
    bidders, prices = np.array(list("ab"))[latent.argmin(axis=1)], np.exp(latent.min(axis=1))
    table = pd.DataFrame({"x": x, "bidder": bidders, "price": prices})
    fit = ss.fit("log(price) ~ x", table, chosen="bidder", rule="min")
    amounts = np.array([0.0, 0.3])
    found = fit.counterfactual(subsidy={"b": 0.3}, scale="level").outcomes.table
    paid = found.set_index("quantity")["estimate"]["subsidies paid, per row"]
    means = fit.predict().to_numpy()
    noise = np.random.default_rng(9).standard_normal((DRAWS, *means.shape))
    logs = means + fit.scales.to_numpy() * noise
    winner = (logs - amounts).argmin(axis=-1)
    # A log price of y counts as y less the subsidy; somebody pays the difference.
    full, counted = (taken(np.exp(one), winner) for one in (logs, logs - amounts))
    assert paid == pytest.approx((full - counted).mean(), rel=0.01)


@pytest.mark.parametrize("rationing", ["price", "lottery"])
def test_a_quota_of_levels_moves_the_same_people(three: ss.FitResult, rationing: Any) -> None:
    levels, logs = (
        three.counterfactual(quota={"a": 0.2}, rationing=rationing, scale=scale)
        for scale in ("level", "model")
    )
    numbers = ["estimate", "std_error"]
    np.testing.assert_allclose(levels.shares.table[numbers], logs.shares.table[numbers], atol=1e-6)
    assert levels.moves is not None and logs.moves is not None
    by_share = [one.moves.table.query("quantity == 'share'")["estimate"] for one in (levels, logs)]
    np.testing.assert_allclose(*by_share, atol=1e-6)
    if rationing == "price":
        fee = levels.outcomes.table.query("quantity == 'fee for a place'")["estimate"].item()
        same = three.counterfactual(subsidy={"a": -fee}, scale="level")
        np.testing.assert_allclose(
            levels.outcomes.table["estimate"][:4], same.outcomes.table["estimate"][:4], rtol=1e-5
        )


def test_simulated_counterfactuals_of_levels_agree_with_closed_forms(three: ss.FitResult) -> None:
    class Largest:
        """The largest outcome, said by its choices alone."""

        name = "largest"

        def choose(self, outcomes: np.ndarray, rows: Any = None) -> np.ndarray:
            del rows
            return outcomes.argmax(axis=1)

    drawn = three.counterfactual(rule=Largest(), scale="level", draws=400_000)
    estimates = drawn.outcomes.table["estimate"].to_numpy()
    closed = three.counterfactual(close=["a"], scale="level").outcomes.table["estimate"][0]
    np.testing.assert_allclose(estimates[:2], closed, rtol=0.01)
    np.testing.assert_allclose(estimates[2:], 0.0, atol=1e-12)


def test_where_all_but_one_are_closed_its_level_is_observed(three: ss.FitResult) -> None:
    found = three.counterfactual(close=["b", "c"], scale="level").outcomes.table
    latent = three.potential_outcomes(scale="level").table
    everyone = latent[(latent["alternative"] == "a") & (latent["group"] == "everyone")]
    numbers = ["estimate", "std_error", "conf_low", "conf_high"]
    np.testing.assert_allclose(found[numbers].iloc[1], everyone[numbers].iloc[0], rtol=1e-6)


def test_a_change_in_per_cent_never_leaves_minus_one_hundred(three: ss.FitResult) -> None:
    found = three.counterfactual(close=["a"], scale="level", level=0.999999).outcomes.table
    per_cent = found[found["quantity"] == "mean wage, per cent"].iloc[0]
    assert -100.0 < per_cent["conf_low"] < per_cent["estimate"] < per_cent["conf_high"]
    shown = str(three.counterfactual(close=["a"], scale="level"))
    assert "mean wage, per cent" in shown
    with pytest.raises(OptionError, match="undoes a logarithm"):
        ss.fit("wage ~ x", made(), chosen="job").counterfactual(close=["a"], scale="level")


def wages_of(noise: np.ndarray, x: np.ndarray) -> pd.DataFrame:
    """Return the larger of two log wages, and at which job it was earned."""
    latent = np.column_stack([1.0 + 0.5 * x, 0.9 - 0.2 * x]) + noise
    jobs = np.array(["a", "b"])[latent.argmax(axis=1)]
    return pd.DataFrame({"x": x, "job": jobs, "wage": np.exp(latent.max(axis=1))})


def skewed(n: int = 1_500) -> pd.DataFrame:
    rng = np.random.default_rng(8)
    x = rng.standard_normal(n)
    noise = 0.4 * (rng.gamma(3.0, 1.0, (n, 2)) - 3.0) / np.sqrt(3.0)
    return wages_of(noise, x)


OTHER_NOISES = {
    "mixture": {"noise": ss.noises.Mixture(2)},
    "a mixture each": {"noise": ss.noises.Mixture(2, each=True)},
    "a mixture of moving scale": {"noise": ss.noises.Mixture(2, scale="~ x")},
    "moving scale": {"noise": ss.noises.Independent(scale="~ x")},
    "shared shock": {"noise": ss.noises.SharedShock(loading={"a": 0.3, "b": 0.2})},
    "correlated": {"noise": ss.noises.Correlated(correlation=0.4)},
    "mixture, estimated costs": {
        "noise": ss.noises.Mixture(2), "cost": {"a": "~ 1"},
    },
}  # fmt: skip


@pytest.fixture(scope="module", params=list(OTHER_NOISES))
def other(request: pytest.FixtureRequest) -> ss.FitResult:
    return ss.fit("log(wage) ~ x", skewed(), chosen="job", **OTHER_NOISES[request.param])


def test_levels_under_other_noises_are_those_of_simulated_outcomes(other: ss.FitResult) -> None:
    setting = Setting(
        sample_of(other, None).rows, other.problem.ordered_rule, find_logarithm(other)
    )
    drawn = draw(other, setting, other.values, DRAWS, 3)
    means = [drawn.latent.mean(axis=0)]
    means += [drawn.latent[drawn.chosen == j].mean(axis=0) for j in range(2)]
    table = other.potential_outcomes(scale="level").table
    found = table["estimate"].to_numpy().reshape(3, 2)
    np.testing.assert_allclose(found, means, rtol=0.006)
    predicted = other.predict(kind="outcome", scale="level").to_numpy().mean()
    np.testing.assert_allclose(
        predicted, drawn.latent[np.arange(len(drawn.chosen)), drawn.chosen].mean(), rtol=0.006
    )


def test_a_mixture_says_effects_in_per_cent() -> None:
    fit = ss.fit("log(wage) ~ x", skewed(), chosen="job", noise=ss.noises.Mixture(2))
    assert "Effect of job on the mean of wage" in str(fit.explain())


def test_levels_of_a_mixture_of_one_component_are_those_of_normal_noise() -> None:
    one, normal = (
        ss.fit("log(wage) ~ x", skewed(), chosen="job", noise=noise)
        for noise in (ss.noises.Mixture(1), None)
    )
    tables = [fit.treatment_effects("a", "b", scale="level").table for fit in (one, normal)]
    columns = ["estimate", "std_error"]
    np.testing.assert_allclose(tables[0][columns], tables[1][columns], rtol=1e-5)


def test_levels_leave_out_what_the_data_do_not_determine_of_types() -> None:
    rng = np.random.default_rng(7)
    kind, x = np.repeat(rng.integers(0, 2, 300), 5), rng.standard_normal(1_500)
    shifts = np.array([[0.5, -9.0], [-0.5, 0.5]])[kind]
    noise = shifts + rng.standard_normal((1_500, 2)) * [0.6, 0.5]
    table = wages_of(noise, x).assign(person=np.repeat(np.arange(300), 5))
    told: dict[str, Any] = {"chosen": "job", "noise": ss.noises.Types(2), "panel": "person"}
    fit = ss.fit("log(wage) ~ x", table, **told, seed=0)
    ((_, label, _),) = fit.problem.noise.held_shifts
    assert label == "b"
    given = fit.predict(kind="given_seen", scale="level")
    assert given["b", "a"].isna().all() and given["a", "b"].notna().all()
    # The mean of b over everybody is not known, nor is its level; that of a is.
    for scale in ("model", "level"):
        found = fit.predict(scale=scale, level=0.95)
        assert found["b"].isna().all().all() and found["a"].notna().all().all()
    # Over the one type that chooses b, its level is that of a normal outcome.
    table = fit.potential_outcomes(scale="level").table.set_index(["group", "alternative"])
    coefficients = fit.params["b"]
    means = coefficients["Intercept"] + coefficients["x"] * x
    wanted = np.exp(means + 0.5 * fit.scales["b"] ** 2).mean()
    assert table["estimate"]["everyone", "b"] == pytest.approx(wanted, rel=1e-5)


def test_averages_of_levels_over_a_fit_are_made_once(
    three: ss.FitResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = three.treatment_effects("a", "b", scale="level").table

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("integrated again")

    monkeypatch.setattr(LevelMoments, "cells_and_slope", never)
    two = three.treatment_effects("a", "b", scale="level").table
    pd.testing.assert_frame_equal(one, two)
    means = three.potential_outcomes(scale="level").table["estimate"]
    assert means[0] - means[1] == pytest.approx(one["estimate"][0], rel=1e-12)
