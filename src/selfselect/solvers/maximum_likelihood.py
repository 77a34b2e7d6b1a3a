"""Maximum likelihood for an unknown index: quasi-Newton search, Newton polish."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.problem.problem import Problem
from selfselect.solvers._multistart import MultiStart
from selfselect.solvers._search import Place, SearchSpace
from selfselect.solvers.base import require_counts
from selfselect.solvers.climb import Climb, approach, climb, information_at

__all__ = ["MaximumLikelihood"]

Array = NDArray[np.float64]

SHARE_POLISHED = 100
"""Of so many rows one is looked at before all are: its optimum is ten standard errors of all rows
away, and its information right to a few percent, however many there are."""


@dataclass(frozen=True)
class MaximumLikelihood(MultiStart):
    """Maximise the exact log-likelihood of the unknown index from several starts.

    The log-likelihood has several optima. Each start climbs by L-BFGS, on a sample of rows where
    there are many. The best distinct optima are then climbed on all rows by Newton's method with
    the exact Hessian; the one with the highest log-likelihood on all rows is the answer.

    Parameters
    ----------
    starts, sample, floor, start : see `MultiStart`.
    search_steps : quasi-Newton steps per start.
    max_steps : Newton steps on all rows.
    tol : distance to the optimum, in standard errors, at which Newton stops.
    """

    search_steps: int = 500
    max_steps: int = 50
    tol: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        require_counts(self, "search_steps", "max_steps")

    def climb_on_sample(self, space: SearchSpace, part: Engine, begun: list[Place]) -> list[Place]:
        starts = np.array([place.coordinates for place in begun])
        ended = space.climb(part, starts, max_steps=self.search_steps)
        return [
            replace(end, n_evaluations=start.n_evaluations + end.n_evaluations)
            for start, end in zip(begun, ended, strict=True)
        ]

    def polish(
        self, problem: Problem, engine: Engine, start: Array, progress: bool | None
    ) -> Climb:
        part = engine.sample(
            max(self.sample, engine.n_rows // SHARE_POLISHED), np.random.default_rng(0)
        )
        if engine.n_rows > 2 * part.n_rows:
            share = engine.n_rows / part.n_rows
            if part.n_rows > self.sample:
                ascent = climb(
                    problem, part, start, max_steps=self.max_steps, tol=0.1, progress=False
                )
                start = ascent.free if ascent.converged else start
            information = share * information_at(problem, part, start)
            start = approach(
                problem, engine, start, information, tol=0.1 * self.tol, learn=True, ahead=True
            )
        return climb(
            problem, engine, start, max_steps=self.max_steps, tol=self.tol, progress=progress
        )
