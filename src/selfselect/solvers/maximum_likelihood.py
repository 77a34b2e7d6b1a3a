"""Several optima: by maximum likelihood, by EM, and least squares beside them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.problem.problem import Problem
from selfselect.solvers._multistart import FEWEST_STARTS, Index, MultiStart
from selfselect.solvers._search import Place, SearchSpace
from selfselect.solvers.base import Ending, Solution, Status, require_counts
from selfselect.solvers.climb import Climb, approach, climb, information_at, log_likelihood

Array = NDArray[np.float64]


# Maximum likelihood for an unknown index: quasi-Newton search, Newton polish.


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


# EM for an unknown index: the known-index solver with fractional membership.


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


# One least-squares fit for all alternatives, where data cannot tell them apart.


SMALLEST_SCALE = 1e-6
"""Scale of a fit that passes through every row, as a fraction of the outcome's spread."""


@dataclass(frozen=True)
class SharedLeastSquares:
    """Give every alternative the shortest least-squares coefficients, and say so.

    With no more rows than coefficients nothing tells alternatives apart. This is the answer of
    linear models that must give one; it never counts as converged.
    """

    requires: ClassVar[tuple[type, ...]] = ()
    concave: ClassVar[bool] = False

    def solve(
        self,
        problem: Problem,
        engine: Engine,
        *,
        rng: Generator,
        start: Array | None = None,
        progress: bool | None = None,
    ) -> Solution:
        del rng, start, progress
        rows, layout, equation = engine.rows, problem.layout, problem.equations.each[0]
        assert rows.outcome is not None
        weights = np.ones(len(rows)) if rows.weights is None else rows.weights
        coefficients, spread = _shortest(
            rows.covariates, rows.outcome, weights, centred=equation.has_intercept
        )
        own = layout.scales is None and not layout.common
        each = np.append(coefficients, spread) if own else coefficients
        shared = [spread] if layout.common else []
        free = layout.read(np.concatenate([np.tile(each, len(layout.sizes)), shared]))
        return Solution(
            free=free,
            loglik=log_likelihood(problem, engine, free),
            information=np.full((len(free), len(free)), np.nan),
            ending=Ending(
                Status.SAME_FOR_ALL, {"rows": len(rows), "alternatives": len(layout.sizes)}
            ),
            trace=(),
            n_passes=1,
            solver=repr(self),
        )


def _shortest(
    covariates: Array, outcome: Array, weights: Array, *, centred: bool
) -> tuple[Array, float]:
    """Return the least-squares coefficients of smallest norm, constant first, and the spread."""
    share = weights / weights.sum()
    means = share @ covariates if centred else np.zeros(covariates.shape[1])
    level = float(share @ outcome) if centred else 0.0
    root = np.sqrt(share)
    slopes = np.linalg.lstsq(
        root[:, None] * (covariates - means), root * (outcome - level), rcond=None
    )[0]
    constant = [level - float(means @ slopes)] if centred else []
    left_over = outcome - level - (covariates - means) @ slopes
    largest = np.sqrt(share @ (outcome - level) ** 2)
    spread = max(float(np.sqrt(share @ left_over**2)), SMALLEST_SCALE * float(largest))
    return np.append(constant, slopes), spread
