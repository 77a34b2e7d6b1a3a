"""Policies: what they recommend, what they are worth, and how far from an oracle they are."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import DataError, OptionError
from selfselect.moments.base import latent_means


def test_the_best_expected_outcome_is_recommended(fit: ss.FitResult, world: Any) -> None:
    found = fit.policy(world.data.set_index(world.data.index + 7))
    means = fit.predict(world.data)
    assert found.recommended.tolist() == means.idxmax(axis=1).tolist()
    assert found.rows.index.tolist() == list(range(7, 7 + len(world.data)))
    np.testing.assert_allclose(found.rows["expected"], means.max(axis=1))
    ordered = np.sort(means.to_numpy(), axis=1)
    np.testing.assert_allclose(found.rows["margin"], ordered[:, -1] - ordered[:, -2])
    np.testing.assert_allclose(
        found.rows["expert"], fit.predict(world.data, kind="outcome"), atol=1e-6
    )


def test_its_value_is_the_mean_of_what_is_recommended(fit: ss.FitResult) -> None:
    found = fit.policy()
    table = found.value.table.set_index("quantity")["estimate"]
    assert table["policy"] == pytest.approx(found.rows["expected"].mean())
    assert table["expert"] == pytest.approx(found.rows["expert"].mean())
    assert table["policy - expert"] == pytest.approx(table["policy"] - table["expert"])
    # The expert knows more than the covariates, and a policy may always send all to one place.
    assert table["expert"] > table["policy"]
    for label in "abc":
        assert table["policy"] >= table[f"everyone in {label}"]
        gap = table[f"policy - everyone in {label}"]
        assert gap == pytest.approx(table["policy"] - table[f"everyone in {label}"])
    assert found.goal == "largest" and str(found) == str(found.value)


def test_the_error_of_a_margin_is_that_of_two_means(pair: ss.FitResult) -> None:
    row = pair.policy().rows.iloc[0]
    height, weight = pair.table[["height", "weight"]].iloc[0]
    gradient = pd.Series(0.0, index=pair.params.index)
    for term, value in (("Intercept", 1.0), ("height", height), ("weight", weight)):
        gradient[row["recommended"], term] = value
        gradient[row["runner_up"], term] = -value
    error = np.sqrt(gradient @ pair.cov_params() @ gradient)
    assert row["std_error"] == pytest.approx(error)
    ate = pair.treatment_effects(
        row["recommended"], row["runner_up"], at={"height": height, "weight": weight}
    ).table.iloc[0]
    assert (ate["estimate"], ate["std_error"]) == pytest.approx((row["margin"], row["std_error"]))


def test_the_note_tells_by_how_much_picking_flatters(pair: ss.FitResult) -> None:
    found = pair.policy()
    (note,) = [one for one in found.value.notes if "biased upwards" in one]
    said = float(re.search(r"about ([\d.e-]+):", note)[1])
    rng = np.random.default_rng(0)
    draws = rng.multivariate_normal(pair.values, pair.covariance.matrix, 4_000)
    each, best = np.arange(pair.nobs), latent_means(pair.problem, pair.values, pair.rows).argmax(1)
    gains = []
    for one in draws:
        # What is picked anew, over what was picked at the mean of the draws.
        means = latent_means(pair.problem, one, pair.rows)
        gains.append((means.max(axis=1) - means[each, best]).mean())
    error = np.std(gains) / np.sqrt(len(gains))
    assert error < 0.05 * said
    assert said == pytest.approx(np.mean(gains), abs=4 * error + 0.05 * said)


def test_the_smallest_is_best_where_the_expert_seeks_it(make_world: Any) -> None:
    world = make_world(300, rule="min")
    fit = ss.fit(world.formula, world.data, chosen="chosen", rule="min")
    found = fit.policy()
    assert found.goal == "smallest"
    assert found.recommended.tolist() == fit.predict().idxmin(axis=1).tolist()
    table = found.value.table.set_index("quantity")["estimate"]
    assert table["expert"] < table["policy"]
    other = fit.policy(goal="largest")
    assert other.recommended.tolist() == fit.predict().idxmax(axis=1).tolist()
    with pytest.raises(OptionError, match=r"no goal 'best'. Use 'largest' or 'smallest'"):
        fit.policy(goal="best")


def test_known_costs_and_closed_doors_count(make_world: Any) -> None:
    rule, available = ss.rules.Maximum(cost={"a": 1.5}), {"c": "open_c"}
    world = make_world(300, rule=rule, available=available)
    fit = ss.fit(world.formula, world.data, chosen="chosen", rule=rule, available=available)
    found = fit.policy()
    worth = fit.predict().to_numpy() - np.array([1.5, 0.0, 0.0])
    worth[~world.data["open_c"].to_numpy(), 2] = -np.inf
    assert found.recommended.tolist() == ["abc"[j] for j in worth.argmax(axis=1)]
    assert "c" not in set(found.recommended[~world.data["open_c"].to_numpy()])


def test_a_row_with_one_open_door_has_no_runner_up(make_world: Any) -> None:
    world = make_world(300)
    shut = {"b": "open_c", "c": "open_c"}
    data = world.data.assign(open_c=world.data["open_c"] | (world.data["chosen"] != "a"))
    fit = ss.fit(world.formula, data, chosen="chosen", available=shut)
    alone = fit.policy().rows[~data["open_c"].to_numpy()]
    assert len(alone) and (alone["recommended"] == "a").all()
    assert alone[["margin", "std_error"]].isna().all(axis=None) and alone["runner_up"].isna().all()


def test_regret_against_an_oracle_is_small_and_shrinks(make_world: Any) -> None:
    regrets: dict[int, list[float]] = {150: [], 3_000: []}
    for n_rows, found in regrets.items():
        for seed in range(4):
            world = make_world(n_rows, seed=seed)
            policy = ss.fit(world.formula, world.data, chosen="chosen").policy()
            table = policy.regret(params=world.params, latent=world.latent).set_index("oracle")
            assert (table["regret"] >= 0).all()
            found.append(table["regret"]["knows the coefficients"])
            best = world.latent.max(axis=1).mean()
            assert table["oracle_value"]["knows every outcome"] == pytest.approx(best)
            # Without private knowledge much is out of reach, however well the equations are known.
            assert table["regret"]["knows every outcome"] > 10 * found[-1]
    assert np.mean(regrets[3_000]) < 0.5 * np.mean(regrets[150])


def test_regret_needs_a_truth_that_fits(fit: ss.FitResult, world: Any) -> None:
    found = fit.policy()
    with pytest.raises(OptionError, match="Give the truth"):
        found.regret()
    with pytest.raises(DataError, match=r"true coefficient of 'x' in 'a' is not given"):
        found.regret(params=world.params.drop(("a", "x")))
    with pytest.raises(DataError, match=r"lack the alternative 'c'"):
        found.regret(latent=world.latent[["a", "b"]])
    with pytest.raises(DataError, match=r"shape \(10, 3\); \(400, 3\) is expected"):
        found.regret(latent=world.latent.head(10))


def test_regret_of_a_policy_that_seeks_the_smallest(make_world: Any) -> None:
    world = make_world(300, rule="min")
    found = ss.fit(world.formula, world.data, chosen="chosen", rule="min").policy()
    table = found.regret(params=world.params, latent=world.latent)
    assert (table["regret"] >= 0).all()
    assert (table["oracle_value"] <= table["policy_value"]).all()


def test_the_share_of_close_recommendations_is_weighted() -> None:
    table = ss.simulators.village(300, seed=2).data
    table["times"] = np.where(table["height"] > table["height"].median(), 4, 1)
    formula, options = "income ~ height + weight", {"chosen": "job"}
    weighted = ss.fit(formula, table, weights="times", weights_kind="frequency", **options)
    repeated = ss.fit(formula, table.loc[table.index.repeat(table["times"])], **options)
    said = [
        next(note for note in fit.policy().value.notes if "margin of error" in note)
        for fit in (weighted, repeated)
    ]
    assert said[0] == said[1]
