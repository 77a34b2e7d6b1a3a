"""The numbers of unobserved types: by weight, or as close as can be to those of another fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.components import TypeValues
from selfselect.likelihoods._components import Components
from selfselect.problem.problem import Problem

__all__ = ["match_types", "types_by_weight"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


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
