"""The unknown index on a card: as `triton_known`, with the mathematics of `fused_unknown`.

A row's alternatives meet in the probabilities of which one was chosen, so a thread holds them all.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, assignment"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from selfselect.kernels import status as status_codes
from selfselect.kernels import torch_rows, torch_unknown
from selfselect.kernels.torch_rows import MOST_PACKED, WIDEST_TERMS, TensorRows
from selfselect.kernels.torch_unknown import UnknownTerms
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

__all__ = ["sum_unknown_rows", "unknown_terms"]

MAYBE: Any = tl.constexpr(status_codes.MAYBE)
UNKNOWN: Any = tl.constexpr(status_codes.UNKNOWN)
BITS: Any = tl.constexpr(torch_rows.BITS)
MASK: Any = tl.constexpr(2**torch_rows.BITS - 1)

CLOSED: Any = tl.constexpr(1e100)
"""The a of an alternative that is not open: far beyond all others, and its square is finite."""


@triton.jit
def unknown_tail(at, nearest, common):
    """Return λ relative to what is common, a + λ, and of Φ a factor and what goes outside."""
    x = tl.abs(at)
    gap = gap_at(x)
    density = exponential(-0.5 * (x - nearest) * (x + nearest)) * INV_SQRT_TWO_PI
    left_ratio = x + gap
    left = at <= 0.0
    rest_of_one = left_ratio - density * common
    inverse = 1.0 / (rest_of_one * left_ratio)
    relative = tl.where(left, left_ratio, density * left_ratio * (left_ratio * inverse))
    excess = tl.where(left, gap, relative * common + x)
    factor = tl.where(left, 1.0, rest_of_one) * (rest_of_one * inverse)
    outside = tl.where(left, -0.5 * x * x - HALF_LOG_TWO_PI, 0.0)
    return relative, excess, factor, outside


@triton.jit
def logarithm(number):
    """Evaluate log of a positive number."""
    mantissa, twos = split(number)
    return twos * LN2 + log_of_quotient((mantissa - 1.0) / (mantissa + 1.0))


@triton.jit
def unknown_row(a, h, K: tl.constexpr):
    """Return relative shares, a + λ and λ per alternative; then their sum and the log-density."""
    nearest = a[0]
    for j in tl.static_range(1, K):
        nearest = tl.minimum(nearest, a[j])
    nearest = tl.maximum(nearest, 0.0)
    half_square = -0.5 * nearest * nearest
    common = exponential(half_square)
    value = half_square
    product = tl.full(nearest.shape, 1.0, tl.float64)
    total = tl.zeros(nearest.shape, tl.float64)
    shares = ()
    excesses = ()
    ratios = ()
    for j in tl.static_range(K):
        relative, excess, factor, outside = unknown_tail(a[j], nearest, common)
        shares = shares + (h[j] * relative,)
        excesses = excesses + (excess,)
        ratios = ratios + (relative * common,)
        total += h[j] * relative
        product *= factor
        value += outside
    # Taking a number apart loses that it is not one, and the sum has to say so.
    value += logarithm(product * total) + 0.0 * total
    return shares, excesses, ratios, total, value


@triton.jit(do_not_specialize=["n_rows", "stride", "hop"])
def _sum_terms(
    table, codes, weights, parameters, out, n_rows, stride, hop,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr,
    WEIGHTED: tl.constexpr, TURN: tl.constexpr,
):  # fmt: skip
    """Add up z (residuals, weighted chances, log-likelihood)'."""
    column = tl.arange(0, PADDED)
    place = tl.arange(0, SIDE)
    program = tl.program_id(0).to(tl.int64)
    at_column = column.to(tl.int64)[:, None] * stride
    side = tl.zeros((PADDED, SIDE), tl.float64)
    h = ()
    for j in tl.static_range(K):
        h = h + (tl.load(parameters + j * WIDTH + WIDTH - 1),)
    for first in range(program * ROWS, n_rows, tl.num_programs(0).to(tl.int64) * ROWS):
        rows = first + tl.arange(0, ROWS).to(tl.int64)
        inside = rows < n_rows
        z = tl.load(
            table + at_column + rows[None, :],
            mask=(column[:, None] < WIDTH) & inside[None, :],
            other=0.0,
        )
        packed = tl.load(codes + rows, mask=inside, other=-1)
        here = parameters + first * hop
        a = ()
        is_open = tl.zeros((ROWS,), tl.int1)
        for j in tl.static_range(K):
            slopes = tl.load(here + j * WIDTH + column, mask=column < WIDTH, other=0.0)
            open_here = ((packed >> (BITS * j)) & MASK) == MAYBE
            is_open = is_open | open_here
            at = -TURN * tl.sum(z * slopes[:, None], axis=0)
            a = a + (tl.where(open_here, at, CLOSED),)
        weight = tl.full((ROWS,), 1.0, tl.float64)
        if WEIGHTED:
            weight = tl.load(weights + rows, mask=inside, other=0.0)
        weight = tl.where(is_open, weight, 0.0)
        shares, excesses, ratios, total, value = unknown_row(a, h, K)
        # A row to which nothing is open has nothing to say, and a sum of zero.
        inverse = 1.0 / tl.where(is_open, total, 1.0)
        factors = tl.zeros((SIDE, ROWS), tl.float64)
        for j in tl.static_range(K):
            chance = shares[j] * inverse
            residual = TURN * weight * (chance * excesses[j] - ratios[j])
            # Where an alternative is closed its a is huge, and so is a + λ.
            residual = tl.where(a[j] == CLOSED, 0.0, residual)
            factors = tl.where(place[:, None] == j, residual[None, :], factors)
            factors = tl.where(place[:, None] == K + j, (weight * chance)[None, :], factors)
        value = tl.where(is_open, value, 0.0) * weight
        factors = tl.where(place[:, None] == 2 * K, value[None, :], factors)
        side = tl.dot(z, tl.trans(factors), side, input_precision="ieee", out_dtype=tl.float64)
    there = out + program * PADDED * SIDE
    tl.store(there + column[:, None] * SIDE + place[None, :], side)


def sum_unknown_rows(
    rows: TensorRows, parameters: Tensor, *, side: float, curvature: str
) -> Tensor:
    """Do what `torch_unknown.sum_unknown_rows` does."""
    k = len(parameters)
    if curvature != "none" or rows.codes is None or len(rows.table) > WIDEST_TERMS:
        return torch_unknown.sum_unknown_rows(
            rows,
            parameters,
            side=side,
            curvature=curvature,
            terms_of=unknown_terms if k <= MOST_PACKED else torch_unknown.unknown_terms,
            grams_of=weighted_grams,
        )
    found = launch_terms(_sum_terms, rows, parameters, TURN=side)
    ones = found[-2]
    return torch.cat([ones[2 * k].reshape(1), ones[k : 2 * k], found[:, :k].T.reshape(-1)])


@triton.jit(do_not_specialize=["n_rows", "a_stride", "status_stride"])
def _row_by_row(
    given, scales, status, weights, logliks, kept, n_rows, a_stride, status_stride,
    K: tl.constexpr, ROWS: tl.constexpr, WEIGHTED: tl.constexpr, TURN: tl.constexpr,
):  # fmt: skip
    """Evaluate all terms of some rows; `kept` (7, k, n) takes those of `UnknownTerms` in order."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = rows < n_rows
    weight = tl.full((ROWS,), 1.0, tl.float64)
    if WEIGHTED:
        weight = tl.load(weights + rows, mask=inside, other=0.0)
    a = ()
    h = ()
    is_open = tl.zeros((ROWS,), tl.int1)
    for j in tl.static_range(K):
        code = tl.load(status + j * status_stride.to(tl.int64) + rows, mask=inside, other=UNKNOWN)
        at = tl.load(given + j * a_stride.to(tl.int64) + rows, mask=inside, other=0.0)
        is_open = is_open | (code == MAYBE)
        a = a + (tl.where(code == MAYBE, at, CLOSED),)
        h = h + (tl.load(scales + j),)
    weight = tl.where(is_open, weight, 0.0)
    shares, excesses, ratios, total, value = unknown_row(a, h, K)
    inverse = 1.0 / tl.where(is_open, total, 1.0)
    tl.store(logliks + rows, tl.where(is_open, value, 0.0) * weight, mask=inside)
    n = n_rows.to(tl.int64)
    for j in tl.static_range(K):
        closed = a[j] == CLOSED
        chance = shares[j] * inverse
        # Not 1 - r: u² may be large where r rounds to one.
        others = tl.zeros((ROWS,), tl.float64)
        for i in tl.static_range(K):
            if i != j:
                others += shares[i]
        others = others * inverse
        excess = tl.where(closed, 0.0, excesses[j])
        ratio = tl.where(closed, 0.0, ratios[j])
        there = kept + j * n + rows
        every = K * n
        tl.store(there, chance, mask=inside)
        tl.store(there + every, chance * weight, mask=inside)
        tl.store(there + 2 * every, TURN * (chance * excess - ratio) * weight, mask=inside)
        tl.store(there + 3 * every, (chance + others * (ratio * excess)) * weight, mask=inside)
        tl.store(there + 4 * every, TURN * chance * excess, mask=inside)
        tl.store(there + 5 * every, chance * excess * others * weight, mask=inside)
        tl.store(there + 6 * every, excess, mask=inside)


def unknown_terms(
    a: Tensor, inverse_scale: Tensor, status: Tensor, weights: Tensor | None, *, side: float
) -> UnknownTerms:
    """Do what `torch_unknown.unknown_terms` does, in one kernel."""
    n_alternatives, n_rows = a.shape
    logliks = torch.empty(n_rows, dtype=a.dtype, device=a.device)
    kept = torch.empty((7, n_alternatives, n_rows), dtype=a.dtype, device=a.device)
    with torch.cuda.device(a.device):
        _row_by_row[(max(1, triton.cdiv(n_rows, 128)),)](
            a, inverse_scale.contiguous(), status, logliks if weights is None else weights,
            logliks, kept, n_rows, a.stride(0), status.stride(0),
            K=n_alternatives, ROWS=128, WEIGHTED=weights is not None, TURN=side, num_warps=4,
        )  # fmt: skip
    return UnknownTerms(logliks, *kept)
