"""Partitions on a cluster: what runs on workers, sums of fixed shape, and the engine."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from selfselect.data.files import are_files, open_files
from selfselect.data.rows import Rows
from selfselect.data.stream import RowStream
from selfselect.engines._cluster import (
    IdleError,
    cancel,
    compute,
    find_client,
    gather,
    home_of,
    submit,
    tie,
    workers_of,
)
from selfselect.engines._partitions import FilesOnCluster, FrameOnCluster, Partition, as_piece
from selfselect.engines.base import Sum
from selfselect.engines.choose import is_dask_frame
from selfselect.engines.memory import RowsInMemory, backend_for, ungrouped
from selfselect.engines.parquet import Change, RowsInPieces
from selfselect.errors import OptionError, UnsupportedError
from selfselect.likelihoods import Batch
from selfselect.problem.problem import Problem
from selfselect.progress import progress_bar
from selfselect.threads import one_blas_thread, parallel_map

# Sums as a tree of fixed shape: the same to the last bit, whoever adds which part of it.


Span = tuple[int, int]
"""Leaves from the first number to before the second."""


def merge(leaves: Mapping[int, Any], n_leaves: int) -> dict[Span, Any]:
    """Add up every branch of the tree of which all leaves are given; return the largest ones.

    Parameters
    ----------
    leaves : by number, the leaves that are at hand.
    n_leaves : how many the whole tree has.
    """
    found: dict[Span, Any] = {}

    def visit(low: int, high: int) -> Any:
        if high - low == 1:
            return leaves.get(low)
        middle = _middle(low, high)
        left, right = visit(low, middle), visit(middle, high)
        if left is not None and right is not None:
            return left + right
        for span, value in (((low, middle), left), ((middle, high), right)):
            if value is not None:
                found[span] = value
        return None

    whole = visit(0, n_leaves)
    return found if whole is None else {(0, n_leaves): whole}


def add_up(branches: Mapping[Span, Any], n_leaves: int) -> Any:
    """Add branches that together have all leaves."""

    def visit(low: int, high: int) -> Any:
        if (low, high) in branches:
            return branches[low, high]
        middle = _middle(low, high)
        return visit(low, middle) + visit(middle, high)

    return visit(0, n_leaves)


def _middle(low: int, high: int) -> int:
    """Cut where the left part is the largest power of two: it stays when leaves are added."""
    half = 1 << ((high - low - 1).bit_length() - 1)
    return low + half


# What runs on a worker: partitions are coded and kept, and sums over them are done.


@dataclass(frozen=True, eq=False)
class PartitionGroup:
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
class TaskAsked:
    """A task for every batch of rows, and what is done to the rows first."""

    task: Callable[[Batch], Any]
    problem: Problem | None
    changes: tuple[Change, ...]
    backend: Any

    def batches(self, group: PartitionGroup, n_threads: int) -> Iterator[tuple[int, RowsInMemory]]:
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
class PartitionCoder:
    """What a worker needs to code partitions."""

    problem: Problem
    stream: RowStream
    kinds: dict[str, str]
    backend: Any


def code_group(
    coder: PartitionCoder, number: int, named: list[tuple[int, str]], frames: list[Any]
) -> PartitionGroup:
    """Code the partitions of a group, given with their numbers and names."""
    pieces = []
    for (at, name), frame in zip(named, frames, strict=True):
        rows, start = coder.stream.code(as_piece(coder.kinds, at, name, frame))
        rows = ungrouped(coder.problem, rows)
        pieces.append(
            (at, Batch(rows, coder.problem.likelihood.observe(rows), coder.backend, start))
        )
    return PartitionGroup(number, tuple(pieces))


def itself(message: bytes) -> bytes:
    """Keep a message on a worker for tasks to come."""
    return message


def run_alone(message: bytes, *item: Any) -> Any:
    """Do a task that was sent before on one item."""
    with one_blas_thread():
        return pickle.loads(message)(*item)


def is_there(group: PartitionGroup) -> bool:
    """Say that a group is coded."""
    return bool(group.pieces)


def sum_groups(message: bytes, n_groups: int, groups: list[PartitionGroup]) -> bytes:
    """Sum over the rows of some groups; runs on a worker."""
    asked: TaskAsked = pickle.loads(message)
    outer, inner = _threads(len(groups))
    with one_blas_thread():
        sums = parallel_map(partial(_sum_group, asked, inner), groups, n_threads=outer)
        leaves = {group.number: total for group, total in zip(groups, sums, strict=True)}
        return pickle.dumps(merge(leaves, n_groups))


def _sum_group(asked: TaskAsked, n_threads: int, group: PartitionGroup) -> Any:
    return reduce(add, (held.sum(asked.task) for _, held in asked.batches(group, n_threads)))


def collect_groups(message: bytes, n_groups: int, groups: list[PartitionGroup]) -> bytes:
    """Collect what a task says of each row of some groups; runs on a worker."""
    del n_groups
    asked: TaskAsked = pickle.loads(message)
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


# Rows on the workers of a Dask cluster: coded once, summed where they are, only sums travel.


Array = NDArray[np.float64]

GROUP_ROWS = 131_072
"""Partitions that follow each other form a group until they have so many rows. Groups depend on
the data alone, never on the workers, and are added as a tree of fixed shape."""

TRIES = 3
"""How often a pass is asked for where the workers stand idle over it."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of partitions, coded and kept on the workers.

    Attributes
    ----------
    client : of the cluster.
    make : makes the graph of a group, given its number and the worker it is tied to, if any.
    futures : the groups themselves; those that were lost for good are replaced.
    """

    client: Any
    make: Callable[[int, str | None], Any]
    futures: list[Any]

    def __len__(self) -> int:
        return len(self.futures)

    def make_again(self) -> None:
        """Ask anew for groups that are not there, on whatever worker there is.

        Each was tied to a worker. Dask lets go of such ties while other workers are there, but
        not where all of them were lost at once. What a group is made of is never tied.
        """
        lost = [i for i, future in enumerate(self.futures) if future.status != "finished"]
        cancel(self.client, [self.futures[i] for i in lost])
        again = compute(self.client, [self.make(i, None) for i in lost])
        for i, future in zip(lost, again, strict=True):
            self.futures[i] = future


@dataclass(frozen=True)
class Dask:
    """Sum over rows on the workers of a `dask.distributed` cluster that already runs.

    Workers code their partitions once and keep them in memory. A pass sends each of them a task
    of some kilobytes and gets its sums back. Rows that are lost with a worker are read again from
    where they came, by another one, and estimates are the same to the last bit.

    Parameters
    ----------
    client : a `distributed.Client`; None for the current one.
    encoding : of CSV files, such as ``"latin-1"``; None for UTF-8.
    """

    threads: ClassVar[int | None] = None

    client: Any = field(default=None, repr=False)
    encoding: str | None = None

    def open(self, data: Any) -> FrameOnCluster | FilesOnCluster:
        """Look at the partitions of a `dask.dataframe`, or at files that all workers can read."""
        client = find_client(self.client)
        if is_dask_frame(data) and hasattr(data, "columns"):
            return FrameOnCluster(client, data)
        if are_files(data):
            return FilesOnCluster(client, open_files(_absolute(data), encoding=self.encoding))
        raise OptionError(
            f"The engine Dask sums over a dask.dataframe or files, not a {type(data).__name__}. "
            "Make one of it with dask.dataframe.from_pandas(data, npartitions=...), or leave the "
            "engine out."
        )

    def load(self, problem: Problem, rows: RowStream) -> RowsOnWorkers:
        """Have every partition coded where it is, and kept there."""
        return RowsOnWorkers(problem, rows, None, groups=_place(problem, rows))


def _absolute(data: Any) -> Any:
    """Return names of files that mean the same in another folder, where workers may be."""
    if isinstance(data, str | Path):
        return str(Path(data).absolute())
    return [_absolute(one) for one in data] if isinstance(data, list | tuple) else data


@dataclass(frozen=True, eq=False)
class RowsOnWorkers(RowsInPieces):
    """Rows that are kept coded in the memory of workers.

    Attributes
    ----------
    groups : the groups of partitions.
    """

    groups: Groups = field(kw_only=True)

    @property
    def rows(self) -> Rows:
        raise UnsupportedError(
            f"The rows of this fit are those of {self.stream.source.title} on the workers of a "
            "cluster and are never all in this process, as this needs. Give new rows, for example "
            "a sample of them, or fit with engine=engines.Memory() where they fit."
        )

    def sum(self, task: Callable[[Batch], Sum]) -> Sum:
        branches: dict[tuple[int, int], Any] = {}
        for found in self._ask(sum_groups, task):
            branches.update(found)
        total: Sum = add_up(branches, len(self.groups))
        return total

    def collect(self, task: Callable[[Batch], Array]) -> Array:
        found = [pair for each in self._ask(collect_groups, task) for pair in each]
        return np.concatenate([values for _, values in sorted(found, key=lambda pair: pair[0])])

    def map(self, task: Callable[..., Any], *items: Iterable[Any]) -> Iterator[Any]:
        import cloudpickle

        client = self.stream.source.client  # type: ignore[attr-defined]
        # What all items share travels once, and is sent again where it is lost with a worker.
        shared = submit(client, itself, cloudpickle.dumps(task), home=None)
        futures = [
            submit(client, run_alone, shared, *each, home=None) for each in zip(*items, strict=True)
        ]
        yield from gather(client, futures)

    def message(self, task: Callable[[Batch], Any]) -> bytes:
        """Return what is sent to every worker in a pass."""
        import cloudpickle

        backend = backend_for(self.problem, self.n_rows)
        asked = TaskAsked(task, self.problem if self.changes else None, self.changes, backend)
        sent: bytes = cloudpickle.dumps(asked)
        return sent

    def _ask(self, how: Callable[..., bytes], task: Callable[[Batch], Any]) -> Iterator[Any]:
        """Yield what each worker answers: one task for all of its groups."""
        client = self.stream.source.client  # type: ignore[attr-defined]
        message, groups = self.message(task), self.groups
        with progress_bar(self.stream.progress, what="Pass", total=self.n_rows) as bar:
            shown, futures = 0, list[Any]()

            def show(n_done: int) -> None:
                nonlocal shown
                reached = n_done * self.n_rows // len(futures)
                bar.update(reached - shown)
                shown = reached

            def ask() -> list[Any]:
                futures[:] = [
                    submit(
                        client, how, message, len(groups), [groups.futures[i] for i in mine],
                        home=home,
                    )
                    for home, mine in self._shares(client).items()
                ]  # fmt: skip
                return gather(client, futures, show)

            for answer in _persistently(groups, ask, futures):
                yield pickle.loads(answer)
            show(len(futures))

    def _shares(self, client: Any) -> dict[str | None, list[int]]:
        """Say which groups each worker has; those on their way go by themselves."""
        homes = home_of(client, self.groups.futures)
        shares: dict[str | None, list[int]] = {}
        for i, group in enumerate(self.groups.futures):
            shares.setdefault(homes.get(group.key), []).append(i)
        return shares


def _persistently(groups: Groups, ask: Callable[[], list[Any]], asked: Sequence[Any]) -> list[Any]:
    """Ask, and make groups again where the workers stand idle over it; give up after some tries.

    `asked` are the futures that `ask` waits for.
    """
    for _ in range(TRIES - 1):
        try:
            return ask()
        except IdleError:
            cancel(groups.client, asked)
            groups.make_again()
    return ask()


def _place(problem: Problem, stream: RowStream) -> Groups:
    """Have groups of partitions coded on the workers, each close to where its rows are."""
    from dask import delayed

    source: Any = stream.source
    sizes = _sizes(stream)
    parts = [part for part in source.partitions(stream.columns) if sizes.get(part.number)]
    numbers = _grouped([sizes[part.number] for part in parts])
    nowhere: Any = None  # workers are sent how to code rows, not where they come from
    few = stream.sample.take(slice(0, 0))
    sent = replace(stream, source=nowhere, sample=few, progress=False)
    # One task of the graph, so that it travels once to a worker and is made again where it is lost.
    coder = delayed(PartitionCoder)(
        problem, sent, source.kinds(stream.columns), backend_for(problem, stream.n_rows)
    )

    def make(number: int, home: str | None) -> Any:
        members = [parts[i] for i in numbers[number]]
        named = [(part.number, part.name) for part in members]
        graph = delayed(code_group)(coder, number, named, [part.frame for part in members])
        # Inside of `dask.annotate` the partitions would be tied, too.
        graph.__dask_graph__().layers[graph.key].annotations = tie(home) or None
        return graph

    homes = {i: at for at, mine in _deal(source, parts, numbers, sizes).items() for i in mine}
    asked = compute(source.client, [make(i, homes[i]) for i in range(len(numbers))])
    groups = Groups(source.client, make, asked)
    there: list[Any] = []

    def wait_for_all() -> list[Any]:
        there[:] = source.client.map(is_there, groups.futures, pure=False)
        # What travels is whether all could be coded.
        found: list[Any] = source.gather(there, stream.columns)
        return found

    _persistently(groups, wait_for_all, there)
    return groups


def _sizes(stream: RowStream) -> dict[int, int]:
    """Return how many rows each piece has that are used."""
    numbers = sorted(stream.starts)
    edges = [*(stream.starts[number] for number in numbers), stream.n_rows]
    return dict(zip(numbers, np.diff(edges).tolist(), strict=True))


def _grouped(sizes: list[int]) -> list[list[int]]:
    """Put partitions that follow each other together until they have enough rows."""
    groups: list[list[int]] = []
    reached = GROUP_ROWS
    for i, size in enumerate(sizes):
        if reached >= GROUP_ROWS:
            groups.append([])
            reached = 0
        groups[-1].append(i)
        reached += size
    return groups


def _deal(
    source: Any, parts: list[Partition], numbers: list[list[int]], sizes: dict[int, int]
) -> dict[str | None, list[int]]:
    """Say which groups each worker shall have: those in its memory, else a stretch of them."""
    homes, threads = source.homes(), workers_of(source.client)
    shares: dict[str | None, list[int]] = {}
    if homes or not threads:
        for i, which in enumerate(numbers):
            shares.setdefault(homes.get(parts[which[0]].number), []).append(i)
        return shares
    weights = np.array([sum(sizes[parts[i].number] for i in which) for which in numbers])
    addresses = sorted(threads)
    edges = np.cumsum([threads[address] for address in addresses]) / sum(threads.values())
    middle = (np.cumsum(weights) - 0.5 * weights) / weights.sum()
    for i, place in enumerate(np.searchsorted(edges[:-1], middle)):
        shares.setdefault(addresses[place], []).append(i)
    return shares
