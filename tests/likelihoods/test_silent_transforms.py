"""Rows that lack their outcome or choice, where outcomes are compared by their transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from scipy.stats import norm

import selfselect as ss
from selfselect.errors import RuleError
from selfselect.likelihoods import evaluate, row_terms

N_ROWS = 60

MEANS = np.array([[0.2, 0.5], [0.1, -0.3]])
SCALES = np.array([0.8, 1.1])

EXACT = 1e-9
"""What sums over points owe to adaptive integration, relative."""


def sample(transforms: list[Any], **lost: Any) -> pd.DataFrame:
    """Draw two alternatives, of which the one with the best transform is recorded."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal(N_ROWS)
    latent = MEANS[:, 0] + np.outer(x, MEANS[:, 1]) + SCALES * rng.standard_normal((N_ROWS, 2))
    chosen = ss.rules.MonotoneArgmax(transforms).choose(latent)
    table = pd.DataFrame({"x": x, "j": np.array(["a", "b"], dtype=object)[chosen]})
    table["y"] = latent[np.arange(N_ROWS), chosen]
    table["may"] = True
    return table.assign(**lost)


def pose(
    table: pd.DataFrame, transforms: list[Any], extras: Sequence[float] = (), **options: Any
) -> tuple[Any, Any, Any]:
    rule = ss.rules.MonotoneArgmax(transforms)
    world: Any = ss.pose("y ~ x", table, chosen="j", rule=rule, **options)
    problem = world.problem
    reported = np.concatenate([[*MEANS[0], SCALES[0]], [*MEANS[1], SCALES[1]], extras])
    return problem, world.engine.batch, problem.layout.natural(problem.layout.read(reported))


def logliks(problem: Any, batch: Any, natural: Any) -> Any:
    """Return the log-likelihood of each row in the units of the table."""
    densities = ~np.isnan(batch.rows.outcome)
    found = row_terms(problem, natural, batch).loglik
    return found - densities * np.log(problem.units.outcome_unit)


def check_derivatives(problem: Any, batch: Any, natural: Any) -> None:
    whole = evaluate(problem, natural, batch, curvature="exact")
    for place in range(len(natural)):
        step = 1e-6 * (np.arange(len(natural)) == place)
        up, down = (evaluate(problem, natural + d, batch, curvature="exact") for d in (step, -step))
        assert whole.score[place] == pytest.approx((up.loglik - down.loglik) / 2e-6, rel=1e-5)
        np.testing.assert_allclose(
            whole.hessian[place], (up.score - down.score) / 2e-6, rtol=1e-5,
            atol=1e-6 * np.abs(whole.hessian).max(),
        )  # fmt: skip
    scores = row_terms(problem, natural, batch).score
    np.testing.assert_allclose(scores.sum(axis=0), whole.score, rtol=1e-9, atol=1e-9)


def test_an_alternative_that_cannot_have_won_is_no_part_of_a_row() -> None:
    """Where b is recorded below zero, no exponential of a is less: b was not chosen there."""
    transforms = ["exp", 1.5]
    table = sample(transforms)
    table.loc[: N_ROWS // 2, "j"] = None
    problem, batch, natural = pose(table, transforms, possible={"a": "may"})
    found = row_terms(problem, natural, batch)
    x, y = table["x"].to_numpy(), table["y"].to_numpy()
    mean = MEANS[:, 0] + np.outer(x, MEANS[:, 1])
    with np.errstate(invalid="ignore", divide="ignore"):
        limit_of_a = np.where(y > 0, np.log(1.5 * np.where(y > 0, y, 1.0)), -np.inf)
    a = norm.pdf(y, mean[:, 0], SCALES[0]) * norm.cdf(np.exp(y) / 1.5, mean[:, 1], SCALES[1])
    b = norm.pdf(y, mean[:, 1], SCALES[1]) * norm.cdf(limit_of_a, mean[:, 0], SCALES[0])
    lost = table["j"].isna().to_numpy()
    assert (lost & (y < 0)).sum() > 5 and (lost & (y > 0)).sum() > 5
    wanted = np.where(lost, a + b, np.where(table["j"] == "a", a, b))
    np.testing.assert_allclose(logliks(problem, batch, natural), np.log(wanted), atol=EXACT)
    np.testing.assert_allclose(found.chance[lost, 1], (b / (a + b))[lost], rtol=EXACT, atol=0)
    check_derivatives(problem, batch, natural)


def test_what_is_not_available_need_not_lose() -> None:
    """Where a is closed to a row, b is recorded below zero with it out of the way."""
    transforms = ["exp", 1.5]
    table = sample(transforms)
    table["open"] = (table["j"] == "a") | (np.arange(N_ROWS) % 2 == 0)
    silent = (np.arange(N_ROWS) % 4 == 1) & ~table["open"]
    table.loc[silent, "j"] = None
    problem, batch, natural = pose(
        table, transforms, available={"a": "open"}, possible={"a": "may"}
    )
    mean = MEANS[1, 0] + table["x"] * MEANS[1, 1]
    wanted = norm.logpdf(table["y"].to_numpy(), mean.to_numpy(), SCALES[1])
    assert silent.sum() > 3
    found = logliks(problem, batch, natural)
    np.testing.assert_allclose(found[silent], wanted[silent], atol=EXACT)


def test_rows_that_no_choice_explains_are_refused() -> None:
    transforms = ["exp", 1.5]
    table = sample(transforms)
    low = int(np.flatnonzero(table["y"] < 0)[0])
    table.loc[low, "j"], table.loc[low, "may"] = None, False
    with pytest.raises(RuleError, match=rf"1 rows could not have been .*\(row {low}\)"):
        pose(table, transforms, possible={"a": "may"})


@pytest.mark.parametrize("limits", [(None, -0.5), (-2.0, -0.5), (None, 0.0)])
def test_limits_that_no_outcome_of_the_others_explains_are_refused(limits: Any) -> None:
    transforms = ["exp", 1.5]
    table = sample(transforms)
    where = int(np.flatnonzero(table["j"] == "b")[0])
    table.loc[where, "y"] = np.nan
    with pytest.raises(RuleError, match=rf"1 rows could not have been .*\(row {where}\)"):
        pose(table, transforms, outcome_between=limits)


def test_others_that_may_be_anywhere_leave_scores_finite() -> None:
    """Above one, any outcome of a logistic curve loses: its limit is infinite."""
    transforms = ["logistic", 0.5]
    table = sample(transforms)
    problem, batch, natural = pose(table, transforms, noise="correlated", extras=[0.3])
    assert np.isinf(batch.observation.limit).sum() > 3
    check_derivatives(problem, batch, natural)


def kinked(y: Any) -> Any:
    return np.where(y < 0.3, y, 4.0 * y - 0.9)


def leaping(y: Any) -> Any:
    return np.where(y < 0.3, y, y + 1.0)


TRANSFORMS: dict[str, list[Any]] = {
    "exp and factor": ["exp", 1.5],
    "logistic and factor": ["logistic", 0.5],
    "exp and falling": ["exp", "negative"],
    "root": ["sqrt", "identity"],
    "logarithm": ["log", "identity"],
    "steep factor": [10.0, 1.0],
    "steep and falling": [1.0, -12.0],
    "no inverse": [np.arctan, "identity"],
    "kink": [kinked, "identity"],
    "leap": ["identity", leaping],
    "both the same": ["exp", "exp"],
}

SPECIAL = (0.0, 0.3, 0.5, 1.0, 1.3, 2.0)
"""Where a bound ends, bends or leaps for some of the transforms."""

LOST = 12
"""Rows without an outcome, half of each alternative, at the start of the table."""


def chance(
    transforms: list[Any],
    j: int,
    mean: Any,
    scales: Any,
    rho: float = 0.0,
    limits: tuple[float, float] = (-np.inf, np.inf),
) -> float:
    """Integrate the density of outcome j times the chance that all others lose, by brute force."""
    low, high = np.clip((np.array(limits) - mean[j]) / scales[j], -9.0, 9.0)
    away = np.exp(np.linspace(-60.0, 4.0, 800))
    near = [(at + way * away - mean[j]) / scales[j] for at in SPECIAL for way in (1.0, -1.0)]
    edges = np.unique(np.clip(np.concatenate([np.linspace(low, high, 2_001), *near]), low, high))
    nodes, weights = np.polynomial.legendre.leggauss(8)
    z = (edges[:-1, None] + np.diff(edges)[:, None] * (0.5 + 0.5 * nodes)).ravel()
    found = norm.pdf(z) * (0.5 * weights * np.diff(edges)[:, None]).ravel()
    rule = ss.rules.MonotoneArgmax(transforms)
    lower, upper = rule.bounds(np.full(z.size, j), mean[j] + scales[j] * z)
    for m in range(len(mean)):
        if m != j:
            centre, spread = mean[m] + rho * scales[m] * z, scales[m] * np.sqrt(1.0 - rho**2)
            ends = (lower[:, m] - centre) / spread, (upper[:, m] - centre) / spread
            found *= np.where(np.isneginf(ends[0]), ndtr(ends[1]), ndtr(-ends[0]))
    return float(found.sum())


def posed(transforms: list[Any], **options: Any) -> tuple[Any, Any, Any]:
    """Pose rows of which the first have a choice and no outcome; return covariate and choices."""
    rng, rule = np.random.default_rng(2), ss.rules.MonotoneArgmax(transforms)
    x = np.append(np.tile(np.linspace(-2.0, 1.7, LOST // 2), 2), rng.standard_normal(30))
    latent = [0.3, 0.3, 0.9][: len(transforms)] + 0.8 * rng.standard_normal(
        (len(x), len(transforms))
    )
    chosen = rule.choose(latent)
    outcome = latent[np.arange(len(x)), chosen]
    chosen[:LOST], outcome[:LOST] = np.repeat([0, 1], LOST // 2), np.nan
    table = pd.DataFrame({"x": x, "j": np.array(["a", "b", "c"])[chosen], "y": outcome})
    return ss.pose("y ~ x", table, chosen="j", rule=rule, **options), x, chosen


@pytest.mark.parametrize("scales", [(0.8, 1.1), (0.8, 60.0), (0.8, 0.02), (50.0, 0.8)])
@pytest.mark.parametrize("name", sorted(TRANSFORMS))
def test_rows_without_an_outcome_are_integrals(name: str, scales: Any) -> None:
    transforms = TRANSFORMS[name]
    world, x, chosen = posed(transforms, missing_outcome="silent")
    problem, batch = world.problem, world.engine.batch
    values = np.concatenate([[*MEANS[0], scales[0]], [*MEANS[1], scales[1]]])
    natural = problem.layout.natural(problem.layout.read(values))
    found = np.exp(row_terms(problem, natural, batch).loglik[:LOST])
    wanted = [
        chance(transforms, chosen[i], MEANS @ [1.0, x[i]], np.array(scales)) for i in range(LOST)
    ]
    np.testing.assert_allclose(found, wanted, rtol=EXACT, atol=1e-13)


@pytest.mark.parametrize("limits", [(None, 0.4), (0.2, 0.9), (1.1, None), (-6.0, 6.0)])
@pytest.mark.parametrize(
    "name", ["exp and factor", "logarithm", "no inverse", "steep factor", "kink"]
)
def test_limits_and_correlated_pairs_are_integrals(name: str, limits: Any) -> None:
    transforms, rho = TRANSFORMS[name], 0.6
    world, x, chosen = posed(transforms, noise="correlated", outcome_between=limits)
    problem, batch = world.problem, world.engine.batch
    values = np.concatenate([[*MEANS[0], SCALES[0]], [*MEANS[1], SCALES[1]], [rho]])
    natural = problem.layout.natural(problem.layout.read(values))
    found = np.exp(row_terms(problem, natural, batch).loglik[:LOST])
    ends = (limits[0] or -np.inf, limits[1] or np.inf)
    wanted = [
        chance(transforms, chosen[i], MEANS @ [1.0, x[i]], SCALES, rho, ends) for i in range(LOST)
    ]
    np.testing.assert_allclose(found, wanted, rtol=EXACT, atol=1e-13)
    check_derivatives(problem, batch, natural)


def test_three_alternatives_are_integrals() -> None:
    transforms = ["exp", 1.5, 2.0]
    world, x, chosen = posed(transforms, missing_outcome="silent")
    problem, batch = world.problem, world.engine.batch
    means, scales = np.vstack([MEANS, [0.3, 0.1]]), np.append(SCALES, 0.6)
    values = np.column_stack([means, scales]).ravel()
    natural = problem.layout.natural(problem.layout.read(values))
    found = np.exp(row_terms(problem, natural, batch).loglik[:LOST])
    wanted = [chance(transforms, chosen[i], means @ [1.0, x[i]], scales) for i in range(LOST)]
    np.testing.assert_allclose(found, wanted, rtol=EXACT, atol=1e-13)
    check_derivatives(problem, batch, natural)


def test_far_from_where_an_alternative_can_win_there_is_a_tail() -> None:
    """Where b wins above zero only, and its mean is 12 scales below, a density fades from there."""
    world, _, _ = posed(["exp", "identity"], missing_outcome="silent")
    problem, batch = world.problem, world.engine.batch
    natural = problem.layout.natural(
        problem.layout.read(np.array([-6.0, 0.0, 0.7, -12.0, 0.0, 1.0]))
    )
    found = row_terms(problem, natural, batch).loglik[LOST // 2 : LOST]
    y = np.concatenate([[0.0], np.geomspace(1e-12, 3.0, 200_001)])
    with np.errstate(divide="ignore"):
        values = norm.pdf(y, -12.0, 1.0) * ndtr((np.log(y) + 6.0) / 0.7)
    np.testing.assert_allclose(found, np.log(np.trapezoid(values, y)), rtol=1e-7)


def test_what_a_user_calls_a_transform_does_not_make_it_straight() -> None:
    named = ss.rules.Transform(np.exp, np.log, label="identity")
    assert ss.rules.MonotoneArgmax([named, 2.0]).factors() is None
    np.testing.assert_array_equal(ss.rules.MonotoneArgmax(["negative", 2]).factors(), [-1.0, 2.0])
