"""Partitions on a cluster as a source: of a Dask frame, or of files that its workers read.

What is asked of rows runs where their partition is; only what it returns, or the sum, travels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from hashlib import sha256
from operator import add
from typing import Any

import numpy as np
import pandas as pd

from selfselect.data.files import Files, read_fragment
from selfselect.data.rows import Piece, Result
from selfselect.engines._cluster import compute, gather, home_of
from selfselect.errors import DataError, SelfSelectError

AT_ONCE = 8
"""Surveys added by one task on their way up the tree."""

WINDOW = 16
"""Pieces whose results may wait for their turn."""


@dataclass(frozen=True, eq=False)
class Partition:
    """One partition: its place, its name for messages, and a delayed frame of it."""

    number: int
    name: str
    frame: Any


class _OnCluster(ABC):
    """A source whose pieces are partitions, worked on by the workers of a cluster."""

    client: Any

    @property
    @abstractmethod
    def title(self) -> str:
        """What it is, in a few words for messages."""

    @abstractmethod
    def partitions(self, columns: Sequence[str]) -> list[Partition]:
        """Return the partitions with these columns, none of them computed yet."""

    def homes(self) -> dict[int, str]:
        """Return the worker that holds each partition, where they are in memory already."""
        return {}

    @abstractmethod
    def head(self, columns: Sequence[str]) -> pd.DataFrame:
        """Return a few rows as a frame."""

    def map(
        self, task: Callable[[Piece], Result], columns: Sequence[str], *, n_threads: int | None
    ) -> Iterator[Result]:
        """Yield what `task` returns for each partition that has rows, computed on the workers."""
        from dask import delayed

        del n_threads
        leaves = self._leaves(task, columns, delayed)
        waiting: list[Any] = []
        for leaf in leaves:
            waiting += compute(self.client, [leaf])
            if len(waiting) > WINDOW:
                yield from self._met(waiting.pop(0), columns)
        while waiting:
            yield from self._met(waiting.pop(0), columns)

    def _met(self, future: Any, columns: Sequence[str]) -> list[Any]:
        (found,) = self.gather([future], columns)
        return [] if found is None else [found]

    def sums(
        self, task: Callable[[Piece], Any], columns: Sequence[str], *, n_threads: int | None
    ) -> Iterator[Any]:
        """Yield the sum of what `task` returns, added as a tree on the workers: it alone travels.

        Partitions without rows count for nothing.
        """
        from dask import delayed

        del n_threads
        level = self._leaves(task, columns, delayed)
        while len(level) > 1:
            level = [
                delayed(_add_all)(level[at : at + AT_ONCE]) for at in range(0, len(level), AT_ONCE)
            ]
        if level:
            (total,) = self.gather(compute(self.client, level), columns)
            if total is not None:
                yield total

    def _leaves(
        self, task: Callable[[Piece], Any], columns: Sequence[str], delayed: Any
    ) -> list[Any]:
        # One task of the graph that all others refer to, so that it travels once to a worker.
        shared = delayed(_Use)(task, self.kinds(columns), tuple(columns))
        return [
            delayed(_use)(shared, part.number, part.name, part.frame)
            for part in self.partitions(columns)
        ]

    def kinds(self, columns: Sequence[str]) -> dict[str, str]:
        """Say what each column holds: every partition must hold the same."""
        head = self.head(columns)
        return {name: kind_of(head[name]) for name in columns}

    def gather(self, futures: list[Any], columns: Sequence[str]) -> list[Any]:
        """Wait for what was asked of partitions; say which one cannot be computed."""
        try:
            return gather(self.client, futures)
        except SelfSelectError:
            raise
        except Exception as error:
            raise DataError(self.blame(error, columns)) from error

    def blame(self, error: Exception, columns: Sequence[str]) -> str:
        """Say which partition cannot be computed: Dask says why, not where."""
        from dask import delayed

        parts = self.partitions(columns)
        found = compute(self.client, [delayed(_try_out)(part.frame) for part in parts])
        for part, future in zip(parts, found, strict=True):
            try:
                gather(self.client, [future])
            except Exception as its_own:
                return f"{part.name} {_reason(its_own)}"
        return f"{self.title} {_reason(error)}"


@dataclass(frozen=True, eq=False)
class FrameOnCluster(_OnCluster):
    """The partitions of a `dask.dataframe`."""

    client: Any
    frame: Any
    heads: dict[tuple[str, ...], pd.DataFrame] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return [str(name) for name in self.frame.columns]

    @property
    def title(self) -> str:
        return f"a Dask frame of {self.frame.npartitions} partitions"

    @property
    def fingerprint(self) -> str:
        known = f"{self.frame.npartitions} {self.frame.dtypes.astype(str).to_dict()}"
        return sha256(known.encode()).hexdigest()

    def homes(self) -> dict[int, str]:
        """Return the worker that holds each partition, where they are in memory already."""
        from distributed import futures_of

        kept = futures_of(self.frame)
        if len(kept) != self.frame.npartitions:
            return {}
        at = {future.key: future.key[1] for future in kept if isinstance(future.key, tuple)}
        return {at[key]: home for key, home in home_of(self.client, kept).items() if key in at}

    def partitions(self, columns: Sequence[str]) -> list[Partition]:
        frames = self.frame[list(columns)].to_delayed()
        return [Partition(i, f"Partition {i}", frame) for i, frame in enumerate(frames)]

    def head(self, columns: Sequence[str]) -> pd.DataFrame:
        """Return a few rows, of the first partition that has some."""
        from dask import delayed

        wanted = tuple(columns)
        if wanted not in self.heads:
            for part in self.partitions(wanted):
                first = compute(self.client, [delayed(_first_rows)(part.frame)])
                (self.heads[wanted],) = self.gather(first, wanted)
                if len(self.heads[wanted]):
                    break
        return self.heads[wanted]


@dataclass(frozen=True, eq=False)
class FilesOnCluster(_OnCluster):
    """Files, read by the workers; row groups of Parquet files are partitions of their own."""

    client: Any
    files: Files

    @property
    def names(self) -> list[str]:
        return self.files.names

    @property
    def title(self) -> str:
        return self.files.title

    @property
    def fingerprint(self) -> str:
        return self.files.fingerprint

    def check(self, columns: Sequence[str]) -> None:
        """Refuse files that cannot be read, lack a column, or hold it as another type."""
        self.files.check(columns)

    def head(self, columns: Sequence[str]) -> pd.DataFrame:
        return self.files.head(columns)

    def partitions(self, columns: Sequence[str]) -> list[Partition]:
        from dask import delayed

        read, schema = delayed(read_fragment, pure=False), self.files.dataset.schema
        return [
            Partition(
                i,
                name,
                read(fragment, schema, tuple(columns), dict(self.files.text), self._state_of(name)),
            )
            for i, (name, fragment) in enumerate(self.files.fragments())
        ]

    def _state_of(self, name: str) -> dict[str, Any]:
        """Return what a worker needs to know a file again, and nothing of the others."""
        return {name: self.files.states[name]} if name in self.files.states else {}

    def with_labels(self, columns: Sequence[str]) -> FilesOnCluster:
        """Return the same files, with columns of labels as text where one has a leading zero."""
        return replace(self, files=self.files.with_labels(columns))


@dataclass(frozen=True)
class _Use:
    """What is done to every partition, and what its columns must hold."""

    task: Callable[[Piece], Any]
    kinds: dict[str, str]
    columns: tuple[str, ...]


def _use(how: _Use, number: int, name: str, frame: pd.DataFrame) -> Any:
    if not len(frame):
        return None
    return how.task(as_piece(how.kinds, number, name, frame))


def as_piece(kinds: dict[str, str], number: int, name: str, frame: pd.DataFrame) -> Piece:
    """Return a partition as a piece, if its columns hold what those of the others do."""
    for column, kind in kinds.items():
        if column not in frame.columns:
            raise DataError(
                f"{name} has no column {column!r}, which others have. All partitions need the same "
                "columns."
            )
        found = kind_of(frame[column])
        if found != kind and frame[column].notna().any():
            raise DataError(
                f"The column {column!r} holds {found} in {name.lower()} but {kind} in the first "
                "that has rows. All partitions need the same types: convert it with astype."
            )
    used = frame[list(kinds)].reset_index(drop=True)
    return Piece(number, name, used, checksum=_checksum(used))


def _checksum(frame: pd.DataFrame) -> int:
    """Return a number that other rows would not have.

    A partition is computed once more when its rows are coded, and again when its worker is lost.
    """
    total = 0
    for place, name in enumerate(frame.columns, start=1):
        values = frame[name]
        if isinstance(values.dtype, np.dtype) and values.dtype.kind in "iufb":
            bits = values.to_numpy(dtype=np.float64).view(np.int64)
        else:
            try:
                bits = pd.util.hash_pandas_object(values, index=False).to_numpy().view(np.int64)
            except TypeError:
                continue  # Lists and the like are refused where the column is used.
        total += place * int(bits.sum())
    return total % 2**62


def kind_of(values: pd.Series[Any]) -> str:
    """Return what a column is to a formula: numbers, text, or something else."""
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    if pd.api.types.is_bool_dtype(dtype):
        return "true or false"
    if pd.api.types.is_numeric_dtype(dtype):
        return "numbers"
    if pd.api.types.is_string_dtype(dtype) or pd.api.types.is_object_dtype(dtype):
        return "text"
    return str(dtype)


def _add_all(found: list[Any]) -> Any:
    some = [one for one in found if one is not None]
    return reduce(add, some) if some else None


def _first_rows(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.head(1_000)


def _try_out(frame: pd.DataFrame) -> int:
    return len(frame)


def _reason(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and str(error.name).startswith("selfselect"):
        return "cannot be used: selfselect is not installed on the workers. Install it there too."
    if isinstance(error, KeyError):
        return (
            f"lacks a column that others have ({error.args[0]}). All partitions need the same "
            "columns."
        )
    lines = str(error).strip().splitlines()
    why = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return f"cannot be computed ({why.rstrip('.')})."
