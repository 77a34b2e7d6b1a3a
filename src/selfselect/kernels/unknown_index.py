"""The oracles of rows whose index was not recorded, or is a rank."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.compiled import extension
from selfselect.kernels.tails import HALF_LOG_TWO_PI, mills_terms, mills_terms_by_numpy

Array = NDArray[np.float64]


# The per-row mathematics of the unknown index, in NumPy: only the outcome is observed, not whose.
#
# If the largest outcome is recorded, :math:`P(y \le t \mid x) = \prod_j \Phi((t -
# \mu_j)/\sigma_j)`. With :math:`a_j = h_j y - g_j'x` and :math:`\lambda = \phi/\Phi`, a row adds
#
# .. math::
#    \log p = \sum_l \log\Phi(a_l) + \log\sum_j h_j \lambda(a_j),
#    \qquad r_j = \frac{h_j \lambda(a_j)}{\sum_l h_l \lambda(a_l)}
#
# where :math:`r_j` is the probability that j was chosen. The score is that of the known index
# with membership :math:`r_j` in place of 0 and 1. The Hessian is that of the known index with the
# same memberships, the *complete* information, less what is missing (Louis 1982): with
# :math:`D_j` the difference of j's score when chosen and when not,
#
# .. math:: H = H_\text{complete} + \sum_i \mathrm{Cov}_{r_i}(D_i).
#
# If the smallest is recorded, outcomes and coefficients change sign: `side` is -1.

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


# The per-row mathematics of ranked rules with a known index, in NumPy.
#
# If j is chosen with the outcome y of rank m, exactly m - 1 of the others lie above y. With
# :math:`p_l = \Phi(a_l)` and :math:`q_l = 1 - p_l` the chance of that is the coefficient of
# :math:`t^{m-1}` in :math:`\prod_{l \ne j} (p_l + q_l t)`, built up one factor at a time in
# logarithms. Leaving out one factor or two gives the chance :math:`u_l` that l is among those
# above, and the chance of pairs; score and Hessian follow as for any missing data (Louis 1982):
# those of the known side, averaged, plus the covariance of the sides' scores.

Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class RankedSides:
    """On which side of the recorded outcome the others lie.

    Attributes
    ----------
    loglik : (n,) log-likelihood of each row.
    residual : (n, k) generalised residual of each alternative.
    complete : (n, k) second derivative of each alternative's term with its side known.
    above : (n, k) chance to lie above the outcome; 0 for the chosen one.
    gap : (n, k) residual if above less residual if below; 0 for the chosen one.
    both : pair (j, l) to (n,) chance that both lie above.
    """

    loglik: Array
    residual: Array
    complete: Array
    above: Array
    gap: Array
    both: dict[tuple[int, int], Array]


def sides_of_others(
    a: Array, log_h: Array, chosen: Indices, rank: int, *, pairs: bool = True
) -> RankedSides:
    """Evaluate all that is needed of a batch.

    Parameters
    ----------
    a : (n, k) h y - g'x of every alternative at the recorded outcome.
    log_h : (k,) logarithms of the inverse scales.
    chosen : (n,) index of the chosen alternative.
    rank : m.
    pairs : whether chances of pairs are wanted.
    """
    n_rows, k = a.shape
    rows = np.arange(n_rows)
    below, above = mills_terms(a), mills_terms(-a)
    log_p, log_q = below.log_cdf.copy(), above.log_cdf.copy()
    # The chosen one is never above itself: a factor of one changes no product.
    log_p[rows, chosen], log_q[rows, chosen] = 0.0, -np.inf
    log_mass = log_chance_of_count(log_p, log_q, rank - 1)
    own = a[rows, chosen]
    loglik = log_h[chosen] - HALF_LOG_TWO_PI - 0.5 * own**2 + log_mass

    with np.errstate(invalid="ignore"):
        chance = np.column_stack(
            [
                np.exp(log_q[:, j] + _without(log_p, log_q, (j,), rank - 2) - log_mass)
                for j in range(k)
            ]
        )
    chance = np.clip(np.nan_to_num(chance), 0.0, 1.0)
    residual = chance * above.ratio - (1.0 - chance) * below.ratio
    complete = -(chance * above.slope + (1.0 - chance) * below.slope)
    gap = above.ratio + below.ratio
    chance[rows, chosen] = 0.0
    residual[rows, chosen] = own
    complete[rows, chosen] = -1.0
    gap[rows, chosen] = 0.0
    both: dict[tuple[int, int], Array] = {}
    if pairs:
        for j, m in combinations(range(k), 2):
            with np.errstate(invalid="ignore"):
                joint = log_q[:, j] + log_q[:, m] + _without(log_p, log_q, (j, m), rank - 3)
                both[j, m] = np.nan_to_num(np.exp(joint - log_mass))
    return RankedSides(loglik, residual, complete, chance, gap, both)


def log_chance_of_count(log_p: Array, log_q: Array, count: int) -> Array:
    """Return the logarithm of the chance that exactly `count` of the columns are above."""
    n_rows, k = log_p.shape
    if count < 0 or count > k:
        return np.full(n_rows, -np.inf)
    held = np.full((n_rows, count + 1), -np.inf)
    held[:, 0] = 0.0
    for j in range(k):
        up = held[:, :-1] + log_q[:, [j]]
        held = held + log_p[:, [j]]
        held[:, 1:] = np.logaddexp(held[:, 1:], up)
    return held[:, count]


def _without(log_p: Array, log_q: Array, left_out: tuple[int, ...], count: int) -> Array:
    kept = [j for j in range(log_p.shape[1]) if j not in left_out]
    return log_chance_of_count(log_p[:, kept], log_q[:, kept], count)
