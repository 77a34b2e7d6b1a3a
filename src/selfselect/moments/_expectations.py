r"""Expectations over the latent outcomes of rows, by quadrature in one dimension.

For a rule with bounds, alternative :math:`l` is chosen with probability

.. math:: P(l \mid x) = \int f_l(y) \prod_{m \ne l} P(\text{lo}_m(y) \le y_m \le \text{hi}_m(y))
   \,dy

and means of outcomes among those who chose :math:`l` weigh the same integral. The integrand is
smooth but may be steep where one alternative scatters much less than another. So the range of
:math:`y` is cut, row by row, at the points where any factor changes, and each piece is integrated
by Gauss-Legendre.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.checks import first_rows
from selfselect.errors import DataError
from selfselect.moments._largest import chances_of_largest, moments_of_largest, of_largest
from selfselect.moments._quadrature import edges_of, nodes_of, standardised
from selfselect.moments.base import NEGLIGIBLE, Expectations, with_outcome
from selfselect.noises.shapes import Shape
from selfselect.rules import Maximum, direction_of, rank_of
from selfselect.rules.base import RowData
from selfselect.threads import parallel_map

__all__ = ["chances", "expectations"]

Array = NDArray[np.float64]

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
