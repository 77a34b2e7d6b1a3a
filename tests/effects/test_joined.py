"""Sorting, gaps and policies where noise or estimated costs join the alternatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import selfselect as ss
from selfselect.moments.choose import moments_of
from selfselect.noises import Correlated, SharedShock

DRAWS = 400
MONTE_CARLO = 5.0
"""Standard errors by which a simulated mean may be off: some hundred are compared."""
QUADRATURE = 1e-6
"""What integrals may be off."""
DIFFERENCES = 1e-5
"""Central differences of averages of size one."""

CASES: dict[str, dict[str, Any]] = {
    "correlated": {"noise": Correlated(), "labels": "ab"},
    "shared shock": {"noise": SharedShock(), "labels": "abc", "n_rows": 250},
    "estimated cost": {"cost": {"b": "~ fare"}, "labels": "abc"},
    "cost and correlation": {"cost": {"b": "~ fare"}, "noise": Correlated(), "labels": "ab"},
    "smallest": {"rule": "min", "noise": Correlated(), "labels": "ab"},
}  # fmt: skip


@pytest.fixture(scope="module", params=list(CASES))
def case(request: pytest.FixtureRequest, make_world: Any) -> tuple[Any, Any, Any, Any]:
    """Return a fit, latent outcomes (draws, n, k) drawn from it, costs (n, k), and the sign."""
    options = dict(CASES[request.param])
    labels = options.pop("labels")
    rule = options.get("rule", "max")
    world = make_world(options.pop("n_rows", 150), labels=labels, rule=rule)
    fit = ss.fit(world.formula, world.data, chosen="chosen", **options)
    k = len(labels)
    scales = np.array([fit.params.get((one, "scale"), np.nan) for one in labels])
    covariance = np.diag(scales**2)
    noise = options.get("noise")
    if isinstance(noise, Correlated):
        for j in range(k):
            for m in range(j):
                pair = f"{labels[m]} & {labels[j]}"
                rho = fit.params[pair, "correlation"]
                covariance[j, m] = covariance[m, j] = rho * scales[j] * scales[m]
    if isinstance(noise, SharedShock):
        loadings = np.array([fit.params[one, "loading"] for one in labels])
        covariance = covariance + np.outer(loadings, loadings)
    cost = np.zeros((len(world.data), k))
    if "cost" in options:
        cost[:, 1] = fit.params["b", "cost: Intercept"]
        cost[:, 1] += fit.params["b", "cost: fare"] * world.data["fare"]
    means = fit.predict().to_numpy()
    rng = np.random.default_rng(8)
    root = np.linalg.cholesky(covariance)
    latent = means + rng.standard_normal((DRAWS, *means.shape)) @ root.T
    return fit, latent, cost, 1.0 if rule == "max" else -1.0


def best(latent: Any, cost: Any, sign: float) -> Any:
    return (sign * latent - cost).argmax(axis=-1)


def assert_mean(found: float, draws: Any, where: Any = None) -> None:
    """Compare with a mean over draws, conditional on `where`."""
    where = np.ones(draws.shape, bool) if where is None else where
    share = where.mean()
    mean = (draws * where).mean() / share
    # Each column of draws is one row of the data: only what varies within it is chance.
    influence = where * (draws - mean) / share
    error = np.sqrt(influence.var(axis=0).mean() / draws.size)
    assert abs(found - mean) <= MONTE_CARLO * error + QUADRATURE


def test_sorting_and_the_parts_of_the_gap(case: Any) -> None:
    fit, latent, cost, sign = case
    labels, seen = fit.problem.equations.alternatives, best(latent, cost, sign)
    table = fit.sorting().table.set_index(["alternative", "quantity"])["estimate"]
    mean = fit.predict().to_numpy()
    noise = latent - mean
    for g, label in enumerate(labels):
        here = seen == g
        assert_mean(table[label, "advantage by noise"], noise[..., g], here)
        predicted = np.broadcast_to(mean[:, g] - mean[:, g].mean(), here.shape)
        assert_mean(table[label, "advantage by covariates"], predicted, here)
    parts = fit.decompose("a", "b").table.set_index("part")["estimate"]
    assert parts["covariates"] + parts["pay"] + parts["selection"] == pytest.approx(
        parts["gap under the model"], abs=1e-9
    )
    second = noise[..., 1][seen == 1].mean()
    assert_mean(parts["selection"] + second, noise[..., 0], seen == 0)


def test_policies(case: Any) -> None:
    fit, latent, cost, sign = case
    found = fit.policy()
    seen = best(latent, cost, sign)
    outcome = np.take_along_axis(latent, seen[..., None], axis=-1)[..., 0]
    value = found.value.table.set_index(found.value.table.columns[0])["estimate"]
    expert = next(name for name in value.index if "expert" in name)
    assert_mean(value[expert], outcome)
    best_mean = (sign * fit.predict().to_numpy()).max(axis=1) * sign
    assert value.iloc[0] == pytest.approx(best_mean.mean())


def test_slopes_are_differences_in_every_parameter(case: Any) -> None:
    fit, *_ = case
    problem, rows = fit.problem, fit.rows.take(slice(40))
    rule, weights = problem.ordered_rule, np.full(40, 1 / 40)
    reported = fit.params.to_numpy()
    moments = moments_of(problem, rule)
    _, found = moments.cells_and_slope(reported, rows, weights)
    for place in range(len(reported)):
        step = 1e-4
        up, down = reported.copy(), reported.copy()
        up[place], down[place] = up[place] + step, down[place] - step
        ends = [weights @ moments.cells(one, rows) for one in (up, down)]
        wanted = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(found[:, place], wanted, atol=DIFFERENCES)
