"""The order of what has no name: alternatives and types."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.kernels.mixture import TypeValues
from selfselect.likelihoods.components import Components
from selfselect.problem.batch import Batch
from selfselect.problem.problem import Problem, sum_columns
from selfselect.solvers.base import Solution
from selfselect.solvers.climb import Climb

Array = NDArray[np.float64]


# The order of alternatives that have no names: by their mean outcome, largest first.
#
# Alternatives that are not available in the same rows, may not have been chosen in the same rows,
# or differ in what is known of their noise are not alike: only among those that are alike does an
# order have to be agreed on.

Indices = NDArray[np.intp]


def order_alternatives(problem: Problem, engine: Engine, best: Climb) -> Climb:
    """Order alternatives without names by their mean outcome over the rows, largest first."""
    if not problem.exchangeable:
        return best
    layout = problem.layout
    natural = layout.natural(best.free)
    mean_row = engine.sum(partial(sum_columns, problem))
    heights = np.array(
        [
            mean_row @ natural[layout.starts[j] : layout.inverse_scale_positions[j]]
            / natural[layout.inverse_scale_positions[j]]
            for j in range(len(layout.sizes))
        ]
    )  # fmt: skip
    order = np.arange(len(layout.sizes))
    for alike in groups_alike(problem, engine):
        order[alike] = alike[np.argsort(-heights[alike], kind="stable")]
    origin = _origins(problem, order)
    return replace(
        best, free=best.free[origin], information=best.information[np.ix_(origin, origin)]
    )


def groups_alike(problem: Problem, engine: Engine) -> list[Indices]:
    """Group the alternatives that nothing but their order tells apart; none if all have names."""
    if not problem.exchangeable:
        return []
    k = problem.equations.n_alternatives
    row = engine.sample(1, np.random.default_rng(0)).rows
    # Where no row restricts the alternatives, no pass is needed to find that.
    if row.known.available is None and row.possible is None:
        return _alike(problem, np.zeros((k, k)))
    return _alike(problem, engine.sum(partial(_differing, problem)))


def match_alternatives(
    problem: Problem, groups: Sequence[Indices], free: Array, to: Array
) -> Array:
    """Renumber alternatives, within groups that are alike, to come closest to those of `to`.

    Unobserved types have no names either: they are renumbered as well.
    """
    if groups:
        free = free[_origins(problem, closest_order(problem, groups, free, problem, to))]
    if not problem.noise.mixed:
        return free
    return match_types(problem, free, to)


def closest_order(
    problem: Problem, groups: Sequence[Indices], free: Array, other: Problem, to: Array
) -> Indices:
    """Return which alternative comes closest to each of those of `to`, which another problem has.

    They are compared by their scales and the coefficients of terms that both problems have.
    """
    from scipy.optimize import linear_sum_assignment

    both = (problem, free), (other, to)
    common = set.intersection(*(set(one.equations.each[0].terms) for one, _ in both))
    blocks, targets = (_blocks(one, at, common) for one, at in both)
    distance = ((targets[:, None, :] - blocks[None, :, :]) ** 2).sum(axis=2)
    order = np.arange(len(blocks))
    for alike in groups:
        order[alike] = alike[linear_sum_assignment(distance[np.ix_(alike, alike)])[1]]
    return order


def _blocks(problem: Problem, free: Array, terms: Collection[str]) -> Array:
    """Return the natural parameters of each alternative: those of some terms, and its scale."""
    layout, blocks = problem.layout, []
    for j, equation in enumerate(problem.equations.each):
        places = [layout.starts[j] + at for at, t in enumerate(equation.terms) if t in terms]
        blocks.append([*places, layout.inverse_scale_positions[j]])
    return layout.natural(free)[np.array(blocks, dtype=np.intp)]


def reported_origins(problem: Problem, free: Array, order: Indices) -> Indices:
    """Return where each reported parameter comes from if alternatives are in another order."""
    origin = _origins(problem, order)
    before, after = (problem.layout.report(one).jacobian for one in (free, free[origin]))
    slopes = np.empty_like(after)
    slopes[:, origin] = after
    # The same parameter has the same derivatives, whatever its label.
    apart = np.abs(slopes[:, None, :] - before[None, :, :]).sum(axis=2)
    return np.argmin(apart / np.abs(before).sum(axis=1), axis=1)


def reordered(problem: Problem, found: Solution, order: Indices) -> Solution:
    """Return a solution with its alternatives in another order, its information with them."""
    origin = _origins(problem, order)
    if (np.diff(origin) == 1).all():
        return found

    def moved(matrix: Array | None) -> Array | None:
        return None if matrix is None else matrix[np.ix_(origin, origin)]

    return replace(
        found,
        free=found.free[origin],
        information=found.information[np.ix_(origin, origin)],
        noise=moved(found.noise),
        outer=moved(found.outer),
        held=tuple(np.flatnonzero(np.isin(origin, found.held)).tolist()),
    )


def _alike(problem: Problem, differing: Array) -> list[Indices]:
    """Group alternatives by what is known of them, given in how many rows each two differ."""
    scales = problem.layout.scales
    extras = problem.noise.extras(problem.equations.alternatives)
    named_by_noise = len({extra.fixed for extra in extras}) > 1
    groups: dict[tuple[float, int, int], list[int]] = {}
    for j in range(len(problem.layout.sizes)):
        key = (
            0.0 if scales is None else float(scales[j]),
            int(np.flatnonzero(differing[j] == 0)[0]),
            j if named_by_noise else 0,
        )
        groups.setdefault(key, []).append(j)
    return [np.array(group, dtype=np.intp) for group in groups.values()]


def _origins(problem: Problem, order: Indices) -> Indices:
    """Return where each free parameter comes from in that order; shared ones stay in place."""
    layout = problem.layout
    spreads = [layout.spread_of[j] for j in order]
    moved = np.concatenate(
        [np.arange(layout.starts[j], layout.starts[j + 1]) for j in order]
        + [layout.starts[-1] + problem.noise.renumbered(order)]
        # Alternatives that are alike have log scales of the same terms.
        + [spread.places for spread in spreads if spread is not None]
    )
    origin = np.arange(layout.n_free)
    for new, old in enumerate(moved):
        if layout.position[new] >= 0:
            origin[layout.position[new]] = layout.position[old]
    return origin


def _differing(problem: Problem, batch: Batch) -> Array:
    """Count, for each two alternatives, the rows in which only one was available or possible."""
    k = problem.equations.n_alternatives
    count = np.zeros((k, k))
    for open_to in (batch.rows.known.available, batch.rows.possible):
        if open_to is not None:
            count += (open_to[:, :, None] != open_to[:, None, :]).sum(axis=0)
    return count


# The numbers of unobserved types: by weight, or as close as can be to those of another fit.


def types_by_weight(problem: Problem, free: Array) -> Array:
    """Return the same with types in the order of their weight, the largest first."""
    _, values = _types_at(problem, free)
    return _reordered(problem, free, np.argsort(-values.weights, kind="stable"))


def match_types(problem: Problem, free: Array, to: Array) -> Array:
    """Renumber types to come closest, in what they shift and cost, to those of `to`."""
    from scipy.optimize import linear_sum_assignment

    (_, found), (natural, wanted) = (_types_at(problem, one) for one in (free, to))
    h = natural[problem.layout.inverse_scale_positions]
    blocks, targets = (
        np.hstack([one.shifts * h, one.costs * h, one.logits[:, None]]) for one in (found, wanted)
    )
    distance = ((targets[:, None, :] - blocks[None, :, :]) ** 2).sum(axis=2)
    return _reordered(problem, free, linear_sum_assignment(distance)[1])


def _types_at(problem: Problem, free: Array) -> tuple[Array, TypeValues]:
    parts, natural = Components.of(problem), problem.layout.natural(free)
    return natural, parts.map.at(natural[parts.at_types])


def _reordered(problem: Problem, free: Array, order: Indices) -> Array:
    """Return the same with types in an order; types of which something is held keep theirs."""
    noise: Any = problem.noise
    if (np.diff(order) == 1).all() or noise.undetermined() is not None:
        return free
    parts = Components.of(problem)
    natural, values = _types_at(problem, free)
    natural[parts.at_types] = parts.map.parameters(
        values.weights[order], values.shifts[order], values.costs[order]
    )
    if parts.slopes_at.size:
        slopes = np.vstack([np.zeros(parts.slopes_at.shape[1]), natural[parts.slopes_at]])[order]
        natural[parts.slopes_at] = slopes[1:] - slopes[0]
    return problem.layout.gather(natural)
