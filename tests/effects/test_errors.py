"""Standard errors of effects against the bootstrap, and under every covariance of the fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.effects.base import Averages, transform

RESAMPLES = 80

BOOTSTRAP = 0.3
"""A standard deviation over 80 resamples is known to 8%, and some twenty are compared."""

ON_AVERAGE = 0.15
"""Effects of the same resamples err together, so their average is hardly better known than one."""


def effects_of(fit: ss.FitResult) -> pd.Series:
    """Return all effects that come from one pass over the rows."""
    tables = {
        "outcomes": fit.potential_outcomes(),
        "chances": fit.choice_probabilities(),
        "treatment": fit.treatment_effects("a", "b"),
        "sorting": fit.sorting(),
        "marginal": fit.marginal_effects("x"),
        "closed": fit.counterfactual(close="a").outcomes,
    }
    columns = ["estimate", "std_error"]
    return pd.concat({name: effect.table[columns] for name, effect in tables.items()})


@pytest.fixture(scope="module")
def resampled(make_world: Any) -> tuple[Any, pd.DataFrame]:
    """Return a sample of clusters of rows and the effects in resamples of its rows."""
    world = make_world(300, labels="ab")
    rng = np.random.default_rng(2)
    each = []
    for _ in range(RESAMPLES):
        rows = world.data.iloc[rng.integers(len(world.data), size=len(world.data))]
        each.append(effects_of(ss.fit(world.formula, rows, chosen="chosen"))["estimate"])
    return world, pd.concat(each, axis=1)


@pytest.mark.parametrize("covariance", ["observed", "robust"])
def test_standard_errors_are_those_of_the_bootstrap(resampled: Any, covariance: str) -> None:
    world, effects = resampled
    found = effects_of(ss.fit(world.formula, world.data, chosen="chosen", covariance=covariance))
    ratio = found["std_error"] / effects.std(axis=1)
    assert ((ratio > 1 - BOOTSTRAP) & (ratio < 1 + BOOTSTRAP)).all(), ratio
    assert ratio.mean() == pytest.approx(1.0, abs=ON_AVERAGE)


def test_clusters_that_repeat_rows_are_seen_through(make_world: Any) -> None:
    """Every row three times in its cluster: estimates and errors are those of single rows."""
    world = make_world(300, labels="ab")
    single = world.data.assign(id=range(300))
    thrice = pd.concat([single] * 3)
    options = {"chosen": "chosen", "cluster": "id"}
    one, many = (ss.fit(world.formula, data, **options) for data in (single, thrice))
    naive = ss.fit(world.formula, thrice, chosen="chosen")
    np.testing.assert_allclose(effects_of(many), effects_of(one), rtol=1e-6)
    ratio = effects_of(many)["std_error"] / effects_of(naive)["std_error"]
    assert ratio.between(1.5, 2.0).all()  # the square root of three, but for the noise


def test_a_bootstrapped_fit_carries_its_errors_over(make_world: Any) -> None:
    world = make_world(300, labels="ab")
    options = {"covariance": ss.inference.Bootstrap(replications=60), "seed": 1}
    for cluster in (None, "group"):
        fit = ss.fit(world.formula, world.data, chosen="chosen", cluster=cluster, **options)
        plain = ss.fit(world.formula, world.data, chosen="chosen", cluster=cluster)
        ratio = effects_of(fit)["std_error"] / effects_of(plain)["std_error"]
        assert ratio.between(0.6, 1.5).all()


def test_simulated_errors_follow_clusters_and_weights_too(make_world: Any) -> None:
    world = make_world(300, labels="ab")
    for options in ({"cluster": "group"}, {"weights": "w", "covariance": "robust"}):
        fit = ss.fit(world.formula, world.data, chosen="chosen", **options)
        exact = fit.treatment_effects("a", "b").table["std_error"]
        gains = fit.gains("a", "b", draws=20_000).table.set_index(["group", "quantity"])
        assert gains["std_error"]["everyone", "mean"] == pytest.approx(exact[0], rel=0.15)
        assert gains["std_error"]["a chosen", "mean"] == pytest.approx(exact[1], rel=0.15)


def test_what_the_model_leaves_of_the_gap_scatters_as_its_error_says(make_world: Any) -> None:
    left = []
    for seed in range(50):
        world = make_world(200, labels="ab", seed=seed)
        fit = ss.fit(world.formula, world.data, chosen="chosen")
        table = fit.decompose("a", "b").table.set_index("part")
        left.append(table.loc["not reproduced", ["estimate", "std_error"]].to_numpy(dtype=float))
    estimates, errors = np.array(left).T
    # A standard deviation over 50 samples is known to 10%.
    assert estimates.std(ddof=1) == pytest.approx(errors.mean(), rel=0.3)
    weighted = world.data.assign(w=2.0)
    counted = ss.fit(world.formula, weighted, chosen="chosen", weights="w")
    twice = ss.fit(world.formula, pd.concat([world.data] * 2), chosen="chosen")
    np.testing.assert_allclose(
        counted.decompose("a", "b").table["std_error"],
        twice.decompose("a", "b").table["std_error"],
        rtol=1e-5,
    )


def test_functions_of_averages_have_exact_derivatives() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    averages = Averages(np.array([2.0, 3.0, 5.0]), root @ root.T, rng.normal(size=(3, 4)))
    found = transform(averages, lambda v: np.array([v[0] / v[1], v[2] * v[0]]))
    slope = np.array([[1 / 3, -2 / 9, 0.0], [5.0, 0.0, 2.0]])
    np.testing.assert_allclose(found.mean, [2 / 3, 10.0])
    np.testing.assert_allclose(found.covariance, slope @ averages.covariance @ slope.T)
    np.testing.assert_allclose(found.jacobian, slope @ averages.jacobian)


def test_outcomes_far_from_zero_lose_no_digits(make_world: Any) -> None:
    """The spread of rows is added up about a point amid them."""
    world = make_world(300, labels="ab")
    near = ss.fit("outcome ~ x + d", world.data, chosen="chosen")
    moved = world.data.assign(outcome=world.data["outcome"] + 1e4)
    far = ss.fit("outcome ~ x + d", moved, chosen="chosen")
    columns = ["estimate", "std_error"]
    np.testing.assert_allclose(
        far.treatment_effects("a", "b").table[columns],
        near.treatment_effects("a", "b").table[columns],
        rtol=1e-4,
    )


@pytest.mark.parametrize("cluster", [None, "town", ["town", "year"]])
def test_gains_that_the_rule_makes_certain_have_no_error(cluster):
    data = ss.simulators.village(400, seed=1).data
    data = data.assign(town=np.arange(400) // 8, year=np.arange(400) % 20)
    fit = ss.fit("income ~ height + weight", data, chosen="job", cluster=cluster)
    table = fit.gains("hunting", "fishing", draws=4_000).table
    above = table[table["quantity"] == "share above zero"].set_index("group")
    for group, share in {"hunting chosen": 1.0, "fishing chosen": 0.0}.items():
        assert above.loc[group, ["estimate", "std_error"]].tolist() == [share, 0.0]
    assert above.loc["everyone", "std_error"] > 0.0
