r"""The per-row mathematics of the unknown index, in NumPy: only the outcome is observed, not whose.

If the largest outcome is recorded, :math:`P(y \le t \mid x) = \prod_j \Phi((t - \mu_j)/\sigma_j)`.
With :math:`a_j = h_j y - g_j'x` and :math:`\lambda = \phi/\Phi`, a row adds

.. math::
   \log p = \sum_l \log\Phi(a_l) + \log\sum_j h_j \lambda(a_j),
   \qquad r_j = \frac{h_j \lambda(a_j)}{\sum_l h_l \lambda(a_l)}

where :math:`r_j` is the probability that j was chosen. The score is that of the known index
with membership :math:`r_j` in place of 0 and 1. The Hessian is that of the known index with the
same memberships, the *complete* information, less what is missing (Louis 1982): with
:math:`D_j` the difference of j's score when chosen and when not,

.. math:: H = H_\text{complete} + \sum_i \mathrm{Cov}_{r_i}(D_i).

If the smallest is recorded, outcomes and coefficients change sign: `side` is -1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.compiled import extension
from selfselect.kernels.tails import HALF_LOG_TWO_PI, mills_terms_by_numpy

__all__ = [
    "Curvature",
    "Memberships",
    "UnknownSums",
    "memberships",
    "memberships_by_numpy",
    "row_scores",
    "sum_places",
    "sum_rows",
]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

Curvature = Literal["none", "complete", "exact"]
"""How much of the Hessian is wanted: none, that of EM's complete data, or the exact one."""


@dataclass(frozen=True, eq=False)
class Memberships:
    """What a row says of its own index.

    Attributes
    ----------
    loglik : (n,) log-density of the outcome.
    chance : (n, k) probability that each alternative was chosen.
    a : (n, k) standardised outcome, in the direction in which the rule seeks.
    ratio, slope : (n, k) λ(a) and d(a).
    """

    loglik: Array
    chance: Array
    a: Array
    ratio: Array
    slope: Array


def memberships(
    location: Array, inverse_scale: Array, limit: Array, *, side: float, candidate: Mask | None
) -> Memberships:
    """Evaluate the density of each outcome and which alternative is likely to have been chosen.

    Parameters
    ----------
    location : (n, k) g_j'x of each row.
    inverse_scale : (k,) h.
    limit : (n,) the outcome.
    side : 1 where the largest outcome is observed, -1 where the smallest is.
    candidate : (n, k) whether the alternative was available; None where all were.
    """
    native = extension()
    if native is None:
        return memberships_by_numpy(location, inverse_scale, limit, side=side, candidate=candidate)
    loglik, terms = np.empty(len(limit)), np.empty((4, *location.shape))
    native.memberships(location, inverse_scale, limit, side, candidate, loglik, *terms)
    return Memberships(loglik, *terms)


def memberships_by_numpy(
    location: Array, inverse_scale: Array, limit: Array, *, side: float, candidate: Mask | None
) -> Memberships:
    """Do the same by NumPy: the oracle of the compiled kernels."""
    each = _per_alternative(
        np.ascontiguousarray(location.T), inverse_scale[:, None], limit, side=side,
        candidate=None if candidate is None else candidate.T,
    )  # fmt: skip
    return Memberships(each.loglik, each.chance.T, each.a.T, each.ratio.T, each.slope.T)


def _per_alternative(
    location: Array, inverse_scale: Array, limit: Array, *, side: float, candidate: Mask | None
) -> Memberships:
    """Evaluate `memberships` with alternatives first, (k, ...): reductions over few are slow last.

    Behind the alternatives arrays may have any shape that ends in the rows.
    """
    a = side * (inverse_scale * limit - location)
    tail = mills_terms_by_numpy(a)
    log_density = np.log(inverse_scale) - HALF_LOG_TWO_PI - 0.5 * a * a - tail.log_cdf
    log_cdf, ratio, slope = tail.log_cdf, tail.ratio, tail.slope
    if candidate is not None:
        log_density = np.where(candidate, log_density, -np.inf)
        log_cdf = np.where(candidate, log_cdf, 0.0)
        ratio, slope = np.where(candidate, ratio, 0.0), np.where(candidate, slope, 0.0)
    largest = log_density.max(axis=0)
    relative = np.exp(log_density - largest)
    total = relative.sum(axis=0)
    loglik = log_cdf.sum(axis=0) + largest + np.log(total)
    return Memberships(loglik, relative / total, a, ratio, slope)


def sum_places(
    designs: list[Array],
    natural_g: list[Array],
    inverse_scale: Array,
    limit: Array,
    *,
    side: float,
    candidate: Mask | None,
    weights: Array | None,
) -> tuple[Array, Array]:
    """Add up log-likelihood (s,) and score (s, m) at s places at once.

    Parameters
    ----------
    designs : per alternative (n, p_j).
    natural_g : per alternative g_j at each place, (s, p_j).
    inverse_scale : (s, k) h at each place.
    limit, side, candidate : as in `memberships`.
    weights : (n,) or None.
    """
    location = np.stack([g @ x.T for x, g in zip(designs, natural_g, strict=True)])
    found = _per_alternative(
        location, inverse_scale.T[:, :, None], limit, side=side,
        candidate=None if candidate is None else candidate.T[:, None, :],
    )  # fmt: skip
    weight = np.ones(len(limit)) if weights is None else weights
    residual = side * (found.chance * (found.a + found.ratio) - found.ratio) * weight
    along_h = (found.chance @ weight).T / inverse_scale - (residual @ limit).T
    score = [np.column_stack([residual[j] @ x, along_h[:, j]]) for j, x in enumerate(designs)]
    return found.loglik @ weight, np.concatenate(score, axis=1)


@dataclass(frozen=True, eq=False)
class UnknownSums:
    """Weighted sums over rows in the stacked natural parameters; the Hessian may be absent."""

    loglik: float
    score: Array
    hessian: Array | None


def sum_rows(
    designs: list[Array],
    inverse_scale: Array,
    limit: Array,
    *,
    side: float,
    candidate: Mask | None,
    weights: Array | None,
    natural_g: list[Array],
    curvature: Curvature,
) -> UnknownSums:
    """Add up log-likelihood, score and the wanted part of the Hessian.

    Parameters
    ----------
    designs : per alternative (n, p_j).
    inverse_scale, limit, side, candidate : as in `memberships`.
    weights : (n,) or None.
    natural_g : per alternative g_j.
    curvature : see `Curvature`.
    """
    if curvature == "none":
        logliks, scores = sum_places(
            designs, [g[None] for g in natural_g], inverse_scale[None], limit, side=side,
            candidate=candidate, weights=weights,
        )  # fmt: skip
        return UnknownSums(float(logliks[0]), scores[0], None)
    location = np.column_stack([x @ g for x, g in zip(designs, natural_g, strict=True)])
    found = memberships_by_numpy(location, inverse_scale, limit, side=side, candidate=candidate)
    weight = np.ones(len(limit)) if weights is None else weights
    residual = side * (found.chance * (found.a + found.ratio) - found.ratio)
    weighted = residual * weight[:, None]
    chosen = (found.chance * weight[:, None]).sum(axis=0)
    score = np.concatenate(
        [
            np.append(x.T @ weighted[:, j], chosen[j] / inverse_scale[j] - weighted[:, j] @ limit)
            for j, x in enumerate(designs)
        ]
    )
    loglik = float(found.loglik @ weight)
    ends = np.cumsum([x.shape[1] + 1 for x in designs])
    hessian = np.zeros((ends[-1], ends[-1]))
    complete = -(found.chance + (1.0 - found.chance) * found.slope) * weight[:, None]
    gap = side * (found.a + found.ratio)
    differences: list[Array] = []
    for j, x in enumerate(designs):
        own = slice(ends[j] - x.shape[1] - 1, ends[j])
        joined = np.column_stack([x, -limit])
        block = joined.T @ (joined * complete[:, [j]])
        block[-1, -1] -= chosen[j] / inverse_scale[j] ** 2
        if curvature == "exact":
            difference = np.column_stack(
                [x * gap[:, [j]], 1.0 / inverse_scale[j] - gap[:, j] * limit]
            )
            block += difference.T @ (difference * (found.chance[:, [j]] * weight[:, None]))
            differences.append(difference * found.chance[:, [j]])
        hessian[own, own] = block
    if curvature == "exact":
        mean = np.concatenate(differences, axis=1)
        if weights is not None:
            hessian -= mean.T @ (mean * weight[:, None])
        else:
            hessian -= mean.T @ mean
    return UnknownSums(loglik, score, hessian)


def row_scores(
    design: Array, found: Memberships, alternative: int, *, inverse_scale: float, limit: Array,
    side: float,
) -> Array:  # fmt: skip
    """Each row's own score of one alternative in (g, h), shape (n, p + 1)."""
    chance, a, ratio = (part[:, alternative] for part in (found.chance, found.a, found.ratio))
    residual = side * (chance * (a + ratio) - ratio)
    return np.column_stack([design * residual[:, None], chance / inverse_scale - residual * limit])
