r"""Three or more alternatives with correlated noise: the GHK simulator with its exact gradient.

Given that j is chosen at :math:`a_j`, the others are normal with means :math:`r_{lj} a_j` and
covariance :math:`R_{lm} - r_{lj} r_{mj} = (LL')_{lm}`. Their chance to lie on their sides of
:math:`t_l = a_l - r_{lj} a_j` is simulated one dimension after the other (Geweke; Hajivassiliou;
Keane): :math:`\tau_m = (t_m - \sum_{i<m} L_{mi} \epsilon_i)/L_{mm}`,
:math:`P_m = \Phi(\tau_m)`, :math:`\epsilon_m = \Phi^{-1}(u_m P_m)`, and the mean of
:math:`\prod P_m` over points u is the chance. Points are a scrambled Sobol set, rotated for each
atom by a key of its row: errors of rows do not add up, and a row's points never change, so the
simulated likelihood is smooth. Its gradient is exact, by the adjoint of that recursion; second
derivatives are central differences of it, input by input.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.compiled import extension
from selfselect.kernels.joint import (
    ORDERS,
    Array,
    Indices,
    JointTerms,
    Sides,
    hermite_values,
    one_sided_means,
    shifted_means,
)
from selfselect.kernels.tails import HALF_LOG_TWO_PI, mills_terms, mills_terms_by_numpy, ndtri

Keys = NDArray[np.uint64]

STEP_A, STEP_R = 1e-4, 1e-5
"""Steps of the central differences: their error is the square, their noise 1e-16 over them."""

SINGULAR = 1e-12
"""Smallest eigenvalue from which a matrix of correlations has a root that rounding leaves alone."""


SMALLEST_CHANCE = 1e-300
"""Chance of a draw below which it is taken to be at the limit itself."""

EDGE = 1e-13
"""How far points are kept from both ends of the unit interval."""

ATOMS_AT_ONCE = 512
"""Atoms whose draws NumPy holds at once."""


MEANS_AT_ONCE = 8_192
"""Draws of some atoms whose means are held at once: they should stay in cache."""


def ghk_atoms(
    a: Array,
    chosen: Indices,
    side: Sides,
    correlations: Array,
    keys: Keys,
    *,
    draws: int,
    curvature: bool,
    held: bool = False,
) -> JointTerms:
    """Evaluate atoms; the inputs are all a, then the correlations of pairs (1, 2), (1, 3), ...

    Arguments are those of `independent_atoms`, the (k (k-1)/2,) correlations, the rows' keys and
    the number of points. `held` says that the correlations stay, so that second derivatives in
    them, which are then zero, need no passes. Where the correlations are not those of any
    distribution, -inf.
    """
    loglik, gradient = _evaluate(a, chosen, side, correlations, keys, draws)
    if not curvature:
        return JointTerms(loglik, gradient, None)
    k, n_inputs = a.shape[1], gradient.shape[1]
    hessian = np.zeros((len(a), n_inputs, n_inputs))
    moving = slice(k if held else n_inputs)
    for place in range(moving.stop):
        ends = []
        for sign in (1.0, -1.0):
            moved, turned = a, correlations
            if place < k:
                moved = a.copy()
                moved[:, place] += sign * STEP_A
            else:
                turned = correlations.copy()
                turned[place - k] += sign * STEP_R
            ends.append(_evaluate(moved, chosen, side, turned, keys, draws)[1])
        step = STEP_A if place < k else STEP_R
        hessian[:, place, moving] = (ends[0] - ends[1])[:, moving] / (2.0 * step)
    return JointTerms(loglik, gradient, 0.5 * (hessian + hessian.transpose(0, 2, 1)))


def row_keys(numbers: Array) -> Keys:
    """Return a key per row, made of the bits of a number per row."""
    return np.ascontiguousarray(numbers).view(np.uint64)


def _evaluate(
    a: Array, chosen: Indices, side: Sides, correlations: Array, keys: Keys, draws: int
) -> tuple[Array, Array]:
    n_atoms, k = a.shape
    pairs = list(combinations(range(k), 2))
    matrix = np.eye(k)
    for (j, m), value in zip(pairs, correlations, strict=True):
        matrix[j, m] = matrix[m, j] = value
    loglik, gradient = np.full(n_atoms, -np.inf), np.zeros((n_atoms, k + len(pairs)))
    if not np.linalg.eigvalsh(matrix)[0] > SINGULAR:
        return loglik, gradient
    # Of those with nothing known of them every value will do: they need no simulation.
    bounded = side != 0
    bounded[np.arange(n_atoms), chosen] = False
    pattern = chosen * 2**k + bounded @ 2 ** np.arange(k)
    for one in np.unique(pattern).tolist():
        atoms = np.flatnonzero(pattern == one)
        j, others = one >> k, np.flatnonzero([one >> m & 1 for m in range(k)])
        own = a[atoms, j]
        loglik[atoms] = -0.5 * own * own - HALF_LOG_TWO_PI
        part = np.zeros((len(atoms), k + len(pairs)))
        part[:, j] = -own
        if len(others):
            given = matrix[others, j]
            left: Array = matrix[np.ix_(others, others)] - np.outer(given, given)
            root = np.asarray(np.linalg.cholesky(left), dtype=np.float64)
            logp, along_t, along_root = _simulate(
                a[np.ix_(atoms, others)] - np.outer(own, given),
                side[np.ix_(atoms, others)],
                root, _points(len(others), draws), keys[atoms],
            )  # fmt: skip
            loglik[atoms] += logp
            part[:, others] = along_t
            part[:, j] -= along_t @ given
            for place, pair in enumerate(pairs):
                if not set(pair) <= {j, *others.tolist()}:
                    continue
                change = _root_change(root, given, others.tolist(), j, pair)
                part[:, k + place] = np.einsum("nij,ij->n", along_root, change)
                if j in pair:
                    other = others.tolist().index(pair[0] if pair[1] == j else pair[1])
                    part[:, k + place] -= own * along_t[:, other]
        gradient[atoms] = part
    return loglik, gradient


def ghk_means(
    a: Array, chosen: Indices, side: Sides, correlations: Array, keys: Keys, *, draws: int
) -> Array:
    """Return means (5, n, k) of Hermite polynomials of all noises given each atom, simulated.

    Each noise is the last once: given draws of the others, weighed as in the likelihood, its means
    are in closed form, so its own tails are never sampled. Noises of which nothing is known are
    drawn as well.
    """
    n_atoms, k = a.shape
    matrix = np.eye(k)
    matrix[np.triu_indices(k, 1)] = correlations
    matrix = matrix + np.triu(matrix, 1).T
    found = np.empty((ORDERS, n_atoms, k))
    for j in range(k):
        atoms = np.flatnonzero(chosen == j)
        found[:, atoms, j] = hermite_values(a[atoms, j])
        for last in np.delete(np.arange(k), j).tolist():
            order = np.append(np.delete(np.arange(k), [j, last]), last)
            given = matrix[order, j]
            left: Array = matrix[np.ix_(order, order)] - np.outer(given, given)
            root = np.asarray(np.linalg.cholesky(left), dtype=np.float64)
            step = max(1, MEANS_AT_ONCE // draws)
            for start in range(0, len(atoms), step):
                some = atoms[start : start + step]
                found[:, some, last] = _last_means(
                    np.outer(a[some, j], given), a[np.ix_(some, order)],
                    side[np.ix_(some, order)], root, _points(k - 1, draws), keys[some],
                )  # fmt: skip
    return found


def _last_means(
    centre: Array, limit: Array, side: Sides, root: Array, points: Array, keys: Keys
) -> Array:
    """Return means (5, n) of the last noise around its centre, given that each is in place."""
    last = limit.shape[1] - 1
    logs = np.zeros((len(limit), len(points)))
    drawn: list[Array] = []
    for m in range(last + 1):
        middle = centre[:, [m]] + sum((root[m, o] * drawn[o] for o in range(m)), np.zeros(1))
        t = np.broadcast_to((limit[:, [m]] - middle) / root[m, m], logs.shape)
        turn = np.broadcast_to(side[:, [m]].astype(np.float64), logs.shape)
        tail = mills_terms(np.where(turn == 0, 0.0, turn * t))
        log_chance = np.where(turn != 0, tail.log_cdf, 0.0)
        logs += log_chance
        if m < last:
            drawn.append(_draw_inside(t, turn, log_chance, _folded(points[:, m], keys, m)))
    weight = np.exp(logs - logs.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    cut = one_sided_means(np.where(turn == 0, 0.0, t), -turn * tail.ratio)
    means = shifted_means(middle, float(root[last, last]), cut)
    return np.asarray(np.einsum("nd,rnd->rn", weight, means))


def _draw_inside(limit: Array, side: Array, log_chance: Array, u: Array) -> Array:
    """Return draws of normal noise on its side of a limit; with no side, anywhere."""
    chance = u * np.exp(log_chance)
    divides = chance > SMALLEST_CHANCE
    drawn = np.where(side == 0, 1.0, side) * ndtri(np.where(divides, chance, 0.5))
    return np.where(divides, drawn, limit)


def _folded(points: Array, keys: Keys, dimension: int) -> Array:
    """Return a dimension's points (n, draws), rotated for each atom and folded.

    Folded, points that a rotation wraps around come back where they left.
    """
    u = points + _rotation(keys, dimension)[:, None]
    u = np.where(u >= 1.0, u - 1.0, u)
    return np.clip(np.where(u < 0.5, 2.0 * u, 2.0 - 2.0 * u), EDGE, 1.0 - EDGE)


def _root_change(
    root: Array, given: Array, others: list[int], j: int, pair: tuple[int, int]
) -> Array:
    """Return the derivative of the Cholesky root in the correlation of a pair."""
    change = np.zeros_like(root)
    if j in pair:
        place = others.index(pair[0] if pair[1] == j else pair[1])
        change[place] -= given
        change[:, place] -= given
    else:
        x, y = (others.index(one) for one in pair)
        change[x, y] = change[y, x] = 1.0
    half = np.linalg.solve(root, np.linalg.solve(root, change).T)
    lower = np.tril(half)
    lower[np.diag_indices_from(lower)] *= 0.5
    derivative: Array = root @ lower
    return derivative


@cache
def _points(dimension: int, draws: int) -> Array:
    """Return scrambled Sobol points (draws, dimension), always the same."""
    from scipy.stats import qmc

    sobol = qmc.Sobol(dimension, scramble=True, rng=np.random.default_rng(20_230_620))
    # Whether the number of points is a power of two is the caller's choice.
    points: Array = np.ascontiguousarray(sobol.random_base2((draws - 1).bit_length())[:draws])
    return points


def _simulate(
    limit: Array, side: Sides, root: Array, points: Array, keys: Keys
) -> tuple[Array, Array, Array]:
    """Return log chances (n,) and their derivatives in the limits (n, p) and the root (n, p, p)."""
    native = extension()
    if native is None:
        parts = [
            _simulate_numpy(limit[at], side[at], root, points, keys[at])
            for at in (slice(s, s + ATOMS_AT_ONCE) for s in range(0, len(limit), ATOMS_AT_ONCE))
        ]
        logp, along_t, along_root = (np.concatenate(part) for part in zip(*parts, strict=True))
        return logp, along_t, along_root
    n_atoms, p = limit.shape
    made = np.empty(n_atoms), np.empty((n_atoms, p)), np.empty((n_atoms, p, p))
    native.simulate(
        np.ascontiguousarray(limit), np.ascontiguousarray(side), np.ascontiguousarray(root),
        points, np.ascontiguousarray(keys), *made,
    )  # fmt: skip
    return made


def _rotation(keys: Keys, dimension: int) -> Array:
    """Return numbers in [0, 1) that keys and a dimension determine (splitmix64)."""
    with np.errstate(over="ignore"):
        z = keys + np.uint64(0x9E3779B97F4A7C15) * np.uint64(dimension + 1)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _simulate_numpy(
    limit: Array, side: Sides, root: Array, points: Array, keys: Keys
) -> tuple[Array, Array, Array]:
    """Do the same by NumPy: the oracle of the compiled kernel. Arrays are (n, draws)."""
    n_atoms, p = limit.shape
    tau: list[Array] = []
    eps: list[Array] = []
    ratio: list[Array] = []
    pass_on: list[Array] = []
    logs = np.zeros((n_atoms, len(points)))
    for m in range(p):
        t = (limit[:, [m]] - sum(root[m, o] * eps[o] for o in range(m))) / root[m, m]
        t = np.broadcast_to(t, logs.shape)
        u = _folded(points[:, m], keys, m)
        turn = side[:, [m]].astype(np.float64)
        tail = mills_terms_by_numpy(turn * t)
        logs += tail.log_cdf
        chance = u * np.exp(tail.log_cdf)
        # So far out nothing is left to divide: the draw is at the limit itself.
        divides = chance > SMALLEST_CHANCE
        e = np.where(divides, turn * ndtri(np.where(divides, chance, 0.5)), t)
        tau.append(t)
        eps.append(e)
        ratio.append(turn * tail.ratio)
        pass_on.append(
            np.where(divides, u * np.exp(0.5 * np.where(divides, e * e - t * t, 0.0)), 1.0)
        )
    largest = logs.max(axis=1, keepdims=True)
    weight = np.exp(logs - largest)
    mass = weight.sum(axis=1, keepdims=True)
    logp = (largest + np.log(mass / len(points)))[:, 0]
    weight /= mass
    along_t, along_root = np.empty((n_atoms, p)), np.zeros((n_atoms, p, p))
    back = [np.zeros_like(logs) for _ in range(p)]
    for m in range(p - 1, -1, -1):
        along = (ratio[m] + back[m] * pass_on[m]) / root[m, m]
        for o in range(m):
            back[o] -= along * root[m, o]
        along = along * weight
        along_t[:, m] = along.sum(axis=1)
        for o in range(m + 1):
            along_root[:, m, o] = -(along * (eps[o] if o < m else tau[m])).sum(axis=1)
    return logp, along_t, along_root
