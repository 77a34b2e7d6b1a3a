"""Ends that are no optima: degenerate, at a boundary, or of a noise that the data do not show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.likelihoods import Batch, row_terms, sum_chances
from selfselect.likelihoods.pieces import noise_covariance
from selfselect.problem.problem import Problem
from selfselect.solvers._search import Place, SearchSpace, grouped
from selfselect.solvers.base import (
    Ending,
    Solution,
    StartRecord,
    Status,
    record_starts,
    same_optimum,
)
from selfselect.solvers.climb import Climb, log_likelihood, scale_without_limit
from selfselect.threads import parallel_map

Array = NDArray[np.float64]


# Degenerate optima of the unknown index: an equation through single rows, its scale at zero.


ROWS_PER_PARAMETER, CHANCE_ROWS_PER_PARAMETER = 2.0, 5.0
"""Rows per parameter below which an equation has collapsed, and below which it may be chance."""

AT_FLOOR = 1.001
"""A scale within this factor of the floor has run into it."""


SHRUNK = 1e5
"""Times by which a scale that moves is smaller than at the centre, in rows where it collapsed."""


@dataclass(frozen=True)
class Degeneracy:
    """An equation that explains too few rows to be one.

    Attributes
    ----------
    sentence : which alternative collapsed onto which row.
    unbounded : whether its scale ran into the floor: without it the likelihood has no bound.
    """

    sentence: str
    unbounded: bool


def find_degeneracy(
    space: SearchSpace, engine: Engine, coordinates: Array, *, part: Engine | None = None
) -> Degeneracy | None:
    """Say which alternative collapsed onto which row, or None where none did.

    An alternative has collapsed where its scale ran into the floor, or where it is expected to
    have been chosen in fewer than two rows per parameter: any plane fits so few. Where that many
    are in a `part` of the rows already, no pass over all is needed.
    """
    problem, layout = space.problem, space.problem.layout
    natural = space.natural(coordinates)
    if not np.isfinite(natural).all():
        return Degeneracy("the search ran off to infinity.", True)
    expected = np.full(len(layout.sizes), np.inf)
    if problem.index == "unknown":
        expected = _expected_rows(problem, engine, natural, ROWS_PER_PARAMETER, part)
    scales = 1.0 / natural[layout.inverse_scale_positions]
    for j, equation in enumerate(problem.equations.each):
        floored = space.free_scales > 1 and scales[j] <= AT_FLOOR * space.floor
        empty = expected[j] < ROWS_PER_PARAMETER * (problem.equations.own_terms[j] + 1)
        if floored or empty:
            row = int(np.argmax(engine.collect(partial(_pull, problem, natural, j))))
            what = "its scale fell to the floor" if floored else "hardly any row is its own"
            return Degeneracy(
                f"alternative {equation.alternative!r} collapsed ({what}); the row that drew it "
                f"most is row {row} of the searched ones.",
                floored,
            )
    return None


def thin_equation(
    space: SearchSpace, engine: Engine, coordinates: Array, *, part: Engine | None = None
) -> str | None:
    """Say which alternative with a scale of its own rests on so few rows that it may be chance.

    A handful of rows that happen to lie close to a plane makes an optimum too, of a small scale.
    `part` is as for `find_degeneracy`.
    """
    return thin_at(space.problem, engine, space.natural(coordinates), part=part)


def thin_at(
    problem: Problem, engine: Engine, natural: Array, *, part: Engine | None = None
) -> str | None:
    """Say the same of natural parameters."""
    if problem.index == "known" or not _own_scales(problem):
        return None
    rows = _expected_rows(problem, engine, natural, CHANCE_ROWS_PER_PARAMETER, part)
    parameters = np.array(problem.equations.own_terms) + 1
    thinnest = int(np.argmin(rows / parameters))
    if rows[thinnest] >= CHANCE_ROWS_PER_PARAMETER * parameters[thinnest]:
        return None
    label = problem.equations.each[thinnest].alternative
    alike = "noise=Independent(scale='common')" if problem.noise.gaussian else "scale='common'"
    return (
        f"Alternative {label!r} rests on {rows[thinnest]:.0f} rows, for {parameters[thinnest]} "
        "parameters: with a scale of its own it may be no more than rows that happen to lie close "
        f"to a plane. Compare with {alike}."
    )


def _own_scales(problem: Problem) -> bool:
    """Say whether every alternative has a scale of its own that is estimated."""
    layout = problem.layout
    return layout.scales is None and not layout.common and len(layout.sizes) > 1


def find_collapse(problem: Problem, engine: Engine, free: Array) -> Ending | None:
    """Return an ending that names an alternative whose scale fell to zero in some rows, or None.

    So it may end where scales move with covariates: an equation passes through a handful of rows,
    and nothing bounds the likelihood as their scale shrinks. Where the choice was not recorded, an
    alternative may rest on too few rows as a whole.
    """
    layout = problem.layout
    if not layout.spreads:
        return None
    shrunk = engine.sum(partial(_count_shrunk, problem, layout.natural(free)))
    if shrunk.any():
        label = problem.equations.alternatives[int(shrunk.argmax())]
        sentence = (
            f"The scale of {label!r} collapsed: of the rows in which it was chosen, "
            f"{shrunk.max():.0f} have a scale below 1/{SHRUNK:,.0f} of that at the centre of all, "
            "and its equation passes through their outcomes. The likelihood has no bound there. "
            "Leave terms out of its log scale, or merge categories that have few rows."
        )
        return Ending(Status.STOPPED, {"sentence": sentence})
    reason = collapsed(problem, engine, layout.natural(free))
    return None if reason is None else Ending(Status.STOPPED, {"sentence": reason})


def collapsed(problem: Problem, engine: Engine, natural: Array) -> str | None:
    """Say which alternative has fewer rows of its own than any plane fits; None where none has.

    Only where the choice was not recorded can it come to that.
    """
    layout = problem.layout
    if problem.index == "known":
        return None
    rows = expected_counts(problem, engine, natural) * engine.n_rows / engine.weight_total
    moving = [0 if one is None else len(one.places) for one in layout.spread_of]
    parameters = np.array(problem.equations.own_terms) + 1 + moving
    thinnest = int(np.argmin(rows / parameters))
    if rows[thinnest] >= ROWS_PER_PARAMETER * parameters[thinnest]:
        return None
    label = problem.equations.each[thinnest].alternative
    fewer = "scales that move with fewer covariates, or " if layout.spreads else ""
    return (
        f"Alternative {label!r} collapsed: {rows[thinnest]:.1f} rows are its own, for "
        f"{parameters[thinnest]} parameters. Use {fewer}scale='common'."
    )


def _count_shrunk(problem: Problem, natural: Array, batch: Batch) -> Array:
    """Count the rows (k,) of each alternative in which its scale is next to nothing."""
    log_factors = problem.log_factors(natural, problem.spread_designs(batch.rows))
    assert log_factors is not None
    if batch.rows.chosen is None:
        mine = row_terms(problem, natural, batch).chance > 0.5
    else:
        mine = batch.rows.chosen[:, None] == np.arange(log_factors.shape[1])
    if batch.rows.weights is not None:
        mine &= (batch.rows.weights > 0)[:, None]
    return np.asarray((mine & (log_factors > np.log(SHRUNK))).sum(axis=0), dtype=float)


def expected_counts(problem: Problem, engine: Engine, natural: Array) -> Array:
    """Return the weight (k,) of the rows in which each alternative is expected to be chosen."""
    return engine.sum(partial(sum_chances, problem, natural))


def _expected_rows(
    problem: Problem, engine: Engine, natural: Array, per_parameter: float, part: Engine | None
) -> Array:
    """Return in how many rows (k,) each alternative is expected to have been chosen.

    They are those of a part where it has `per_parameter` of them already: all have no fewer.
    """
    wanted = per_parameter * (np.array(problem.equations.own_terms) + 1)
    # Weights may be of any size: rows are counted in units of the mean one.
    unit = engine.n_rows / engine.weight_total
    if part is not None and part.n_rows < engine.n_rows:
        rows = unit * expected_counts(problem, part, natural)
        if (rows >= wanted).all():
            return rows
    return unit * expected_counts(problem, engine, natural)


def _pull(problem: Problem, natural: Array, alternative: int, batch: Batch) -> Array:
    """Return how strongly each row speaks for an alternative: membership times closeness."""
    counts = True if batch.rows.weights is None else batch.rows.weights > 0
    rows = row_terms(problem, natural, batch)
    with np.errstate(divide="ignore"):
        chance = np.log(rows.chance[:, alternative])
    return np.where(counts, chance - 0.5 * rows.standardised[:, alternative] ** 2, -np.inf)


# A way out of a poor optimum: put the rarest alternative next to another one.
#
# Where a search ends below the best optimum, often one alternative stands for two, and another,
# hardly ever chosen, makes up for what they have left. All others are where they belong.


NEXT_TO = 0.1
"""Distance from the other alternative, in units of the least-squares residuals' spread."""

FIRST_STEPS = 20
"""Steps after which it shows which of the places are worth climbing from."""

CLIMBED = 2


def relocate(
    space: SearchSpace,
    engine: Engine,
    best: Place,
    rng: Generator,
    climb: Callable[[list[Place]], list[Place]],
) -> Place:
    """Put the rarest alternative next to every other one; climb from the best two.

    Parameters
    ----------
    space : coordinates of alternatives that may change places.
    engine : rows.
    best : the optimum to move on from.
    rng : for the direction in which it is put next to another.
    climb : climbs from each of several places to an optimum.

    Returns
    -------
    The better of the two ends, whose evaluations are those of the whole move.
    """
    counts = expected_counts(space.problem, engine, space.natural(best.coordinates))
    rarest = int(np.argmin(counts))
    starts = [
        space.next_to(best.coordinates, rarest, other, NEXT_TO * space.spread, rng)
        for other in range(len(counts))
        if other != rarest
    ]

    def begin(group: list[Array]) -> list[Place]:
        return space.climb(engine, np.array(group), max_steps=FIRST_STEPS)

    begun = sorted(_by_groups(begin, starts, engine), key=lambda place: -place.loglik)
    ended = _by_groups(climb, begun[:CLIMBED], engine)
    effort = sum(place.n_evaluations for place in (*begun[CLIMBED:], *ended))
    return replace(max(ended, key=lambda place: place.loglik), n_evaluations=effort)


def _by_groups(
    climb: Callable[[list[Any]], list[Place]], starts: list[Any], engine: Engine
) -> list[Place]:
    groups = grouped(starts, engine)
    return [place for group in parallel_map(climb, groups) for place in group]


# Estimates at the edge of what is possible, where they and their errors mean nothing.


LOWER = 2.0
"""Fall of the log-likelihood on the way to a limit that shows an optimum before it: at a confidence
of 95% the limit is then outside of the interval."""


def find_boundary(problem: Problem, free: Array) -> Ending | None:
    """Return an ending that names what is at its limit, or None where nothing is."""
    found = scale_without_limit(problem, free)
    layout, natural = problem.layout, problem.layout.natural(free)
    if found is not None or not layout.n_noise_extras:
        return found
    first = int(layout.starts[-1])
    reason = problem.noise.boundary(
        problem.equations.alternatives,
        noise_covariance(problem, natural),
        natural[first : first + layout.n_noise_extras],
        known_scales=problem.layout.scales is not None,
    )
    return None if reason is None else Ending(Status.AT_BOUNDARY, {"reason": reason})


def ends_at_boundary(problem: Problem, engine: Engine, free: Array) -> Ending | None:
    """Return what `find_boundary` returns, but None where the likelihood falls on the way there.

    A correlation of 0.996 may be an optimum like any other.
    """
    found = find_boundary(problem, free)
    if found is None or not problem.layout.n_noise_extras:
        return found
    layout, natural = problem.layout, problem.layout.natural(free)
    of_noise = slice(int(layout.starts[-1]), int(layout.starts[-1]) + layout.n_noise_extras)
    limit = problem.noise.at_limit(natural[of_noise])
    if limit is None:
        return found
    natural[of_noise] = limit
    there = layout.gather(natural)
    if np.array_equal(there, free):
        return found
    fall = log_likelihood(problem, engine, free) - log_likelihood(problem, engine, there)
    return None if fall > LOWER else found


# Where the climbs of a search ended, which of them are sound, and which is best.


@dataclass(frozen=True, eq=False)
class End:
    """Where one start ended: its name, the place, and what is wrong with it."""

    name: str
    climb: Climb
    fault: str | None


@dataclass(frozen=True, eq=False)
class Searched:
    """Where the starts of a search on a sample ended.

    Attributes
    ----------
    ends : one for each start.
    rows : rows of the sample.
    mean_weight : weight of such a row.
    share : how many times the sample all rows are.
    """

    ends: tuple[End, ...]
    rows: int
    mean_weight: float
    share: float

    @property
    def best(self) -> Climb | None:
        """The highest end that is sound; None where none is.

        A climb that stopped early may still be the best place to go on from.
        """
        sound = [one.climb for one in self.ends if one.fault is None]
        return max(sound, key=lambda one: one.loglik, default=None)

    @property
    def least_bad(self) -> Climb:
        """The highest end of all."""
        return max((one.climb for one in self.ends), key=lambda one: one.loglik)

    def without(self, place: Climb, reason: str) -> Searched:
        """Return the same without the ends at that optimum, which is no estimate."""

        def doubt(one: End) -> End:
            same = same_optimum(-abs(one.climb.loglik - place.loglik), self.mean_weight)
            return replace(one, fault=one.fault or reason) if same else one

        return replace(self, ends=tuple(map(doubt, self.ends)))

    def records(self) -> tuple[StartRecord, ...]:
        """Record where the starts ended; empty where there was one."""
        if len(self.ends) < 2:
            return ()
        return record_starts(
            (
                (
                    one.name,
                    one.climb.loglik,
                    one.fault or (None if one.climb.converged else str(one.climb.ending)),
                )
                for one in self.ends
            ),
            rows=self.rows,
            top=(self.best or self.least_bad).loglik,
        )


# Noise of which the data do not show all: the estimates of simpler noise, and why.


INDISTINCT = 2.0
"""Log-likelihood above that of simpler noise below which an estimate that is not determined, or
that another one was preferred to, says no more than that one."""


def settle(
    problem: Problem,
    engine: Engine,
    found: Solution | None,
    doubted: list[str],
    *,
    rng: Generator,
    progress: bool | None,
) -> Solution | None:
    """Return what was found, or the estimate under simpler noise where that is as good.

    An optimum that the search came to at once and that converged stands. One that it came to after
    others had been doubted, for these reasons, stands if it is better than the estimate under
    simpler noise, and so does one that did not converge. Returns None where there is neither.
    """
    if found is not None and found.converged and not doubted:
        return found
    simple = _solve_simpler(problem, engine, rng=rng, progress=progress)
    if simple is None:
        return found
    gain = -float("inf") if found is None else found.loglik - simple.loglik
    if gain >= INDISTINCT:
        return found
    if doubted:
        return _saying_why(simple, problem, doubted[0])
    reason = (
        f"the components coincide: the log-likelihood is {max(gain, 0.0):.2g} above that of the "
        "simpler noise, so the data do not distinguish them."
    )
    return _saying_why(simple, problem, reason)


def _solve_simpler(
    problem: Problem, engine: Engine, *, rng: Generator, progress: bool | None
) -> Solution | None:
    """Return the estimate under the simpler noise; None where there is none that converged."""
    from selfselect.solvers._choose import choose_solver

    noise = problem.noise.simpler
    if noise is None:
        return None
    simple = replace(problem, noise=noise)
    found = choose_solver(simple, None)[0].solve(simple, engine, rng=rng, progress=progress)
    return replace(found, settled=found.settled or noise) if found.converged else None


def _saying_why(simple: Solution, problem: Problem, reason: str) -> Solution:
    """Return the estimate under simpler noise with the reason why it is that."""
    assert simple.settled is not None
    said = (
        f"The fit was asked for a {problem.noise.name.split(',')[0]}, but {reason} The estimates "
        f"are those of simpler noise: {simple.settled.name.split(',')[0]}."
    )
    return replace(simple, ending=simple.ending.noting(said))
