"""Means of outcomes whose logarithm was modelled, against simulation and against identities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import OptionError

DRAWS = 400_000
MONTE_CARLO = 5.0
"""Standard errors by which one of some sixty simulated means may be off."""

RULES = {
    "max": ss.rules.Maximum(),
    "min": ss.rules.Minimum(),
    "costs": ss.rules.Maximum(cost={"a": 0.3}),
    "transforms": ss.rules.MonotoneArgmax({"a": "exp", "b": 4.0, "c": 4.0}),
    "ranked": ss.rules.Ranked(2),
}
LEFT = {
    "log(wage)": np.exp,
    "np.log(wage)": np.exp,
    "np.log2(wage)": np.exp2,
    "log10(wage)": lambda y: 10.0**y,
    "np.log1p(wage)": np.expm1,
}


def fit_of(rule: Any = "max", left: str = "log(wage)") -> ss.FitResult:
    rng = np.random.default_rng(1)
    sample = ss.simulate(
        {"a": {"Intercept": 2.2, "x": 0.5}, "b": {"Intercept": 2.1, "x": -0.4},
         "c": {"Intercept": 2.0, "x": 0.1}},
        {"x": rng.normal(size=700)}, scales={"a": 0.3, "b": 0.5, "c": 0.4}, rule=rule, seed=1,
    )  # fmt: skip
    data = sample.data.assign(wage=LEFT[left](sample.data["outcome"]))
    return ss.fit(f"{left} ~ x", data, chosen="chosen", rule=rule)


def assert_mean(expected: float, draws: Any, slack: float = 1e-9) -> None:
    assert abs(draws.mean() - expected) <= MONTE_CARLO * draws.std() / np.sqrt(len(draws)) + slack


@pytest.mark.parametrize("name", RULES)
def test_levels_are_what_simulation_says(name: str) -> None:
    fit = fit_of(RULES[name])
    new = pd.DataFrame({"x": [-0.8, 1.1]})
    mean, scale = fit.predict(new).to_numpy(), fit.scales.to_numpy()
    latent, outcome, given = (
        fit.predict(new, kind=kind, scale="level") for kind in ("latent", "outcome", "given_seen")
    )
    rng = np.random.default_rng(2)
    for row in range(2):
        draws = mean[row] + rng.normal(size=(DRAWS, 3)) * scale
        costs = np.tile([0.3, 0.0, 0.0], (DRAWS, 1)) if name == "costs" else None
        seen = fit.problem.ordered_rule.choose(draws, ss.rules.RowData(costs))
        levels = np.exp(draws)
        assert_mean(outcome.iloc[row], levels[np.arange(DRAWS), seen])
        for j, label in enumerate("abc"):
            assert_mean(latent[label].iloc[row], levels[:, j])
            for m, other in enumerate("abc"):
                if (seen == m).sum() > 1_000:
                    assert_mean(given[label, other].iloc[row], levels[seen == m, j])


NOISES = {
    "correlated": ss.noises.Correlated(scale=[0.5, 0.4], correlation=0.7),
    "shared shock": ss.noises.SharedShock(scale=[0.4, 0.3], loading=0.4),
    "known covariance": ss.noises.KnownCovariance([[0.25, 0.14], [0.14, 0.16]]),
    "estimated costs": ss.noises.Independent(scale=[0.5, 0.4]),
}
"""Noises that are not independent across alternatives, and costs that are not known."""

SIMULATED = 0.004
"""Error that predictions by simulation may have on top, which means under known covariances are."""


@pytest.mark.parametrize("name", NOISES)
def test_levels_count_correlations_and_estimated_costs(name: str) -> None:
    noise = NOISES[name]
    sample = ss.simulate(
        {"a": {"Intercept": 2.2, "x": 0.5}, "b": {"Intercept": 2.1, "x": -0.4}},
        {"x": np.random.default_rng(1).normal(size=400)}, noise=noise, seed=1,
    )  # fmt: skip
    data = sample.data.assign(wage=np.exp(sample.data["outcome"]))
    cost = {"a": "~ 1"} if name == "estimated costs" else None
    fit = ss.fit("log(wage) ~ x", data, chosen="chosen", noise=noise, cost=cost, seed=1)
    new = pd.DataFrame({"x": [0.3]})
    drawn = noise.draw(DRAWS, fit.scales.to_numpy(), ("a", "b"), np.random.default_rng(2))
    draws = fit.predict(new).to_numpy() + drawn
    charged = draws.copy()
    if cost:
        charged[:, 0] -= fit.params["a", "cost: Intercept"]
    seen, levels = charged.argmax(axis=1), np.exp(draws)
    slack = SIMULATED * levels.mean() if name == "known covariance" else 1e-9
    given = fit.predict(new, kind="given_seen", scale="level")
    for j, label in enumerate("ab"):
        assert_mean(fit.predict(new, scale="level")[label].iloc[0], levels[:, j])
        for m, other in enumerate("ab"):
            assert_mean(given[label, other].iloc[0], levels[seen == m, j], slack)
    outcome = fit.predict(new, kind="outcome", scale="level")
    assert_mean(outcome.iloc[0], levels[np.arange(DRAWS), seen], slack)


def test_levels_of_skewed_noise_are_those_of_draws() -> None:
    """A mixture has components to both sides of its mean, of which each moves the level."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=3_000)
    skewed = 0.6 * (rng.chisquare(2, size=(3_000, 2)) - 2) / 2
    latent = np.column_stack([2.2 + 0.5 * x, 2.1 - 0.4 * x]) + skewed
    data = pd.DataFrame(
        {"x": x, "wage": np.exp(latent.max(axis=1)), "job": np.array(["a", "b"])[latent.argmax(1)]}
    )
    fit = ss.fit("log(wage) ~ x", data, chosen="job", noise=ss.noises.Mixture(2))
    share, mean, spread = (
        fit.params["(common)", f"shape: {what} 2"] for what in ("share", "mean", "spread")
    )
    assert share * mean > 0.2
    shares, centres = np.array([1 - share, share]), np.array([-share * mean / (1 - share), mean])
    left = 1 - shares @ centres**2 - share * spread**2
    spreads = np.array([np.sqrt(left / (1 - share)), spread])
    new = pd.DataFrame({"x": [0.3]})
    latent = fit.predict(new, scale="level")
    for label in "ab":
        scale = fit.scales[label]
        each = fit.predict(new)[label].item() + scale * centres + (scale * spreads) ** 2 / 2
        assert latent[label].item() == pytest.approx(shares @ np.exp(each), rel=1e-9)
    drawn = fit.simulate(pd.concat([new] * 100_000, ignore_index=True), seed=5)
    assert_mean(fit.predict(new, "outcome", scale="level").iloc[0], drawn["wage"])
    given = fit.predict(new, "given_seen", scale="level")
    for label in "ab":
        assert_mean(given[label, label].iloc[0], drawn.loc[drawn["job"] == label, "wage"])


@pytest.mark.parametrize("left", LEFT)
def test_every_logarithm_is_undone_by_its_own_inverse(left: str) -> None:
    fit = fit_of(left=left)
    new = pd.DataFrame({"x": [0.4]})
    mean, scale = fit.predict(new).to_numpy()[0], fit.scales.to_numpy()
    z = np.random.default_rng(3).normal(size=(DRAWS, 3))
    levels = LEFT[left](mean + z * scale)
    latent = fit.predict(new, scale="level")
    outcome = fit.predict(new, kind="outcome", scale="level")
    for j, label in enumerate("abc"):
        assert_mean(latent[label].iloc[0], levels[:, j])
    assert_mean(outcome.iloc[0], levels.max(axis=1))
    assert outcome.name == "wage"


@pytest.mark.parametrize("name", RULES)
def test_means_given_who_is_seen_add_up(name: str) -> None:
    fit = fit_of(RULES[name])
    new = pd.DataFrame({"x": np.linspace(-2, 2, 9)})
    chance = fit.predict(new, kind="chance").to_numpy()
    given = fit.predict(new, kind="given_seen", scale="level")
    latent = fit.predict(new, scale="level")
    for label in "abc":
        whole = np.nansum(chance * np.column_stack([given[label, s] for s in "abc"]), axis=1)
        np.testing.assert_allclose(whole, latent[label], rtol=1e-7)
    own = np.nansum(chance * np.column_stack([given[s, s] for s in "abc"]), axis=1)
    np.testing.assert_allclose(fit.predict(new, "outcome", scale="level"), own, rtol=1e-7)


def test_the_latent_level_is_the_lognormal_mean_exactly() -> None:
    fit = fit_of()
    wanted = np.exp(fit.predict() + fit.scales.to_numpy() ** 2 / 2)
    pd.testing.assert_frame_equal(fit.predict(scale="level"), wanted, rtol=1e-13)


def test_smearing_would_be_wrong() -> None:
    """Average the exponentials of the residuals one can see: selection has made them larger."""
    fit = fit_of()
    rows, mean = fit.rows, fit.predict().to_numpy()
    level = fit.predict(scale="level").to_numpy()
    for j in range(3):
        seen = rows.chosen == j
        smeared = np.exp(mean[:, j]) * np.exp(rows.outcome[seen] - mean[seen, j]).mean()
        assert (smeared > 1.02 * level[:, j]).all()


def test_levels_work_where_nobody_was_recorded() -> None:
    rng = np.random.default_rng(4)
    sample = ss.simulators.gaussian(800, 2, 2, norm=2.0, seed=4)
    data = sample.data.assign(price=np.exp(sample.data["outcome"]))
    fit = ss.fit("log(price) ~ x1 + x2", data, alternatives=2)
    new = data[["x1", "x2"]].head(1)
    draws = fit.predict(new).to_numpy() + rng.normal(size=(DRAWS, 2)) * fit.scales.to_numpy()
    assert_mean(fit.predict(new, "outcome", scale="level").iloc[0], np.exp(draws.max(axis=1)))


def test_a_loaded_fit_predicts_levels_too(tmp_path: Any) -> None:
    fit, new = fit_of(), pd.DataFrame({"x": [0.0, 1.0]})
    fit.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json").predict(new, kind="outcome", scale="level")
    np.testing.assert_allclose(loaded, fit.predict(new, kind="outcome", scale="level"))


# what cannot be done


@pytest.mark.parametrize(
    "left", ["wage", "np.sqrt(wage)", "log_wage", "I(np.log(wage) + 1)", "`a b`"]
)
def test_a_left_side_that_is_no_logarithm_is_refused(left: str) -> None:
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"wage": rng.uniform(1, 2, 100), "x": rng.normal(size=100),
                         "who": rng.choice(["a", "b"], 100)})  # fmt: skip
    data["log_wage"], data["a b"] = np.log(data["wage"]), data["wage"]
    fit = ss.fit(f"{left} ~ x", data, chosen="who")
    with pytest.raises(OptionError, match="undoes a logarithm, but the left side of the formula"):
        fit.predict(data, scale="level")


def test_a_scale_that_is_not_there_and_a_chance_on_a_scale_are_refused() -> None:
    fit = fit_of()
    with pytest.raises(OptionError, match=r"no scale 'exp'. Use one of model, level"):
        fit.predict(scale="exp")
    with pytest.raises(OptionError, match="A chance has no scale"):
        fit.predict(kind="chance", scale="level")


def test_a_logarithm_of_a_column_with_spaces_is_one() -> None:
    sample = ss.simulators.village(200, seed=1).data
    table = sample.assign(**{"monthly pay": np.exp(sample["income"] / 50)})
    plain = table.rename(columns={"monthly pay": "pay"})
    odd = ss.fit("log(`monthly pay`) ~ height", table, chosen="job")
    even = ss.fit("log(pay) ~ height", plain, chosen="job")
    found = odd.treatment_effects("hunting", "fishing", scale="level")
    wanted = even.treatment_effects("hunting", "fishing", scale="level")
    assert found.table["unit"].tolist() == ["monthly pay"] * 3 + ["per cent"] * 3
    np.testing.assert_allclose(found.table["estimate"], wanted.table["estimate"], rtol=1e-9)
    both = ss.fit("log(`monthly pay` + 1) ~ height", table, chosen="job")
    units = both.treatment_effects("hunting", "fishing", scale="level").table["unit"]
    assert units.iloc[0] == "`monthly pay` + 1"

    doubled = table.assign(**{"monthly pay 2": 2.0})
    ratio = ss.fit("log(`monthly pay` / `monthly pay 2`) ~ height", doubled, chosen="job")
    assert ratio.predict(kind="outcome", scale="level").name == "`monthly pay` / `monthly pay 2`"
