r"""Three or more alternatives with correlated noise: the GHK simulator with its exact gradient.

Given that j is seen at :math:`a_j`, the others are normal with means :math:`r_{lj} a_j` and
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

import math
import warnings
from functools import cache
from itertools import combinations

import numpy as np
from numba import types
from numpy.typing import NDArray

from selfselect.kernels._compile import compiled, inlined
from selfselect.kernels._mills import mills
from selfselect.kernels.joint import Array, Indices, JointTerms, Sides
from selfselect.kernels.tails import HALF_LOG_TWO_PI

__all__ = ["ghk_atoms", "row_keys"]

Keys = NDArray[np.uint64]

STEP_A, STEP_R = 1e-4, 1e-5
"""Steps of the central differences: their error is the square, their noise 1e-16 over them."""

SINGULAR = 1e-12
"""Smallest eigenvalue from which a matrix of correlations has a root that rounding leaves alone."""


def ghk_atoms(
    a: Array,
    seen: Indices,
    side: Sides,
    correlations: Array,
    keys: Keys,
    *,
    draws: int,
    curvature: bool,
) -> JointTerms:
    """Evaluate atoms; the inputs are all a, then the correlations of pairs (1, 2), (1, 3), ...

    Arguments are those of `independent_atoms`, the (k (k-1)/2,) correlations, the rows' keys and
    the number of points. Where the correlations are not those of any distribution, -inf.
    """
    loglik, gradient = _evaluate(a, seen, side, correlations, keys, draws)
    if not curvature:
        return JointTerms(loglik, gradient, None)
    k, n_inputs = a.shape[1], gradient.shape[1]
    hessian = np.empty((len(a), n_inputs, n_inputs))
    for place in range(n_inputs):
        ends = []
        for sign in (1.0, -1.0):
            moved, turned = a, correlations
            if place < k:
                moved = a.copy()
                moved[:, place] += sign * STEP_A
            else:
                turned = correlations.copy()
                turned[place - k] += sign * STEP_R
            ends.append(_evaluate(moved, seen, side, turned, keys, draws)[1])
        hessian[:, place] = (ends[0] - ends[1]) / (2.0 * (STEP_A if place < k else STEP_R))
    return JointTerms(loglik, gradient, 0.5 * (hessian + hessian.transpose(0, 2, 1)))


def row_keys(numbers: Array) -> Keys:
    """Return a key per row, made of the bits of a number per row."""
    return np.ascontiguousarray(numbers).view(np.uint64)


def _evaluate(
    a: Array, seen: Indices, side: Sides, correlations: Array, keys: Keys, draws: int
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
    bounded[np.arange(n_atoms), seen] = False
    pattern = seen * 2**k + bounded @ 2 ** np.arange(k)
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
            logp = np.empty(len(atoms))
            along_t = np.empty((len(atoms), len(others)))
            along_root = np.empty((len(atoms), len(others), len(others)))
            _simulate(
                a[np.ix_(atoms, others)] - np.outer(own, given),
                np.ascontiguousarray(side[np.ix_(atoms, others)]),
                root, _points(len(others), draws), keys[atoms], logp, along_t, along_root,
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
    with warnings.catch_warnings():
        # A number of points that is no power of two is the caller's choice.
        warnings.simplefilter("ignore")
        points: Array = np.ascontiguousarray(sobol.random(draws))
    return points


@inlined
def _rotation(key, dimension):  # type: ignore[no-untyped-def]
    """Return a number in [0, 1) that a key and a dimension determine (splitmix64)."""
    z = key + np.uint64(0x9E3779B97F4A7C15) * np.uint64(dimension + 1)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * 2.0**-53


@inlined
def _quantile(p):  # type: ignore[no-untyped-def]
    """Return the normal quantile of p in (0, 1), to 16 digits (Wichura 1988, AS 241)."""
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        top = (
            (
                (
                    (
                        (
                            (2.5090809287301226727e3 * r + 3.3430575583588128105e4) * r
                            + 6.7265770927008700853e4
                        )
                        * r
                        + 4.5921953931549871457e4
                    )
                    * r
                    + 1.3731693765509461125e4
                )
                * r
                + 1.9715909503065514427e3
            )
            * r
            + 1.3314166789178437745e2
        ) * r + 3.3871328727963666080e0
        bottom = (
            (
                (
                    (
                        (
                            (5.2264952788528545610e3 * r + 2.8729085735721942674e4) * r
                            + 3.9307895800092710610e4
                        )
                        * r
                        + 2.1213794301586595867e4
                    )
                    * r
                    + 5.3941960214247511077e3
                )
                * r
                + 6.8718700749205790830e2
            )
            * r
            + 4.2313330701600911252e1
        ) * r + 1.0
        return q * top / bottom
    r = math.sqrt(-math.log(p if q < 0.0 else 1.0 - p))
    if r <= 5.0:
        r -= 1.6
        top = (
            (
                (
                    (
                        (
                            (7.74545014278341407640e-4 * r + 2.27238449892691845833e-2) * r
                            + 2.41780725177450611770e-1
                        )
                        * r
                        + 1.27045825245236838258e0
                    )
                    * r
                    + 3.64784832476320460504e0
                )
                * r
                + 5.76949722146069140550e0
            )
            * r
            + 4.63033784615654529590e0
        ) * r + 1.42343711074968357734e0
        bottom = (
            (
                (
                    (
                        (
                            (1.05075007164441684324e-9 * r + 5.47593808499534494600e-4) * r
                            + 1.51986665636164571966e-2
                        )
                        * r
                        + 1.48103976427480074590e-1
                    )
                    * r
                    + 6.89767334985100004550e-1
                )
                * r
                + 1.67638483018380384940e0
            )
            * r
            + 2.05319162663775882187e0
        ) * r + 1.0
    else:
        r -= 5.0
        top = (
            (
                (
                    (
                        (
                            (2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r
                            + 1.24266094738807843860e-3
                        )
                        * r
                        + 2.65321895265761230930e-2
                    )
                    * r
                    + 2.96560571828504891230e-1
                )
                * r
                + 1.78482653991729133580e0
            )
            * r
            + 5.46378491116411436990e0
        ) * r + 6.65790464350110377720e0
        bottom = (
            (
                (
                    (
                        (
                            (2.04426310338993978564e-15 * r + 1.42151175831644588870e-7) * r
                            + 1.84631831751005468180e-5
                        )
                        * r
                        + 7.86869131145613259100e-4
                    )
                    * r
                    + 1.48753612908506148525e-2
                )
                * r
                + 1.36929880922735805310e-1
            )
            * r
            + 5.99832206555887937690e-1
        ) * r + 1.0
    return -top / bottom if q < 0.0 else top / bottom


def _c(dtype: types.Type, ndim: int) -> types.Array:
    return types.Array(dtype, ndim, "C", readonly=True)


@compiled(
    types.void(
        _c(types.float64, 2),
        _c(types.int8, 2),
        _c(types.float64, 2),
        _c(types.float64, 2),
        _c(types.uint64, 1),
        types.Array(types.float64, 1, "C"),
        types.Array(types.float64, 2, "C"),
        types.Array(types.float64, 3, "C"),
    )
)
def _simulate(limit, side, root, points, keys, logp, along_t, along_root):  # type: ignore[no-untyped-def]
    n_atoms, p = limit.shape
    n_draws = points.shape[0]
    shift, tau, eps = np.empty(p), np.empty(p), np.empty(p)
    ratio, pass_on, back = np.empty(p), np.empty(p), np.empty(p)
    t_bar, root_bar = np.empty(p), np.empty((p, p))
    for i in range(n_atoms):
        for m in range(p):
            shift[m] = _rotation(keys[i], m)
        reference, mass = -np.inf, 0.0
        for m in range(p):
            t_bar[m] = 0.0
            for o in range(p):
                root_bar[m, o] = 0.0
        for q in range(n_draws):
            logw = 0.0
            for m in range(p):
                t = limit[i, m]
                for o in range(m):
                    t -= root[m, o] * eps[o]
                t /= root[m, m]
                tau[m] = t
                u = points[q, m] + shift[m]
                u = u - 1.0 if u >= 1.0 else u
                # Folded, points that a rotation wraps around come back where they left.
                u = 2.0 * u if u < 0.5 else 2.0 - 2.0 * u
                u = min(max(u, 1e-13), 1.0 - 1e-13)
                s = side[i, m]
                log_cdf, lam, _ = mills(s * t)
                logw += log_cdf
                chance = u * math.exp(log_cdf)
                # So far out nothing is left to divide: the draw is at the limit itself.
                e = s * _quantile(chance) if chance > 1e-300 else t
                eps[m], ratio[m] = e, s * lam
                pass_on[m] = u * math.exp(0.5 * (e * e - t * t)) if chance > 1e-300 else 1.0
            if logw > reference:
                # Weights are kept relative to the largest so far.
                rescale = math.exp(reference - logw) if reference > -np.inf else 0.0
                mass *= rescale
                for m in range(p):
                    t_bar[m] *= rescale
                    for o in range(m + 1):
                        root_bar[m, o] *= rescale
                reference = logw
            w = math.exp(logw - reference)
            mass += w
            for m in range(p):
                back[m] = 0.0
            for m in range(p - 1, -1, -1):
                along = (ratio[m] + back[m] * pass_on[m]) / root[m, m]
                t_bar[m] += w * along
                for o in range(m):
                    back[o] -= along * root[m, o]
                    root_bar[m, o] -= w * along * eps[o]
                root_bar[m, m] -= w * along * tau[m]
        logp[i] = reference + math.log(mass / n_draws)
        for m in range(p):
            along_t[i, m] = t_bar[m] / mass
            for o in range(p):
                along_root[i, m, o] = root_bar[m, o] / mass if o <= m else 0.0
