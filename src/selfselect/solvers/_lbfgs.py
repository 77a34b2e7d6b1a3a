"""L-BFGS with upper bounds, from many starts at once.

All starts take their steps side by side, so that where an evaluation is small they share its calls;
each is on its own otherwise, and ends where it would have ended alone. SciPy's is not used because
its many tiny matrix operations go through a threaded BLAS, which several climbs at once on few
cores slow down tenfold; here all algebra is a dozen dot products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Objective = Callable[[Array, NDArray[np.intp]], tuple[Array, Array]]

MEMORY = 20
"""Corrections that are remembered."""

ENOUGH_DECREASE, ENOUGH_CURVATURE = 1e-4, 0.9
"""Constants of the weak Wolfe conditions."""

MOST_TRIALS = 30


@dataclass(frozen=True, eq=False)
class Minima:
    """Where minimisations ended: places (s, m), values (s,), evaluations of each (s,)."""

    places: Array
    values: Array
    n_evaluations: NDArray[np.intp]


def minimise(
    objective: Objective,
    starts: Array,
    *,
    max_steps: int,
    first_step: float,
    flat: float,
    upper: Array | None = None,
) -> Minima:
    """Minimise a smooth function from each of several starts.

    Parameters
    ----------
    objective : takes places (r, m) and the numbers (r,) of the starts they belong to; returns
        values (r,) and gradients (r, m).
    starts : (s, m) where to begin.
    max_steps : steps of each at most.
    first_step : the step along the negative gradient that the first trial takes.
    flat : relative decrease per step at which a start is done.
    upper : (m,) upper bound of each coordinate; inf where there is none.
    """
    bound = np.full(starts.shape[1], np.inf) if upper is None else upper
    here = np.minimum(starts, bound)
    which = np.arange(len(starts))
    values, gradients = objective(here, which)
    ended = Minima(here.copy(), values.copy(), np.ones(len(starts), dtype=np.intp))
    state = _State.at(which, here, values, gradients, max_steps)
    state = state.aimed(np.ones(len(starts), dtype=bool), bound, first_step, ended)
    while len(state.which):
        trial = np.minimum(state.here + state.size[:, None] * state.direction, bound)
        reached, gradients = objective(trial, state.which)
        ended.n_evaluations[state.which] += 1
        stepped = state.judge(trial, reached, gradients)
        state.step(stepped, flat)
        state = state.aimed(stepped, bound, first_step, ended)
    return ended


@dataclass(eq=False)
class _State:
    """Starts under way: where each is, what it remembers, and its line search.

    Attributes
    ----------
    which : (r,) number of each start.
    here, value, gradient : where it is.
    steps, changes : (r, MEMORY, m) remembered steps and changes of the gradient, the newest in the
        place of the oldest; zero where nothing is remembered.
    products, inverse : of each step with its own change (r, MEMORY), and the inverse of those with
        its own and later changes (r, MEMORY, MEMORY), which is a triangle if sorted by age.
    slot, unit : where the next step will be kept, and the size of the newest: zero where none is.
    left : steps it may still take.
    direction, descent, low, high, size, trials : of the line search, by bisection and doubling.
    best_place, best_value, best_gradient : the longest step so far that falls enough; its value is
        inf before any does.
    done : whether it is flat.
    """

    which: NDArray[np.intp]
    here: Array
    value: Array
    gradient: Array
    steps: Array
    changes: Array
    products: Array
    inverse: Array
    slot: NDArray[np.intp]
    unit: Array
    left: NDArray[np.intp]
    direction: Array
    descent: Array
    low: Array
    high: Array
    size: Array
    trials: NDArray[np.intp]
    best_place: Array
    best_value: Array
    best_gradient: Array
    done: Mask

    @classmethod
    def at(
        cls, which: NDArray[np.intp], here: Array, value: Array, gradient: Array, max_steps: int
    ) -> _State:
        count, size = here.shape
        memory = np.zeros((2, count, MEMORY, size))
        products, inverse = np.zeros((count, MEMORY)), np.zeros((count, MEMORY, MEMORY))
        unit, descent, low, high, length = np.zeros((5, count))
        slot, trials = np.zeros((2, count), dtype=np.intp)
        return cls(
            which, here, value, gradient, memory[0], memory[1], products, inverse, slot, unit,
            np.full(count, max_steps), np.zeros_like(here), descent, low, high, length, trials,
            here.copy(), np.full(count, np.inf), gradient.copy(), np.zeros(count, dtype=bool),
        )  # fmt: skip

    def judge(self, trial: Array, reached: Array, gradient: Array) -> Mask:
        """Go on with each line search; say which ended, at `best_*` or nowhere (value inf)."""
        falls = reached <= self.value + ENOUGH_DECREASE * self.size * self.descent
        steep = _dot(gradient, self.direction) < ENOUGH_CURVATURE * self.descent
        own = _all_or(falls)
        self.best_place[own], self.best_gradient[own] = trial[own], gradient[own]
        self.best_value[own] = reached[own]
        ended = falls & ~steep
        if ended.all():
            return ended
        self.high = np.where(falls, self.high, self.size)
        self.low = np.where(falls & steep, self.size, self.low)
        self.size = np.where(np.isinf(self.high), 2.0 * self.low, 0.5 * (self.low + self.high))
        self.trials += 1
        return ended | (self.trials == MOST_TRIALS)

    def step(self, stepped: Mask, flat: float) -> None:
        """Move those whose line search ended; forget what is remembered where it found nothing."""
        lost = stepped & np.isinf(self.best_value)
        if lost.any():
            self.done |= lost & (self.unit == 0.0)
            self._forget(lost)
        self.left[stepped] -= 1
        moving = stepped & ~lost
        own = _all_or(moving)
        moved = self.best_place[own] - self.here[own]
        change = self.best_gradient[own] - self.gradient[own]
        decrease = self.value[own] - self.best_value[own]
        self.here[own], self.gradient[own] = self.best_place[own], self.best_gradient[own]
        self.value[own] = self.best_value[own]
        self.done[own] = decrease <= flat * np.maximum(np.abs(self.value[own]), 1.0)
        product = _dot(moved, change)
        curved = product > 1e-12 * np.sqrt(_dot(moved, moved) * _dot(change, change))
        if curved.all():
            self._remember(np.flatnonzero(moving), moved, change, product)
        else:
            moving[moving] = curved
            self._remember(np.flatnonzero(moving), moved[curved], change[curved], product[curved])

    def _remember(
        self, which: NDArray[np.intp], moved: Array, change: Array, product: Array
    ) -> None:
        """Keep a step of each in the place of its oldest."""
        at = which, self.slot[which]
        self.steps[at], self.changes[at], self.products[at] = moved, change, product
        # Without its first row and column a triangle's inverse is that of what is left of it; a
        # column is added to it.
        self.inverse[at] = 0.0
        self.inverse[which, :, at[1]] = 0.0
        own = slice(None) if len(which) == len(self.which) else which
        column = _times(self.inverse[own], _times(self.steps[own], change))
        self.inverse[which, :, at[1]] = column / -product[:, None]
        self.inverse[*at, at[1]] = 1.0 / product
        self.slot[which] = (at[1] + 1) % MEMORY
        self.unit[which] = product / _dot(change, change)

    def _forget(self, which: Mask) -> None:
        """Forget the steps of some."""
        for one in (self.steps, self.changes, self.products, self.inverse, self.unit):
            one[which] = 0.0

    def aimed(self, stepped: Mask, bound: Array, first_step: float, ended: Minima) -> _State:
        """Aim anew where a step was made; record those that are done, and return the others."""
        self._aim(stepped, bound, first_step)
        uphill = stepped & ~(self.descent < 0)
        if uphill.any():
            # What is remembered may point uphill: without it the gradient itself is followed.
            again = uphill & (self.unit > 0.0)
            self.left[again] -= 1
            self._forget(again)
            self._aim(again, bound, first_step)
            self.done |= stepped & ~(self.descent < 0)
        self.done |= self.left <= 0
        over = self.done
        if not over.any():
            return self
        ended.places[self.which[over]] = self.here[over]
        ended.values[self.which[over]] = self.value[over]
        return _State(*(one[~over] for one in vars(self).values()))

    def _aim(self, where: Mask, bound: Array, first_step: float) -> None:
        if not where.any():
            return
        own = _all_or(where)
        gradient = self.gradient[own]
        # Where a bound holds a coordinate back, it takes no part in the step.
        held = (self.here[own] >= bound) & (gradient < 0)
        slope = np.where(held, 0.0, gradient)
        turned = self._turned(own, slope, first_step)
        direction = np.where(held, 0.0, -turned)
        self.direction[own] = direction
        self.descent[own] = _dot(slope, direction)
        self.low[own], self.high[own], self.size[own] = 0.0, np.inf, 1.0
        self.trials[own], self.best_value[own] = 0, np.inf

    def _turned(self, own: Mask | slice, gradient: Array, first_step: float) -> Array:
        """Multiply gradients by the remembered inverse curvature (Byrd, Nocedal and Schnabel 1994).

        It is what Nocedal's two loops over the steps come to, in a few products of matrices.
        """
        steps, changes, inverse = self.steps[own], self.changes[own], self.inverse[own]
        unit = np.where(self.unit[own] > 0.0, self.unit[own], first_step)[:, None]
        weights = _times(inverse, _times(steps, gradient))
        result = unit * (gradient - _times(changes.swapaxes(1, 2), weights))
        weights = self.products[own] * weights - _times(changes, result)
        weights = _times(inverse.swapaxes(1, 2), weights)
        return result + _times(steps.swapaxes(1, 2), weights)


def _all_or(where: Mask) -> Mask | slice:
    """Return the same places, without a copy of what is there where they are all."""
    return slice(None) if where.all() else where


def _times(matrices: Array, vectors: Array) -> Array:
    """Multiply each matrix by its vector."""
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])


def _dot(one: Array, other: Array) -> Array:
    """Return the products of rows."""
    return np.einsum("ij,ij->i", one, other)
