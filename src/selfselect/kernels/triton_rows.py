"""Passes over rows on a card: what its kernels share outside of their loops, and Gram matrices.

A pass is done by a fixed number of programs. Each takes its share of the rows, a few at a time, and
leaves its sums behind; they are added in the order of the programs, so that a sum does not depend
on which was done first. Products with z are formed by the card's matrix units in double precision.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, assignment"

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from selfselect.kernels import torch_rows
from selfselect.kernels.torch_rows import WIDEST_GRAMS, TensorRows

__all__ = ["SIDE", "Shape", "launch_terms", "padded", "weighted_grams"]

SIDE: Any = tl.constexpr(16)
"""Columns that z is multiplied with: residuals, weights of observed rows, log-likelihood."""


@dataclass(frozen=True)
class Shape:
    """How a kernel is cut.

    Attributes
    ----------
    rows : rows per step of a program.
    warps : warps per program.
    programs : programs per multiprocessor of the card.
    stages : steps whose rows are on their way at a time.
    registers : most of them per thread; None leaves it to the compiler.
    """

    rows: int
    warps: int
    programs: int
    stages: int
    registers: int | None = None


TERMS = Shape(rows=128, warps=4, programs=4, stages=1, registers=128)
"""One row per thread, so that nothing is evaluated twice, and four programs at a time."""

STAY = 0
"""By how much parameters lie further on at the next row. They do not; but a compiler that knew it
would load them all ahead of the loop, and have no registers left for a second program."""

GRAMS = Shape(rows=32, warps=2, programs=4, stages=3)
GROUP = 3
"""Gram matrices per program, at most. Two warps take half of the table's rows each."""


def padded(width: int) -> int:
    """Return the size of the matrix a table of this width is put into."""
    return max(16, triton.next_power_of_2(width))


@cache
def _multiprocessors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def _programs(shape: Shape, table: Tensor) -> int:
    most = shape.programs * _multiprocessors(table.device)
    return max(1, min(most, triton.cdiv(table.shape[1], shape.rows)))


@triton.jit(do_not_specialize=["n_rows"])
def _sum_grams(
    table, factors, out, n_rows, stride, factor_stride,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Add up z (c z)' for each factor c of a group."""
    column = tl.arange(0, PADDED)
    group = tl.program_id(0)
    program = tl.program_id(1).to(tl.int64)
    at_column = column.to(tl.int64)[:, None] * stride
    own_factors = factors + (group * GROUP).to(tl.int64) * factor_stride
    grams = ()
    for _ in tl.static_range(GROUP):
        grams = grams + (tl.zeros((PADDED, PADDED), tl.float64),)
    for first in range(program * ROWS, n_rows, tl.num_programs(1).to(tl.int64) * ROWS):
        rows = first + tl.arange(0, ROWS).to(tl.int64)
        inside = rows < n_rows
        z = tl.load(
            table + at_column + rows[None, :],
            mask=(column[:, None] < WIDTH) & inside[None, :],
            other=0.0,
        )
        added = ()
        for j in tl.static_range(GROUP):
            factor = tl.load(own_factors + j * factor_stride + rows, mask=inside, other=0.0)
            bent = tl.trans(z * factor[None, :])
            added = added + (
                tl.dot(z, bent, grams[j], input_precision="ieee", out_dtype=tl.float64),
            )
        grams = added
    size = PADDED * PADDED
    here = out + (program * tl.num_programs(0) + group) * GROUP * size
    for j in tl.static_range(GROUP):
        tl.store(here + j * size + column[:, None] * PADDED + column[None, :], grams[j])


def weighted_grams(table: Tensor, factors: Tensor) -> Tensor:
    """Do what `torch_rows.weighted_grams` does, reading the table once per group."""
    width, n_rows = table.shape
    if width > WIDEST_GRAMS:
        return torch_rows.weighted_grams(table, factors)
    n_factors, size = len(factors), padded(width)
    group = max(one for one in range(1, GROUP + 1) if n_factors % one == 0)
    programs = _programs(GRAMS, table)
    out = torch.empty((programs, n_factors, size, size), dtype=table.dtype, device=table.device)
    with torch.cuda.device(table.device):
        _sum_grams[(n_factors // group, programs)](
            table, factors, out, n_rows, table.stride(0), factors.stride(0),
            WIDTH=width, PADDED=size, GROUP=group, ROWS=GRAMS.rows,
            num_warps=GRAMS.warps, num_stages=GRAMS.stages,
        )  # fmt: skip
    return out.sum(dim=0)[:, :width, :width]


def launch_terms(
    kernel: Any, rows: TensorRows, parameters: Tensor, *extra: Any, **options: Any
) -> Tensor:
    """Run a kernel that evaluates the terms of all rows; return its sums of z (D + 2, SIDE)."""
    width, n_rows = rows.table.shape
    size, programs = padded(width), _programs(TERMS, rows.table)
    out = torch.empty(
        (programs, size, SIDE.value), dtype=parameters.dtype, device=parameters.device
    )
    with torch.cuda.device(rows.table.device):
        kernel[(programs,)](
            rows.table, rows.codes, rows.table if rows.weights is None else rows.weights,
            parameters, out, *extra, n_rows, rows.table.stride(0), STAY,
            WIDTH=width, PADDED=size, K=len(parameters), ROWS=TERMS.rows,
            WEIGHTED=rows.weights is not None, num_warps=TERMS.warps, num_stages=TERMS.stages,
            maxnreg=TERMS.registers if size <= WIDEST_GRAMS else None, **options,
        )  # fmt: skip
    return out.sum(dim=0)[:width]
