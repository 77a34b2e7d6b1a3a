r"""Moments of independent normal outcomes where each of them is the largest.

With :math:`z_l = (y_l - \mu_l)/\sigma_l`, alternative g is the largest with chance

.. math:: P(g) = \int \phi(z) \prod_{m \ne g} \Phi\left(\frac{\mu_g + \sigma_g z - \mu_m}{\sigma_m}
   \right) dz,

and moments of the other z are those of normal noise below a limit. The integrand is a Gaussian
times normal distribution functions of straight lines: its spectrum is a Gaussian whose variance
adds up that of all factors, so the trapezoid rule converges faster than any power of its step.

Two alternatives are in closed form: with the difference :math:`y_0 - y_1` of mean
:math:`\delta s` and standard deviation s, and c the correlations of both z with it, products of
Hermite polynomials have means :math:`c_0^i c_1^j \phi(\delta) He_{i+j-1}(-\delta)` where 0 is the
largest, and minus that where 1 is. So are chances alone of three, :math:`\Phi_2(\delta_1,
\delta_2; r)` with a correlation r that is the same in all rows.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from selfselect.kernels.compiled import extension
from selfselect.kernels.orthants import Angles, angles
from selfselect.kernels.tails import mills_terms_by_numpy

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

DIGITS = 33.0
"""Minus the logarithm of the trapezoid rule's error: fourteen decimal digits."""

RANGE = 8.5
"""Standard deviations within which the trapezoid rule looks."""

FAR = 40.0
"""Standard deviations beyond which a difference of two outcomes is as good as infinite."""

ROWS_AT_ONCE = 256
"""Rows that NumPy takes at a time: few enough that all temporaries stay in cache."""


class LargestMoments(NamedTuple):
    """Moments of every z over the rows' noise where g is the largest, times the chance of that.

    Attributes
    ----------
    chance : (n, k) that g is.
    first : (n, k, k) of z_l at [row, l, g].
    fall : (n, k, k) of z_l² - 1; None where no slopes were wanted, as those below.
    pair : (n, k, k, k) of z_l z_m at [row, l, m, g].
    pair_fall : (n, k, k, k) of z_l (z_m² - 1).
    """

    chance: Array
    first: Array
    fall: Array | None
    pair: Array | None
    pair_fall: Array | None


def nodes_wanted(scales: Array) -> int:
    """Return how many nodes the integral takes at the scales (n, k) or (k,)."""
    return max(_half_count(scales, chosen) for chosen in range(scales.shape[-1])) * 2 + 1


def _half_count(scales: Array, chosen: int) -> int:
    # The chosen one alone adds one, so that no rows take the nodes of the flattest.
    each = ((scales[..., [chosen]] / scales) ** 2).sum(axis=-1)
    steepness = float(each.max(initial=1.0))
    return int(np.ceil(RANGE / np.sqrt(2.0 * np.pi**2 / (DIGITS * steepness))))


def _nodes(scales: Array, chosen: int) -> tuple[Array, Array]:
    """Return the nodes of an integral over z, and their weights, the normal density included."""
    z = np.linspace(-RANGE, RANGE, 2 * _half_count(scales, chosen) + 1)
    return z, np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi) * (z[1] - z[0])


def largest_moments(
    means: Array, scales: Array, available: Mask | None = None, *, slopes: bool = False
) -> LargestMoments:
    """Integrate over normal outcomes where each is the largest of those available.

    Parameters
    ----------
    means : (n, k) of the outcomes.
    scales : (n, k) or (k,) of their noise.
    available : (n, k) which of them there are; None for all.
    slopes : whether the moments that derivatives in means and scales need are wanted too.
    """
    n_rows, k = means.shape
    if k == 2:
        return _moments_of_two(means, scales, available, slopes=slopes)
    each = np.broadcast_to(scales, means.shape)
    grids = [_nodes(scales, chosen) for chosen in range(k)]
    made = LargestMoments(
        np.empty((n_rows, k)),
        np.empty((n_rows, k, k)),
        np.empty((n_rows, k, k)) if slopes else None,
        np.empty((n_rows, k, k, k)) if slopes else None,
        np.empty((n_rows, k, k, k)) if slopes else None,
    )
    native = extension()
    if native is not None:
        native.largest(means, each, available, *_in_turn(grids), *made)
        return made
    for at in range(0, n_rows, ROWS_AT_ONCE):
        part = slice(at, at + ROWS_AT_ONCE)
        here = None if available is None else available[part]
        for chosen, (z, weight) in enumerate(grids):
            _fill(made, part, means[part], each[part], here, chosen, z, weight)
    return made


def _in_turn(grids: list[tuple[Array, Array]]) -> tuple[Array, Array, NDArray[np.int64]]:
    """Return the nodes and the weights of all alternatives, and where those of each begin."""
    nodes, weights = (np.concatenate([grid[i] for grid in grids]) for i in (0, 1))
    return nodes, weights, np.cumsum([0, *(len(z) for z, _ in grids)], dtype=np.int64)


def largest_chances(means: Array, scales: Array, available: Mask | None = None) -> Array:
    """Return the chances (n, k) that each outcome is the largest of those available.

    Arguments are those of `largest_moments`, of which these are a part.
    """
    n_rows, k = means.shape
    native = extension()
    if k == 2:
        return _moments_of_two(means, scales, available, slopes=False).chance
    if k == 3 and np.size(scales) == k:
        return _chances_of_three(means, np.reshape(scales, k), available)
    if native is None:
        return largest_moments(means, scales, available).chance
    grids = [_nodes(scales, chosen) for chosen in range(k)]
    chance, each = np.empty((n_rows, k)), np.broadcast_to(scales, means.shape)
    native.largest(means, each, available, *_in_turn(grids), chance, None, None, None, None)
    return chance


def _moments_of_two(
    means: Array, scales: Array, available: Mask | None, *, slopes: bool
) -> LargestMoments:
    spread = np.hypot(scales[..., 0], scales[..., 1])
    ahead = np.clip((means[:, 0] - means[:, 1]) / spread, -FAR, FAR)
    if available is not None:
        # One that is not there is far behind; where none is, neither is the largest.
        ahead = np.where(available[:, 0], np.where(available[:, 1], ahead, FAR), -FAR)
    chance = ndtr(np.stack([ahead, -ahead], axis=1))
    if available is not None:
        chance *= available
    density = np.exp(-0.5 * ahead * ahead) / np.sqrt(2.0 * np.pi)
    c = np.stack([scales[..., 0] / spread, -scales[..., 1] / spread], axis=-1).reshape(-1, 2)
    side = np.array([1.0, -1.0])
    of_one = density[:, None] * side
    first = c[:, :, None] * of_one[:, None, :]
    if not slopes:
        return LargestMoments(chance, first, None, None, None)
    of_two, of_three = -ahead[:, None] * of_one, (ahead**2 - 1.0)[:, None] * of_one
    square = c * c
    fall = square[:, :, None] * of_two[:, None, :]
    pair = (c[:, :, None] * c[:, None, :])[..., None] * of_two[:, None, None, :]
    pair_fall = (c[:, :, None] * square[:, None, :])[..., None] * of_three[:, None, None, :]
    for m in range(2):
        pair[:, m, m] += chance
        pair_fall[:, m, m] += 2.0 * first[:, m]
    return LargestMoments(chance, first, fall, pair, pair_fall)


def _chances_of_three(means: Array, scales: Array, available: Mask | None) -> Array:
    pairs = list(combinations(range(3), 2))
    spreads = np.array([np.hypot(*scales[[j, m]]) for j, m in pairs])
    within = [[p for p, pair in enumerate(pairs) if j in pair] for j in range(3)]
    grids = [angles(float(scales[j] ** 2 / spreads[own].prod())) for j, own in enumerate(within)]
    native = extension()
    if native is None:
        return _chances_by_numpy(means, available, pairs, spreads, grids)
    begins = np.cumsum([0, *(len(grid.weight) for grid in grids)], dtype=np.int64)
    columns = [np.concatenate(one) for one in zip(*grids, strict=True)]
    chance = np.empty((len(means), 3))
    native.chances(means, available, spreads, *columns, begins, chance)
    return chance


def _chances_by_numpy(
    means: Array,
    available: Mask | None,
    pairs: list[tuple[int, int]],
    spreads: Array,
    grids: list[Angles],
) -> Array:
    """Evaluate the chances of three alternatives: the oracle of the compiled function."""
    ahead = {}
    for (j, m), spread in zip(pairs, spreads, strict=True):
        at = np.clip((means[:, j] - means[:, m]) / spread, -FAR, FAR)
        if available is not None:
            at = np.where(available[:, j], np.where(available[:, m], at, FAR), -FAR)
        ahead[j, m], ahead[m, j] = at, -at
    chance = np.empty((len(means), 3))
    for j, grid in enumerate(grids):
        a, b = (ahead[j, m] for m in range(3) if m != j)
        square, product = a * a + b * b, a * b
        chance[:, j] = ndtr(a) * ndtr(b)
        for by_square, by_product, weight in zip(*grid, strict=True):
            chance[:, j] += weight * np.exp(by_product * product - by_square * square)
    return chance if available is None else chance * available


def _fill(
    made: LargestMoments,
    part: slice,
    means: Array,
    scales: Array,
    available: Mask | None,
    chosen: int,
    z: Array,
    weight: Array,
) -> None:
    """Fill in the moments of some rows where `chosen` is the largest, by NumPy."""
    n_rows, k = means.shape
    first, fall, square, cube = np.empty((4, n_rows, k, len(z)))
    mass = np.tile(weight, (n_rows, 1))
    for m in range(k):
        if m == chosen:
            first[:, m], fall[:, m] = z, z * z - 1.0
            square[:, m], cube[:, m] = z * z, z * z * z - z
            continue
        start, rate = (means[:, chosen] - means[:, m]), scales[:, chosen]
        a = (start[:, None] + rate[:, None] * z) / scales[:, [m]]
        a = np.clip(a, -1e50, 1e50)  # beyond it a tail is empty
        tail = mills_terms_by_numpy(a)
        below, ratio = np.exp(tail.log_cdf), tail.ratio
        if available is not None:
            closed = ~available[:, m]
            below[closed], ratio[closed] = 1.0, 0.0
        mass *= below
        first[:, m], fall[:, m] = -ratio, -a * ratio
        square[:, m], cube[:, m] = 1.0 - a * ratio, -(a * a + 1.0) * ratio
    if available is not None:
        mass *= available[:, [chosen]]
    made.chance[part, chosen] = mass.sum(axis=1)
    weighted = first * mass[:, None, :]
    made.first[part, :, chosen] = weighted.sum(axis=-1)
    if made.fall is None or made.pair is None or made.pair_fall is None:
        return
    diagonal = np.arange(k)
    pair, pair_fall = (weighted @ one.transpose(0, 2, 1) for one in (first, fall))
    pair[:, diagonal, diagonal] = np.einsum("nkm,nm->nk", square, mass)
    pair_fall[:, diagonal, diagonal] = np.einsum("nkm,nm->nk", cube, mass)
    made.fall[part, :, chosen] = np.einsum("nkm,nm->nk", fall, mass)
    made.pair[part, :, :, chosen], made.pair_fall[part, :, :, chosen] = pair, pair_fall
