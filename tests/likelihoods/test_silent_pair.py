"""Of two alternatives whose outcomes were not recorded, one may be far wider than the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_ndtr

import selfselect as ss
from selfselect.likelihoods import evaluate, row_terms

N_ROWS = 60


def posed(rule: str, noise: Any) -> tuple[Any, pd.DataFrame]:
    rng = np.random.default_rng(5)
    x = rng.standard_normal(N_ROWS)
    latent = np.column_stack([0.3 + 0.7 * x, -0.2 - 0.4 * x]) + rng.standard_normal((N_ROWS, 2))
    toll = rng.uniform(0.0, 0.4, N_ROWS)
    net = (1.0 if rule == "max" else -1.0) * latent - np.column_stack([np.zeros(N_ROWS), toll])
    chosen = net.argmax(axis=1)
    table = pd.DataFrame({"x": x, "toll": toll, "j": np.array(["a", "b"])[chosen]})
    # Of a third of the rows only the choice was recorded, of either alternative.
    table["y"] = np.where(np.arange(N_ROWS) % 3 == 0, np.nan, latent[np.arange(N_ROWS), chosen])
    world = ss.pose(
        "y ~ x", table, chosen="j", rule=rule, noise=noise, cost={"b": "toll"},
        missing_outcome="silent",
    )  # fmt: skip
    return world, table


@pytest.mark.parametrize("ratio", [0.002, 0.4, 3.0, 500.0])
@pytest.mark.parametrize("rule", ["max", "min"])
@pytest.mark.parametrize("noise", ["independent", "correlated"])
def test_chances_are_those_of_the_difference(noise: str, rule: str, ratio: float) -> None:
    model = ss.noises.Independent("each") if noise == "independent" else ss.noises.Correlated()
    world, table = posed(rule, model)
    rho = 0.0 if noise == "independent" else -0.4
    scales = np.array([0.9, 0.9 * ratio])
    coefficients = np.array([[0.2, 0.6], [-0.1, -0.3]])
    problem, rows = world.problem, world.engine.batch
    reported = np.array([*coefficients[0], scales[0], *coefficients[1], scales[1]])
    reported = np.append(reported, [rho]) if noise == "correlated" else reported
    natural = problem.layout.natural(problem.layout.read(reported))
    found = row_terms(problem, natural, rows)
    means = coefficients[:, 0] + np.outer(table["x"], coefficients[:, 1])
    way = 1.0 if rule == "max" else -1.0
    net = way * means - np.column_stack([np.zeros(N_ROWS), table["toll"]])
    spread = np.sqrt(scales @ scales - 2 * rho * scales.prod())
    is_b = (table["j"] == "b").to_numpy()
    gap = np.where(is_b, 1.0, -1.0) * (net[:, 1] - net[:, 0]) / spread
    silent = table["y"].isna().to_numpy()
    np.testing.assert_allclose(found.loglik[silent], log_ndtr(gap[silent]), rtol=1e-9)
    np.testing.assert_allclose(found.chance[silent], np.eye(2)[is_b.astype(int)][silent])
    whole = evaluate(problem, natural, rows, curvature="exact")
    for place in range(len(natural)):
        step = 1e-6 * max(abs(natural[place]), 1e-3) * (np.arange(len(natural)) == place)
        up, down = (evaluate(problem, natural + d, rows, curvature="exact") for d in (step, -step))
        size = 2.0 * step.sum()
        assert whole.score[place] == pytest.approx(
            (up.loglik - down.loglik) / size, rel=1e-4, abs=1e-4
        )
        np.testing.assert_allclose(
            whole.hessian[place], (up.score - down.score) / size, rtol=1e-4,
            atol=1e-5 * np.abs(whole.hessian).max(),
        )  # fmt: skip


def test_a_scale_that_runs_away_is_named() -> None:
    """Choices alone tell of the scale of b, and in this sample they want it without limit."""
    rng = np.random.default_rng([23, 1_000, 1])
    x, z = rng.standard_normal((2, 1_000))
    latent = np.column_stack([0.2 + 0.8 * x + 0.3 * z, 0.1 - 0.6 * x + 0.2 * z])
    latent += rng.standard_normal((1_000, 2))
    a = latent[:, 0] > latent[:, 1]
    table = pd.DataFrame(
        {"x": x, "z": z, "who": np.where(a, "a", "b"), "y": np.where(a, latent[:, 0], np.nan)}
    )
    with pytest.warns(ss.errors.ConvergenceWarning, match="the scale of 'b' has no upper limit"):
        found = ss.fit("y ~ x + z", table, chosen="who", missing_outcome="silent")
    assert not found.converged and found.bse.isna().all()
    common = ss.noises.Independent("common")
    advised = ss.fit("y ~ x + z", table, chosen="who", missing_outcome="silent", noise=common)
    assert advised.converged and (advised.bse > 0).all()
