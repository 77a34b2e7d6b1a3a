"""Alternatives that depend on each other: the contract, Hermite means, pairs, shared shocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import comb

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.compiled import extension
from selfselect.kernels.tails import (
    HALF_LOG_TWO_PI,
    interval_terms,
    mills_terms,
    mills_terms_by_numpy,
)

Array = NDArray[np.float64]


# Means of Hermite polynomials of noise given a row: what it says of the noise's shape.
#
# With :math:`\mathrm{He}_3 = z^3 - 3z` and :math:`\mathrm{He}_4 = z^4 - 6z^2 + 3`, the means
# :math:`E[\mathrm{He}_r(z) \mid \text{row}]` average zero where z is standard normal, as
# :math:`\mathrm{He}_r` does. Since :math:`(\mathrm{He}_{r-1}\phi)' = -\mathrm{He}_r\phi`, a row
# with the limit a says
#
# * observed: :math:`\mathrm{He}_r(a)`
# * on one side of a: :math:`\mathrm{He}_{r-1}(a)` times the mean of z itself
# * between a and b: :math:`(\mathrm{He}_{r-1}(a)\phi(a) - \mathrm{He}_{r-1}(b)\phi(b))/P`.
#
# Noise that is known in part, :math:`c + s v` with v standard normal and independent of c, has
#
# .. math:: E[\mathrm{He}_r(c + s v)] = \sum_i \binom{r}{i} s^i E[\mathrm{He}_i(v)]\,
#    \mathrm{He}^{[1 - s^2]}_{r-i}(c),
#
# with polynomials of variance :math:`1 - s^2`, so that correlated noise needs no other integrals.
# All arrays of means begin with the order, 0 to 4.

Mask = NDArray[np.bool_]
Sides = NDArray[np.int8]

ORDERS = 5
"""Orders 0 to 4."""


def hermite_values(z: Array, variance: Array | float = 1.0) -> Array:
    """Return the polynomials (5, ...) of a variance at `z`, by their recurrence."""
    z = np.asarray(z)
    found = np.empty((ORDERS, *z.shape))
    found[0], found[1] = 1.0, z
    for order in range(1, ORDERS - 1):
        found[order + 1] = z * found[order] - order * variance * found[order - 1]
    return found


def tail_means(limit: Array, side: Sides | Array | float) -> Array:
    """Return means (5, ...) given that z lies below a limit (side 1) or above it (-1).

    Side 0 stands for no limit at all.
    """
    side = np.asarray(side, dtype=np.float64)
    limit = np.where(side == 0.0, 0.0, limit)
    return one_sided_means(limit, -side * mills_terms(side * limit).ratio)


def one_sided_means(limit: Array, mean: Array) -> Array:
    """Return means (5, ...) given that z lies on a side of a limit, where its own mean is known."""
    return _means_of(hermite_values(limit), mean)


def interval_means(lower: Array, upper: Array, at_lower: Array, at_upper: Array) -> Array:
    """Return means (5, ...) between two limits, given the densities there over the mass."""
    return _means_of(hermite_values(lower), at_lower) - _means_of(
        hermite_values(upper), at_upper, nothing=0.0
    )


def limited_means(lower: Array, upper: Array) -> Array:
    """Return means (5, n) given that z lies between two limits, either of which may be infinite."""
    below, above = np.isinf(lower), np.isinf(upper)
    side = below.astype(np.float64) - above
    found = tail_means(np.where(below, upper, lower), side)
    both = ~(below | above)
    if both.any():
        terms = interval_terms(lower[both], upper[both])
        found[:, both] = interval_means(
            lower[both], upper[both], terms.lower_density, terms.upper_density
        )
    return found


def _means_of(polynomials: Array, factor: Array, nothing: float = 1.0) -> Array:
    """Return each polynomial of one order less times a factor; `nothing` for the order 0."""
    found = np.empty_like(polynomials)
    found[0] = nothing
    found[1:] = polynomials[:-1] * factor
    return found


def shifted_means(centre: Array, spread: Array | float, means: Array) -> Array:
    """Return means (5, ...) of c + s v, given c, s and the means of v."""
    around = hermite_values(centre, 1.0 - np.square(spread))
    scaled = [np.power(spread, i) * means[i] for i in range(ORDERS)]
    found = np.zeros(np.broadcast_shapes(around.shape, means.shape))
    for r in range(ORDERS):
        for i in range(r + 1):
            found[r] += comb(r, i) * (scaled[i] * around[r - i])
    return found


def independent_means(z: Array, observed: Mask, side: Sides) -> Array:
    """Return means (5, n, k) of independent noises.

    Parameters
    ----------
    z : (n, k) the noise where it was observed, its limit elsewhere.
    observed : (n, k) whether it was.
    side : (n, k) 1 where it lies below its limit, -1 where above, 0 where nothing is known of it.
    """
    return np.where(observed, hermite_values(z), tail_means(z, np.where(observed, 0, side)))


# Likelihoods that join the alternatives: what every such kernel takes and returns.
#
# An *atom* says: alternative j had this outcome and every other one lay on its side of a limit.
# Most rows are one atom; a row in which something was not recorded is a sum of several. With
# :math:`a_l = h_l c_l - g_l'x`, the standardised outcome of j and limit of the others, and what
# the noise adds (correlations, loadings), a kernel returns the log-likelihood of each atom, less
# :math:`\log h_j`, and its derivatives in those *inputs*: first the a, then what the noise adds.

Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class JointTerms:
    """Log-likelihood of atoms and its derivatives in their inputs.

    Attributes
    ----------
    loglik : (n,)
    gradient : (n, m) first derivatives.
    hessian : (n, m, m) second derivatives; None where they were not wanted.
    """

    loglik: Array
    gradient: Array
    hessian: Array | None


def independent_atoms(a: Array, chosen: Indices, side: Sides, *, curvature: bool) -> JointTerms:
    """Evaluate atoms under independent noise.

    Parameters
    ----------
    a : (n, k) standardised outcome where chosen, limit elsewhere.
    chosen : (n,) the alternative whose outcome it is.
    side : (n, k) 1 where an alternative lies below its limit, -1 where above, 0 where nothing is
        known of it. The entry of the chosen one is not read.
    curvature : whether second derivatives are wanted.
    """
    n_atoms, k = a.shape
    each = np.arange(n_atoms)
    tail = mills_terms(np.where(side == 0, 0.0, side * a))
    open_to = side != 0
    open_to[each, chosen] = False
    loglik = np.where(open_to, tail.log_cdf, 0.0).sum(axis=1)
    gradient = np.where(open_to, side * tail.ratio, 0.0)
    own = a[each, chosen]
    loglik -= 0.5 * own * own + HALF_LOG_TWO_PI
    gradient[each, chosen] = -own
    hessian = None
    if curvature:
        hessian = np.zeros((n_atoms, k, k))
        diagonal = np.where(open_to, -tail.slope, 0.0)
        diagonal[each, chosen] = -1.0
        hessian[:, np.arange(k), np.arange(k)] = diagonal
    return JointTerms(loglik, gradient, hessian)


# Two alternatives with correlated noise, in closed form.
#
# If j is chosen and l lies below its limit, an atom adds, with :math:`D = \sqrt{1 - r^2}`,
#
# .. math:: \log\phi(a_j) + \log\Phi(v), \qquad v = (a_l - r a_j)/D.


def correlated_pair_atoms(
    a: Array, chosen: Indices, side: Sides, correlation: float, *, curvature: bool
) -> JointTerms:
    """Evaluate atoms of two alternatives; the inputs are both a and the correlation.

    Arguments are those of `independent_atoms`, and the correlation.
    """
    n_atoms = len(a)
    each, other = np.arange(n_atoms), 1 - chosen
    own, limit, direction = a[each, chosen], a[each, other], side[each, other].astype(float)
    r, left = correlation, 1.0 - correlation**2
    root = np.sqrt(left)
    v = (limit - r * own) / root
    tail = mills_terms(direction * v)
    known = direction != 0
    loglik = -0.5 * own * own - HALF_LOG_TWO_PI + np.where(known, tail.log_cdf, 0.0)
    along = direction * tail.ratio
    # Derivatives of v in own, limit and r.
    v_own, v_limit, v_r = -r / root, 1.0 / root, (r * limit - own) / (left * root)
    gradient = np.empty((n_atoms, 3))
    gradient[each, chosen] = along * v_own - own
    gradient[each, other] = along * v_limit
    gradient[:, 2] = along * v_r
    if not curvature:
        return JointTerms(loglik, gradient, None)
    bend = np.where(known, -tail.slope, 0.0)
    hessian = np.empty((n_atoms, 3, 3))
    hessian[each, chosen, chosen] = bend * v_own**2 - 1.0
    hessian[each, other, other] = bend * v_limit**2
    mixed = bend * v_own * v_limit
    hessian[each, chosen, other] = hessian[each, other, chosen] = mixed
    cross_own = bend * v_own * v_r - along / (left * root)
    hessian[each, chosen, 2] = hessian[each, 2, chosen] = cross_own
    cross_limit = bend * v_limit * v_r + along * r / (left * root)
    hessian[each, other, 2] = hessian[each, 2, other] = cross_limit
    hessian[:, 2, 2] = bend * v_r**2 + along * (limit / (left * root) + 3.0 * r * v_r / left)
    return JointTerms(loglik, gradient, hessian)


def correlated_pair_means(a: Array, chosen: Indices, side: Sides, correlation: float) -> Array:
    """Return means (5, n, 2) of Hermite polynomials of both noises given each atom.

    The other noise is :math:`r a_j + D v` with v on its side of its own limit.
    """
    each, other = np.arange(len(a)), 1 - chosen
    own, limit = a[each, chosen], a[each, other]
    root = np.sqrt(1.0 - correlation**2)
    found = np.empty((ORDERS, len(a), 2))
    found[:, each, chosen] = hermite_values(own)
    cut = tail_means((limit - correlation * own) / root, side[each, other])
    found[:, each, other] = shifted_means(correlation * own, root, cut)
    return found


# A shock shared by all alternatives: a mixture of independent noise over the shock.
#
# With noise :math:`b_l u + \sigma_l e_l` and :math:`\beta_l = b_l/\sigma_l`, an atom adds
#
# .. math:: \log\int \phi(u)\,\phi(a_j - \beta_j u) \prod_{l \ne j} \Phi(a_l - \beta_l u)\,du.
#
# The observed outcome pins the shock: the first two factors are a normal density of u, around
# :math:`\beta_j a_j/(1 + \beta_j^2)` with variance :math:`1/(1 + \beta_j^2)`, times a constant.
# The rest is integrated against that density by Gauss-Hermite quadrature, so nodes go where the
# shock may be, also where it dominates. Where another alternative's chance changes faster than
# that density, it is a step that Gauss-Hermite cannot resolve: then the range is cut around every
# step and each piece integrated by Gauss-Legendre. Derivatives are those of the mixture (Louis
# 1982), at the same nodes.


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
