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


LOST = 12
"""Rows without an outcome, half of each alternative, at the start of the table."""


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
