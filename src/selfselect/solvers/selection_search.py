"""Searches with a selection equation: over its correlations, and with a binary outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.errors import DataError
from selfselect.likelihoods import evaluate
from selfselect.likelihoods.selection import evaluate_apart
from selfselect.noises.selection import NEARLY_ONE
from selfselect.problem.batch import Evaluation
from selfselect.problem.parameters import Layout
from selfselect.problem.problem import Problem
from selfselect.solvers.base import Ending, Solution, Status, record_starts, same_optimum
from selfselect.solvers.climb import ENOUGH, KEEP_OF_H, Climb, Point, climb, point_at
from selfselect.solvers.second_step import (
    SecondStep,
    first_coefficients,
    least_squares,
    second_steps,
)

Array = NDArray[np.float64]


# Maximum likelihood of outcomes that a selection equation selects, from several correlations.
#
# For fixed correlations there is one optimum; over correlations there may be several, on real data
# too, and a start from the two-step estimate alone may end at a lesser one.

Mask = NDArray[np.bool_]

GRID = (-0.8, 0.0, 0.8)
"""Correlations from which climbs may start, each with each."""
SAMPLE = 10_000
"""Rows on which starts are looked for and followed first where there are more than twice as many;
from the optima there a few steps on all rows suffice."""
FOLLOWED = 3
"""How many of them are followed to their optimum."""
ALL_COMBINED = 2
"""Alternatives up to which all combinations are looked at: there are three times as many for each
one more."""
NEAR = 1.0
"""Distance to a known optimum, in its standard errors over all parameters together, at which the
likelihood is all but quadratic: a climb that comes so near would end there."""
SAME = 1e-6
"""Log-likelihood by which an optimum that is so near may be higher, and is the same one."""
NEARLY = 1e-3
"""Distance of a probit from its optimum, in standard errors, from which a search starts. The step
that is in hand there ends within its square, and its log-likelihood within its cube."""
LOWER = 2.0
"""Fall of the log-likelihood from a correlation near one to the boundary that shows an optimum
before it: at a confidence of 95% the boundary is then outside of the interval."""
LARGEST_START = 0.9
"""Size of a correlation from which a climb starts."""
FLAT = 1e-7
"""Curvature per row, of at most 2/π, below which a direction leads on to perfect prediction."""
ON_THE_WAY = (Status.OUT_OF_STEPS, Status.NO_STEP_UP, Status.NO_PROGRESS)
"""How climbs end that have not arrived, at places that the likelihood has."""
CERTAIN = 1e30
"""Information about a parameter that is taken as given, in units of the largest other one."""


@dataclass(frozen=True)
class SelectionSearch:
    """Climb from the two-step estimate and from the best of a grid of correlations.

    Parameters
    ----------
    start : ``"search"``, or ``"two-step"`` to climb from the two-step estimate alone.
    max_steps : steps of a climb after which it gives up.
    tol : distance to the optimum, in standard errors, at which a climb stops.
    """

    start: str = "search"
    max_steps: int = 300
    tol: float = 1e-7

    requires: ClassVar[tuple[type, ...]] = ()
    concave: ClassVar[bool] = False
    selects: ClassVar[bool] = True

    def solve(
        self,
        problem: Problem,
        engine: Engine,
        *,
        rng: Generator,
        start: Array | None = None,
        progress: bool | None = None,
    ) -> Solution:
        """Estimate the parameters; from `start`, where it is given, and from nowhere else."""

        def ascend(place: Array, held: Mask | None = None) -> Climb:
            return climb(
                problem, engine, place, max_steps=self.max_steps, tol=self.tol, progress=progress,
                held=held,
            )  # fmt: skip

        independent = None
        if start is not None:
            ends = {"given": ascend(start)}
        elif engine.n_rows > 2 * SAMPLE:
            independent, ends = self._by_sample(
                problem, engine, engine.sample(SAMPLE, rng), progress
            )
        else:
            independent, ends = self._by_starts(problem, engine)
        return solution_of(problem, engine, self, ends, independent, ascend)

    def _by_starts(self, problem: Problem, engine: Engine) -> tuple[Climb, dict[str, Climb]]:
        """Return the fit without correlation, and where each start leads."""
        independent = fit_independent(problem, engine, tol=NEARLY)
        steps = second_steps(problem, engine, independent.free[selection_places(problem)])
        start = two_step_start(problem, independent.free, steps)
        first = climb(problem, engine, start, max_steps=self.max_steps, tol=self.tol)
        ends = {"two-step": first}
        if self.start == "search":
            ends |= self._search(problem, engine, independent.free, steps, first)
        return independent, ends

    def _by_sample(
        self, problem: Problem, engine: Engine, part: Engine, progress: bool | None
    ) -> tuple[Climb, dict[str, Climb]]:
        """Return the same, with climbs on all rows only from the optima of a sample of them."""
        try:
            first, found = self._by_starts(problem, part)
        except DataError:
            # What a sample cannot tell apart, all rows may.
            return self._by_starts(problem, engine)
        gamma = first.free[selection_places(problem)]
        independent = fit_independent(problem, engine, tol=NEARLY, gamma=gamma)
        # Starts that led to one optimum share it, so it is climbed from once.
        ends = {
            key: climb(
                problem, engine, end.free, max_steps=self.max_steps, tol=self.tol, progress=progress
            )
            for key, end in {id(end): end for end in found.values()}.items()
        }
        return independent, {name: ends[id(end)] for name, end in found.items()}

    def _search(
        self,
        problem: Problem,
        engine: Engine,
        independent: Array,
        steps: tuple[SecondStep, ...],
        known: Climb,
    ) -> dict[str, Climb]:
        """Return the optima reached from the best of a grid of correlations, by their start.

        `known` is an optimum reached before: a climb that leads to one ends there.
        """
        glances = [
            _glance(problem, engine, correlations, start, evaluation)
            for correlations, start, evaluation in _looks(problem, engine, independent, steps)
        ]
        promising = sorted(glances, key=lambda one: -one.promise)[:FOLLOWED]
        ends: dict[str, Climb] = {}
        for one in promising:
            optima, reached = [known, *ends.values()], list[Climb]()
            end = climb(
                problem, engine, one.free, max_steps=self.max_steps, tol=self.tol,
                stop=partial(_stop_near, optima, reached),
            )  # fmt: skip
            ends[one.name] = reached[0] if reached else end
        return ends


def solution_of(
    problem: Problem,
    engine: Engine,
    solver: object,
    ends: dict[str, Climb],
    independent: Climb | None,
    ascend: Callable[[Array, Mask | None], Climb],
) -> Solution:
    """Return the best of several ends of climbs, with what is at its boundary."""
    best = _best(list(ends.values()), engine.weight_total / engine.n_rows)
    if best.converged:
        # The probit that climbs begin from ends before a coefficient has gone far.
        refuse_separation(problem, engine, best)
    held = _at_boundary(problem, best, ascend)
    return Solution(
        free=best.free,
        loglik=best.loglik,
        information=_with_certain(best.information, held),
        ending=best.ending,
        trace=best.trace,
        n_passes=sum(end.n_passes for end in {id(end): end for end in ends.values()}.values()),
        solver=repr(solver),
        starts=record_starts(
            (
                (name, end.loglik, None if end.converged else str(end.ending))
                for name, end in ends.items()
            ),
            rows=engine.n_rows,
            top=best.loglik,
        ),
        held=tuple(np.flatnonzero(held).tolist()),
        loglik_independent=np.nan if independent is None else independent.loglik,
    )


def _best(ends: Sequence[Climb], mean_weight: float) -> Climb:
    """Return the best optimum, or the end of a climb that shows it is not the best there is."""
    best = max(ends, key=lambda end: (end.converged, end.loglik))
    on_the_way = [end for end in ends if end.ending.status in ON_THE_WAY]
    highest = max(on_the_way, key=lambda end: end.loglik, default=best)
    return best if same_optimum(best.loglik - highest.loglik, mean_weight) else highest


@dataclass(frozen=True, eq=False)
class Glance:
    """Where one step with the correlations held leads, and the log-likelihood it promises there."""

    name: str
    free: Array
    promise: float


def _looks(
    problem: Problem, engine: Engine, independent: Array, steps: tuple[SecondStep, ...]
) -> Iterator[tuple[tuple[float, ...], Array, Evaluation]]:
    """Yield combinations of correlations to look at, a start with each, and what rows say there.

    Given the selection, what an alternative has of its own matters to its own rows alone. So a
    pass for each correlation of the grid is enough for all combinations. Where alternatives have
    parameters in common, that is so for those in which they have the correlation in common, too.
    """
    at = partial(start_at, problem, independent, steps)
    layout, k = problem.layout, len(steps)
    passes = [
        engine.sum(partial(evaluate_apart, problem, layout.natural(at((rho,) * k)))) for rho in GRID
    ]
    for places in _combinations(problem, np.array([logliks for logliks, _, _ in passes])):
        correlations = tuple(GRID[place] for place in places)
        start = at(correlations)
        if layout.n_free == layout.n_natural or len(set(places)) == 1:
            # Rows without an outcome say the same in every pass.
            parts = zip((*places, places[-1]), range(k + 1), strict=True)
            each = [[sums[j] for sums in passes[place]] for place, j in parts]
            evaluation = Evaluation(*(sum(values) for values in zip(*each, strict=True)))
        else:
            evaluation = engine.sum(partial(evaluate, problem, layout.natural(start)))
        yield correlations, start, evaluation


def _combinations(problem: Problem, logliks: Array) -> list[tuple[int, ...]]:
    """Return places on the grid to look at: each with each, or the best for many alternatives.

    What a combination promises is a sum over alternatives, of `logliks` (3, k + 1), and the best
    sums of some are among those of one fewer.
    """
    k, on_grid = problem.equations.n_alternatives, range(len(GRID))
    if len(set(correlation_places(problem).tolist())) == 1:
        return [(place,) * k for place in on_grid]
    if k <= ALL_COMBINED:
        return list(product(on_grid, repeat=k))
    best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for own in logliks.T[:k]:
        longer = [
            (total + own[place], (*taken, place)) for total, taken in best for place in on_grid
        ]
        best = sorted(longer, key=lambda one: -one[0])[:FOLLOWED]
    return [taken for _, taken in best]


def _glance(
    problem: Problem,
    engine: Engine,
    correlations: tuple[float, ...],
    start: Array,
    evaluation: Evaluation,
) -> Glance:
    """Say where one step with the correlations held leads; no pass confirms it."""
    held = np.zeros(len(start), dtype=bool)
    held[correlation_places(problem)] = True
    here = point_at(problem, engine, start, evaluation, held)
    name = "correlation " + ", ".join(f"{rho:g}" for rho in correlations)
    promise = here.loglik + 0.5 * here.gain
    if not np.isfinite(promise):
        return Glance(name, start, -np.inf)
    free, at_h = start + here.step, problem.layout.free_inverse_scales
    # Nothing has kept scales positive.
    shrunk = free[at_h] < KEEP_OF_H * start[at_h]
    return Glance(name, start if shrunk.any() else free, promise)


def correlation_places(problem: Problem) -> NDArray[np.intp]:
    """Return where the correlations with the selection stand among the free parameters."""
    layout = problem.layout
    first = int(layout.starts[-1])
    return layout.position[first : first + len(layout.sizes)]


def selection_places(problem: Problem) -> NDArray[np.intp]:
    """Return where the coefficients of the selection stand among the free parameters."""
    assert problem.equations.selection is not None
    return problem.layout.position[-len(problem.equations.selection.columns) :]


def fit_independent(
    problem: Problem, engine: Engine, *, tol: float = 1e-6, gamma: Array | None = None
) -> Climb:
    """Fit without correlation: least squares of every outcome, and the probit of selection.

    Parameters
    ----------
    problem, engine : model and rows.
    tol : distance to the optimum, in standard errors, at which the probit stops.
    gamma : where it starts; None for zero, and cut points by the shares of the alternatives.
    """
    layout, selection = problem.layout, problem.equations.selection
    assert selection is not None
    at_gamma = selection_places(problem)
    natural = np.zeros(layout.n_natural)
    steps = least_squares(problem, engine)
    for j, step in enumerate(steps):
        _put(layout, natural, j, step.naive, step.naive_scale)
    free = layout.gather(natural)
    totals = [step.total for step in steps]
    free[at_gamma] = first_coefficients(selection, totals) if gamma is None else gamma
    if layout.n_free == layout.n_natural and not problem.partial:
        held = np.ones(len(free), dtype=bool)
        held[at_gamma] = False
    else:
        # Where outcomes share parameters, or some are guessed, least squares is not their best.
        held = np.zeros(len(free), dtype=bool)
        held[correlation_places(problem)] = True
    found = climb(problem, engine, free, max_steps=100, tol=tol, held=held)
    refuse_separation(problem, engine, found)
    return found


def refuse_separation(problem: Problem, engine: Engine, probit: Climb) -> None:
    """Refuse covariates that predict selection perfectly: their coefficients are infinite."""
    at_gamma = selection_places(problem)
    information = probit.information[np.ix_(at_gamma, at_gamma)]
    values, axes = np.linalg.eigh(information / engine.weight_total)
    if values[0] > FLAT:
        return
    selection = problem.equations.selection
    assert selection is not None
    # In internal units covariates are alike: the one flat direction tells, or, where there are
    # several, the coefficient that went furthest.
    alone = len(values) > 1 and values[1] > FLAT
    size = np.abs(axes[:, 0] if alone else probit.free[at_gamma])
    size = size * [column > 0 for column in selection.columns]
    name = selection.terms[int(np.argmax(size))]
    raise DataError(
        f"The selection equation predicts selection perfectly in some or all rows, by {name!r} "
        "above all: its coefficient would be infinite. Leave that covariate out, or the rows it "
        "decides."
    )


def start_at(
    problem: Problem,
    independent: Array,
    steps: tuple[SecondStep, ...],
    correlations: Sequence[float],
) -> Array:
    """Return free parameters with correlations given: γ of the probit, and least squares."""
    layout = problem.layout
    natural = layout.natural(independent)
    first = int(layout.starts[-1])
    natural[first : first + len(steps)] = np.arctanh(correlations)
    for j, (step, correlation) in enumerate(zip(steps, correlations, strict=True)):
        _put(layout, natural, j, *step.at_correlation(correlation))
    return layout.gather(natural)


def _put(layout: Layout, natural: Array, j: int, coefficients: Array, scale: float) -> None:
    """Write the coefficients and the scale of an alternative among the natural parameters."""
    at_h = int(layout.inverse_scale_positions[j])
    natural[layout.starts[j] : at_h] = coefficients / scale
    natural[at_h] = 1.0 / scale


def two_step_start(problem: Problem, independent: Array, steps: tuple[SecondStep, ...]) -> Array:
    """Return the free parameters of the two-step estimate, its correlations at most 0.9."""
    found = [step.correlation if step.determined else 0.0 for step in steps]
    correlations = np.clip(found, -LARGEST_START, LARGEST_START)
    return start_at(problem, independent, steps, correlations.tolist())


def _stop_near(
    optima: list[Climb], reached: list[Climb], here: Point, n_steps: int
) -> Ending | None:
    """End a climb that leads to a known optimum, which is put into `reached`."""
    del n_steps
    reached += [one for one in optima if _leads_to(one, here)][:1]
    sentence = "The climb leads to an optimum that is known."
    return Ending(Status.STOPPED, {"sentence": sentence}) if reached else None


def _leads_to(optimum: Climb, here: Point) -> bool:
    """Say whether the next step of a climb would be taken, and ends near an optimum."""
    if not optimum.converged or optimum.held.any() or here.held.any():
        return False
    away = here.free + here.step - optimum.free
    distance = float(away @ optimum.information @ away)
    there = optimum.loglik - 0.5 * distance
    return distance <= NEAR**2 and here.loglik + ENOUGH * here.gain <= there + SAME


def _at_boundary(
    problem: Problem, best: Climb, ascend: Callable[[Array, Mask | None], Climb]
) -> Mask:
    """Say which correlations are at their boundary.

    One of 0.993 is an estimate like any other where the likelihood falls beyond it.
    """
    limits, at_t = problem.layout.limits, correlation_places(problem)
    assert limits is not None
    held = np.zeros(len(best.free), dtype=bool)
    for place in at_t[np.abs(np.tanh(best.free[at_t])) >= NEARLY_ONE]:
        there = best.free.copy()
        there[place] = np.copysign(limits[place], there[place])
        fixed = np.zeros(len(held), dtype=bool)
        fixed[at_t] = True
        held[place] = not best.loglik - ascend(there, fixed).loglik > LOWER
    return held


def _with_certain(information: Array, held: Mask) -> Array:
    """Return the information with that about parameters that are taken as given made certain."""
    if not held.any():
        return information
    certain = np.where(held[:, None] | held[None, :], 0.0, information)
    certain[held, held] = CERTAIN * np.abs(np.diag(certain)).max()
    return certain


# Maximum likelihood of a binary outcome that a selection equation selects.


@dataclass(frozen=True)
class BinarySearch(SelectionSearch):
    """Climb from two probits, and from correlations on a grid.

    Parameters
    ----------
    start : ``"search"``, or ``"two-step"`` to climb from two probits without correlation alone.
    max_steps : steps of a climb after which it gives up.
    tol : distance to the optimum, in standard errors, at which a climb stops.
    """

    def _by_sample(
        self, problem: Problem, engine: Engine, part: Engine, progress: bool | None
    ) -> tuple[Climb, dict[str, Climb]]:
        """Return the same, with climbs on all rows only from the optima of a sample of them."""
        first, found = self._by_starts(problem, part)
        held = _correlation_held(problem)
        independent = self._climb(problem, engine, first.free, held, progress)
        _refuse_perfect(problem, engine, independent)
        reached: dict[float, Climb] = {}
        for end in found.values():
            if round(end.loglik, 3) not in reached:
                reached[round(end.loglik, 3)] = self._climb(
                    problem, engine, end.free, progress=progress
                )
        return independent, {name: reached[round(end.loglik, 3)] for name, end in found.items()}

    def _climb(
        self,
        problem: Problem,
        engine: Engine,
        place: Array,
        held: Mask | None = None,
        progress: bool | None = False,
    ) -> Climb:
        return climb(
            problem, engine, place, max_steps=self.max_steps, tol=self.tol, progress=progress,
            held=held,
        )  # fmt: skip

    def _by_starts(self, problem: Problem, engine: Engine) -> tuple[Climb, dict[str, Climb]]:
        """Return the fit without correlation, and where each start leads."""
        least_squares(problem, engine)
        held = _correlation_held(problem)
        independent = self._climb(problem, engine, np.zeros(problem.layout.n_free), held)
        _refuse_perfect(problem, engine, independent)
        ends = {"two probits": self._climb(problem, engine, independent.free)}
        for rho in GRID if self.start == "search" else ():
            if rho:
                place = independent.free.copy()
                place[held] = np.arctanh(rho)
                near = self._climb(problem, engine, place, held)
                ends[f"correlation {rho:g}"] = self._climb(problem, engine, near.free)
        return independent, ends


def _correlation_held(problem: Problem) -> Mask:
    """Say which parameter is the correlation, for climbs that hold it."""
    held = np.zeros(problem.layout.n_free, dtype=bool)
    held[correlation_places(problem)] = True
    return held


def _refuse_perfect(problem: Problem, engine: Engine, probits: Climb) -> None:
    """Refuse covariates that predict selection, or the outcome, perfectly."""
    refuse_separation(problem, engine, probits)
    (equation,) = problem.equations.each
    n_terms = len(equation.terms)
    own = probits.information[:n_terms, :n_terms] / engine.weight_total
    if np.linalg.eigvalsh(own)[0] <= FLAT:
        size = np.abs(probits.free[:n_terms]) * [column > 0 for column in equation.columns]
        raise DataError(
            f"The covariates predict the outcome perfectly in some or all rows, by "
            f"{equation.terms[int(np.argmax(size))]!r} above all: its coefficient would be "
            "infinite. Leave that covariate out, or the rows it decides."
        )
