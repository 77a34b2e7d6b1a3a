r"""The twin of `unknown_index` for tensors: sums over rows that stay on their device.

Own blocks of the Hessian are those of `torch_known` with the curvature that knowing the index would
give, less what not knowing it costs; see `fused_unknown`. Two alternatives meet through
:math:`M_j = r_j D_j`, whose products are one more matrix product.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from selfselect.kernels.status import MAYBE
from selfselect.kernels.torch_known import standardised
from selfselect.kernels.torch_rows import TensorRows, weighted_grams
from selfselect.kernels.torch_tails import tails

__all__ = ["UnknownTerms", "sum_unknown_rows", "unknown_terms"]


@dataclass(frozen=True, eq=False)
class UnknownTerms:
    """Per alternative and row: who is likely to have been seen, and what follows.

    Attributes
    ----------
    loglik : (n,) log-density of the outcome.
    chance, others : (k, n) probability that the alternative was seen, and that another was.
    ratio, excess : (k, n) λ(a) and a + λ(a); zero where the alternative was not open.
    weight : (n,) zero where none was.
    """

    loglik: Tensor
    chance: Tensor
    others: Tensor
    ratio: Tensor
    excess: Tensor
    weight: Tensor


def unknown_terms(
    a: Tensor, inverse_scale: Tensor, status: Tensor, weights: Tensor | None
) -> UnknownTerms:
    """Evaluate the density of each outcome and who is likely to have been seen."""
    is_open = status == MAYBE
    found = tails(torch.where(is_open, a, 0.0))
    some = is_open.any(dim=0)
    log_share = torch.where(is_open, found.log_ratio + inverse_scale.log()[:, None], -torch.inf)
    largest = torch.where(some, log_share.amax(dim=0), 0.0)
    share = (log_share - largest).exp()
    total = torch.where(some, share.sum(dim=0), 1.0)
    log_cdf = torch.where(is_open, found.log_cdf, 0.0).sum(dim=0)
    return UnknownTerms(
        loglik=log_cdf + largest + total.log(),
        chance=share / total,
        others=_sums_of_others(share) / total,
        ratio=torch.where(is_open, found.ratio, 0.0),
        excess=torch.where(is_open, found.excess, 0.0),
        weight=some.to(a.dtype) if weights is None else some * weights,
    )


def _sums_of_others(share: Tensor) -> Tensor:
    """Return per alternative the sum of all others: one less a share that rounds to one is not 0."""
    if len(share) == 1:
        return torch.zeros_like(share)
    before = torch.cat([torch.zeros_like(share[:1]), share[:-1].cumsum(dim=0)])
    behind = torch.cat([share[1:].flip(0).cumsum(dim=0).flip(0), torch.zeros_like(share[:1])])
    return before + behind


def sum_unknown_rows(
    rows: TensorRows, parameters: Tensor, *, side: float, curvature: str
) -> Tensor:
    """Add up everything over some rows, in one vector on their device.

    It holds the log-likelihood, the weights of seen rows (k), the score (k, D + 2), each less what
    seen rows owe to h alone; then minus the own blocks of the Hessian (k, D + 2, D + 2) if
    `curvature` is not "none"; and if it is "exact" in their place those blocks with what is missing
    taken off, the sums (k) of squared chances, which take the part of the weights of seen rows,
    and the products of all M (k, D + 2, k, D + 2), of which those of an alternative with itself
    mean nothing.
    """
    inverse_scale = parameters[:, -1]
    a = side * standardised(rows, parameters)
    terms = unknown_terms(a, inverse_scale, rows.status, rows.weights)
    chance, ratio, excess, weight = terms.chance, terms.ratio, terms.excess, terms.weight
    residual = side * (chance * excess - ratio) * weight
    seen = (chance * weight).sum(dim=1)
    parts = [
        (terms.loglik * weight).sum().reshape(1),
        seen,
        torch.matmul(residual, rows.table.T).reshape(-1),
    ]
    if curvature == "none":
        return torch.cat(parts)
    held = (chance + terms.others * (ratio * excess)) * weight
    if curvature == "complete":
        return torch.cat([*parts, weighted_grams(rows.table, held).reshape(-1)])

    pull = chance * excess
    missing = pull * terms.others * weight
    own = weighted_grams(rows.table, held - missing * excess)
    along = torch.matmul(missing, rows.table.T) * (side / inverse_scale)[:, None]
    own[:, -1, :] -= along
    own[:, :, -1] -= along
    moved = rows.table * (side * pull)[:, None, :]
    moved[:, -1] += chance / inverse_scale[:, None]
    moved = moved.reshape(-1, rows.n_rows)
    cross = torch.matmul(moved * weight, moved.T)
    certain = (chance * chance * weight).sum(dim=1)
    return torch.cat([*parts, own.reshape(-1), certain, cross.reshape(-1)])
