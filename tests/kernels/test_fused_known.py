"""The fused kernel against its NumPy oracle, and its special functions against SciPy's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import erfcx

from selfselect.kernels._blocks import BLOCK, gaps_at
from selfselect.kernels.fused_known import FusedSums, sum_known_index
from selfselect.kernels.known_index import row_terms, sum_rows
from selfselect.kernels.status import ABOVE, BELOW, BETWEEN, SEEN, UNKNOWN
from selfselect.kernels.tails import mills_terms

Array = NDArray[np.float64]

SUM_TOLERANCE: Final = 1e-10
"""Sums of up to a few thousand terms in another order: far above rounding, far below use."""

TERM_TOLERANCE: Final = 1e-12
"""One row alone: the oracle's own curvature loses 900 ulps next to its far-left threshold."""

ERFCX_TOLERANCE: Final = 2e-15
"""A few ulps from the polynomial and a few from SciPy."""

TINY: Final = 1e-300
"""Below this the kernel's density is zero, while the oracle goes on into subnormal numbers."""


@dataclass(frozen=True, eq=False)
class Case:
    """A problem in the arguments of the kernel."""

    covariates: Array
    status: NDArray[np.int8]
    limit: Array
    weights: Array | None
    columns: NDArray[np.int64]
    sizes: NDArray[np.int64]
    shift: Array
    unit: Array
    limit_shift: float
    limit_unit: float
    g: Array
    h: Array

    def fused(self) -> FusedSums:
        """Evaluate by the kernel."""
        return sum_known_index(**vars(self))

    def oracle(self) -> FusedSums:
        """Evaluate by NumPy, alternative by alternative."""
        n_alternatives, width = self.columns.shape
        constant = np.ones((len(self.covariates), 1))
        matrix = (np.hstack([constant, self.covariates]) - self.shift) / self.unit
        limits = np.broadcast_to(
            (self.limit - self.limit_shift) / self.limit_unit, self.status.shape
        )
        loglik = 0.0
        score = np.zeros((n_alternatives, width + 1))
        hessian = np.zeros((n_alternatives, width + 1, width + 1))
        for j, size in enumerate(self.sizes):
            design = matrix[:, self.columns[j, :size]]
            # The oracle's own BETWEEN terms are left to the caller of the kernel.
            informative = self.status[:, j] <= ABOVE
            terms = row_terms(
                design @ self.g[j, :size],
                float(self.h[j]),
                status=np.where(informative, self.status[:, j], UNKNOWN).astype(np.int8),
                limit=limits[:, j],
                upper=None,
            )
            sums = sum_rows(design, terms, self.weights)
            places = np.append(np.arange(size), width)
            loglik += sums.loglik
            score[j, places] = sums.score
            hessian[j][np.ix_(places, places)] = sums.hessian
        return FusedSums(loglik, score, hessian)


def make_case(
    seed: int,
    *,
    n_rows: int,
    n_covariates: int,
    n_alternatives: int,
    intercept: bool = True,
    own_limits: bool = True,
    weighted: bool = False,
    codes: tuple[int, ...] = (SEEN, BELOW, ABOVE, BETWEEN, UNKNOWN),
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
    status = rng.choice(np.array(codes, np.int8), (n_rows, k))
    limit = rng.normal(3.0, 2.0, (n_rows, k if own_limits else 1))
    silent = status > ABOVE if own_limits else (status > ABOVE).all(axis=1, keepdims=True)
    limit[silent] = rng.choice([np.nan, np.inf, -np.inf], int(silent.sum()))
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
    )


def assert_agree(actual: FusedSums, expected: FusedSums) -> None:
    """Compare to a tolerance relative to the largest entry of each alternative's block.

    Entries that sum to almost nothing carry the rounding of their terms, so each is held against
    the scale its terms have: for the Hessian that of its own diagonal.
    """
    assert actual.loglik == pytest.approx(expected.loglik, rel=SUM_TOLERANCE, abs=TINY)
    diagonal = np.sqrt(np.abs(np.einsum("jpp->jp", expected.hessian)))
    scale = diagonal[:, :, None] * diagonal[:, None, :]
    assert np.all(np.abs(actual.hessian - expected.hessian) <= SUM_TOLERANCE * scale + TINY)
    largest = np.abs(expected.score).max(axis=1, initial=0.0, keepdims=True)
    assert np.all(np.abs(actual.score - expected.score) <= SUM_TOLERANCE * largest + TINY)


@pytest.mark.parametrize("n_alternatives", [1, 2, 3, 6])
@pytest.mark.parametrize("n_covariates", [1, 3, 4, 10, 23])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_agree_with_the_oracle(n_alternatives: int, n_covariates: int, weighted: bool) -> None:
    case = make_case(
        100 * n_alternatives + n_covariates,
        n_rows=1000,
        n_covariates=n_covariates,
        n_alternatives=n_alternatives,
        weighted=weighted,
    )
    assert_agree(case.fused(), case.oracle())


@pytest.mark.parametrize("n_covariates", [0, 3, 10])
def test_a_pass_without_curvature_has_the_same_score_and_no_hessian(n_covariates: int) -> None:
    case = make_case(
        20 + n_covariates, n_rows=900, n_covariates=n_covariates, n_alternatives=3, weighted=True
    )
    plain, whole = sum_known_index(**vars(case), curvature="none"), case.fused()
    assert plain.loglik == whole.loglik
    np.testing.assert_allclose(plain.score, whole.score, rtol=0, atol=SUM_TOLERANCE * 900)
    assert not plain.hessian.any()
    assert whole.hessian.any()


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("own_limits", [False, True])
def test_constant_and_common_limit_are_optional(intercept: bool, own_limits: bool) -> None:
    case = make_case(
        1, n_rows=700, n_covariates=5, n_alternatives=3, intercept=intercept, own_limits=own_limits,
        codes=(SEEN, BELOW, ABOVE, UNKNOWN) if own_limits else (SEEN, BELOW, ABOVE),
    )  # fmt: skip
    assert_agree(case.fused(), case.oracle())


def test_a_common_limit_may_be_nan_where_every_alternative_is_silent() -> None:
    case = make_case(2, n_rows=600, n_covariates=2, n_alternatives=2, own_limits=False)
    silent = (case.status > ABOVE).all(axis=1)
    assert silent.any()
    assert not np.isfinite(case.limit[silent]).any()
    assert_agree(case.fused(), case.oracle())


@pytest.mark.parametrize("n_covariates", [0, 40, 60])
def test_narrow_and_wide_designs_agree_with_the_oracle(n_covariates: int) -> None:
    case = make_case(3, n_rows=2000, n_covariates=n_covariates, n_alternatives=2, weighted=True)
    assert_agree(case.fused(), case.oracle())


@pytest.mark.parametrize("off", [-1, 0, 1])
@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_need_not_fill_a_block(off: int, blocks: int, weighted: bool) -> None:
    case = make_case(
        4, n_rows=blocks * BLOCK + off, n_covariates=3, n_alternatives=2, weighted=weighted
    )
    assert_agree(case.fused(), case.oracle())


@pytest.mark.parametrize("code", [SEEN, BELOW, ABOVE])
def test_one_row_is_enough(code: int) -> None:
    case = make_case(5, n_rows=1, n_covariates=3, n_alternatives=2, codes=(code,))
    assert_agree(case.fused(), case.oracle())


def test_no_rows_sum_to_exactly_zero() -> None:
    sums = make_case(6, n_rows=0, n_covariates=3, n_alternatives=2).fused()
    assert sums.loglik == 0.0
    assert not sums.score.any()
    assert not sums.hessian.any()


@pytest.mark.parametrize("code", [BETWEEN, UNKNOWN])
def test_silent_rows_add_exactly_nothing(code: int) -> None:
    sums = make_case(7, n_rows=300, n_covariates=3, n_alternatives=2, codes=(code,)).fused()
    assert sums.loglik == 0.0
    assert not sums.score.any()
    assert not sums.hessian.any()


def strided_copy(array: NDArray[Any]) -> NDArray[Any]:
    """Return the same values, two apart in memory along both axes."""
    wide = np.zeros((2 * array.shape[0], 2 * array.shape[1]), array.dtype)
    wide[::2, ::2] = array
    return wide[::2, ::2]


def middle_of_fortran(array: NDArray[Any]) -> NDArray[Any]:
    """Return the same values as a slice of rows out of a larger array in Fortran order."""
    padding = np.ones_like(array)
    return np.asfortranarray(np.vstack([padding, array, padding]))[len(array) : 2 * len(array)]


@pytest.mark.parametrize("layout", [np.asfortranarray, middle_of_fortran, strided_copy])
def test_memory_layout_does_not_change_the_sums(layout: Any) -> None:
    case = make_case(8, n_rows=777, n_covariates=6, n_alternatives=3, weighted=True)
    moved = replace(
        case,
        covariates=layout(case.covariates),
        status=layout(case.status),
        limit=layout(case.limit),
    )
    assert_agree(moved.fused(), case.oracle())


def test_read_only_arrays_are_taken() -> None:
    case = make_case(9, n_rows=300, n_covariates=3, n_alternatives=2, weighted=True)
    expected = case.oracle()
    for value in vars(case).values():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    assert_agree(case.fused(), expected)


def test_arguments_are_not_changed() -> None:
    case = make_case(10, n_rows=300, n_covariates=3, n_alternatives=2, weighted=True)
    before = {name: np.copy(value) for name, value in vars(case).items()}
    case.fused()
    for name, value in vars(case).items():
        np.testing.assert_array_equal(value, before[name])


def test_hessian_is_exactly_symmetric_and_unused_entries_are_zero() -> None:
    case = make_case(11, n_rows=900, n_covariates=7, n_alternatives=4)
    sums = case.fused()
    np.testing.assert_array_equal(sums.hessian, sums.hessian.transpose(0, 2, 1))
    width = case.columns.shape[1]
    for j, size in enumerate(case.sizes):
        assert size < width
        assert not sums.score[j, size:width].any()
        assert not sums.hessian[j, size:width].any()


def test_chunks_add_up_to_the_whole() -> None:
    case = make_case(12, n_rows=2000, n_covariates=4, n_alternatives=2, weighted=True)
    assert case.weights is not None
    chunks = []
    for rows in (slice(0, 900), slice(900, 2000)):
        part = replace(
            case,
            covariates=case.covariates[rows],
            status=case.status[rows],
            limit=case.limit[rows],
            weights=case.weights[rows],
        )
        chunks.append(part.fused())
    total = FusedSums(
        sum(chunk.loglik for chunk in chunks),
        np.sum([chunk.score for chunk in chunks], axis=0),
        np.sum([chunk.hessian for chunk in chunks], axis=0),
    )
    assert_agree(total, case.fused())


def one_row(distance: float, code: int) -> FusedSums:
    """Evaluate one row without covariates whose a is `distance`: g = -distance, h c = 0."""
    return Case(
        covariates=np.empty((1, 0)),
        status=np.array([[code]], np.int8),
        limit=np.zeros((1, 1)),
        weights=None,
        columns=np.array([[0]]),
        sizes=np.array([1]),
        shift=np.zeros(1),
        unit=np.ones(1),
        limit_shift=0.0,
        limit_unit=1.0,
        g=np.array([[-distance]]),
        h=np.ones(1),
    ).fused()


@pytest.mark.parametrize(("code", "side"), [(BELOW, 1.0), (ABOVE, -1.0)])
def test_single_terms_are_accurate_from_tail_to_tail(code: int, side: float) -> None:
    outward = np.concatenate([[0.0, 1e-300, 1e-8], np.geomspace(1e-3, 1e3, 200), [1e5, 1e8]])
    distances = np.concatenate([-outward[::-1], outward])
    expected = mills_terms(side * distances)
    rows = [one_row(distance, code) for distance in distances]
    for actual, correct in (
        ([row.loglik for row in rows], expected.log_cdf),
        ([row.score[0, 0] for row in rows], -side * expected.ratio),
        ([row.hessian[0, 0, 0] for row in rows], -expected.slope),
    ):
        np.testing.assert_allclose(actual, correct, rtol=TERM_TOLERANCE, atol=TINY)


def test_far_tails_agree_with_the_oracle_in_bulk() -> None:
    case = make_case(13, n_rows=3000, n_covariates=2, n_alternatives=2)
    # Limits this far out put a between about -1000 and 1000.
    spread = np.linspace(-1e3, 1e3, 3000)[:, None] * case.limit_unit
    far = replace(case, limit=np.repeat(spread, 2, axis=1), h=np.ones(2))
    assert_agree(far.fused(), far.oracle())


def test_the_gap_polynomial_gives_erfcx() -> None:
    for points in np.geomspace(1e-6, 1e6, 16 * BLOCK).reshape(-1, BLOCK):
        gaps = np.empty(BLOCK)
        gaps_at(points * np.sqrt(2.0), gaps)
        ratio = points * np.sqrt(2.0) + gaps
        np.testing.assert_allclose(
            np.sqrt(2.0 / np.pi) / ratio, erfcx(points), rtol=ERFCX_TOLERANCE
        )


@pytest.mark.parametrize(
    "change",
    [
        {"columns": np.array([[0, 4]])},
        {"columns": np.array([[-1, 1]])},
        {"sizes": np.array([3])},
        {"h": np.ones(2)},
        {"weights": np.ones(9)},
        {"status": np.zeros((9, 1), np.int8)},
        {"limit": np.zeros((10, 2))},
        {"shift": np.zeros(3)},
    ],
)
def test_arguments_that_would_be_read_out_of_bounds_are_refused(change: dict[str, Any]) -> None:
    good = Case(
        covariates=np.zeros((10, 3)),
        status=np.zeros((10, 1), np.int8),
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
    )
    good.fused()
    with pytest.raises(ValueError, match=r"disagree|outside"):
        replace(good, **change).fused()
