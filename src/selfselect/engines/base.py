"""The contract of engines: where rows live and how sums over them are done.

A solver, a covariance or a test never loops over rows. It hands the engine a task, a function of
a batch whose results can be added, and gets the sum back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.problem.batch import Batch, Parts

__all__ = ["Addable", "Engine", "Parts"]

Array = NDArray[np.float64]


class Addable(Protocol):
    """Anything with a sum."""

    def __add__(self, other: Any) -> Any: ...


Sum = TypeVar("Sum", bound=Addable)


class Engine(Protocol):
    """Anything that holds rows and sums over them."""

    @property
    def n_rows(self) -> int:
        """How many rows there are."""

    @property
    def rows(self) -> Rows:
        """All rows, where the engine can hold them."""

    @property
    def weight_total(self) -> float:
        """The sum of the rows' weights; their number where they have none."""

    def sum(self, task: Callable[[Batch], Sum]) -> Sum:
        """Add up what `task` returns for every batch of rows."""

    def collect(self, task: Callable[[Batch], Array]) -> Array:
        """Join what `task` returns per row, in the order of the rows."""

    def sample(self, n_rows: int, rng: Generator) -> Self:
        """Return an engine over `n_rows` rows spread evenly at random over all rows."""

    def recorded(self) -> Self:
        """Return an engine over the rows whose outcome was recorded."""

    def single_threaded(self) -> Self:
        """Return an engine over the same rows for callers that run several fits at once."""

    def reweighted(self, factor: Array) -> Self:
        """Return an engine over the same rows with weights multiplied by `factor` (n,)."""
