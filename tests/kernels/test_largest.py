"""Moments of independent normal outcomes where each is the largest, by every kernel."""

from __future__ import annotations

from typing import Final

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

from selfselect.kernels.compiled import extension
from selfselect.kernels.largest import (
    LargestMoments,
    largest_chances,
    largest_moments,
    nodes_wanted,
)

pytestmark = pytest.mark.usefixtures("every_kernel")

Array = NDArray[np.float64]

EXACT: Final = 1e-13
"""Absolute error: the trapezoid rule is made for 1e-14."""

MOMENT: Final = 2e-12
"""The same of second moments, whose integrands reach farther out."""


def draw(n_rows: int, k: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, k)), rng.uniform(0.5, 2.0, k)


def test_chances_and_means_are_those_of_adaptive_quadrature() -> None:
    means, scales = draw(1, 3)
    found = largest_moments(means, scales)
    mpmath.mp.dps = 20
    cuts = [-12, -6, -3, 0, 3, 6, 12]
    for row in range(1):
        for chosen in range(3):

            def density(z: float, row: int = row, chosen: int = chosen) -> mpmath.mpf:
                y = means[row, chosen] + scales[chosen] * z
                below = [
                    mpmath.ncdf((y - means[row, m]) / scales[m]) for m in range(3) if m != chosen
                ]
                return mpmath.npdf(z) * mpmath.fprod(below)

            chance = mpmath.quad(density, cuts)
            own = mpmath.quad(lambda z, density=density: z * density(z), cuts)
            assert found.chance[row, chosen] == pytest.approx(float(chance), abs=EXACT)
            assert found.first[row, chosen, chosen] == pytest.approx(float(own), abs=EXACT)


def test_alternatives_that_are_not_available_take_no_part() -> None:
    means, scales = draw(300, 4, seed=2)
    available = np.random.default_rng(3).random((300, 4)) < 0.6
    available[:, 0] = True
    found = largest_moments(means, scales, available, slopes=True)
    assert found.pair is not None
    assert (found.chance[~available] == 0).all()
    some = np.array([True, False, True, False])
    rows = (available == some).all(axis=1)
    alone = largest_moments(means[rows][:, some], scales[some])
    np.testing.assert_allclose(found.chance[rows][:, some], alone.chance, atol=EXACT)
    np.testing.assert_allclose(found.first[rows][:, some][:, :, some], alone.first, atol=EXACT)
    # Nothing is known of the noise of what is not there.
    shut = found.pair[rows][:, 1, 1]
    np.testing.assert_allclose(shut, found.chance[rows], atol=EXACT)


@pytest.mark.parametrize("distance", [5.0, 40.0, 1e6, 1e19, 1e200, np.inf])
def test_alternatives_that_are_far_behind_have_no_chance_and_harm_nothing(distance: float) -> None:
    means = np.array([[0.0, 0.2, -distance]])
    found = largest_moments(means, np.ones(3), slopes=True)
    two = largest_moments(means[:, :2], np.ones(2), slopes=True)
    assert all(np.isfinite(part).all() for part in found if part is not None)
    if distance >= 40.0:
        np.testing.assert_allclose(found.chance[:, :2], two.chance, atol=EXACT)
        np.testing.assert_allclose(found.first[:, :2, :2], two.first, atol=EXACT)


def test_what_is_not_a_number_stays_so() -> None:
    found = largest_moments(np.array([[0.0, np.nan], [0.0, 1.0]]), np.ones(2))
    assert np.isnan(found.chance[0]).all()
    assert np.isfinite(found.chance[1]).all()


def test_more_nodes_are_wanted_where_one_scale_is_narrow() -> None:
    assert nodes_wanted(np.ones(2)) < nodes_wanted(np.array([1.0, 0.1]))
    assert nodes_wanted(np.ones((5, 2))) == nodes_wanted(np.ones(2))


@pytest.mark.parametrize("n_rows", [0, 1, 255, 256, 257, 9000])
def test_any_number_of_rows_in_any_layout_is_taken(n_rows: int) -> None:
    means, scales = draw(n_rows, 2, seed=6)
    found = largest_moments(means, scales)
    for other in (np.asfortranarray(means), np.repeat(means, 2, axis=0)[::2]):
        again: LargestMoments = largest_moments(other, scales)
        np.testing.assert_array_equal(again.chance, found.chance)


def test_arguments_that_would_be_read_out_of_bounds_are_refused() -> None:
    native = extension()
    if native is None:
        pytest.skip("there are no compiled kernels")
    means, made = np.zeros((4, 2)), (np.zeros((4, 2)), np.zeros((4, 2, 2)), None, None, None)
    nodes, begins = np.zeros(6), np.array([0, 3, 6])
    native.largest(means, means + 1.0, None, nodes, nodes, begins, *made)
    for wrong in (np.array([0, 3, 7]), np.array([0, 7, 3]), np.array([-1, 3, 6]), np.array([0, 6])):
        with pytest.raises(ValueError, match="disagree"):
            native.largest(means, means + 1.0, None, nodes, nodes, wrong, *made)
    with pytest.raises(ValueError, match="disagree"):
        native.largest(means, np.ones((3, 2)), None, nodes, nodes, begins, *made)


@pytest.mark.parametrize("k", [2, 3, 4, 6])
@pytest.mark.parametrize("kind", ["alike", "apart", "by row"])
@pytest.mark.parametrize("closed", [False, True])
def test_chances_alone_are_those_of_the_moments(k: int, kind: str, closed: bool) -> None:
    rng = np.random.default_rng(k)
    means = rng.normal(scale=2.0, size=(300, k))
    scales = {
        "alike": np.ones(k),
        "apart": np.append(4.0, np.full(k - 1, 0.3)),
        "by row": rng.uniform(0.5, 2.0, (300, k)),
    }[kind]
    available = rng.random((300, k)) < 0.6 if closed else None
    if available is not None:
        available[np.arange(300), rng.integers(0, k, 300)] = True
    found = largest_chances(means, scales, available)
    expected = largest_moments(means, scales, available).chance
    np.testing.assert_allclose(found, expected, atol=EXACT)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=EXACT)
    assert available is None or (found[~available] == 0).all()


@pytest.mark.parametrize("closed", [False, True])
def test_moments_of_two_are_those_of_three_of_which_one_is_not_there(closed: bool) -> None:
    rng = np.random.default_rng(7)
    means, scales = rng.normal(scale=2.0, size=(200, 3)), rng.uniform(0.5, 2.0, (200, 3))
    available = np.column_stack([rng.random((200, 2)) < (0.7 if closed else 1.1), np.zeros(200)])
    available = available.astype(bool)
    two = largest_moments(means[:, :2], scales[:, :2], available[:, :2], slopes=True)
    three = largest_moments(means, scales, available, slopes=True)
    for name in LargestMoments._fields:
        one, other = getattr(two, name), getattr(three, name)
        kept = (slice(None), *[slice(2)] * (one.ndim - 1))
        np.testing.assert_allclose(one, other[kept], atol=MOMENT, err_msg=name)


@pytest.mark.parametrize("k", [2, 3])
def test_chances_of_outcomes_far_apart_are_zero_and_one(k: int) -> None:
    means = np.zeros((4, k))
    means[:, 0] = [1e3, -1e3, 1e300, np.nan]
    found = largest_chances(means, np.linspace(1.0, 2.0, k))
    np.testing.assert_array_equal(found[:3, 0], [1.0, 0.0, 1.0])
    np.testing.assert_allclose(found[:3].sum(axis=1), 1.0, atol=EXACT)
    assert np.isnan(found[3]).any()


@pytest.mark.parametrize("ratio", [0.1, 1.0, 1.5, 2.5, 5.0, 40.0])
def test_three_chances_are_right_at_every_correlation(ratio: float) -> None:
    rng = np.random.default_rng(6)
    means, scales = rng.normal(size=(50, 3)) * max(ratio, 1.0), np.array([ratio, 1.0, 1.2])
    found = largest_chances(means, scales)
    # The trapezoid rule with a step far below any width.
    z, step = np.linspace(-9.0, 9.0, 4_001, retstep=True)
    weight = step * np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    own = means[:, [0]] + ratio * z
    below = ndtr(own - means[:, [1]]) * ndtr((own - means[:, [2]]) / 1.2)
    np.testing.assert_allclose(found[:, 0], below @ weight, atol=EXACT)
