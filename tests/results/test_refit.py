"""Alternatives without names: numbered as in another fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.results.refit import covariance_of_refit, numbered_as
from selfselect.solvers import choose_solver
from selfselect.solvers.base import Ending, Solution, Status
from selfselect.solvers.climb import log_likelihood
from selfselect.solvers.order import reordered, reported_origins

INTEGRATED = 1e-4
"""Three correlated noises are integrated in an order, with an error of 1e-5 in 200 rows."""

NOISES = {
    "normal": ss.noises.Independent(),
    "moving scale": ss.noises.Independent(scale="~ x"),
    "a shape each": ss.noises.Mixture(2, each=True),
    "correlated": ss.noises.Correlated(),
}


def drawn(seed, n=1_500, slopes=(1.0, -0.3)):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    levels = (0.3, 0.2, -0.1)
    latent = [levels[j] + slope * x + 0.5 * rng.normal(size=n) for j, slope in enumerate(slopes)]
    return pd.DataFrame({"x": x, "y": np.max(latent, axis=0)})


@pytest.mark.parametrize("name", list(NOISES))
def test_parameters_with_alternatives_in_another_order_are_the_same_model(name):
    data = drawn(0, n=200, slopes=(1.0, -0.3, 0.2))
    posed = ss.pose("y ~ x", data, alternatives=3, noise=NOISES[name])
    problem, order = posed.problem, np.array([2, 0, 1])
    engine = posed.engine_of_rows()
    scales = np.array([0.4, 0.5, 0.6])
    each = [np.array([0.3, 1.0]), np.array([0.2, -0.3]), np.array([-0.1, 0.2])]
    free = problem.layout.collect(each, scales)
    # Every parameter differs from every other.
    free = free + np.random.default_rng(0).uniform(0.01, 0.1, size=len(free))
    found = Solution(
        free,
        0.0,
        np.eye(len(free)),
        Ending(Status.CONVERGED, {"steps": 1, "method": "Newton"}),
        (),
        1,
        "none",
    )
    turned = reordered(problem, found, order)
    logliks = [log_likelihood(problem, engine, one.free) for one in (found, turned)]
    assert np.isfinite(logliks[0])
    assert logliks[0] == pytest.approx(logliks[1], abs=INTEGRATED)
    origin = reported_origins(problem, free, order)
    before, after = (problem.layout.report(one.free) for one in (found, turned))
    assert sorted(origin) == list(range(len(before.values)))
    assert after.values == pytest.approx(before.values[origin], rel=1e-9)
    for place, (owner, term) in enumerate(after.labels):
        if owner in (1, 2, 3):
            assert before.labels[origin[place]] == (order[owner - 1] + 1, term)


def test_information_moves_with_the_alternatives():
    data = drawn(0, n=600, slopes=(1.0, -0.3, 0.2))
    fit = ss.fit("y ~ x", data, alternatives=3, noise=ss.noises.Independent(), seed=0)
    problem, order = fit.problem, np.array([2, 0, 1])
    turned = reordered(problem, fit.solution, order)
    again = covariance_of_refit(fit, problem, turned, choose_solver(problem, None)[0]).matrix
    origin = reported_origins(problem, fit.solution.free, order)
    assert again == pytest.approx(fit.covariance.matrix[np.ix_(origin, origin)], rel=1e-6)


def test_a_fit_takes_the_numbers_of_another():
    data = drawn(1)
    normal, logistic = (
        ss.fit("y ~ x", data, alternatives=2, seed=0, noise=ss.noises.Independent(shape=shape))
        for shape in ("normal", "logistic")
    )
    # Means of both alternatives are nearly the same, and the order by them differs.
    assert normal.params[1, "x"] * logistic.params[1, "x"] < 0
    matched = numbered_as(logistic, normal)
    assert matched.params[1, "x"] == logistic.params[2, "x"]
    assert matched.bse[1, "x"] == logistic.bse[2, "x"]
    assert matched.cov_params().loc[(1, "x"), (1, "scale")] == pytest.approx(
        logistic.cov_params().loc[(2, "x"), (2, "scale")]
    )
    assert matched.predict(kind="latent").to_numpy() == pytest.approx(
        logistic.predict(kind="latent").to_numpy()[:, ::-1]
    )
    assert numbered_as(matched, normal) is matched
    assert numbered_as(normal, normal) is normal


def test_fits_with_other_covariates_are_matched_by_those_they_share():
    data = drawn(1).assign(z=np.random.default_rng(5).normal(size=1_500))
    small, large = (ss.fit(one, data, alternatives=2, seed=0) for one in ("y ~ x", "y ~ z + x"))
    turned = replace(large, solution=reordered(large.problem, large.solution, np.array([1, 0])))
    for one in (large, turned):
        matched = numbered_as(one, small)
        assert np.sign(matched.params[1, "x"]) == np.sign(small.params[1, "x"])


def test_named_alternatives_keep_their_names():
    data = drawn(0)
    data["j"] = np.where(np.arange(len(data)) % 2 == 0, "a", "b")
    named = ss.fit("y ~ x", data, chosen="j")
    assert numbered_as(named, ss.fit("y ~ x", data, alternatives=2, seed=0)) is named
