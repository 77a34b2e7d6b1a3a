"""Maximum likelihood with unobserved types: several starts, EM steps, then Newton's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.errors import DataError
from selfselect.likelihoods import Batch, row_terms
from selfselect.likelihoods.components import Components
from selfselect.problem.problem import Problem
from selfselect.progress import progress_bar
from selfselect.rules.base import HasBounds
from selfselect.solvers._start import ridge, undetermined
from selfselect.solvers.base import (
    Ending,
    Solution,
    StartRecord,
    Status,
    record_starts,
    require,
    require_counts,
)
from selfselect.solvers.climb import Climb, climb
from selfselect.solvers.continuation import Continuation
from selfselect.solvers.order import order_alternatives, types_by_weight

Array = NDArray[np.float64]

STARTS_IN_PANELS, STARTS, EASY = 5, 10, 3
"""Starts where people have several rows, as far as there are no costs and no more types than these;
and starts elsewhere."""

FEW_ROWS = 3
"""Times as many starts are taken where all rows are searched: with 350 rows and three types ten
starts missed the best optimum in 4 of 24 samples, thirty in 1."""

EM_STEPS, SEARCH_STEPS = 25, 40
"""Steps of EM and of Newton that each start takes on the sample."""

ROUGH = 1e-2
"""Distance from the optimum of a sample, in its standard errors, that is near enough."""

LARGER_SAMPLE = 100_000
"""Rows that the best starts are compared on, where there are more than twice as many."""

POLISHED = 2
"""Distinct optima of the sample that are compared on all rows."""

DISTINCT = 0.1
"""Log-likelihood by which two optima of the sample differ at least."""

ALIKE = 1e-3
"""Difference of shifts and costs, in units of the scales, below which two types are one."""

FEWEST_PEOPLE = 5.0
"""Expected people of a type below which it has collapsed."""


@dataclass(frozen=True)
class TypeSearch:
    """Maximise a likelihood with unobserved types from several starts.

    Every start spreads the types around the optimum without types, takes steps of EM on a sample
    of people and then Newton's. The best are climbed on all rows. Types are numbered by weight. A
    shift or cost of a type that hardly ever chooses the alternative is not determined: it is held
    fixed, and everything else is estimated once more.

    Parameters
    ----------
    starts : how many; None takes 5 where people have several rows and at most three types without
        costs, and 10 elsewhere; three times as many where there are no more rows than `sample`.
    max_steps : Newton steps over all rows after which it gives up.
    tol : distance to the optimum, in standard errors, at which it stops.
    sample : rows of the sample that the search is done on.
    visits : expected rows in which a type chooses an alternative, below which its shift and cost
        there are held.
    """

    starts: int | None = None
    max_steps: int = 100
    tol: float = 1e-6
    sample: int = 5_000
    visits: float = 10.0

    requires: ClassVar[tuple[type, ...]] = (HasBounds,)
    concave: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_counts(self, "max_steps", "sample")
        if self.starts is not None:
            require_counts(self, "starts")

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
        if start is not None:
            best = climb(
                problem, engine, start, max_steps=self.max_steps, tol=self.tol, progress=progress
            )
            return self._solution(problem, problem, engine, best, ())
        _refuse_few_people(problem, engine)
        found, records = self._search(problem, engine, rng, progress)
        large = engine.n_rows > 2 * LARGER_SAMPLE
        part = engine.sample(LARGER_SAMPLE, rng) if large else engine
        options: dict[str, Any] = {"max_steps": self.max_steps, "progress": progress}
        tol = ROUGH if large else self.tol
        climbs = [climb(problem, part, one, tol=tol, **options) for one in found]
        best = max(climbs, key=lambda one: (one.converged, one.loglik))
        best = order_alternatives(problem, engine, best)
        free = types_by_weight(problem, best.free)
        held, free = self._hold(problem, part, engine.n_rows / part.n_rows, free)
        if large or not np.array_equal(free, best.free) or held is not problem:
            best = climb(held, engine, free, tol=self.tol, **options)
        return self._solution(problem, held, engine, best, records)

    def _search(
        self, problem: Problem, engine: Engine, rng: Generator, progress: bool | None
    ) -> tuple[list[Array], tuple[StartRecord, ...]]:
        """Climb on a sample from several starts; return the best optima and where all ended."""
        part = engine.sample(self.sample, rng)
        begun = Continuation()._independent(problem, engine, part, rng, progress)
        noise: Any = problem.noise
        easy = problem.grouped and noise.count <= EASY and not noise.costs
        usual = STARTS_IN_PANELS if easy else STARTS
        count = self.starts or usual * (FEW_ROWS if engine.n_rows <= self.sample else 1)
        if noise.count == 1:
            count = 1
        begins = [_begin(problem, begun, number, rng) for number in range(count)]
        alone = part.single_threaded()

        def run(free: Array) -> Climb:
            near = climb(problem, alone, free, max_steps=EM_STEPS, tol=ROUGH, curvature="complete")
            return climb(problem, alone, near.free, max_steps=SEARCH_STEPS, tol=ROUGH)

        climbs: list[tuple[str, Climb]] = []
        with progress_bar(progress, what="Starts", total=count) as bar:
            ended = engine.map(run, [free for _, free in begins])
            for (name, _), end in zip(begins, ended, strict=True):
                climbs.append((name, end))
                bar.update()
        climbs_up = sorted((one for _, one in climbs), key=lambda one: -one.loglik)
        top = climbs_up[0].loglik
        records = record_starts(
            (
                (name, one.loglik, None if one.converged else str(one.ending))
                for name, one in climbs
            ),
            rows=part.n_rows,
            top=top,
        )
        kept: list[Climb] = []
        for one in climbs_up:
            if all(abs(one.loglik - other.loglik) > DISTINCT for other in kept):
                kept.append(one)
        most = 1 if part.n_rows == engine.n_rows else POLISHED
        return [one.free for one in kept[:most]], records if len(records) > 1 else ()

    def _hold(
        self, problem: Problem, engine: Engine, share: float, free: Array
    ) -> tuple[Problem, Array]:
        """Hold what the data do not determine; return the problem and where to go on from.

        There are `share` times as many rows as the engine has.
        """
        noise: Any = problem.noise
        labels, unit = problem.equations.alternatives, problem.units.outcome_unit
        parts = Components.of(problem)
        natural = problem.layout.natural(free)
        values = parts.map.at(natural[parts.at_types])
        visits = share * type_visits(problem, engine, natural)
        thin = visits < self.visits
        shifts = np.zeros_like(thin)
        if noise.shifts == "each" and noise.count > 1:
            shifts = thin.copy()
            # Somebody must determine the mean of an alternative, however rare it is.
            shifts[visits.argmax(axis=0), np.arange(len(labels))] = False
        costs = np.zeros_like(thin)
        if noise.costs:
            costs[:, 1:] = thin[:, 1:]
            for m in np.flatnonzero(thin[:, 0]):
                # Only differences from the first alternative are costs.
                others = np.flatnonzero(~costs[m, 1:])
                costs[m, 1 + others[:1]] = True
        if not (shifts.any() or costs.any()):
            return problem, free
        away = np.zeros(len(labels))
        for j in np.flatnonzero(shifts.any(axis=0)):
            known = ~shifts[:, j]
            away[j] = np.average(values.shifts[known, j], weights=values.weights[known])
            equation = problem.equations.each[j]
            if equation.has_intercept and problem.layout.ties is None:
                at = problem.layout.starts[j] + equation.columns.index(0)
                natural[at] += natural[problem.layout.inverse_scale_positions[j]] * away[j]
        moved = values.shifts - away
        held = replace(
            problem,
            noise=replace(
                noise,
                held_shifts=_named(shifts, unit * moved, labels),
                held_costs=_named(costs, unit * values.costs, labels),
            ),
        )
        inside = Components.of(held)
        extras = inside.map.parameters(values.weights, moved, values.costs)
        made = np.concatenate(
            [natural[: parts.at_types.start], extras, natural[parts.at_types.stop :]]
        )
        return held, held.layout.gather(made)

    def _solution(
        self,
        given: Problem,
        problem: Problem,
        engine: Engine,
        best: Climb,
        starts: tuple[StartRecord, ...],
    ) -> Solution:
        ending: Ending | None = None
        if best.converged:
            ending = _collapsed(problem, engine, best.free)
            ending = ending or undetermined(problem, engine, best.information, free=best.free)
            ending = ending or ridge(problem, best.free, best.information)
        noise: Any = problem.noise
        return Solution(
            free=best.free,
            loglik=best.loglik,
            information=best.information,
            ending=ending or best.ending.noting(noise.undetermined()),
            trace=best.trace,
            n_passes=best.n_passes,
            solver=repr(self),
            starts=starts,
            settled=None if problem is given else noise,
        )


def type_visits(problem: Problem, engine: Engine, natural: Array) -> Array:
    """Return the expected rows (M, k), weighted, in which each type chose each alternative."""
    return engine.sum(partial(_visits, problem, natural))


def _visits(problem: Problem, natural: Array, batch: Batch) -> Array:
    rows: Any = row_terms(problem, natural, batch)
    weights = np.ones(len(batch)) if batch.rows.weights is None else batch.rows.weights
    return np.asarray(rows.visits(weights))


def _named(which: NDArray[np.bool_], values: Array, labels: Any) -> Any:
    return tuple((int(m), labels[int(j)], float(values[m, j])) for m, j in np.argwhere(which))


def _refuse_few_people(problem: Problem, engine: Engine) -> None:
    noise: Any = problem.noise
    people = engine.n_rows
    if engine.holds_rows and engine.rows.groups is not None:
        people = len(np.unique(engine.rows.groups))
    if people < FEWEST_PEOPLE * noise.count:
        raise DataError(
            f"{people} people are too few for {noise.count} types: each needs at least "
            f"{FEWEST_PEOPLE:g}. Use fewer types."
        )


def _begin(problem: Problem, independent: Array, number: int, rng: Generator) -> tuple[str, Array]:
    """Return the name of a start and its free parameters."""
    layout, k = problem.layout, problem.equations.n_alternatives
    parts = Components.of(problem)
    n_types, at_h = parts.map.n_types, layout.inverse_scale_positions
    scale = 1.0 / independent[at_h]
    # Evenly spaced, with a standard deviation of one.
    grid = np.linspace(-1.0, 1.0, n_types)[::-1] if n_types > 1 else np.zeros(1)
    grid = grid / max(float(grid.std()), 1e-300) if n_types > 1 else grid
    ways = [np.ones(k), np.where(np.arange(k) % 2, -1.0, 1.0)]
    weights, costs = np.full(n_types, 1.0 / n_types), np.zeros((n_types, k))
    if number < len(ways):
        name = ("levels", "contrasts")[number]
        shifts = 0.7 * grid[:, None] * ways[number] * scale
        if parts.map.priced:
            costs[:, 1:] = 0.5 * rng.standard_normal((n_types, k - 1)) * scale[1:]
    else:
        name = f"random {number - len(ways) + 1}"
        shifts = rng.standard_normal((n_types, k)) * scale
        costs[:, 1:] = rng.standard_normal((n_types, k - 1)) * scale[1:]
        weights = rng.dirichlet(np.full(n_types, 5.0))
    if parts.map.talent:
        shifts = np.repeat(shifts[:, :1], k, axis=1)
    natural = np.concatenate([independent[: int(layout.starts[-1])], layout.extra_starts])
    natural[parts.at_types] = parts.map.parameters(weights, shifts, costs)
    return name, layout.gather(natural)


def _collapsed(problem: Problem, engine: Engine, free: Array) -> Ending | None:
    """Return an ending that names a type that hardly anybody has; None where there is none."""
    natural = problem.layout.natural(free)
    parts = Components.of(problem)
    values = parts.map.at(natural[parts.at_types])
    h = natural[problem.layout.inverse_scale_positions]
    for one, other in combinations(range(parts.map.n_types), 2):
        apart = [(each[one] - each[other]) * h for each in (values.shifts, values.costs)]
        if np.abs(apart).max() < ALIKE:
            return Ending(
                Status.AT_BOUNDARY,
                {
                    "reason": f"types {one + 1} and {other + 1} are alike, so the data do not tell "
                    "them apart. Use fewer types."
                },
            )
    people = engine.sum(partial(_people, problem, natural))
    m = int(people.argmin())
    if people[m] >= FEWEST_PEOPLE:
        return None
    reason = (
        f"type {m + 1} is expected in {people[m]:.1f} people only, which is too few to tell it "
        "from chance. Use fewer types."
    )
    return Ending(Status.AT_BOUNDARY, {"reason": reason})


def _people(problem: Problem, natural: Array, batch: Batch) -> Array:
    rows: Any = row_terms(problem, natural, batch)
    return np.asarray(rows.people())
