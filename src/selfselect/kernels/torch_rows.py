"""Rows as tensors of one device, and sums of products over them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["TensorRows", "weighted_grams"]


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
    """

    table: Tensor
    status: Tensor
    weights: Tensor | None = None
    limits: Tensor | None = None
    upper: Tensor | None = None

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.table.shape[1]

    def slice(self, first: int, last: int) -> TensorRows:
        """Return views of some neighbouring rows."""
        if first == 0 and last >= self.n_rows:
            return self
        return TensorRows(
            *(
                None if one is None else one[..., first:last]
                for one in (self.table, self.status, self.weights, self.limits, self.upper)
            )  # type: ignore[arg-type]
        )

    def take(self, which: Tensor) -> TensorRows:
        """Return copies of some rows, on the same device."""
        return TensorRows(
            *(
                None if one is None else one.index_select(-1, which)
                for one in (self.table, self.status, self.weights, self.limits, self.upper)
            )  # type: ignore[arg-type]
        )


def weighted_grams(table: Tensor, factors: Tensor) -> Tensor:
    """Return Z diag(c) Z' for each row c of `factors` (k, n): one product for all, (k, m, m)."""
    n_columns = table.shape[0]
    weighted = (table * factors[:, None, :]).reshape(-1, table.shape[1])
    return torch.matmul(weighted, table.T).reshape(len(factors), n_columns, n_columns)
