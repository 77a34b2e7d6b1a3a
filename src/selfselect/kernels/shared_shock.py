r"""A shock shared by all alternatives: a mixture of independent noise over the shock.

With noise :math:`b_l u + \sigma_l e_l` and :math:`\beta_l = b_l/\sigma_l`, an atom adds

.. math:: \log\int \phi(u)\,\phi(a_j - \beta_j u) \prod_{l \ne j} \Phi(a_l - \beta_l u)\,du.

The outcome that is seen pins the shock: the first two factors are a normal density of u, around
:math:`\beta_j a_j/(1 + \beta_j^2)` with variance :math:`1/(1 + \beta_j^2)`, times a constant. The
rest is integrated against that density by Gauss-Hermite quadrature, so nodes go where the shock
may be, also where it dominates. Where another alternative's chance changes faster than that
density, it is a step that Gauss-Hermite cannot resolve: then the range is cut around every step
and each piece integrated by Gauss-Legendre. Derivatives are those of the mixture (Louis 1982), at
the same nodes.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numba import types

from selfselect.kernels._compile import compiled, strict
from selfselect.kernels._mills import mills
from selfselect.kernels._scalars import HALF_LOG_TWO_PI
from selfselect.kernels.joint import Array, Indices, JointTerms, Sides

__all__ = ["STEEP", "hermite", "shared_shock_atoms"]

STEEP = 1.2
"""Slope of a factor, per standard deviation of the shock given the outcome, from which the range
is cut around it."""

REACH = 8.0
"""Standard deviations of the shock given the outcome that are integrated over where it is cut."""


def shared_shock_atoms(
    a: Array, seen: Indices, side: Sides, loadings: Array, *, nodes: int, curvature: bool
) -> JointTerms:
    """Evaluate atoms; the inputs are all a, then all loadings in units of the own scales.

    Arguments are those of `independent_atoms`, the (k,) loadings, and the number of nodes.
    """
    n_atoms, k = a.shape
    loglik, gradient = np.empty(n_atoms), np.empty((n_atoms, 2 * k))
    hessian = np.empty((n_atoms if curvature else 0, 2 * k, 2 * k))
    at, weight = hermite(nodes)
    flat_at, flat_weight = _legendre(max(4, (2 * nodes) // 3))
    _mix(
        np.ascontiguousarray(a), np.ascontiguousarray(seen, dtype=np.int64),
        np.ascontiguousarray(side), np.ascontiguousarray(loadings),
        at, np.log(weight), flat_at, flat_weight, loglik, gradient, hessian,
    )  # fmt: skip
    return JointTerms(loglik, gradient, hessian if curvature else None)


@cache
def _legendre(nodes: int) -> tuple[Array, Array]:
    """Return nodes and weights of the interval [0, 1]."""
    at, weight = np.polynomial.legendre.leggauss(nodes)
    return 0.5 * (1.0 + at), 0.5 * weight


@cache
def hermite(nodes: int) -> tuple[Array, Array]:
    """Return nodes and weights of the standard normal density."""
    at, weight = np.polynomial.hermite.hermgauss(nodes)
    return np.sqrt(2.0) * at, weight / np.sqrt(np.pi)


@strict
def _cut(a, j, side, loadings, centre, spread, edges, flat_at, flat_weight, shock, log_weight):  # type: ignore[no-untyped-def]
    """Fill in nodes and log weights of pieces between the steps; return how many there are."""
    low, high = centre - REACH * spread, centre + REACH * spread
    edges[0], edges[1], edges[2] = low, centre, high
    n_edges = 3
    for m in range(a.shape[0]):
        if m != j and side[m] != 0 and abs(loadings[m]) * spread > STEEP:
            for reach in (-6.0, -2.0, 2.0, 6.0):
                edge = (a[m] + reach) / loadings[m]
                if low < edge < high:
                    edges[n_edges] = edge
                    n_edges += 1
    kept = edges[:n_edges]
    kept.sort()
    count = 0
    for piece in range(n_edges - 1):
        width = kept[piece + 1] - kept[piece]
        if width <= 0.0:
            continue
        for q in range(flat_at.shape[0]):
            u = kept[piece] + width * flat_at[q]
            z = (u - centre) / spread
            shock[count] = u
            log_weight[count] = (
                math.log(width * flat_weight[q] / spread) - 0.5 * z * z - HALF_LOG_TWO_PI
            )
            count += 1
    return count


def _c(dtype: types.Type, ndim: int) -> types.Array:
    return types.Array(dtype, ndim, "C", readonly=True)


_OUT = types.Array(types.float64, 1, "C"), types.Array(types.float64, 2, "C")


@compiled(
    types.void(
        _c(types.float64, 2),
        _c(types.int64, 1),
        _c(types.int8, 2),
        _c(types.float64, 1),
        _c(types.float64, 1),
        _c(types.float64, 1),
        _c(types.float64, 1),
        _c(types.float64, 1),
        *_OUT,
        types.Array(types.float64, 3, "C"),
    )
)
def _mix(a, seen, side, loadings, at, log_at, flat_at, flat_weight, loglik, gradient, hessian):  # type: ignore[no-untyped-def]
    n_atoms, k = a.shape
    most = max(at.shape[0], (4 * k + 2) * flat_at.shape[0])
    log_weight = np.empty(most)
    slope = np.empty((most, k))
    bend = np.empty((most, k))
    shock = np.empty(most)
    edges = np.empty(4 * k + 3)
    for i in range(n_atoms):
        j = seen[i]
        own = loadings[j]
        total = 1.0 + own * own
        centre, spread = own * a[i, j] / total, 1.0 / math.sqrt(total)
        steep = False
        for m in range(k):
            if m != j and side[i, m] != 0 and abs(loadings[m]) * spread > STEEP:
                steep = True
        if steep:
            n_nodes = _cut(
                a[i], j, side[i], loadings, centre, spread, edges, flat_at, flat_weight,
                shock, log_weight,
            )  # fmt: skip
        else:
            n_nodes = at.shape[0]
            for q in range(n_nodes):
                shock[q] = centre + spread * at[q]
                log_weight[q] = log_at[q]
        largest = -np.inf
        for q in range(n_nodes):
            u = shock[q]
            logp = log_weight[q]
            for m in range(k):
                b = a[i, m] - loadings[m] * u
                if m == j:
                    slope[q, m], bend[q, m] = -b, -1.0
                elif side[i, m] == 0:
                    slope[q, m], bend[q, m] = 0.0, 0.0
                else:
                    log_cdf, ratio, fall = mills(side[i, m] * b)
                    logp += log_cdf
                    slope[q, m], bend[q, m] = side[i, m] * ratio, -fall
            log_weight[q] = logp
            largest = max(largest, logp)
        mass = 0.0
        for q in range(n_nodes):
            log_weight[q] = math.exp(log_weight[q] - largest)
            mass += log_weight[q]
        loglik[i] = (
            largest + math.log(mass)
            - 0.5 * a[i, j] ** 2 / total - 0.5 * math.log(total) - HALF_LOG_TWO_PI
        )  # fmt: skip
        for m in range(2 * k):
            gradient[i, m] = 0.0
        for q in range(n_nodes):
            p = log_weight[q] / mass
            log_weight[q] = p
            for m in range(k):
                gradient[i, m] += p * slope[q, m]
                gradient[i, k + m] -= p * shock[q] * slope[q, m]
        if hessian.shape[0] == 0:
            continue
        for m in range(2 * k):
            for o in range(2 * k):
                hessian[i, m, o] = -gradient[i, m] * gradient[i, o]
        for q in range(n_nodes):
            p, u = log_weight[q], shock[q]
            for m in range(k):
                for o in range(m + 1):
                    both = p * slope[q, m] * slope[q, o]
                    if m == o:
                        both += p * bend[q, m]
                    hessian[i, m, o] += both
                    hessian[i, k + m, o] -= u * both
                    hessian[i, k + m, k + o] += u * u * both
                    if m != o:
                        hessian[i, k + o, m] -= u * both
        for m in range(2 * k):
            for o in range(m):
                hessian[i, o, m] = hessian[i, m, o]
