"""Rehearsal: samples drawn from a fit at its own covariates, each fitted from scratch.

A fit is asked whether its own procedure, search included, would find it again. Where the
likelihood has several optima every sample is also climbed from the simulated truth, so that a
search that stopped at a worse optimum is told from one that found a better optimum elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.engines.memory import Memory
from selfselect.errors import DataError, OptionError, RuleError, SelfSelectError
from selfselect.inference.simulation import redraw
from selfselect.problem.problem import Problem
from selfselect.progress import progress_bar
from selfselect.solvers import as_solved
from selfselect.solvers.base import Solution, Solver
from selfselect.solvers.order import (
    closest_order,
    groups_alike,
    match_alternatives,
    reordered,
)
from selfselect.threads import parallel_map

Array = NDArray[np.float64]

SAME = 0.01
"""Difference of log-likelihoods below which two climbs ended at the same optimum."""

FEWEST = 10
"""Samples below which their spread says nothing."""


class Ended(Enum):
    """Where a search on a sample ended, beside the optimum nearest to the simulated truth."""

    RETURNED = "returned to the simulated truth"
    WORSE = "stopped at a worse optimum"
    ELSEWHERE = "found a better optimum elsewhere"
    SIMPLER = "settled on simpler noise"
    UNDETERMINED = "left a part of the noise undetermined"
    FAILED = "did not converge, or could not be fitted"


@dataclass(frozen=True, eq=False)
class DrawnFit:
    """One sample: where its search ended, the reported estimates and their standard errors.

    They are nan where the sample was fitted by simpler noise, which lacks the parameter.
    """

    ended: Ended
    values: Array | None = None
    errors: Array | None = None


def check_draws(replications: Any, fewest: int = FEWEST) -> int:
    """Check a number of samples."""
    whole = isinstance(replications, int | np.integer) and not isinstance(replications, bool)
    if not whole or replications < fewest:
        raise OptionError(
            f"replications={replications!r} must be a whole number of at least {fewest}: fewer "
            "samples are not informative."
        )
    return int(replications)


def map_draws(
    task: Callable[[Generator], Any], replications: int, seed: int, progress: bool | None
) -> list[Any]:
    """Run a task once per sample, each with a random stream of its own, on all cores."""
    streams = SeedSequence(seed).spawn(replications)
    found = []
    with progress_bar(progress, what="Rehearsal", total=replications) as bar:
        for one in parallel_map(lambda stream: task(np.random.default_rng(stream)), streams):
            bar.update()
            found.append(one)
    return found


def rehearse_fits(
    problem: Problem,
    rows: Rows,
    solution: Solution,
    solver: Solver,
    errors_of: Callable[[Problem, Any, Solution], Array],
    *,
    replications: int,
    seed: int,
    progress: bool | None,
) -> list[DrawnFit]:
    """Draw samples from a fit and fit each from scratch.

    Parameters
    ----------
    problem, rows, solution : the fit. Rows stand for themselves only.
    solver : by which samples are fitted.
    errors_of : returns standard errors of the fit of a sample, given its problem, engine and
        solution.
    replications, seed, progress : how many samples, their seed, whether to show progress.
    """
    truth, known = solution.free, problem.layout.report(solution.free)
    groups = groups_alike(problem, Memory().load(problem, rows))
    one_optimum = problem.likelihood.concave and not problem.layout.curved

    def draw(rng: Generator) -> DrawnFit:
        try:
            sample = (
                Memory().load(problem, redraw(problem, known.values, rows, rng)).single_threaded()
            )
            found = solver.solve(problem, sample, rng=rng, progress=False)
        except (DataError, RuleError):
            return DrawnFit(Ended.FAILED)
        if not found.converged:
            return DrawnFit(Ended.FAILED)
        solved = as_solved(problem, found)
        if solved.noise.undetermined() is not None:
            # What is held changes what other parameters mean.
            return DrawnFit(Ended.UNDETERMINED)
        ended = Ended.RETURNED
        if found.settled is not None:
            ended = Ended.SIMPLER
        elif not one_optimum:
            ended = _compare(problem, sample, solver, solution, found, rng)
        if groups:
            order = closest_order(solved, groups, found.free, problem, truth)
            found = reordered(solved, found, order)
        free = match_alternatives(solved, (), found.free, truth)
        if not np.array_equal(free, found.free):
            # Standard errors belong to types by their new numbers.
            found = solver.solve(solved, sample, rng=rng, start=free, progress=False)
        report = solved.layout.report(free)
        values, errors = report.values, errors_of(solved, sample, found)
        if found.settled is not None:
            kept = _in_common(solved, known.labels, report.labels)
            values, errors = (np.append(one, np.nan)[kept] for one in (values, errors))
        return DrawnFit(ended, values, errors)

    return map_draws(draw, replications, seed, progress)


def _in_common(solved: Problem, labels: Sequence[Any], found: Sequence[Any]) -> list[int]:
    """Return where each reported parameter is in the report of simpler noise; -1 where it is not.

    The components of one number are not those of another, so they are not in it.
    """
    own = {extra.label for extra in solved.noise.extras(solved.equations.alternatives)}
    places = {label: place for place, label in enumerate(found) if label not in own}
    return [places.get(label, -1) for label in labels]


def _compare(
    problem: Problem, sample: Any, solver: Solver, truth: Solution, found: Solution, rng: Generator
) -> Ended:
    """Say how a search's optimum compares with the one that a climb from the truth finds."""
    try:
        near = solver.solve(problem, sample, rng=rng, start=truth.free, progress=False)
    except SelfSelectError:
        return Ended.ELSEWHERE
    behind = found.loglik - near.loglik
    if np.isnan(behind) or abs(behind) <= SAME:
        return Ended.RETURNED
    return Ended.WORSE if behind < 0.0 else Ended.ELSEWHERE
