"""The compiled kernel against its NumPy oracle, with every instruction set of the machine."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from selfselect.kernels.fused_known import (
    GUMBEL,
    GUMBEL_MIN,
    LOGISTIC,
    NORMAL,
    FusedSums,
    RowArguments,
    sum_known_index,
)
from selfselect.kernels.known_index import (
    ABOVE,
    BELOW,
    BETWEEN,
    OBSERVED,
    UNKNOWN,
    BoxTerms,
    row_terms_by_numpy,
    sum_rows,
)
from selfselect.kernels.tails import interval_terms_by_numpy, mills_terms_by_numpy
from selfselect.kernels.unknown_index import Curvature
from selfselect.noises.shapes import gumbel, gumbel_min, logistic

Array = NDArray[np.float64]

pytestmark = pytest.mark.usefixtures("instructions")

BLOCK: Final = 256
"""Rows that the kernel takes at a time."""

SUM_TOLERANCE: Final = 1e-12
"""Of the sum of the rows' absolute terms."""

ROUNDINGS: Final = 1e-15
"""Relative error of an end of an interval: it is a sum of some terms."""

TERM_TOLERANCE: Final = 1e-12
"""One row alone: the oracle's own curvature loses 900 ulps next to its far-left threshold."""

TINY: Final = 1e-300
"""Below this the kernel's density is zero, while the oracle goes on into subnormal numbers."""


SHAPES: Final = {
    LOGISTIC: logistic.SHAPE,
    GUMBEL: gumbel.SHAPE,
    GUMBEL_MIN: gumbel_min.SHAPE,
}
"""Oracles of the shapes that are not normal."""


@dataclass(frozen=True, eq=False)
class Case(RowArguments):
    """The arguments of the kernel."""

    shape: int = NORMAL

    def fused(self, curvature: Curvature = "exact") -> FusedSums:
        """Evaluate by the kernel."""
        return sum_known_index(self, shape=self.shape, curvature=curvature)

    def oracle(self, *, absolute: bool = False) -> FusedSums:
        """Evaluate by NumPy, alternative by alternative; or add up the terms' absolute values."""
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
            upper = None if self.upper is None else self.upper[:, j]
            evaluate = row_terms_by_numpy
            if self.shape != NORMAL:
                evaluate = SHAPES[self.shape].row_terms
            terms = evaluate(
                design @ self.g[j, :size],
                float(self.h[j]),
                status=self.status[:, j],
                limit=limits[:, j],
                upper=None if upper is None else (upper - self.limit_shift) / self.limit_unit,
            )
            if absolute:
                terms = self.sizes_of_terms(design, terms, j, limits[:, j])
                design = np.abs(design)
            sums = sum_rows(design, terms, self.weights)
            places = np.append(np.arange(size), width)
            loglik += sums.loglik
            score[j, places] = sums.score
            hessian[j][np.ix_(places, places)] = sums.hessian
        return FusedSums(loglik, score, hessian)

    def sizes_of_terms(self, design: Array, terms: BoxTerms, j: int, limit: Array) -> BoxTerms:
        """Return the terms' absolute values; of a row between two limits those of its two ends.

        The densities at the ends of a narrow interval are huge, and cancel.
        """
        sizes = BoxTerms(*map(np.abs, vars(terms).values()))
        if self.upper is None:
            return sizes
        here = self.status[:, j] == BETWEEN
        location = design[here] @ self.g[j, : self.sizes[j]]
        low = limit[here]
        high = (self.upper[here, j] - self.limit_shift) / self.limit_unit
        ends = [self.h[j] * end - location for end in (low, high)]
        mass = interval_terms_by_numpy(*ends)
        densities = (mass.lower_density, mass.upper_density)
        low, high = np.abs(low), np.abs(high)
        bends = [
            np.abs(end) * density + density**2 for end, density in zip(ends, densities, strict=True)
        ]
        # Roundings of the ends move the logarithm of the mass between them by their densities.
        moved = [np.abs(end) * density for end, density in zip(ends, densities, strict=True)]
        sizes.loglik[here] += ROUNDINGS / SUM_TOLERANCE * sum(moved)
        sizes.residual[here] = sum(densities)
        sizes.score_h[here] = densities[0] * low + densities[1] * high
        # Squares of sums of both ends are squares of differences in the oracle.
        sizes.curvature[here] = sum(bends)
        sizes.curvature_gh[here] = bends[0] * low + bends[1] * high
        sizes.curvature_hh[here] = bends[0] * low**2 + bends[1] * high**2
        return sizes


def make_case(
    seed: int,
    *,
    n_rows: int,
    n_covariates: int,
    n_alternatives: int,
    intercept: bool = True,
    own_limits: bool = True,
    weighted: bool = False,
    codes: tuple[int, ...] = (OBSERVED, BELOW, ABOVE, BETWEEN, UNKNOWN),
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
    # Intervals as narrow as 1e-6 and as wide as a hundred, for h and the unit below.
    upper = limit + np.exp(rng.uniform(np.log(1e-6), np.log(100.0), status.shape))
    upper[status != BETWEEN] = np.nan
    silent = status > BETWEEN if own_limits else (status > BETWEEN).all(axis=1, keepdims=True)
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
        upper=upper if BETWEEN in codes else None,
    )


def assert_agree(actual: FusedSums, case: Case) -> None:
    """Compare with the oracle, relative to the sum of the rows' absolute terms."""
    expected, scale = case.oracle(), case.oracle(absolute=True)
    for name in ("loglik", "score", "hessian"):
        off = np.abs(getattr(actual, name) - getattr(expected, name))
        assert np.all(off <= SUM_TOLERANCE * np.abs(getattr(scale, name)) + TINY), name


@pytest.mark.parametrize("n_covariates", [0, 3, 10])
def test_a_pass_without_curvature_has_the_same_score_and_no_hessian(n_covariates: int) -> None:
    case = make_case(
        20 + n_covariates, n_rows=900, n_covariates=n_covariates, n_alternatives=3, weighted=True
    )
    plain, whole = case.fused("none"), case.fused()
    assert plain.loglik == whole.loglik
    np.testing.assert_allclose(plain.score, whole.score, rtol=0, atol=SUM_TOLERANCE * 900)
    assert not plain.hessian.any()
    assert whole.hessian.any()


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("own_limits", [False, True])
def test_constant_and_common_limit_are_optional(intercept: bool, own_limits: bool) -> None:
    case = make_case(
        1, n_rows=700, n_covariates=5, n_alternatives=3, intercept=intercept, own_limits=own_limits,
        codes=(OBSERVED, BELOW, ABOVE, UNKNOWN) if own_limits else (OBSERVED, BELOW, ABOVE),
    )  # fmt: skip
    assert_agree(case.fused(), case)


def test_a_common_limit_may_be_nan_where_every_alternative_is_silent() -> None:
    case = make_case(2, n_rows=600, n_covariates=2, n_alternatives=2, own_limits=False)
    silent = (case.status > BETWEEN).all(axis=1)
    assert silent.any()
    assert not np.isfinite(case.limit[silent]).any()
    assert_agree(case.fused(), case)


@pytest.mark.parametrize("n_covariates", [0, 40, 60])
def test_narrow_and_wide_designs_agree_with_the_oracle(n_covariates: int) -> None:
    case = make_case(3, n_rows=2000, n_covariates=n_covariates, n_alternatives=2, weighted=True)
    assert_agree(case.fused(), case)


@pytest.mark.parametrize("off", [-1, 0, 1])
@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_need_not_fill_a_block(off: int, blocks: int, weighted: bool) -> None:
    case = make_case(
        4, n_rows=blocks * BLOCK + off, n_covariates=3, n_alternatives=2, weighted=weighted
    )
    assert_agree(case.fused(), case)


@pytest.mark.parametrize("code", [OBSERVED, BELOW, ABOVE, BETWEEN])
def test_one_row_is_enough(code: int) -> None:
    case = make_case(5, n_rows=1, n_covariates=3, n_alternatives=2, codes=(code,))
    assert_agree(case.fused(), case)


def test_no_rows_sum_to_exactly_zero() -> None:
    sums = make_case(6, n_rows=0, n_covariates=3, n_alternatives=2).fused()
    assert sums.loglik == 0.0
    assert not sums.score.any()
    assert not sums.hessian.any()


def test_silent_rows_add_exactly_nothing() -> None:
    sums = make_case(7, n_rows=300, n_covariates=3, n_alternatives=2, codes=(UNKNOWN,)).fused()
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
    assert_agree(moved.fused(), case)


def unaligned(array: NDArray[Any]) -> NDArray[Any]:
    """Return the same values one byte off where they would lie by themselves."""
    moved = np.empty(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    assert not moved.flags.aligned
    return moved


def test_arrays_that_begin_anywhere_in_memory_are_taken() -> None:
    case = make_case(17, n_rows=300, n_covariates=3, n_alternatives=2, weighted=True)
    assert case.weights is not None and case.upper is not None
    moved = replace(
        case,
        covariates=unaligned(case.covariates),
        limit=unaligned(case.limit),
        upper=unaligned(case.upper),
        weights=unaligned(case.weights),
    )
    assert_agree(moved.fused(), case)


def values_of(case: Case) -> dict[str, Any]:
    """Return all arguments by name."""
    return {one.name: getattr(case, one.name) for one in fields(case)}


def test_read_only_arrays_are_taken() -> None:
    case = make_case(9, n_rows=300, n_covariates=3, n_alternatives=2, weighted=True)
    for value in values_of(case).values():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    assert_agree(case.fused(), case)


def test_arguments_are_not_changed() -> None:
    case = make_case(10, n_rows=300, n_covariates=3, n_alternatives=2, weighted=True)
    before = {name: np.copy(value) for name, value in values_of(case).items()}
    case.fused()
    for name, value in values_of(case).items():
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


def one_row(distance: float, code: int) -> FusedSums:
    """Evaluate one row without covariates whose a is `distance`."""
    return one_case(distance, code).fused()


def one_case(distance: float, code: int) -> Case:
    """Make one row without covariates whose a is `distance`: g = -distance, h c = 0."""
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
    )


@pytest.mark.parametrize(("code", "side"), [(BELOW, 1.0), (ABOVE, -1.0)])
def test_single_terms_are_accurate_from_tail_to_tail(code: int, side: float) -> None:
    outward = np.concatenate([[0.0, 1e-300, 1e-8], np.geomspace(1e-3, 1e3, 200), [1e5, 1e8]])
    distances = np.concatenate([-outward[::-1], outward])
    expected = mills_terms_by_numpy(side * distances)
    rows = [one_row(distance, code) for distance in distances]
    for actual, correct in (
        ([row.loglik for row in rows], expected.log_cdf),
        ([row.score[0, 0] for row in rows], -side * expected.ratio),
        ([row.hessian[0, 0, 0] for row in rows], -expected.slope),
    ):
        np.testing.assert_allclose(actual, correct, rtol=TERM_TOLERANCE, atol=TINY)


def test_far_tails_agree_with_the_oracle_in_bulk() -> None:
    case = make_case(
        13, n_rows=3000, n_covariates=2, n_alternatives=2, codes=(OBSERVED, BELOW, ABOVE)
    )
    # Limits this far out put a between about -1000 and 1000.
    spread = np.linspace(-1e3, 1e3, 3000)[:, None] * case.limit_unit
    far = replace(case, limit=np.repeat(spread, 2, axis=1), h=np.ones(2))
    assert_agree(far.fused(), far)


def interval_rows(distance: float, width: float, scale: float) -> Case:
    """Make rows between two limits around `distance` standard deviations from their means."""
    low = np.linspace(-distance, distance, 400)[:, None]
    return Case(
        covariates=np.linspace(-1.0, 1.0, 400)[:, None],
        status=np.full((400, 1), BETWEEN, np.int8),
        limit=low / scale,
        weights=None,
        columns=np.array([[0, 1]]),
        sizes=np.array([2]),
        shift=np.zeros(2),
        unit=np.ones(2),
        limit_shift=0.0,
        limit_unit=1.0,
        g=np.array([[0.3, -0.2]]),
        h=np.array([scale]),
        upper=(low + width) / scale,
    )


@pytest.mark.parametrize("distance", [0.5, 3.0, 40.0, 1e3])
@pytest.mark.parametrize("width", [1e-4, 0.3, 0.99, 1.01, 5.0, 100.0])
@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_intervals_agree_with_the_oracle(distance: float, width: float, scale: float) -> None:
    case = interval_rows(distance, width, scale)
    assert_agree(case.fused(), case)


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
def test_weights_of_any_size_are_taken(scale: float) -> None:
    case = make_case(14, n_rows=500, n_covariates=3, n_alternatives=2, weighted=True)
    assert case.weights is not None
    weights = case.weights * scale
    weights[::5] = 0.0
    heavy = replace(case, weights=weights, limit=np.where(np.isfinite(case.limit), case.limit, 0.0))
    expected = replace(heavy, weights=weights / scale).oracle(absolute=True)
    actual = heavy.fused()
    light = replace(heavy, weights=weights / scale).oracle()
    assert abs(actual.loglik / scale - light.loglik) <= SUM_TOLERANCE * expected.loglik
    assert np.all(
        np.abs(actual.hessian / scale - light.hessian) <= SUM_TOLERANCE * expected.hessian + TINY
    )


def test_rows_of_no_weight_add_nothing_however_far_out() -> None:
    case = make_case(15, n_rows=300, n_covariates=2, n_alternatives=2, weighted=True)
    weights = np.zeros(300)
    sums = replace(case, weights=weights).fused()
    assert sums.loglik == 0.0
    assert not sums.score.any()
    assert not sums.hessian.any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("code", [OBSERVED, BELOW, ABOVE])
def test_a_limit_that_is_no_number_makes_sums_that_are_none(value: float, code: int) -> None:
    case = make_case(16, n_rows=300, n_covariates=2, n_alternatives=2, codes=(code,))
    limit = case.limit.copy()
    limit[7, 0] = value
    sums, expected = replace(case, limit=limit).fused(), replace(case, limit=limit)
    with np.errstate(all="ignore"):
        assert not np.isfinite(expected.oracle().score).all()
    assert not np.isfinite(sums.score).all()


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


ONE_LIMIT: Final = (OBSERVED, BELOW, ABOVE, UNKNOWN)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n_rows", [1, BLOCK - 1, 1000])
@pytest.mark.parametrize("weighted", [False, True])
def test_other_shapes_agree_with_their_oracles(shape: int, n_rows: int, weighted: bool) -> None:
    case = make_case(
        18, n_rows=n_rows, n_covariates=5, n_alternatives=3, weighted=weighted, codes=ONE_LIMIT
    )
    case = replace(case, shape=shape)
    assert_agree(case.fused(), case)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("code", [OBSERVED, BELOW, ABOVE])
def test_other_shapes_are_accurate_from_tail_to_tail(shape: int, code: int) -> None:
    outward = np.concatenate([[0.0, 1e-300, 1e-8], np.geomspace(1e-3, 99.0, 100), [300.0, 600.0]])
    distances = np.concatenate([-outward[::-1], outward])
    term = {OBSERVED: "observed", BELOW: "below", ABOVE: "above"}[code]
    expected = getattr(SHAPES[shape], term)(distances)
    rows = [replace(one_case(distance, code), shape=shape).fused() for distance in distances]
    for actual, correct in (
        ([row.loglik for row in rows], expected.value),
        ([row.score[0, 0] for row in rows], -expected.slope),
        ([row.hessian[0, 0, 0] for row in rows], expected.curvature),
    ):
        # Near the mode of a Gumbel density the oracle's slope is a difference of ones, and an
        # exponential far out has the digits of its exponent.
        size = 1e-14 if shape != LOGISTIC and code == OBSERVED else TINY
        np.testing.assert_allclose(actual, correct, rtol=TERM_TOLERANCE, atol=size)


@pytest.mark.parametrize("shape", SHAPES)
def test_other_shapes_refuse_upper_limits(shape: int) -> None:
    case = make_case(19, n_rows=300, n_covariates=2, n_alternatives=2, codes=(OBSERVED, BETWEEN))
    with pytest.raises(ValueError, match="disagree"):
        replace(case, shape=shape).fused()
