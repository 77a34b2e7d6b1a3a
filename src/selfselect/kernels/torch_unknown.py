r"""The twin of `unknown_index` for tensors: sums over rows that stay on their device.

With z = (x, 1, -y) an alternative's row has :math:`a = \pm(h y - g'x)`, and its scores when chosen
and when not differ by :math:`D = \pm u z + e/h`, where :math:`u = a + \lambda` and e is the unit
vector of h. Own blocks of the Hessian keep the curvature that knowing the index would give, less
:math:`r (1 - r) u^2`, what not knowing it costs. The block of j and l is minus the sum of
:math:`r_j D_j (r_l D_l)'`: a Gram matrix of z with weight :math:`q_j q_l`, :math:`q = \pm r u`, and
sums of :math:`q_j r_l z`. So all of it is Gram matrices of z and sums of z, as `torch_known`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from selfselect.kernels.status import MAYBE
from selfselect.kernels.torch_known import standardised
from selfselect.kernels.torch_rows import TensorRows, weighted_grams
from selfselect.kernels.torch_tails import tails

__all__ = [
    "UnknownTerms", "pairs_of", "sum_unknown_places", "sum_unknown_rows", "unknown_terms",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class UnknownTerms:
    """What the sums are made of, per alternative (k, n) unless it says otherwise.

    Attributes
    ----------
    loglik : (n,) log-density of the outcome, weighted.
    chance : probability r that the alternative was chosen.
    share : the same, weighted.
    residual : along g, per unit of x, weighted.
    held : curvature that knowing the index would give, sign turned, weighted.
    pull : q = ± r u.
    missing : r (1 - r) u, weighted; times u it is what not knowing the index costs.
    excess : u.
    """

    loglik: Tensor
    chance: Tensor
    share: Tensor
    residual: Tensor
    held: Tensor
    pull: Tensor
    missing: Tensor
    excess: Tensor


def unknown_terms(
    a: Tensor, inverse_scale: Tensor, status: Tensor, weights: Tensor | None, *, side: float
) -> UnknownTerms:
    """Evaluate the terms of every row; a row to which no alternative is open adds nothing."""
    is_open = status == MAYBE
    found = tails(torch.where(is_open, a, 0.0))
    some = is_open.any(dim=0)
    log_share = torch.where(is_open, found.log_ratio + inverse_scale.log()[:, None], -torch.inf)
    largest = torch.where(some, log_share.amax(dim=0), 0.0)
    relative = (log_share - largest).exp()
    total = torch.where(some, relative.sum(dim=0), 1.0)
    log_cdf = torch.where(is_open, found.log_cdf, 0.0).sum(dim=0)
    ratio = torch.where(is_open, found.ratio, 0.0)
    excess = torch.where(is_open, found.excess, 0.0)
    chance, others = relative / total, _sums_of_others(relative) / total
    weight = some.to(a.dtype) if weights is None else some * weights
    return UnknownTerms(
        loglik=(log_cdf + largest + total.log()) * weight,
        chance=chance,
        share=chance * weight,
        residual=side * (chance * excess - ratio) * weight,
        held=(chance + others * (ratio * excess)) * weight,
        pull=side * chance * excess,
        missing=chance * excess * others * weight,
        excess=excess,
    )


def _sums_of_others(share: Tensor) -> Tensor:
    """Return per alternative the sum of all others: 1 less a share that rounds to 1 is not 0."""
    if len(share) == 1:
        return torch.zeros_like(share)
    none = torch.zeros_like(share[:1])
    before = torch.cat([none, share[:-1].cumsum(dim=0)])
    behind = torch.cat([share[1:].flip(0).cumsum(dim=0).flip(0), none])
    return before + behind


def pairs_of(n_alternatives: int) -> list[tuple[int, int]]:
    """List the pairs of alternatives in the order of their sums."""
    return [(j, i) for j in range(n_alternatives) for i in range(j + 1, n_alternatives)]


def sum_unknown_rows(
    rows: TensorRows,
    parameters: Tensor,
    *,
    side: float,
    curvature: str,
    terms_of: Callable[..., UnknownTerms] = unknown_terms,
    grams_of: Callable[[Tensor, Tensor], Tensor] = weighted_grams,
) -> Tensor:
    """Add up everything over some rows, in one vector on their device.

    It holds the log-likelihood, the weights of observed rows (k), and the score (k, D + 2), each
    less what observed rows owe to h alone; then, if `curvature` is not "none", minus the own blocks
    of the Hessian (k, D + 2, D + 2), less that too. If it is "exact" there follow the sums of
    products of two chances (k, k), of q_j r_l z (k, k, D + 2), and the Gram matrices of the pairs.
    `terms_of` evaluates the row-wise part, `grams_of` the Gram matrices.
    """
    inverse_scale = parameters[:, -1]
    a = side * standardised(rows, parameters)
    terms = terms_of(a, inverse_scale, rows.status, rows.weights, side=side)
    parts = [
        terms.loglik.sum().reshape(1),
        terms.share.sum(dim=1),
        torch.matmul(terms.residual, rows.table.T).reshape(-1),
    ]
    if curvature == "none":
        return torch.cat(parts)
    if curvature == "complete":
        return torch.cat([*parts, grams_of(rows.table, terms.held).reshape(-1)])

    n_alternatives = len(parameters)
    drawn = terms.pull if rows.weights is None else terms.pull * rows.weights
    pairs = pairs_of(n_alternatives)
    factors = [terms.held - terms.missing * terms.excess]
    factors += [(drawn[j] * terms.pull[i])[None] for j, i in pairs]
    grams = grams_of(rows.table, torch.cat(factors))
    own, cross = grams[:n_alternatives], grams[n_alternatives:]
    along = torch.matmul(terms.missing, rows.table.T) * (side / inverse_scale)[:, None]
    own[:, -1, :] -= along
    own[:, :, -1] -= along
    mixed = (drawn[:, None, :] * terms.chance).reshape(n_alternatives**2, rows.n_rows)
    return torch.cat(
        [
            *parts,
            own.reshape(-1),
            torch.matmul(terms.share, terms.chance.T).reshape(-1),
            torch.matmul(mixed, rows.table.T).reshape(-1),
            cross.reshape(-1),
        ]
    )


def sum_unknown_places(
    rows: TensorRows,
    parameters: Tensor,
    *,
    side: float,
    sum_of: Callable[..., Tensor] = sum_unknown_rows,
) -> Tensor:
    """Return at every place (s, k, D + 2) what `sum_of` adds up without curvature."""
    return torch.stack([sum_of(rows, one, side=side, curvature="none") for one in parameters])
