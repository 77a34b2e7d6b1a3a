"""Rows in memory, summed chunk by chunk on all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.engines.base import ROWS_AT_ONCE, Sum, groups_evenly, spread_evenly, times_drawn
from selfselect.kernels.compiled import extension, warn_where_slow
from selfselect.likelihoods import Backend, Batch
from selfselect.problem.problem import Problem
from selfselect.threads import check_threads, parallel_map, shared_map

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

CHUNK: dict[Backend, int] = {"numpy": 8_192, "fused": 32_768, "joint": 1_024}
"""The most rows per task. NumPy's temporaries should stay in cache; a compiled task should outweigh
the cost of handing it to a thread. Up to so many rows are one task, and threads share what is more.
Chunks depend on the data alone, never on the number of cores, so that sums are added in the same
order everywhere."""

PIECES = 8
"""Chunks that threads share where there are few rows: as many as keep them equally busy, each at
least a quarter of the largest."""


def backend_for(problem: Problem, n_rows: int) -> Backend:
    """Say which kernels serve a problem: compiled ones wherever there are any, at every size."""
    likelihood = problem.likelihood
    warn_where_slow(n_rows * problem.equations.n_alternatives)
    if likelihood.compiled and extension() is not None:
        return "fused"
    return "joint" if likelihood.joint else "numpy"


def ungrouped(problem: Problem, rows: Rows) -> Rows:
    """Forget whose rows they are where the noise of a problem does not ask."""
    if problem.grouped or rows.groups is None:
        return rows
    return replace(rows, groups=None)


@dataclass(frozen=True)
class Memory:
    """Hold all rows as arrays in this process: the default.

    Parameters
    ----------
    threads : how many threads a fit uses; None for what `selfselect.set_threads` says.
    """

    threads: int | None = None

    def __post_init__(self) -> None:
        check_threads(self.threads)

    def open(self, data: Any) -> None:
        """Leave tables as they are: they are read at once."""

    def load(self, problem: Problem, rows: Rows) -> RowsInMemory:
        """Observe all rows once and keep them."""
        backend = backend_for(problem, len(rows))
        plain = ungrouped(problem, rows)
        batch = Batch(plain, problem.likelihood.observe(plain), backend)
        return RowsInMemory(batch, self.threads, rows.groups)


@dataclass(frozen=True, eq=False)
class RowsInMemory:
    """All rows as arrays, summed over in chunks.

    Attributes
    ----------
    batch : all rows with what was observed in them.
    n_threads : how many threads share the chunks; 1 where the caller runs several fits at once,
        None for the default.
    groups : (n,) number of the person each row belongs to, also where the noise of the problem
        does not ask, so that other models of the same rows can; None where there are none.
    """

    batch: Batch
    n_threads: int | None = None
    groups: Indices | None = None

    @property
    def n_rows(self) -> int:
        return len(self.batch)

    @property
    def rows(self) -> Rows:
        rows = self.batch.rows
        return rows if self.groups is None else replace(rows, groups=self.groups)

    @property
    def holds_rows(self) -> bool:
        return True

    @property
    def rows_at_once(self) -> int:
        return ROWS_AT_ONCE

    @cached_property
    def weight_total(self) -> float:
        weights = self.rows.weights
        return float(self.n_rows if weights is None else weights.sum())

    @cached_property
    def _order(self) -> Indices | None:
        """Where the rows of each person stand together; None where they do so already."""
        groups = self.batch.rows.groups
        if groups is None or (np.diff(groups) >= 0).all():
            return None
        return np.argsort(groups, kind="stable")

    @cached_property
    def _chunks(self) -> tuple[Batch, ...]:
        """The batches, the same in every pass: what is made of their rows once can stay.

        The rows of a person are in one batch.
        """
        step = CHUNK[self.batch.backend]
        pieces = -(-self.n_rows // step)
        if pieces > 1:
            pieces = max(pieces, min(PIECES, 4 * self.n_rows // step))
        whole = self.batch if self._order is None else self.batch.take(self._order)
        starts = np.arange(max(pieces, 1)) * self.n_rows // max(pieces, 1)
        if whole.rows.groups is not None:
            borders = np.flatnonzero(np.diff(whole.rows.groups, prepend=-1))
            starts = np.unique(borders[np.searchsorted(borders, starts, side="right") - 1])
        ends = np.append(starts[1:], self.n_rows)
        return tuple(
            whole.take(slice(int(start), int(end))) for start, end in zip(starts, ends, strict=True)
        )

    def _run(self, task: Callable[[Batch], Any]) -> Iterator[Any]:
        yield from shared_map(task, self._chunks, self.n_threads)

    def sum(self, task: Callable[[Batch], Sum]) -> Sum:
        total: Sum = reduce(add, self._run(task))
        return total

    def collect(self, task: Callable[[Batch], Array]) -> Array:
        joined = np.concatenate(list(self._run(task)))
        if self._order is None:
            return joined
        collected = np.empty_like(joined)
        collected[self._order] = joined
        return collected

    def map(self, task: Callable[..., Any], *items: Iterable[Any]) -> Iterator[Any]:
        yield from parallel_map(task, *items, n_threads=self.n_threads)

    def sample(self, n_rows: int, rng: Generator) -> RowsInMemory:
        if n_rows >= self.n_rows:
            return self
        groups = self.batch.rows.groups
        if groups is None:
            return self.take(spread_evenly(self.n_rows, n_rows, rng))
        return self.take(groups_evenly(groups, n_rows, rng))

    def recorded(self) -> RowsInMemory:
        outcome = self.rows.outcome
        assert outcome is not None
        lacking = np.isnan(outcome)
        if not lacking.any():
            return self
        return self.take(np.flatnonzero(~lacking))

    def take(self, which: Indices) -> RowsInMemory:
        """Keep the rows `which`."""
        groups = None if self.groups is None else self.groups[which]
        return replace(self, batch=self.batch.take(which), groups=groups)

    def reweighted(self, factor: Array) -> RowsInMemory:
        return replace(self, batch=replace(self.batch, rows=self.batch.rows.reweighted(factor)))

    def resampled(self, rng: Generator, *, repeated: bool, n_clusters: int) -> RowsInMemory:
        return self.reweighted(
            times_drawn(self.rows, rng, repeated=repeated, n_clusters=n_clusters)
        )

    def single_threaded(self) -> RowsInMemory:
        """Return the same rows on one thread, for callers that run several fits at once."""
        return replace(self, n_threads=1)
