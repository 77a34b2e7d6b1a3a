"""Search from many starts: climb from each on a sample of rows, polish the best on all."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.errors import OptionError
from selfselect.problem.evaluation import evaluate
from selfselect.problem.problem import Problem
from selfselect.progress import progress_bar
from selfselect.solvers._climb import Climb
from selfselect.solvers._degeneracy import Degeneracy, find_degeneracy
from selfselect.solvers._search import Place, SearchSpace
from selfselect.solvers._start import gram_matrices, is_deficient, refuse_collinear
from selfselect.solvers._starts import Recipe, recipes_for
from selfselect.solvers.base import Solution, StartRecord

__all__ = ["MultiStart"]

Array = NDArray[np.float64]

SAME_OPTIMUM = 0.01
"""Log-likelihoods closer than this, per climb to convergence, are taken for one optimum."""

POLISHED = 3
"""Distinct optima of the sample that are compared on all rows."""


@dataclass(frozen=True)
class MultiStart(ABC):
    """Search from several starts; members say how to climb.

    Parameters
    ----------
    starts : how many. Half of them are annealed in the scale, a quarter start from moments (where
        all equations have the same covariates), a quarter at random.
    sample : rows the search is done on.
    floor : smallest scale, as a fraction of the least-squares residuals' spread. With one scale
        per alternative the likelihood is unbounded at zero.
    """

    starts: int = 8
    sample: int = 20_000
    floor: float = 0.01

    requires: ClassVar[tuple[type, ...]] = ()
    index: ClassVar[str] = "unknown"

    def __post_init__(self) -> None:
        if self.starts < 1:
            raise OptionError(f"A search needs at least one start, not {self.starts}.")

    @abstractmethod
    def climb_on_sample(self, space: SearchSpace, part: Engine, begun: Place) -> Place:
        """Climb from a start on the sample."""

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
            return _solution(self, problem, engine, ascent, (), 0.0)
        part = engine.sample(self.sample, rng)
        space = self._space(problem, engine, part)
        found = self._search(space, part, rng, progress)
        return self._best(problem, engine, part, space, found, progress)

    def _space(self, problem: Problem, engine: Engine, part: Engine) -> SearchSpace:
        grams = gram_matrices(problem, part)
        if any(map(is_deficient, grams)):
            grams = gram_matrices(problem, engine)
            refuse_collinear(problem, grams)
        return SearchSpace.build(problem, grams, floor=self.floor)

    def _search(
        self, space: SearchSpace, part: Engine, rng: Generator, progress: bool | None
    ) -> list[tuple[Recipe, Place, Degeneracy | None]]:
        """Climb from every start, in parallel; each has a random stream of its own."""
        recipes = recipes_for(space.problem, self.starts)
        seeds = SeedSequence(int(rng.integers(2**63))).spawn(len(recipes))
        alone: Any = part.single_threaded() if hasattr(part, "single_threaded") else part

        def run(recipe: Recipe, seed: SeedSequence) -> tuple[Recipe, Place, Degeneracy | None]:
            begun = recipe.start(space, alone, np.random.default_rng(seed))
            place = self.climb_on_sample(space, alone, begun)
            return recipe, place, find_degeneracy(space, alone, place.coordinates)

        done = []
        with (
            progress_bar(progress, what="Starts", total=len(recipes)) as bar,
            ThreadPoolExecutor(os.cpu_count() or 1) as pool,
        ):
            for one in pool.map(run, recipes, seeds):
                bar.update()
                done.append(one)
        return done

    def _best(
        self,
        problem: Problem,
        engine: Engine,
        part: Engine,
        space: SearchSpace,
        found: list[tuple[Recipe, Place, Degeneracy | None]],
        progress: bool | None,
    ) -> Solution:
        sound = [(recipe, place) for recipe, place, fault in found if fault is None]
        faults = [fault for _, _, fault in found if fault is not None]
        effort = sum(place.n_evaluations for _, place, _ in found) * part.n_rows / engine.n_rows
        if not sound:
            # Nothing sound was found: return the least bad place, marked as what it is.
            sound = [(recipe, place) for recipe, place, _ in found]
        distinct = _distinct([place for _, place in sound])
        climbs = [
            self.polish(problem, engine, space.free(place.coordinates), progress)
            for place in _best_on_all(space, engine, distinct)
        ]
        best = max(climbs, key=lambda one: one.loglik)
        records = _records(found, part)
        solution = _solution(self, problem, engine, best, records, effort)
        return solution if not faults else _with_faults(solution, faults, len(found))


def _distinct(places: list[Place]) -> list[Place]:
    """Keep one place per optimum, the best first."""
    kept: list[Place] = []
    for place in sorted(places, key=lambda one: -one.loglik):
        if not kept or kept[-1].loglik - place.loglik > SAME_OPTIMUM:
            kept.append(place)
    return kept


def _best_on_all(space: SearchSpace, engine: Engine, places: list[Place]) -> list[Place]:
    """Keep the optima that may be best on all rows.

    What separates two optima grows with the rows, what they lose by coming from a sample does
    not depend on which it is; so a place far behind on the sample stays behind.
    """
    if len(places) == 1:
        return places
    close = [place for place in places if places[0].loglik - place.loglik < 5.0][:POLISHED]
    if len(close) == 1:
        return close
    values = []
    for place in close:
        task = partial(evaluate, space.problem, space.natural(place.coordinates), curvature="none")
        evaluation: Any = engine.sum(task)
        values.append(evaluation.loglik)
    order = np.argsort(values)[::-1]
    return [close[i] for i in order]


def _records(
    found: list[tuple[Recipe, Place, Degeneracy | None]],
    part: Engine,
) -> tuple[StartRecord, ...]:
    sound = [place.loglik for _, place, fault in found if fault is None]
    top = max(sound) if sound else max(place.loglik for _, place, _ in found)
    return tuple(
        StartRecord(
            recipe.name,
            part.n_rows,
            place.loglik,
            place.loglik - top,
            None if fault is None else fault.sentence,
        )
        for recipe, place, fault in found
    )


def _solution(
    solver: MultiStart,
    problem: Problem,
    engine: Engine,
    best: Climb,
    records: tuple[StartRecord, ...],
    effort: float,
) -> Solution:
    ordered = order_alternatives(problem, engine, best)
    positive = bool(np.linalg.eigvalsh(best.information)[0] > 0)
    status = best.status
    if records:
        reached = sum(record.behind > -SAME_OPTIMUM for record in records if record.fault is None)
        others = [r.behind for r in records if r.fault is None and r.behind <= -SAME_OPTIMUM]
        status += f" {reached} of {len(records)} starts reached this optimum"
        status += f"; the next best was {-max(others):.4g} below." if others else "."
    if not positive:
        status = "Stopped at a saddle: the information matrix is not positive. " + status
    return Solution(
        free=ordered.free,
        loglik=best.loglik,
        information=ordered.information,
        converged=best.converged and positive,
        status=status,
        trace=best.trace,
        n_passes=best.n_passes + int(np.ceil(effort)),
        solver=repr(solver),
        starts=records,
    )


def _with_faults(solution: Solution, faults: list[Degeneracy], n_starts: int) -> Solution:
    note = f" {len(faults)} of {n_starts} starts were discarded: {faults[0].sentence}"
    degenerate = len(faults) == n_starts
    return replace(
        solution,
        converged=solution.converged and not degenerate,
        status=("No sound optimum. " if degenerate else "") + solution.status + note,
    )


def order_alternatives(problem: Problem, engine: Engine, best: Climb) -> Climb:
    """Order alternatives without names by their mean outcome over the rows, largest first."""
    if not problem.exchangeable:
        return best
    layout = problem.layout
    natural = layout.natural(best.free)
    mean_row = engine.sum(partial(_column_sums, problem))
    heights = [
        mean_row @ natural[layout.starts[j] : layout.inverse_scale_positions[j]]
        / natural[layout.inverse_scale_positions[j]]
        for j in range(len(layout.sizes))
    ]  # fmt: skip
    order = np.argsort(heights)[::-1]
    moved = np.concatenate([np.arange(layout.starts[j], layout.starts[j + 1]) for j in order])
    free = layout.gather(natural[moved])
    # Where each free parameter comes from: shared ones stay where they are.
    origin = np.arange(layout.n_free)
    for new, old in enumerate(moved):
        if layout.position[new] >= 0:
            origin[layout.position[new]] = layout.position[old]
    return replace(best, free=free, information=best.information[np.ix_(origin, origin)])


def _column_sums(problem: Problem, batch: Any) -> Array:
    equation = problem.equations.each[0]
    return problem.units.design(batch.rows.covariates, equation.columns).sum(axis=0)
