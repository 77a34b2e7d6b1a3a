"""The known index on a card: one kernel evaluates the terms of a row while it is in registers.

A thread takes one row, forms every alternative's a, residual and curvature, and its program adds up
the products of z with residuals. The row of ones in the table makes plain sums out of the same
product. Curvatures are kept for the Gram matrices, which are a second kernel's: together they need
more registers than there are, and reading the rows again costs less than spilling them.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, assignment"

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from selfselect.kernels import status as status_codes
from selfselect.kernels import torch_known, torch_rows
from selfselect.kernels.torch_known import KnownTerms
from selfselect.kernels.torch_rows import WIDEST_TERMS, TensorRows
from selfselect.kernels.triton_rows import SIDE, launch_terms, weighted_grams
from selfselect.kernels.triton_scalars import (
    HALF_LOG_TWO_PI,
    INV_SQRT_TWO_PI,
    LN2,
    exponential,
    gap_at,
    log_of_quotient,
    split,
)

__all__ = ["known_terms", "sum_known_rows"]

OBSERVED: Any = tl.constexpr(status_codes.OBSERVED)
BELOW: Any = tl.constexpr(status_codes.BELOW)
ABOVE: Any = tl.constexpr(status_codes.ABOVE)
UNKNOWN: Any = tl.constexpr(status_codes.UNKNOWN)
BITS: Any = tl.constexpr(torch_rows.BITS)
MASK: Any = tl.constexpr(2**torch_rows.BITS - 1)
UPPER_HALVES: Any = tl.constexpr(1.0 - math.sqrt(0.5))


@triton.jit
def known_row(at, code, weight):
    """Return weighted residual, curvature (sign turned) and log-likelihood, as `fused_known`."""
    x = tl.abs(at)
    gap = gap_at(x)
    half_square = -0.5 * x * x
    density = exponential(half_square) * INV_SQRT_TWO_PI
    left_ratio = x + gap
    below = code == BELOW
    left = (at <= 0.0) == below

    mantissa, left_twos = split(left_ratio)
    double = density > left_ratio * UPPER_HALVES
    right_top = tl.where(double, left_ratio - 2.0 * density, -density)
    right_bottom = tl.where(double, 2.0 * left_ratio + right_top, 2.0 * left_ratio - density)
    top = tl.where(left, mantissa - 1.0, right_top)
    bottom = tl.where(left, mantissa + 1.0, right_bottom)
    twos = tl.where(left, left_twos, tl.where(double, -1.0, 0.0))

    rest_of_one = left_ratio - density
    inverse = 1.0 / (rest_of_one * bottom)
    ratio = tl.where(left, left_ratio, density * left_ratio * (bottom * inverse))
    slope = ratio * tl.where(left, gap, ratio + x)
    logarithm = twos * LN2 + log_of_quotient(top * (rest_of_one * inverse))
    log_cdf = tl.where(left, half_square - HALF_LOG_TWO_PI - logarithm, logarithm)

    observed = code == OBSERVED
    told = tl.where(code <= ABOVE, weight, 0.0)
    residual = told * tl.where(observed, at, tl.where(below, -ratio, ratio))
    curvature = told * tl.where(observed, 1.0, slope)
    value = told * tl.where(observed, half_square, log_cdf)
    return residual, curvature, value


@triton.jit(do_not_specialize=["n_rows", "stride", "hop"])
def _sum_terms(
    table, codes, weights, parameters, out, curvatures, n_rows, stride, hop,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr,
    WEIGHTED: tl.constexpr, CURVED: tl.constexpr,
):  # fmt: skip
    """Add up z (residuals, weights of observed, log-likelihood)'; if CURVED keep curvatures."""
    column = tl.arange(0, PADDED)
    place = tl.arange(0, SIDE)
    program = tl.program_id(0).to(tl.int64)
    at_column = column.to(tl.int64)[:, None] * stride
    side = tl.zeros((PADDED, SIDE), tl.float64)
    for first in range(program * ROWS, n_rows, tl.num_programs(0).to(tl.int64) * ROWS):
        rows = first + tl.arange(0, ROWS).to(tl.int64)
        inside = rows < n_rows
        z = tl.load(
            table + at_column + rows[None, :],
            mask=(column[:, None] < WIDTH) & inside[None, :],
            other=0.0,
        )
        weight = tl.full((ROWS,), 1.0, tl.float64)
        if WEIGHTED:
            weight = tl.load(weights + rows, mask=inside, other=0.0)
        packed = tl.load(codes + rows, mask=inside, other=-1)
        here = parameters + first * hop
        factors = tl.zeros((SIDE, ROWS), tl.float64)
        total = tl.zeros((ROWS,), tl.float64)
        for j in tl.static_range(K):
            code = (packed >> (BITS * j)) & MASK
            slopes = tl.load(here + j * WIDTH + column, mask=column < WIDTH, other=0.0)
            a = -tl.sum(z * slopes[:, None], axis=0)
            residual, curvature, value = known_row(a, code, weight)
            observed = tl.where(code == OBSERVED, weight, 0.0)
            factors = tl.where(place[:, None] == j, residual[None, :], factors)
            factors = tl.where(place[:, None] == K + j, observed[None, :], factors)
            total += value
            if CURVED:
                tl.store(curvatures + n_rows.to(tl.int64) * j + rows, curvature, mask=inside)
        factors = tl.where(place[:, None] == 2 * K, total[None, :], factors)
        side = tl.dot(z, tl.trans(factors), side, input_precision="ieee", out_dtype=tl.float64)
    there = out + program * PADDED * SIDE
    tl.store(there + column[:, None] * SIDE + place[None, :], side)


def sum_known_rows(rows: TensorRows, parameters: Tensor, *, curved: bool) -> Tensor:
    """Do what `torch_known.sum_known_rows` does."""
    if rows.codes is None or rows.limits is not None or len(rows.table) > WIDEST_TERMS:
        return torch_known.sum_known_rows(
            rows, parameters, curved=curved, terms_of=known_terms, grams_of=weighted_grams
        )
    k = len(parameters)
    kept = torch.empty(
        (k, rows.n_rows if curved else 0), dtype=parameters.dtype, device=parameters.device
    )
    side = launch_terms(_sum_terms, rows, parameters, kept, CURVED=curved)
    ones = side[-2]
    parts = [ones[2 * k].reshape(1), ones[k : 2 * k], side[:, :k].T.reshape(-1)]
    if curved:
        parts.append(weighted_grams(rows.table, kept).reshape(-1))
    return torch.cat(parts)


@triton.jit(do_not_specialize=["n_rows", "a_stride", "status_stride"])
def _row_by_row(
    a, status, weights, residuals, curvatures, values, n_rows, a_stride, status_stride,
    ROWS: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """Evaluate the terms of one alternative in some rows."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(1).to(tl.int64)
    inside = rows < n_rows
    weight = tl.full((ROWS,), 1.0, tl.float64)
    if WEIGHTED:
        weight = tl.load(weights + rows, mask=inside, other=0.0)
    code = tl.load(status + j * status_stride + rows, mask=inside, other=UNKNOWN)
    at = tl.load(a + j * a_stride + rows, mask=inside, other=0.0)
    residual, curvature, value = known_row(tl.where(code <= ABOVE, at, 0.0), code, weight)
    there = j * n_rows + rows
    tl.store(residuals + there, residual, mask=inside)
    tl.store(curvatures + there, curvature, mask=inside)
    tl.store(values + there, value, mask=inside)


def known_terms(a: Tensor, status: Tensor, weights: Tensor | None) -> KnownTerms:
    """Do what `torch_known.known_terms` does, in one kernel."""
    n_alternatives, n_rows = a.shape
    residual, curvature, values = (torch.empty_like(a) for _ in range(3))
    with torch.cuda.device(a.device):
        _row_by_row[(max(1, triton.cdiv(n_rows, 256)), n_alternatives)](
            a, status, a if weights is None else weights, residual, curvature, values,
            n_rows, a.stride(0), status.stride(0),
            ROWS=256, WEIGHTED=weights is not None, num_warps=4,
        )  # fmt: skip
    observed = (status == status_codes.OBSERVED).to(a.dtype)
    observed = observed.sum(dim=1) if weights is None else torch.matmul(observed, weights)
    return KnownTerms(residual, curvature, values.sum(), observed)
