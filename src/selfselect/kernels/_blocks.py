"""Blocks of rows: how the fused kernels load them, and what both add up from them.

Rows are taken `BLOCK` at a time. A block is copied, standardised and transposed, into a buffer
that stays in the nearest caches; every loop after that runs over the rows of the block, in
arrays that are contiguous and of a length known to the compiler, so all of them become vector
instructions without remainders. A short last block is filled up with rows that say nothing.

With the limit as one more column, z = (x, -c), an alternative's row has a = -(g, h)'z and adds
r z to the score and -d z z' to the Hessian. The Gram matrix of z and d z is built by its lower
triangle, four columns against four at a time, so that sixteen sums stay in registers and a
loaded number is used four times.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from selfselect.kernels._compile import merged, reordered, strict
from selfselect.kernels._scalars import gap_at

__all__ = [
    "BLOCK", "STRIDE", "TILE", "add_grams", "add_scores", "gaps_at", "load_codes",
    "load_covariates", "load_limit", "load_weights", "locate", "plan", "prefetch_range",
    "scatter_hessian", "scatter_score", "tile",
]  # fmt: skip

BLOCK: Final = 256
"""Rows per block: columns of 2 KiB, so eight of them, all a tile needs, fill half an L1 cache."""

NUMBERS_PER_LINE: Final = 8
"""Doubles per cache line."""

STRIDE: Final = BLOCK + NUMBERS_PER_LINE
"""Distance of two columns: a power of two would map them all to the same few cache sets."""

TILE: Final = 4
"""Columns per side of a Gram tile; `tile` and `corner` are written out for it."""


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


@strict
def prefetch_range(flat, first, last):  # type: ignore[no-untyped-def]
    """Ask for some of the next block while this one is computed.

    Blocks are read in bursts, and between two bursts the hardware forgets what it was streaming.
    """
    for i in range(first, last, NUMBERS_PER_LINE):
        _prefetch(flat, i)  # type: ignore[call-arg]


@strict
def load_rows(covariates, start, filled, shift, scale, block):  # type: ignore[no-untyped-def]
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


@strict
def load_flat(  # type: ignore[no-untyped-def]
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


@strict
def load_limit(limit, j, start, filled, shift, scale, bounds):  # type: ignore[no-untyped-def]
    """Copy -c, standardised."""
    for r in range(filled):
        bounds[r] = (shift - limit[start + r, j]) * scale


@strict
def load_codes(status, start, filled, codes):  # type: ignore[no-untyped-def]
    """Copy and transpose the codes."""
    for j in range(status.shape[1]):
        for r in range(filled):
            codes[j, r] = status[start + r, j]


@merged
def load_covariates(  # type: ignore[no-untyped-def]
    covariates, flat, start, filled, shift, scale, block
):
    """Load the covariates from rows that lie one after the other in `flat`, else from any."""
    if flat.shape[0] > 0:
        load_flat(flat, covariates.shape[1], start, filled, shift, scale, block)
    else:
        load_rows(covariates, start, filled, shift, scale, block)


@strict
def load_weights(weights, start, filled, weight):  # type: ignore[no-untyped-def]
    """Copy the weights; where there are none, what is there stays."""
    if weights.shape[0] > 0:
        for r in range(filled):
            weight[r] = weights[start + r]


@merged
def plan(columns, sizes, g, h, side, n_covariates):  # type: ignore[no-untyped-def]
    """List per alternative which rows of the block enter the tiles, and where they end up.

    The block's rows are its columns: the covariates from 1 on, as `columns` counts them, then -c,
    then one of zeros that fills up the last tile. The constant does not enter: its sums come for
    nothing elsewhere. Parameters are taken `side` times, and so is a.

    Returns
    -------
    n_tiled : (k,) how many there are.
    sources, slopes, places : (k, m + 1 + TILE) rows of the block, their parameters, and their
        places in the result.
    constant, intercepts : (k,) place of the constant, -1 where there is none; its parameter.
    """
    n_alternatives, width = columns.shape
    padded = width + 1 + TILE
    n_tiled = np.zeros(n_alternatives, np.int64)
    sources = np.full((n_alternatives, padded), n_covariates + 2)
    slopes = np.zeros((n_alternatives, padded))
    places = np.zeros((n_alternatives, padded), np.int64)
    constant = np.full(n_alternatives, -1)
    intercepts = np.zeros(n_alternatives)
    for j in range(n_alternatives):
        count = 0
        for p in range(sizes[j]):
            if columns[j, p] == 0:
                constant[j] = p
                intercepts[j] = side * g[j, p]
            else:
                sources[j, count] = columns[j, p]
                slopes[j, count] = side * g[j, p]
                places[j, count] = p
                count += 1
        sources[j, count] = n_covariates + 1
        slopes[j, count] = side * h[j]
        places[j, count] = width
        n_tiled[j] = count + 1
    return n_tiled, sources, slopes, places, constant, intercepts


@strict
def subtract(x0, x1, x2, x3, g0, g1, g2, g3, a):  # type: ignore[no-untyped-def]
    """Take four columns off a."""
    for r in range(BLOCK):
        a[r] -= (g0 * x0[r] + g1 * x1[r]) + (g2 * x2[r] + g3 * x3[r])


@merged
def locate(block, sources, slopes, n_places, intercept, a):  # type: ignore[no-untyped-def]
    """Evaluate a = -(g, h)'z."""
    for r in range(BLOCK):
        a[r] = -intercept
    for p in range(0, n_places, TILE):
        subtract(
            block[sources[p]], block[sources[p + 1]], block[sources[p + 2]],
            block[sources[p + 3]], slopes[p], slopes[p + 1], slopes[p + 2], slopes[p + 3], a,
        )  # fmt: skip


@strict
def gaps_at(a, gaps):  # type: ignore[no-untyped-def]
    """Evaluate λ(-x) - x at x = |a|."""
    for r in range(BLOCK):
        gaps[r] = gap_at(abs(a[r]))


@reordered
def tile(a0, a1, a2, a3, b0, b1, b2, b3, gram, row, column):  # type: ignore[no-untyped-def]
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


@reordered
def corner(  # type: ignore[no-untyped-def]
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


@merged
def add_grams(  # type: ignore[no-untyped-def]
    block, sources, n_places, reach, curvature, residual, weighted, sums, gram
):
    """Add one alternative's sums of r z and d z, and the lower triangle of that of d z z'.

    `reach` says per place where the tiles end against which the tile that starts there is taken:
    at the place itself, or before where not all of the triangle is wanted.
    """
    for p in range(0, n_places, TILE):
        a0 = block[sources[p]]
        a1 = block[sources[p + 1]]
        a2 = block[sources[p + 2]]
        a3 = block[sources[p + 3]]
        for q in range(0, reach[p], TILE):
            tile(
                a0, a1, a2, a3, weighted[q], weighted[q + 1], weighted[q + 2], weighted[q + 3],
                gram, p, q,
            )  # fmt: skip
        corner(a0, a1, a2, a3, curvature, residual, weighted, sums, gram, p)


@reordered
def _four_scores(a0, a1, a2, a3, residual, sums, row):  # type: ignore[no-untyped-def]
    """Add the sums of r z of four columns."""
    r0 = r1 = r2 = r3 = 0.0
    for r in range(BLOCK):
        e = residual[r]
        r0 += e * a0[r]
        r1 += e * a1[r]
        r2 += e * a2[r]
        r3 += e * a3[r]
    sums[row] += r0
    sums[row + 1] += r1
    sums[row + 2] += r2
    sums[row + 3] += r3


@merged
def add_scores(block, sources, n_places, residual, sums):  # type: ignore[no-untyped-def]
    """Add one alternative's sums of r z alone, where no Gram matrix is wanted."""
    for p in range(0, n_places, TILE):
        _four_scores(
            block[sources[p]], block[sources[p + 1]], block[sources[p + 2]],
            block[sources[p + 3]], residual, sums, p,
        )  # fmt: skip


@merged
def scatter_score(  # type: ignore[no-untyped-def]
    n_tiled, places, constant, plain, sums, n_seen, h, score
):
    """Put one alternative's sums of r and of r z at their places in the score.

    `n_seen` is the weight of the rows that see it.
    """
    for p in range(n_tiled):
        score[places[p]] = sums[p]
    if constant >= 0:
        score[constant] = plain
    if n_seen != 0.0:
        score[-1] += n_seen / h


@merged
def scatter_hessian(  # type: ignore[no-untyped-def]
    n_tiled, places, constant, plain, sums, gram, n_seen, h, hessian
):
    """Put its sums of d, of d z and of d z z' at their places in the Hessian's two triangles."""
    for p in range(n_tiled):
        row = places[p]
        for q in range(p + 1):
            hessian[row, places[q]] = hessian[places[q], row] = -gram[p, q]
        if constant >= 0:
            hessian[row, constant] = hessian[constant, row] = -sums[p]
    if constant >= 0:
        hessian[constant, constant] = -plain
    if n_seen != 0.0:
        hessian[-1, -1] -= n_seen / h**2
