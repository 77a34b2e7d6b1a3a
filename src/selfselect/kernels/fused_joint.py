r"""The fused twin of `correlated_pair` and `shared_shock`, for rows of one atom.

`_blocks` says how rows are taken. Per block: every a; the gradient and the second derivatives of
each row in its inputs, the a and what the noise adds; then, as for the unknown index, one weighted
Gram matrix per alternative and per pair of them. With z = (x, -c), a = -(g, h)'z, so an input's
gradient G adds -G z to the score and second derivatives F add F z z' to the Hessian.

The shock's nodes are those of `shared_shock` where no factor is steep. Products of Φ are formed
without logarithms: far out they underflow, the log-likelihood is then not finite, and whoever
called turns to the twin that is slower.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numba import types
from numpy.typing import NDArray

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
    scatter_hessian,
    scatter_score,
    tile,
)
from selfselect.kernels._compile import compiled, reordered, strict
from selfselect.kernels._fused import ROW_TYPES, Array, Codes, FusedSums, Indices, row_arguments
from selfselect.kernels._pairs import PAIR_TYPES, cross_blocks, pair_up
from selfselect.kernels._scalars import (
    HALF_LOG_TWO_PI,
    INV_SQRT_TWO_PI,
    LN2,
    exponential,
    log_of_quotient,
    split,
)
from selfselect.kernels.shared_shock import STEEP, hermite
from selfselect.kernels.status import ABOVE, BELOW, SEEN, UNKNOWN

__all__ = ["JointSums", "is_steep", "sum_joint"]

UPPER_HALVES: Final = 1.0 - math.sqrt(0.5)
"""Where 1 - p falls below √½ its logarithm is taken of 2 (1 - p)."""


@dataclass(frozen=True, eq=False)
class JointSums:
    """Weighted sums over rows.

    Attributes
    ----------
    own : those of coefficients and inverse scales.
    score : (q,) of the inputs the noise adds.
    hessian : (q, q)
    mixed : (k, m + 1, q) second derivatives in an alternative's parameters and those inputs.
    """

    own: FusedSums
    score: Array
    hessian: Array
    mixed: Array


def is_steep(loadings: Array) -> bool:
    """Say whether some factor changes too fast for the nodes; see `shared_shock`."""
    spread = 1.0 / np.sqrt(1.0 + loadings**2)
    slope = np.outer(spread, np.abs(loadings))
    np.fill_diagonal(slope, 0.0)
    return bool((slope > STEEP).any())


@strict
def _densities(b, densities):  # type: ignore[no-untyped-def]
    for r in range(BLOCK):
        densities[r] = exponential(-0.5 * b[r] * b[r]) * INV_SQRT_TWO_PI


@strict
def _pair_limits(a0, a1, codes0, codes1, correlation, root, v, direction):  # type: ignore[no-untyped-def]
    """Evaluate what Φ is taken of, and on which side the one that is not seen lies."""
    for r in range(BLOCK):
        first = codes0[r] == SEEN
        code = codes1[r] if first else codes0[r]
        own = a0[r] if first else a1[r]
        limit = a1[r] if first else a0[r]
        turn = 1.0 if code == BELOW else (-1.0 if code == ABOVE else 0.0)
        direction[r] = turn
        v[r] = turn * (limit - correlation * own) / root


@strict
def _pair_terms(  # type: ignore[no-untyped-def]
    a0, a1, codes0, codes1, correlation, root, v, direction, gaps, densities, weight,
    gradient, bends, value,
):  # fmt: skip
    """Evaluate the terms of two correlated alternatives; see `correlated_pair`."""
    left_over = root * root
    cube = 1.0 / (left_over * root)
    v_own, v_limit = -correlation / root, 1.0 / root
    for r in range(BLOCK):
        first = codes0[r] == SEEN
        seen = first or codes1[r] == SEEN
        own = a0[r] if first else a1[r]
        limit = a1[r] if first else a0[r]
        at = v[r]
        x = abs(at)
        gap = gaps[r]
        density = densities[r]
        left_ratio = x + gap
        left = at <= 0.0
        mantissa, left_twos = split(left_ratio)
        double = density > left_ratio * UPPER_HALVES
        right_top = left_ratio - 2.0 * density if double else -density
        right_bottom = 2.0 * left_ratio + right_top if double else 2.0 * left_ratio - density
        top = mantissa - 1.0 if left else right_top
        bottom = mantissa + 1.0 if left else right_bottom
        twos = left_twos if left else (-1.0 if double else 0.0)
        rest_of_one = left_ratio - density
        inverse = 1.0 / (rest_of_one * bottom)
        ratio = left_ratio if left else density * left_ratio * (bottom * inverse)
        slope = ratio * (gap if left else ratio + x)
        logarithm = twos * LN2 + log_of_quotient(top * (rest_of_one * inverse))
        log_cdf = -0.5 * x * x - HALF_LOG_TWO_PI - logarithm if left else logarithm

        w = weight[r] if seen else 0.0
        turn = direction[r]
        known = turn != 0.0
        along = w * turn * ratio
        bend = -w * slope if known else 0.0
        v_r = (correlation * limit - own) * cube
        of_own = along * v_own - w * own
        of_limit = along * v_limit
        gradient[0, r] = of_own if first else of_limit
        gradient[1, r] = of_limit if first else of_own
        gradient[2, r] = along * v_r
        own_own = bend * v_own * v_own - w
        limit_limit = bend * v_limit * v_limit
        own_r = bend * v_own * v_r - along * cube
        limit_r = bend * v_limit * v_r + along * correlation * cube
        bends[0, r] = own_own if first else limit_limit
        bends[1, r] = bend * v_own * v_limit
        bends[2, r] = limit_limit if first else own_own
        bends[3, r] = own_r if first else limit_r
        bends[4, r] = limit_r if first else own_r
        bends[5, r] = bend * v_r * v_r + along * (
            limit * cube + 3.0 * correlation * v_r / left_over
        )
        value[r] = w * ((log_cdf if known else 0.0) - 0.5 * own * own)


@strict
def _shock_centres(a, codes, loadings, centre, spread, value, is_seen):  # type: ignore[no-untyped-def]
    """Evaluate mean and standard deviation of the shock given the outcome that is seen."""
    is_seen[:] = 0.0
    centre[:] = 0.0
    spread[:] = 1.0
    value[:] = 0.0
    for j in range(codes.shape[0]):
        total = 1.0 + loadings[j] * loadings[j]
        shrink, width, constant = (
            loadings[j] / total,
            1.0 / math.sqrt(total),
            -0.5 * math.log(total),
        )
        for r in range(BLOCK):
            here = codes[j, r] == SEEN
            centre[r] = shrink * a[j, r] if here else centre[r]
            spread[r] = width if here else spread[r]
            value[r] = constant - 0.5 * a[j, r] * a[j, r] / total if here else value[r]
            is_seen[r] = 1.0 if here else is_seen[r]


@strict
def _shock_argument(a, codes, loading, shock, b):  # type: ignore[no-untyped-def]
    """Evaluate what λ is taken of, on the side on which the alternative lies."""
    for r in range(BLOCK):
        at = a[r] - loading * shock[r]
        b[r] = -at if codes[r] == ABOVE else at


@strict
def _shock_factor(b, gaps, densities, codes, slope, bend, mass):  # type: ignore[no-untyped-def]
    """Evaluate one alternative's factor at one node, and its derivatives."""
    for r in range(BLOCK):
        at = b[r]
        x = abs(at)
        gap = gaps[r]
        density = densities[r]
        left_ratio = x + gap
        left = at <= 0.0
        rest_of_one = left_ratio - density
        inverse = 1.0 / (rest_of_one * left_ratio)
        ratio = left_ratio if left else density * left_ratio * (left_ratio * inverse)
        fall = ratio * (gap if left else ratio + x)
        chance = (density if left else rest_of_one) * (rest_of_one * inverse)
        code = codes[r]
        above = code == ABOVE
        one_sided = above or code == BELOW
        seen = code == SEEN
        mass[r] *= chance if one_sided else 1.0
        slope[r] = -at if seen else ((-ratio if above else ratio) if one_sided else 0.0)
        bend[r] = -1.0 if seen else (-fall if one_sided else 0.0)


@strict
def _shock_first(share, shock, slope, along, along_loading):  # type: ignore[no-untyped-def]
    for r in range(BLOCK):
        here = share[r] * slope[r]
        along[r] += here
        along_loading[r] -= here * shock[r]


@strict
def _shock_second(share, shock, slope, other, bend, same, plain, lower, upper, square):  # type: ignore[no-untyped-def]
    """Add one node's products of two alternatives' slopes, and its bend where they are one."""
    for r in range(BLOCK):
        both = share[r] * (slope[r] * other[r] + (bend[r] if same else 0.0))
        u = shock[r]
        plain[r] += both
        lower[r] -= u * both
        square[r] += u * u * both
    if not same:
        for r in range(BLOCK):
            upper[r] = lower[r]


@strict
def _finish_second(first, second, weight, both):  # type: ignore[no-untyped-def]
    for r in range(BLOCK):
        both[r] = weight[r] * (both[r] - first[r] * second[r])


@strict
def _weigh(weight, is_seen):  # type: ignore[no-untyped-def]
    for r in range(BLOCK):
        weight[r] *= is_seen[r]


@strict
def _turned(terms, curvature):  # type: ignore[no-untyped-def]
    for r in range(BLOCK):
        curvature[r] = -terms[r]


@reordered
def _total(terms):  # type: ignore[no-untyped-def]
    result = 0.0
    for r in range(BLOCK):
        result += terms[r]
    return result


@reordered
def _seen_weight(codes, weight):  # type: ignore[no-untyped-def]
    result = 0.0
    for r in range(BLOCK):
        result += weight[r] if codes[r] == SEEN else 0.0
    return result


@strict
def _shock_terms(  # type: ignore[no-untyped-def]
    a, codes, loadings, at, node_weight, weight, curved, shocks, masses, slopes, falls, b, gaps,
    densities, centre, spread, is_seen, gradient, bends, value,
):  # fmt: skip
    """Evaluate the terms of a shared shock; see `shared_shock`."""
    n_alternatives, n_nodes = codes.shape[0], at.shape[0]
    _shock_centres(a, codes, loadings, centre, spread, value, is_seen)
    _weigh(weight, is_seen)
    total = is_seen
    total[:] = 0.0
    for q in range(n_nodes):
        shock, mass = shocks[q], masses[q]
        for r in range(BLOCK):
            shock[r] = centre[r] + spread[r] * at[q]
            mass[r] = node_weight[q]
        for m in range(n_alternatives):
            _shock_argument(a[m], codes[m], loadings[m], shock, b)
            gaps_at(b, gaps)
            _densities(b, densities)
            _shock_factor(b, gaps, densities, codes[m], slopes[q, m], falls[q, m], mass)
        for r in range(BLOCK):
            total[r] += mass[r]
    for r in range(BLOCK):
        value[r] = weight[r] * (value[r] + math.log(total[r]))
    gradient[:, :] = 0.0
    bends[:, :] = 0.0
    for q in range(n_nodes):
        share = masses[q]
        for r in range(BLOCK):
            share[r] /= total[r]
        for m in range(n_alternatives):
            _shock_first(share, shocks[q], slopes[q, m], gradient[m], gradient[n_alternatives + m])
    if curved:
        for q in range(n_nodes):
            for m in range(n_alternatives):
                for o in range(m + 1):
                    high, low = n_alternatives + m, n_alternatives + o
                    _shock_second(
                        masses[q], shocks[q], slopes[q, m], slopes[q, o], falls[q, m], m == o,
                        bends[m * (m + 1) // 2 + o], bends[high * (high + 1) // 2 + o],
                        bends[low * (low + 1) // 2 + m], bends[high * (high + 1) // 2 + low],
                    )  # fmt: skip
        for m in range(2 * n_alternatives):
            for o in range(m + 1):
                _finish_second(gradient[m], gradient[o], weight, bends[m * (m + 1) // 2 + o])
    for m in range(2 * n_alternatives):
        for r in range(BLOCK):
            gradient[m, r] *= weight[r]


_NODES: Final = types.Array(types.float64, 1, "C", readonly=True)


@compiled(
    types.float64(
        *ROW_TYPES, *PAIR_TYPES, _NODES, _NODES, _NODES, types.boolean,
        types.float64[::1], types.float64[:, ::1], types.float64[:, :, ::1],
    )
)  # fmt: skip
def _sum_blocks(  # type: ignore[no-untyped-def]
    covariates, flat, status, limit, weights, columns, sizes, shift, scale,
    limit_shift, limit_scale, g, h, score, hessian,
    members, pair_counts, pair_sources, pair_reach, pair_plain, pair_sums, pair_gram,
    extras, at, node_weight, curved, extra_score, extra_hessian, mixed,
):  # fmt: skip
    """Fill all sums; return the log-likelihood. No nodes means two correlated alternatives."""
    n_rows, n_covariates = covariates.shape
    n_alternatives, width = columns.shape
    n_extras, n_nodes = extra_score.shape[0], at.shape[0]
    n_inputs = n_alternatives + n_extras
    own_limits = limit.shape[1] > 1

    own_row = n_covariates + 2 + TILE
    n_rows_of_block = own_row + n_alternatives
    block = np.zeros((n_rows_of_block + TILE, STRIDE))
    codes = np.empty((n_alternatives, BLOCK), np.int8)
    weight = np.empty(BLOCK)
    a = np.empty((n_alternatives, STRIDE))
    gradient = np.zeros((n_inputs, STRIDE))
    bends = np.zeros((n_inputs * (n_inputs + 1) // 2, STRIDE))
    factors = np.zeros((n_alternatives * n_extras + TILE, STRIDE))
    value, v, direction = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    gaps, densities = np.empty(BLOCK), np.empty(BLOCK)
    residual, curvature = np.empty(BLOCK), np.empty(BLOCK)
    shocks, masses = np.empty((n_nodes, BLOCK)), np.empty((n_nodes, BLOCK))
    slopes_at = np.empty((n_nodes, n_alternatives, BLOCK))
    falls_at = np.empty((n_nodes, n_alternatives, BLOCK))

    n_tiled, sources, slopes, places, constant, intercepts = plan(
        columns, sizes, g, h, 1.0, n_covariates
    )
    for j in range(n_alternatives):
        # Each alternative has a column of limits of its own.
        sources[j, n_tiled[j] - 1] = own_row + j
    padded = width + 1 + TILE
    triangle = np.arange(padded)
    weighted = np.zeros((max(padded, pair_sources.shape[1]), STRIDE))
    gram = np.zeros((n_alternatives, padded, padded))
    sums = np.zeros((n_alternatives, 2, padded))
    plain = np.zeros((n_alternatives, 2))
    products = np.zeros((n_rows_of_block + TILE, n_alternatives * n_extras + TILE))
    mixed_plain = np.zeros(n_alternatives * n_extras)
    n_seen = np.zeros(n_alternatives)
    loglik = 0.0
    correlation = extras[0]
    root = math.sqrt(1.0 - correlation * correlation) if n_nodes == 0 else 1.0

    for start in range(0, n_rows, BLOCK):
        filled = min(BLOCK, n_rows - start)
        if filled < BLOCK:
            block[:, :] = 0.0
            codes[:, :] = UNKNOWN
        weight[:] = 1.0
        load_covariates(covariates, flat, start, filled, shift, scale, block)
        load_codes(status, start, filled, codes)
        load_weights(weights, start, filled, weight)
        for j in range(n_alternatives):
            column = j if own_limits else 0
            load_limit(limit, column, start, filled, limit_shift, limit_scale, block[own_row + j])
            for r in range(BLOCK):
                # A limit that means nothing may be anything, and 0 * nan is not 0.
                if codes[j, r] > ABOVE:
                    block[own_row + j, r] = 0.0
            locate(block, sources[j], slopes[j], n_tiled[j], intercepts[j], a[j])
            n_seen[j] += _seen_weight(codes[j], weight)
        if n_nodes == 0:
            _pair_limits(a[0], a[1], codes[0], codes[1], correlation, root, v, direction)
            gaps_at(v, gaps)
            _densities(v, densities)
            _pair_terms(
                a[0], a[1], codes[0], codes[1], correlation, root, v, direction, gaps, densities,
                weight, gradient, bends, value,
            )  # fmt: skip
        else:
            _shock_terms(
                a, codes, extras, at, node_weight, weight, curved, shocks, masses, slopes_at,
                falls_at, v, gaps, densities, direction, residual, curvature, gradient, bends,
                value,
            )  # fmt: skip
        loglik += _total(value)
        for e in range(n_extras):
            extra_score[e] += _total(gradient[n_alternatives + e])
        for j in range(n_alternatives):
            _turned(gradient[j], residual)
            plain[j, 0] += _total(residual)
            if curved:
                _turned(bends[j * (j + 1) // 2 + j], curvature)
                plain[j, 1] += _total(curvature)
            else:
                curvature[:] = 0.0
            add_grams(
                block, sources[j], n_tiled[j], triangle, curvature, residual, weighted, sums[j],
                gram[j],
            )  # fmt: skip
        if not curved:
            continue
        for i in range(members.shape[0]):
            high, low = members[i, 1], members[i, 0]
            _turned(bends[high * (high + 1) // 2 + low], curvature)
            pair_plain[i] += _total(curvature)
            add_grams(
                block, pair_sources[i], pair_counts[i], pair_reach[i], curvature, curvature,
                weighted, pair_sums[i], pair_gram[i],
            )  # fmt: skip
        for e in range(n_extras):
            high = n_alternatives + e
            for j in range(n_alternatives):
                terms = bends[high * (high + 1) // 2 + j]
                for r in range(BLOCK):
                    factors[j * n_extras + e, r] = -terms[r]
                mixed_plain[j * n_extras + e] -= _total(terms)
            for f in range(e + 1):
                extra_hessian[e, f] += _total(bends[high * (high + 1) // 2 + n_alternatives + f])
        for p in range(0, n_rows_of_block, TILE):
            for c in range(0, n_alternatives * n_extras, TILE):
                tile(
                    block[p], block[p + 1], block[p + 2], block[p + 3], factors[c],
                    factors[c + 1], factors[c + 2], factors[c + 3], products, p, c,
                )  # fmt: skip

    for j in range(n_alternatives):
        scatter_score(
            n_tiled[j], places[j], constant[j], plain[j, 0], sums[j, 0], n_seen[j], h[j], score[j]
        )
        scatter_hessian(
            n_tiled[j], places[j], constant[j], plain[j, 1], sums[j, 1], gram[j], n_seen[j], h[j],
            hessian[j],
        )  # fmt: skip
        for e in range(n_extras):
            for p in range(n_tiled[j]):
                mixed[j, places[j, p], e] = products[sources[j, p], j * n_extras + e]
            if constant[j] >= 0:
                mixed[j, constant[j], e] = mixed_plain[j * n_extras + e]
        if n_seen[j] != 0.0:
            loglik += n_seen[j] * (math.log(h[j]) - HALF_LOG_TWO_PI)
    return loglik


def sum_joint(
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
    extras: NDArray[np.float64],
    nodes: int | None,
    curvature: bool,
) -> JointSums:
    """Add up log-likelihood, score and Hessian over rows, on one thread, without the GIL.

    Parameters
    ----------
    covariates, weights, columns, sizes, shift, unit, limit_shift, limit_unit, g, h :
        as in `sum_known_index`.
    status, limit : likewise; every row sees one alternative.
    extras : the correlation of two alternatives, or the loadings of all in units of their scales.
    nodes : of the quadrature over the shock; None for two correlated alternatives.
    curvature : whether second derivatives are wanted; zero where they are not.
    """
    arguments = row_arguments(
        covariates, status, limit, weights, columns=columns, sizes=sizes, shift=shift, unit=unit,
        limit_shift=limit_shift, limit_unit=limit_unit, g=g, h=h,
    )  # fmt: skip
    n_paired = len(sizes) if curvature else 0
    pairs = pair_up(columns[:n_paired], sizes[:n_paired], covariates.shape[1])
    at, node_weight = (np.empty(0), np.empty(0)) if nodes is None else hermite(nodes)
    q, k = len(extras), len(sizes)
    score, hessian = np.zeros(q), np.zeros((q, q))
    mixed = np.zeros((k, columns.shape[1] + 1, q))
    loglik = _sum_blocks(
        *arguments, *pairs.arguments, np.ascontiguousarray(extras), at, node_weight, curvature,
        score, hessian, mixed,
    )  # fmt: skip
    own = FusedSums(
        loglik, arguments[-2], arguments[-1], cross_blocks(pairs) if curvature else None
    )
    hessian = np.tril(hessian) + np.tril(hessian, -1).T
    return JointSums(own, score, hessian, mixed)
