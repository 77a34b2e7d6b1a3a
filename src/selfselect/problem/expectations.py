r"""Expectations over the latent outcomes of new rows, by quadrature in one dimension.

For a rule with bounds, alternative :math:`l` is seen with probability

.. math:: P(l \mid x) = \int f_l(y) \prod_{m \ne l} P(\text{lo}_m(y) \le y_m \le \text{hi}_m(y))
   \,dy

and means of outcomes among those seen in :math:`l` weigh the same integral. The integrand is
smooth but may be steep where one alternative scatters much less than another. So the range of
:math:`y` is cut, row by row, at the points where any factor changes, and each piece is integrated
by Gauss-Legendre.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from selfselect.data.checks import first_rows
from selfselect.errors import DataError
from selfselect.rules import Maximum, Minimum, Ranked
from selfselect.rules.base import HasBounds, RowData
from selfselect.threads import parallel_map

__all__ = ["Expectations", "expectations"]

Array = NDArray[np.float64]

REACH = 8.5
"""Standard deviations within which an outcome is integrated; beyond lies 2e-17 of its mass."""

NEGLIGIBLE = 1e-12
"""Chance below which no mean is given: what is left of the outcome's range is too far out."""

CUTS = np.array([-6.0, -2.0, 0.0, 2.0, 6.0])
"""Standard deviations around another alternative's mean at which the range is cut."""

NODES, WEIGHTS = np.polynomial.legendre.leggauss(10)

ROWS_AT_ONCE = 256
"""Few enough that all temporaries of a block stay in cache."""


@dataclass(frozen=True, eq=False)
class Expectations:
    """What is expected of rows before anything is seen.

    Attributes
    ----------
    chance : (n, k) probability that each alternative is seen.
    outcome : (n,) mean of the outcome that is seen.
    given_seen : (n, k, k) mean of alternative j's outcome where l is seen, at [row, j, l]; nan
        where the chance of that is less than 1e-12.
    """

    chance: Array
    outcome: Array
    given_seen: Array


def expectations(
    rule: HasBounds | Ranked, means: Array, scales: Array, known: RowData
) -> Expectations:
    """Integrate over the latent outcomes of rows, on all cores.

    Parameters
    ----------
    rule : with bounds or a rank, in the order of the alternatives.
    means : (n, k) mean of every latent outcome.
    scales : (k,) their standard deviations.
    known : costs and availability.
    """
    n_rows, k = means.shape
    chance, given = np.empty((n_rows, k)), np.empty((n_rows, k, k))
    # Rules that look at differences alone are integrated around the mean of the outcome that is
    # chosen: around a mean of 1e19, noise of scale 1 is rounded away.
    differences = isinstance(rule, Maximum | Minimum | Ranked)

    def fill(start: int) -> None:
        part = slice(start, start + ROWS_AT_ONCE)
        for seen in range(k):
            shift: Any = means[part][:, [seen]] if differences else 0.0
            here = means[part] - shift
            if isinstance(rule, Ranked):
                found = _integrate_ranked(rule.rank_among(k), here, scales, seen)
            else:
                found = _integrate(rule, here, scales, known.take(part), seen)
            chance[part, seen], given[part, :, seen] = found[0], found[1] + shift

    for _ in parallel_map(fill, range(0, n_rows, ROWS_AT_ONCE)):
        pass
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
    own = np.einsum("nll->nl", given)
    outcome = np.where(chance > 0, chance * np.nan_to_num(own), 0.0).sum(axis=1)
    return Expectations(chance, outcome, given)


def _integrate(
    rule: HasBounds, means: Array, scales: Array, known: RowData, seen: int
) -> tuple[Array, Array]:
    """Return the chance that `seen` is seen, and every outcome's mean where it is."""
    n_rows, k = means.shape
    outcome, weight = _nodes(_edges(rule, means, scales, known, seen), means, scales, seen)
    n_nodes = outcome.shape[1]

    flat = outcome.ravel()
    each = np.repeat(np.arange(n_rows), n_nodes)
    lower, upper = rule.bounds(np.full(flat.size, seen, dtype=np.intp), flat, known.take(each))
    if known.available is not None:
        weight *= known.available[:, [seen]]

    mass = np.empty((k, n_rows, n_nodes))
    moment = np.empty((k, n_rows, n_nodes))
    for m in range(k):
        if m == seen:
            mass[m], moment[m] = 1.0, outcome
            continue
        low = _standardised(lower, m, means, scales, n_nodes)
        high = _standardised(upper, m, means, scales, n_nodes)
        mass[m], slope = _interval(low, high)
        moment[m] = means[:, [m]] * mass[m] + scales[m] * slope
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


def _integrate_ranked(rank: int, means: Array, scales: Array, seen: int) -> tuple[Array, Array]:
    """Do the same where the outcome of a given rank is seen."""
    n_rows, k = means.shape
    edges = _edges(Maximum(), means, scales, RowData(), seen)
    outcome, weight = _nodes(edges, means, scales, seen)
    others = [m for m in range(k) if m != seen]
    z = {m: (outcome - means[:, [m]]) / scales[m] for m in others}
    below, above = {m: ndtr(z[m]) for m in others}, {m: ndtr(-z[m]) for m in others}

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
        means_given[:, seen] = (own * outcome).sum(axis=1) / chance
        for m in others:
            rest = [one for one in others if one != m]
            step = scales[m] * _density(z[m])
            moment = (means[:, [m]] * below[m] - step) * count_above(rest, rank - 1)
            moment += (means[:, [m]] * above[m] + step) * count_above(rest, rank - 2)
            means_given[:, m] = (weight * moment).sum(axis=1) / chance
    means_given[chance < NEGLIGIBLE] = np.nan
    return chance, means_given


def _nodes(edges: Array, means: Array, scales: Array, seen: int) -> tuple[Array, Array]:
    """Return outcomes to evaluate at and their weights, the density of the seen one included."""
    half = 0.5 * np.diff(edges, axis=1)
    middle = edges[:, :-1] + half
    outcome = (middle[:, :, None] + half[:, :, None] * NODES).reshape(len(edges), -1)
    weight = (half[:, :, None] * WEIGHTS).reshape(len(edges), -1)
    z = (outcome - means[:, [seen]]) / scales[seen]
    return outcome, weight * _density(z) / scales[seen]


def _edges(rule: HasBounds, means: Array, scales: Array, known: RowData, seen: int) -> Array:
    """Return, per row, the sorted points between which the integrand is smooth, (n, pieces + 1)."""
    n_rows, k = means.shape
    low = means[:, [seen]] - REACH * scales[seen]
    high = means[:, [seen]] + REACH * scales[seen]
    cuts = [low, high, means[:, [seen]] + scales[seen] * CUTS[1:-1]]
    for other in range(k):
        if other == seen:
            continue
        # If `other` were seen at a cut of its own, the bound this sets on `seen` is where its
        # factor in our integrand has that cut.
        at = (means[:, [other]] + scales[other] * CUTS).ravel()
        each = np.repeat(np.arange(n_rows), CUTS.size)
        lower, upper = rule.bounds(np.full(at.size, other, dtype=np.intp), at, known.take(each))
        above, below = _column(upper, seen), _column(lower, seen)
        bound = np.where(np.isfinite(above), above, below)
        cuts.append(bound.reshape(n_rows, CUTS.size))
    edges = np.concatenate(cuts, axis=1)
    edges = np.where(np.isfinite(edges), edges, low)
    return np.sort(np.clip(edges, low, high), axis=1)


def _standardised(bound: Array, m: int, means: Array, scales: Array, n_nodes: int) -> Array:
    return (_column(bound, m).reshape(-1, n_nodes) - means[:, [m]]) / scales[m]


def _column(bound: Array, m: int) -> Array:
    """Return the bound of one alternative, which may be shared by all."""
    return bound[:, m if bound.shape[1] > 1 else 0]


def _interval(low: Array, high: Array) -> tuple[Array, Array]:
    """Return P(low < Z < high) and E[Z; low < Z < high], elementwise.

    Most bounds have one side; each side that is open everywhere saves half of the work.
    """
    if np.isneginf(low).all():
        return ndtr(high), -_density(high)
    if np.isposinf(high).all():
        return ndtr(-low), _density(low)
    # Differences of ndtr lose digits on the right; reflecting keeps both tails exact.
    mass = np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
    return np.maximum(mass, 0.0), _density(low) - _density(high)


def _density(z: Array) -> Array:
    # A square that overflows belongs to a density of zero.
    with np.errstate(over="ignore"):
        density: Array = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    return density
