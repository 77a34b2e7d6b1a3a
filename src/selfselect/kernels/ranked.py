r"""The per-row mathematics of ranked rules with a known index, in NumPy.

If j is chosen with the outcome y of rank m, exactly m - 1 of the others lie above y. With
:math:`p_l = \Phi(a_l)` and :math:`q_l = 1 - p_l` the chance of that is the coefficient of
:math:`t^{m-1}` in :math:`\prod_{l \ne j} (p_l + q_l t)`, built up one factor at a time in
logarithms. Leaving out one factor or two gives the chance :math:`u_l` that l is among those above,
and the chance of pairs; score and Hessian follow as for any missing data (Louis 1982): those of the
known side, averaged, plus the covariance of the sides' scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.tails import HALF_LOG_TWO_PI, mills_terms

__all__ = ["Sides", "log_chance_of_count", "sides_of_others"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Sides:
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
) -> Sides:
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
    return Sides(loglik, residual, complete, chance, gap, both)


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
