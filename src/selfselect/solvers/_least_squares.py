"""One least-squares fit for all alternatives, where data cannot tell them apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.problem.problem import Problem
from selfselect.solvers.base import Solution
from selfselect.solvers.climb import log_likelihood
from selfselect.solvers.status import Ending, Status

__all__ = ["SharedLeastSquares"]

Array = NDArray[np.float64]

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
