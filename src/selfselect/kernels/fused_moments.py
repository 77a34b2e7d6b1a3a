"""Sums over rows that the summary of a known index needs, compiled: one pass for all of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from selfselect.kernels._fused import Array, RowArguments
from selfselect.kernels.compiled import extension

__all__ = ["FusedMoments", "sum_moments"]


class FusedMoments(NamedTuple):
    """Weighted sums over rows; those of alternative j fill the leading ``sizes[j]`` entries.

    Attributes
    ----------
    pairs : (k, k) products of generalised residuals, above the diagonal.
    shape : (k, 2) means of Hermite polynomials of orders 3 and 4 given the row.
    spread : (k, m) scores of the log scale times each column.
    observed : (k,) weight of the rows in which each alternative is observed.
    everywhere, where_observed : (k, m, m) Gram matrices of all rows, and of those; zero where they
        were not asked for.
    """

    pairs: Array
    shape: Array
    spread: Array
    observed: Array
    everywhere: Array
    where_observed: Array


def sum_moments(
    rows: RowArguments,
    *,
    grams: bool = True,
) -> FusedMoments:
    """Add up what rows say of the noise, on one thread, without the GIL.

    No row may have the status BETWEEN. `grams` asks for the Gram matrices too.
    """
    k, width = rows.columns.shape
    sums = FusedMoments(
        np.zeros((k, k)),
        np.zeros((k, 2)),
        np.zeros((k, width)),
        np.zeros(k),
        np.zeros((k, width, width)),
        np.zeros((k, width, width)),
    )
    extension().moments(*rows.native(), *sums[:4], *(sums[4:] if grams else (None, None)))
    return sums
