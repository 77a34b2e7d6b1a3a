"""What is expected of rows, by quadrature or the kernel of the largest outcome."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.columns import first_rows
from selfselect.errors import DataError
from selfselect.kernels.largest import (
    LargestMoments,
    largest_chances,
    largest_moments,
    nodes_wanted,
)
from selfselect.moments.base import NEGLIGIBLE, Expectations, with_outcome
from selfselect.noises.shapes import Shape
from selfselect.rules import Maximum, direction_of, rank_of
from selfselect.rules.base import RowData
from selfselect.threads import parallel_map

Array = NDArray[np.float64]


# Nodes of the quadrature over one outcome, placed where its integrand changes.


NODES, WEIGHTS = np.polynomial.legendre.leggauss(10)


def nodes_of(
    edges: Array, means: Array, scales: Array, chosen: int, shape: Shape
) -> tuple[Array, Array]:
    """Return outcomes (n, nodes) of the chosen one, and their weights, its density included.

    `scales` are (n, k), or (1, k) where all rows have the same: so in all of these. `shape` is that
    of the chosen one.
    """
    half = 0.5 * np.diff(edges, axis=1)
    middle = edges[:, :-1] + half
    outcome = (middle[:, :, None] + half[:, :, None] * NODES).reshape(len(edges), -1)
    weight = (half[:, :, None] * WEIGHTS).reshape(len(edges), -1)
    z = (outcome - means[:, [chosen]]) / scales[:, [chosen]]
    return outcome, weight * shape.pdf(z) / scales[:, [chosen]]


def edges_of(
    rule: Any, means: Array, scales: Array, known: RowData, chosen: int, shapes: Sequence[Shape]
) -> Array:
    """Return, per row, the sorted points between which the integrand is smooth, (n, pieces + 1)."""
    n_rows, k = means.shape
    reach, own = shapes[chosen].reach, np.array(shapes[chosen].cuts)
    low = means[:, [chosen]] - reach * scales[:, [chosen]]
    high = means[:, [chosen]] + reach * scales[:, [chosen]]
    points = [low, high, means[:, [chosen]] + scales[:, [chosen]] * own[1:-1]]
    for other in range(k):
        if other == chosen:
            continue
        # If `other` were chosen at a cut of its own, the bound this sets on `chosen` is where its
        # factor in our integrand has that cut.
        cuts = np.array(shapes[other].cuts)
        at = (means[:, [other]] + scales[:, [other]] * cuts).ravel()
        each = np.repeat(np.arange(n_rows), cuts.size)
        lower, upper = rule.bounds(np.full(at.size, other, dtype=np.intp), at, known.take(each))
        above, below = column_of(upper, chosen), column_of(lower, chosen)
        bound = np.where(np.isfinite(above), above, below)
        points.append(bound.reshape(n_rows, cuts.size))
    edges = np.concatenate(points, axis=1)
    edges = np.where(np.isfinite(edges), edges, low)
    return np.sort(np.clip(edges, low, high), axis=1)


def standardised(bound: Array, m: int, means: Array, scales: Array, n_nodes: int) -> Array:
    """Return the limit (n, nodes) of one alternative, less its mean, in units of its scale."""
    return (column_of(bound, m).reshape(-1, n_nodes) - means[:, [m]]) / scales[:, [m]]


def column_of(bound: Array, m: int) -> Array:
    """Return the bound of one alternative, which may be shared by all."""
    return bound[:, m if bound.shape[1] > 1 else 0]


# Moments where the largest or the smallest of normal outcomes is observed, by their kernel.
#
# Mixtures of normals are sums of such moments, over all combinations of their components.


MOST_NODES = 600
"""Beyond this many nodes cutting the range at the steep places is cheaper."""

MOST_COMBINATIONS = 64
"""Beyond this many combinations of components so is adding components up at every node."""


@dataclass(frozen=True, eq=False)
class NoiseMoments:
    """Moments of every noise z over those who choose g, times the chance of that.

    Attributes
    ----------
    chance : (n, k) that g is chosen.
    first : (n, k, k) of z_l at [row, l, g].
    psi : (n, k, k) of the score in a mean, in units of the scale; None where no slopes were wanted,
        as those below.
    fall : (n, k, k) of the score in the logarithm of a scale.
    pair, pair_fall : (n, k, k, k) of z_l times both scores of m, at [row, l, m, g].
    """

    chance: Array
    first: Array
    psi: Array | None = None
    fall: Array | None = None
    pair: Array | None = None
    pair_fall: Array | None = None

    def plus(self, other: NoiseMoments) -> NoiseMoments:
        """Add the moments of another combination."""
        sums: dict[str, Any] = {}
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            sums[field.name] = None if mine is None else mine + theirs
        return NoiseMoments(**sums)


def of_largest(rule: Any, scales: Array, shapes: Sequence[Shape]) -> bool:
    """Say whether the kernel integrates these outcomes."""
    if direction_of(rule) is None:
        return False
    spreads = [shape.normals[:, 2] for shape in shapes if shape.normals is not None]
    if len(spreads) < len(shapes) or _n_combinations(shapes) > MOST_COMBINATIONS:
        return False
    narrowest, widest = ([limit(one) for one in spreads] for limit in (np.min, np.max))
    nodes = (
        nodes_wanted(scales * np.where(np.arange(len(spreads)) == j, widest, narrowest))
        for j in range(len(spreads))
    )
    return max(nodes) <= MOST_NODES


def moments_of_largest(
    rule: Any,
    means: Array,
    scales: Array,
    known: RowData,
    shapes: Sequence[Shape],
    *,
    slopes: bool,
) -> NoiseMoments:
    """Integrate where the largest or the smallest outcome is observed, net of known costs."""
    if _n_combinations(shapes) == 1:
        # It is that of normal noise, whose mean is zero and whose spread is one.
        found = _of_normals(rule, means, scales, known, slopes=slopes)
        psi = found.first if slopes else None
        return NoiseMoments(found.chance, found.first, psi, found.fall, found.pair, found.pair_fall)
    total: NoiseMoments | None = None
    for share, centre, spread in _combinations(shapes):
        found = _of_normals(rule, means + scales * centre, scales * spread, known, slopes=slopes)
        own = _of_combination(found, share, centre, spread)
        total = own if total is None else total.plus(own)
    assert total is not None
    return total


def chances_of_largest(
    rule: Any, means: Array, scales: Array, known: RowData, shapes: Sequence[Shape]
) -> Array:
    """Return the chances (n, k) of the same."""
    total = np.zeros(means.shape)
    for share, centre, spread in _combinations(shapes):
        net = _net(rule, means + scales * centre, known)
        total += share * largest_chances(net, scales * spread, known.available)
    return total


def _n_combinations(shapes: Sequence[Shape]) -> int:
    """Return how many combinations of components there are."""
    return prod(len(shape.normals) for shape in shapes if shape.normals is not None)


def _combinations(shapes: Sequence[Shape]) -> Iterator[tuple[float, Array, Array]]:
    """Yield the share of every combination of components, and its means and spreads (k,)."""
    each = [shape.normals for shape in shapes if shape.normals is not None]
    for parts in product(*each):
        shares, centre, spread = np.array(parts).T
        yield float(shares.prod()), centre, spread


def _of_normals(
    rule: Any, means: Array, scales: Array, known: RowData, *, slopes: bool
) -> LargestMoments:
    found = largest_moments(_net(rule, means, known), scales, known.available, slopes=slopes)
    if direction_of(rule) == 1.0:
        return found
    mirrored = found.pair_fall if found.pair_fall is None else -found.pair_fall
    return found._replace(first=-found.first, pair_fall=mirrored)


def _of_combination(
    found: LargestMoments, share: float, centre: Array, spread: Array
) -> NoiseMoments:
    """Turn moments of standard normal u into those of z = centre + spread u, times the share.

    The scores of z are u / spread in the mean and u² - 1 + centre u / spread in the log scale.
    """
    chance, first = found.chance, found.first
    own, wide = centre[:, None], spread[:, None]
    noise = share * (own * chance[:, None, :] + wide * first)
    if found.fall is None or found.pair is None or found.pair_fall is None:
        return NoiseMoments(share * chance, noise)
    psi = first / wide
    fall = found.fall + own * psi
    pair = own[:, None] * psi[:, None] + wide[:, None] * found.pair / wide
    pair_fall = own[:, None] * fall[:, None] + wide[:, None] * (
        found.pair_fall + own * found.pair / wide
    )
    return NoiseMoments(
        share * chance, noise, share * psi, share * fall, share * pair, share * pair_fall
    )


def _net(rule: Any, means: Array, known: RowData) -> Array:
    """Return what is compared, the largest of which is chosen."""
    way = direction_of(rule)
    assert way is not None
    # Costs are taken off what is sought large, and added to what is sought small.
    return way * means if known.costs is None else way * means - known.costs


# Expectations over the latent outcomes of rows, by quadrature in one dimension.
#
# For a rule with bounds, alternative :math:`l` is chosen with probability
#
# .. math:: P(l \mid x) = \int f_l(y) \prod_{m \ne l} P(\text{lo}_m(y) \le y_m \le \text{hi}_m(y))
#    \,dy
#
# and means of outcomes among those who chose :math:`l` weigh the same integral. The integrand is
# smooth but may be steep where one alternative scatters much less than another. So the range of
# :math:`y` is cut, row by row, at the points where any factor changes, and each piece is
# integrated by Gauss-Legendre.


ROWS_AT_ONCE = 256
"""Few enough that all temporaries of a block stay in cache."""


ROWS_OF_KERNEL = 4_096
"""Rows that a call of the compiled kernel takes."""


def expectations(
    rule: Any, means: Array, scales: Array, known: RowData, shapes: Sequence[Shape]
) -> Expectations:
    """Integrate over the latent outcomes of rows, on all cores.

    Parameters
    ----------
    rule : with bounds or a rank, in the order of the alternatives.
    means : (n, k) mean of every latent outcome.
    scales : (n, k) their scales, or (k,) where all rows have the same.
    known : costs and availability.
    shapes : of each alternative's noise.
    """
    scales = np.atleast_2d(scales)
    n_rows, k = means.shape
    chance, given = np.empty((n_rows, k)), np.empty((n_rows, k, k))
    # Rules that look at differences alone are integrated around the mean of the outcome that is
    # chosen: around a mean of 1e19, noise of scale 1 is rounded away.
    rank = rank_of(rule, k)
    fast = rank is None and of_largest(rule, scales, shapes)
    at_once = ROWS_OF_KERNEL if fast else ROWS_AT_ONCE
    differences = rank is not None or direction_of(rule) is not None

    def fill(start: int) -> None:
        part = slice(start, start + at_once)
        if fast:
            chance[part], given[part] = _of_largest(
                rule,
                means[part],
                scales if len(scales) == 1 else scales[part],
                known.take(part),
                shapes,
            )
            return
        for chosen in range(k):
            shift: Any = means[part][:, [chosen]] if differences else 0.0
            here, wide = means[part] - shift, scales if len(scales) == 1 else scales[part]
            if rank is not None:
                found = _integrate_ranked(rank, here, wide, chosen, shapes)
            else:
                found = _integrate(rule, here, wide, known.take(part), chosen, shapes)
            chance[part, chosen], given[part, :, chosen] = found[0], found[1] + shift

    for _ in parallel_map(fill, range(0, n_rows, at_once)):
        pass
    return with_outcome(_adding_up(chance, means, scales), given)


def chances(
    rule: Any, means: Array, scales: Array, known: RowData, shapes: Sequence[Shape]
) -> Array:
    """Return the chances (n, k) that `expectations` has, without means that take longer."""
    scales = np.atleast_2d(scales)
    if rank_of(rule, means.shape[1]) is not None or not of_largest(rule, scales, shapes):
        return expectations(rule, means, scales, known, shapes).chance
    found = np.empty(means.shape)

    def fill(start: int) -> None:
        part = slice(start, start + ROWS_OF_KERNEL)
        wide = scales if len(scales) == 1 else scales[part]
        found[part] = chances_of_largest(rule, means[part], wide, known.take(part), shapes)

    for _ in parallel_map(fill, range(0, len(means), ROWS_OF_KERNEL)):
        pass
    return _adding_up(found, means, scales)


def _adding_up(chance: Array, means: Array, scales: Array) -> Array:
    """Make chances that were integrated add up to one; refuse rows in which they are lost."""
    total = chance.sum(axis=1, keepdims=True)
    lost = ~(total[:, 0] > 0.5)
    if lost.any():
        raise DataError(
            f"The outcomes of {lost.sum()} rows ({first_rows(lost)}) cannot be integrated: their "
            f"means reach {np.abs(means[lost]).max():g}, where double precision does not "
            f"resolve noise of scale {scales.min():g}. Predict for covariates nearer to those of "
            "the fit."
        )
    # The pieces add up to one within rounding; dividing makes them do so exactly.
    chance /= total
    return chance


def _of_largest(
    rule: Any, means: Array, scales: Array, known: RowData, shapes: Sequence[Shape]
) -> tuple[Array, Array]:
    """Do the same for all alternatives at once, by the kernel of normal outcomes."""
    found = moments_of_largest(rule, means, scales, known, shapes, slopes=False)
    given = np.full(found.first.shape, np.nan)
    likely = np.broadcast_to((found.chance >= NEGLIGIBLE)[:, None, :], given.shape)
    np.divide(found.first, found.chance[:, None, :], out=given, where=likely)
    return found.chance, means[:, :, None] + scales[:, :, None] * given


def _integrate(
    rule: Any, means: Array, scales: Array, known: RowData, chosen: int, shapes: Sequence[Shape]
) -> tuple[Array, Array]:
    """Return the chance that `chosen` is chosen, and every outcome's mean where it is."""
    n_rows, k = means.shape
    edges = edges_of(rule, means, scales, known, chosen, shapes)
    outcome, weight = nodes_of(edges, means, scales, chosen, shapes[chosen])
    n_nodes = outcome.shape[1]

    flat = outcome.ravel()
    each = np.repeat(np.arange(n_rows), n_nodes)
    lower, upper = rule.bounds(np.full(flat.size, chosen, dtype=np.intp), flat, known.take(each))
    if known.available is not None:
        weight *= known.available[:, [chosen]]

    mass = np.empty((k, n_rows, n_nodes))
    moment = np.empty((k, n_rows, n_nodes))
    for m in range(k):
        if m == chosen:
            mass[m], moment[m] = 1.0, outcome
            continue
        low = standardised(lower, m, means, scales, n_nodes)
        high = standardised(upper, m, means, scales, n_nodes)
        mass[m], partial = shapes[m].mass_and_partial(low, high)
        moment[m] = means[:, [m]] * mass[m] + scales[:, [m]] * partial
        if known.available is not None:
            closed = ~known.available[:, m]
            mass[m][closed] = 1.0
            moment[m][closed] = means[closed, m][:, None]

    chance = np.einsum("ij,ij->i", weight, mass.prod(axis=0))
    means_given = np.full((n_rows, k), np.nan)
    for m in range(k):
        others = np.delete(mass, m, axis=0).prod(axis=0) * weight
        with np.errstate(divide="ignore", invalid="ignore"):
            means_given[:, m] = np.einsum("ij,ij->i", others, moment[m]) / chance
    means_given[chance < NEGLIGIBLE] = np.nan
    return chance, means_given


def _integrate_ranked(
    rank: int, means: Array, scales: Array, chosen: int, shapes: Sequence[Shape]
) -> tuple[Array, Array]:
    """Do the same where the outcome of a given rank is the observed one."""
    n_rows, k = means.shape
    edges = edges_of(Maximum(), means, scales, RowData(), chosen, shapes)
    outcome, weight = nodes_of(edges, means, scales, chosen, shapes[chosen])
    others = [m for m in range(k) if m != chosen]
    z = {m: (outcome - means[:, [m]]) / scales[:, [m]] for m in others}
    infinite = np.broadcast_to(np.inf, outcome.shape)
    below = {m: shapes[m].mass(-infinite, z[m]) for m in others}
    above = {m: shapes[m].mass(z[m], infinite) for m in others}

    def count_above(kept: list[int], count: int) -> Array:
        """Return the chance that exactly `count` of the kept lie above the outcome."""
        if count < 0:
            return np.zeros_like(outcome)
        held = [np.ones_like(outcome)] + [np.zeros_like(outcome)] * count
        for m in kept:
            up = [np.zeros_like(outcome), *(part * above[m] for part in held[:-1])]
            held = [part * below[m] + more for part, more in zip(held, up, strict=True)]
        return held[count]

    own = weight * count_above(others, rank - 1)
    chance = own.sum(axis=1)
    means_given = np.full((n_rows, k), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        means_given[:, chosen] = (own * outcome).sum(axis=1) / chance
        for m in others:
            rest = [one for one in others if one != m]
            under = scales[:, [m]] * shapes[m].partial(-infinite, z[m])
            moment = (means[:, [m]] * below[m] + under) * count_above(rest, rank - 1)
            moment += (means[:, [m]] * above[m] - under) * count_above(rest, rank - 2)
            means_given[:, m] = (weight * moment).sum(axis=1) / chance
    means_given[chance < NEGLIGIBLE] = np.nan
    return chance, means_given
