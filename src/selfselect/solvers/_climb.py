"""The one loop of Newton-like solvers: step, halve the step, stop when the optimum is in hand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods import evaluate
from selfselect.problem.problem import Problem
from selfselect.progress import progress_bar
from selfselect.solvers.base import TraceEntry

__all__ = [
    "Climb",
    "approach",
    "climb",
    "information_at",
    "log_likelihood",
    "score_at",
    "solve_spd",
]

Array = NDArray[np.float64]

CURVATURE_ERROR = 1e-7
"""Relative error of the Hessian that is allowed when the last step is taken without a pass."""

SMALLEST_STEP = 1e-10

ROUNDING = 1e-13
"""Relative rounding of a log-likelihood summed over many rows."""

KEEP_OF_H = 0.1
"""A step may shrink an inverse scale to this fraction of itself and no further: it is positive."""


@dataclass(frozen=True, eq=False)
class Climb:
    free: Array
    loglik: float
    information: Array
    converged: bool
    status: str
    trace: tuple[TraceEntry, ...]
    n_passes: int


@dataclass(frozen=True, eq=False)
class Point:
    """A place on the way: parameters, log-likelihood, and the Newton step from there.

    Attributes
    ----------
    gain : twice what the full step gains if the log-likelihood is quadratic.
    distance : to the optimum, in standard errors. They are those of rows with a mean weight of 1,
        so that weights in other units stop at the same place.
    """

    free: Array
    loglik: float
    information: Array
    step: Array
    gain: float
    distance: float


def climb(
    problem: Problem,
    engine: Engine,
    start: Array,
    *,
    max_steps: int,
    tol: float,
    progress: bool | None,
    curvature: Curvature = "exact",
) -> Climb:
    """Take Newton steps until the optimum is reached, or progress ends.

    Parameters
    ----------
    problem, engine : model and rows.
    start : free parameters to start from.
    max_steps : steps after which it gives up.
    tol : distance to the optimum, in standard errors, at which it stops.
    progress : whether to show a bar.
    curvature : of the steps; ``complete`` makes them the steps of EM. The information that is
        returned is of the same kind.
    """
    name, lands = ("EM", _lands_linearly) if curvature == "complete" else ("Newton", _lands)
    trace: list[TraceEntry] = []
    n_passes = 0
    weight = engine.weight_total

    def visit(free: Array) -> Point:
        nonlocal n_passes
        n_passes += 1
        return _visit(problem, engine, free, curvature)

    def finish(point: Point, converged: bool, status: str) -> Climb:
        return Climb(
            point.free, point.loglik, point.information, converged, status, tuple(trace), n_passes
        )

    with progress_bar(progress, what=name) as bar:
        here = visit(start)
        previous = np.inf
        for _ in range(max_steps):
            bar.update()
            bar.set_postfix_str(f"log-likelihood {here.loglik:.4f}")
            if not np.isfinite(here.loglik) or not np.isfinite(here.step).all():
                return finish(here, False, "Stopped: the log-likelihood is not finite.")
            if lands(here.distance, previous, tol):
                trace.append(TraceEntry(engine.n_rows, here.loglik, here.distance, 1.0))
                last = Point(
                    here.free + here.step,
                    here.loglik + 0.5 * here.gain,
                    here.information,
                    here.step,
                    here.gain,
                    here.distance,
                )
                steps = "step" if len(trace) == 1 else "steps"
                return finish(last, True, f"Converged in {len(trace)} {name} {steps}.")
            size = _largest_step(problem, here)
            after = visit(here.free + size * here.step)
            # Close to the optimum the gain is below the rounding of the sum itself, which terms of
            # either sign leave behind even where they cancel.
            slack = ROUNDING * (abs(here.loglik) + weight)
            while not after.loglik + slack >= here.loglik + 1e-4 * size * here.gain:
                if size * here.distance < SMALLEST_STEP or size < SMALLEST_STEP:
                    return finish(
                        here,
                        False,
                        f"Stopped: no {name} step raises the log-likelihood.",
                    )
                size *= 0.5
                after = visit(here.free + size * here.step)
            trace.append(TraceEntry(engine.n_rows, here.loglik, here.distance, size))
            previous = here.distance if size == 1.0 else np.inf
            here = after
    return finish(
        here,
        False,
        f"Stopped after {max_steps} steps, {here.distance:.2g} standard errors from the optimum.",
    )


def approach(
    problem: Problem,
    engine: Engine,
    start: Array,
    information: Array,
    *,
    tol: float,
    learn: bool = False,
) -> Array:
    """Return a place close to the optimum, by steps that share one approximate information.

    Passes without curvature cost a fraction of those with the exact one, and steps with the
    information of a large sample shrink the distance several times each. It ends where they no
    longer halve it, or within `tol`; whoever calls it takes exact steps from there. With `learn`
    the information is corrected by what every step shows (BFGS), and steps may be slow at first.
    """

    def visit(free: Array) -> tuple[Array, float]:
        task = partial(evaluate, problem, problem.layout.natural(free), curvature="none")
        evaluation: Any = engine.sum(task)
        return problem.layout.pull_back_vector(evaluation.score, free), evaluation.loglik

    weight = engine.weight_total
    score, loglik = visit(start)
    here = _point(engine, start, loglik, information, score)
    while here.distance > tol:
        moved = _largest_step(problem, here) * here.step
        after_score, after_loglik = visit(here.free + moved)
        # Written so that a place that is not a number ends it too.
        if not (after_loglik > here.loglik - weight * ROUNDING):
            break
        if learn:
            information = _corrected(information, moved, score - after_score)
        after = _point(engine, here.free + moved, after_loglik, information, after_score)
        slow = after.distance > (1.0 if learn else 0.5) * here.distance
        here, score = after, after_score
        if slow:
            break
    return here.free


def _corrected(information: Array, moved: Array, fall: Array) -> Array:
    """Return the information that explains by how much the score fell along a step (BFGS)."""
    expected = information @ moved
    along, size = float(fall @ moved), float(expected @ moved)
    if along <= 1e-12 * size:
        return information
    added: Array = np.outer(fall, fall) / along - np.outer(expected, expected) / size
    return information + added


def _lands(distance: float, previous: float, tol: float) -> bool:
    """Say whether a full step from here ends within `tol` of the optimum.

    See the notes of `Newton`. The curvature at hand must also be that of the optimum.
    """
    if distance <= tol:
        return True
    if not np.isfinite(previous) or distance > 0.1:
        return False
    kappa = distance / previous**2
    return kappa * distance**2 <= 0.01 * tol and kappa * distance <= CURVATURE_ERROR


def _lands_linearly(distance: float, previous: float, tol: float) -> bool:
    """Say whether steps that shrink at a steady rate have all but summed up to the optimum."""
    rate = min(distance / previous, 0.999) if np.isfinite(previous) else 0.999
    return distance <= tol * (1.0 - rate)


def _visit(problem: Problem, engine: Engine, free: Array, curvature: Curvature) -> Point:
    layout = problem.layout
    task = partial(evaluate, problem, layout.natural(free), curvature=curvature)
    evaluation: Any = engine.sum(task)
    score = layout.pull_back_vector(evaluation.score, free)
    information = -layout.pull_back_hessian(evaluation.hessian, evaluation.score, free)
    return _point(engine, free, evaluation.loglik, information, score)


def _point(engine: Engine, free: Array, loglik: float, information: Array, score: Array) -> Point:
    step = solve_spd(information, score)
    gain = max(float(score @ step), 0.0)
    distance = float(np.sqrt(gain * engine.n_rows / engine.weight_total))
    return Point(free, loglik, information, step, gain, distance)


def information_at(problem: Problem, engine: Engine, free: Array) -> Array:
    """Return the exact observed information at free parameters."""
    return _visit(problem, engine, free, "exact").information


def log_likelihood(problem: Problem, engine: Engine, free: Array) -> float:
    """Return the log-likelihood at free parameters."""
    task = partial(evaluate, problem, problem.layout.natural(free), curvature="none")
    evaluation: Any = engine.sum(task)
    return float(evaluation.loglik)


def score_at(problem: Problem, engine: Engine, free: Array) -> Array:
    """Return the score at free parameters."""
    task = partial(evaluate, problem, problem.layout.natural(free), curvature="none")
    evaluation: Any = engine.sum(task)
    return problem.layout.pull_back_vector(evaluation.score, free)


def solve_spd(matrix: Array, vector: Array) -> Array:
    """Solve with a positive definite matrix; lift its diagonal where it is not one."""
    if not np.isfinite(matrix).all():
        return np.full_like(vector, np.nan)
    size = np.abs(np.diag(matrix))
    scale = 1.0 / np.sqrt(np.maximum(size, 1e-14 * size.max() + 1e-300))
    scaled = matrix * np.outer(scale, scale)
    lift = 0.0
    while True:
        try:
            factor = np.linalg.cholesky(scaled + lift * np.eye(len(vector)))
        except np.linalg.LinAlgError:
            lift = max(10.0 * lift, 1e-12)
            continue
        half = np.linalg.solve(factor, scale * vector)
        return scale * np.linalg.solve(factor.T, half)


def _largest_step(problem: Problem, here: Point) -> float:
    """Return the largest step up to 1 that keeps every inverse scale positive."""
    layout = problem.layout
    at_h = layout.position[layout.inverse_scale_positions]
    at_h = at_h[at_h >= 0]
    falls = here.step[at_h] < 0
    if not falls.any():
        return 1.0
    room = (1.0 - KEEP_OF_H) * here.free[at_h][falls] / -here.step[at_h][falls]
    return float(min(1.0, room.min()))
