"""Standard input and output in the place of files: ``-``."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from selfselect.errors import DataError

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = [
    "STANDARD",
    "is_there",
    "read_fit",
    "refuse_missing",
    "refuse_twice",
    "standard_input",
    "write_file",
]

STANDARD = "-"
"""Stands for standard input where a file is read, for standard output where one is written."""


def standard_input() -> io.BytesIO:
    """Return all of standard input; it can be read more than once then."""
    return io.BytesIO(sys.stdin.buffer.read())


def refuse_twice(*paths: str | None, what: str = "input") -> None:
    """Refuse ``-`` for two files."""
    if list(paths).count(STANDARD) > 1:
        raise click.UsageError(f"Two files are '-', but there is one standard {what}. Name a file.")


def is_there(path: str) -> bool:
    """Say whether there is such a file; what is too long for a name, as formulas are, is none."""
    return os.path.exists(path)


def refuse_missing(path: str) -> None:
    """Refuse a file that is not there; name the one of its folder that is spelt most alike."""
    source = Path(path)
    if path == STANDARD or is_there(path):
        return
    near: list[str] = []
    with suppress(OSError):
        near = get_close_matches(source.name, [one.name for one in source.parent.iterdir()], n=1)
    hint = f" Did you mean {str(source.with_name(near[0]))!r}?" if near else ""
    raise DataError(f"There is no file {path!r}.{hint}")


def read_fit(path: str) -> FitResult:
    """Read a saved fit from a file, or from standard input."""
    import selfselect as ss

    refuse_missing(path)
    if path != STANDARD:
        return ss.load(path)
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "standard input"
        copy.write_bytes(standard_input().getvalue())
        return ss.load(copy)


def write_file(path: str, write: Callable[[Any], Any], *, ending: str) -> None:
    """Have `write` make a file, or write what it makes to standard output.

    `ending` is that of the file on the way to standard output.
    """
    if path != STANDARD:
        write(path)
        return
    with TemporaryDirectory() as folder:
        made = Path(folder) / f"output{ending}"
        write(made)
        click.echo(made.read_bytes(), nl=False)
