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
