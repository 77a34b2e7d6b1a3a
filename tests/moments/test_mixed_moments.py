"""What a model with unobserved types expects of rows, against outcomes drawn from it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.likelihoods.components import Components
from selfselect.moments.choose import moments_of
from selfselect.noises import Types

DRAWS = 400_000
WITHIN = 4.5
"""Standard errors of the simulation that moments may be away from it."""


@cache
def table() -> pd.DataFrame:
    rng = np.random.default_rng(2)
    n = 1_200
    x, z = rng.normal(size=n), np.repeat(rng.normal(size=n // 4), 4)
    kind = np.repeat(rng.integers(0, 2, n // 4), 4)
    alpha = np.array([[-0.7, 0.5], [0.7, -0.5]])
    means = np.column_stack([1 + x, 0.8 - 0.5 * x])
    latent = means + alpha[kind] + rng.normal(size=(n, 2)) * [1.0, 0.7]
    job = np.array(["farm", "town"])[latent.argmax(axis=1)]
    person = np.repeat(np.arange(n // 4), 4)
    return pd.DataFrame({"x": x, "z": z, "y": latent.max(axis=1), "job": job, "person": person})


NOISES = {
    "shifts each": Types(2),
    "one talent, costs": Types(2, "talent", costs=True),
    "weights by a covariate": Types(2, covariates="~ z"),
}


@cache
def fitted(name: str) -> Any:
    return ss.fit("y ~ x", table(), chosen="job", panel="person", noise=NOISES[name], seed=0)


def drawn(fit: Any, row: pd.Series[Any], rng: Any) -> tuple[Any, Any]:
    """Draw latent outcomes and choices of one row from the fit, type by type."""
    problem = fit.problem
    layout = problem.layout
    parts = Components.of(problem)
    values = problem.noise.values(layout.extras_of(fit.values)[: parts.map.size], ("farm", "town"))
    logits = values.logits.copy()
    if problem.noise.covariates:
        mean = problem.units.shift[problem.equations.covariates.index("z") + 1]
        logits[1] += fit.params["type 2", "z"] * (row["z"] - mean)
    chance = np.exp(logits) / np.exp(logits).sum()
    kind = rng.choice(len(chance), DRAWS, p=chance)
    coefficients = [fit.params[label] for label in ("farm", "town")]
    means = np.array([one["Intercept"] + one["x"] * row["x"] for one in coefficients])
    noise = rng.normal(size=(DRAWS, 2)) * fit.scales.to_numpy()
    latent = means + values.shifts[kind] + noise
    return latent, (latent - values.costs[kind]).argmax(axis=1)


@pytest.mark.parametrize("name", NOISES)
def test_chances_and_means_agree_with_draws(name: str) -> None:
    fit, rng = fitted(name), np.random.default_rng(7)
    some = table().iloc[[0, 101]]
    chance = fit.predict(some, kind="chance")
    outcome, given = fit.predict(some, kind="outcome"), fit.predict(some, kind="given_seen")
    for label, row in some.iterrows():
        latent, choice = drawn(fit, row, rng)
        seen = latent[np.arange(DRAWS), choice]
        assert abs(outcome[label] - seen.mean()) < WITHIN * seen.std() / np.sqrt(DRAWS)
        for g, job in enumerate(("farm", "town")):
            there = choice == g
            spread = np.sqrt(there.mean() * (1 - there.mean()) / DRAWS)
            assert abs(chance.loc[label, job] - there.mean()) < WITHIN * spread
            for j, other in enumerate(("farm", "town")):
                error = latent[there, j].std() / np.sqrt(there.sum())
                mean = latent[there, j].mean()
                assert abs(given.loc[label, (other, job)] - mean) < WITHIN * error


@pytest.mark.parametrize("name", NOISES)
def test_slopes_of_cells_agree_with_differences_along_what_is_estimated(name: str) -> None:
    fit = fitted(name)
    problem, layout = fit.problem, fit.problem.layout
    moments = moments_of(problem)
    rows, free = fit.rows.take(np.arange(40)), fit.solution.free
    weights = np.linspace(0.5, 1.5, len(rows))
    reported = layout.report(free)
    cells, slope = moments.cells_and_slope(reported.values, rows, weights)
    np.testing.assert_allclose(cells, moments.cells(reported.values, rows), atol=1e-9)
    step = 1e-5
    found = slope @ reported.jacobian
    for place, one in enumerate(step * np.eye(len(free))):
        ends = [
            weights @ moments.cells(layout.report(free + w * one).values, rows) for w in (1, -1)
        ]
        np.testing.assert_allclose(found[:, place], (ends[0] - ends[1]) / (2 * step), atol=2e-4)


def test_what_covariates_predict_leaves_shifts_out() -> None:
    fit = fitted("shifts each")
    rows = fit.rows.take(np.arange(20))
    cells = moments_of(fit.problem).cells(fit.values, rows)
    chance, predicted, mean = cells[:, :2], cells[:, 6:10].reshape(-1, 2, 2), cells[:, 10:]
    np.testing.assert_allclose(predicted, mean[:, :, None] * chance[:, None, :], atol=1e-10)
    np.testing.assert_allclose(mean, fit.predict(kind="latent").to_numpy()[:20], atol=1e-10)


def test_effects_under_types_are_finite_and_add_up() -> None:
    fit = fitted("shifts each")
    effects = fit.treatment_effects("farm", "town").table
    assert np.isfinite(effects.select_dtypes("number")).all().all()
    chance = fit.choice_probabilities().table
    assert chance["estimate"].sum() == pytest.approx(1.0)
    for table_of in (fit.potential_outcomes(), fit.decompose("farm", "town"), fit.sorting()):
        assert len(table_of.table)


@pytest.mark.parametrize(("unit", "of_x"), [(1e9, 1e-6), (1e-9, 1e6)])
def test_errors_of_effects_do_not_depend_on_units(unit: float, of_x: float) -> None:
    data = table().assign(y=unit * table()["y"], x=of_x * table()["x"])
    there = ss.fit("y ~ x", data, chosen="job", panel="person", noise=Types(2), seed=0)
    here = fitted("shifts each")
    for ask, size in (("potential_outcomes", unit), ("choice_probabilities", 1.0)):
        found, wanted = (
            getattr(fit, ask)().table[["estimate", "std_error"]] for fit in (there, here)
        )
        np.testing.assert_allclose(found / size, wanted, rtol=1e-6)


def test_levels_of_a_logarithm_agree_with_draws() -> None:
    data = table().assign(wage=lambda frame: np.exp(0.5 * frame["y"]))
    fit = ss.fit("log(wage) ~ x", data, chosen="job", panel="person", noise=Types(2), seed=0)
    row, rng = data.iloc[[5]], np.random.default_rng(3)
    latent, choice = drawn(fit, row.iloc[0], rng)
    level = np.exp(latent)
    means = fit.predict(row, kind="latent", scale="level").iloc[0]
    np.testing.assert_allclose(means, level.mean(axis=0), rtol=0.01)
    seen = level[np.arange(DRAWS), choice].mean()
    assert fit.predict(row, kind="outcome", scale="level").iloc[0] == pytest.approx(seen, rel=0.01)


def test_an_alternative_that_is_closed_leaves_the_mean_of_the_other() -> None:
    fit = fitted("shifts each")
    outcomes = fit.counterfactual(close="town").outcomes.table
    after = outcomes.set_index("when")["estimate"]["after"]
    assert after == pytest.approx(fit.predict(kind="latent")["farm"].mean(), abs=1e-8)
