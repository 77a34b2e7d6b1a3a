"""Rows as numbers, how many of them fit into memory, and where pieces of them come from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.errors import DataError
from selfselect.rules.base import RowData

if TYPE_CHECKING:
    from selfselect.data.equations import Equations


# Rows as numbers: all that later stages know of a table.


Array = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of the data, coded.

    Attributes
    ----------
    covariates : (n, D) the covariates of all equations, without a constant column.
    outcome : (n,) what was recorded, nan where it was not; None for rows to predict.
    chosen : (n,) index of the chosen alternative, -1 where it was not recorded; None for rows to
        predict, and where it was recorded in no row.
    weights : (n,) row weights; None where all are one.
    clusters : (n,) cluster number of each row, (n, ways) where rows are clustered in several ways;
        None where there are none.
    known : costs and availability of alternatives by row.
    between : (n, 2) limits of outcomes that were not recorded; None where there are none.
    possible : (n, k) which alternatives may be the chosen one; None where `chosen` says all.
    groups : (n,) number of the person each row belongs to; None where each row is its own.
    """

    covariates: Array
    outcome: Array | None = None
    chosen: Indices | None = None
    weights: Array | None = None
    clusters: Indices | None = None
    known: RowData = field(default_factory=RowData)
    between: Array | None = None
    possible: NDArray[np.bool_] | None = None
    groups: Indices | None = None

    def __len__(self) -> int:
        return int(self.covariates.shape[0])

    def take(self, which: slice | Indices) -> Rows:
        """Keep the rows `which`; a slice makes views, not copies."""
        return Rows(
            self.covariates[which],
            None if self.outcome is None else self.outcome[which],
            None if self.chosen is None else self.chosen[which],
            None if self.weights is None else self.weights[which],
            None if self.clusters is None else self.clusters[which],
            self.known.take(which),
            None if self.between is None else self.between[which],
            None if self.possible is None else self.possible[which],
            None if self.groups is None else self.groups[which],
        )

    def copies(self, which: Indices, copy: Indices) -> Rows:
        """Keep the rows `which`, of which those of another `copy` (n,) belong to other people."""
        made = self.take(which)
        if made.groups is None or self.groups is None:
            return made
        return replace(made, groups=made.groups + copy * (int(self.groups.max(initial=-1)) + 1))

    @property
    def group_starts(self) -> Indices | None:
        """Where groups begin, whose rows stand together; None where each row is its own group."""
        if self.groups is None:
            return None
        starts = np.flatnonzero(np.diff(self.groups, prepend=-1))
        return None if len(starts) == len(self) else starts

    @property
    def cluster_sizes(self) -> tuple[int, ...]:
        """How many clusters there are, one number per way of clustering."""
        if self.clusters is None:
            return ()
        return tuple((self.clusters.reshape(len(self), -1).max(axis=0) + 1).tolist())

    def reweighted(self, factor: Array) -> Rows:
        """Multiply the weight of each row by `factor`."""
        return replace(self, weights=factor if self.weights is None else self.weights * factor)


def guess_outcomes(outcome: Array, between: Array | None) -> Array:
    """Return outcomes (n,) with guesses for those between limits, nan where nothing is known.

    A guess is the middle of two limits, or the only one there is.
    """
    if between is None:
        return outcome
    low, high = np.where(np.isfinite(between), between, np.nan).T
    middle = 0.5 * low + 0.5 * high
    middle = np.where(np.isnan(low), high, np.where(np.isnan(high), low, middle))
    return np.where(np.isnan(outcome), middle, outcome)


def counted_rows(rows: Rows) -> Rows:
    """Return the rows that count: those of positive weight."""
    return rows if rows.weights is None else rows.take(np.flatnonzero(rows.weights > 0))


# How much memory something will take, asked before it is built.


MANY = 100
"""Alternatives up to which memory is not checked."""

MATRICES = 3
"""Matrices of all parameters by all parameters that a fit holds at once: the information, its
factor, the covariance."""

NO_QUESTION = 1 << 28
"""Bytes that are taken without asking how much there is."""

GROUPS = Path("/sys/fs/cgroup")


def refuse_beyond_memory(what: str, n_bytes: float, instead: str = "") -> None:
    """Refuse to build what does not fit into memory.

    Parameters
    ----------
    what : the subject of the message, such as ``"C(town) with 20,000 categories"``.
    n_bytes : what it takes at least.
    instead : a sentence that says what to do.
    """
    if n_bytes <= NO_QUESTION:
        return
    left = memory_left()
    if left is not None and n_bytes > left:
        advice = f" {instead}" if instead else ""
        raise DataError(
            f"{what} would take at least {_in_words(n_bytes)} of memory, and {_in_words(left)} are "
            f"free.{advice}"
        )


def refuse_many_alternatives(n_alternatives: Any, data: Any) -> None:
    """Refuse a number of alternatives that no memory holds, before anything is made for them.

    Parameters
    ----------
    n_alternatives : as the user gave them; anything but a large number passes.
    data : the table, whose rows count where it knows how many it has.
    """
    if isinstance(n_alternatives, Integral) and int(n_alternatives) > MANY:
        frame = hasattr(data, "columns") and hasattr(data, "__len__")
        _refuse(int(n_alternatives), 2 * int(n_alternatives), len(data) if frame else 0)


def refuse_large_model(equations: Equations, n_rows: int) -> None:
    """Refuse equations whose matrices no memory holds."""
    n_alternatives = equations.n_alternatives
    own = sum(equations.own_terms) + len(equations.shared) + n_alternatives
    _refuse(n_alternatives, own, n_rows)


def _refuse(n_alternatives: int, n_parameters: int, n_rows: int) -> None:
    refuse_beyond_memory(
        f"A model of {n_alternatives:,} alternatives with {n_parameters:,} parameters or more",
        8.0 * (MATRICES * float(n_parameters) ** 2 + float(n_rows) * n_alternatives),
        "Give fewer alternatives, or fewer terms.",
    )


def memory_left() -> float | None:
    """Return how many bytes of memory this process may still take; None where that is unknown."""
    found = [*_system(), *_group(), *_own_limit()]
    return max(0.0, min(found)) if found else None


def _system() -> list[float]:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return [1024.0 * int(line.split()[1])]
    except (OSError, ValueError):
        pass
    try:
        return [float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, OSError, ValueError):
        return []


def _group() -> list[float]:
    """Return what is left to the container this runs in, where it has a limit."""
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            most = float((GROUPS / limit).read_text(encoding="ascii"))
            return [most - float((GROUPS / used).read_text(encoding="ascii"))]
        except (OSError, ValueError):
            continue
    return []


def _own_limit() -> list[float]:
    try:
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_AS)
        if most == resource.RLIM_INFINITY:
            return []
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        return [float(most) - pages * resource.getpagesize()]
    except (ImportError, OSError, ValueError):
        return []


def _in_words(n_bytes: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB", "EB"):
        if n_bytes < 1000 or unit == "EB":
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    raise AssertionError


# The contract of sources: tables too large to hold, read piece by piece.


Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows of a source that follow each other.

    Attributes
    ----------
    number : its place among all pieces of the source, the same in every pass.
    name : of the file or partition it is from, for error messages.
    frame : the columns that were asked for.
    first : the position of its first row in that file or partition.
    text : columns that are text, although the frame holds them as categories.
    checksum : of the frame, where the source cannot tell by itself that it has changed; else 0.
    """

    number: int
    name: str
    frame: pd.DataFrame
    first: int = 0
    text: frozenset[str] = frozenset()
    checksum: int = 0


class Source(Protocol):
    """Anything that reads the same pieces in every pass over it."""

    @property
    def names(self) -> list[str]:
        """The columns there are."""

    @property
    def title(self) -> str:
        """What it is, in a few words for messages."""

    @property
    def fingerprint(self) -> str:
        """A text that changes when the data does, as far as can be told without reading it all."""

    def map(
        self, task: Callable[[Piece], Result], columns: Sequence[str], *, n_threads: int | None
    ) -> Iterator[Result]:
        """Yield what `task` returns for each piece, in order, a few of them in memory at a time."""

    def sums(
        self, task: Callable[[Piece], Any], columns: Sequence[str], *, n_threads: int | None
    ) -> Iterator[Any]:
        """Yield sums of what `task` returns, over pieces that follow each other: one or many."""

    def head(self, columns: Sequence[str]) -> Any:
        """Return a few rows as a frame, to see what the columns hold."""


# Rows that follow each other and belong together, kept in one batch of a file.


Batch = tuple[int, str, Any, int]
"""Number, file, rows and position in the file of a batch."""


def keep_together(batches: Iterator[Batch], column: str) -> Iterator[Batch]:
    """Cut batches anew, where a value of the column ends, also from one file to the next.

    Batches are numbered anew. One that began in another is placed where it began.
    """
    held: tuple[str, Any, int] | None = None
    number = 0
    for _, name, rows, first in batches:
        if held is None:
            held = (name, rows, first)
            continue
        began, before, at = held
        border = _last_begins(before.column(column))
        if border:
            yield number, began, before.slice(0, border), at
            number += 1
        # Positions go on counting in the file in which a batch began.
        held = (began, _joined(before.slice(border), rows), at + border)
    if held is not None:
        yield number, *held


def _last_begins(values: Any) -> int:
    """Return where the run of the last value begins."""
    codes = pd.factorize(values.to_pandas())[0]
    other = np.flatnonzero(codes != codes[-1])
    return int(other[-1]) + 1 if len(other) else 0


def _joined(*parts: Any) -> Any:
    """Return batches, or tables, as one table."""
    import pyarrow

    tables = [
        part if isinstance(part, pyarrow.Table) else pyarrow.Table.from_batches([part])
        for part in parts
    ]
    return pyarrow.concat_tables(tables).unify_dictionaries().combine_chunks()
