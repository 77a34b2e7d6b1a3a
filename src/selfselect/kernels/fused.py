r"""The fused twin of `known_index`: one pass over the rows, nothing as long as they in memory.

Rows are taken `BLOCK` at a time. A block is copied, standardised and transposed, into a buffer
that stays in the nearest caches; every loop after that runs over the rows of the block, in
arrays that are contiguous and of a length known to the compiler, so all of them become vector
instructions without remainders. A short last block is filled up with rows that say nothing.

With the limit as one more column, z = (x, -c), an alternative's row has a = -(g, h)'z and adds
r z to the score and -d z z' to the Hessian. So per block and alternative there are four steps:
a; then r, d and the log-likelihood of every row; then d z and the score; then the lower triangle
of the Gram matrix of z and d z, four columns against four at a time, so that sixteen sums stay
in registers and a loaded number is used four times.

The one transcendental step
---------------------------
Everything wanted of a censored row follows from :math:`\lambda(a) = \phi(a)/\Phi(a)`. The usual
road is erfcx, :math:`\lambda(-x) = \sqrt{2/\pi}/\mathrm{erfcx}(x/\sqrt 2)` for :math:`x \ge 0`.
But λ(-x) is x + 1/x - ..., so the curvature :math:`d = \lambda (\lambda - x)` cancels: at
x = 1000 six digits are gone, and the far tail needs a branch of its own. Here the *gap* is
approximated instead:

.. math:: \gamma(x) = \lambda(-x) - x, \qquad (x + K)\,\gamma(x) = \text{polynomial in }
          u = \frac{x - K}{x + K},

by the map of Shepherd and Laframboise (1981), which takes the half line to [-1, 1). The left side
is 0.8 K at zero, one at infinity and smooth between; degree 26 gives it to the last digits. (Its
poles, the zeros of erfc, cost three degrees over erfcx, which has none.) Then λ = x + γ and
d = λ γ are sums and products of positive numbers: right to a few ulps at any distance, by one
formula, with one division and no branch. On the other side of zero, with :math:`e = \phi(x)`,

.. math:: \Phi(-x) = \frac{e}{\lambda(-x)}, \quad
          \lambda(x) = \frac{e\,\lambda(-x)}{\lambda(-x) - e}, \quad
          d = \lambda(x) (\lambda(x) + x), \quad \log\Phi(x) = \log(1 - \Phi(-x)),

and on the left :math:`\log\Phi(-x) = -x^2/2 - \log\sqrt{2\pi} - \log\lambda(-x)`. So a row takes
one exponential and one logarithm, both written out here: a call into the mathematics library
would keep the loop from being vectorised. The logarithm is the series of
:math:`\log(1 + f) = 2\,\mathrm{artanh}(f/(2 + f))`. It starts from f rather than from 1 + f, and
that is why one series serves both sides: on the right f = -Φ(-x) is known to all its digits
even where 1 - Φ(-x) rounds to one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from selfselect.kernels._erfcx import CENTRE, EXP, GAP, LOG
from selfselect.kernels.status import ABOVE, BELOW, SEEN, UNKNOWN

__all__ = ["FusedSums", "sum_known_index"]

Array = NDArray[np.float64]
Codes = NDArray[np.int8]
Indices = NDArray[np.int64]

BLOCK: Final = 256
"""Rows per block: columns of 2 KiB, so eight of them, all a tile needs, fill half an L1 cache."""

NUMBERS_PER_LINE: Final = 8
"""Doubles per cache line."""

STRIDE: Final = BLOCK + NUMBERS_PER_LINE
"""Distance of two columns: a power of two would map them all to the same few cache sets."""

TILE: Final = 4
"""Columns per side of a Gram tile; `_tile` and `_corner` are written out for it."""

HALF_LOG_TWO_PI: Final = 0.5 * math.log(2.0 * math.pi)
INV_SQRT_TWO_PI: Final = 1.0 / math.sqrt(2.0 * math.pi)

INV_LN2: Final = 1.0 / math.log(2.0)
LN2: Final = math.log(2.0)
LN2_HIGH: Final = 6.93147180369123816490e-01
LN2_LOW: Final = 1.90821492927058770002e-10
"""log 2 in two parts; the first ends in zeros, so its product with an exponent is exact."""

ROUNDER: Final = 1.5 * 2.0**52
"""Adding this leaves no room for a fraction: the low bits become the nearest integer."""
ROUNDER_BITS: Final = int(np.float64(ROUNDER).view(np.int64))
ONE_BITS: Final = int(np.float64(1.0).view(np.int64))
SQRT_HALF_BITS: Final = int(np.float64(math.sqrt(0.5)).view(np.int64))
SMALLEST_EXPONENT: Final = -708.0
"""exp underflows (nearly) left of this; the density is taken as zero there."""
UPPER_HALVES: Final = 1.0 - math.sqrt(0.5)
"""Where 1 - p falls below √½ its logarithm is taken of 2 (1 - p)."""

# Reductions are only vectorised where sums may be reordered. Nothing else is relaxed, so infinities
# and NaNs keep their meaning, and the roundings in `_densities` and `_terms` stay as written.
_CONTRACT: Final = {"contract"}
_strict = numba.njit(nogil=True, error_model="numpy", fastmath=_CONTRACT)
_reordered = numba.njit(nogil=True, error_model="numpy", fastmath=_CONTRACT | {"reassoc"})


@_strict
def _gaps(a, gaps):  # type: ignore[no-untyped-def]
    """Evaluate λ(-x) - x at x = |a|."""
    for r in range(BLOCK):
        x = abs(a[r])
        reciprocal = 1.0 / (x + CENTRE)
        u = (x - CENTRE) * reciprocal
        # Even and odd powers apart: two chains of half the length run side by side.
        v = u * u
        even = GAP[26]
        even = even * v + GAP[24]
        even = even * v + GAP[22]
        even = even * v + GAP[20]
        even = even * v + GAP[18]
        even = even * v + GAP[16]
        even = even * v + GAP[14]
        even = even * v + GAP[12]
        even = even * v + GAP[10]
        even = even * v + GAP[8]
        even = even * v + GAP[6]
        even = even * v + GAP[4]
        even = even * v + GAP[2]
        even = even * v + GAP[0]
        odd = GAP[25]
        odd = odd * v + GAP[23]
        odd = odd * v + GAP[21]
        odd = odd * v + GAP[19]
        odd = odd * v + GAP[17]
        odd = odd * v + GAP[15]
        odd = odd * v + GAP[13]
        odd = odd * v + GAP[11]
        odd = odd * v + GAP[9]
        odd = odd * v + GAP[7]
        odd = odd * v + GAP[5]
        odd = odd * v + GAP[3]
        odd = odd * v + GAP[1]
        gaps[r] = (odd * u + even) * reciprocal


@_strict
def _densities(a, densities):  # type: ignore[no-untyped-def]
    """Evaluate φ(a)."""
    for r in range(BLOCK):
        x = a[r]
        # φ(x) = exp(-x²/2)/√(2π): the exponent is split into a power of two and a remainder.
        half_square = -0.5 * x * x
        exponent = max(half_square, SMALLEST_EXPONENT)
        rounded = exponent * INV_LN2 + ROUNDER
        power = rounded - ROUNDER
        rest = (exponent - power * LN2_HIGH) - power * LN2_LOW
        rest_square = rest * rest
        even_exp = EXP[10]
        even_exp = even_exp * rest_square + EXP[8]
        even_exp = even_exp * rest_square + EXP[6]
        even_exp = even_exp * rest_square + EXP[4]
        even_exp = even_exp * rest_square + EXP[2]
        even_exp = even_exp * rest_square + EXP[0]
        odd_exp = EXP[11]
        odd_exp = odd_exp * rest_square + EXP[9]
        odd_exp = odd_exp * rest_square + EXP[7]
        odd_exp = odd_exp * rest_square + EXP[5]
        odd_exp = odd_exp * rest_square + EXP[3]
        odd_exp = odd_exp * rest_square + EXP[1]
        scale = np.int64((np.float64(rounded).view(np.int64) << 52) + ONE_BITS).view(np.float64)
        density = (odd_exp * rest + even_exp) * (scale * INV_SQRT_TWO_PI)
        densities[r] = density if half_square >= SMALLEST_EXPONENT else 0.0


@_strict
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
        bits = np.float64(left_ratio).view(np.int64)
        whole = (bits - SQRT_HALF_BITS) >> 52
        mantissa = np.int64(bits - (whole << 52)).view(np.float64)
        left_twos = np.int64(whole + ROUNDER_BITS).view(np.float64) - ROUNDER
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
        s = top * (rest_of_one * inverse)
        ratio = left_ratio if left else right_ratio
        slope = ratio * (gap if left else ratio + x)

        z = s * s
        series = LOG[7]
        series = series * z + LOG[6]
        series = series * z + LOG[5]
        series = series * z + LOG[4]
        series = series * z + LOG[3]
        series = series * z + LOG[2]
        series = series * z + LOG[1]
        series = series * z + LOG[0]
        logarithm = twos * LN2 + (2.0 * s + s * z * series)
        log_cdf = half_square - HALF_LOG_TWO_PI - logarithm if left else logarithm

        seen = code == SEEN
        silent = code > ABOVE
        w = 0.0 if silent else weight[r]
        residual[r] = w * (at if seen else (-ratio if below else ratio))
        curvature[r] = w * (1.0 if seen else slope)
        loglik[r] = w * (half_square if seen else log_cdf)


@_reordered
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


@_strict
def _subtract(x0, x1, x2, x3, g0, g1, g2, g3, a):  # type: ignore[no-untyped-def]
    """Take four columns off a."""
    for r in range(BLOCK):
        a[r] -= (g0 * x0[r] + g1 * x1[r]) + (g2 * x2[r] + g3 * x3[r])


@_reordered
def _tile(a0, a1, a2, a3, b0, b1, b2, b3, gram, row, column):  # type: ignore[no-untyped-def]
    """Add the sixteen sums of products of four columns with four others."""
    s00 = s01 = s02 = s03 = 0.0
    s10 = s11 = s12 = s13 = 0.0
    s20 = s21 = s22 = s23 = 0.0
    s30 = s31 = s32 = s33 = 0.0
    for r in range(BLOCK):
        x0 = a0[r]
        x1 = a1[r]
        x2 = a2[r]
        x3 = a3[r]
        y = b0[r]
        s00 += x0 * y
        s10 += x1 * y
        s20 += x2 * y
        s30 += x3 * y
        y = b1[r]
        s01 += x0 * y
        s11 += x1 * y
        s21 += x2 * y
        s31 += x3 * y
        y = b2[r]
        s02 += x0 * y
        s12 += x1 * y
        s22 += x2 * y
        s32 += x3 * y
        y = b3[r]
        s03 += x0 * y
        s13 += x1 * y
        s23 += x2 * y
        s33 += x3 * y
    gram[row, column] += s00
    gram[row, column + 1] += s01
    gram[row, column + 2] += s02
    gram[row, column + 3] += s03
    gram[row + 1, column] += s10
    gram[row + 1, column + 1] += s11
    gram[row + 1, column + 2] += s12
    gram[row + 1, column + 3] += s13
    gram[row + 2, column] += s20
    gram[row + 2, column + 1] += s21
    gram[row + 2, column + 2] += s22
    gram[row + 2, column + 3] += s23
    gram[row + 3, column] += s30
    gram[row + 3, column + 1] += s31
    gram[row + 3, column + 2] += s32
    gram[row + 3, column + 3] += s33


@_reordered
def _corner(  # type: ignore[no-untyped-def]
    a0, a1, a2, a3, curvature, residual, weighted, sums, gram, row
):
    """Store d z of four columns; add their sums of r z and d z, and their own Gram matrix."""
    b0 = weighted[row]
    b1 = weighted[row + 1]
    b2 = weighted[row + 2]
    b3 = weighted[row + 3]
    r0 = r1 = r2 = r3 = 0.0
    d0 = d1 = d2 = d3 = 0.0
    s00 = 0.0
    s10 = s11 = 0.0
    s20 = s21 = s22 = 0.0
    s30 = s31 = s32 = s33 = 0.0
    for r in range(BLOCK):
        d = curvature[r]
        e = residual[r]
        x0 = a0[r]
        x1 = a1[r]
        x2 = a2[r]
        x3 = a3[r]
        y = d * x0
        b0[r] = y
        d0 += y
        r0 += e * x0
        s00 += x0 * y
        s10 += x1 * y
        s20 += x2 * y
        s30 += x3 * y
        y = d * x1
        b1[r] = y
        d1 += y
        r1 += e * x1
        s11 += x1 * y
        s21 += x2 * y
        s31 += x3 * y
        y = d * x2
        b2[r] = y
        d2 += y
        r2 += e * x2
        s22 += x2 * y
        s32 += x3 * y
        y = d * x3
        b3[r] = y
        d3 += y
        r3 += e * x3
        s33 += x3 * y
    sums[0, row] += r0
    sums[1, row] += d0
    gram[row, row] += s00
    sums[0, row + 1] += r1
    sums[1, row + 1] += d1
    gram[row + 1, row] += s10
    gram[row + 1, row + 1] += s11
    sums[0, row + 2] += r2
    sums[1, row + 2] += d2
    gram[row + 2, row] += s20
    gram[row + 2, row + 1] += s21
    gram[row + 2, row + 2] += s22
    sums[0, row + 3] += r3
    sums[1, row + 3] += d3
    gram[row + 3, row] += s30
    gram[row + 3, row + 1] += s31
    gram[row + 3, row + 2] += s32
    gram[row + 3, row + 3] += s33


@intrinsic
def _prefetch(typingctx, array, index):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Ask for the cache line of ``array[index]``; outside of the array this does nothing."""

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        address = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer())
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, flag, flag, flag])
        function = builder.module.declare_intrinsic("llvm.prefetch", (address.type,), kind)
        builder.call(function, [address, flag(0), flag(2), flag(1)])  # read, L2, data
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@_strict
def _prefetch_range(flat, first, last):  # type: ignore[no-untyped-def]
    """Ask for some of the next block while this one is computed.

    Blocks are read in bursts, and between two bursts the hardware forgets what it was streaming.
    """
    for i in range(first, last, NUMBERS_PER_LINE):
        _prefetch(flat, i)  # type: ignore[call-arg]


def _any_strides(dtype: types.Type, ndim: int) -> types.Array:
    """Take arrays of any layout, writable or not, so that one signature is compiled for all."""
    return types.Array(dtype, ndim, "A", readonly=True)


_FLAT: Final = types.Array(types.float64, 1, "C", readonly=True)
_SIGNATURE: Final = types.float64(
    _any_strides(types.float64, 2),  # covariates
    _FLAT,
    _any_strides(types.int8, 2),  # status
    _any_strides(types.float64, 2),  # limit
    _any_strides(types.float64, 1),  # weights
    _any_strides(types.int64, 2),  # columns
    _any_strides(types.int64, 1),  # sizes
    _FLAT,
    _FLAT,
    types.float64,
    types.float64,
    _any_strides(types.float64, 2),  # g
    _any_strides(types.float64, 1),  # h
    types.float64[:, ::1],
    types.float64[:, :, ::1],
)


@_strict
def _load_rows(covariates, start, filled, shift, scale, block):  # type: ignore[no-untyped-def]
    """Copy, standardise and transpose rows of any strides, along the shorter stride."""
    n_covariates = covariates.shape[1]
    if abs(covariates.strides[0]) < abs(covariates.strides[1]):
        for q in range(n_covariates):
            row = block[q + 1]
            for r in range(filled):
                row[r] = (covariates[start + r, q] - shift[q + 1]) * scale[q + 1]
    else:
        for r in range(filled):
            for q in range(n_covariates):
                block[q + 1, r] = (covariates[start + r, q] - shift[q + 1]) * scale[q + 1]


@_strict
def _load_flat(  # type: ignore[no-untyped-def]
    flat, n_covariates, start, filled, shift, scale, block
):
    """Do the same for rows that lie one after the other; four at a time share one store."""
    whole = filled - filled % 4
    for r in range(0, whole, 4):
        row0 = flat[(start + r) * n_covariates : (start + r + 1) * n_covariates]
        row1 = flat[(start + r + 1) * n_covariates : (start + r + 2) * n_covariates]
        row2 = flat[(start + r + 2) * n_covariates : (start + r + 3) * n_covariates]
        row3 = flat[(start + r + 3) * n_covariates : (start + r + 4) * n_covariates]
        for q in range(n_covariates):
            middle = shift[q + 1]
            factor = scale[q + 1]
            block[q + 1, r] = (row0[q] - middle) * factor
            block[q + 1, r + 1] = (row1[q] - middle) * factor
            block[q + 1, r + 2] = (row2[q] - middle) * factor
            block[q + 1, r + 3] = (row3[q] - middle) * factor
    for r in range(whole, filled):
        for q in range(n_covariates):
            value = flat[(start + r) * n_covariates + q]
            block[q + 1, r] = (value - shift[q + 1]) * scale[q + 1]


@_strict
def _load_limit(limit, j, start, filled, shift, scale, bounds):  # type: ignore[no-untyped-def]
    """Copy -c, standardised."""
    for r in range(filled):
        bounds[r] = (shift - limit[start + r, j]) * scale


@_strict
def _load_codes(status, start, filled, codes):  # type: ignore[no-untyped-def]
    """Copy and transpose the codes."""
    for j in range(status.shape[1]):
        for r in range(filled):
            codes[j, r] = status[start + r, j]


@_strict
def _place_limit(bounds, codes, column, intercept, a):  # type: ignore[no-untyped-def]
    """Make -c a column of the block, and start a from the intercept."""
    for r in range(BLOCK):
        # A limit that means nothing may be anything, and 0 * nan is not 0.
        column[r] = bounds[r] if codes[r] <= ABOVE else 0.0
        a[r] = -intercept


@numba.njit(_SIGNATURE, nogil=True, cache=True, error_model="numpy", fastmath=_CONTRACT)
def _sum_blocks(  # type: ignore[no-untyped-def]
    covariates, flat, status, limit, weights, columns, sizes, shift, scale,
    limit_shift, limit_scale, g, h, score, hessian,
):  # fmt: skip
    """Fill `score` and `hessian`; return the log-likelihood."""
    n_rows, n_covariates = covariates.shape
    n_alternatives = sizes.shape[0]
    width = columns.shape[1]
    own_limits = limit.shape[1] > 1

    # The block's rows are its columns: the covariates from 1 on, as `columns` counts them, then
    # -c of one alternative, then zeros that fill up the last tile.
    limit_row = n_covariates + 1
    zero_row = n_covariates + 2
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

    # Per alternative: which rows of the block enter the tiles, with which slopes, and at which
    # places of the result. The constant does not enter: its sums come for nothing elsewhere.
    padded = width + 1 + TILE
    weighted = np.zeros((padded, STRIDE))
    n_tiled = np.zeros(n_alternatives, np.int64)
    sources = np.full((n_alternatives, padded), zero_row)
    slopes = np.zeros((n_alternatives, padded))
    places = np.zeros((n_alternatives, padded), np.int64)
    constant = np.full(n_alternatives, -1)
    for j in range(n_alternatives):
        count = 0
        for p in range(sizes[j]):
            if columns[j, p] == 0:
                constant[j] = p
            else:
                sources[j, count] = columns[j, p]
                slopes[j, count] = g[j, p]
                places[j, count] = p
                count += 1
        sources[j, count] = limit_row
        slopes[j, count] = h[j]
        places[j, count] = width
        n_tiled[j] = count + 1
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
        if flat.shape[0] > 0:
            _load_flat(flat, n_covariates, start, filled, shift, scale, block)
        else:
            _load_rows(covariates, start, filled, shift, scale, block)
        _load_codes(status, start, filled, codes)
        if weights.shape[0] > 0:
            for r in range(filled):
                weight[r] = weights[start + r]
        if not own_limits:
            _load_limit(limit, 0, start, filled, limit_shift, limit_scale, bounds)

        # The next block is asked for in two portions per alternative, so that they do not queue.
        portion = BLOCK * n_covariates // (2 * n_alternatives) + 1
        ahead = (start + BLOCK) * n_covariates
        for j in range(n_alternatives):
            if own_limits:
                _load_limit(limit, j, start, filled, limit_shift, limit_scale, bounds)
            n_places = n_tiled[j]
            intercept = g[j, constant[j]] if constant[j] >= 0 else 0.0
            _place_limit(bounds, codes[j], block[limit_row], intercept, a)
            for p in range(0, n_places, TILE):
                _subtract(
                    block[sources[j, p]], block[sources[j, p + 1]],
                    block[sources[j, p + 2]], block[sources[j, p + 3]],
                    slopes[j, p], slopes[j, p + 1], slopes[j, p + 2], slopes[j, p + 3], a,
                )  # fmt: skip
            if flat.shape[0] > 0:
                _prefetch_range(flat, ahead, ahead + portion)
                ahead += portion
            _gaps(a, gaps)
            _densities(a, densities)
            _terms(a, gaps, densities, codes[j], weight, residual, curvature, terms)
            if flat.shape[0] > 0:
                _prefetch_range(flat, ahead, ahead + portion)
                ahead += portion
            first, second, value, here = _totals(residual, curvature, terms, codes[j], weight)
            plain[j, 0] += first
            plain[j, 1] += second
            loglik += value
            n_seen[j] += here
            for p in range(0, n_places, TILE):
                a0 = block[sources[j, p]]
                a1 = block[sources[j, p + 1]]
                a2 = block[sources[j, p + 2]]
                a3 = block[sources[j, p + 3]]
                for q in range(0, p, TILE):
                    _tile(
                        a0, a1, a2, a3, weighted[q], weighted[q + 1], weighted[q + 2],
                        weighted[q + 3], gram[j], p, q,
                    )  # fmt: skip
                _corner(a0, a1, a2, a3, curvature, residual, weighted, sums[j], gram[j], p)

    for j in range(n_alternatives):
        at = constant[j]
        for p in range(n_tiled[j]):
            row = places[j, p]
            score[j, row] = sums[j, 0, p]
            for q in range(p + 1):
                hessian[j, row, places[j, q]] = -gram[j, p, q]
                hessian[j, places[j, q], row] = -gram[j, p, q]
            if at >= 0:
                hessian[j, row, at] = hessian[j, at, row] = -sums[j, 1, p]
        if at >= 0:
            score[j, at] = plain[j, 0]
            hessian[j, at, at] = -plain[j, 1]
        if n_seen[j] != 0.0:
            loglik += n_seen[j] * (math.log(h[j]) - HALF_LOG_TWO_PI)
            score[j, width] += n_seen[j] / h[j]
            hessian[j, width, width] -= n_seen[j] / h[j] ** 2
    return loglik


@dataclass(frozen=True, eq=False)
class FusedSums:
    """Weighted sums over rows of every alternative's terms.

    Attributes
    ----------
    loglik
        The log-likelihood of all alternatives together.
    score : (k, m + 1)
        Of alternative j the leading ``sizes[j]`` entries are for g, the last one is for h; those
        between are zero.
    hessian : (k, m + 1, m + 1)
        Second derivatives, both triangles, laid out alike.
    """

    loglik: float
    score: Array
    hessian: Array


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

    Raises
    ------
    ValueError
        If shapes disagree or `columns` points outside: compiled code would read astray.
    """
    n_rows, n_covariates = covariates.shape
    n_alternatives, width = columns.shape
    if not (
        status.shape == (n_rows, n_alternatives)
        and limit.shape in ((n_rows, 1), (n_rows, n_alternatives))
        and (weights is None or weights.shape == (n_rows,))
        and sizes.shape == h.shape == (n_alternatives,)
        and g.shape == (n_alternatives, width)
        and shift.shape == unit.shape == (n_covariates + 1,)
    ):
        raise ValueError("the shapes of the arguments disagree")
    used = np.arange(width) < sizes[:, None]
    if (sizes > width).any() or ((columns < 0) | (columns > n_covariates))[used].any():
        raise ValueError("columns or sizes point outside of [1 | covariates]")

    nothing = np.empty(0)
    score = np.zeros((n_alternatives, width + 1))
    hessian = np.zeros((n_alternatives, width + 1, width + 1))
    loglik = _sum_blocks(
        covariates,
        covariates.reshape(-1) if covariates.flags.c_contiguous else nothing,
        status,
        limit,
        nothing if weights is None else weights,
        columns,
        sizes,
        np.ascontiguousarray(shift),
        1.0 / unit,
        float(limit_shift),
        1.0 / float(limit_unit),
        g,
        h,
        score,
        hessian,
    )
    return FusedSums(loglik, score, hessian)
