"""Newton's method for one optimum, and densities that are not smooth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.likelihoods import row_terms
from selfselect.noises import Independent
from selfselect.problem.batch import Batch
from selfselect.problem.problem import Problem
from selfselect.rules.base import HasBounds
from selfselect.solvers._start import (
    any_deficient,
    gram_matrices,
    least_squares_start,
    refuse_collinear,
    undetermined,
)
from selfselect.solvers.base import Solution, Solver, TraceEntry, require, require_counts
from selfselect.solvers.climb import climb, log_likelihood

Array = NDArray[np.float64]


# Log-densities with a kink, such as the Laplace shape's: the optimum through smooth ones.
#
# At the optimum some rows lie on the kink itself, where Newton's method has nothing to go by. With
# kinks rounded over a width the log-likelihood is smooth. Its optimum is climbed to, the width
# reduced, and so on, each time from the last place: what a width changes of the log-likelihood
# bounds how far its optimum is below the highest there is, and that is nothing in the end.


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
        # A climb that stopped early knows the log-likelihood of rounded kinks only.
        loglik=log_likelihood(problem, engine, found.free),
        information=information,
        trace=tuple(entry for one in steps for entry in one.trace),
        n_passes=sum(one.n_passes for one in steps) + 2,
        starts=steps[0].starts,
    )


def _outer_products(problem: Problem, natural: Array, batch: Batch) -> Array:
    """Return the weighted sum of the rows' scores times themselves, in natural parameters."""
    scores = row_terms(problem, natural, batch).score
    weighted = scores if batch.rows.weights is None else scores * batch.rows.weights[:, None]
    return np.asarray(scores.T @ weighted)


# Newton's method on the exact log-likelihood of the known index.


FEWEST = 1_000
"""Rows of the smallest sample: smaller ones spare no time."""

PER_PARAMETER = 20
"""Rows of a sample by parameter, so that its optimum exists and is close."""

SHARE = 10
"""Rows by row of the sample. Its optimum is then so few standard errors away that a larger sample
spares no pass over all rows."""

CLOSE = 0.5
"""Distance to the optimum of the sample, in its own standard errors, of the last step there. That
step ends much closer; and what a sample says next to nothing of does not run away."""

WORTHWHILE = 8
"""Rows by row of the sample from which it spares more than it costs."""


@dataclass(frozen=True)
class Newton:
    r"""Maximise the exact log-likelihood by Newton's method with step halving.

    For rules with bounds and independent noise the log-likelihood is concave in
    :math:`(w_j/\sigma_j, 1/\sigma_j)` (Olsen 1978), so there is one optimum and Newton finds it
    from anywhere. From some 8,000 rows on it starts from the optimum of a sample of them, from
    where three or four passes over all rows suffice.

    Where alternatives share coefficients but have a scale each, the log-likelihood is concave for
    given scales only. Newton then starts twice, from the optimum with one scale for all and from
    the one with nothing shared, and goes on from the better place.

    Parameters
    ----------
    max_steps : steps over all rows after which it gives up.
    tol : distance to the optimum, in standard errors, at which it stops.
    sample : the most rows of the sample that the first steps are taken on; it has a tenth of all
        rows where that is less.

    Notes
    -----
    Newton converges quadratically: if :math:`e` is the distance to the optimum in standard
    errors, the next one is about :math:`\kappa e^2`, and two distances in a row measure
    :math:`\kappa`. The solver stops as soon as the step in hand is known to end within `tol`; it
    takes that step without a pass to confirm it.
    """

    max_steps: int = 50
    tol: float = 1e-6
    sample: int = 20_000

    requires: ClassVar[tuple[type, ...]] = (HasBounds,)
    concave: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_counts(self, "max_steps", "sample")

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
        if has_kinks(problem):
            return solve_through_smooth(
                self, problem, engine, rng=rng, start=start, progress=progress
            )
        trace: tuple[TraceEntry, ...] = ()
        if start is None:
            start, trace = self._start(problem, engine, rng)
        ascent = climb(
            problem, engine, start, max_steps=self.max_steps, tol=self.tol, progress=progress
        )
        lost = undetermined(problem, engine, ascent.information, free=ascent.free)
        return Solution(
            free=ascent.free,
            loglik=ascent.loglik,
            information=ascent.information,
            ending=lost or ascent.ending,
            trace=(*trace, *ascent.trace),
            n_passes=ascent.n_passes,
            solver=repr(self),
        )

    def _start(
        self, problem: Problem, engine: Engine, rng: Generator
    ) -> tuple[Array, tuple[TraceEntry, ...]]:
        """Climb on a sample where the data is large; else start from least squares."""
        layout = problem.layout
        sampled = max(FEWEST, PER_PARAMETER * layout.n_free, engine.n_rows // SHARE)
        sampled = self.sample if layout.curved else min(sampled, self.sample)
        large = engine.n_rows >= WORTHWHILE * sampled
        part = engine.sample(sampled if large else self.sample, rng)
        grams = gram_matrices(problem, part)
        if any_deficient(problem, grams):
            # Full rank on a sample proves full rank on all rows; only the reverse needs a look.
            grams = gram_matrices(problem, engine)
            refuse_collinear(problem, grams)
            return least_squares_start(problem, grams), ()
        start = least_squares_start(problem, grams)
        if layout.curved:
            return self._curved_start(problem, part, grams), ()
        if not large:
            return start, ()
        ascent = climb(problem, part, start, max_steps=self.max_steps, tol=CLOSE, progress=False)
        if ascent.converged:
            return ascent.free, ascent.trace
        return start, ()

    def _curved_start(self, problem: Problem, part: Engine, grams: list[Array]) -> Array:
        """Return the better of two places: from one scale for all, from nothing shared."""
        equations = problem.equations
        simpler = [
            replace(problem, noise=Independent("common")),
            replace(problem, equations=replace(equations, shared=())),
        ]
        places = [least_squares_start(problem, grams)]
        for simple in simpler:
            if any_deficient(simple, grams):
                continue
            begun = least_squares_start(simple, grams)
            found = climb(simple, part, begun, max_steps=self.max_steps, tol=1e-2, progress=False)
            if found.converged:
                places.append(problem.layout.gather(simple.layout.natural(found.free)))
        ascents = [
            climb(problem, part, place, max_steps=self.max_steps, tol=1e-2, progress=False)
            for place in places[-len(simpler) :]
        ]
        return max(ascents, key=lambda one: one.loglik).free
