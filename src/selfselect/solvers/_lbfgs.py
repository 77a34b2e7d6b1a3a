"""L-BFGS with upper bounds, for objectives that cost more than the algebra around them.

SciPy's is not used because its many tiny matrix operations go through a threaded BLAS, which
several climbs at once on few cores slow down tenfold; here all algebra is a dozen dot products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Minimum", "minimise"]

Array = NDArray[np.float64]
Objective = Callable[[Array], tuple[float, Array]]

MEMORY = 20
"""Corrections that are remembered."""

ENOUGH_DECREASE, ENOUGH_CURVATURE = 1e-4, 0.9
"""Constants of the weak Wolfe conditions."""

MOST_TRIALS = 30


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where a minimisation ended: place, value, and evaluations of the objective."""

    place: Array
    value: float
    n_evaluations: int


def minimise(
    objective: Objective,
    start: Array,
    *,
    max_steps: int,
    first_step: float,
    flat: float,
    upper: Array | None = None,
) -> Minimum:
    """Minimise a smooth function.

    Parameters
    ----------
    objective : returns value and gradient.
    start : where to begin.
    max_steps : steps at most.
    first_step : the step along the negative gradient that the first trial takes.
    flat : relative decrease per step at which it stops.
    upper : upper bound of each coordinate; inf where there is none.
    """
    bound = np.full(len(start), np.inf) if upper is None else upper
    here = np.minimum(start, bound)
    value, gradient = objective(here)
    n_evaluations = 1
    steps: list[Array] = []
    changes: list[Array] = []
    for _ in range(max_steps):
        # Where a bound holds a coordinate back, it takes no part in the step.
        held = (here >= bound) & (gradient < 0)
        slope = np.where(held, 0.0, gradient)
        direction = -_two_loops(slope, steps, changes, first_step)
        direction[held] = 0.0
        descent = float(slope @ direction)
        if not np.isfinite(descent) or descent >= 0:
            if not steps:
                break
            steps, changes = [], []
            continue
        found = _line_search(objective, here, value, direction, descent, bound)
        n_evaluations += found.n_evaluations
        if found.place is None:
            if not steps:
                break
            steps, changes = [], []
            continue
        moved, change = found.place - here, found.gradient - gradient
        decrease = value - found.value
        here, value, gradient = found.place, found.value, found.gradient
        if float(moved @ change) > 1e-12 * float(np.linalg.norm(moved) * np.linalg.norm(change)):
            steps.append(moved)
            changes.append(change)
            del steps[:-MEMORY], changes[:-MEMORY]
        if decrease <= flat * max(abs(value), 1.0):
            break
    return Minimum(here, value, n_evaluations)


def _two_loops(
    gradient: Array, steps: list[Array], changes: list[Array], first_step: float
) -> Array:
    """Multiply the gradient by the remembered inverse curvature (Nocedal 1980)."""
    if not steps:
        return first_step * gradient
    result = gradient.copy()
    weights = [0.0] * len(steps)
    inverse = [1.0 / float(s @ y) for s, y in zip(steps, changes, strict=True)]
    for i in range(len(steps) - 1, -1, -1):
        weights[i] = inverse[i] * float(steps[i] @ result)
        result -= weights[i] * changes[i]
    result *= 1.0 / (inverse[-1] * float(changes[-1] @ changes[-1]))
    for i in range(len(steps)):
        result += (weights[i] - inverse[i] * float(changes[i] @ result)) * steps[i]
    return result


@dataclass(frozen=True, eq=False)
class _Trial:
    place: Array | None
    value: float
    gradient: Array
    n_evaluations: int


def _line_search(
    objective: Objective, here: Array, value: float, direction: Array, descent: float, bound: Array
) -> _Trial:
    """Find a step that satisfies the weak Wolfe conditions, by bisection and doubling."""
    low, high, size = 0.0, np.inf, 1.0
    best: _Trial | None = None
    for trial in range(1, MOST_TRIALS + 1):
        place = np.minimum(here + size * direction, bound)
        reached, gradient = objective(place)
        if not reached <= value + ENOUGH_DECREASE * size * descent:
            high = size
        elif float(gradient @ direction) < ENOUGH_CURVATURE * descent:
            low = size
            best = _Trial(place, reached, gradient, trial)
        else:
            return _Trial(place, reached, gradient, trial)
        size = 2.0 * low if np.isinf(high) else 0.5 * (low + high)
    if best is not None:
        return _Trial(best.place, best.value, best.gradient, MOST_TRIALS)
    return _Trial(None, value, direction, MOST_TRIALS)
