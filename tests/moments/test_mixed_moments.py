"""What a model with unobserved types expects of rows: shifts left out, alternatives closed."""

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


def test_what_covariates_predict_leaves_shifts_out() -> None:
    fit = fitted("shifts each")
    rows = fit.rows.take(np.arange(20))
    cells = moments_of(fit.problem).cells(fit.values, rows)
    chance, predicted, mean = cells[:, :2], cells[:, 6:10].reshape(-1, 2, 2), cells[:, 10:]
    np.testing.assert_allclose(predicted, mean[:, :, None] * chance[:, None, :], atol=1e-10)
    np.testing.assert_allclose(mean, fit.predict(kind="latent").to_numpy()[:20], atol=1e-10)


def test_an_alternative_that_is_closed_leaves_the_mean_of_the_other() -> None:
    fit = fitted("shifts each")
    outcomes = fit.counterfactual(close="town").outcomes.table
    after = outcomes.set_index("when")["estimate"]["after"]
    assert after == pytest.approx(fit.predict(kind="latent")["farm"].mean(), abs=1e-8)
