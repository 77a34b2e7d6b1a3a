"""The picture of the noise's quantiles: product limits of what is censored, and all the rest."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import selfselect as ss
from selfselect.engines.memory import Memory
from selfselect.errors import UnsupportedError
from selfselect.noises.shapes.normal import SHAPE as NORMAL
from selfselect.plots.qq import _at_most, _product_limit


def test_the_product_limit_is_the_textbook_one() -> None:
    # Remission times of 6-MP patients (Freireich et al. 1963): survival at 6, 7, 10, 13, 16, 22, 23
    # is .857, .807, .753, .690, .627, .538, .448 in every textbook of survival analysis.
    times = [6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35]
    events = [1, 1, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]
    found = _product_limit(np.array(times, float), np.array(events, bool), np.ones(21), 1.0, NORMAL)
    middle = norm.sf(found["normal"])
    survival = np.array([1.0, 18 / 21 + 2 / 21, 18 / 21 + 1 / 21, 0.857, 0.807, 0.753, 0.690,
                         0.627, 0.538, 0.448])  # fmt: skip
    np.testing.assert_allclose(middle, (survival[1:] + survival[:-1]) / 2, atol=6e-4)
    assert found["empirical"].tolist() == [6, 6, 6, 7, 10, 13, 16, 22, 23]


def test_censoring_from_below_is_its_mirror_image() -> None:
    rng = np.random.default_rng(0)
    z, limit = rng.normal(size=200), rng.normal(size=200)
    seen = z > limit
    left = _product_limit(-np.maximum(z, limit), seen, np.ones(200), -1.0, NORMAL)
    right = _product_limit(np.minimum(-z, -limit), seen, np.ones(200), 1.0, NORMAL)
    np.testing.assert_allclose(left["normal"][::-1], -right["normal"])
    np.testing.assert_allclose(left["empirical"][::-1], -right["empirical"])


def test_without_censoring_quantiles_are_the_usual_ones() -> None:
    z = np.random.default_rng(1).normal(size=50)
    found = _product_limit(z, np.ones(50, bool), np.ones(50), 1.0, NORMAL)
    # The last step leaves nobody at risk, so it has no variance and is left out.
    np.testing.assert_allclose(found["normal"], norm.ppf((np.arange(49) + 0.5) / 50), atol=1e-12)
    np.testing.assert_allclose(found["empirical"], np.sort(z)[:-1])


@pytest.mark.parametrize("rule", ["max", "min"])
def test_under_the_model_points_stay_in_the_band(rule: str) -> None:
    rng = np.random.default_rng([6, 1])
    table = pd.DataFrame(rng.normal(size=(3_000, 2)), columns=["x1", "x2"])
    sample = ss.simulate({"a": {"x1": 1.0}, "b": {"x2": 1.0}}, table, rule=rule, seed=6)
    fit = ss.fit(sample.formula, sample.data, chosen="chosen", rule=rule)
    data = ss.plots.qq(fit).data
    strayed = (data["empirical"] - data["normal"]).abs() > data["reach"]
    assert set(data["panel"]) == {"a", "b"}
    assert strayed.mean() < 0.1


def test_heavy_tails_show() -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(4_000, 2))
    latent = x + rng.standard_t(3, size=(4_000, 2))
    table = {"x1": x[:, 0], "x2": x[:, 1], "y": latent.max(axis=1), "who": latent.argmax(axis=1)}
    data = ss.plots.qq(ss.fit("y ~ x1 + x2", table, chosen="who")).data
    strayed = (data["empirical"] - data["normal"]).abs() > data["reach"]
    assert strayed.mean() > 0.5


def test_the_chance_of_few_events_is_what_counting_all_cases_gives() -> None:
    above = np.random.default_rng(8).uniform(size=(5, 4))
    for count in range(4):
        expected = np.zeros(5)
        for case in product((0, 1), repeat=4):
            if sum(case) <= count:
                expected += np.where(np.array(case), above, 1 - above).prod(axis=1)
        np.testing.assert_allclose(_at_most(above, count), expected)


@pytest.mark.parametrize("name", ["unknown", "ranked"])
def test_without_a_censored_regression_the_recorded_outcome_is_drawn(
    name: str, request: pytest.FixtureRequest
) -> None:
    fit = request.getfixturevalue(name)
    picture = ss.plots.qq(fit)
    assert len(picture.axes) == 1
    strayed = (picture.data["empirical"] - picture.data["normal"]).abs() > picture.data["reach"]
    assert strayed.mean() < 0.15


def test_alternatives_that_were_not_available_change_nothing() -> None:
    rng = np.random.default_rng([9, 1])
    table = pd.DataFrame({"x1": rng.normal(size=2_000), "x2": rng.normal(size=2_000)})
    table["open"] = rng.uniform(size=2_000) < 0.7
    for rule in ("max", "min"):
        sample = ss.simulate(
            {"a": {"x1": 2.0}, "b": {"x2": 2.0}}, table, rule=rule, available={"b": "open"}, seed=9
        )
        fit = ss.fit(sample.formula, sample.data, rule=rule, available={"b": "open"}, seed=1)
        data = ss.plots.qq(fit).data
        strayed = (data["empirical"] - data["normal"]).abs() > data["reach"]
        assert strayed.mean() < 0.1


class Band(ss.rules.Maximum):
    """The other lies below the one seen, but by no more than three."""

    def bounds(self, chosen: Any, outcome: Any, rows: Any) -> Any:
        lower, upper = super().bounds(chosen, outcome, rows)
        return np.maximum(lower, upper - 3.0), upper


def test_what_cannot_be_drawn_is_refused(loaded: ss.FitResult) -> None:
    with pytest.raises(UnsupportedError, match="no longer has its rows"):
        ss.plots.qq(loaded)
    sample = ss.simulators.village(200, seed=1)
    fit = ss.fit(sample.formula, sample.data, chosen="job")
    problem = replace(fit.problem, rule=Band())
    fit = replace(fit, problem=problem, engine=Memory().load(problem, fit.rows))
    with pytest.raises(UnsupportedError, match="'fishing' are not censored on one side"):
        ss.plots.qq(fit)
