"""Sums of log masses over rows whose columns are known, compiled and by NumPy."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from selfselect.kernels.selected import IntervalRows, SignedRows

pytestmark = pytest.mark.usefixtures("instructions")

SUM_TOLERANCE: Final = 1e-12
"""Of the sum of the rows' absolute terms."""


@pytest.mark.parametrize("n_rows", [0, 1, 255, 256, 700])
@pytest.mark.parametrize("size", [1, 4, 14])
@pytest.mark.parametrize("far", [0.5, 30.0, 1e6])
@pytest.mark.parametrize("weighted", [False, True])
def test_signed_rows_agree_with_the_oracle(
    n_rows: int, size: int, far: float, weighted: bool
) -> None:
    rng = np.random.default_rng([n_rows, size])
    values, direction = rng.normal(size=(size, n_rows)), far * rng.normal(size=size)
    weights = rng.uniform(0.0, 2.0, n_rows) if weighted else None
    rows = SignedRows(values, weights)
    found, expected = rows.at(direction), rows.at_by_numpy(direction)
    sizes, terms = np.abs(values), rows.each(direction)[0]
    w = np.ones(n_rows) if weights is None else weights
    assert abs(found.log_mass - expected.log_mass) <= SUM_TOLERANCE * float(w @ np.abs(terms))
    ratio, slope = (w * one for one in rows.moments(direction))
    assert np.all(np.abs(found.pull - expected.pull) <= SUM_TOLERANCE * (sizes @ ratio))
    off = np.abs(found.curvature - expected.curvature)
    assert np.all(off <= SUM_TOLERANCE * ((sizes * slope) @ sizes.T))
    plain = rows.at(direction, curved=False)
    assert plain.log_mass == found.log_mass and not plain.curvature.any()
    assert np.all(np.abs(plain.pull - found.pull) <= SUM_TOLERANCE * (sizes @ ratio))


def test_directions_of_another_length_are_refused() -> None:
    rows = SignedRows(np.ones((3, 5)), None)
    with pytest.raises(ValueError, match="disagree"):
        rows.at(np.ones(2))


@pytest.mark.parametrize("n_rows", [1, 255, 700])
@pytest.mark.parametrize("width", [1e-3, 0.7, 3.0, 40.0])
@pytest.mark.parametrize("far", [0.5, 10.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_between_two_ends_add_up_and_slopes_are_those_of_differences(
    n_rows: int, width: float, far: float, weighted: bool
) -> None:
    rng = np.random.default_rng([n_rows, 7])
    values, n_before = rng.normal(size=(4, n_rows)), 2
    weights = rng.uniform(0.0, 2.0, n_rows) if weighted else None
    rows, w = IntervalRows(values, weights, n_before), np.ones(n_rows)
    w = w if weights is None else weights
    direction = far * np.array([0.3, -0.4, 0.2, 0.1, 0.5, -0.2])
    direction[3] = direction[2] - width
    found, (log_mass, slope) = rows.at(direction), rows.each(direction)
    assert found.log_mass == pytest.approx(float(w @ log_mass), rel=SUM_TOLERANCE)
    sizes = np.abs(slope) @ w + 1.0
    assert np.all(np.abs(found.pull - slope @ w) <= 10 * SUM_TOLERANCE * sizes)
    step = 1e-5 * min(width, 1.0)
    for place, by in enumerate(step * np.eye(6)):
        above, below = rows.at(direction + by), rows.at(direction - by)
        difference = (above.log_mass - below.log_mass) / (2 * step)
        assert found.pull[place] == pytest.approx(difference, abs=1e-5 * sizes[place])
        fall = (below.pull - above.pull) / (2 * step)
        assert np.all(np.abs(found.curvature[place] - fall) <= 1e-5 * (np.abs(fall) + sizes))
    plain = rows.at(direction, curved=False)
    assert plain.log_mass == found.log_mass and not plain.curvature.any()
    np.testing.assert_array_equal(plain.pull, found.pull)
    crossed = direction[[0, 1, 3, 2, 4, 5]]
    assert rows.at(crossed).log_mass == -np.inf
