r"""The chance that up to three correlated normals lie below their limits, and its derivatives.

The derivative of :math:`\Phi_q(b; R)` in :math:`b_l` is :math:`\phi(b_l)` times the chance of the
other normals given that this one is at its limit: one of dimension q - 1, whose own derivatives
are found in the same way. So only the values need quadrature, and derivatives of all orders are as
exact as they are. All are relative to the chance itself, in log space, and stay finite where it
underflows.

Derivatives do not depend on the order of their places. Those of order m are kept once for every
sorted tuple of m places, in the order of `keys`.

With independent normals :math:`e` and :math:`u = C e`, they are moments of e within the polyhedron
:math:`C e \le b`: the mean of the Hermite polynomial of order m is the derivative of order m,
contracted with :math:`-C` in each of its places.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache, reduce
from itertools import combinations_with_replacement, product
from math import comb

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.bivariate import log_bivariate_cdf
from selfselect.kernels.tails import HALF_LOG_TWO_PI, log_cdf
from selfselect.kernels.trivariate import log_trivariate_cdf

__all__ = ["LARGEST", "hermite_means", "keys", "log_orthant", "orthant_slopes"]

Array = NDArray[np.float64]
Key = tuple[int, ...]

LARGEST = 3
"""Dimensions up to which there is a quadrature for the chance."""


@cache
def keys(dimension: int, order: int) -> dict[Key, int]:
    """Return the sorted tuples of places of a symmetric tensor, and where each is kept."""
    every = combinations_with_replacement(range(dimension), order)
    return {key: at for at, key in enumerate(every)}


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

    Derivatives are of the orders 0 to `order`, each an array with a row per key.
    """
    log_chance = log_orthant(limit, correlation)
    q, n = limit.shape
    slopes = [np.ones((1, n))] + [np.empty((len(keys(q, m)), n)) for m in range(1, order + 1)]
    for own in range(q if order else 0):
        at = limit[own]
        others = np.array([one for one in range(q) if one != own], dtype=np.intp)
        given = correlation[others, own]
        left = np.sqrt(1.0 - given**2)
        # How the others' standardised limits move with all limits.
        moves = np.zeros((q - 1, q))
        moves[np.arange(q - 1), others] = 1.0 / left
        moves[:, own] = -given / left
        rest = (correlation[np.ix_(others, others)] - np.outer(given, given)) / np.outer(left, left)
        log_rest, inner = orthant_slopes(moves @ limit, rest, order - 1)
        weight = np.exp(-0.5 * at * at - HALF_LOG_TWO_PI + log_rest - log_chance)
        inner = [weight * _turned(one, moves, m) for m, one in enumerate(inner)]
        falls = _density_slopes(at, order - 1)
        for m in range(1, order + 1):
            for key, place in keys(q, m).items():
                if key[0] == own:
                    slopes[m][place] = _leibniz(key, falls, inner, q)
    return log_chance, slopes


def _leibniz(key: Key, falls: list[Array], inner: list[Array], dimension: int) -> Array:
    """Return the derivative of the density at the first place of a key times what is within.

    The density depends on that place only, so of the others those that are the same may be its.
    """
    own, rest = key[0], key[1:]
    same = rest.count(own)
    total = np.zeros_like(falls[0])
    for size in range(same + 1):
        left = rest[size:]
        total += comb(same, size) * falls[size] * inner[len(left)][keys(dimension, len(left))[left]]
    return total


def hermite_means(slopes: Sequence[Array], loadings: Array) -> list[Array]:
    """Return means of Hermite polynomials of e given C e <= b, from slopes in b."""
    return [_turned(one, -loadings, m) for m, one in enumerate(slopes)]


def _turned(tensor: Array, matrix: Array, order: int) -> Array:
    """Multiply every place of a symmetric tensor in q dimensions by a matrix (q, p)."""
    if order == 0:
        return tensor
    return np.asarray(_turn(matrix.tobytes(), matrix.shape, order) @ tensor)


@lru_cache(maxsize=1_024)
def _turn(numbers: bytes, shape: tuple[int, int], order: int) -> Array:
    """Return what multiplies the kept entries, one row per key in p dimensions."""
    q, p = shape
    matrix = np.frombuffer(numbers).reshape(shape)
    before, after = keys(q, order), keys(p, order)
    turn = np.zeros((len(after), len(before)))
    columns = np.array(list(after), dtype=np.intp)
    for places in product(range(q), repeat=order):
        factors = (matrix[place, columns[:, at]] for at, place in enumerate(places))
        turn[:, before[tuple(sorted(places))]] += reduce(np.multiply, factors)
    return turn


def _density_slopes(at: Array, order: int) -> list[Array]:
    """Return derivatives of the normal density over itself, of the orders 0 to `order`."""
    found = [np.ones_like(at), -at]
    for m in range(1, order):
        found.append(-at * found[m] - m * found[m - 1])
    return found[: order + 1]
