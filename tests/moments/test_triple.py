"""Three jointly normal outcomes in closed form, against identities, other forms and draws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.moments.base import covariance_of_rows, latent_means
from selfselect.moments.choose import moments_of
from selfselect.moments.joint import JointMoments, TripleMoments
from selfselect.noises import Correlated

ROUNDING = 1e-9
"""The bivariate distribution function is right to some eleven digits."""

INDEPENDENT = 1e-6
"""Error of the quadrature for independent noise."""

DRAWS = 100_000

SIX_ERRORS = 6.0
"""Of a simulated mean."""

MODELS = {
    "plain": {},
    "smallest": {"rule": "min"},
    "known costs": {"cost": {"a": "toll"}},
    "availability": {"available": {"b": "open", "c": "wide"}},
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    x, z = rng.normal(size=(2, 400))
    latent = np.column_stack([0.5 + x, 1.0 - 0.6 * x, 0.3 * z]) + rng.normal(size=(400, 3))
    available = np.column_stack([np.ones(400, bool), rng.random((400, 2)) < 0.8])
    chosen = np.where(available, latent, -np.inf).argmax(axis=1)
    frame = pd.DataFrame({"x": x, "z": z, "toll": rng.uniform(0.0, 0.3, 400)})
    frame["open"], frame["wide"] = available[:, 1], available[:, 2]
    return frame.assign(y=latent[np.arange(400), chosen], j=np.array(list("abc"))[chosen])


@pytest.fixture(scope="module", params=list(MODELS))
def case(request, table):
    """A model with correlated noise at the estimates of one without, and some of its rows."""
    result = ss.fit("y ~ x + z", table, chosen="j", **MODELS[request.param])
    problem = replace(result.problem, noise=Correlated(correlation=0.45))
    return problem, result.values, result.rows.take(slice(30))


def test_chances_add_up_to_one_and_means_to_the_latent_means(case):
    problem, values, rows = case
    moments = moments_of(problem)
    assert type(moments) is TripleMoments
    found = moments.expectations(values, rows)
    np.testing.assert_allclose(found.chance.sum(axis=1), 1.0, atol=ROUNDING)
    parts = np.nan_to_num(found.given_seen) * found.chance[:, None, :]
    np.testing.assert_allclose(
        parts.sum(axis=2), latent_means(problem, values, rows), atol=100 * ROUNDING
    )


def test_moments_are_those_of_draws(case):
    problem, values, rows = case
    found = moments_of(problem).expectations(values, rows)
    root = np.linalg.cholesky(covariance_of_rows(problem, values, rows)[0])
    noise = np.random.default_rng(5).normal(size=(DRAWS, 3)) @ root.T
    way = 1.0 if "max" in type(problem.rule).__name__.lower() else -1.0
    costs = 0.0 if rows.known.costs is None else rows.known.costs
    means = latent_means(problem, values, rows)
    for i in range(0, len(rows), 5):
        latent = means[i] + noise
        net = way * latent - (costs if np.isscalar(costs) else costs[i])
        if rows.known.available is not None:
            net = np.where(rows.known.available[i], net, -np.inf)
        chosen = net.argmax(axis=1)
        for j in range(3):
            here = chosen == j
            spread = np.sqrt(max(here.mean() * (1.0 - here.mean()), 1.0 / DRAWS) / DRAWS)
            assert abs(here.mean() - found.chance[i, j]) < SIX_ERRORS * spread
            if here.sum() > 1_000:
                error = latent[here].std(axis=0) / np.sqrt(here.sum())
                off = np.abs(latent[here].mean(axis=0) - found.given_seen[i, :, j])
                assert (off < SIX_ERRORS * error).all()


def test_without_correlation_they_are_those_of_independent_noise(case):
    problem, values, rows = case
    independent = moments_of(replace(problem, noise=ss.noises.Independent()))
    found = moments_of(replace(problem, noise=Correlated(correlation=0.0))).expectations(
        values, rows
    )
    wanted = independent.expectations(values, rows)
    np.testing.assert_allclose(found.chance, wanted.chance, atol=INDEPENDENT)
    np.testing.assert_allclose(found.outcome, wanted.outcome, atol=INDEPENDENT)


def test_scales_that_move_have_no_closed_form_for_three(table):
    noise = ss.noises.Independent(scale="~ x")
    result = ss.fit("y ~ x + z", table, chosen="j", noise=noise)
    moving = replace(result.problem, noise=Correlated("~ x", correlation=0.3))
    assert type(moments_of(moving)) is JointMoments
