"""Rows on the workers of a Dask cluster: coded once, summed where they are, only sums travel."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.files import are_files, open_files
from selfselect.data.rows import Rows
from selfselect.data.stream import RowStream
from selfselect.engines._cluster import find_client, gather, workers_of
from selfselect.engines._partitions import FilesOnCluster, FrameOnCluster, as_piece
from selfselect.engines._tree import add_up, merge
from selfselect.engines.base import Sum
from selfselect.engines.memory import RowsInMemory, backend_for
from selfselect.engines.parquet import Change, RowsInPieces
from selfselect.errors import OptionError, UnsupportedError
from selfselect.problem.evaluation import Batch
from selfselect.problem.problem import Problem
from selfselect.progress import progress_bar
from selfselect.threads import n_cores, one_blas_thread, parallel_map

__all__ = ["Dask", "RowsOnWorkers", "is_dask_frame"]

Array = NDArray[np.float64]

GROUP_ROWS = 131_072
"""Partitions that follow each other form a group until they have so many rows. Groups depend on
the data alone, never on the workers, and are added as a tree of fixed shape."""


def is_dask_frame(data: Any) -> bool:
    """Say whether data is a `dask.dataframe`, without importing Dask."""
    return type(data).__module__.startswith("dask.") and hasattr(data, "npartitions")


@dataclass(frozen=True)
class Dask:
    """Sum over rows on the workers of a `dask.distributed` cluster that already runs.

    Workers code their partitions once and keep them in memory. A pass sends each of them a task
    of some kilobytes and gets its sums back. Rows that are lost with a worker are read again from
    where they came, by another one, and estimates are the same to the last bit.

    Parameters
    ----------
    client : a `distributed.Client`; None for the current one.
    """

    client: Any = None

    def open(self, data: Any) -> FrameOnCluster | FilesOnCluster:
        """Look at the partitions of a `dask.dataframe`, or at files that all workers can read."""
        client = find_client(self.client)
        if is_dask_frame(data) and hasattr(data, "columns"):
            return FrameOnCluster(client, data)
        if are_files(data):
            return FilesOnCluster(client, open_files(data))
        raise OptionError(
            f"The engine Dask sums over a dask.dataframe or files, not a {type(data).__name__}. "
            "Make one of it with dask.dataframe.from_pandas(data, npartitions=...), or leave the "
            "engine out."
        )

    def load(self, problem: Problem, rows: RowStream) -> RowsOnWorkers:
        """Have every partition coded where it is, and kept there."""
        return RowsOnWorkers(problem, rows, n_cores(), groups=_place(problem, rows))


@dataclass(frozen=True, eq=False)
class RowsOnWorkers(RowsInPieces):
    """Rows that are kept coded in the memory of workers.

    Attributes
    ----------
    groups : futures of the groups of partitions, in order.
    """

    groups: tuple[Any, ...] = field(default=(), kw_only=True)

    @property
    def rows(self) -> Rows:
        raise UnsupportedError(
            f"The rows of this fit are those of {self.stream.source.title} on the workers of a "
            "cluster and are never all in this process, as this needs. Give new rows, for example "
            "a sample of them, or fit with engine=engines.Memory() where they fit."
        )

    def sum(self, task: Callable[[Batch], Sum]) -> Sum:
        branches: dict[tuple[int, int], Any] = {}
        for found in self._ask(_sum_groups, task):
            branches.update(found)
        total: Sum = add_up(branches, len(self.groups))
        return total

    def collect(self, task: Callable[[Batch], Array]) -> Array:
        found = [pair for each in self._ask(_collect_groups, task) for pair in each]
        return np.concatenate([values for _, values in sorted(found, key=lambda pair: pair[0])])

    def message(self, task: Callable[[Batch], Any]) -> bytes:
        """Return what is sent to every worker in a pass."""
        import cloudpickle

        backend = backend_for(self.problem, self.n_rows)
        asked = _Asked(task, self.problem if self.changes else None, self.changes, backend)
        sent: bytes = cloudpickle.dumps(asked)
        return sent

    def _ask(self, how: Callable[..., bytes], task: Callable[[Batch], Any]) -> Iterator[Any]:
        """Yield what each worker answers: one task for all of its groups."""
        client = self.stream.source.client  # type: ignore[attr-defined]
        message, n_groups = self.message(task), len(self.groups)
        shares = self._shares(client)
        futures = [
            client.submit(
                how, message, n_groups, [self.groups[i] for i in share],
                workers=where, allow_other_workers=True, pure=False,
            )
            for where, share in shares
        ]  # fmt: skip
        with progress_bar(self.stream.progress, what="Pass", total=self.n_rows) as bar:
            shown = 0

            def show(done: Sequence[Any]) -> None:
                nonlocal shown
                reached = len(done) * self.n_rows // len(futures)
                bar.update(reached - shown)
                shown = reached

            for answer in gather(client, futures, show):
                yield pickle.loads(answer)
            show(futures)

    def _shares(self, client: Any) -> list[tuple[Any, list[int]]]:
        """Say which groups each worker has; those on their way go by themselves."""
        where = client.who_has(list(self.groups))
        shares: dict[Any, list[int]] = {}
        for i, group in enumerate(self.groups):
            holders = sorted(where.get(group.key, ()))
            shares.setdefault(holders[0] if holders else None, []).append(i)
        return [(None if at is None else [at], share) for at, share in shares.items()]


@dataclass(frozen=True, eq=False)
class _Group:
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
class _Asked:
    """A task for every batch of rows, and what is done to the rows first."""

    task: Callable[[Batch], Any]
    problem: Problem | None
    changes: tuple[Change, ...]
    backend: Any

    def batches(self, group: _Group, n_threads: int) -> Iterator[tuple[int, RowsInMemory]]:
        """Yield the rows of each partition with its number."""
        for number, batch in group.pieces:
            rows, observation = batch.rows, batch.observation
            for change in self.changes:
                rows = change(rows, batch.start, number)
            if self.problem is not None:
                observation = self.problem.observe(rows)
            changed = Batch(rows, observation, self.backend, batch.start)
            yield number, RowsInMemory(changed, n_threads)


@dataclass(frozen=True, eq=False)
class _Coder:
    """What a worker needs to code partitions."""

    problem: Problem
    stream: RowStream
    kinds: dict[str, str]
    backend: Any


def _code_group(
    coder: _Coder, number: int, named: list[tuple[int, str]], frames: list[Any]
) -> _Group:
    pieces = []
    for (at, name), frame in zip(named, frames, strict=True):
        rows, start = coder.stream.code(as_piece(coder.kinds, at, name, frame))
        pieces.append((at, Batch(rows, coder.problem.observe(rows), coder.backend, start)))
    return _Group(number, tuple(pieces))


def _place(problem: Problem, stream: RowStream) -> tuple[Any, ...]:
    """Have groups of partitions coded on the workers, each close to where its rows are."""
    from dask import delayed

    source: Any = stream.source
    sizes = _sizes(stream)
    parts = [part for part in source.partitions(stream.columns) if sizes.get(part.number)]
    numbers = _grouped([sizes[part.number] for part in parts])
    sent = replace(stream, source=None, sample=stream.sample.take(slice(0, 0)), progress=False)
    # One task of the graph, so that it travels once to a worker and is made again where it is lost.
    coder = delayed(_Coder)(
        problem, sent, source.kinds(stream.columns), backend_for(problem, stream.n_rows)
    )
    graphs = []
    for number, which in enumerate(numbers):
        members = [parts[i] for i in which]
        named = [(part.number, part.name) for part in members]
        graphs.append(
            delayed(_code_group)(coder, number, named, [part.frame for part in members])
        )
    weights = [sum(sizes[parts[i].number] for i in which) for which in numbers]
    futures: list[Any] = []
    for where, share in _stretches(source, weights):
        options = {} if where is None else {"workers": [where], "allow_other_workers": True}
        futures += source.client.compute([graphs[i] for i in share], **options)
    with progress_bar(stream.progress, what="Coding") as bar:
        bar.update(0)
        _wait(source, futures, stream.columns)
    return tuple(futures)


def _wait(source: Any, futures: list[Any], columns: Sequence[str]) -> None:
    """Wait until all is coded; what travels is whether it could be."""
    client = source.client
    done = client.map(_is_there, futures, pure=False)
    source._gather(done, columns)


def _is_there(group: _Group) -> bool:
    return bool(group.pieces)


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


def _stretches(source: Any, weights: list[int]) -> Iterator[tuple[str | None, list[int]]]:
    """Deal stretches of groups out to workers, by their threads; rows in memory stay."""
    if source.held:
        yield None, list(range(len(weights)))
        return
    threads = workers_of(source.client)
    if not threads:
        yield None, list(range(len(weights)))
        return
    addresses = sorted(threads)
    share = np.cumsum([threads[address] for address in addresses]) / sum(threads.values())
    middle = (np.cumsum(weights) - 0.5 * np.array(weights)) / sum(weights)
    owner = np.minimum(np.searchsorted(share, middle), len(addresses) - 1)
    for place, address in enumerate(addresses):
        mine = np.flatnonzero(owner == place).tolist()
        if mine:
            yield address, mine


def _sum_groups(message: bytes, n_groups: int, groups: list[_Group]) -> bytes:
    """Sum over the rows of some groups; runs on a worker."""
    asked: _Asked = pickle.loads(message)
    outer, inner = _threads(len(groups))
    with one_blas_thread():
        sums = parallel_map(partial(_sum_group, asked, inner), groups, n_threads=outer)
        leaves = {group.number: total for group, total in zip(groups, sums, strict=True)}
        return pickle.dumps(merge(leaves, n_groups))


def _sum_group(asked: _Asked, n_threads: int, group: _Group) -> Any:
    return reduce(add, (held.sum(asked.task) for _, held in asked.batches(group, n_threads)))


def _collect_groups(message: bytes, n_groups: int, groups: list[_Group]) -> bytes:
    """Collect what a task says of each row of some groups; runs on a worker."""
    del n_groups
    asked: _Asked = pickle.loads(message)
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
