r"""A shock shared by all alternatives: a mixture of independent noise over the shock.

With noise :math:`b_l u + \sigma_l e_l` and :math:`\beta_l = b_l/\sigma_l`, an atom adds

.. math:: \log\int \phi(u)\,\phi(a_j - \beta_j u) \prod_{l \ne j} \Phi(a_l - \beta_l u)\,du.

The observed outcome pins the shock: the first two factors are a normal density of u, around
:math:`\beta_j a_j/(1 + \beta_j^2)` with variance :math:`1/(1 + \beta_j^2)`, times a constant. The
rest is integrated against that density by Gauss-Hermite quadrature, so nodes go where the shock
may be, also where it dominates. Where another alternative's chance changes faster than that
density, it is a step that Gauss-Hermite cannot resolve: then the range is cut around every step
and each piece integrated by Gauss-Legendre. Derivatives are those of the mixture (Louis 1982), at
the same nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.compiled import extension
from selfselect.kernels.hermite import ORDERS, hermite_values, one_sided_means, shifted_means
from selfselect.kernels.joint import Array, Indices, JointTerms, Sides
from selfselect.kernels.tails import HALF_LOG_TWO_PI, mills_terms, mills_terms_by_numpy

__all__ = ["STEEP", "hermite", "shared_shock_atoms", "shared_shock_means"]

Mask = NDArray[np.bool_]

STEEP = 1.2
"""Slope of a factor, per standard deviation of the shock given the outcome, from which the range
is cut around it."""

AT_ONCE = 4_096
"""Nodes of some atoms whose means are held at once: they should stay in cache."""

REACH = 8.0
"""Standard deviations of the shock given the outcome that are integrated over where it is cut."""


def shared_shock_atoms(
    a: Array, chosen: Indices, side: Sides, loadings: Array, *, nodes: int, curvature: bool
) -> JointTerms:
    """Evaluate atoms; the inputs are all a, then all loadings in units of the own scales.

    Arguments are those of `independent_atoms`, the (k,) loadings, and the number of nodes.
    """
    native = extension()
    if native is None:
        return _mix(a, chosen, side, loadings, nodes=nodes, curvature=curvature)
    n_atoms, k = a.shape
    loglik, gradient = np.empty(n_atoms), np.empty((n_atoms, 2 * k))
    hessian = np.empty((n_atoms, 2 * k, 2 * k)) if curvature else None
    at, weight = hermite(nodes)
    native.mix(
        np.ascontiguousarray(a), np.ascontiguousarray(chosen, dtype=np.int64),
        np.ascontiguousarray(side), np.ascontiguousarray(loadings), at, np.log(weight),
        *_legendre(_flat_nodes(nodes)), loglik, gradient, hessian,
    )  # fmt: skip
    return JointTerms(loglik, gradient, hessian)


def _flat_nodes(nodes: int) -> int:
    """Return how many nodes of Gauss and Legendre a piece has."""
    return max(4, (2 * nodes) // 3)


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


def _mix(
    a: Array, chosen: Indices, side: Sides, loadings: Array, *, nodes: int, curvature: bool
) -> JointTerms:
    """Evaluate atoms by NumPy: the oracle of the compiled kernel."""
    n_atoms, k = a.shape
    each = np.arange(n_atoms)
    total = 1.0 + loadings[chosen] ** 2
    bounded = _bounded(chosen, side)
    parts = [np.empty(n_atoms), np.empty((n_atoms, 2 * k)), np.empty((n_atoms, 2 * k, 2 * k))]
    for some, shock, log_weight in _nodes(a, chosen, bounded, loadings, nodes):
        found = _mix_at(
            a[some], chosen[some], side[some], bounded[some], loadings, shock, log_weight, curvature
        )
        for part, value in zip(parts, found, strict=False):
            part[some] = value
    loglik = parts[0] - 0.5 * a[each, chosen] ** 2 / total - 0.5 * np.log(total) - HALF_LOG_TWO_PI
    return JointTerms(loglik, parts[1], parts[2] if curvature else None)


def shared_shock_means(
    a: Array, chosen: Indices, side: Sides, loadings: Array, *, nodes: int
) -> Array:
    r"""Return means (5, n, k) of Hermite polynomials of the noises, shock and own part together.

    Given the shock, noise is :math:`(\beta u + e)/\sqrt{1 + \beta^2}` with e on its side of its
    own limit; nodes are weighed by what the row says of the shock.
    """
    n_atoms, k = a.shape
    each, total = np.arange(n_atoms), np.sqrt(1.0 + loadings**2)
    bounded = _bounded(chosen, side)
    found = np.empty((ORDERS, n_atoms, k))
    for some, shock, log_weight in _nodes(a, chosen, bounded, loadings, nodes):
        step = max(1, AT_ONCE // shock[0].size)
        for start in range(0, len(some), step):
            part, here = slice(start, start + step), some[start : start + step]
            found[:, here] = _means_at(
                a[here], np.where(bounded[here], side[here], 0), loadings, total, shock[part],
                log_weight[part],
            )  # fmt: skip
    found[:, each, chosen] = hermite_values(a[each, chosen] / total[chosen])
    return found


def _means_at(
    a: Array, side: Sides, loadings: Array, total: Array, shock: Array, log_weight: Array
) -> Array:
    """Return means (5, n, k) at the nodes of the shock, weighed by what the others say of it."""
    side_at = side[:, None, :].astype(np.float64)
    part = loadings * shock[:, :, None]
    b = np.where(side_at == 0.0, 0.0, a[:, None, :] - part)
    tail = mills_terms(side_at * b)
    logs = log_weight + np.where(side_at != 0, tail.log_cdf, 0.0).sum(axis=2)
    share = np.exp(logs - logs.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    cut = one_sided_means(b, -side_at * tail.ratio)
    given = shifted_means(part / total, 1.0 / total, cut)
    return np.asarray(np.einsum("nq,rnqk->rnk", share, given))


def _bounded(chosen: Indices, side: Sides) -> Mask:
    """Say which alternatives of each atom lie on a side of a limit."""
    bounded = side != 0
    bounded[np.arange(len(chosen)), chosen] = False
    return bounded


def _nodes(
    a: Array, chosen: Indices, bounded: Mask, loadings: Array, nodes: int
) -> Iterator[tuple[Indices, Array, Array]]:
    """Yield some atoms, and their nodes and log weights: first those that no step cuts."""
    each, own = np.arange(len(a)), loadings[chosen]
    total = 1.0 + own * own
    centre, spread = own * a[each, chosen] / total, 1.0 / np.sqrt(total)
    steep = bounded & (np.abs(loadings) * spread[:, None] > STEEP)
    cut = steep.any(axis=1)
    for some, is_cut in ((np.flatnonzero(~cut), False), (np.flatnonzero(cut), True)):
        if not len(some):
            continue
        shock, log_weight = (
            _cut(a[some], steep[some], loadings, centre[some], spread[some], nodes)
            if is_cut
            else _uncut(centre[some], spread[some], nodes)
        )
        yield some, shock, log_weight


def _uncut(centre: Array, spread: Array, nodes: int) -> tuple[Array, Array]:
    """Return nodes and log weights (n, q) where no factor is steep."""
    at, weight = hermite(nodes)
    shock = centre[:, None] + spread[:, None] * at
    return shock, np.broadcast_to(np.log(weight), shock.shape)


def _cut(
    a: Array, steep: Mask, loadings: Array, centre: Array, spread: Array, nodes: int
) -> tuple[Array, Array]:
    """Return nodes and log weights (n, q) of pieces between the steps.

    All atoms have as many pieces; those that are not needed have no width and no weight.
    """
    low, high = centre - REACH * spread, centre + REACH * spread
    edges = [low, centre, high]
    with np.errstate(divide="ignore", invalid="ignore"):
        for reach in (-6.0, -2.0, 2.0, 6.0):
            edge = (a + reach) / loadings
            inside = steep & (low[:, None] < edge) & (edge < high[:, None])
            edges += list(np.where(inside, edge, low[:, None]).T)
    ends = np.sort(np.column_stack(edges), axis=1)
    width = np.diff(ends, axis=1)[:, :, None]
    flat_at, flat_weight = _legendre(_flat_nodes(nodes))
    shock = (ends[:, :-1, None] + width * flat_at).reshape(len(a), -1)
    z = (shock - centre[:, None]) / spread[:, None]
    with np.errstate(divide="ignore"):
        log_width = np.log(width * flat_weight / spread[:, None, None]).reshape(len(a), -1)
    return shock, log_width - 0.5 * z * z - HALF_LOG_TWO_PI


def _mix_at(
    a: Array, chosen: Indices, side: Sides, bounded: Mask, loadings: Array, shock: Array,
    log_weight: Array, curvature: bool,
) -> tuple[Array, ...]:  # fmt: skip
    """Evaluate log-likelihood, gradient and Hessian of atoms at their nodes."""
    k = a.shape[1]
    b = a[:, None, :] - loadings * shock[:, :, None]
    tail = mills_terms_by_numpy(side[:, None, :] * b)
    own = (chosen[:, None] == np.arange(k))[:, None, :]
    within = bounded[:, None, :]
    slope = np.where(own, -b, np.where(within, side[:, None, :] * tail.ratio, 0.0))
    bend = np.where(own, -1.0, np.where(within, -tail.slope, 0.0))
    logs = log_weight + np.where(within, tail.log_cdf, 0.0).sum(axis=2)
    largest = logs.max(axis=1, keepdims=True)
    share = np.exp(logs - largest)
    mass = share.sum(axis=1, keepdims=True)
    share /= mass
    loglik = largest[:, 0] + np.log(mass[:, 0])
    # An input a or a loading moves b by 1 or -u.
    moves = np.stack([np.ones_like(shock), -shock], axis=2)
    gradient = np.einsum("nq,nqs,nqm->nsm", share, moves, slope).reshape(len(a), 2 * k)
    if not curvature:
        return loglik, gradient
    twice = np.einsum("nq,nqs,nqm,nqt,nqo->nsmto", share, moves, slope, moves, slope, optimize=True)
    each = np.arange(k)
    twice[:, :, each, :, each] += np.einsum("nq,nqs,nqt,nqm->mnst", share, moves, moves, bend)
    hessian = twice.reshape(len(a), 2 * k, 2 * k) - gradient[:, :, None] * gradient[:, None, :]
    return loglik, gradient, hessian
