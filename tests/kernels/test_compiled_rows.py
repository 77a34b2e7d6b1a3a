"""Terms of single rows, and tails of arrays, by compiled kernels and by their NumPy oracles."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from selfselect.kernels.known_index import (
    ABOVE,
    BELOW,
    BETWEEN,
    OBSERVED,
    UNKNOWN,
    row_terms,
    row_terms_by_numpy,
)
from selfselect.kernels.tails import (
    interval_terms,
    interval_terms_by_numpy,
    mills_terms,
    mills_terms_by_numpy,
)
from selfselect.kernels.unknown_index import memberships, memberships_by_numpy

pytestmark = pytest.mark.usefixtures("instructions")

TOLERANCE: Final = 1e-12
"""Of one row: the oracle's own curvature loses 900 ulps next to its far-left threshold."""

TINY: Final = 1e-300
"""Below this a compiled density is zero, while the oracle goes on into subnormal numbers."""

OUTWARD = np.concatenate([[0.0, 1e-300, 1e-16, 1e-8], np.geomspace(1e-3, 1e3, 500), [1e8, 1e100]])
FAR = np.concatenate([-OUTWARD[::-1], OUTWARD])


def test_tails_agree_with_the_oracle_from_end_to_end() -> None:
    with np.errstate(all="ignore"):
        found, expected = mills_terms(FAR), mills_terms_by_numpy(FAR)
    for name in ("log_cdf", "ratio", "slope"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=TOLERANCE, atol=TINY, err_msg=name
        )


def test_tails_of_infinity_and_of_no_number() -> None:
    found = mills_terms(np.array([-np.inf, np.inf, np.nan, 0.0]))
    np.testing.assert_array_equal(found.log_cdf[:2], [-np.inf, 0.0])
    np.testing.assert_array_equal(found.ratio[:2], [np.inf, 0.0])
    assert np.isnan([found.log_cdf[2], found.ratio[2], found.slope[2]]).all()
    assert found.log_cdf[3] == pytest.approx(np.log(0.5), rel=1e-15)


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 4), (255,), (256,), (257,), (2, 0, 3)])
def test_tails_take_any_shape_and_layout(shape: tuple[int, ...]) -> None:
    a = np.random.default_rng(1).normal(size=shape)
    for one in (a, np.asfortranarray(a), np.repeat(a, 2, axis=0)[::2]):
        found, expected = mills_terms(one), mills_terms_by_numpy(np.ascontiguousarray(one))
        assert found.ratio.shape == shape
        np.testing.assert_allclose(found.ratio, expected.ratio, rtol=TOLERANCE)


@pytest.mark.parametrize("width", [1e-6, 0.1, 0.999, 1.001, 3.0, 80.0, np.inf])
def test_intervals_agree_with_the_oracle(width: float) -> None:
    lower = np.linspace(-60.0, 60.0, 999)
    for low, high in ((lower, lower + width), (-lower - width, -lower)):
        found, expected = interval_terms(low, high), interval_terms_by_numpy(low, high)
        for name in ("log_mass", "lower_density", "upper_density"):
            np.testing.assert_allclose(
                getattr(found, name), getattr(expected, name), rtol=1e-11, atol=TINY, err_msg=name
            )


def known_rows(n_rows: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    codes = np.array([OBSERVED, BELOW, ABOVE, BETWEEN, UNKNOWN], np.int8)
    status = rng.choice(codes, n_rows)
    limit = 3.0 * rng.normal(size=n_rows)
    upper = limit + rng.uniform(0.01, 5.0, n_rows)
    limit[status == UNKNOWN] = np.nan
    upper[status != BETWEEN] = np.nan
    return {"status": status, "limit": limit, "upper": upper}


@pytest.mark.parametrize("n_rows", [0, 1, 256, 1000])
@pytest.mark.parametrize("h", [0.2, 1.0, 7.0])
def test_rows_of_a_known_index_agree_with_the_oracle(n_rows: int, h: float) -> None:
    rows = known_rows(n_rows, 1)
    location = np.random.default_rng(2).normal(size=n_rows)
    found, expected = row_terms(location, h, **rows), row_terms_by_numpy(location, h, **rows)
    for name, value in vars(expected).items():
        scale = np.maximum(np.abs(value), 1.0) * (1.0 + np.nan_to_num(rows["limit"]) ** 2)
        off = np.abs(getattr(found, name) - value)
        assert np.all(off <= 100 * TOLERANCE * scale), name


def test_strided_rows_of_a_known_index_are_taken_as_they_are() -> None:
    rows = known_rows(500, 3)
    location = np.random.default_rng(4).normal(size=500)
    expected = row_terms(location, 1.3, **rows)
    apart = {name: np.repeat(value, 3)[::3] for name, value in rows.items()}
    found = row_terms(np.repeat(location, 2)[::2], 1.3, **apart)
    for name, value in vars(expected).items():
        np.testing.assert_array_equal(getattr(found, name), value)


@pytest.mark.parametrize("k", [1, 2, 3, 9])
@pytest.mark.parametrize("far", [1.0, 40.0, 300.0])
@pytest.mark.parametrize("some", [False, True])
def test_memberships_agree_with_the_oracle(k: int, far: float, some: bool) -> None:
    rng = np.random.default_rng(k)
    location, limit = far * rng.normal(size=(700, k)), far * rng.normal(size=700)
    h = rng.uniform(0.5, 2.0, k)
    candidate = None
    if some:
        candidate = rng.random((700, k)) < 0.7
        candidate[:, 0] = True
    for side in (1.0, -1.0):
        found = memberships(location, h, limit, side=side, candidate=candidate)
        with np.errstate(under="ignore"):
            expected = memberships_by_numpy(location, h, limit, side=side, candidate=candidate)
        # The oracle compares logarithms, whose digits are those of a².
        rounding = 1e-15 * (1.0 + expected.a**2).max(axis=1)
        assert np.all(np.abs(found.loglik - expected.loglik) <= 100 * rounding)
        assert np.all(np.abs(found.chance - expected.chance) <= 100 * rounding[:, None])
        np.testing.assert_allclose(found.a, expected.a, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(found.ratio, expected.ratio, rtol=1e-9, atol=TINY)
        np.testing.assert_allclose(found.slope, expected.slope, rtol=1e-9, atol=1e-290)
        np.testing.assert_allclose(found.chance.sum(axis=1), 1.0, rtol=1e-14)


def test_shapes_that_disagree_are_refused() -> None:
    location = np.zeros((5, 2))
    with pytest.raises(ValueError, match="disagree"):
        memberships(location, np.ones(3), np.zeros(5), side=1.0, candidate=None)
    with pytest.raises(ValueError, match="disagree"):
        row_terms(np.zeros(5), 1.0, status=np.zeros(4, np.int8), limit=np.zeros(5), upper=None)
