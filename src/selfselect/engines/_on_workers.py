"""What runs on a worker: partitions are coded and kept, and sums over them are done."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from selfselect.data.stream import RowStream
from selfselect.engines._partitions import as_piece
from selfselect.engines._tree import merge
from selfselect.engines.memory import RowsInMemory, ungrouped
from selfselect.engines.parquet import Change
from selfselect.likelihoods import Batch
from selfselect.problem.problem import Problem
from selfselect.threads import one_blas_thread, parallel_map

__all__ = [
    "Asked",
    "Coder",
    "Group",
    "code_group",
    "collect_groups",
    "is_there",
    "itself",
    "run_alone",
    "sum_groups",
]


@dataclass(frozen=True, eq=False)
class Group:
    """Partitions that follow each other, coded, as a worker keeps them."""

    number: int
    pieces: tuple[tuple[int, Batch], ...]

    def __sizeof__(self) -> int:
        """Tell Dask how much memory this takes, so that it is not moved about lightly."""
        return sum(_bytes(batch.rows) + _bytes(batch.observation) for _, batch in self.pieces)


def _bytes(held: Any) -> int:
    arrays = [value for value in vars(held).values() if isinstance(value, np.ndarray)]
    return sum(array.nbytes for array in arrays)


@dataclass(frozen=True, eq=False)
class Asked:
    """A task for every batch of rows, and what is done to the rows first."""

    task: Callable[[Batch], Any]
    problem: Problem | None
    changes: tuple[Change, ...]
    backend: Any

    def batches(self, group: Group, n_threads: int) -> Iterator[tuple[int, RowsInMemory]]:
        """Yield the rows of each partition with its number."""
        for number, batch in group.pieces:
            rows, observation = batch.rows, batch.observation
            for change in self.changes:
                rows = change(rows, batch.start, number)
            if self.problem is not None:
                observation = self.problem.likelihood.observe(rows)
            changed = Batch(rows, observation, self.backend, batch.start)
            yield number, RowsInMemory(changed, n_threads)


@dataclass(frozen=True, eq=False)
class Coder:
    """What a worker needs to code partitions."""

    problem: Problem
    stream: RowStream
    kinds: dict[str, str]
    backend: Any


def code_group(coder: Coder, number: int, named: list[tuple[int, str]], frames: list[Any]) -> Group:
    """Code the partitions of a group, given with their numbers and names."""
    pieces = []
    for (at, name), frame in zip(named, frames, strict=True):
        rows, start = coder.stream.code(as_piece(coder.kinds, at, name, frame))
        rows = ungrouped(coder.problem, rows)
        pieces.append(
            (at, Batch(rows, coder.problem.likelihood.observe(rows), coder.backend, start))
        )
    return Group(number, tuple(pieces))


def itself(message: bytes) -> bytes:
    """Keep a message on a worker for tasks to come."""
    return message


def run_alone(message: bytes, *item: Any) -> Any:
    """Do a task that was sent before on one item."""
    with one_blas_thread():
        return pickle.loads(message)(*item)


def is_there(group: Group) -> bool:
    """Say that a group is coded."""
    return bool(group.pieces)


def sum_groups(message: bytes, n_groups: int, groups: list[Group]) -> bytes:
    """Sum over the rows of some groups; runs on a worker."""
    asked: Asked = pickle.loads(message)
    outer, inner = _threads(len(groups))
    with one_blas_thread():
        sums = parallel_map(partial(_sum_group, asked, inner), groups, n_threads=outer)
        leaves = {group.number: total for group, total in zip(groups, sums, strict=True)}
        return pickle.dumps(merge(leaves, n_groups))


def _sum_group(asked: Asked, n_threads: int, group: Group) -> Any:
    return reduce(add, (held.sum(asked.task) for _, held in asked.batches(group, n_threads)))


def collect_groups(message: bytes, n_groups: int, groups: list[Group]) -> bytes:
    """Collect what a task says of each row of some groups; runs on a worker."""
    del n_groups
    asked: Asked = pickle.loads(message)
    _, inner = _threads(1)
    with one_blas_thread():
        found = [
            (number, held.collect(asked.task))
            for group in groups
            for number, held in asked.batches(group, inner)
        ]
    return pickle.dumps(found)


def _threads(n_groups: int) -> tuple[int, int]:
    """Say how many groups are summed at once, and with how many threads each."""
    from distributed import get_worker

    n_threads = get_worker().state.nthreads
    return (n_threads, 1) if n_groups >= n_threads else (1, n_threads)
