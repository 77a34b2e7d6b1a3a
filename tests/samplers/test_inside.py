"""A first point is found inside of sets that are thin, and missed where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from selfselect.errors import RuleError
from selfselect.rules import ConvexRule
from selfselect.samplers import Target
from selfselect.samplers.base import find_inside

WIDTH = 2e-4


def thin(latent):
    """See the first alternative where the second lies in a thin slice."""
    return np.where(np.abs(latent[:, 1] - 0.3) < WIDTH, 0, 1)


def nowhere(latent):
    return np.ones(len(latent), dtype=int)


def rows_of(rule, n_rows):
    chosen = np.zeros(n_rows, dtype=np.intp)
    return Target(
        ConvexRule(choose=rule), chosen, np.zeros(n_rows), np.zeros((n_rows, 2)), np.ones(2)
    )


def test_a_few_thin_sets_are_looked_for_with_many_points():
    target = rows_of(thin, 6)
    found = find_inside(target, np.random.default_rng(0))
    assert target.contains(found).all()
    np.testing.assert_array_equal(found[:, 0], 0.0)


def test_many_thin_sets_are_found_by_the_points_of_rows_with_similar_outcomes():
    target = rows_of(thin, 500)
    found = find_inside(target, np.random.default_rng(0))
    assert target.contains(found).all()
    # Few rows hit their slice by chance; the others share the points of these.
    assert len(np.unique(found[:, 1])) < 100


@pytest.mark.parametrize("n_rows", [3, 500])
def test_rows_that_nothing_explains_are_named(n_rows):
    with pytest.raises(RuleError, match=rf"In {n_rows} of {n_rows} rows \(rows 0, 1, 2"):
        find_inside(rows_of(nowhere, n_rows), np.random.default_rng(0))
