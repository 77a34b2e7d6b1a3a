"""Newton's method on the exact log-likelihood of the known index."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.problem.evaluation import evaluate
from selfselect.problem.problem import Problem
from selfselect.progress import progress_bar
from selfselect.rules.base import HasBounds
from selfselect.solvers._identification import undetermined
from selfselect.solvers._start import (
    gram_matrices,
    is_deficient,
    least_squares_start,
    refuse_collinear,
)
from selfselect.solvers.base import Solution, TraceEntry, require

__all__ = ["Newton"]

Array = NDArray[np.float64]

CURVATURE_ERROR = 1e-7
"""Relative error of the Hessian that is allowed when the last step is taken without a pass."""

SMALLEST_STEP = 1e-10
KEEP_OF_H = 0.1
"""A step may shrink an inverse scale to this fraction of itself and no further: it is positive."""


@dataclass(frozen=True)
class Newton:
    r"""Maximise the exact log-likelihood by Newton's method with step halving.

    For rules with bounds and independent noise the log-likelihood is concave in
    :math:`(w_j/\sigma_j, 1/\sigma_j)` (Olsen 1978), so there is one optimum and Newton finds it
    from anywhere. On large data it starts from the optimum of a sample of rows, from where some
    three passes over all rows suffice.

    Parameters
    ----------
    max_steps : steps over all rows after which it gives up.
    tol : distance to the optimum, in standard errors, at which it stops.
    sample : rows of the sample that the first steps are taken on.

    Notes
    -----
    Newton converges quadratically: if :math:`e` is the distance to the optimum in standard
    errors, the next one is about :math:`\kappa e^2`, and two distances in a row measure
    :math:`\kappa`. The solver stops as soon as the step in hand is known to end within `tol`; it
    takes that step without a pass to confirm it.
    """

    max_steps: int = 50
    tol: float = 1e-6
    sample: int = 20_000

    requires: ClassVar[tuple[type, ...]] = (HasBounds,)

    def solve(
        self,
        problem: Problem,
        engine: Engine,
        *,
        rng: Generator,
        start: Array | None = None,
        progress: bool | None = None,
    ) -> Solution:
        require(self, problem)
        trace: tuple[TraceEntry, ...] = ()
        if start is None:
            start, trace = self._start(problem, engine, rng)
        climb = _climb(problem, engine, start, self.max_steps, self.tol, progress)
        lost = undetermined(problem, engine, climb.information)
        status = climb.status if lost is None else lost
        return Solution(
            free=climb.free,
            loglik=climb.loglik,
            information=climb.information,
            converged=climb.converged and lost is None,
            status=status,
            trace=(*trace, *climb.trace),
            n_passes=climb.n_passes,
            solver=repr(self),
        )

    def _start(
        self, problem: Problem, engine: Engine, rng: Generator
    ) -> tuple[Array, tuple[TraceEntry, ...]]:
        """Climb on a sample where the data is large; else start from least squares."""
        part = engine.sample(self.sample, rng)
        grams = gram_matrices(problem, part)
        if any(map(is_deficient, grams)):
            # Full rank on a sample proves full rank on all rows; only the reverse needs a look.
            grams = gram_matrices(problem, engine)
            refuse_collinear(problem, grams)
            return least_squares_start(problem, grams), ()
        start = least_squares_start(problem, grams)
        if engine.n_rows <= 2 * self.sample:
            return start, ()
        climb = _climb(problem, part, start, self.max_steps, 1e-2, False)
        if climb.converged:
            return climb.free, climb.trace
        return start, ()


@dataclass(frozen=True, eq=False)
class _Climb:
    free: Array
    loglik: float
    information: Array
    converged: bool
    status: str
    trace: tuple[TraceEntry, ...]
    n_passes: int


@dataclass(frozen=True, eq=False)
class _Point:
    """A place on the way: parameters, log-likelihood, and the Newton step from there."""

    free: Array
    loglik: float
    information: Array
    step: Array
    distance: float


def _climb(
    problem: Problem,
    engine: Engine,
    start: Array,
    max_steps: int,
    tol: float,
    progress: bool | None,
) -> _Climb:
    """Take Newton steps until the optimum is reached, or progress ends."""
    trace: list[TraceEntry] = []
    n_passes = 0

    def visit(free: Array) -> _Point:
        nonlocal n_passes
        n_passes += 1
        return _visit(problem, engine, free)

    def finish(point: _Point, converged: bool, status: str) -> _Climb:
        return _Climb(
            point.free, point.loglik, point.information, converged, status, tuple(trace), n_passes
        )

    with progress_bar(progress, what="Newton") as bar:
        here = visit(start)
        previous = np.inf
        for _ in range(max_steps):
            bar.update()
            bar.set_postfix_str(f"log-likelihood {here.loglik:.4f}")
            if not np.isfinite(here.loglik) or not np.isfinite(here.step).all():
                return finish(here, False, "Stopped: the log-likelihood is not finite.")
            if _lands_at_optimum(here.distance, previous, tol):
                trace.append(TraceEntry(engine.n_rows, here.loglik, here.distance, 1.0))
                last = _Point(
                    here.free + here.step,
                    here.loglik + 0.5 * here.distance**2,
                    here.information,
                    here.step,
                    here.distance,
                )
                return finish(last, True, f"Converged in {len(trace)} Newton steps.")
            size = _largest_step(problem, here)
            after = visit(here.free + size * here.step)
            while not after.loglik >= here.loglik + 1e-4 * size * here.distance**2:
                if size * here.distance < SMALLEST_STEP or size < SMALLEST_STEP:
                    return finish(
                        here,
                        False,
                        "Stopped: no step along the Newton direction raises the log-likelihood.",
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


def _lands_at_optimum(distance: float, previous: float, tol: float) -> bool:
    """Say whether a full step from here ends within `tol` of the optimum.

    See the notes of `Newton`. The curvature at hand must also be that of the optimum.
    """
    if distance <= tol:
        return True
    if not np.isfinite(previous) or distance > 0.1:
        return False
    kappa = distance / previous**2
    return kappa * distance**2 <= 0.01 * tol and kappa * distance <= CURVATURE_ERROR


def _visit(problem: Problem, engine: Engine, free: Array) -> _Point:
    layout = problem.layout
    evaluation: Any = engine.sum(partial(evaluate, problem, layout.natural(free)))
    score = layout.pull_back_vector(evaluation.score)
    information = -layout.pull_back_matrix(evaluation.hessian)
    step = _solve_spd(information, score)
    distance = float(np.sqrt(max(float(score @ step), 0.0)))
    return _Point(free, evaluation.loglik, information, step, distance)


def _solve_spd(matrix: Array, vector: Array) -> Array:
    """Solve with a positive definite matrix; lift its diagonal where rounding spoilt it."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    scaled = matrix * np.outer(scale, scale)
    if not np.isfinite(scaled).all():
        return np.full_like(vector, np.nan)
    lift = 0.0
    while True:
        try:
            factor = np.linalg.cholesky(scaled + lift * np.eye(len(vector)))
        except np.linalg.LinAlgError:
            lift = max(10.0 * lift, 1e-12)
            continue
        half = np.linalg.solve(factor, scale * vector)
        return scale * np.linalg.solve(factor.T, half)


def _largest_step(problem: Problem, here: _Point) -> float:
    """Return the largest step up to 1 that keeps every inverse scale positive."""
    layout = problem.layout
    at_h = layout.position[layout.inverse_scale_positions]
    at_h = at_h[at_h >= 0]
    falls = here.step[at_h] < 0
    if not falls.any():
        return 1.0
    room = (1.0 - KEEP_OF_H) * here.free[at_h][falls] / -here.step[at_h][falls]
    return float(min(1.0, room.min()))
