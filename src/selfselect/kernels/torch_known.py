r"""The twin of `known_index` for tensors: sums over rows that stay on their device.

With z = (x, 1, -c) an alternative's row has a = -(g, h)'z and adds r z to the score and -d z z' to
the Hessian, as in `fused_known`. So one product gives all a, one more the scores, and a third all
Gram matrices. What depends on h alone (log h, 1/h, 1/h²) is left to the caller, who is told the
weight of the rows in which each alternative is observed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from selfselect.kernels.status import ABOVE, BELOW, BETWEEN, OBSERVED
from selfselect.kernels.torch_rows import TensorRows, weighted_grams
from selfselect.kernels.torch_tails import interval, tails

__all__ = ["KnownTerms", "known_terms", "standardised", "sum_known_rows"]


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
