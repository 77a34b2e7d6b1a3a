"""Estimated costs under independent noise: quadrature over one outcome against that over all."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.moments.choose import moments_of
from selfselect.moments.joint import JointMoments, TripleMoments
from selfselect.moments.margins import MarginMoments
from selfselect.noises import Independent, Mixture

QUADRATURE = 2e-5
"""Error of the quadrature over all outcomes."""

MODELS = {
    "logistic": (2, "max", {"noise": Independent(shape="logistic"), "cost": {"b": "~ z"}}),
    "smallest": (2, "min", {"noise": Independent(shape="logistic"), "cost": {"b": "~ z"}}),
    "known cost too": (
        2,
        "max",
        {"noise": Independent(shape="gumbel"), "cost": {"a": "toll", "b": "~ z"}},
    ),
    "normal": (3, "max", {"noise": Independent("each"), "cost": {"b": "~ z", "c": "~ x"}}),
    "mixture of each": (2, "max", {"noise": Mixture(2, each=True), "cost": {"b": "~ z"}}),
    "mixture": (2, "max", {"noise": Mixture(2), "cost": {"b": "~ z", "a": "~ x - 1"}}),
    "moving scales": (3, "max", {"noise": Independent("~ x"), "cost": {"b": "~ z", "c": "~ 1"}}),
    "availability": (
        3,
        "max",
        {"noise": Independent("~ x"), "cost": {"b": "~ z"}, "available": {"c": "open"}},
    ),
}


def made(k: int, rule: str) -> pd.DataFrame:
    rng = np.random.default_rng(8)
    x, z = rng.standard_normal((2, 700))
    toll, available = rng.uniform(0.0, 0.3, 700), rng.random(700) < 0.8
    latent = 0.5 * np.arange(k) + np.outer(x, np.linspace(1.0, -0.6, k))
    latent = latent + rng.logistic(size=(700, k)) * 0.6
    way = 1.0 if rule == "max" else -1.0
    net = way * latent - np.column_stack([toll, 0.2 + 0.5 * z, np.zeros(700)])[:, :k]
    if k == 3:
        net[~available, 2] = -np.inf
    chosen = net.argmax(axis=1)
    return pd.DataFrame(
        {"x": x, "z": z, "toll": toll, "open": available,
         "y": latent[np.arange(700), chosen], "j": np.array(list("abc"))[chosen]}
    )  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_costs_that_are_estimated_are_counted_as_known_ones_are(name: str) -> None:
    k, rule, model = MODELS[name]
    fit = ss.fit("y ~ x", made(k, rule), chosen="j", rule=rule, **model)
    moments, rows = moments_of(fit.problem), fit.rows.take(slice(12))
    assert type(moments) is (TripleMoments if name == "normal" else MarginMoments)
    joint = JointMoments(moments.problem, moments.rule)
    found, wanted = (one.expectations(fit.values, rows) for one in (moments, joint))
    np.testing.assert_allclose(found.chance, wanted.chance, atol=QUADRATURE)
    np.testing.assert_allclose(found.outcome, wanted.outcome, atol=20 * QUADRATURE)
    chances = moments.chances(fit.values, rows)
    np.testing.assert_allclose(chances, found.chance, atol=1e-12)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, atol=1e-9)
    weights = np.linspace(0.5, 1.5, len(rows))
    cells, slope = moments.cells_and_slope(fit.values, rows, weights)
    np.testing.assert_allclose(cells, moments.cells(fit.values, rows), atol=1e-9)
    for place, name_of in enumerate(fit.names):
        step = 1e-3 * fit.bse.to_numpy()[place]
        up, down = fit.values.copy(), fit.values.copy()
        up[place] += step
        down[place] -= step
        differences = weights @ (moments.cells(up, rows) - moments.cells(down, rows)) / (2 * step)
        np.testing.assert_allclose(
            slope[:, place], differences, rtol=1e-4, atol=1e-4 * np.abs(slope).max(),
            err_msg=name_of,
        )  # fmt: skip
