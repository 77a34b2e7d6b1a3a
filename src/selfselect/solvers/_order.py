"""The order of alternatives that have no names: by their mean outcome, largest first.

Alternatives that are not open to the same rows, may not have been seen in the same rows, or differ
in what is known of their noise are not alike: only among those that are does an order have to be
agreed on.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.problem.grams import sum_columns
from selfselect.problem.problem import Problem
from selfselect.solvers._climb import Climb

__all__ = ["match_alternatives", "order_alternatives"]

Array = NDArray[np.float64]
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
    for alike in _alike(problem, engine):
        order[alike] = alike[np.argsort(-heights[alike], kind="stable")]
    origin = _origins(problem, order)
    return replace(
        best, free=best.free[origin], information=best.information[np.ix_(origin, origin)]
    )


def match_alternatives(problem: Problem, engine: Engine, free: Array, to: Array) -> Array:
    """Renumber alternatives without names so that they come closest to those of `to`."""
    if not problem.exchangeable:
        return free
    from scipy.optimize import linear_sum_assignment

    starts, natural, wanted = problem.layout.starts, *map(problem.layout.natural, (free, to))
    n_alternatives = len(problem.layout.sizes)
    blocks, targets = (
        np.array([one[starts[j] : starts[j + 1]] for j in range(n_alternatives)])
        for one in (natural, wanted)
    )
    distance = ((targets[:, None, :] - blocks[None, :, :]) ** 2).sum(axis=2)
    order = np.arange(n_alternatives)
    for alike in _alike(problem, engine):
        order[alike] = alike[linear_sum_assignment(distance[np.ix_(alike, alike)])[1]]
    return free[_origins(problem, order)]


def _alike(problem: Problem, engine: Engine) -> list[Indices]:
    """Group the alternatives that nothing but their order tells apart."""
    scales, available = problem.layout.scales, engine.rows.known.available
    possible = engine.rows.possible
    extras = problem.noise.extras(problem.equations.alternatives)
    named_by_noise = len({extra.fixed for extra in extras}) > 1
    groups: dict[tuple[float, bytes, bytes, int], list[int]] = {}
    for j in range(len(problem.layout.sizes)):
        key = (
            0.0 if scales is None else float(scales[j]),
            b"" if available is None else available[:, j].tobytes(),
            b"" if possible is None else possible[:, j].tobytes(),
            j if named_by_noise else 0,
        )
        groups.setdefault(key, []).append(j)
    return [np.array(group, dtype=np.intp) for group in groups.values()]


def _origins(problem: Problem, order: Indices) -> Indices:
    """Return where each free parameter comes from in that order; shared ones stay in place."""
    layout = problem.layout
    moved = np.concatenate(
        [np.arange(layout.starts[j], layout.starts[j + 1]) for j in order]
        + [layout.starts[-1] + problem.noise.renumbered(order)]
    )
    origin = np.arange(layout.n_free)
    for new, old in enumerate(moved):
        if layout.position[new] >= 0:
            origin[layout.position[new]] = layout.position[old]
    return origin
