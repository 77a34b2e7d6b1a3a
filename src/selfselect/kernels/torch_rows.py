"""Rows as tensors of one device, and sums of products over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

__all__ = [
    "BITS", "MOST_PACKED", "WIDEST_GRAMS", "WIDEST_TERMS", "TensorRows", "pack", "weighted_grams",
]  # fmt: skip

BITS: Final = 4
"""Bits per code where they are packed."""

MOST_PACKED: Final = 7
"""Alternatives whose codes fit into a number of 32 bits with its sign."""

WIDEST_TERMS: Final = 64
WIDEST_GRAMS: Final = 32
"""Rows of the table that a card's kernels keep in registers; wider ones are left to its library."""


@dataclass(frozen=True, eq=False)
class TensorRows:
    """What the kernels take, in internal units, one column per row of the data.

    Each row of a tensor lies in one piece, so that neighbouring threads of a card read neighbouring
    numbers, and so that all linear predictors are one matrix product.

    Attributes
    ----------
    table : (D + 2, n) the covariates, a row of ones, and minus the outcome. With the parameters
        (g, constant, h) of an alternative a row's a = h y - g'x is minus their product with it.
    status : (k, n) codes of `selfselect.kernels.status`.
    weights : (n,), or None for ones.
    limits : (k, n) where alternatives have limits of their own, zero where they mean nothing; None
        where the outcome is the limit of all.
    upper : (k, n) upper limits where between two; None where no row has that status.
    codes : (n,) all codes of a row packed into one number, for the kernels of a card; None where
        there are none.
    """

    table: Tensor
    status: Tensor
    weights: Tensor | None = None
    limits: Tensor | None = None
    upper: Tensor | None = None
    codes: Tensor | None = None

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.table.shape[1]

    @property
    def n_bytes(self) -> int:
        """How much memory they take."""
        return sum(
            one.numel() * one.element_size() for one in vars(self).values() if one is not None
        )

    def slice(self, first: int, last: int) -> TensorRows:
        """Return views of some neighbouring rows."""
        if first == 0 and last >= self.n_rows:
            return self
        return self._each(lambda one: one[..., first:last])

    def take(self, which: Tensor) -> TensorRows:
        """Return copies of some rows, on the same device."""
        return self._each(lambda one: one.index_select(-1, which))

    def _each(self, change: Callable[[Tensor], Tensor]) -> TensorRows:
        return TensorRows(
            **{name: None if one is None else change(one) for name, one in vars(self).items()}
        )


def pack(status: Tensor) -> Tensor | None:
    """Pack the codes (k, n) of a row into one number (n,); None where they are too many."""
    if len(status) > MOST_PACKED:
        return None
    packed = torch.zeros(status.shape[1], dtype=torch.int32, device=status.device)
    for j, codes in enumerate(status):
        packed += codes.to(torch.int32) << (BITS * j)
    return packed


def weighted_grams(table: Tensor, factors: Tensor) -> Tensor:
    """Return Z diag(c) Z' for each row c of `factors` (k, n): one product for all, (k, m, m)."""
    n_columns, n_rows = table.shape
    weighted = (table * factors[:, None, :]).reshape(len(factors) * n_columns, n_rows)
    return torch.matmul(weighted, table.T).reshape(len(factors), n_columns, n_columns)
