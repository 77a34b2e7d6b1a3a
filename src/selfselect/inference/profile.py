"""Intervals by the likelihood, on a surface of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from selfselect.data.equations import SCALE
from selfselect.engines.base import Engine
from selfselect.inference.statistics import interval_reach
from selfselect.likelihoods import evaluate
from selfselect.noises.correlated import CORRELATION
from selfselect.problem.parameters import Reported
from selfselect.problem.problem import Problem
from selfselect.progress import progress_bar
from selfselect.solvers.base import Status
from selfselect.solvers.climb import Hill, Point, ascend
from selfselect.threads import parallel_map

Array = NDArray[np.float64]


# Profile-likelihood intervals: all values of a parameter that a likelihood ratio does not reject.
#
# With :math:`\ell_p(c)` the largest log-likelihood among parameters whose reported value is c, the
# interval ends where :math:`r(c) = \sqrt{2(\hat\ell - \ell_p(c))}`, the signed root, is the normal
# quantile. It needs no standard error, follows the likelihood where that is not quadratic, and is
# the same on any scale of the parameter.
#
# Reported parameters are ratios of the coordinates that are moved, or functions of one of them, so
# those of one value lie in a plane: Newton's method within it needs the likelihood's curvature
# alone. Between planes one moves along the direction in which the profile falls least, and the
# multiplier of the plane is the slope of :math:`\ell_p`, so that few planes are visited.

Mask = NDArray[np.bool_]

TOLERANCE = 1e-5
"""Twice what a step within a plane gains, below which the quadratic gives it to 1e-7."""
INTEGRATED = 1e-4
"""The same where no step leads up: an outcome that is integrated over, of a scale that is a
hundred times another's, leaves that much error in the log-likelihood."""
EXACT = 1e-5
"""How far the signed root at an end may be from what it should be."""
BETTER = 1e-3
"""Log-likelihood above that of the estimate which says that the estimate is not the optimum."""
STEPS, PLANES, FAILURES = 40, 40, 5
SMALLEST = 1e-6
"""By how much the signed root grows with every standard error, at least."""
FARTHEST, OUT_THERE = 30.0, 5.0
"""Standard errors from the estimate beyond which an interval has no end, and from where on it is
enough that the slope of the signed root says so."""
FARTHEST_SCALE = 4.0
"""The same for logarithms of scales. Correlations are followed up to the bound of the surface."""
AT_BOUND = 1e-8
"""How near to its bound a coordinate stands at it."""
GUESSED = 0.1
"""Size of the first step, where no standard error is known."""
WIDEN = 2.5
"""The most by which the distance from the estimate grows from plane to plane."""


@dataclass(frozen=True, eq=False)
class ProfilePlace:
    """Coordinates (p,), and log-likelihood, score and information there."""

    coordinates: Array
    loglik: float
    score: Array
    information: Array


class Surface(Protocol):
    """A log-likelihood over coordinates of its own, at its optimum."""

    @property
    def coordinates(self) -> Array:
        """Those of the estimate, shape (p,)."""

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The smallest and the largest value (p,) of each coordinate; infinite for most."""

    def at(self, coordinates: Array) -> ProfilePlace:
        """Evaluate the log-likelihood; it may be nan where no parameters belong to a place."""

    def report(self, coordinates: Array) -> Reported:
        """Return the reported parameters, with derivatives in the coordinates."""


@dataclass(frozen=True)
class Interval:
    """Both ends of an interval; infinite, at a limit or nan for the `reason`, else empty."""

    low: float
    high: float
    reason: str = ""


def profile_intervals(
    surface: Surface,
    errors: Array,
    level: float,
    which: Sequence[int],
    progress: bool | None,
) -> list[Interval]:
    """Find the profile intervals of some of the reported parameters.

    Parameters
    ----------
    surface : the log-likelihood, at its optimum.
    errors : (m,) standard errors of all reported parameters, to begin with; nan where unknown.
    level : of the intervals.
    which : positions of the parameters.
    progress : whether to show progress.
    """
    top = surface.at(surface.coordinates)
    reach = interval_reach(level)
    jobs = [(place, way) for place in which for way in (-1.0, 1.0)]

    def find(job: tuple[int, float]) -> tuple[float, str]:
        place, way = job
        return _Walk(surface, top, place, errors[place]).end(way, reach)

    ends = []
    with progress_bar(progress, what="Profile", total=len(jobs)) as bar:
        for found in parallel_map(find, jobs):
            ends.append(found)
            bar.update()
    intervals = []
    for (low, below), (high, above) in zip(ends[::2], ends[1::2], strict=True):
        intervals.append(
            Interval(low, high, "; ".join(dict.fromkeys(filter(None, (below, above)))))
        )
    return intervals


def signed_roots(surface: Surface, errors: Array, away: float) -> Array:
    """Return the signed roots (m, 2) that many standard errors below and above each estimate.

    Where the log-likelihood is quadratic they are -away and away. Standard errors are those of
    logarithms for scales, and on Fisher's scale for correlations, as intervals are. Missing where
    a standard error is, or where the likelihood could not be followed. What other parameters gain
    by following comes from the curvature there, so that each root costs one evaluation.
    """
    top = surface.at(surface.coordinates)

    def root(job: tuple[int, float]) -> float:
        place, way = job
        if not np.isfinite(errors[place]):
            return float("nan")
        walk = _Walk(surface, top, place, errors[place])
        return way * walk.approximate_root(walk.start + way * away * walk.error)

    jobs = [(place, way) for place in range(len(errors)) for way in (-1.0, 1.0)]
    return np.array(list(parallel_map(root, jobs))).reshape(-1, 2)


class _Walk:
    """The profile of one reported parameter, on a scale where it is nearer to quadratic."""

    def __init__(self, surface: Surface, top: ProfilePlace, place: int, error: float) -> None:
        self.surface, self.top, self.place = surface, top, place
        reported = surface.report(top.coordinates)
        self.term = reported.labels[place][1]
        value = float(reported.values[place])
        self.start = self._moved(value)
        self.error = error * self._slope(value)
        if not (np.isfinite(self.error) and self.error > 0):
            # By how much coordinates move it, which has its unit.
            moves = float(np.linalg.norm(reported.jacobian[place]))
            own_scale = self.term in (SCALE, CORRELATION)
            self.error = GUESSED * (1.0 if own_scale else max(abs(value), moves))

    # scales

    def _moved(self, value: float) -> float:
        if self.term == SCALE:
            return float(np.log(value))
        return float(np.arctanh(value)) if self.term == CORRELATION else value

    def _slope(self, value: float) -> float:
        if self.term == SCALE:
            return 1.0 / value
        return 1.0 / (1.0 - value**2) if self.term == CORRELATION else 1.0

    def _value(self, moved: float) -> float:
        if self.term == SCALE:
            return float(np.exp(moved))
        return float(np.tanh(moved)) if self.term == CORRELATION else moved

    def _read(self, coordinates: Array) -> tuple[float, Array] | None:
        """Return the parameter on its scale with its slopes; None where no model is."""
        reported = self.surface.report(coordinates)
        values, terms = reported.values, [term for _, term in reported.labels]
        for value, term in zip(values, terms, strict=True):
            if not np.isfinite(value) or (term == SCALE and value <= 0):
                return None
            if term == CORRELATION and abs(value) >= 1:
                return None
        value = float(values[self.place])
        return self._moved(value), self._slope(value) * reported.jacobian[self.place]

    # the profile

    def root(self, found: ProfilePlace) -> float:
        """Return the size of the signed root."""
        return float(np.sqrt(max(2.0 * (self.top.loglik - found.loglik), 0.0)))

    def end(self, way: float, reach: float) -> tuple[float, str]:
        """Return the end of the interval below (-1) or above (1), and why there is none."""
        far = FARTHEST_SCALE if self.term == SCALE else FARTHEST * self.error
        limit = self.start + way * far
        if self.term == CORRELATION:
            limit = self._steepest_bound(way)
        inside, outside = self.start, None
        here, root, failures = self.top, 0.0, 0
        target = self.start + way * reach * self.error
        for _ in range(PLANES):
            if outside is None and way * target >= way * limit:
                target = limit
            found = self.visit(here, target)
            if found is None:
                failures += 1
                if failures > FAILURES:
                    return float("nan"), "the likelihood could not be followed"
                target = 0.5 * (inside + target)
                continue
            if found.loglik > self.top.loglik + BETTER:
                gain = found.loglik - self.top.loglik
                return float("nan"), f"a log-likelihood {gain:.3g} above the estimate's was met"
            here, root = found, self.root(found)
            if abs(root - reach) <= EXACT:
                return self._value(target), ""
            if root < reach:
                inside = target
                if target == limit:
                    return self._beyond(way)
            else:
                outside = target
            flattest = SMALLEST / self.error
            slope = max(way * self._fall(found) / root if root > 0 else 0.0, flattest)
            ahead = target + way * (reach - root) / slope
            out_there = abs(target - self.start) > OUT_THERE * self.error
            if outside is None and out_there and way * ahead > way * limit:
                return self._beyond(way)
            target = self._next(ahead, way, inside, outside)
        return float("nan"), "the end was not found"

    def _steepest_bound(self, way: float) -> float:
        """Return the bound of the coordinate that the parameter depends on most."""
        slopes = self.surface.report(self.top.coordinates).jacobian[self.place]
        lower, upper = self.surface.bounds
        return float((lower if way < 0 else upper)[int(np.abs(slopes).argmax())])

    def _next(self, ahead: float, way: float, inside: float, outside: float | None) -> float:
        """Return where to look next: where the slope of the signed root says, within bounds."""
        distance, near = way * (ahead - self.start), way * (inside - self.start)
        if outside is None:
            return self.start + way * min(distance, WIDEN * max(near, self.error))
        far = way * (outside - self.start)
        if not near < distance < far:
            distance = 0.5 * (near + far)
        return self.start + way * distance

    def _fall(self, found: ProfilePlace) -> float:
        """Return by how much the profile falls as the parameter grows: the plane's multiplier."""
        read = self._read(found.coordinates)
        assert read is not None
        moving = ~self._held(found)
        slopes = read[1][moving]
        carried = _solve(found.information[np.ix_(moving, moving)], slopes)
        along = float(slopes @ carried)
        return -float(found.score[moving] @ carried) / along if along > 0 else 0.0

    def _beyond(self, way: float) -> tuple[float, str]:
        side = "below" if way < 0 else "above"
        if self.term == CORRELATION:
            return way, f"the likelihood does not fall enough {side} before the correlation is one"
        if self.term == SCALE and way < 0:
            return 0.0, "the likelihood does not fall enough before the scale is zero"
        return way * np.inf, f"the likelihood does not fall enough {side}"

    def visit(self, origin: ProfilePlace, target: float) -> ProfilePlace | None:
        """Return the best place where the parameter is `target`; None if it is not reached."""
        direction = self._direction(origin)
        here = None if direction is None else self.onto(origin.coordinates, direction, target)
        if here is None:
            return None
        found = ascend(_Plane(self, target), here, max_steps=STEPS)
        stuck = found.ending.status in (Status.NO_STEP_UP, Status.NO_PROGRESS)
        stuck &= found.point.gain <= INTEGRATED
        if not (found.ending.converged or stuck):
            return None
        place = _place(found.point)
        return replace(place, loglik=place.loglik + 0.5 * found.point.gain)

    def approximate_root(self, target: float) -> float:
        """Return the size of the signed root at `target`, by one evaluation and a quadratic."""
        direction = self._direction(self.top)
        here = None if direction is None else self.onto(self.top.coordinates, direction, target)
        if here is None:
            return float("nan")
        place = self.surface.at(here)
        if not np.isfinite(place.loglik):
            return float("nan")
        return self.root(replace(place, loglik=place.loglik + 0.5 * self.step(place)[1]))

    def step(self, place: ProfilePlace) -> tuple[Array, float]:
        """Return the Newton step within the plane, and twice what it gains."""
        read = self._read(place.coordinates)
        assert read is not None
        held = self._held(place)
        while True:
            step, gain = _step_within(place, read[1], held)
            beyond = self._leaves(place, step)
            if not (beyond & ~held).any():
                return step, gain
            held |= beyond

    def _held(self, place: ProfilePlace) -> Mask:
        """Return which coordinates stand at a bound and would be better beyond it."""
        return self._leaves(place, place.score)

    def _leaves(self, place: ProfilePlace, towards: Array) -> Mask:
        """Return which coordinates stand at a bound that a direction leads beyond."""
        lower, upper = self.surface.bounds
        low = (place.coordinates <= lower + AT_BOUND) & (towards < 0)
        return np.asarray(low | ((place.coordinates >= upper - AT_BOUND) & (towards > 0)))

    def _direction(self, place: ProfilePlace) -> Array | None:
        """Return the direction in which the parameter moves and the profile falls least."""
        read = self._read(place.coordinates)
        if read is None:
            return None
        moving = ~self._held(place)
        slopes = np.where(moving, read[1], 0.0)
        if not slopes.any():
            slopes, moving = read[1], np.ones_like(moving)
        direction = np.zeros_like(slopes)
        inner = place.information[np.ix_(moving, moving)]
        direction[moving] = _solve(inner, slopes[moving])
        along = float(slopes @ direction)
        return direction / along if along > 0 else None

    def onto(
        self,
        coordinates: Array,
        step: Array | None,
        target: float,
        place: ProfilePlace | None = None,
    ) -> Array | None:
        """Move coordinates along a direction until the parameter is `target`."""
        here, read = coordinates, self._read(coordinates)
        if read is None:
            return None
        for _ in range(STEPS):
            short = target - read[0]
            if abs(short) <= 1e-13 * max(abs(target), self.error):
                return here
            if step is None:
                assert place is not None
                step = self._direction(place)
                if step is None:
                    return None
            along = float(read[1] @ step)
            if along <= 0:
                return None
            size = short / along
            for _ in range(STEPS):
                trial = np.clip(here + size * step, *self.surface.bounds)
                after = self._read(trial)
                if after is not None and abs(target - after[0]) < abs(short):
                    break
                size *= 0.5
            else:
                return here if abs(short) <= 1e-9 * max(abs(target), self.error) else None
            here, read = trial, after
        return here


class _Plane(Hill):
    """The log-likelihood among the places where a parameter has a given value."""

    smallest = 1e-4

    def __init__(self, walk: _Walk, target: float) -> None:
        self.walk, self.target = walk, target

    def at(self, place: Array) -> Point:
        found = self.walk.surface.at(place)
        step, gain = np.zeros_like(place), 0.0
        if np.isfinite(found.loglik):
            step, gain = self.walk.step(found)
        return Point(
            place, found.loglik, found.score, found.information, step, gain, float(np.sqrt(gain))
        )

    def arrived(self, here: Point, before: float, size: float) -> bool:
        del before, size
        return here.gain <= TOLERANCE

    def slack(self, here: Point) -> float:
        return 1e-12 * abs(here.loglik)

    def largest_step(self, here: Point) -> float:
        lower, upper = self.walk.surface.bounds
        with np.errstate(divide="ignore", invalid="ignore"):
            room = (np.where(here.step > 0, upper, lower) - here.free) / here.step
        return float(min(1.0, room[here.step != 0].min(initial=1.0)))

    def moved(self, here: Point, size: float) -> Array | None:
        # The plane is flat: what has to be corrected is rounding, or the bend of ties.
        trial = here.free + size * here.step
        return self.walk.onto(trial, step=None, target=self.target, place=_place(here))


def _place(point: Point) -> ProfilePlace:
    return ProfilePlace(point.free, point.loglik, point.score, point.information)


def _step_within(place: ProfilePlace, slopes: Array, held: Mask) -> tuple[Array, float]:
    """Return the step that is best by the quadratic, among those along which nothing is moved."""
    moving = np.flatnonzero(~held)
    scale = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(place.information)[moving]), 1e-12))
    information = place.information[np.ix_(moving, moving)] * np.outer(scale, scale)
    normal = slopes[moving] * scale
    basis = np.linalg.svd(normal[None, :])[2][1:].T if normal.any() else np.eye(len(moving))
    score = basis.T @ (place.score[moving] * scale)
    values, axes = np.linalg.eigh(basis.T @ information @ basis)
    # Where the surface is not curved downwards its curvature is taken by its size.
    sizes = np.maximum(np.abs(values), 1e-8 * np.abs(values).max(initial=1e-300))
    along = axes.T @ score
    step = np.zeros_like(place.score)
    step[moving] = scale * (basis @ (axes @ (along / sizes)))
    return step, float(np.sum(along**2 / sizes))


def _solve(information: Array, vector: Array) -> Array:
    scale = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(information)), 1e-12))
    values, axes = np.linalg.eigh(information * np.outer(scale, scale))
    sizes = np.maximum(np.abs(values), 1e-8 * np.abs(values).max(initial=1e-300))
    return np.asarray(scale * (axes @ ((axes.T @ (scale * vector)) / sizes)))


# The log-likelihood of a fit as a surface that profiles are followed on.


LARGEST_ON_FISHERS_SCALE = 4.5
"""The largest correlation that is tried, on Fisher's scale: .9998."""


@dataclass(frozen=True, eq=False)
class ProblemSurface:
    """The log-likelihood of a problem in its free parameters, correlations on Fisher's scale.

    Attributes
    ----------
    problem, engine : model and rows.
    free : the estimate.
    """

    problem: Problem
    engine: Engine
    free: Array

    @cached_property
    def correlations(self) -> NDArray[np.bool_]:
        """Which of the free parameters are correlations that are not on Fisher's scale yet."""
        layout = self.problem.layout
        of_extras = layout.position[int(layout.starts[-1]) :]
        found = np.zeros(layout.n_free, dtype=bool)
        for place, extra in zip(of_extras, layout.extras, strict=True):
            if place >= 0 and extra.label[1] == CORRELATION and not extra.turned:
                found[place] = True
        return found

    @cached_property
    def coordinates(self) -> Array:
        """Those of the estimate."""
        coordinates = self.free.copy()
        coordinates[self.correlations] = np.arctanh(self.free[self.correlations])
        return coordinates

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """The smallest and the largest value of each coordinate: inverse scales stay positive."""
        upper = np.where(self.correlations, LARGEST_ON_FISHERS_SCALE, np.inf)
        if self.problem.layout.limits is not None:
            upper = np.minimum(upper, self.problem.layout.limits)
        lower = -upper
        at_h = self.problem.layout.free_inverse_scales
        lower[at_h] = self.free[at_h] * np.exp(-FARTHEST_SCALE)
        return lower, upper

    def _free(self, coordinates: Array) -> tuple[Array, Array]:
        """Return free parameters and their derivatives in the coordinates."""
        free = coordinates.copy()
        free[self.correlations] = np.tanh(coordinates[self.correlations])
        slope = np.ones_like(free)
        slope[self.correlations] -= free[self.correlations] ** 2
        return free, slope

    def at(self, coordinates: Array) -> ProfilePlace:
        """Evaluate the log-likelihood with score and information."""
        free, slope = self._free(coordinates)
        layout = self.problem.layout
        found: Any = self.engine.sum(partial(evaluate, self.problem, layout.natural(free)))
        score = layout.pull_back_vector(found.score, free)
        hessian = layout.pull_back_hessian(found.hessian, found.score, free)
        # Fisher's scale bends the way to a correlation r by -2 r (1 - r²).
        bend = np.where(self.correlations, -2.0 * free * slope * score, 0.0)
        information = -(hessian * np.outer(slope, slope) + np.diag(bend))
        return ProfilePlace(coordinates, float(found.loglik), slope * score, information)

    def report(self, coordinates: Array) -> Reported:
        """Return the reported parameters, with derivatives in the coordinates."""
        free, slope = self._free(coordinates)
        reported = self.problem.layout.report(free)
        return replace(reported, jacobian=reported.jacobian * slope)
