"""Maximum likelihood where alternatives are joined, continued from independent noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, permutations
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.engines.memory import Memory
from selfselect.errors import DataError
from selfselect.noises import Independent
from selfselect.problem.problem import Problem
from selfselect.progress import progress_bar
from selfselect.rules import Maximum, Minimum
from selfselect.rules.base import HasBounds
from selfselect.solvers._choose import refine, with_points
from selfselect.solvers._soundness import (
    End,
    Searched,
    collapsed,
    ends_at_boundary,
    find_boundary,
    find_collapse,
    settle,
    thin_at,
)
from selfselect.solvers._start import (
    any_deficient,
    gram_matrices,
    least_squares_start,
    refuse_collinear,
    refuse_dependent_spreads,
    ridge,
    undetermined,
)
from selfselect.solvers._starts import random_places
from selfselect.solvers.base import Ending, Solution, Status, require, require_counts
from selfselect.solvers.climb import (
    Climb,
    Point,
    approach,
    climb,
    information_at,
    log_likelihood,
    score_at,
    solve_spd,
)
from selfselect.solvers.maximum_likelihood import MaximumLikelihood
from selfselect.solvers.newton import has_kinks, solve_through_smooth
from selfselect.solvers.order import order_alternatives

Array = NDArray[np.float64]

SEARCH_DRAWS, SEARCH_ROWS = 32, 2_000
"""Draws and rows of the search where the likelihood is simulated."""

LARGER_SAMPLE = 40_000
"""Rows that the best start is polished on before all are."""

SEARCH_STEPS, STRIDE, AT_BOUNDARY = 100, 6, 3
"""Newton steps of a search on the sample, those between two looks whether it runs to a boundary,
and those on all rows where it did."""

RANDOM_STARTS, FEWER_STARTS = 32, 8
"""Starts from random equations, for each alternative but one, where the shape of the noise is
estimated and the choice was not recorded: with compiled kernels and without."""

MOST_FINISHED = 4
"""Optima of the sample, the best first, that are looked at on all rows until one is sound."""

MOST_NUMBERINGS = 24
"""Numberings of alternatives that are tried where only the rule tells them apart."""

INFORMATION_DRAWS, INFORMATION_ROWS = 64, 8_000
"""Draws and rows by which the information of a simulated likelihood is approached."""

NEARBY, ROUNDS = 0.3, 8
"""Distance, in standard errors, to go by the information of the search, and how often that of a
sample is taken anew on the way from there."""

ROUGH = 1e-2
"""Distance from the optimum of a sample, in its standard errors, that is near enough."""


@dataclass(frozen=True)
class Continuation:
    """Maximise a likelihood that joins the alternatives, starting from independent noise.

    Scales that move with covariates are fitted by it as well, starting from scales that do not.

    Correlated noise, a shared shock, estimated costs and rows in which something was not recorded
    have likelihoods that are concave in the coefficients for given noise and costs, but not in
    all together. The search starts from the optimum under independent noise (for an unknown
    index the best of several, and random equations where the shape of the noise is estimated),
    climbs by Newton's method on a sample from several correlations or
    loadings, and polishes the best on all rows. Where the likelihood is simulated or a quadrature,
    its points are doubled until the estimates stay.

    Parameters
    ----------
    max_steps : Newton steps over all rows after which it gives up.
    tol : distance to the optimum, in standard errors, at which it stops.
    sample : rows of the sample that the search is done on.
    steady : change of the estimates, in standard errors, when points are doubled, at which they
        are enough; None keeps the points of the noise as they are.
    starts : how many starts the search under independent noise takes where the chosen alternative
        was not recorded, and from how many correlations, loadings or shapes it goes on at most.
        Where the shape of the noise is estimated as well, it begins from random equations too, up
        to so many starts in all. None for as many as `MaximumLikelihood` takes, for all, and for
        32 random starts per alternative but one (8 without compiled kernels).
    """

    max_steps: int = 100
    tol: float = 1e-6
    sample: int = 5_000
    steady: float | None = 0.01
    starts: int | None = None

    requires: ClassVar[tuple[type, ...]] = (HasBounds,)
    concave: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_counts(self, "max_steps", "sample", *["starts"] * (self.starts is not None))

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
        refuse_few_rows(problem, engine)
        if has_kinks(problem):
            return solve_through_smooth(
                self, problem, engine, rng=rng, start=start, progress=progress
            )
        if start is not None:
            return self._finish(problem, engine, start, progress)
        searched = self._search(problem, engine, rng, progress)
        found, doubted = self._first_sound(problem, engine, searched, rng, progress)
        settled = settle(problem, engine, found, doubted, rng=rng, progress=progress)
        if settled is None:
            raise DataError(f"The search ended at no estimate: {doubted[0]}")
        return settled

    def _first_sound(
        self,
        problem: Problem,
        engine: Engine,
        searched: Searched,
        rng: Generator,
        progress: bool | None,
    ) -> tuple[Solution | None, list[str]]:
        """Climb on all rows from the best optima of the sample, in turn, until one is sound.

        Returns that one, None where there is none, and what was wrong with those before it.
        """
        doubted: list[str] = []
        place: Climb | None = searched.best or searched.least_bad
        while place is not None and len(doubted) < MOST_FINISHED:
            information = searched.share * place.information
            start = self._nearer(problem, engine, place.free, information, rng)
            found = self._finish(problem, engine, start, progress)
            reason = _fault(problem, engine, found.free)
            if found.status is Status.AT_BOUNDARY and problem.noise.simpler is not None:
                reason = reason or str(found.ending.details["reason"])
            if reason is None:
                return replace(found, starts=searched.records()), doubted
            doubted.append(reason)
            searched = searched.without(place, reason)
            place = searched.best
        return None, doubted

    def _nearer(
        self,
        problem: Problem,
        engine: Engine,
        start: Array,
        information: Array,
        rng: Generator,
    ) -> Array:
        """Go from the place that was found on a sample towards the optimum of all rows."""
        if problem.likelihood.compiled and engine.n_rows > 2 * LARGER_SAMPLE:
            # Passes over a larger sample cost little and save some over all rows.
            part = engine.sample(LARGER_SAMPLE, rng)
            nearer = climb(problem, part, start, max_steps=SEARCH_STEPS, tol=ROUGH, progress=False)
            start = nearer.free
            information = engine.n_rows / part.n_rows * nearer.information
        if not problem.likelihood.exact:
            return self._by_first_derivatives(problem, engine, start, information, rng)
        if not problem.likelihood.joint:
            return start
        # Second derivatives of atoms take several times as long as first ones.
        return approach(problem, engine, start, information, tol=ROUGH)

    def _finish(
        self,
        problem: Problem,
        engine: Engine,
        start: Array,
        progress: bool | None,
    ) -> Solution:
        """Climb to the optimum of all rows."""
        start = _arranged(problem, start)
        # At a boundary there is no optimum to reach; a few steps tell that all rows agree.
        steps = self.max_steps if ends_at_boundary(problem, engine, start) is None else AT_BOUNDARY
        best = climb(problem, engine, start, max_steps=steps, tol=self.tol, progress=progress)
        again = _arranged(problem, best.free)
        if again is not best.free:
            best = climb(problem, engine, again, max_steps=steps, tol=self.tol, progress=progress)
        points, settled = None, None
        if self.steady is not None and best.converged:
            refined = refine(problem, engine, best, steady=self.steady, tol=self.tol)
            best, points, settled = refined.best, refined.points, refined.said
        best = order_alternatives(problem, engine, _turned(problem, best))
        return self._solution(problem, engine, best, points, settled)

    def _by_first_derivatives(
        self, problem: Problem, engine: Engine, start: Array, information: Array, rng: Generator
    ) -> Array:
        """Climb to the optimum by first derivatives, where second ones cost many passes.

        The information of a sample, with all points, is near enough to that of all rows for steps
        to shrink the distance manyfold each.
        """
        here = approach(problem, engine, start, information, tol=NEARBY)
        # Rows tell more of the information than points do.
        coarse = with_points(problem, INFORMATION_DRAWS)
        part = engine.sample(INFORMATION_ROWS, rng)
        share = engine.n_rows / part.n_rows
        for _ in range(ROUNDS):
            information = share * information_at(coarse, part, here)
            here = approach(problem, engine, here, information, tol=0.2 * self.tol, learn=True)
            score = score_at(problem, engine, here)
            if float(score @ solve_spd(information, score)) <= self.tol**2:
                break
        return here

    def _search(
        self, problem: Problem, engine: Engine, rng: Generator, progress: bool | None
    ) -> Searched:
        """Climb on a sample from several values of what the noise adds, and from anywhere."""
        part = engine.sample(self.sample, rng)
        points = problem.noise.points(problem.equations.n_alternatives)
        if points is not None and not problem.likelihood.exact:
            # Rough places need few points and few rows.
            problem = with_points(problem, min(points.number, SEARCH_DRAWS))
            part = engine.sample(min(self.sample, SEARCH_ROWS), rng)
        refuse_dependent_spreads(problem, part, engine)
        begun = self._independent(problem, engine, part, rng, progress)
        begins = [
            (f"{name}{of}", natural)
            for of, numbered in _numberings(problem, begun)
            for name, natural in _begins(problem, numbered)[: self.starts]
        ]
        begins += self._anywhere(problem, part, rng, len(begins))
        starts = [problem.layout.gather(natural) for _, natural in begins]
        ends: list[End] = []
        alone = part.single_threaded()
        with progress_bar(progress, what="Starts", total=len(begins)) as bar:
            climbs = engine.map(partial(_rough_climb, problem, alone), starts)
            for (name, _), end in zip(begins, climbs, strict=True):
                ends.append(End(name, end, _fault(problem, alone, end.free)))
                bar.update()
        share = engine.n_rows / part.n_rows
        return Searched(tuple(ends), part.n_rows, part.weight_total / part.n_rows, share)

    def _anywhere(
        self, problem: Problem, part: Engine, rng: Generator, n_begun: int
    ) -> list[tuple[str, Array]]:
        """Return starts from random equations, where normal noise may lead to the wrong optimum.

        Without the index, equations and the shape of the noise make up for one another.
        """
        if not _shape_and_choice_unknown(problem):
            return []
        each = RANDOM_STARTS if problem.likelihood.compiled else FEWER_STARTS
        count = each * (problem.equations.n_alternatives - 1)
        if self.starts is not None:
            count = max(self.starts - n_begun, 0)
        places = random_places(independent_companion(problem), part, rng, count)
        begins = []
        for number, place in enumerate(places):
            shapes = _begins(problem, place)
            name, natural = shapes[number % len(shapes)]
            begins.append((f"random equations, {name}", natural))
        return begins

    def _independent(
        self,
        problem: Problem,
        engine: Engine,
        part: Engine,
        rng: Generator,
        progress: bool | None,
    ) -> Array:
        """Return natural parameters of the same equations under independent noise, no costs."""
        simple = independent_companion(problem)
        if problem.index == "unknown":
            # Rows without an outcome say too little to begin with.
            simple = replace(simple, partial=part.rows.possible is not None)
            if problem.likelihood.weighed:
                simple = replace(simple, rule=_plain_rule(problem, part), exchangeable=False)
            # The simpler problem has kernels of its own, which read rows in their own way.
            held = Memory().load(simple, part.recorded().rows)
            search = MaximumLikelihood(self.starts)
            solution = search.solve(simple, held, rng=rng, progress=progress)
            return simple.layout.natural(solution.free)
        grams = gram_matrices(simple, part)
        if any_deficient(simple, grams):
            grams = gram_matrices(simple, engine)
            refuse_collinear(simple, grams)
        free = least_squares_start(simple, grams)
        found = climb(simple, part, free, max_steps=self.max_steps, tol=ROUGH, progress=False)
        return simple.layout.natural(found.free)

    def _solution(
        self,
        problem: Problem,
        engine: Engine,
        best: Climb,
        points: int | None,
        settled: str | None,
    ) -> Solution:
        boundary = ends_at_boundary(problem, engine, best.free)
        lost, thin = None, None
        if boundary is None:
            lost = find_collapse(problem, engine, best.free)
            lost = lost or undetermined(problem, engine, best.information, free=best.free)
            lost = lost or ridge(problem, best.free, best.information)
            if _shape_and_choice_unknown(problem):
                thin = thin_at(problem, engine, problem.layout.natural(best.free))
        return Solution(
            free=best.free,
            loglik=best.loglik,
            information=best.information
            if boundary is None
            else np.full_like(best.information, np.nan),
            ending=boundary or lost or best.ending.noting(settled, thin),
            trace=best.trace,
            n_passes=best.n_passes,
            solver=repr(self),
            points=points,
        )


def refuse_few_rows(problem: Problem, engine: Engine) -> None:
    """Refuse noise with more parameters than the rows can tell."""
    needed = problem.noise.fewest_rows(problem.equations.n_alternatives)
    if engine.n_rows < needed:
        raise DataError(
            f"{engine.n_rows} rows are too few for noise that is {problem.noise.name}: it takes at "
            f"least {needed}. Use fewer components, or noises.Independent()."
        )


def _shape_and_choice_unknown(problem: Problem) -> bool:
    """Say whether both the shape of the noise is estimated and the choice was not recorded."""
    return problem.index == "unknown" and problem.noise.family is not None


def _fault(problem: Problem, engine: Engine, free: Array) -> str | None:
    """Say why a place is no estimate of the model; None where it is one."""
    layout, natural = problem.layout, problem.layout.natural(free)
    first = int(layout.starts[-1])
    extras = natural[first : first + layout.n_noise_extras]
    fault = problem.noise.degenerate(problem.equations.alternatives, extras)
    if fault is None and _shape_and_choice_unknown(problem):
        fault = collapsed(problem, engine, natural)
    return fault


def independent_companion(problem: Problem) -> Problem:
    """Return the same problem with independent noise, constant scales and no estimated costs."""
    scale = problem.noise.scale
    if problem.noise.spread is not None:
        # Without the index, alternatives with a scale each may collapse onto a few rows.
        scale = "each" if problem.index == "known" else "common"
    return replace(
        problem,
        equations=replace(problem.equations, costs=()),
        noise=Independent(scale),
    )


def _plain_rule(problem: Problem, part: Engine) -> Maximum | Minimum:
    """Return Maximum or Minimum, whichever is closer to the rule."""
    outcome = part.rows.outcome
    assert outcome is not None
    middle = np.array([float(np.nanmedian(outcome))])
    k = problem.equations.n_alternatives
    known = part.rows.known.take(np.array([0]))
    above = 0
    for j in range(k):
        lower, upper = problem.ordered_rule.bounds(np.array([j]), middle, known)
        others = np.arange(k) != j
        above += int(np.broadcast_to(upper < np.inf, (1, k))[0, others].sum())
        above -= int(np.broadcast_to(lower > -np.inf, (1, k))[0, others].sum())
    return Maximum() if above >= 0 else Minimum()


def _numberings(problem: Problem, natural: Array) -> list[tuple[str, Array]]:
    """Return the same equations under other names, where the rule tells names apart.

    A search by the largest or smallest outcome does not know which equation is whose, or only from
    covariates that others lack. Those begin at zero.
    """
    layout, each = problem.layout, problem.equations.each
    if not problem.likelihood.weighed:
        return [("", natural)]
    own = [
        dict(zip(one.columns, natural[start:], strict=False))
        for one, start in zip(each, layout.starts, strict=False)
    ]
    inverse = natural[layout.inverse_scale_positions]
    orders = islice(permutations(range(len(each))), MOST_NUMBERINGS)
    return [
        (f", numbered {'-'.join(str(j + 1) for j in order)}",
         np.concatenate([[*(own[j].get(column, 0.0) for column in one.columns), inverse[j]]
                         for one, j in zip(each, order, strict=True)]))
        for order in orders
    ]  # fmt: skip


def _begins(problem: Problem, independent: Array) -> list[tuple[str, Array]]:
    """Return the natural parameters that climbs start from, with the name of each start."""
    layout = problem.layout
    n_equations = int(layout.starts[-1])
    free = layout.position[n_equations : n_equations + layout.n_noise_extras] >= 0
    begins = problem.noise.begins(free, independent[layout.inverse_scale_positions])

    def begin(values: Array) -> Array:
        extras = layout.extra_starts.copy()
        extras[: len(free)] = np.where(free, values, extras[: len(free)])
        return np.concatenate([independent[:n_equations], extras])

    if not begins:
        name = "constant scales" if layout.spreads else "independent noise"
        return [(name, begin(layout.extra_starts[: len(free)]))]
    return [(name, begin(values)) for name, values in begins]


def _rough_climb(problem: Problem, part: Engine, free: Array) -> Climb:
    """Climb on a sample, but not on and on towards a boundary."""
    if not np.isfinite(log_likelihood(problem, part, free)):
        # Some correlations were fixed such that these do not go with them.
        free = problem.layout.gather(
            np.concatenate(
                [
                    problem.layout.natural(free)[: problem.layout.starts[-1]],
                    problem.layout.extra_starts,
                ]
            )
        )

    def stop(here: Point, n_steps: int) -> Ending | None:
        looks = n_steps and n_steps % STRIDE == 0
        return find_boundary(problem, here.free) if looks else None

    return climb(problem, part, free, max_steps=SEARCH_STEPS, tol=ROUGH, stop=stop)


def _arranged(problem: Problem, free: Array) -> Array:
    """Put what the likelihood does not order, such as components, in the order agreed on."""
    layout, natural = problem.layout, problem.layout.natural(free)
    of_noise = slice(int(layout.starts[-1]), int(layout.starts[-1]) + layout.n_noise_extras)
    arranged = problem.noise.arranged(natural[of_noise])
    if np.allclose(arranged, natural[of_noise], rtol=1e-9, atol=1e-9):
        return free
    natural[of_noise] = arranged
    return layout.gather(natural)


def _turned(problem: Problem, best: Climb) -> Climb:
    """Give the noise's own parameters the sign they should have, where the likelihood sees none."""
    layout = problem.layout
    of_noise = slice(int(layout.starts[-1]), int(layout.starts[-1]) + layout.n_noise_extras)
    at = np.unique(layout.position[of_noise])
    # A parameter that is fixed has said already which sign it has.
    fixed = len(at) == 0 or bool(at[0] < 0)
    if fixed or not problem.noise.turned(layout.natural(best.free)[of_noise]):
        return best
    turn = np.ones(layout.n_free)
    turn[at] = -1.0
    return replace(best, free=best.free * turn, information=best.information * np.outer(turn, turn))
