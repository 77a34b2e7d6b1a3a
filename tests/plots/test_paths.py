"""Walks along a covariate: columns with all their terms, or one term alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import OptionError
from selfselect.plots.base import grid_of, walk_along


@pytest.fixture(scope="module")
def wages() -> ss.FitResult:
    rng = np.random.default_rng([21, 1])
    table = pd.DataFrame({"age": rng.integers(16, 27, 600), "clan": rng.choice(["b", "f"], 600)})
    latent = np.column_stack([0.1 * table["age"], 3 - 0.02 * table["age"]]) + rng.normal(
        size=(600, 2)
    )
    table["pay"], table["job"] = latent.max(axis=1), np.where(latent.argmax(axis=1), "x", "y")
    return ss.fit("pay ~ age + I(age**2) + clan", table, chosen="job")


def test_a_square_moves_with_its_column(wages: ss.FitResult) -> None:
    path = walk_along(wages, "age")
    terms = wages.problem.equations.covariates
    np.testing.assert_allclose(path.rows.covariates[:, terms.index("age")], path.grid)
    np.testing.assert_allclose(path.rows.covariates[:, terms.index("I(age ** 2)")], path.grid**2)
    assert path.grid.tolist() == list(range(16, 27))


def test_a_term_moves_alone(wages: ss.FitResult) -> None:
    path = walk_along(wages, "clan[T.f]")
    np.testing.assert_allclose(path.grid, [0, 1])
    others = np.delete(
        path.rows.covariates, wages.problem.equations.covariates.index("clan[T.f]"), 1
    )
    np.testing.assert_allclose(others[0], others[1])


def test_categories_have_chances_but_no_line(wages: ss.FitResult) -> None:
    data = ss.plots.choice_probabilities(wages, "clan").data
    assert data["value"].tolist() == ["b", "b", "f", "f"]
    with pytest.raises(OptionError, match="'clan' holds categories, along which there is no line"):
        ss.plots.selection_lines(wages, "clan")


def test_only_values_that_were_met_are_walked_through() -> None:
    values = pd.Series(np.random.default_rng(1).exponential(size=5_000).round(2))
    grid = grid_of(values)
    assert set(grid) <= set(values)
    assert len(grid) <= 41
    assert (np.diff(grid) > 0).all()


def test_the_estimator_can_be_drawn() -> None:
    sample = ss.simulators.village(300, seed=1).data
    model = ss.SelfSelectionRegressor()
    model.fit(sample[["height", "weight"]], sample["income"], chosen=sample["job"])
    assert len(ss.plots.selection_lines(model.result_, "height").points) == 300
    assert len(ss.plots.choice_probabilities(model.result_, "height").data) > 20


def test_a_category_is_held_at_the_commonest_by_weights() -> None:
    table = ss.simulators.village(300, seed=2).data
    table["clan"] = np.where(np.arange(300) % 5 < 3, "b", "f")
    table["w"] = np.where(table["clan"] == "b", 1.0, 4.0)
    options = {"weights": "w", "weights_kind": "probability"}
    fit = ss.fit("income ~ height + clan", table, chosen="job", **options)
    path = walk_along(fit, "height")
    assert (path.rows.covariates[:, fit.problem.equations.covariates.index("clan[T.f]")] == 1).all()
