"""Rules that compare linear scores: draws, many alternatives, tests and refusals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.likelihoods import evaluate, row_terms
from selfselect.noises import Independent
from selfselect.rules import ConvexRule, LinearArgmax
from selfselect.solvers import MonteCarloNewton, Newton

LABELS = list("abcde")


def mixed(k, share=0.3):
    """Return the matrix of outcomes each of which has a share of the next one added."""
    return np.eye(k) + share * np.roll(np.eye(k), 1, axis=1)


def draw(k, n_rows=400, seed=0, *, rule=None, closed=False):
    """Return rows chosen by a linear rule; with `closed`, `b` is not open to a third of them."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n_rows, 2))
    slopes = np.array([[0.5, -0.4, 0.3, -0.2, 0.1], [0.2, 0.5, -0.6, 0.1, -0.3]])[:, :k]
    latent = x @ slopes + 2.0 + 0.3 * np.arange(k) + rng.standard_normal((n_rows, k))
    fare = rng.uniform(0.0, 1.0, n_rows)
    open_b = np.ones(n_rows, dtype=bool)
    open_b[: n_rows // 3] = not closed
    rule = LinearArgmax(mixed(k)) if rule is None else rule
    available = np.ones((n_rows, k), dtype=bool)
    available[:, 1] = open_b
    costs = np.zeros((n_rows, k))
    costs[:, 0] = fare if rule.cost else 0.0
    chosen = rule.choose(latent, ss.rules.RowData(costs, available))
    return pd.DataFrame({
        "y": latent[np.arange(n_rows), chosen], "who": np.array(LABELS)[chosen], "x1": x[:, 0],
        "x2": x[:, 1], "fare": fare, "open_b": open_b, "times": rng.integers(1, 4, n_rows),
        "town": rng.integers(0, 30, n_rows),
    })  # fmt: skip


@dataclass(frozen=True)
class Posed:
    """A problem with its rows and natural parameters away from the optimum."""

    problem: object
    engine: object
    natural: np.ndarray

    def at(self, natural, curvature="exact"):
        return self.engine.sum(partial(evaluate, self.problem, natural, curvature=curvature))

    @property
    def rows(self):
        return row_terms(self.problem, self.natural, self.engine.batch)


def pose(k, *, closed=False, costs=False, noise="each", seed=0):
    rule = LinearArgmax(
        mixed(k, 0.4), 0.1 * np.arange(k), cost={"a": "fare"} if costs else None
    )  # fmt: skip
    data = draw(k, rule=rule, closed=closed, seed=seed)
    options = {"available": {"b": "open_b"}} if closed else {}
    posed = ss.pose("y ~ x1 + x2", data, chosen="who", rule=rule, noise=Independent(noise),
                    weights="times", **options)  # fmt: skip
    rng = np.random.default_rng(1)
    layout = posed.problem.layout
    natural = layout.natural(rng.uniform(-0.3, 0.3, layout.n_free))
    natural[layout.inverse_scale_positions] = rng.uniform(0.8, 1.3, k)
    return Posed(posed.problem, posed.engine, natural)


@pytest.mark.parametrize(("k", "scale"), [(2, "each"), (3, "common"), (4, 1.0)])
def test_draws_lead_to_the_same_fit(k, scale):
    rule = LinearArgmax(mixed(k))
    # With more than 2,000 rows the draws begin on a sample of them.
    data = draw(k, 2_500 if k == 2 else 1_000, seed=k)
    options = {"chosen": "who", "noise": Independent(scale)}
    exact = ss.fit("y ~ x1 + x2", data, rule=rule, **options)
    assert exact.solution.solver_name == "Newton" and exact.solution.noise is None
    assert "planes" in exact.solver_reason
    asked = ss.fit("y ~ x1 + x2", data, rule=rule, solver=MonteCarloNewton(), seed=1, **options)
    by_function = ConvexRule(lambda latent: (latent @ mixed(k).T).argmax(axis=1))
    drawn = ss.fit("y ~ x1 + x2", data, rule=by_function, seed=2, **options)
    for other in (asked, drawn):
        assert other.converged and (other.mc_error > 0).all()
        assert (np.abs(exact.params - other.params) < 4.5 * other.mc_error).all()
        np.testing.assert_allclose(exact.bse, other.bse, rtol=0.12)
    assert asked.solution.loglik_error == 0 and asked.llf < exact.llf
    with pytest.raises(ss.errors.UnsupportedError, match="the estimates were simulated"):
        asked.conf_int(method="profile")
    assert abs(drawn.llf - exact.llf) < 4.5 * drawn.solution.loglik_error


def test_four_alternatives_find_the_truth():
    data = draw(4, 4_000, seed=11)
    result = ss.fit("y ~ x1 + x2", data, chosen="who", rule=LinearArgmax(mixed(4)))
    slopes = np.array([[0.5, -0.4, 0.3, -0.2], [0.2, 0.5, -0.6, 0.1]])
    for j, label in enumerate("abcd"):
        truth = [2.0 + 0.3 * j, *slopes[:, j], 1.0]
        z = (result.params[label] - truth) / result.bse[label]
        assert np.abs(z).max() < 3.5
    assert result.independence_test().p_value > 0.001


def test_five_alternatives_and_nearly_parallel_half_spaces_are_drawn():
    parallel = [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.001, 1.0]]
    for matrix in (mixed(5), parallel, np.ones((3, 3))):
        rule = LinearArgmax(matrix)
        data = draw(len(matrix), 300)
        posed = ss.pose("y ~ x1", data, chosen="who", rule=rule)
        assert posed.problem.likelihood.sampled


def test_a_rule_that_derives_from_the_linear_one_is_drawn():
    class Derived(LinearArgmax):
        pass

    data = draw(3, 300)
    posed = ss.pose("y ~ x1", data, chosen="who", rule=Derived(mixed(3)))
    assert posed.problem.likelihood.sampled


def test_the_likelihood_is_tested_and_profiled():
    rule, data = LinearArgmax(mixed(3)), draw(3)
    options = {"chosen": "who", "rule": rule}
    large = ss.fit("y ~ x1 + x2", data, **options)
    small = ss.fit("y ~ x1", data, **options)
    test = large.lr_test(small)
    assert test.statistic == pytest.approx(2.0 * (large.llf - small.llf)) and test.df == 3
    page = " ".join(str(large.summary()).split())
    for subject in ("independence across alternatives", "normality", "heteroskedasticity"):
        assert f"test of {subject} (null:" in page
    profile = large.conf_int(method="profile")
    assert ((profile["conf_low"] < large.params) & (large.params < profile["conf_high"])).all()


def test_newton_still_refuses_functions():
    by_function = ConvexRule(lambda latent: latent.argmax(axis=1))
    with pytest.raises(ss.errors.UnsupportedError, match="Newton cannot solve this problem"):
        ss.fit("y ~ x1", draw(3), chosen="who", rule=by_function, solver=Newton())
