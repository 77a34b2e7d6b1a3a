r"""The trivariate normal distribution function in log space.

With the two smaller correlations multiplied by t, :math:`\Phi_3` at t = 0 is
:math:`\Phi(x)\Phi_2(y, z)`, and its derivative in t is a sum of two bivariate densities times a
:math:`\Phi` (Plackett; Genz 2004). That is integrated by Gauss-Legendre, on panels that shrink
towards t = 1 where the three are close to dependent: exact to rounding of one. Where the
probability itself is small, it is :math:`\int_{-\infty}^x \phi(s)\,\Phi_2(y, z \mid s)\,ds`
instead, whose integrand is log-concave: nodes lie around its mode, as in `bivariate`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.bivariate import bivariate_terms, log_bivariate_cdf
from selfselect.kernels.special import ndtr
from selfselect.kernels.tails import HALF_LOG_TWO_PI, log_cdf

__all__ = ["log_trivariate_cdf"]

Array = NDArray[np.float64]

NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(16)
TAIL_NODES, TAIL_WEIGHTS = np.polynomial.legendre.leggauss(40)

RESOLVED = 0.5
"""Smallest eigenvalue that is left at the end of a panel, as a share of that at its start."""

SMALL = 1e-5
"""Probability below which it is integrated in log space; above, rounding leaves ten digits."""
REACH = 9.0
FALL = 42.0
"""Distance from the mode, and fall of the logarithm, at which nothing of the integrand is left."""
HALVINGS = 40
DOUBLINGS = 6
"""Of the curvature's width, until so far from the mode."""


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
        log_mass[small] = _log_tail(a[:, small], correlation)
    return log_mass


@lru_cache(maxsize=64)
def _paths(xy: float, xz: float, yz: float) -> tuple[_Path, _Path]:
    """Return the nodes of both pairs, with the correlations of x multiplied by t."""
    matrix = np.array([[1.0, xy, xz], [xy, 1.0, yz], [xz, yz, 1.0]])
    t, weight = _panels(matrix)
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


def _panels(matrix: Array) -> tuple[Array, Array]:
    """Return nodes from 0 to 1 and their weights: matrices change little over any panel."""
    apart = matrix.copy()
    apart[0, 1:] = apart[1:, 0] = 0.0

    def smallest(t: float) -> float:
        return float(np.linalg.eigvalsh(apart + t * (matrix - apart))[0])

    ends = [0.0]
    while ends[-1] < 1.0:
        step, here = 1.0 - ends[-1], smallest(ends[-1])
        while smallest(ends[-1] + step) < RESOLVED * here:
            step *= 0.5
        ends.append(min(1.0, ends[-1] + step))
    width = np.diff(ends)
    t = np.add.outer(np.array(ends[:-1]), 0.0 * NODES) + 0.5 * np.outer(width, 1.0 + NODES)
    return t.ravel(), np.outer(0.5 * width, NODE_WEIGHTS).ravel()


def _log_tail(a: Array, correlation: Array) -> Array:
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
    for _ in range(HALVINGS):
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
