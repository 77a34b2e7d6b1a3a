"""EM for an unknown index: the known-index solver with fractional membership."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.problem.problem import Problem
from selfselect.solvers._multistart import FEWEST_STARTS, Index, MultiStart
from selfselect.solvers._search import Place, SearchSpace
from selfselect.solvers.base import require_counts
from selfselect.solvers.climb import Climb, climb, information_at

__all__ = ["EM"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class EM(MultiStart):
    """Maximise the likelihood of the unknown index by expectation and maximisation.

    The E-step finds each row's memberships. The M-step is k known-index problems in which a row
    is uncensored with its membership and censored with the rest; one Newton step on them raises
    the likelihood as the full M-step would. EM is stable and slow: it needs no exact Hessian, but
    many more steps than `MaximumLikelihood` if alternatives are hard to distinguish.

    Parameters
    ----------
    starts : how many; None for 8, however few the rows: EM climbs slowly. See `MultiStart`.
    sample, floor, start : see `MultiStart`.
    max_steps : EM steps, on the sample and on all rows.
    tol : distance to the optimum at which it stops, in units of the standard errors that complete
        data would give.
    """

    max_steps: int = 2_000
    tol: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        require_counts(self, "max_steps")

    @staticmethod
    def default_starts(n_rows: int, index: Index) -> int:
        del n_rows, index
        return FEWEST_STARTS

    def climb_on_sample(self, space: SearchSpace, part: Engine, begun: list[Place]) -> list[Place]:
        return [self._climb_on_sample(space, part, place) for place in begun]

    def _climb_on_sample(self, space: SearchSpace, part: Engine, begun: Place) -> Place:
        ascent = climb(
            space.problem,
            part,
            space.free(begun.coordinates),
            max_steps=self.max_steps,
            tol=1e-2,
            progress=False,
            curvature="complete",
        )
        return Place(
            space.locate(ascent.free), ascent.loglik, begun.n_evaluations + ascent.n_passes
        )

    def polish(
        self, problem: Problem, engine: Engine, start: Array, progress: bool | None
    ) -> Climb:
        ascent = climb(
            problem,
            engine,
            start,
            max_steps=self.max_steps,
            tol=self.tol,
            progress=progress,
            curvature="complete",
        )
        return replace(ascent, information=information_at(problem, engine, ascent.free))
