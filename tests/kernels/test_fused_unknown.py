"""The fused kernel of the unknown index against its NumPy oracle."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from selfselect.kernels.fused_known import FusedSums, RowArguments
from selfselect.kernels.fused_unknown import sum_places, sum_unknown_index
from selfselect.kernels.known_index import MAYBE, UNKNOWN
from selfselect.kernels.unknown_index import Curvature, sum_rows

Array = NDArray[np.float64]

pytestmark = pytest.mark.usefixtures("instructions")

BLOCK: Final = 256
"""Rows that the kernel takes at a time."""

FACTORS: Final = 8
"""Alternatives after which the kernel takes a logarithm."""

TOLERANCE: Final = 1e-12
"""Relative to the sizes of what is summed."""

FAR_TOLERANCE: Final = 1e-10
"""Far out the oracle compares logarithms as large as a², whose last digits are gone."""

TINY: Final = 1e-290
"""Below this the kernel's density is zero, while the oracle goes on into subnormal numbers."""


@dataclass(frozen=True, eq=False)
class Case(RowArguments):
    """The arguments of the kernel."""

    side: float = 1.0

    def fused(self, curvature: Curvature = "complete") -> FusedSums:
        """Evaluate by the kernel."""
        return sum_unknown_index(self, side=self.side, curvature=curvature)

    def oracle(self, curvature: Curvature) -> FusedSums:
        """Evaluate by NumPy, leaving out the rows to which nothing is open."""
        n_alternatives, width = self.columns.shape
        some = (self.status == MAYBE).any(axis=1)
        constant = np.ones((len(self.covariates), 1))
        matrix = ((np.hstack([constant, self.covariates]) - self.shift) / self.unit)[some]
        found = sum_rows(
            [matrix[:, self.columns[j, :size]] for j, size in enumerate(self.sizes)],
            self.h,
            ((self.limit[:, 0] - self.limit_shift) / self.limit_unit)[some],
            side=self.side,
            candidate=(self.status == MAYBE)[some],
            weights=None if self.weights is None else self.weights[some],
            natural_g=[self.g[j, :size] for j, size in enumerate(self.sizes)],
            curvature=curvature,
        )
        assert found.hessian is not None
        used = np.arange(width + 1) < self.sizes[:, None]
        used[:, -1] = True
        score = np.zeros(used.shape)
        score[used] = found.score
        whole = np.zeros((used.size, used.size))
        whole[np.ix_(used.ravel(), used.ravel())] = found.hessian
        cross = whole.reshape(used.shape * 2)
        each = np.arange(n_alternatives)
        hessian = cross[each, :, each]
        cross[each, :, each] = 0.0
        return FusedSums(found.loglik, score, hessian, cross)


def make_case(
    seed: int,
    *,
    n_rows: int,
    n_covariates: int,
    n_alternatives: int,
    intercept: bool = True,
    weighted: bool = False,
    side: float = 1.0,
    open_share: float = 0.7,
) -> Case:
    """Draw a problem in which every alternative uses columns of its own, in an order of its own."""
    rng = np.random.default_rng(seed)
    k, width = n_alternatives, n_covariates + 2
    sizes = rng.integers(min(1, n_covariates), n_covariates + 1, k) + intercept
    columns = np.full((k, width), -1)
    g = np.zeros((k, width))
    for j, size in enumerate(sizes):
        chosen = 1 + rng.permutation(n_covariates)[: size - intercept]
        columns[j, :size] = rng.permutation(np.append(chosen, 0) if intercept else chosen)
        g[j, :size] = rng.normal(size=size) / np.sqrt(size)
    status = np.where(rng.random((n_rows, k)) < open_share, MAYBE, UNKNOWN).astype(np.int8)
    limit = rng.normal(3.0, 2.0, (n_rows, 1))
    none_open = (status == UNKNOWN).all(axis=1)
    limit[none_open, 0] = rng.choice([np.nan, np.inf, -np.inf], int(none_open.sum()))
    return Case(
        covariates=rng.normal(5.0, 3.0, (n_rows, n_covariates)),
        status=status,
        limit=limit,
        weights=rng.uniform(0.0, 2.0, n_rows) if weighted else None,
        columns=columns,
        sizes=sizes,
        shift=np.append(0.0, rng.normal(5.0, 0.1, n_covariates)),
        unit=np.append(1.0, rng.uniform(2.0, 4.0, n_covariates)),
        limit_shift=3.1,
        limit_unit=1.7,
        g=g,
        h=rng.uniform(0.5, 2.0, k),
        side=side,
    )


def assert_scores_agree(actual: FusedSums, expected: FusedSums, tolerance: float) -> None:
    """Compare to a tolerance relative to the largest entry of each alternative's block."""
    assert actual.loglik == pytest.approx(expected.loglik, rel=tolerance, abs=TINY)
    largest = np.abs(expected.score).max(axis=1, initial=0.0, keepdims=True)
    assert np.all(np.abs(actual.score - expected.score) <= tolerance * largest + TINY)


def assert_agree(
    case: Case, oracle_of: Case | None = None, *, tolerance: float = TOLERANCE
) -> None:
    """Compare all three modes with the oracle; the Hessian relative to its own diagonal."""
    expected = (oracle_of or case).oracle("complete")
    without = case.fused("none")
    assert_scores_agree(without, expected, tolerance)
    assert without.hessian.shape == expected.hessian.shape
    assert not without.hessian.any()
    assert without.cross is None

    complete = case.fused("complete")
    assert_scores_agree(complete, expected, tolerance)
    assert_blocks_agree(complete.hessian, expected.hessian, own_scales(expected.hessian), tolerance)
    assert complete.cross is None
    assert expected.cross is not None and not expected.cross.any()

    wanted, exact = (oracle_of or case).oracle("exact"), case.fused("exact")
    assert_scores_agree(exact, wanted, tolerance)
    # Where the complete information and what is missing of it cancel, digits are lost to both.
    missing = wanted.hessian - expected.hessian
    scales = own_scales(np.maximum(np.abs(expected.hessian), np.abs(missing)))
    assert_blocks_agree(exact.hessian, wanted.hessian, scales, tolerance)
    assert exact.cross is not None and wanted.cross is not None
    scale = scales[:, :, None, None] * scales
    assert np.all(np.abs(exact.cross - wanted.cross) <= tolerance * scale + TINY)
    each = np.arange(len(scales))
    assert not exact.cross[each, :, each].any()


def own_scales(hessian: Array) -> Array:
    """Return the roots of the diagonals of the blocks."""
    return np.sqrt(np.abs(np.einsum("jpp->jp", hessian)))


def assert_blocks_agree(actual: Array, expected: Array, scales: Array, tolerance: float) -> None:
    """Compare to a tolerance relative to the scales of row and column."""
    scale = scales[:, :, None] * scales[:, None, :]
    assert np.all(np.abs(actual - expected) <= tolerance * scale + TINY)


@pytest.mark.parametrize("n_covariates", [0, 40, 60])
def test_narrow_and_wide_designs_agree_with_the_oracle(n_covariates: int) -> None:
    assert_agree(
        make_case(3, n_rows=2000, n_covariates=n_covariates, n_alternatives=2, weighted=True)
    )


@pytest.mark.parametrize("n_alternatives", [2 * FACTORS, 5 * FACTORS + 3])
def test_any_number_of_alternatives_is_taken(n_alternatives: int) -> None:
    assert_agree(make_case(4, n_rows=500, n_covariates=3, n_alternatives=n_alternatives))


@pytest.mark.parametrize("off", [-1, 0, 1])
@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_need_not_fill_a_block(off: int, blocks: int, weighted: bool) -> None:
    assert_agree(
        make_case(
            5, n_rows=blocks * BLOCK + off, n_covariates=3, n_alternatives=3, weighted=weighted
        )
    )


def test_one_row_is_enough() -> None:
    assert_agree(make_case(6, n_rows=1, n_covariates=3, n_alternatives=2, open_share=1.0))


@pytest.mark.parametrize("curvature", ["none", "complete", "exact"])
@pytest.mark.parametrize(("n_rows", "open_share"), [(0, 1.0), (300, 0.0)])
def test_no_rows_and_closed_rows_sum_to_exactly_zero(
    n_rows: int, open_share: float, curvature: Curvature
) -> None:
    case = make_case(7, n_rows=n_rows, n_covariates=3, n_alternatives=2, open_share=open_share)
    sums = case.fused(curvature)
    assert sums.loglik == 0.0
    assert not sums.score.any()
    assert not sums.hessian.any()
    assert (sums.cross is None) == (curvature != "exact")
    assert sums.cross is None or not sums.cross.any()


def strided_copy(array: NDArray[Any]) -> NDArray[Any]:
    """Return the same values, two apart in memory along both axes."""
    wide = np.zeros((2 * array.shape[0], 2 * array.shape[1]), array.dtype)
    wide[::2, ::2] = array
    return wide[::2, ::2]


@pytest.mark.parametrize("layout", [np.asfortranarray, strided_copy])
def test_memory_layout_does_not_change_the_sums(layout: Any) -> None:
    case = make_case(8, n_rows=777, n_covariates=6, n_alternatives=3, weighted=True)
    moved = replace(
        case,
        covariates=layout(case.covariates),
        status=layout(case.status),
        limit=layout(case.limit),
    )
    assert_agree(moved, oracle_of=case)


def test_arguments_may_be_read_only_and_are_not_changed() -> None:
    case = make_case(9, n_rows=300, n_covariates=3, n_alternatives=2, weighted=True, side=-1.0)
    given = {one.name: getattr(case, one.name) for one in fields(case)}
    before = {name: np.copy(value) for name, value in given.items()}
    for value in given.values():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    assert_agree(case)
    for name, value in given.items():
        np.testing.assert_array_equal(value, before[name])


def test_hessian_is_exactly_symmetric_and_unused_entries_are_zero() -> None:
    case = make_case(10, n_rows=900, n_covariates=7, n_alternatives=4)
    sums = case.fused("exact")
    assert sums.cross is not None
    np.testing.assert_array_equal(sums.hessian, sums.hessian.transpose(0, 2, 1))
    np.testing.assert_array_equal(sums.cross, sums.cross.transpose(2, 3, 0, 1))
    width = case.columns.shape[1]
    for j, size in enumerate(case.sizes):
        assert size < width
        assert not sums.score[j, size:width].any()
        assert not sums.hessian[j, size:width].any()
        assert not sums.cross[j, size:width].any()


@pytest.mark.parametrize("curvature", ["none", "complete", "exact"])
def test_what_is_not_a_number_shows_in_every_sum_of_its_row(curvature: Curvature) -> None:
    case = make_case(11, n_rows=300, n_covariates=3, n_alternatives=2, open_share=1.0)
    case.limit[7] = np.nan
    sums = case.fused(curvature)
    assert np.isnan(sums.loglik)
    assert np.isnan(sums.score[:, -1]).all()


FAR: Final = np.concatenate([[0.0, 1e-300, 1e-8], np.geomspace(1e-3, 1e3, 60)])
POINTS: Final = np.concatenate([-FAR[::-1], FAR])
"""Values of a from tail to tail."""


def one_row(a: Array, *, side: float, h: Array, codes: Array | None = None) -> Case:
    """Make a row without covariates whose a are as given: g = -side a, and the outcome is zero."""
    k = len(a)
    return Case(
        covariates=np.empty((1, 0)),
        status=np.full((1, k), MAYBE, np.int8) if codes is None else codes.astype(np.int8),
        limit=np.zeros((1, 1)),
        weights=None,
        columns=np.zeros((k, 1), np.int64),
        sizes=np.ones(k, np.int64),
        shift=np.zeros(1),
        unit=np.ones(1),
        limit_shift=0.0,
        limit_unit=1.0,
        g=-side * a[:, None],
        h=h,
        side=side,
    )


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_pairs_are_accurate_from_tail_to_tail(side: float) -> None:
    h = np.array([0.7, 1.9])
    for first in POINTS[::3]:
        for second in POINTS[::3]:
            pair = one_row(np.array([first, second]), side=side, h=h)
            assert_agree(pair, tolerance=FAR_TOLERANCE)


@pytest.mark.parametrize("side", [1.0, -1.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("distance", [5.0, 30.0, 37.0, 38.5, 40.0, 100.0, 1e3])
def test_rows_that_lie_far_out_as_a_whole_still_tell_who_was_seen(
    side: float, sign: float, distance: float
) -> None:
    # So close together, no alternative is ruled out.
    apart = np.array([0.0, 0.3, -0.2, 1.1]) / distance
    h = np.array([0.7, 1.9, 1.0, 0.4])
    everyone = one_row(sign * (distance + apart), side=side, h=h)
    assert_agree(everyone, tolerance=FAR_TOLERANCE)
    closed = np.array([[MAYBE, UNKNOWN, MAYBE, MAYBE]])
    some = one_row(sign * (distance + apart), side=side, h=h, codes=closed)
    assert_agree(some, tolerance=FAR_TOLERANCE)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_far_tails_agree_with_the_oracle_in_bulk(side: float) -> None:
    case = make_case(12, n_rows=3000, n_covariates=2, n_alternatives=3, side=side)
    # Outcomes this far out put a between about -1000 and 1000.
    spread = np.linspace(-1e3, 1e3, 3000)[:, None] * case.limit_unit
    assert_agree(replace(case, limit=spread, h=np.ones(3)), tolerance=FAR_TOLERANCE)


@pytest.mark.parametrize("distance", [1e4, 1e8, 1e20])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_sums_stay_finite_however_far_out_a_row_lies(distance: float, sign: float) -> None:
    # Here a + λ, by which the exact Hessian divides, is lost in the rounding of a.
    a = sign * distance * np.array([1.0, 1.0 + 1e-9, 0.5])
    sums = one_row(a, side=1.0, h=np.array([0.7, 1.9, 1.0])).fused("exact")
    assert np.isfinite(sums.loglik)
    for part in (sums.score, sums.hessian, sums.cross):
        assert np.isfinite(part).all()


@pytest.mark.parametrize(
    "change",
    [
        {"columns": np.array([[0, 4]])},
        {"sizes": np.array([3])},
        {"h": np.ones(2)},
        {"weights": np.ones(9)},
        {"status": np.zeros((9, 1), np.int8)},
        {"limit": np.zeros((10, 2))},
        {"limit": np.zeros((9, 1))},
        {"shift": np.zeros(3)},
    ],
)
def test_arguments_that_would_be_read_out_of_bounds_are_refused(change: dict[str, Any]) -> None:
    good = Case(
        covariates=np.zeros((10, 3)),
        status=np.full((10, 1), MAYBE, np.int8),
        limit=np.zeros((10, 1)),
        weights=None,
        columns=np.array([[0, 1]]),
        sizes=np.array([2]),
        shift=np.zeros(4),
        unit=np.ones(4),
        limit_shift=0.0,
        limit_unit=1.0,
        g=np.zeros((1, 2)),
        h=np.ones(1),
        side=1.0,
    )
    good.fused()
    with pytest.raises(ValueError, match=r"disagree|outside"):
        replace(good, **change).fused()


def test_there_is_one_outcome_per_row() -> None:
    case = make_case(13, n_rows=20, n_covariates=2, n_alternatives=2)
    with pytest.raises(ValueError, match="one outcome per row"):
        replace(case, limit=np.zeros((20, 2))).fused()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_several_places_in_one_call_are_what_each_is_alone(side: float, weighted: bool) -> None:
    case = make_case(14, n_rows=300, n_covariates=3, n_alternatives=3, side=side, weighted=weighted)
    factors = np.array([0.5, 1.0, 1.7])
    g, h = factors[:, None, None] * case.g, factors[:, None] * case.h
    logliks, scores = sum_places(replace(case, g=g, h=h), side=side)
    for at, factor in enumerate(factors):
        alone = replace(case, g=factor * case.g, h=factor * case.h).fused("none")
        assert logliks[at] == alone.loglik
        np.testing.assert_array_equal(scores[at], alone.score)


def test_places_of_disagreeing_shapes_are_refused() -> None:
    case = make_case(15, n_rows=20, n_covariates=2, n_alternatives=2)
    with pytest.raises(ValueError, match="disagree"):
        sum_places(replace(case, g=np.stack([case.g, case.g]), h=case.h[None]), side=1.0)
