"""Log-densities with a kink, such as the Laplace shape's: the optimum through smooth ones.

At the optimum some rows lie on the kink itself, where Newton's method has nothing to go by. With
kinks rounded over a width the log-likelihood is smooth. Its optimum is climbed to, the width
reduced, and so on, each time from the last place: what a width changes of the log-likelihood
bounds how far its optimum is below the highest there is, and that is nothing in the end.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.likelihoods import row_terms
from selfselect.problem.batch import Batch
from selfselect.problem.problem import Problem
from selfselect.solvers.base import Solution, Solver

__all__ = ["has_kinks", "solve_through_smooth"]

Array = NDArray[np.float64]

WIDTHS = tuple(10.0 ** (-0.5 * power) for power in range(19))
"""Widths over which kinks are rounded, one after the other, in scales of the noise."""


def has_kinks(problem: Problem) -> bool:
    """Say whether the log-density of the noise has a kink."""
    return not problem.noise.margin.smooth


def solve_through_smooth(
    solver: Solver,
    problem: Problem,
    engine: Engine,
    *,
    rng: Generator,
    start: Array | None,
    progress: bool | None,
) -> Solution:
    """Solve a problem with kinks by problems without.

    The information is the outer product of the rows' scores: second derivatives are zero almost
    everywhere.
    """
    steps: list[Solution] = []
    for width, narrower in zip(WIDTHS, (*WIDTHS[1:], 0.0), strict=True):
        smooth = replace(problem, noise=problem.noise.softened(width))
        found = solver.solve(smooth, engine, rng=rng, start=start, progress=progress)
        steps.append(found)
        if not found.converged:
            break
        start = found.free
        if len(steps) > 1:
            # Where a row lies on the kink, its distance from it falls in proportion to the width.
            before = steps[-2].free
            start = start + (start - before) * (width - narrower) / (WIDTHS[len(steps) - 2] - width)
    outer = engine.sum(partial(_outer_products, problem, problem.layout.natural(found.free)))
    information = problem.layout.pull_back_matrix(outer, found.free)
    if not np.isfinite(found.information).all():
        information = found.information
    return replace(
        found,
        information=information,
        trace=tuple(entry for one in steps for entry in one.trace),
        n_passes=sum(one.n_passes for one in steps) + 1,
        starts=steps[0].starts,
    )


def _outer_products(problem: Problem, natural: Array, batch: Batch) -> Array:
    """Return the weighted sum of the rows' scores times themselves, in natural parameters."""
    scores = row_terms(problem, natural, batch).score
    weighted = scores if batch.rows.weights is None else scores * batch.rows.weights[:, None]
    return np.asarray(scores.T @ weighted)
