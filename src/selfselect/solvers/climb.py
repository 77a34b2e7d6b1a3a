"""The one loop of Newton-like climbs: step, halve the step, stop when the optimum is in hand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods import evaluate
from selfselect.problem.batch import Evaluation
from selfselect.problem.problem import Problem
from selfselect.progress import progress_bar
from selfselect.solvers.base import Ending, Status, TraceEntry

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

CURVATURE_ERROR = 1e-7
"""Relative error of the Hessian that is allowed when the last step is taken without a pass."""

SMALLEST_STEP = 1e-10

ENOUGH = 1e-4
"""Share of the gain that a quadratic promises which a step must bring."""

LAST, LITTLE, NOTHING = 10, 0.01, 0.01
"""Steps after which a climb ends that have brought less than this share of what a quadratic
promises, and less than this log-likelihood, at a mean weight of 1: so it is where a log-likelihood
bends without end, and each step is halved many times."""

ROUNDING = 1e-13
"""Relative rounding of a log-likelihood summed over many rows."""

GONE = 1e-5
"""Inverse scale, in units of the recorded outcomes, at which a scale has left them behind."""
KEEP_OF_H = 0.1
"""A step may shrink an inverse scale to this fraction of itself and no further: it is positive."""

FARTHEST = 1.0
"""The most by which one step moves a correlation on Fisher's scale."""

AT_LIMIT = 1.0 - 1e-12
"""Share of its limit from which a parameter stands at it."""

MOST_STEPS = 1_000
"""Steps of `approach` at most; it ends by itself long before."""


@dataclass(frozen=True, eq=False)
class Climb:
    """Where a climb ended and how; see `Solution`. `held` are parameters that did not move."""

    free: Array
    loglik: float
    information: Array
    ending: Ending
    trace: tuple[TraceEntry, ...]
    n_passes: int
    held: Mask = field(default_factory=lambda: np.zeros(0, dtype=bool))

    @property
    def converged(self) -> bool:
        """Whether this is the optimum."""
        return self.ending.converged


@dataclass(frozen=True, eq=False)
class Point:
    """A place on the way: parameters, log-likelihood, and the Newton step from there.

    Attributes
    ----------
    free : where it is.
    loglik, score, information : of the log-likelihood there.
    step : where Newton would go.
    gain : twice what the full step gains if the log-likelihood is quadratic.
    distance : to the optimum, in standard errors. They are those of rows with a mean weight of 1,
        so that weights in other units stop at the same place.
    held : which parameters the step leaves where they are.
    """

    free: Array
    loglik: float
    score: Array
    information: Array
    step: Array
    gain: float
    distance: float
    held: Mask = field(default_factory=lambda: np.zeros(0, dtype=bool))


class Hill(ABC):
    """What is climbed, and how carefully.

    Attributes
    ----------
    name : of the steps, for the reader.
    n_rows : rows that a step looks at.
    enough : share of the promised gain that a step must bring.
    smallest : size of a step, also in standard errors, below which it is not halved again.
    """

    name: str = "Newton"
    n_rows: int = 0
    enough: float = ENOUGH
    smallest: float = SMALLEST_STEP

    @abstractmethod
    def at(self, place: Array) -> Point:
        """Evaluate a place."""

    @abstractmethod
    def arrived(self, here: Point, before: float, size: float) -> bool:
        """Say whether the climb is over: the last step began `before` and had a size of `size`."""

    @abstractmethod
    def slack(self, here: Point) -> float:
        """Return by how much rounding alone may lower the log-likelihood."""

    @abstractmethod
    def largest_step(self, here: Point) -> float:
        """Return the largest share of the step, up to 1, that stays where parameters exist."""

    def moved(self, here: Point, size: float) -> Array | None:
        """Return the place after a share of the step; None where there is none."""
        return here.free + size * here.step


Stop = Callable[[Point, int], Ending | None]
"""Says how a climb ends at a place after so many steps, or None where it goes on."""


@dataclass(frozen=True, eq=False)
class Ascent:
    """Where a climb ended, how, and its steps."""

    point: Point
    ending: Ending
    trace: tuple[TraceEntry, ...]


def ascend(hill: Hill, start: Array, *, max_steps: int, stop: Stop | None = None) -> Ascent:
    """Climb a hill step by step until the top is in hand, or no step leads up."""
    trace: list[TraceEntry] = []

    def end(point: Point, status: Status, **details: Any) -> Ascent:
        return Ascent(point, Ending(status, details), tuple(trace))

    here, before, size = hill.at(start), np.inf, 1.0
    promised: list[float] = []
    for _ in range(max_steps):
        if not np.isfinite(here.loglik) or not np.isfinite(here.step).all():
            return end(here, Status.NOT_FINITE, what="log-likelihood")
        if hill.arrived(here, before, size):
            trace.append(TraceEntry(hill.n_rows, here.loglik, here.distance, 1.0))
            return end(here, Status.CONVERGED, steps=len(trace), method=hill.name)
        ended = None if stop is None else stop(here, len(trace))
        if ended is not None:
            return Ascent(here, ended, tuple(trace))
        size = hill.largest_step(here)
        after = _trial(hill, here, size)
        while after is None:
            if size * min(here.distance, 1.0) < hill.smallest:
                return end(here, Status.NO_STEP_UP, method=hill.name)
            size *= 0.5
            after = _trial(hill, here, size)
        trace.append(TraceEntry(hill.n_rows, here.loglik, here.distance, size))
        promised.append(0.5 * here.gain)
        here, before = after, here.distance
        if len(trace) > LAST:
            gain, wanted = here.loglik - trace[-LAST].loglik, sum(promised[-LAST:])
            nothing = min(LITTLE * wanted, NOTHING * here.gain / max(here.distance, 1e-300) ** 2)
            if gain < nothing and wanted > hill.slack(here):
                return end(
                    here, Status.NO_PROGRESS, steps=len(trace), last=LAST, gain=gain,
                    promised=wanted,
                )  # fmt: skip
    return end(here, Status.OUT_OF_STEPS, steps=max_steps, distance=here.distance)


def _trial(hill: Hill, here: Point, size: float) -> Point | None:
    """Return the place after a share of the step, or None where it is not high enough."""
    place = hill.moved(here, size)
    if place is None:
        return None
    after = hill.at(place)
    # Close to the optimum the gain is below the rounding of the sum itself, which terms of
    # either sign leave behind even where they cancel.
    wanted = here.loglik + hill.enough * size * here.gain
    return after if after.loglik + hill.slack(here) >= wanted else None


class _Likelihood(Hill):
    """The log-likelihood of a problem in its free parameters, of which some may be held."""

    def __init__(
        self,
        problem: Problem,
        engine: Engine,
        tol: float,
        curvature: Curvature,
        held: Mask | None = None,
    ) -> None:
        self.problem, self.engine, self.tol, self.held = problem, engine, tol, held
        self.curvature: Curvature = curvature
        self.n_rows = engine.n_rows
        self.n_passes = 0
        if curvature == "complete":
            self.name = "EM"

    def at(self, place: Array) -> Point:
        self.n_passes += 1
        evaluation = _evaluation(self.problem, self.engine, place, self.curvature)
        return self._at_limits(point_at(self.problem, self.engine, place, evaluation, self.held))

    def _at_limits(self, here: Point) -> Point:
        """Hold, too, what has reached its limit and would rise, or be pulled, beyond it."""
        limits = self.problem.layout.limits
        if limits is None:
            return here
        there = np.abs(here.free) >= AT_LIMIT * limits
        for way in ("score", "step"):
            beyond = there & (here.free * getattr(here, way) > 0) & ~here.held
            if beyond.any():
                held = here.held | beyond
                here = _point(
                    self.engine, here.free, here.loglik, here.information, here.score, held
                )
        return here

    def arrived(self, here: Point, before: float, size: float) -> bool:
        lands = _lands_linearly if self.curvature == "complete" else _lands
        return lands(here.distance, before if size == 1.0 else np.inf, self.tol)

    def slack(self, here: Point) -> float:
        return ROUNDING * (abs(here.loglik) + self.engine.weight_total)

    def largest_step(self, here: Point) -> float:
        """Return the largest step up to 1 that keeps inverse scales positive, and to limits."""
        size, limits = 1.0, self.problem.layout.limits
        at_h = self.problem.layout.free_inverse_scales
        falls = here.step[at_h] < 0
        if falls.any():
            room = (1.0 - KEEP_OF_H) * here.free[at_h][falls] / -here.step[at_h][falls]
            size = float(min(size, room.min()))
        if limits is not None:
            limited = np.isfinite(limits) & (here.step != 0)
            step, free = here.step[limited], here.free[limited]
            room = (np.copysign(limits[limited], step) - free) / step
            room = np.minimum(room, FARTHEST / np.abs(step))
            size = float(min(size, room.min(initial=1.0)))
        return size

    def moved(self, here: Point, size: float) -> Array:
        limits = self.problem.layout.limits
        after: Array = here.free + size * here.step
        return after if limits is None else np.clip(after, -limits, limits)


class _Approach(_Likelihood):
    """The same with one information for all steps, which passes without curvature climb by."""

    enough = 0.0
    smallest = np.inf

    def __init__(
        self,
        problem: Problem,
        engine: Engine,
        tol: float,
        information: Array,
        *,
        learn: bool,
        ahead: bool,
    ) -> None:
        super().__init__(problem, engine, tol, "none")
        self.information, self.learn, self.ahead = information, learn, ahead
        self.last: Point | None = None
        self.pace, self.lands = 1.0, False

    def at(self, place: Array) -> Point:
        evaluation = _evaluation(self.problem, self.engine, place, "none")
        score = self.problem.layout.pull_back_vector(evaluation.score, place)
        if self.learn and self.last is not None:
            moved = place - self.last.free
            self.information = _corrected(self.information, moved, self.last.score - score)
        self.last = _point(self.engine, place, evaluation.loglik, self.information, score)
        return self.last

    def arrived(self, here: Point, before: float, size: float) -> bool:
        del size
        pace = here.distance / before
        self.lands = self.ahead and max(pace, self.pace) * here.distance <= self.tol
        self.pace = pace if np.isfinite(before) else 1.0
        return self.lands or here.distance <= self.tol or pace > (1.0 if self.learn else 0.5)

    def slack(self, here: Point) -> float:
        del here
        return ROUNDING * self.engine.weight_total


def climb(
    problem: Problem,
    engine: Engine,
    start: Array,
    *,
    max_steps: int,
    tol: float,
    progress: bool | None = False,
    curvature: Curvature = "exact",
    stop: Stop | None = None,
    held: Mask | None = None,
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
    stop : says at which other places the climb ends, such as at a boundary.
    held : which free parameters stay where they are. So do, while the log-likelihood rises beyond
        it, those that have reached a limit of the layout.
    """
    hill = _Likelihood(problem, engine, tol, curvature, held)
    with progress_bar(progress, what=hill.name) as bar:

        def watch(here: Point, n_steps: int) -> Ending | None:
            bar.update()
            bar.set_postfix_str(f"log-likelihood {here.loglik:.4f}")
            ended = scale_without_limit(problem, here.free)
            return ended if ended is not None or stop is None else stop(here, n_steps)

        found = ascend(hill, start, max_steps=max_steps, stop=watch)
    last = found.point
    if found.ending.status is Status.CONVERGED:
        # The step in hand is known to end close enough: no pass is needed to confirm it.
        last = replace(last, free=hill.moved(last, 1.0), loglik=last.loglik + 0.5 * last.gain)
    return Climb(
        last.free, last.loglik, last.information, found.ending, found.trace, hill.n_passes,
        last.held,
    )  # fmt: skip


def scale_without_limit(problem: Problem, free: Array) -> Ending | None:
    """Return an ending that names a scale which has left all outcomes behind, or None.

    Only a scale that choices alone tell of can do so: one of recorded outcomes is of their size.
    """
    layout = problem.layout
    gone = layout.free_inverse_scales[free[layout.free_inverse_scales] < GONE]
    if not len(gone):
        return None
    lost = np.isin(layout.position[layout.inverse_scale_positions], gone)
    alternative = problem.equations.alternatives[int(lost.argmax())]
    return Ending(
        Status.AT_BOUNDARY,
        {
            "reason": f"the scale of {alternative!r} has no upper limit: the likelihood increases "
            "without bound as it grows, because the rows contain too little information "
            "about its outcomes. Estimate one scale for all, "
            "noise=Independent('common'), or give it a known one."
        },
    )


def approach(
    problem: Problem,
    engine: Engine,
    start: Array,
    information: Array,
    *,
    tol: float,
    learn: bool = False,
    ahead: bool = False,
) -> Array:
    """Return a place close to the optimum, by steps that share one approximate information.

    Passes without curvature cost a fraction of those with the exact one, and steps with the
    information of a large sample shrink the distance several times each. It ends where they no
    longer halve it, or within `tol`; the caller takes exact steps from there. With `learn`
    the information is corrected by what every step shows (BFGS), and steps may be slow at first.
    With `ahead` it ends a step further, and so a pass earlier: where a step that shrinks the
    distance by no more than either of the last two did would end within `tol`.
    """
    hill = _Approach(problem, engine, tol, information, learn=learn, ahead=ahead)
    last = ascend(hill, start, max_steps=MOST_STEPS).point
    return hill.moved(last, hill.largest_step(last)) if hill.lands else last.free


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


def point_at(
    problem: Problem, engine: Engine, free: Array, evaluation: Evaluation, held: Mask | None = None
) -> Point:
    """Return a place that has been evaluated, with the Newton step from there."""
    score = problem.layout.pull_back_vector(evaluation.score, free)
    information = -problem.layout.pull_back_hessian(evaluation.hessian, evaluation.score, free)
    return _point(engine, free, evaluation.loglik, information, score, held)


def _point(
    engine: Engine,
    free: Array,
    loglik: float,
    information: Array,
    score: Array,
    held: Mask | None = None,
) -> Point:
    held = np.zeros(len(free), dtype=bool) if held is None else held
    if held.any():
        moving = ~held
        step = np.zeros(len(free))
        step[moving] = solve_spd(information[np.ix_(moving, moving)], score[moving])
    else:
        step = solve_spd(information, score)
    gain = max(float(score @ step), 0.0)
    distance = float(np.sqrt(gain * engine.n_rows / engine.weight_total))
    return Point(free, loglik, score, information, step, gain, distance, held)


def _evaluation(problem: Problem, engine: Engine, free: Array, curvature: Curvature) -> Any:
    """Sum the log-likelihood of all rows, its score and its Hessian, in natural parameters."""
    return engine.sum(partial(evaluate, problem, problem.layout.natural(free), curvature=curvature))


def information_at(problem: Problem, engine: Engine, free: Array) -> Array:
    """Return the exact observed information at free parameters."""
    evaluation = _evaluation(problem, engine, free, "exact")
    return -problem.layout.pull_back_hessian(evaluation.hessian, evaluation.score, free)


def log_likelihood(problem: Problem, engine: Engine, free: Array) -> float:
    """Return the log-likelihood at free parameters."""
    return float(_evaluation(problem, engine, free, "none").loglik)


def score_at(problem: Problem, engine: Engine, free: Array) -> Array:
    """Return the score at free parameters."""
    score = _evaluation(problem, engine, free, "none").score
    return problem.layout.pull_back_vector(score, free)


def solve_spd(matrix: Array, vector: Array) -> Array:
    """Solve with a positive definite matrix; lift its diagonal where it is not one."""
    if not np.isfinite(matrix).all():
        return np.full_like(vector, np.nan)
    size = np.abs(matrix.diagonal())
    scale = 1.0 / np.sqrt(np.maximum(size, 1e-14 * size.max() + 1e-300))
    scaled = matrix * scale * scale[:, None]
    lift, lifted = 0.0, scaled
    while True:
        try:
            factor = np.linalg.cholesky(lifted)
        except np.linalg.LinAlgError:
            lift = max(10.0 * lift, 1e-12)
            lifted = scaled + lift * np.eye(len(vector))
            continue
        # By the factor: where a fit is nearly perfect, elimination loses the way up.
        half = np.linalg.solve(factor, scale * vector)
        return np.asarray(scale * np.linalg.solve(factor.T, half))
