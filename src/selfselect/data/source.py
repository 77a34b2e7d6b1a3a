"""The contract of sources: tables too large to hold, read piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import pandas as pd

__all__ = ["Piece", "Source"]

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
