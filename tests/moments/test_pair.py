"""Two jointly normal outcomes in closed form, against quadrature over atoms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.moments.choose import moments_of
from selfselect.moments.joint import JointMoments, PairMoments
from selfselect.moments.margins import MarginMoments
from selfselect.noises import Correlated, Independent, SharedShock

QUADRATURE = 1e-6
"""Error of the quadrature that the closed form is compared with."""


MODELS = {
    "correlated": {"noise": Correlated(0.4)},
    "correlated, estimated cost": {"noise": Correlated(), "cost": {"b": "~ z"}},
    "independent, estimated cost": {"noise": Independent(), "cost": {"b": "~ z"}},
    "shared shock": {"noise": SharedShock()},
    "known and estimated cost": {"noise": Correlated(), "cost": {"a": "toll", "b": "~ z"}},
    "availability": {"noise": Correlated(0.4), "available": {"b": "open"}},
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    x, z = rng.normal(size=(2, 900))
    noise = rng.normal(size=(900, 2)) @ np.array([[1.0, 0.5], [0.0, 0.8]])
    latent = np.column_stack([0.5 + x, 1.0 - 0.6 * x]) + noise
    toll, cost = rng.uniform(0.0, 0.3, 900), 0.2 + 0.5 * z
    available = rng.random(900) < 0.8
    net = latent - np.column_stack([toll, cost])
    chosen = np.where(available & (net[:, 1] > net[:, 0]), 1, 0)
    return pd.DataFrame(
        {
            "x": x,
            "z": z,
            "toll": toll,
            "open": available,
            "y": latent[np.arange(900), chosen],
            "j": np.array(["a", "b"])[chosen],
        }
    )


@pytest.fixture(scope="module", params=list(MODELS))
def fitted(request, table):
    result = ss.fit("y ~ x", table, chosen="j", **MODELS[request.param])
    return result, result.rows.take(slice(40))


def test_the_closed_form_is_chosen_and_agrees_with_quadrature(fitted):
    result, rows = fitted
    moments = moments_of(result.problem)
    assert type(moments) is PairMoments
    found = moments.expectations(result.values, rows)
    wanted = JointMoments(moments.problem, moments.rule).expectations(result.values, rows)
    np.testing.assert_allclose(found.chance, wanted.chance, atol=QUADRATURE)
    np.testing.assert_allclose(found.outcome, wanted.outcome, atol=QUADRATURE)
    likely = np.broadcast_to(wanted.chance[:, None, :] > 1e-3, wanted.given_seen.shape)
    np.testing.assert_allclose(
        found.given_seen[likely], wanted.given_seen[likely], atol=100 * QUADRATURE
    )


def test_slopes_of_averages_agree_with_quadrature(fitted):
    result, rows = fitted
    moments, weights = moments_of(result.problem), np.linspace(0.5, 1.5, len(rows))
    cells, slope = moments.cells_and_slope(result.values, rows, weights)
    other = JointMoments(moments.problem, moments.rule)
    wanted_cells, wanted = other.cells_and_slope(result.values, rows, weights)
    np.testing.assert_allclose(cells, wanted_cells, atol=QUADRATURE)
    np.testing.assert_allclose(slope, wanted, atol=1e-4 * np.abs(wanted).max())


def test_noise_that_is_not_jointly_normal_is_not_taken_for_it(table):
    result = ss.fit(
        "y ~ x", table, chosen="j", noise=Independent(shape="logistic"), cost={"b": "~ z"}
    )
    assert type(moments_of(result.problem)) is MarginMoments
    three = replace(result.problem, noise=Independent())
    assert type(moments_of(three)) is PairMoments
