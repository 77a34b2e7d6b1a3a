r"""The fused twin of `known_index`: one pass over the rows, nothing as long as they in memory.

Per block of rows and alternative there are four steps: a; then the residual r, the curvature d
and the log-likelihood of every row; then d z and the score; then the Gram matrix of z and d z.
`_blocks` says how, `_scalars` what the one transcendental step takes.

One logarithm serves both sides of zero: on the left it is that of λ, on the right that of
1 - Φ(-x), and its series starts from f = -Φ(-x), which is known to all its digits even where
1 - Φ(-x) rounds to one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from numba import types

from selfselect.kernels._blocks import (
    BLOCK,
    STRIDE,
    TILE,
    add_grams,
    add_scores,
    gaps_at,
    load_codes,
    load_covariates,
    load_limit,
    load_weights,
    locate,
    plan,
    prefetch_range,
    scatter_hessian,
    scatter_score,
)
from selfselect.kernels._compile import compiled, reordered, strict
from selfselect.kernels._fused import (
    ROW_TYPES,
    Array,
    Codes,
    FusedSums,
    Indices,
    row_arguments,
)
from selfselect.kernels._scalars import (
    HALF_LOG_TWO_PI,
    INV_SQRT_TWO_PI,
    LN2,
    exponential,
    log_of_quotient,
    split,
)
from selfselect.kernels.status import ABOVE, BELOW, SEEN, UNKNOWN

if TYPE_CHECKING:
    from selfselect.kernels.unknown_index import Curvature

__all__ = ["FusedSums", "sum_known_index"]

UPPER_HALVES: Final = 1.0 - math.sqrt(0.5)
"""Where 1 - p falls below √½ its logarithm is taken of 2 (1 - p)."""


@strict
def _place_limit(bounds, codes, column):  # type: ignore[no-untyped-def]
    """Make -c a column of the block."""
    for r in range(BLOCK):
        # A limit that means nothing may be anything, and 0 * nan is not 0.
        column[r] = bounds[r] if codes[r] <= ABOVE else 0.0


@strict
def _densities(a, densities):  # type: ignore[no-untyped-def]
    """Evaluate φ(a)."""
    for r in range(BLOCK):
        densities[r] = exponential(-0.5 * a[r] * a[r]) * INV_SQRT_TWO_PI


@strict
def _terms(  # type: ignore[no-untyped-def]
    a, gaps, densities, codes, weight, residual, curvature, loglik
):
    """Turn a block's a into weighted residuals, curvatures (sign turned) and log-likelihoods."""
    for r in range(BLOCK):
        at = a[r]
        x = abs(at)
        gap = gaps[r]
        density = densities[r]
        left_ratio = x + gap
        half_square = -0.5 * x * x
        code = codes[r]
        below = code == BELOW
        left = (at <= 0.0) == below

        # On the left log λ, λ = 2^twos (1 + f); on the right log(1 - Φ(-x)) = log(1 - φ(x)/λ),
        # of which half or all is 1 + f. Only f/(2 + f) is formed, as top/bottom.
        mantissa, left_twos = split(left_ratio)
        double = density > left_ratio * UPPER_HALVES
        right_top = left_ratio - 2.0 * density if double else -density
        right_bottom = 2.0 * left_ratio + right_top if double else 2.0 * left_ratio - density
        top = mantissa - 1.0 if left else right_top
        bottom = mantissa + 1.0 if left else right_bottom
        twos = left_twos if left else (-1.0 if double else 0.0)

        # One division for two quotients.
        rest_of_one = left_ratio - density
        inverse = 1.0 / (rest_of_one * bottom)
        right_ratio = density * left_ratio * (bottom * inverse)
        ratio = left_ratio if left else right_ratio
        slope = ratio * (gap if left else ratio + x)

        logarithm = twos * LN2 + log_of_quotient(top * (rest_of_one * inverse))
        log_cdf = half_square - HALF_LOG_TWO_PI - logarithm if left else logarithm

        seen = code == SEEN
        silent = code > ABOVE
        w = 0.0 if silent else weight[r]
        residual[r] = w * (at if seen else (-ratio if below else ratio))
        curvature[r] = w * (1.0 if seen else slope)
        loglik[r] = w * (half_square if seen else log_cdf)


@reordered
def _totals(residual, curvature, loglik, codes, weight):  # type: ignore[no-untyped-def]
    """Sum the terms of a block, and the weights of its seen rows."""
    first = 0.0
    second = 0.0
    value = 0.0
    n_seen = 0.0
    for r in range(BLOCK):
        first += residual[r]
        second += curvature[r]
        value += loglik[r]
        n_seen += weight[r] if codes[r] == SEEN else 0.0
    return first, second, value, n_seen


@compiled(types.float64(*ROW_TYPES, types.boolean))
def _sum_blocks(  # type: ignore[no-untyped-def]
    covariates, flat, status, limit, weights, columns, sizes, shift, scale,
    limit_shift, limit_scale, g, h, score, hessian, curved,
):  # fmt: skip
    """Fill `score` and, if `curved`, `hessian`; return the log-likelihood."""
    n_rows, n_covariates = covariates.shape
    n_alternatives, width = columns.shape
    own_limits = limit.shape[1] > 1

    limit_row = n_covariates + 1
    block = np.zeros((n_covariates + 3, STRIDE))
    codes = np.empty((n_alternatives, BLOCK), np.int8)
    weight = np.ones(BLOCK)
    bounds = np.zeros(BLOCK)
    a = np.empty(BLOCK)
    residual = np.empty(BLOCK)
    curvature = np.empty(BLOCK)
    terms = np.empty(BLOCK)
    gaps = np.empty(BLOCK)
    densities = np.empty(BLOCK)

    n_tiled, sources, slopes, places, constant, intercepts = plan(
        columns, sizes, g, h, 1.0, n_covariates
    )
    padded = width + 1 + TILE
    triangle = np.arange(padded)
    weighted = np.zeros((padded, STRIDE))
    gram = np.zeros((n_alternatives, padded, padded))
    sums = np.zeros((n_alternatives, 2, padded))
    plain = np.zeros((n_alternatives, 2))
    n_seen = np.zeros(n_alternatives)
    loglik = 0.0

    for start in range(0, n_rows, BLOCK):
        filled = min(BLOCK, n_rows - start)
        if filled < BLOCK:
            block[:, :] = 0.0
            codes[:, :] = UNKNOWN
        load_covariates(covariates, flat, start, filled, shift, scale, block)
        load_codes(status, start, filled, codes)
        load_weights(weights, start, filled, weight)
        if not own_limits:
            load_limit(limit, 0, start, filled, limit_shift, limit_scale, bounds)

        # The next block is asked for in two portions per alternative, so that they do not queue.
        portion = BLOCK * n_covariates // (2 * n_alternatives) + 1
        ahead = (start + BLOCK) * n_covariates
        for j in range(n_alternatives):
            if own_limits:
                load_limit(limit, j, start, filled, limit_shift, limit_scale, bounds)
            _place_limit(bounds, codes[j], block[limit_row])
            locate(block, sources[j], slopes[j], n_tiled[j], intercepts[j], a)
            if flat.shape[0] > 0:
                prefetch_range(flat, ahead, ahead + portion)
                ahead += portion
            gaps_at(a, gaps)
            _densities(a, densities)
            _terms(a, gaps, densities, codes[j], weight, residual, curvature, terms)
            if flat.shape[0] > 0:
                prefetch_range(flat, ahead, ahead + portion)
                ahead += portion
            first, second, value, here = _totals(residual, curvature, terms, codes[j], weight)
            plain[j, 0] += first
            plain[j, 1] += second
            loglik += value
            n_seen[j] += here
            if curved:
                add_grams(
                    block, sources[j], n_tiled[j], triangle, curvature, residual, weighted,
                    sums[j], gram[j],
                )  # fmt: skip
            else:
                add_scores(block, sources[j], n_tiled[j], residual, sums[j, 0])

    for j in range(n_alternatives):
        scatter_score(
            n_tiled[j], places[j], constant[j], plain[j, 0], sums[j, 0], n_seen[j], h[j], score[j]
        )
        if curved:
            scatter_hessian(
                n_tiled[j], places[j], constant[j], plain[j, 1], sums[j, 1], gram[j], n_seen[j],
                h[j], hessian[j],
            )  # fmt: skip
        if n_seen[j] != 0.0:
            loglik += n_seen[j] * (math.log(h[j]) - HALF_LOG_TWO_PI)
    return loglik


def sum_known_index(
    covariates: Array,
    status: Codes,
    limit: Array,
    weights: Array | None,
    *,
    columns: Indices,
    sizes: Indices,
    shift: Array,
    unit: Array,
    limit_shift: float,
    limit_unit: float,
    g: Array,
    h: Array,
    curvature: Curvature = "exact",
) -> FusedSums:
    """Add up the log-likelihood, score and Hessian over rows, on one thread, without the GIL.

    Rows whose status is BETWEEN or UNKNOWN add nothing, and what their limit is does not matter.

    Parameters
    ----------
    covariates : (n, D), without a constant column. Any strides; fastest in C order.
    status : (n, k) what each row says of each alternative.
    limit : (n, 1) or (n, k), one limit for all alternatives or one for each.
    weights : (n,), or None for ones.
    columns : (k, m) the columns of [1 | covariates] that enter each alternative, each once;
        padded with -1.
    sizes : (k,) how many of them there are.
    shift, unit : (D + 1,) columns enter as (column - shift) / unit; 0 and 1 for the constant.
    limit_shift, limit_unit : limits enter as (limit - limit_shift) / limit_unit.
    g, h : (k, m) and (k,), the parameters, in the standardised units.
    curvature : with "none" the Hessian is zero; else it is the exact one.

    Raises
    ------
    ValueError
        If shapes disagree or `columns` points outside: compiled code would read astray.
    """
    arguments = row_arguments(
        covariates, status, limit, weights, columns=columns, sizes=sizes, shift=shift, unit=unit,
        limit_shift=limit_shift, limit_unit=limit_unit, g=g, h=h,
    )  # fmt: skip
    loglik = _sum_blocks(*arguments, curvature != "none")
    score, hessian = arguments[-2:]
    return FusedSums(loglik, score, hessian)
