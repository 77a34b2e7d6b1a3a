r"""The fused twin of `unknown_index`.

`_blocks` says how rows are taken, `_scalars` what λ takes. Here a row's alternatives meet in
:math:`r_j = h_j\lambda_j / \sum_l h_l\lambda_l`, so a block is gone through three times: for every
a; for λ and d and the sum; for what each alternative adds.

No logarithm is needed to compare the λ. They are large where a is negative, and underflow only
where a is positive, like φ(a). So all are taken relative to φ at the row's smallest a, called s,
or to one where that is negative:

.. math:: \frac{\lambda(a)}{e^{-s^2/2}} = \frac{e\,\lambda(-a)}{\lambda(-a) - \phi(a)}, \qquad
          e = \frac{e^{-(a - s)(a + s)/2}}{\sqrt{2\pi}}, \quad \phi(a) = e\, e^{-s^2/2}.

The largest is then at least 1/√(2π) and nothing that matters underflows, however far out the whole
row lies. What is exponential in a factors out of log p too, and leaves one logarithm per row, that
of the product of all Φ and of the sum.

An alternative that is not open to a row is given an a so large that λ, d and log Φ vanish.

The exact Hessian is one weighted Gram matrix per pair of alternatives. With u = a + λ and the sign
of the rule, the scores of j when seen and when not differ by

.. math:: D_j = \pm u_j z_j, \qquad z_j = \Bigl(x,\; -y \pm \frac{1}{u_j h_j}\Bigr),

so the block of j and l is that of :math:`z_j` and :math:`z_l` with weight
:math:`-r_j u_j r_l u_l`, and `_pairs` says how it is built. The blocks on the diagonal keep the
column -y, in which the complete data are simple, with curvature :math:`r (1 - r) u^2` taken off
the weight; what that leaves is :math:`\pm\sum r (1 - r) u\,(x, -y) / h`, which is added to the row
and to the column of h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numba import types

from selfselect.kernels._blocks import (
    BLOCK,
    STRIDE,
    TILE,
    add_grams,
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
    tile,
)
from selfselect.kernels._compile import compiled, merged, reordered, strict
from selfselect.kernels._fused import (
    ROW_TYPES,
    Array,
    Codes,
    FusedSums,
    Indices,
    row_arguments,
)
from selfselect.kernels._pairs import PAIR_TYPES, cross_blocks, pair_up
from selfselect.kernels._scalars import (
    HALF_LOG_TWO_PI,
    INV_SQRT_TWO_PI,
    LN2,
    exponential,
    log_of_quotient,
    split,
)
from selfselect.kernels.status import MAYBE, UNKNOWN

if TYPE_CHECKING:
    from selfselect.kernels.unknown_index import Curvature

__all__ = ["FusedSums", "sum_unknown_index"]

CLOSED: Final = 1e100
"""The a of an alternative that is not open: far beyond all others, and its square is finite."""

FACTORS: Final = 8
"""Factors per logarithm: a product of this many stays in range where |a| < 1e30."""


@strict
def _close_rows(codes, is_open, column, weight):  # type: ignore[no-untyped-def]
    """Let rows to which nothing is open say nothing: their outcome may be anything."""
    is_open[:] = 0
    for j in range(codes.shape[0]):
        for r in range(BLOCK):
            is_open[r] |= codes[j, r] == MAYBE
    for r in range(BLOCK):
        column[r] = column[r] if is_open[r] else 0.0
        weight[r] = weight[r] if is_open[r] else 0.0


@strict
def _close(a, codes, nearest):  # type: ignore[no-untyped-def]
    """Take an alternative out of the rows to which it is not open; find the smallest a."""
    for r in range(BLOCK):
        at = a[r] if codes[r] == MAYBE else CLOSED
        a[r] = at
        nearest[r] = min(nearest[r], at)


@strict
def _start(nearest, common, product, total, value):  # type: ignore[no-untyped-def]
    """Begin the products and sums over alternatives; what the row's λ have in common goes out."""
    for r in range(BLOCK):
        s = max(nearest[r], 0.0)
        nearest[r] = s
        common[r] = exponential(-0.5 * s * s)
        product[r] = 1.0
        total[r] = 0.0
        value[r] = -0.5 * s * s


@strict
def _relative_densities(a, nearest, densities):  # type: ignore[no-untyped-def]
    """Evaluate φ(a) relative to exp(-s²/2)."""
    for r in range(BLOCK):
        x = abs(a[r])
        s = nearest[r]
        densities[r] = exponential(-0.5 * (x - s) * (x + s)) * INV_SQRT_TWO_PI


@strict
def _tails(  # type: ignore[no-untyped-def]
    a, gaps, densities, common, h, ratio, excess, share, product, total, value
):
    """Evaluate λ, a + λ and h λ relative to what is common; multiply Φ, add up h λ and log φ."""
    for r in range(BLOCK):
        at = a[r]
        x = abs(at)
        gap = gaps[r]
        density = densities[r]
        left_ratio = x + gap
        left = at <= 0.0
        rest_of_one = left_ratio - density * common[r]
        inverse = 1.0 / (rest_of_one * left_ratio)
        relative = left_ratio if left else density * left_ratio * (left_ratio * inverse)
        true = relative * common[r]
        ratio[r] = true
        excess[r] = gap if left else true + x
        weighed = h * relative
        share[r] = weighed
        total[r] += weighed
        # Φ is φ/λ on the left, of which φ goes into the sum, and 1 - φ/λ(-x) on the right.
        product[r] *= (1.0 if left else rest_of_one) * (rest_of_one * inverse)
        value[r] -= 0.5 * x * x + HALF_LOG_TWO_PI if left else 0.0


@strict
def _take_logarithm(product, value):  # type: ignore[no-untyped-def]
    """Move a product into the log-likelihood."""
    for r in range(BLOCK):
        mantissa, twos = split(product[r])
        value[r] += twos * LN2 + log_of_quotient((mantissa - 1.0) / (mantissa + 1.0))
        product[r] = 1.0


@strict
def _conclude(product, total, inverse, value):  # type: ignore[no-untyped-def]
    """Invert the sum of h λ, and add its logarithm."""
    for r in range(BLOCK):
        # Taking a number apart loses that it is not one, and the sum has to say so.
        value[r] += 0.0 * total[r]
        product[r] *= total[r]
        inverse[r] = 1.0 / total[r]
    _take_logarithm(product, value)


@strict
def _terms(  # type: ignore[no-untyped-def]
    ratio, excess, share, inverse, weight, side, residual, curvature
):
    """Turn an alternative's share into its chance, weighted residual and curvature."""
    for r in range(BLOCK):
        chance = share[r] * inverse[r]
        w = weight[r]
        at = ratio[r]
        residual[r] = (side * w) * (chance * excess[r] - at)
        curvature[r] = w * (chance + (1.0 - chance) * (at * excess[r]))
        share[r] = w * chance


@strict
def _missing_terms(  # type: ignore[no-untyped-def]
    excess, share, total, inverse, weight, limit, turn, chances, pull, missing, lost, column
):
    """Evaluate what not knowing the index costs: r, r u, w r (1 - r) u and w r (1 - r) u².

    `column` becomes what stands for -y in z; `turn` is side/h.
    """
    for r in range(BLOCK):
        u = excess[r]
        chance = share[r] * inverse[r]
        chances[r] = chance
        pull[r] = chance * u
        # Not 1 - r: u² may be large where r rounds to one.
        rest = weight[r] * (chance * u) * ((total[r] - share[r]) * inverse[r])
        missing[r] = rest
        lost[r] = rest * u
        column[r] = limit[r] + turn / u


@strict
def _take_off(lost, curvature):  # type: ignore[no-untyped-def]
    """Leave of the complete data's curvature what is not missing."""
    for r in range(BLOCK):
        curvature[r] -= lost[r]


@strict
def _pair_terms(first, second, weight, curvature):  # type: ignore[no-untyped-def]
    """Evaluate the weight of a pair's Gram matrix."""
    for r in range(BLOCK):
        curvature[r] = weight[r] * (first[r] * second[r])


@reordered
def _totals(residual, curvature, chance):  # type: ignore[no-untyped-def]
    """Sum the terms of a block."""
    first = 0.0
    second = 0.0
    third = 0.0
    for r in range(BLOCK):
        first += residual[r]
        second += curvature[r]
        third += chance[r]
    return first, second, third


@reordered
def _weighted_total(value, weight):  # type: ignore[no-untyped-def]
    """Sum one term of a block, weighted."""
    result = 0.0
    for r in range(BLOCK):
        result += value[r] * weight[r]
    return result


@reordered
def _total(terms):  # type: ignore[no-untyped-def]
    """Sum one term of a block."""
    result = 0.0
    for r in range(BLOCK):
        result += terms[r]
    return result


@merged
def _scatter_missing(  # type: ignore[no-untyped-def]
    n_tiled, sources, places, constant, plain, products, turn, hessian
):
    """Add the sums of w r (1 - r) u z, `turn` times, to the row and to the column of h."""
    for p in range(n_tiled):
        here = turn * products[sources[p]]
        hessian[places[p], -1] += here
        hessian[-1, places[p]] += here
    if constant >= 0:
        hessian[constant, -1] += turn * plain
        hessian[-1, constant] += turn * plain


@compiled(types.float64(*ROW_TYPES, types.float64, types.boolean, types.boolean, *PAIR_TYPES))
def _sum_blocks(  # type: ignore[no-untyped-def]
    covariates, flat, status, limit, weights, columns, sizes, shift, scale,
    limit_shift, limit_scale, g, h, score, hessian, side, complete, exact,
    members, pair_counts, pair_sources, pair_reach, pair_plain, pair_sums, pair_gram,
):  # fmt: skip
    """Fill `score`, `hessian` and the sums of the pairs; return the log-likelihood."""
    n_rows, n_covariates = covariates.shape
    n_alternatives, width = columns.shape

    # Zeros fill up the block to whole tiles, and the residuals likewise. Behind them is what stands
    # for -y in each alternative's z.
    limit_row = n_covariates + 1
    own_row = limit_row + 1 + TILE
    block = np.zeros((own_row + n_alternatives, STRIDE))
    residual = np.zeros((n_alternatives + TILE, STRIDE))
    missing = np.zeros((n_alternatives + TILE, STRIDE))
    pull = np.empty((n_alternatives, STRIDE))
    chances = np.empty(BLOCK)
    lost = np.empty(BLOCK)
    codes = np.empty((n_alternatives, BLOCK), np.int8)
    is_open = np.empty(BLOCK, np.int8)
    weight = np.empty(BLOCK)
    a = np.empty((n_alternatives, STRIDE))
    excess = np.empty((n_alternatives, STRIDE))
    share = np.empty((n_alternatives, STRIDE))
    curvature = np.empty(BLOCK)
    gaps = np.empty(BLOCK)
    densities = np.empty(BLOCK)
    nearest = np.empty(BLOCK)
    common = np.empty(BLOCK)
    product = np.empty(BLOCK)
    total = np.empty(BLOCK)
    inverse = np.empty(BLOCK)
    value = np.empty(BLOCK)

    n_tiled, sources, slopes, places, constant, intercepts = plan(
        columns, sizes, g, h, side, n_covariates
    )
    padded = width + 1 + TILE
    triangle = np.arange(padded)
    weighted = np.zeros((max(padded, pair_sources.shape[1]), STRIDE))
    gram = np.zeros((n_alternatives, padded, padded))
    sums = np.zeros((n_alternatives, 2, padded))
    products = np.zeros((own_row, n_alternatives + TILE))
    plain = np.zeros((n_alternatives, 3))
    n_seen = np.zeros(n_alternatives)
    n_certain = np.zeros(n_alternatives)
    loglik = 0.0

    for start in range(0, n_rows, BLOCK):
        filled = min(BLOCK, n_rows - start)
        if filled < BLOCK:
            block[:, :] = 0.0
            codes[:, :] = UNKNOWN
        weight[:] = 1.0
        load_covariates(covariates, flat, start, filled, shift, scale, block)
        load_codes(status, start, filled, codes)
        load_weights(weights, start, filled, weight)
        load_limit(limit, 0, start, filled, limit_shift, limit_scale, block[limit_row])
        _close_rows(codes, is_open, block[limit_row], weight)

        # The next block is asked for in two portions per alternative, so that they do not queue.
        portion = BLOCK * n_covariates // (2 * n_alternatives) + 1
        ahead = (start + BLOCK) * n_covariates
        nearest[:] = CLOSED
        for j in range(n_alternatives):
            locate(block, sources[j], slopes[j], n_tiled[j], intercepts[j], a[j])
            _close(a[j], codes[j], nearest)
            if flat.shape[0] > 0:
                prefetch_range(flat, ahead, ahead + portion)
                ahead += portion

        _start(nearest, common, product, total, value)
        for j in range(n_alternatives):
            gaps_at(a[j], gaps)
            _relative_densities(a[j], nearest, densities)
            _tails(
                a[j], gaps, densities, common, h[j], residual[j], excess[j], share[j], product,
                total, value,
            )  # fmt: skip
            if j % FACTORS == FACTORS - 1:
                _take_logarithm(product, value)
        _conclude(product, total, inverse, value)
        loglik += _weighted_total(value, weight)

        for j in range(n_alternatives):
            if flat.shape[0] > 0:
                prefetch_range(flat, ahead, ahead + portion)
                ahead += portion
            if exact:
                _missing_terms(
                    excess[j], share[j], total, inverse, weight, block[limit_row], side / h[j],
                    chances, pull[j], missing[j], lost, block[own_row + j],
                )  # fmt: skip
            _terms(residual[j], excess[j], share[j], inverse, weight, side, residual[j], curvature)
            if exact:
                _take_off(lost, curvature)
                n_certain[j] += _weighted_total(chances, share[j])
                plain[j, 2] += _total(missing[j])
            first, second, third = _totals(residual[j], curvature, share[j])
            plain[j, 0] += first
            plain[j, 1] += second
            n_seen[j] += third
            if complete:
                add_grams(
                    block, sources[j], n_tiled[j], triangle, curvature, residual[j], weighted,
                    sums[j], gram[j],
                )  # fmt: skip
        for i in range(members.shape[0]):
            _pair_terms(pull[members[i, 0]], pull[members[i, 1]], weight, curvature)
            pair_plain[i] += _total(curvature)
            add_grams(
                block, pair_sources[i], pair_counts[i], pair_reach[i], curvature, curvature,
                weighted, pair_sums[i], pair_gram[i],
            )  # fmt: skip
        if exact or not complete:
            # All columns against four alternatives at a time, whether they enter or not.
            factors = missing if exact else residual
            for p in range(0, limit_row + 1, TILE):
                for j in range(0, n_alternatives, TILE):
                    tile(
                        block[p], block[p + 1], block[p + 2], block[p + 3], factors[j],
                        factors[j + 1], factors[j + 2], factors[j + 3], products, p, j,
                    )  # fmt: skip

    for j in range(n_alternatives):
        if complete:
            scatter_hessian(
                n_tiled[j], places[j], constant[j], plain[j, 1], sums[j, 1], gram[j],
                n_certain[j] if exact else n_seen[j], h[j], hessian[j],
            )  # fmt: skip
            if exact:
                _scatter_missing(
                    n_tiled[j], sources[j], places[j], constant[j], plain[j, 2], products[:, j],
                    side / h[j], hessian[j],
                )  # fmt: skip
        else:
            for p in range(n_tiled[j]):
                sums[j, 0, p] = products[sources[j, p], j]
        scatter_score(
            n_tiled[j], places[j], constant[j], plain[j, 0], sums[j, 0], n_seen[j], h[j], score[j]
        )
    return loglik


def sum_unknown_index(
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
    side: float,
    curvature: Curvature,
) -> FusedSums:
    """Add up the log-likelihood, score and Hessian over rows, on one thread, without the GIL.

    Parameters
    ----------
    covariates, weights, columns, sizes, shift, unit, limit_shift, limit_unit, g, h :
        as in `sum_known_index`.
    status : (n, k) MAYBE where the alternative is open to the row; where it is anything else, the
        alternative takes no part. Rows to which none is open add nothing.
    limit : (n, 1) the outcome.
    side : 1 where the largest outcome is seen, -1 where the smallest is.
    curvature : how much of the Hessian is wanted. With "none" it is zero; with "complete" it is
        that of the complete data, each alternative's own block; with "exact" there are cross
        blocks too.

    Raises
    ------
    ValueError
        If shapes disagree or `columns` points outside: compiled code would read astray.
    """
    if limit.shape[1:] != (1,):
        raise ValueError("the shapes of the arguments disagree: there is one outcome per row")
    arguments = row_arguments(
        covariates, status, limit, weights, columns=columns, sizes=sizes, shift=shift, unit=unit,
        limit_shift=limit_shift, limit_unit=limit_unit, g=g, h=h,
    )  # fmt: skip
    exact = curvature == "exact"
    n_paired = len(sizes) if exact else 0
    pairs = pair_up(columns[:n_paired], sizes[:n_paired], covariates.shape[1])
    loglik = _sum_blocks(*arguments, float(side), curvature != "none", exact, *pairs.arguments)
    score, hessian = arguments[-2:]
    return FusedSums(loglik, score, hessian, cross_blocks(pairs) if exact else None)
