"""Maximum likelihood by Newton's method, from several correlations.

For fixed correlations there is one optimum; over correlations there may be several, on real data
too, and a start from the two-step estimate alone may end at a lesser one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from selfselect.classics.covariance import corrected_units, describe
from selfselect.classics.design import CORRELATION, Design
from selfselect.classics.glance import KEEP_OF_H, glance
from selfselect.classics.likelihood import Evaluation, evaluate, row_scores
from selfselect.classics.parameters import Layout
from selfselect.inference.covariance import Covariance
from selfselect.rules.base import Label

__all__ = ["BOUNDARY", "Optimum", "climb", "estimate_covariance", "maximise"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

BOUNDARY = 0.999
"""The largest correlation that is tried."""
NEARLY_ONE = 0.99
"""Size from which a correlation may be at its boundary."""
LOWER = 2.0
"""Fall of the log-likelihood from there to the boundary that shows an optimum before it: at a
confidence of 95% the boundary is then outside of the interval."""
MAX_STEPS = 100
TOLERANCE = 1e-9
"""Distance to the optimum, in standard errors."""
FARTHEST = 1.0
"""The most by which one step moves the inverse hyperbolic tangent of a correlation."""
GRID = (-0.8, 0.0, 0.8)
"""Correlations at which the search looks around, each with each."""
GLANCE = 3
"""Steps with the correlations held, before those that promise most are followed."""
GLANCED_AT = 1_000
"""Rows that are enough for that."""
FOLLOWED = 3
"""How many of them are followed to their optimum."""
NEAR = 1.0
"""Distance to a known optimum, in its standard errors over all parameters together, at which the
likelihood is all but quadratic: a climb that is about to step so near ends there."""
FLAT = 1e-6
"""Share of the largest pivot of an information below which its curvatures are looked at."""
ROUNDING = 1e-13
"""Relative rounding of a log-likelihood summed over many rows."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """Where Newton's method ended.

    Attributes
    ----------
    natural : the parameters.
    loglik : log-likelihood.
    information : observed information.
    held : (m,) which parameters are at a boundary, and taken as given.
    converged, status, n_steps : how it ended.
    """

    natural: Array
    loglik: float
    information: Array
    held: Mask
    converged: bool
    status: str
    n_steps: int

    def boundary(self, layout: Layout) -> tuple[Label, ...]:
        """Return the equations whose correlation is at its boundary."""
        equations = layout.design.equations
        return tuple(equation.label for equation in equations if self.held[layout.t_of(equation)])

    def is_near(self, natural: Array) -> bool:
        """Say whether Newton's method from there would end here."""
        if not self.converged or self.held.any():
            return False
        away = natural - self.natural
        return float(away @ self.information @ away) <= NEAR**2

    def with_boundary(self, layout: Layout) -> Optimum:
        """Return the same place, with correlations at their boundary taken as given.

        One of 0.993 is an estimate like any other where the likelihood falls beyond it.
        """
        held = np.zeros(len(self.natural), dtype=bool)
        limit = float(np.arctanh(BOUNDARY))
        for equation in layout.design.equations:
            at = layout.t_of(equation)
            if abs(np.tanh(self.natural[at])) < NEARLY_ONE:
                continue
            there = self.natural.copy()
            there[at] = np.copysign(limit, there[at])
            end = climb(layout.design, layout, there, hold_correlations=True)
            held[at] = not self.loglik - end.loglik > LOWER
        return replace(self, held=held)


def maximise(
    design: Design, layout: Layout, independent: Array, known: Optimum
) -> dict[str, Optimum]:
    """Return the optima reached from the best of a grid of correlations.

    Parameters
    ----------
    design, layout : rows and places of parameters.
    independent : natural parameters of no correlation.
    known : an optimum reached before; a climb that comes near it ends there.
    """
    grid = list(product(GRID, repeat=len(design.equations)))
    starts = np.repeat(independent[None], len(grid), axis=0)
    starts[:, [layout.t_of(equation) for equation in design.equations]] = np.arctanh(grid)
    every = max(1, len(design.positive) // GLANCED_AT)
    natural, loglik = glance(design, layout, starts, every=every, n_steps=GLANCE)
    ends = [known]
    names = []
    for place in np.argsort(-loglik)[:FOLLOWED]:
        names.append("correlation " + ", ".join(f"{rho:g}" for rho in grid[place]))
        ends.append(climb(design, layout, natural[place], known=tuple(ends)))
    return dict(zip(names, ends[1:], strict=True))


def climb(
    design: Design,
    layout: Layout,
    start: Array,
    *,
    hold_correlations: bool = False,
    known: tuple[Optimum, ...] = (),
) -> Optimum:
    """Climb to an optimum with every correlation within its boundary, or held where it is.

    Parameters
    ----------
    design, layout : rows and places of parameters.
    start : natural parameters.
    hold_correlations : whether correlations stay where they are.
    known : optima reached before. Where the next step ends near one of them, that one is returned,
        with the steps it took to come there.
    """
    limit = float(np.arctanh(BOUNDARY))
    at_t = np.array([layout.t_of(equation) for equation in design.equations])
    at_h = at_t - 1
    natural = start.copy()
    here = evaluate(design, layout, natural)
    for n_steps in range(MAX_STEPS):
        held = _held(natural, here.score, at_t, limit)
        held[at_t] |= hold_correlations
        step, distance, definite = _step(here, held)
        if not np.isfinite(distance):
            return _end(natural, here, held, False, "Stopped: not finite.", n_steps)
        if distance <= TOLERANCE and definite:
            return _end(natural, here, held, True, f"Converged in {n_steps} steps.", n_steps)
        size = _largest(step, natural, at_t, at_h)
        for optimum in known if definite and size == 1.0 else ():
            if optimum.is_near(natural + step) and here.loglik < optimum.loglik:
                return replace(optimum, n_steps=n_steps)
        slack = ROUNDING * (abs(here.loglik) + len(design.positive))
        while True:
            trial = natural + size * step
            trial[at_t] = np.clip(trial[at_t], -limit, limit)
            after = evaluate(design, layout, trial)
            if after.loglik + slack >= here.loglik + 1e-4 * size * distance**2 * (not held.any()):
                break
            size *= 0.5
            if size < 1e-10:
                status = "Stopped: no step raises the log-likelihood."
                return _end(natural, here, held, False, status, n_steps)
        natural, here = trial, after
    held = _held(natural, here.score, at_t, limit)
    return _end(natural, here, held, False, f"Stopped after {MAX_STEPS} steps.", MAX_STEPS)


def _held(natural: Array, score: Array, at_t: NDArray[np.intp], limit: float) -> Mask:
    """Hold correlations that stand at the boundary and would rise beyond it."""
    held = np.zeros(len(natural), dtype=bool)
    stands = np.abs(natural[at_t]) >= limit
    held[at_t] = stands & (np.sign(natural[at_t]) * score[at_t] > 0)
    return held


def _step(here: Evaluation, held: Mask) -> tuple[Array, float, bool]:
    """Return a step uphill, its length in standard errors, and whether this is a hilltop.

    Where the Hessian is not negative, its curvatures are taken by their size.
    """
    moving = ~held
    step = np.zeros(len(held))
    score = here.score[moving]
    information = -here.hessian[moving][:, moving]
    if not np.isfinite(information).all():
        return step, float("nan"), False
    try:
        pivots = np.diag(np.linalg.cholesky(information))
    except np.linalg.LinAlgError:
        pivots = np.zeros(1)
    if pivots.min() ** 2 > FLAT * pivots.max() ** 2:
        step[moving] = np.linalg.solve(information, score)
        return step, math.sqrt(max(float(score @ step[moving]), 0.0)), True
    values, vectors = np.linalg.eigh(information)
    sizes = np.maximum(np.abs(values), 1e-8 * np.abs(values).max())
    along = vectors.T @ score
    step[moving] = vectors @ (along / sizes)
    return step, float(np.sqrt(np.sum(along**2 / sizes))), bool(values[0] > 0)


def _largest(step: Array, natural: Array, at_t: NDArray[np.intp], at_h: NDArray[np.intp]) -> float:
    """Return the largest step up to one that keeps scales positive and correlations near."""
    size = min(1.0, FARTHEST / max(float(np.abs(step[at_t]).max()), 1e-300))
    falls = step[at_h] < 0
    if falls.any():
        room = (1.0 - KEEP_OF_H) * natural[at_h][falls] / -step[at_h][falls]
        size = min(size, float(room.min()))
    return size


def _end(
    natural: Array, here: Evaluation, held: Mask, converged: bool, status: str, n_steps: int
) -> Optimum:
    return Optimum(natural, here.loglik, -here.hessian, held, converged, status, n_steps)


def estimate_covariance(layout: Layout, optimum: Optimum, kind: str) -> Covariance:
    """Estimate the covariance of the reported parameters.

    A correlation at its boundary has no standard error, and those of the others take it as given.
    """
    moving = ~optimum.held
    free = np.zeros_like(optimum.information)
    try:
        np.linalg.cholesky(optimum.information[np.ix_(moving, moving)])
        inverse = np.linalg.inv(optimum.information[np.ix_(moving, moving)])
    except np.linalg.LinAlgError:
        inverse = np.full((moving.sum(), moving.sum()), np.nan)
    free[np.ix_(moving, moving)] = inverse
    jacobian = layout.report(optimum.natural).jacobian
    if kind == "observed":
        made = Covariance(kind, "observed information", jacobian @ free @ jacobian.T)
    else:
        matrix = _sandwich(layout, optimum, np.asarray(inverse), jacobian)
        made = describe(kind, layout.design, matrix)
    boundary = optimum.boundary(layout)
    unknown = [term == CORRELATION and label in boundary for label, term in layout.labels]
    made.matrix[unknown] = np.nan
    made.matrix[:, unknown] = np.nan
    return made


def _sandwich(layout: Layout, optimum: Optimum, inverse: Array, jacobian: Array) -> Array:
    """Return the covariance of reported parameters by what rows or clusters do to them."""
    moving = np.flatnonzero(~optimum.held)

    def scores(moved: Array) -> Array:
        natural = optimum.natural.copy()
        natural[moving] = moved
        return row_scores(layout.design, layout, natural)[:, moving]

    information = optimum.information[np.ix_(moving, moving)]
    units = corrected_units(scores, optimum.natural[moving], information, layout.design)
    influence = units @ inverse @ jacobian[:, moving].T
    return np.asarray(influence.T @ influence)
