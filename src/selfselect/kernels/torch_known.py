"""Passes over rows for tensors of any device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from selfselect.kernels.known_index import ABOVE, BELOW, BETWEEN, MAYBE, OBSERVED
from selfselect.kernels.torch_rows import TensorRows, interval, tails, weighted_grams

# The twin of `known_index` for tensors: sums over rows that stay on their device.
#
# With z = (x, 1, -c) an alternative's row has a = -(g, h)'z and adds r z to the score and -d z z'
# to the Hessian, as in `fused_known`. So one product gives all a, one more the scores, and a third
# all Gram matrices. What depends on h alone (log h, 1/h, 1/h²) is left to the caller, who is told
# the weight of the rows in which each alternative is observed.


@dataclass(frozen=True, eq=False)
class KnownTerms:
    """Per alternative and row, weighted: residual, curvature (sign turned); and plain sums.

    Attributes
    ----------
    residual, curvature : (k, n).
    loglik : the sum of all terms, less what observed rows owe to h and π.
    observed : (k,) the weight of the rows in which each alternative is observed.
    """

    residual: Tensor
    curvature: Tensor
    loglik: Tensor
    observed: Tensor


def standardised(rows: TensorRows, parameters: Tensor) -> Tensor:
    """Return a = h c - g'x (k, n) for `parameters` (k, D + 2), h last."""
    if rows.limits is None:
        return torch.matmul(parameters, rows.table).neg_()
    location = torch.matmul(parameters[:, :-1], rows.table[:-1])
    return parameters[:, -1:] * rows.limits - location


def known_terms(a: Tensor, status: Tensor, weights: Tensor | None) -> KnownTerms:
    """Evaluate the terms of rows observed, below or above one limit; others add nothing."""
    observed, below = status == OBSERVED, status == BELOW
    limited = status <= ABOVE
    # An a that means nothing may be anything, and 0 * nan is not 0.
    a = torch.where(limited, a, 0.0)
    found = tails(torch.where(below, a, -a))
    residual = torch.where(observed, a, torch.where(below, -found.ratio, found.ratio))
    curvature = torch.where(observed, 1.0, found.ratio * found.excess)
    value = torch.where(observed, -0.5 * a * a, found.log_cdf)
    weight = limited.to(a.dtype) if weights is None else limited * weights
    return KnownTerms(
        residual * weight,
        curvature * weight,
        (value * weight).sum(),
        (observed * weight).sum(dim=1),
    )


def sum_known_rows(
    rows: TensorRows,
    parameters: Tensor,
    *,
    curved: bool,
    terms_of: Callable[[Tensor, Tensor, Tensor | None], KnownTerms] = known_terms,
    grams_of: Callable[[Tensor, Tensor], Tensor] = weighted_grams,
) -> Tensor:
    """Add up everything over some rows, in one vector on their device.

    It holds the log-likelihood, the weights of observed rows (k), the score (k, D + 2) and, if
    `curved`, minus the Hessian (k, D + 2, D + 2), each less what observed rows owe to h alone.
    `terms_of` evaluates the row-wise part, `grams_of` the Gram matrices.
    """
    terms = terms_of(standardised(rows, parameters), rows.status, rows.weights)
    score = torch.matmul(terms.residual, rows.table.T)
    grams = grams_of(rows.table, terms.curvature) if curved else None
    if rows.limits is not None:
        _own_limits(rows, rows.limits, terms, score, grams)
    loglik = terms.loglik
    if rows.upper is not None:
        loglik = loglik + _add_between(rows, parameters, score, grams)
    parts = [loglik.reshape(1), terms.observed, score.reshape(-1)]
    return torch.cat(parts if grams is None else [*parts, grams.reshape(-1)])


def _own_limits(
    rows: TensorRows, limits: Tensor, terms: KnownTerms, score: Tensor, grams: Tensor | None
) -> None:
    """Put each alternative's own limit in the place of the outcome."""
    score[:, -1] = -(terms.residual * limits).sum(dim=1)
    if grams is None:
        return
    bent = terms.curvature * limits
    along = -torch.matmul(bent, rows.table[:-1].T)
    grams[:, -1, :-1] = along
    grams[:, :-1, -1] = along
    grams[:, -1, -1] = (bent * limits).sum(dim=1)


def _add_between(
    rows: TensorRows, parameters: Tensor, score: Tensor, grams: Tensor | None
) -> Tensor:
    """Add the entries between two limits, in place; return their log-likelihood."""
    assert rows.limits is not None and rows.upper is not None
    loglik = score.new_zeros(())
    for j in range(len(rows.status)):
        which = (rows.status[j] == BETWEEN).nonzero()[:, 0]
        design = rows.table[:-1].index_select(1, which)
        low, high = rows.limits[j][which], rows.upper[j][which]
        weight = 1.0 if rows.weights is None else rows.weights[which]
        location = torch.matmul(parameters[j, :-1], design)
        lower_a, upper_a = parameters[j, -1] * low - location, parameters[j, -1] * high - location
        mass = interval(lower_a, upper_a)
        at_low, at_high = mass.lower_density, mass.upper_density
        along_g, along_h = at_low - at_high, at_high * high - at_low * low
        loglik = loglik + (mass.log_mass * weight).sum()
        score[j, :-1] += torch.matmul(design, along_g * weight)
        score[j, -1] += (along_h * weight).sum()
        if grams is None:
            continue
        slope_low, slope_high = lower_a * at_low, upper_a * at_high
        # Squares of the scores, not of the end densities: those of a narrow interval are huge.
        d_gg = slope_high - slope_low + along_g**2
        d_gh = slope_low * low - slope_high * high + along_g * along_h
        d_hh = slope_high * high**2 - slope_low * low**2 + along_h**2
        grams[j, :-1, :-1] += torch.matmul(design * (d_gg * weight), design.T)
        along = torch.matmul(design, d_gh * weight)
        grams[j, :-1, -1] += along
        grams[j, -1, :-1] += along
        grams[j, -1, -1] += (d_hh * weight).sum()
    return loglik


# The twin of `unknown_index` for tensors: sums over rows that stay on their device.
#
# With z = (x, 1, -y) an alternative's row has :math:`a = \pm(h y - g'x)`, and its scores when
# chosen and when not differ by :math:`D = \pm u z + e/h`, where :math:`u = a + \lambda` and e is
# the unit vector of h. Own blocks of the Hessian keep the curvature that knowing the index would
# give, less :math:`r (1 - r) u^2`, what not knowing it costs. The block of j and l is minus the
# sum of :math:`r_j D_j (r_l D_l)'`: a Gram matrix of z with weight :math:`q_j q_l`, :math:`q = \pm
# r u`, and sums of :math:`q_j r_l z`. So all of it is Gram matrices of z and sums of z, as
# `torch_known`'s.


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
