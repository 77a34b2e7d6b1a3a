"""Maximum likelihood of a binary outcome that a selection equation selects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.errors import DataError
from selfselect.problem.problem import Problem
from selfselect.solvers._second_step import least_squares
from selfselect.solvers.climb import Climb, climb
from selfselect.solvers.selection_search import (
    FLAT,
    GRID,
    SelectionSearch,
    correlation_places,
    refuse_separation,
)

__all__ = ["BinarySearch"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class BinarySearch(SelectionSearch):
    """Climb from two probits, and from correlations on a grid.

    Parameters
    ----------
    start : ``"search"``, or ``"two-step"`` to climb from two probits without correlation alone.
    max_steps : steps of a climb after which it gives up.
    tol : distance to the optimum, in standard errors, at which a climb stops.
    """

    def _by_sample(
        self, problem: Problem, engine: Engine, part: Engine, progress: bool | None
    ) -> tuple[Climb, dict[str, Climb]]:
        """Return the same, with climbs on all rows only from the optima of a sample of them."""
        first, found = self._by_starts(problem, part)
        held = _correlation_held(problem)
        independent = self._climb(problem, engine, first.free, held, progress)
        _refuse_perfect(problem, engine, independent)
        reached: dict[float, Climb] = {}
        for end in found.values():
            if round(end.loglik, 3) not in reached:
                reached[round(end.loglik, 3)] = self._climb(
                    problem, engine, end.free, progress=progress
                )
        return independent, {name: reached[round(end.loglik, 3)] for name, end in found.items()}

    def _climb(
        self,
        problem: Problem,
        engine: Engine,
        place: Array,
        held: Mask | None = None,
        progress: bool | None = False,
    ) -> Climb:
        return climb(
            problem, engine, place, max_steps=self.max_steps, tol=self.tol, progress=progress,
            held=held,
        )  # fmt: skip

    def _by_starts(self, problem: Problem, engine: Engine) -> tuple[Climb, dict[str, Climb]]:
        """Return the fit without correlation, and where each start leads."""
        least_squares(problem, engine)
        held = _correlation_held(problem)
        independent = self._climb(problem, engine, np.zeros(problem.layout.n_free), held)
        _refuse_perfect(problem, engine, independent)
        ends = {"two probits": self._climb(problem, engine, independent.free)}
        for rho in GRID if self.start == "search" else ():
            if rho:
                place = independent.free.copy()
                place[held] = np.arctanh(rho)
                near = self._climb(problem, engine, place, held)
                ends[f"correlation {rho:g}"] = self._climb(problem, engine, near.free)
        return independent, ends


def _correlation_held(problem: Problem) -> Mask:
    """Say which parameter is the correlation, for climbs that hold it."""
    held = np.zeros(problem.layout.n_free, dtype=bool)
    held[correlation_places(problem)] = True
    return held


def _refuse_perfect(problem: Problem, engine: Engine, probits: Climb) -> None:
    """Refuse covariates that predict selection, or the outcome, perfectly."""
    refuse_separation(problem, engine, probits)
    (equation,) = problem.equations.each
    n_terms = len(equation.terms)
    own = probits.information[:n_terms, :n_terms] / engine.weight_total
    if np.linalg.eigvalsh(own)[0] <= FLAT:
        size = np.abs(probits.free[:n_terms]) * [column > 0 for column in equation.columns]
        raise DataError(
            f"The covariates predict the outcome perfectly in some or all rows, by "
            f"{equation.terms[int(np.argmax(size))]!r} above all: its coefficient would be "
            "infinite. Leave that covariate out, or the rows it decides."
        )
