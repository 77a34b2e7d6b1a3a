"""Sums of a summary: the compiled kernel against NumPy, with every instruction set there is."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from selfselect.kernels.fused_known import FusedMoments, RowArguments, sum_moments
from selfselect.kernels.joint import independent_means
from selfselect.kernels.known_index import ABOVE, BELOW, OBSERVED, UNKNOWN, row_terms_by_numpy

pytestmark = pytest.mark.usefixtures("instructions")

SUM_TOLERANCE: Final = 1e-12
"""Of the sum of the rows' absolute terms."""


def make_case(
    seed: int, *, n_rows: int, sizes: list[int], weighted: bool, far: float = 1.0
) -> RowArguments:
    """Draw a problem in which every alternative uses columns of its own; the first two agree."""
    rng = np.random.default_rng(seed)
    k, width = len(sizes), max(sizes)
    columns = np.full((k, width), -1)
    for j, size in enumerate(sizes):
        columns[j, :size] = rng.permutation(width + 1)[:size]
    if k > 1:
        columns[1], sizes = columns[0], [sizes[0], sizes[0], *sizes[2:]]
    status = rng.choice(np.array([OBSERVED, BELOW, ABOVE, UNKNOWN], np.int8), (n_rows, k))
    limit = rng.normal(3.0, 2.0 * far, (n_rows, k))
    limit[status == UNKNOWN] = rng.choice([np.nan, np.inf, -np.inf], int((status == UNKNOWN).sum()))
    return RowArguments(
        covariates=rng.normal(5.0, 3.0, (n_rows, width)),
        status=status,
        limit=limit,
        weights=rng.uniform(0.0, 2.0, n_rows) if weighted else None,
        columns=columns,
        sizes=np.array(sizes),
        shift=np.append(0.0, rng.normal(5.0, 0.1, width)),
        unit=np.append(1.0, rng.uniform(2.0, 4.0, width)),
        limit_shift=3.1,
        limit_unit=1.7,
        g=rng.normal(size=(k, width)) * (columns >= 0),
        h=rng.uniform(0.5, 2.0, k),
    )


def oracle(case: RowArguments, *, absolute: bool = False) -> FusedMoments:
    """Add up by NumPy, from the terms of rows; or add up the terms' absolute values."""
    n_rows, k = case.status.shape
    width = case.columns.shape[1]
    weights = np.ones(n_rows) if case.weights is None else case.weights
    matrix = np.hstack([np.ones((n_rows, 1)), case.covariates]) - case.shift
    matrix /= case.unit
    sized = np.abs if absolute else np.asarray
    residuals, shape, spread = [], np.zeros((k, 2)), np.zeros((k, width))
    everywhere, where_observed = np.zeros((k, width, width)), np.zeros((k, width, width))
    for j, size in enumerate(case.sizes):
        x, status = matrix[:, case.columns[j, :size]], case.status[:, j]
        limit = (case.limit[:, j] - case.limit_shift) / case.limit_unit
        location, h = x @ case.g[j, :size], float(case.h[j])
        terms = row_terms_by_numpy(location, h, status=status, limit=limit, upper=None)
        residuals.append(terms.residual)
        a = np.where(status == UNKNOWN, 0.0, h * limit - location)
        side = (status == BELOW).astype(np.int8) - (status == ABOVE)
        hermite = independent_means(a[:, None], status[:, None] == OBSERVED, side[:, None])[
            3:, :, 0
        ]
        shape[j] = sized(hermite) @ weights
        excess = a * terms.residual - (status == OBSERVED)
        spread[j, :size] = sized(x).T @ (weights * sized(excess))
        everywhere[j, :size, :size] = sized(x).T @ (sized(x) * weights[:, None])
        observed = weights * (status == OBSERVED)
        where_observed[j, :size, :size] = sized(x).T @ (sized(x) * observed[:, None])
    e = sized(np.column_stack(residuals))
    observed = weights @ (case.status == OBSERVED)
    return FusedMoments(
        np.triu(e.T @ (e * weights[:, None]), 1),
        shape,
        spread,
        observed,
        everywhere,
        where_observed,
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("n_rows", "sizes", "far"),
    [(1, [2], 1.0), (256, [3, 3], 1.0), (700, [5, 2, 9], 1.0), (900, [4, 1, 6, 8], 30.0)],
)
def test_all_sums_agree_with_those_of_rows(
    n_rows: int, sizes: list[int], far: float, weighted: bool
) -> None:
    case = make_case(n_rows, n_rows=n_rows, sizes=sizes, weighted=weighted, far=far)
    found, wanted, scale = sum_moments(case), oracle(case), oracle(case, absolute=True)
    for name, one, other, size in zip(found._fields, found, wanted, scale, strict=True):
        assert np.all(np.abs(one - other) <= SUM_TOLERANCE * size), name


def test_columns_with_gaps_give_the_same_bits() -> None:
    case = make_case(3, n_rows=600, sizes=[4, 4, 7], weighted=True)
    wide = np.repeat(case.covariates, 2, axis=1)[:, ::2]
    by_columns = np.asfortranarray(case.covariates)
    for covariates in (wide, by_columns):
        again = sum_moments(replace(case, covariates=covariates))
        for one, other in zip(sum_moments(case), again, strict=True):
            np.testing.assert_array_equal(one, other)


def test_without_gram_matrices_the_other_sums_stay() -> None:
    case = make_case(4, n_rows=600, sizes=[4, 4, 7], weighted=False)
    whole, part = sum_moments(case), sum_moments(case, grams=False)
    assert not part.everywhere.any() and not part.where_observed.any()
    scale = oracle(case, absolute=True)
    for one, other, size in zip(whole[:4], part[:4], scale[:4], strict=True):
        assert np.all(np.abs(one - other) <= SUM_TOLERANCE * size)


def test_shapes_that_disagree_are_refused() -> None:
    case = make_case(5, n_rows=50, sizes=[3, 3], weighted=False)
    with pytest.raises(ValueError, match="disagree"):
        sum_moments(replace(case, status=case.status[:-1]))
