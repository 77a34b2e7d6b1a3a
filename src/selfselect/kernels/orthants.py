r"""The chance that up to three correlated normals lie below their limits, and its derivatives.

The derivative of :math:`\Phi_q(b; R)` in :math:`b_l` is :math:`\phi(b_l)` times the chance of the
other normals given that this one is at its limit: one of dimension q - 1, whose own derivatives
are found in the same way. So only the values need quadrature, and derivatives of all orders are as
exact as they are. All are relative to the chance itself, in log space, and stay finite where it
underflows.

With independent normals :math:`e` and :math:`u = C e`, they are moments of e within the polyhedron
:math:`C e \le b`: the mean of the Hermite polynomial of order m is the derivative of order m,
contracted with :math:`-C` in each of its places.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.bivariate import log_bivariate_cdf
from selfselect.kernels.tails import HALF_LOG_TWO_PI, log_cdf
from selfselect.kernels.trivariate import log_trivariate_cdf

__all__ = ["LARGEST", "hermite_means", "log_orthant", "orthant_slopes"]

Array = NDArray[np.float64]

LARGEST = 3
"""Dimensions up to which there is a quadrature for the chance."""


def log_orthant(limit: Array, correlation: Array) -> Array:
    """Return log chances (n,) of normals to lie below limits (q, n)."""
    if len(limit) == 0:
        return np.zeros(limit.shape[1])
    if len(limit) == 1:
        return log_cdf(limit[0])
    if len(limit) == 2:
        return log_bivariate_cdf(limit[0], limit[1], float(correlation[0, 1]))
    return log_trivariate_cdf(limit, correlation)


def orthant_slopes(limit: Array, correlation: Array, order: int) -> tuple[Array, list[Array]]:
    """Return log chances (n,), and derivatives of the chances over the chances.

    Derivatives are of the orders 0 to `order`, in arrays (n,), (q, n), (q, q, n), ...
    """
    log_chance = log_orthant(limit, correlation)
    q, n = limit.shape
    slopes = [np.ones(n)] + [np.zeros((*(q,) * m, n)) for m in range(1, order + 1)]
    for own in range(q if order else 0):
        at = limit[own]
        others = [one for one in range(q) if one != own]
        given = correlation[others, own]
        left = np.sqrt(1.0 - given**2)
        # How the others' standardised limits move with all limits.
        moves = np.zeros((q - 1, q))
        moves[np.arange(q - 1), others] = 1.0 / left
        moves[:, own] = -given / left
        rest = (correlation[np.ix_(others, others)] - np.outer(given, given)) / np.outer(left, left)
        log_rest, inner = orthant_slopes(moves @ limit, rest, order - 1)
        weight = np.exp(-0.5 * at * at - HALF_LOG_TWO_PI + log_rest - log_chance)
        inner = [weight * contracted(one, moves) for one in inner]
        falls = _density_slopes(at, order - 1)
        for m in range(1, order + 1):
            # Leibniz: each of the other places is the density's, whose limit is its own, or not.
            for size in range(m):
                for places in combinations(range(m - 1), size):
                    index = tuple(own if one in places else slice(None) for one in range(m - 1))
                    slopes[m][(own, *index)] += falls[size] * inner[m - 1 - size]
    return log_chance, slopes


def hermite_means(slopes: Sequence[Array], loadings: Array) -> list[Array]:
    """Return means of Hermite polynomials of e given C e <= b, from slopes in b: (p, ..., n)."""
    return [contracted(one, -loadings) for one in slopes]


def contracted(tensor: Array, matrix: Array) -> Array:
    """Multiply every place of a tensor (q, ..., q, n) by a matrix (q, p)."""
    for _ in range(tensor.ndim - 1):
        # The first place goes to the end of the places; after all of them the order is the same.
        tensor = np.moveaxis(np.tensordot(matrix, tensor, axes=(0, 0)), 0, -2)
    return tensor


def _density_slopes(at: Array, order: int) -> list[Array]:
    """Return derivatives of the normal density over itself, of the orders 0 to `order`."""
    found = [np.ones_like(at), -at]
    for m in range(1, order):
        found.append(-at * found[m] - m * found[m - 1])
    return found[: order + 1]
