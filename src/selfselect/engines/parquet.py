"""Rows in files, read and summed piece by piece: data may be larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.files import Files, open_files
from selfselect.data.rows import Rows
from selfselect.data.stream import RowStream
from selfselect.engines.base import ROWS_AT_ONCE, Sum, draw_counts
from selfselect.engines.memory import RowsInMemory, backend_for, ungrouped
from selfselect.errors import UnsupportedError
from selfselect.likelihoods import Batch
from selfselect.problem.problem import Problem
from selfselect.threads import check_threads, parallel_map

Array = NDArray[np.float64]
Change = Callable[[Rows, int, int], Rows]
"""What becomes of the rows of a piece, given the position of the first and the piece's number."""


@dataclass(frozen=True)
class Parquet:
    """Read rows from files in every pass: Parquet, CSV, Arrow or Feather.

    Parameters
    ----------
    batch_rows : how many rows are read at a time; memory grows with it, not with the data. None
        takes 131,072, and fewer where columns are many.
    encoding : of CSV files, such as ``"latin-1"``; None for UTF-8.
    threads : how many threads a fit uses; None for what `selfselect.set_threads` says.
    """

    batch_rows: int | None = None
    encoding: str | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        check_threads(self.threads)

    def open(self, data: Any) -> Files:
        """Find the files."""
        return open_files(data, batch_rows=self.batch_rows, encoding=self.encoding)

    def load(self, problem: Problem, rows: RowStream) -> RowsInPieces:
        """Take hold of a stream of rows; the next pass reads them."""
        return RowsInPieces(problem, rows, self.threads)


@dataclass(frozen=True, eq=False)
class RowsInPieces:
    """Rows that are read, coded and summed piece by piece.

    Attributes
    ----------
    problem : says what is observed in a row.
    stream : the rows.
    n_threads : how many pieces are worked on at a time; None for the default.
    changes : what is done to the rows of every piece before they are summed over.
    """

    problem: Problem
    stream: RowStream
    n_threads: int | None
    changes: tuple[Change, ...] = ()

    @property
    def n_rows(self) -> int:
        if _only_recorded in self.changes:
            return self.stream.tally.n_recorded
        return self.stream.n_rows

    @cached_property
    def weight_total(self) -> float:
        if not self.changes:
            return self.stream.tally.weight_total
        return float(self.sum(_weight))

    @property
    def holds_rows(self) -> bool:
        return False

    @property
    def rows_at_once(self) -> int:
        return ROWS_AT_ONCE

    @property
    def rows(self) -> Rows:
        raise UnsupportedError(
            f"The rows of this fit are read from {self.stream.source.title} piece by piece and "
            "are never all in memory, as this needs. Give new rows, for example a sample of them, "
            "or fit with engine=engines.Memory() where they fit."
        )

    def _run(self, use: Callable[[RowsInMemory], Any]) -> Iterator[Any]:
        backend = backend_for(self.problem, self.n_rows)

        def task(rows: Rows, start: int, number: int) -> Any:
            rows = ungrouped(self.problem, rows)
            for change in self.changes:
                rows = change(rows, start, number)
            batch = Batch(rows, self.problem.likelihood.observe(rows), backend, start)
            return use(RowsInMemory(batch, 1))

        yield from self.stream.map(task, n_threads=self.n_threads, what="Pass")

    def sum(self, task: Callable[[Batch], Sum]) -> Sum:
        total: Sum = reduce(add, self._run(lambda held: held.sum(task)))
        return total

    def collect(self, task: Callable[[Batch], Array]) -> Array:
        return np.concatenate(list(self._run(lambda held: held.collect(task))))

    def map(self, task: Callable[..., Any], *items: Iterable[Any]) -> Iterator[Any]:
        yield from parallel_map(task, *items, n_threads=self.n_threads)

    def sample(self, n_rows: int, rng: Generator) -> RowsInMemory:
        rows = ungrouped(self.problem, self.stream.sample)
        # What is drawn again with replacement is not: solvers only begin on a sample.
        if _only_recorded in self.changes:
            rows = _only_recorded(rows, 0, 0)
        held = RowsInMemory(
            Batch(
                rows, self.problem.likelihood.observe(rows), backend_for(self.problem, len(rows))
            ),
            self.n_threads,
        )
        return held.sample(n_rows, rng)

    def recorded(self) -> RowsInPieces:
        if self.stream.tally.n_recorded == self.stream.n_rows:
            return self
        return replace(self, changes=(*self.changes, _only_recorded))

    def single_threaded(self) -> RowsInPieces:
        return replace(self, n_threads=1, stream=replace(self.stream, progress=False))

    def reweighted(self, factor: Array) -> RowsInPieces:
        return replace(self, changes=(*self.changes, partial(_times, factor)))

    def resampled(self, rng: Generator, *, repeated: bool, n_clusters: int) -> RowsInPieces:
        if n_clusters:
            change: Change = partial(_times_clusters, draw_counts(rng, n_clusters))
        else:
            change = partial(_times_poisson, int(rng.integers(2**63)), repeated)
        return replace(self, changes=(*self.changes, change))


def _weight(batch: Batch) -> float:
    weights = batch.rows.weights
    return float(len(batch) if weights is None else weights.sum())


def _only_recorded(rows: Rows, start: int, number: int) -> Rows:
    del start, number
    assert rows.outcome is not None
    return rows.take(np.flatnonzero(~np.isnan(rows.outcome)))


def _times(factor: Array, rows: Rows, start: int, number: int) -> Rows:
    del number
    return rows.reweighted(factor[start : start + len(rows)])


def _times_clusters(counts: Array, rows: Rows, start: int, number: int) -> Rows:
    del start, number
    assert rows.clusters is not None
    return rows.reweighted(counts[rows.clusters])


def _times_poisson(seed: int, repeated: bool, rows: Rows, start: int, number: int) -> Rows:
    """Draw how often each row is in the sample on its own: no draw needs to know all rows.

    The size of the sample then varies a little, which does not matter where rows are many.
    """
    del start
    rng = np.random.default_rng([seed, number])
    if repeated and rows.weights is not None:
        drawn = rng.poisson(rows.weights)
        return rows.reweighted(drawn / np.where(rows.weights > 0, rows.weights, 1.0))
    return rows.reweighted(rng.poisson(size=len(rows)).astype(float))
