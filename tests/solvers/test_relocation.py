"""Moves out of a poor optimum: when they are made, and what they find."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.solvers import MaximumLikelihood
from selfselect.solvers._relocation import relocate
from selfselect.solvers._search import Place, SearchSpace
from selfselect.solvers._start import gram_matrices

SAME = 0.01
"""Log-likelihoods this close are of one optimum."""

FORMULA = "y ~ a + b + c"


def six_shifted(seed):
    """Return shifted covariates and six alternatives, of which some are hardly ever seen."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((2_000, 3)) + 0.5
    slopes = rng.standard_normal((6, 3))
    slopes *= 3.0 / np.linalg.norm(slopes, axis=1, keepdims=True)
    intercepts = 0.5 * rng.standard_normal(6)
    y = (x @ slopes.T + intercepts + 0.5 * rng.standard_normal((2_000, 6))).max(axis=1)
    truth = np.append(np.column_stack([intercepts, slopes]).ravel(), 0.5)
    return pd.DataFrame(x, columns=list("abc")).assign(y=y), truth


def test_a_better_optimum_beside_the_best_start_is_found_and_shown():
    data, truth = six_shifted(29)
    solver = MaximumLikelihood(starts=2)
    fit = ss.fit(FORMULA, data, alternatives=6, solver=solver, seed=1)
    reference = solver.solve(
        fit.problem, fit.engine_of_rows(), rng=np.random.default_rng(0),
        start=fit.problem.layout.read(truth),
    )  # fmt: skip
    assert fit.llf > reference.loglik - SAME
    added = fit.starts["name"] == "relocated"
    assert added.sum() >= 1
    assert not added[:2].any()
    # Without the move the answer would have been far below.
    assert fit.starts.loc[~added, "behind"].max() < -1.0
    assert f"1 of {len(fit.starts)} starts reached this optimum" in fit.status


@pytest.fixture(scope="module")
def three():
    sample = ss.simulators.gaussian(1_500, 3, 3, norm=2.5, seed=1)
    return ss.fit(sample.formula, sample.data, alternatives=3)


def test_nothing_is_moved_where_starts_agree(three):
    assert (three.starts["behind"] > -SAME).sum() > 4
    assert "relocated" not in set(three.starts["name"])


def test_a_move_from_a_place_with_a_wasted_alternative_finds_the_optimum(three):
    """One alternative is so low that it is never chosen; the other two make up for it."""
    engine = three.engine_of_rows()
    grams = gram_matrices(three.problem, engine)
    space = SearchSpace.build(three.problem, grams, weight=engine.weight_total, floor=0.01)
    poor = space.locate(three.solution.free)
    block = space.block(1)
    poor[block] = space.naive[0]
    poor[block.start] -= 100.0  # The first coordinate moves with the intercept.
    solver = MaximumLikelihood()
    (begun,) = solver.climb_on_sample(space, engine, [Place(poor, -np.inf, 0)])
    assert begun.loglik < three.llf - 10.0
    found = relocate(
        space, engine, begun, np.random.default_rng(0),
        lambda places: solver.climb_on_sample(space, engine, places),
    )  # fmt: skip
    assert found.loglik == pytest.approx(three.llf, abs=SAME)
    assert found.n_evaluations > begun.n_evaluations
