"""Search from many starts: climb from each on a sample of rows, polish the best on all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.errors import OptionError
from selfselect.problem.problem import Problem
from selfselect.progress import progress_bar
from selfselect.solvers._search import Place, SearchSpace, grouped
from selfselect.solvers._soundness import Degeneracy, find_degeneracy, relocate, thin_equation
from selfselect.solvers._start import (
    any_deficient,
    gram_matrices,
    refuse_collinear,
    undetermined,
)
from selfselect.solvers._starts import Recipe, recipes_for
from selfselect.solvers.base import (
    Ending,
    Solution,
    StartRecord,
    Status,
    record_starts,
    require_counts,
    same_optimum,
    smallest_share_met,
)
from selfselect.solvers.climb import Climb, information_at, log_likelihood
from selfselect.solvers.order import order_alternatives
from selfselect.solvers.paper.base import MomentMethod

Array = NDArray[np.float64]
Index = Literal["known", "unknown"]

MOST_STARTS = 1_000_000
"""Starts beyond which a search would end with nobody's patience."""

POLISHED = 3
"""Distinct optima of the sample that are compared on all rows."""

LEAST_ROWS = 0.01
"""Rows' worth of information, in its weakest direction, below which an equation is not determined:
a search ends where the likelihood is all but flat, before information has faded away."""

TRIES = 2
"""Moves in a row without a better optimum after which no more are made."""

FEWEST_STARTS, STARTS_OF_FEW_ROWS, STARTS_TIMES_ROWS = 8, 256, 100_000
"""Starts where rows are many, where they are few, and starts times rows in between: the fewer rows,
the more optima their likelihood has, and the less a start costs."""

RARE_START = 0.05
"""Share of starts below which it goes without saying that an optimum may be missed."""

FAR_BEHIND = 5.0
"""Log-likelihood, per mean weight of a row, that an optimum of the sample may lack and still be
the best one of all rows."""


@dataclass(frozen=True)
class Reached:
    """Where one start ended: its name, the place, and what is wrong with it."""

    name: str
    place: Place
    fault: Degeneracy | None


@dataclass(frozen=True)
class MultiStart(ABC):
    """Search from several starts; members say how to climb.

    Parameters
    ----------
    starts : how many; None for 8 where rows are many or the index is known, and for 100,000 over
        the number of rows, 256 at most, where they are few: the likelihood of few rows has more
        optima. In turn they are annealed in the scale, from least squares on random cells of the
        covariates, at random, and (where all equations have the same covariates) from moments.
        Where no more than half of them reach the best optimum, the alternative that is chosen least
        there is moved elsewhere, and what is better is added as one more.
    sample : rows the search is done on.
    floor : smallest scale, as a fraction of the least-squares residuals' spread. With one scale
        per alternative the likelihood is unbounded at zero.
    start : a moment method to start from, in place of the first of the starts, or coefficients, one
        list per alternative, such as `Peeling` recovers.
    """

    starts: int | None = None
    sample: int = 20_000
    floor: float = 0.01
    start: Any = None

    requires: ClassVar[tuple[type, ...]] = ()
    concave: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_counts(self, *["starts"] * (self.starts is not None), "sample")
        if self.starts is not None and self.starts > MOST_STARTS:
            raise OptionError(
                f"starts={self.starts} would not end. Ask for {MOST_STARTS:,} at the most."
            )
        if self.start is not None and not isinstance(self.start, MomentMethod):
            # Plain numbers, so that solvers can be compared and printed.
            object.__setattr__(self, "start", _as_coefficients(self.start))

    @staticmethod
    def default_starts(n_rows: int, index: Index) -> int:
        """Return from how many starts a search of that many rows begins."""
        if index == "known":
            # Least squares on the rows where each was chosen is close to the best optimum.
            return FEWEST_STARTS
        return max(FEWEST_STARTS, min(STARTS_OF_FEW_ROWS, STARTS_TIMES_ROWS // max(n_rows, 1)))

    @abstractmethod
    def climb_on_sample(self, space: SearchSpace, part: Engine, begun: list[Place]) -> list[Place]:
        """Climb from several starts on the sample."""

    @abstractmethod
    def polish(
        self, problem: Problem, engine: Engine, start: Array, progress: bool | None
    ) -> Climb:
        """Climb on all rows to convergence, with the exact information at the end."""

    def solve(
        self,
        problem: Problem,
        engine: Engine,
        *,
        rng: Generator,
        start: Array | None = None,
        progress: bool | None = None,
    ) -> Solution:
        if start is not None:
            ascent = self.polish(problem, engine, start, progress)
            return _solution(self, problem, engine, ascent, (), 1.0)
        part = engine.sample(self.sample, rng)
        space = self._space(problem, engine, part)
        found = self._search(space, engine, part, rng, progress)
        found, wasted = self._move_on(space, part, found, rng)
        return self._best(engine, part, space, found, wasted, progress)

    def _space(self, problem: Problem, engine: Engine, part: Engine) -> SearchSpace:
        grams, weight = gram_matrices(problem, part), part.weight_total
        if any_deficient(problem, grams):
            share = weight / engine.weight_total
            grams = [share * gram for gram in gram_matrices(problem, engine)]
            refuse_collinear(problem, grams)
        return SearchSpace.build(problem, grams, weight=weight, floor=self.floor)

    def _search(
        self,
        space: SearchSpace,
        engine: Engine,
        part: Engine,
        rng: Generator,
        progress: bool | None,
    ) -> list[Reached]:
        """Climb from every start, by the engine's workers; each has a random stream of its own."""
        all_open = part.rows.known.available is None
        n_starts = self.starts or self.default_starts(engine.n_rows, space.problem.index)
        recipes = recipes_for(space.problem, n_starts, self.start, all_open=all_open)
        seeds = SeedSequence(int(rng.integers(2**63))).spawn(len(recipes))
        alone = part.single_threaded()
        alike: dict[Recipe, list[int]] = {}
        for number, recipe in enumerate(recipes):
            alike.setdefault(recipe, []).append(number)
        groups = grouped([number for numbers in alike.values() for number in numbers], part)

        def run(group: list[int]) -> list[Reached]:
            begun: list[Place] = []
            for recipe, numbers in alike.items():
                own = [
                    np.random.default_rng(seeds[number]) for number in group if number in numbers
                ]
                begun += recipe.start(space, alone, own) if own else []
            return [
                Reached(
                    recipes[number].name, place, find_degeneracy(space, alone, place.coordinates)
                )
                for number, place in zip(
                    group, self.climb_on_sample(space, alone, begun), strict=True
                )
            ]

        done: dict[int, Reached] = {}
        with progress_bar(progress, what="Starts", total=len(recipes)) as bar:
            for group, ends in zip(groups, engine.map(run, groups), strict=True):
                bar.update(len(group))
                done.update(zip(group, ends, strict=True))
        return [done[number] for number in range(len(recipes))]

    def _move_on(
        self, space: SearchSpace, part: Engine, found: list[Reached], rng: Generator
    ) -> tuple[list[Reached], int]:
        """Where the best optimum is in doubt, look beside it for a better one, and go on there.

        It is in doubt where no more than half of the starts reached it; where more did, a search
        beside it found nothing more in trials. Returns what was found, with what is better added,
        and the evaluations that were in vain.
        """
        alone = part.single_threaded()
        climb = partial(self.climb_on_sample, space, alone)
        mean_weight = space.weight / part.n_rows
        tries = wasted = 0
        while space.exchangeable and tries < TRIES:
            sound = [one.place for one in found if one.fault is None]
            best = max(sound, key=lambda place: place.loglik, default=None)
            if best is None:
                break
            behind = [place.loglik - best.loglik for place in sound]
            if 2 * sum(same_optimum(one, mean_weight) for one in behind) > len(sound):
                break
            place = relocate(space, alone, best, rng, climb)
            fault = find_degeneracy(space, alone, place.coordinates)
            if fault is None and not same_optimum(best.loglik - place.loglik, mean_weight):
                found, tries = [*found, Reached("relocated", place, None)], 0
            else:
                tries, wasted = tries + 1, wasted + place.n_evaluations
        return found, wasted

    def _best(
        self,
        engine: Engine,
        part: Engine,
        space: SearchSpace,
        found: list[Reached],
        wasted: int,
        progress: bool | None,
    ) -> Solution:
        problem = space.problem
        faults = [one.fault for one in found if one.fault is not None]
        evaluations = wasted + sum(one.place.n_evaluations for one in found)
        effort = evaluations * part.n_rows / engine.n_rows
        mean_weight = space.weight / part.n_rows
        distinct = _distinct([one.place for one in found if one.fault is None], mean_weight)
        climbs = [
            self.polish(problem, engine, space.free(place.coordinates), progress)
            for place in _perhaps_best(distinct, mean_weight)
        ]
        sound = []
        for climb in climbs:
            # On all rows a climb may run off although it was sound on the sample.
            fault = find_degeneracy(space, engine, space.locate(climb.free), part=part)
            if fault is None:
                sound.append(climb)
            else:
                faults.append(fault)
        if sound:
            best = max(sound, key=lambda one: one.loglik)
        else:
            # Nothing sound was found: return the least bad place, marked as what it is.
            least_bad = max(
                found,
                key=lambda one: (one.fault is None or not one.fault.unbounded, one.place.loglik),
            )
            best = _unsound(problem, engine, space.free(least_bad.place.coordinates))
        solution = _solution(
            self, problem, engine, best, _records(found, part), mean_weight, effort
        )
        at = space.locate(best.free)
        thin = thin_equation(space, engine, at, part=part) if sound else None
        if thin is not None:
            solution = replace(solution, ending=solution.ending.noting(thin))
        return solution if not faults else _with_faults(solution, faults, len(found))


def _unsound(problem: Problem, engine: Engine, free: Array) -> Climb:
    """Return a place as it is, not climbed from: near a degenerate one there is no top."""
    loglik = log_likelihood(problem, engine, free)
    information = information_at(problem, engine, free)
    return Climb(free, loglik, information, Ending(Status.NO_SOUND_OPTIMUM), (), 2)


def _distinct(places: list[Place], mean_weight: float) -> list[Place]:
    """Keep one place per optimum, the best first."""
    kept: list[Place] = []
    for place in sorted(places, key=lambda one: -one.loglik):
        if not kept or not same_optimum(place.loglik - kept[-1].loglik, mean_weight):
            kept.append(place)
    return kept


def _perhaps_best(places: list[Place], mean_weight: float) -> list[Place]:
    """Keep the optima of the sample that may be best on all rows.

    What separates two optima grows with the rows, what they lose by coming from a sample does
    not depend on which it is; so a place far behind on the sample stays behind.
    """
    reach = FAR_BEHIND * mean_weight
    return [place for place in places if places[0].loglik - place.loglik < reach][:POLISHED]


def _records(found: list[Reached], part: Engine) -> tuple[StartRecord, ...]:
    sound = [one.place.loglik for one in found if one.fault is None]
    return record_starts(
        (
            (one.name, one.place.loglik, None if one.fault is None else one.fault.sentence)
            for one in found
        ),
        rows=part.n_rows,
        top=max(sound or [one.place.loglik for one in found]),
    )


def _solution(
    solver: MultiStart,
    problem: Problem,
    engine: Engine,
    best: Climb,
    records: tuple[StartRecord, ...],
    mean_weight: float,
    effort: float = 0.0,
) -> Solution:
    ordered = order_alternatives(problem, engine, best)
    finite = bool(np.isfinite(best.information).all())
    positive = finite and bool(np.linalg.eigvalsh(best.information)[0] > 0)
    ending = best.ending
    sound = [record.behind for record in records if record.fault is None]
    if positive:
        least = LEAST_ROWS / engine.n_rows
        lost = undetermined(problem, engine, ordered.information, lost=least, free=ordered.free)
        ending = lost or ending
    elif sound or ending.converged:
        ending = Ending(Status.SADDLE)
    if sound:
        others = [behind for behind in sound if not same_optimum(behind, mean_weight)]
        place = "reached this optimum" if ending.converged else "ended here"
        note = f"{len(sound) - len(others)} of {len(records)} starts {place}"
        if records[0].rows < engine.n_rows:
            note += f" on a sample of {records[0].rows} rows"
        note += f"; the next best was {-max(others):.4g} below." if others else "."
        missed = smallest_share_met(len(records))
        few = (
            f"So few starts may miss an optimum that fewer than {100 * missed:.0f}% of them "
            "lead to."
        )
        ending = ending.noting(note, few if missed > RARE_START else None)
    return Solution(
        free=ordered.free,
        loglik=best.loglik,
        information=ordered.information,
        ending=ending,
        trace=best.trace,
        n_passes=best.n_passes + int(np.ceil(effort)),
        solver=repr(solver),
        starts=records,
    )


def _as_coefficients(given: Any) -> tuple[tuple[float, ...], ...]:
    try:
        return tuple(tuple(float(value) for value in one) for one in given)
    except (TypeError, ValueError) as error:
        raise OptionError(
            f"start={given!r} is not possible: a search starts from a moment method, such as "
            "selfselect.solvers.TwoModels(), or from coefficients, one list per alternative, such "
            "as selfselect.solvers.Peeling().recover(...) returns."
        ) from error


def _with_faults(solution: Solution, faults: list[Degeneracy], n_starts: int) -> Solution:
    first = max(faults, key=lambda fault: fault.unbounded)
    note = f"{len(faults)} of {n_starts} starts were discarded: {first.sentence}"
    return replace(solution, ending=solution.ending.noting(note))
