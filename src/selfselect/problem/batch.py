"""Batches of rows, and evaluations of them. Evaluation + evaluation = evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.plain import archived
from selfselect.problem.observation import Observation

__all__ = ["Backend", "Batch", "Evaluation", "Parts"]

Array = NDArray[np.float64]
Backend = Literal["numpy", "fused", "joint"]


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows with what was observed in them: the unit an engine hands to a task.

    `start` is the position of the first row among those of the engine: what a task keeps from one
    pass to the next, such as Markov chains, it keeps by row.
    """

    rows: Rows
    observation: Observation
    backend: Backend = "numpy"
    start: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def memory(self) -> dict[Any, Any]:
        """What was made of these rows once, for passes to come."""
        return {}

    def take(self, which: slice | NDArray[np.intp]) -> Batch:
        """Keep the rows `which`; a slice makes views, not copies."""
        first = which.start or 0 if isinstance(which, slice) else 0
        return Batch(
            self.rows.take(which), self.observation.take(which), self.backend, self.start + first
        )


@archived("evaluation")
@dataclass(frozen=True, eq=False)
class Evaluation:
    """The log-likelihood of some rows, its score and Hessian in the natural parameters."""

    loglik: float
    score: Array
    hessian: Array

    def __add__(self, other: Evaluation) -> Evaluation:
        return Evaluation(
            self.loglik + other.loglik, self.score + other.score, self.hessian + other.hessian
        )


@archived("parts")
class Parts(tuple[Any, ...]):
    """Several sums carried through one pass; adding adds part by part."""

    def __add__(self, other: Any) -> Parts:
        return Parts(a + b for a, b in zip(self, other, strict=True))

    def plain(self) -> dict[str, Any]:
        """Return what a file holds of it."""
        return {"parts": tuple(self)}

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> Parts:
        """Rebuild it from a file."""
        return cls(values["parts"])
