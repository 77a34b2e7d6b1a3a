"""The score of two rules of four alternatives by brute-force quadrature, as a referee.

Two of the three outcomes that were not observed are integrated on a grid, the third exactly between
the limits that the first two leave it. Scales are one.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)
REACH = 6.5


def density(z):
    return np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)


def grid(low, high):
    """Return nodes (n, q) between limits (n,), and weights that include the normal density."""
    half = 0.5 * (high - low)[:, None]
    z = low[:, None] + half * (1.0 + NODES)
    return z, half * WEIGHTS * density(z)


def means_inside(w1, z1, w2, z2, low, high):
    """Return the conditional means (n, 3) of two gridded deviations and the one between limits."""
    open_ = low < high
    inside = np.where(open_, ndtr(high) - ndtr(low), 0.0)
    moment = np.where(open_, density(low) - density(high), 0.0)
    mass = np.einsum("na,nb,nab->n", w1, w2, inside)
    return np.column_stack(
        [
            np.einsum("na,nb,nab->n", w1 * z1, w2, inside) / mass,
            np.einsum("na,nb,nab->n", w1, w2 * z2, inside) / mass,
            np.einsum("na,nb,nab->n", w1, w2, moment) / mass,
        ]
    )


def linear_residuals(matrix, means, chosen, outcome):
    """Return E[y - mean | seen] (n, 4) under LinearArgmax(matrix)."""
    residual = np.zeros_like(means)
    for j in range(4):
        here = np.flatnonzero(chosen == j)
        first, second, inner = others = [m for m in range(4) if m != j]
        ends = np.full(here.size, REACH)
        z1, w1 = grid(-ends, ends)
        y1 = (means[here, first][:, None] + z1)[:, :, None]
        y2 = (means[here, second][:, None] + z1)[:, None, :]
        low = np.full((here.size, len(NODES), len(NODES)), -np.inf)
        high = np.full(low.shape, np.inf)
        center = means[here, inner][:, None, None]
        for other in others:
            slope = matrix[j] - matrix[other]
            rest = slope[j] * outcome[here, None, None] + slope[first] * y1 + slope[second] * y2
            if slope[inner] > 0:
                low = np.maximum(low, -rest / slope[inner] - center)
            elif slope[inner] < 0:
                high = np.minimum(high, -rest / slope[inner] - center)
            else:
                high = np.where(rest >= 0, high, -np.inf)
        residual[np.ix_(here, others)] = means_inside(w1, z1, w1, z1, low, high)
    return residual


def curved_residuals(weight, means, chosen, outcome):
    """Return E[y - mean | seen] (n, 4) under the curved rule."""
    residual = np.zeros_like(means)
    fourth = chosen == 3
    gap = 1.0 - means[fourth, 2]
    residual[fourth, 2] = -density(gap) / ndtr(gap)
    for j, other in ((0, 1), (1, 0)):
        here = np.flatnonzero(chosen == j)
        low = np.full(here.size, -REACH)
        z3, w3 = grid(low, np.clip(1.0 - means[here, 2], -REACH + 0.1, REACH))
        z4, w4 = grid(low, np.clip(1.0 - means[here, 3], -REACH + 0.1, REACH))
        both = (means[here, 2][:, None] + z3)[:, :, None]
        both = both + (means[here, 3][:, None] + z4)[:, None, :]
        level = np.exp(outcome[here])[:, None, None] + (-1.0 if j == 0 else 1.0) * weight * both
        limit = np.where(level > 0, np.log(np.maximum(level, 1e-300)), -np.inf)
        limit = limit - means[here, other][:, None, None]
        found = means_inside(w3, z3, w4, z4, np.full(limit.shape, -np.inf), limit)
        residual[np.ix_(here, [2, 3, other])] = found
    return residual


def maximise(residuals, start, covariance, design, chosen, outcome, tol=0.01, max_steps=60):
    """Climb from `start` (4, p) by Newton steps with a covariance that is about right.

    Returns the coefficients and the length of the last step in standard errors.
    """
    best = start.copy()
    each = np.arange(len(outcome))
    for _ in range(max_steps):
        means = design @ best.T
        residual = residuals(means, chosen, outcome)
        residual[each, chosen] = outcome - means[each, chosen]
        step = covariance @ (residual.T @ design).ravel()
        best = best + step.reshape(best.shape)
        last = float(np.abs(step / np.sqrt(np.diag(covariance))).max())
        if last < tol:
            break
    return best, last
