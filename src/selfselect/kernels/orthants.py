"""Probabilities of two and three normals below their limits, with derivatives of all orders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, reduce
from itertools import combinations_with_replacement, pairwise, product
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.tails import HALF_LOG_TWO_PI, log_cdf, mills_terms, ndtr

Array = NDArray[np.float64]


# The bivariate normal distribution function in log space, with derivatives.
#
# :math:`\Phi_2(a, b; \rho)` is :math:`\Phi(a)\Phi(b)` and an integral over the correlation from
# zero to :math:`\rho` (Plackett; Drezner and Wesolowsky), by Gauss-Legendre on panels that shrink
# towards a correlation of one. That is exact to rounding of one. Where the probability itself is
# small, it is :math:`\int_{-\infty}^a \phi(s)\,\Phi((b - \rho s)/\sqrt{1 - \rho^2})\,ds` instead,
# whose integrand is log-concave: nodes lie around its mode, and logarithms neither underflow nor
# cancel.


NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(20)
TAIL_NODES, TAIL_WEIGHTS = np.polynomial.legendre.leggauss(40)

FEWER_NODES = ((0.5, 8), (0.7, 12), (0.9, 20))
"""Correlations up to which one panel of so many nodes is exact to rounding of one."""

SMALL = 1e-5
"""Probability below which it is integrated in log space; above, rounding leaves eleven digits."""
REACH = 9.0
"""Distance from the mode, at which the integrand is below 1e-17 of it: its logarithm is curved by
one and more."""
FALL = 42.0
"""Fall of the integrand's logarithm beyond which the rest is nothing."""
HALVINGS = 60
DOUBLINGS = 6
"""Of the width that the curvature at the mode gives, until nothing of the integrand is left."""


@dataclass(frozen=True, eq=False)
class BivariateTerms:
    """log Φ₂(a, b; tanh t), its slopes (3, n) and curvature (3, 3, n) in a, b and t."""

    log_mass: Array
    slope: Array
    curvature: Array


class Angles(NamedTuple):
    """Nodes of the integral over the correlation, at which exp(c ab - s (a² + b²)) is summed up.

    Attributes
    ----------
    by_square : s of each node.
    by_product : c.
    weight : of the exponential.
    """

    by_square: Array
    by_product: Array
    weight: Array


@lru_cache(maxsize=16)
def angles(rho: float) -> Angles:
    """Return the nodes by which Φ₂ is Φ(a)Φ(b) and a sum; `rho` lies between -1 and 1."""
    angle = math.asin(rho)
    few = [n for largest, n in FEWER_NODES if abs(rho) <= largest]
    nodes, weights = np.polynomial.legendre.leggauss(few[0]) if few else (NODES, NODE_WEIGHTS)
    made = []
    for low, high in [(0.0, angle)] if few else _panels(angle):
        theta = 0.5 * (high + low) + 0.5 * (high - low) * nodes
        sine, inverse = np.sin(theta), 1.0 / np.cos(theta) ** 2
        made.append((0.5 * inverse, sine * inverse, (high - low) * weights / (4.0 * np.pi)))
    return Angles(*(np.concatenate(one) for one in zip(*made, strict=True)))


def log_bivariate_cdf(a: Array, b: Array, rho: float) -> Array:
    """Evaluate log Φ₂ at every pair; `rho` lies strictly between -1 and 1."""
    first, second = log_cdf(a), log_cdf(b)
    angle = math.asin(rho)
    found = np.exp(first + second)
    square = a * a + b * b
    for low, high in _panels(angle):
        theta = 0.5 * (high + low) + 0.5 * (high - low) * NODES
        sine, cosine = np.sin(theta), np.cos(theta)
        inside = np.exp(-(square[:, None] - 2.0 * np.outer(a * b, sine)) / (2.0 * cosine**2))
        found += inside @ (0.5 * (high - low) * NODE_WEIGHTS) / (2.0 * np.pi)
    small = ~(found > SMALL)
    with np.errstate(divide="ignore"):
        log_mass: Array = np.log(np.where(small, 1.0, found))
    if small.any():
        log_mass[small] = _log_tail(a[small], b[small], rho)
    return log_mass


def _panels(angle: float) -> list[tuple[float, float]]:
    """Split the angles from zero to one of them, finer towards a right angle."""
    ends, end, size = [0.0], 0.0, abs(angle)
    while end < size:
        # Each panel ends half way to the right angle.
        end = min(size, end + 0.5 * (0.5 * math.pi - end))
        if size - end < 0.1 * (0.5 * math.pi - size):
            end = size
        ends.append(end)
    sign = math.copysign(1.0, angle)
    return [(sign * low, sign * high) for low, high in pairwise(ends)]


def _log_tail(a: Array, b: Array, rho: float) -> Array:
    """Integrate in log space, over the argument that lies further left."""
    a, b = np.minimum(a, b), np.maximum(a, b)
    q = math.sqrt(1.0 - rho**2)

    def slope(s: Array) -> Array:
        return np.asarray(-s - rho / q * mills_terms((b - rho * s) / q).ratio)

    low, high = a - (REACH + np.abs(a) + np.abs(b) / q), a.copy()
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        rising = slope(middle) > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    mode = np.where(slope(a) > 0, a, high)
    # To the left the logarithm falls at least by its slope at the mode, and by half a square.
    steep = np.maximum(slope(mode), 0.0)
    left = np.minimum(REACH, FALL / np.maximum(steep, FALL / REACH))
    narrow = 1.0 / np.sqrt(1.0 + rho**2 / q**2 * mills_terms((b - rho * mode) / q).slope)

    def value(s: Array) -> Array:
        return np.asarray(-0.5 * s * s - HALF_LOG_TWO_PI + log_cdf((b - rho * s) / q))

    pieces, top = [], value(mode)
    for way, most in ((-1.0, left), (1.0, np.minimum(a - mode, REACH))):
        # It is curved by one at least, and away from the mode by less than there.
        size = np.minimum(narrow, most)
        for _ in range(DOUBLINGS):
            far = top - value(mode + way * size) > FALL
            size = np.where(far, size, np.minimum(2.0 * size, most))
        s = mode + way * 0.5 * np.multiply.outer(1.0 + TAIL_NODES, size)
        with np.errstate(divide="ignore"):
            pieces.append(top + np.log(TAIL_WEIGHTS @ np.exp(value(s) - top) * 0.5 * size))
    return np.asarray(np.logaddexp(*pieces))


def bivariate_terms(a: Array, b: Array, t: float) -> BivariateTerms:
    """Evaluate log Φ₂ with its derivatives, of the correlation on Fisher's scale."""
    rho, q2 = math.tanh(t), 1.0 / math.cosh(t) ** 2
    q = math.sqrt(q2)
    log_mass = log_bivariate_cdf(a, b, rho)
    at_a, at_b = (b - rho * a) / q, (a - rho * b) / q
    with np.errstate(under="ignore"):
        by_a = np.exp(-0.5 * a * a - HALF_LOG_TWO_PI + log_cdf(at_a) - log_mass)
        by_b = np.exp(-0.5 * b * b - HALF_LOG_TWO_PI + log_cdf(at_b) - log_mass)
        density = np.exp(-0.5 * (a * a + at_a * at_a) - 2 * HALF_LOG_TWO_PI - log_mass) / q
    slope = np.stack([by_a, by_b, q2 * density])
    own = np.empty((3, 3, len(a)))
    own[0, 0], own[1, 1] = -a * by_a - rho * density, -b * by_b - rho * density
    own[0, 1] = own[1, 0] = density
    # In t: dρ/dt = q², d²ρ/dt² = -2 ρ q².
    own[0, 2] = own[2, 0] = -density * (a - rho * b)
    own[1, 2] = own[2, 1] = -density * (b - rho * a)
    both = a * b * (1.0 + rho**2) - rho * (a * a + b * b)
    own[2, 2] = density * (both - rho * q2)
    return BivariateTerms(log_mass, slope, own - slope[:, None] * slope[None, :])


# The trivariate normal distribution function in log space.
#
# With the two smaller correlations multiplied by t, :math:`\Phi_3` at t = 0 is
# :math:`\Phi(x)\Phi_2(y, z)`, and its derivative in t is a sum of two bivariate densities times a
# :math:`\Phi` (Plackett; Genz 2004). That is integrated by Gauss-Legendre, on panels that shrink
# towards t = 1 where the three are close to dependent: exact to rounding of one. Where the
# probability itself is small, it is :math:`\int_{-\infty}^x \phi(s)\,\Phi_2(y, z \mid s)\,ds`
# instead, whose integrand is log-concave: nodes lie around its mode, as in `bivariate`.


TRIPLE_NODES, TRIPLE_WEIGHTS = np.polynomial.legendre.leggauss(16)

RESOLVED = 0.5
"""Share that is left, at the end of a panel, of what divides the integrand: the smallest eigenvalue
and the determinant of the matrix, and one less the square of each correlation that moves."""
TRIPLE_HALVINGS = 40


class _Path(NamedTuple):
    """Nodes along t for the pair (x, y), with z conditioned on, in arrays of one number a node.

    Attributes
    ----------
    by_square, by_product : the exponent is by_product xy - by_square (x² + y²).
    weight : of the node.
    slope : (3, nodes) of x, y and z in the argument of Φ.
    """

    by_square: Array
    by_product: Array
    weight: Array
    slope: Array


def log_trivariate_cdf(a: Array, correlation: Array) -> Array:
    """Evaluate log Φ₃ at every column of `a` (3, n); the correlations (3, 3) are definite."""
    # The pair with the largest correlation keeps it.
    pairs = np.abs(correlation[[1, 0, 0], [2, 2, 1]])
    first = int(pairs.argmax())
    order = [first, *(one for one in range(3) if one != first)]
    a, correlation = a[order], correlation[np.ix_(order, order)]
    found = np.exp(log_cdf(a[0]) + log_bivariate_cdf(a[1], a[2], float(correlation[1, 2])))
    paths = _paths(*correlation[[0, 0, 1], [1, 2, 2]].tolist())
    for other, path in zip((1, 2), paths, strict=True):
        x, y, z = a[0], a[other], a[3 - other]
        exponent = np.multiply.outer(path.by_product, x * y)
        exponent -= np.multiply.outer(path.by_square, x * x + y * y)
        at = path.slope.T @ np.stack([x, y, z])
        found += path.weight @ (np.exp(exponent, out=exponent) * ndtr(at))
    small = ~(found > SMALL)
    log_mass: Array = np.log(np.where(small, 1.0, found))
    if small.any():
        log_mass[small] = _log_triple_tail(a[:, small], correlation)
    return log_mass


@lru_cache(maxsize=64)
def _paths(xy: float, xz: float, yz: float) -> tuple[_Path, _Path]:
    """Return the nodes of both pairs, with the correlations of x multiplied by t."""
    matrix = np.array([[1.0, xy, xz], [xy, 1.0, yz], [xz, yz, 1.0]])
    t, weight = _triple_panels(matrix)
    return _path(t, weight, xy, xz, yz), _path(t, weight, xz, xy, yz)


def _path(t: Array, weight: Array, xy: float, xz: float, yz: float) -> _Path:
    r, o = xy * t, xz * t
    left = 1.0 - r * r
    by_x, by_y = (o - r * yz) / left, (yz - r * o) / left
    spread = np.sqrt(1.0 - by_x * o - by_y * yz)
    return _Path(
        0.5 / left,
        r / left,
        xy * weight / (2.0 * np.pi * np.sqrt(left)),
        np.stack([-by_x / spread, -by_y / spread, 1.0 / spread]),
    )


def _triple_panels(matrix: Array) -> tuple[Array, Array]:
    """Return nodes from 0 to 1 and their weights: matrices change little over any panel."""
    apart = matrix.copy()
    apart[0, 1:] = apart[1:, 0] = 0.0

    def left(t: float) -> Array:
        there = apart + t * (matrix - apart)
        values = np.linalg.eigvalsh(there)
        return np.array([values[0], values.prod(), *(1.0 - there[0, 1:] ** 2)])

    ends = [0.0]
    while ends[-1] < 1.0:
        step, here = 1.0 - ends[-1], left(ends[-1])
        while (left(ends[-1] + step) < RESOLVED * here).any():
            step *= 0.5
        ends.append(min(1.0, ends[-1] + step))
    width = np.diff(ends)
    t = np.add.outer(np.array(ends[:-1]), 0.0 * TRIPLE_NODES) + 0.5 * np.outer(
        width, 1.0 + TRIPLE_NODES
    )
    return t.ravel(), np.outer(0.5 * width, TRIPLE_WEIGHTS).ravel()


def _log_triple_tail(a: Array, correlation: Array) -> Array:
    """Integrate in log space, over the argument that lies furthest left."""
    found = np.empty(a.shape[1])
    outer = a.argmin(axis=0)
    for first in range(3):
        mine = np.flatnonzero(outer == first)
        if mine.size:
            order = np.array([first, *(one for one in range(3) if one != first)])
            found[mine] = _log_tail_from(a[np.ix_(order, mine)], correlation[np.ix_(order, order)])
    return found


def _log_tail_from(a: Array, correlation: Array) -> Array:
    given = correlation[1:, 0]
    left = np.sqrt(1.0 - given**2)
    rho = float((correlation[1, 2] - given[0] * given[1]) / (left[0] * left[1]))
    lean = given / left
    angle = math.atanh(rho)

    def others(s: Array) -> tuple[Array, Array]:
        first, second = (
            (limit - share * s) / q for limit, share, q in zip(a[1:], given, left, strict=True)
        )
        return first, second

    def slope(s: Array) -> Array:
        return np.asarray(-s - lean @ bivariate_terms(*others(s), angle).slope[:2])

    low = a[0] - (REACH + np.abs(a[0]) + (np.abs(a[1:]) / left[:, None]).sum(axis=0))
    high = a[0].copy()
    for _ in range(TRIPLE_HALVINGS):
        middle = 0.5 * (low + high)
        rising = slope(middle) > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    at_end = slope(a[0])
    mode = np.where(at_end > 0, a[0], high)
    # To the left the logarithm falls at least by its slope at the mode, and by half a square.
    steep = np.where(at_end > 0, at_end, 0.0)
    to_left = FALL / np.maximum(steep, FALL / REACH)
    bend = bivariate_terms(*others(mode), angle).curvature[:2, :2]
    # Log-concave: rounding must not bend it the other way.
    narrow = 1.0 / np.sqrt(1.0 - np.minimum(np.einsum("i,ijn,j->n", lean, bend, lean), 0.0))

    def value(s: Array) -> Array:
        y, z = others(s)
        found = log_bivariate_cdf(y.ravel(), z.ravel(), rho).reshape(s.shape)
        return np.asarray(found - 0.5 * s * s - HALF_LOG_TWO_PI)

    pieces, top = [], value(mode)
    for way, most in ((-1.0, to_left), (1.0, np.minimum(a[0] - mode, REACH))):
        # It is curved by one at least, and away from the mode by less than there.
        size = np.minimum(narrow, most)
        for _ in range(DOUBLINGS):
            far = top - value(mode + way * size) > FALL
            size = np.where(far, size, np.minimum(2.0 * size, most))
        s = mode + way * 0.5 * np.multiply.outer(1.0 + TAIL_NODES, size)
        with np.errstate(divide="ignore"):
            pieces.append(top + np.log(TAIL_WEIGHTS @ np.exp(value(s) - top) * 0.5 * size))
    return np.asarray(np.logaddexp(*pieces))


# The chance that up to three correlated normals lie below their limits, and its derivatives.
#
# The derivative of :math:`\Phi_q(b; R)` in :math:`b_l` is :math:`\phi(b_l)` times the chance of
# the other normals given that this one is at its limit: one of dimension q - 1, whose own
# derivatives are found in the same way. So only the values need quadrature, and derivatives of all
# orders are as exact as they are. All are relative to the chance itself, in log space, and stay
# finite where it underflows.
#
# Derivatives do not depend on the order of their places. Those of order m are kept once for every
# sorted tuple of m places, in the order of `keys`.
#
# With independent normals :math:`e` and :math:`u = C e`, they are moments of e within the
# polyhedron :math:`C e \le b`: the mean of the Hermite polynomial of order m is the derivative of
# order m, contracted with :math:`-C` in each of its places.

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
