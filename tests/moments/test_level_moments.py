"""Moments of levels whose logarithm was modelled: shifts, and how many passes they take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.moments import joint
from selfselect.moments.choose import moments_of as choose_moments
from selfselect.moments.mixed import LevelMoments, Logarithm

DRAWS = 20_000


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    x, z = rng.standard_normal((2, 400))
    latent = np.column_stack([0.4 + 0.5 * x, 0.2 + 0.3 * z]) + 0.5 * rng.standard_normal((400, 2))
    job = np.array(["a", "b"])[latent.argmax(axis=1)]
    return pd.DataFrame({"x": x, "z": z, "job": job, "y": latent.max(axis=1)})


@pytest.fixture(scope="module", params=["roy", "switching"])
def fit(request: pytest.FixtureRequest, table: pd.DataFrame) -> Any:
    if request.param == "roy":
        return ss.fit("y ~ x + z", table, chosen="job")
    return ss.switching("y ~ x", "job ~ x + z", table)


def moments_of(fit: Any, rate: float, offset: float) -> LevelMoments:
    return LevelMoments(fit.problem, fit.problem.ordered_rule, Logarithm("wage", rate, offset))


SHIFTED = {
    "independent": ss.noises.Independent(),
    "correlated": ss.noises.Correlated(scale=[0.5, 0.4], correlation=0.5),
    "known covariance, simulated": ss.noises.KnownCovariance([[0.25, 0.1], [0.1, 0.16]]),
}


@pytest.mark.parametrize("name", SHIFTED)
def test_a_shift_of_means_is_one_of_constants(name: str, table: pd.DataFrame) -> None:
    """Levels ask for it: weighing by e^y moves every mean by its covariance with y."""
    noise = SHIFTED[name]
    fit = ss.fit("y ~ x + z", table, chosen="job", noise=noise, seed=0)
    shift = np.array([0.4, -0.3])
    moved = fit.values.copy()
    moved[[fit.names.index("a:Intercept"), fit.names.index("b:Intercept")]] += shift
    moments, rows = choose_moments(fit.problem), fit.rows.take(slice(0, 20))
    here = moments.expectations(fit.values, rows, shift=shift)
    there = moments.expectations(moved, rows)
    np.testing.assert_allclose(here.chance, there.chance, atol=1e-9)
    np.testing.assert_allclose(here.outcome, there.outcome, atol=1e-9)
    plain = moments.expectations(fit.values, rows)
    assert (here.chance[:, 0] > plain.chance[:, 0] + 0.01).any()


def test_slopes_take_passes_by_alternative_and_not_by_covariate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(5)
    covariates = rng.standard_normal((400, 8))
    latent = covariates[:, :2] + 0.5 * rng.standard_normal((400, 2))
    names = [f"x{place}" for place in range(8)]
    table = pd.DataFrame(covariates, columns=names).assign(
        job=np.array(["a", "b"])[latent.argmax(axis=1)], y=latent.max(axis=1)
    )
    fit = ss.fit("y ~ " + " + ".join(names), table, chosen="job", shared=["x7"])
    asked, moments = [], moments_of(fit, 1.0, 0.0)
    evaluate = LevelMoments.expectations

    def counted(*given: Any, **more: Any) -> Any:
        asked.append(given)
        return evaluate(*given, **more)

    monkeypatch.setattr(LevelMoments, "expectations", counted)
    rows, weights = fit.rows.take(slice(0, 40)), np.linspace(0.5, 1.5, 40)
    here, slope = moments.cells_and_slope(fit.values, rows, weights)
    # One pass at the estimates, two in the mean of each alternative and two in its scale.
    assert len(asked) == 1 + 4 * 2
    np.testing.assert_allclose(here, moments.cells(fit.values, rows), rtol=1e-12)
    # Of a shared coefficient the sum over alternatives is what differences show.
    for names_at in ([4], [8, 17], [9], [18]):
        step = 1e-6
        moved = np.zeros(len(fit.values))
        moved[names_at] = step
        up, down = (moments.cells(fit.values + way * moved, rows) for way in (1, -1))
        found = weights @ (up - down) / (2 * step)
        np.testing.assert_allclose(slope[:, names_at].sum(axis=1), found, rtol=1e-5, atol=1e-6)


def test_averages_of_levels_take_as_few_points_as_those_of_outcomes(
    table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    four = table.assign(job=np.array(list("abcd"))[np.arange(400) % 4])
    noise = ss.noises.Correlated(correlation=0.3)
    draws, evaluate = [], joint.joint_expectations

    def recorded(problem: Any, *given: Any, **more: Any) -> Any:
        draws.append(problem.noise.draws)
        return evaluate(problem, *given, **more)

    monkeypatch.setattr(joint, "joint_expectations", recorded)
    posed = ss.pose("y ~ x", four, chosen="job", noise=noise)
    problem, layout = posed.problem, posed.problem.layout
    natural = layout.natural(np.full(layout.n_free, 0.5))
    reported = layout.report(layout.gather(natural)).values
    moments = LevelMoments(problem, problem.ordered_rule, Logarithm("wage", 1.0, 0.0))
    rows = posed.engine.rows.take(slice(0, 4))
    moments.cells(reported, rows)
    assert set(draws) == {joint.DRAWS}
    moments.expectations(reported, rows)
    assert max(draws) == noise.draws
