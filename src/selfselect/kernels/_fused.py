"""What the fused kernels share outside of their loops: arguments and result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numba import types
from numpy.typing import NDArray

__all__ = ["ROW_TYPES", "Array", "Codes", "FusedSums", "Indices", "row_arguments"]

Array = NDArray[np.float64]
Codes = NDArray[np.int8]
Indices = NDArray[np.int64]


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
        Second derivatives in each alternative's own parameters, both triangles, laid out alike.
    cross : (k, m + 1, k, m + 1)
        Second derivatives in the parameters of two different alternatives, zero where they are
        the same; None where they vanish or were not asked for.
    """

    loglik: float
    score: Array
    hessian: Array
    cross: Array | None = None


def _any_strides(dtype: types.Type, ndim: int) -> types.Array:
    """Take arrays of any layout, writable or not, so that one signature is compiled for all."""
    return types.Array(dtype, ndim, "A", readonly=True)


_FLAT: Final = types.Array(types.float64, 1, "C", readonly=True)
ROW_TYPES: Final = (
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
"""What `row_arguments` returns, for the compiler."""


def row_arguments(
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
) -> tuple[Any, ...]:
    """Check what a kernel is given, and return it as the compiled code takes it.

    The last two are the score and the Hessian, zero, for the compiled code to fill.

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
    return (
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
        np.zeros((n_alternatives, width + 1)),
        np.zeros((n_alternatives, width + 1, width + 1)),
    )
