"""Where the shell reads rows from, and where sums over them are done."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from selfselect.cli._streams import is_there
from selfselect.cli._terminal import say

__all__ = ["ENGINE_HELP", "engine_named", "is_folder", "rows_of", "split_words", "tell_formulas"]

ENGINE_HELP = (
    "Where sums over rows are done: memory, parquet (files are read piece by piece), torch or "
    "torch:DEVICE, dask or dask:ADDRESS. Left out, one file is read into memory, and several are "
    "read piece by piece."
)

READ_FILES = ("parquet", "dask")
"""Engines that read files themselves."""

ENGINES = {"memory": "Memory", "parquet": "Parquet", "torch": "Torch", "dask": "Dask"}


def engine_named(text: str | None, encoding: str | None = None) -> Any:
    """Return the engine a user names, such as ``parquet`` or ``torch:cuda``; None for none.

    `encoding` is that of CSV files, for the engines that read files.
    """
    from selfselect import engines

    if text is None:
        return engines.Parquet(encoding=encoding) if encoding else None

    name, mark, detail = text.partition(":")
    if name not in ENGINES:
        raise click.UsageError(
            f"Invalid value for '--engine': there is no {name!r}. Use {', '.join(ENGINES)}."
        )
    make = getattr(engines, ENGINES[name], None)
    if make is None:
        raise click.UsageError(f"This version of selfselect has no engine {name!r}.")
    if mark and name not in ("torch", "dask"):
        raise click.UsageError(f"The engine {name!r} takes nothing after a colon.")
    said: dict[str, Any] = {"encoding": encoding} if encoding and name in READ_FILES else {}
    return make(detail, **said) if mark else make(**said)


def split_words(words: Sequence[str]) -> tuple[list[str], str | None]:
    """Tell files, of which a pattern of the shell makes many, from a formula."""
    files, formulas = tell_formulas(words)
    if len(formulas) > 1:
        raise click.UsageError(f"Several formulas are given: {', '.join(map(repr, formulas))}.")
    return files, formulas[0] if formulas else None


def tell_formulas(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return files and formulas; a notice says so where a formula comes before a file."""
    are_formulas = ["~" in word and not is_there(word) for word in words]
    files = [word for word, is_one in zip(words, are_formulas, strict=True) if not is_one]
    formulas = [word for word, is_one in zip(words, are_formulas, strict=True) if is_one]
    if not files:
        raise click.UsageError("No file is given.")
    if are_formulas != sorted(are_formulas):
        say("notice: in all commands DATA comes first, then formulas.")
    return files, formulas


def rows_of(
    files: Sequence[str],
    engine: str | None,
    *,
    encoding: str | None = None,
    labels: Sequence[Any] = (),
) -> Any:
    """Return one file as a table, and several, a folder or a pattern as what engines read.

    `encoding` and `labels` are as in `read_table`.
    """
    whole = engine is None or engine.partition(":")[0] in ("memory", "torch")
    if whole and len(files) == 1 and not os.path.isdir(files[0]) and not _is_pattern(files[0]):
        from selfselect.cli._tables import read_table

        return read_table(files[0], encoding=encoding, labels=labels)
    if whole and engine is not None and encoding is not None:
        from selfselect.data.files import open_files

        return open_files(list(files), encoding=encoding)
    return list(files)


def is_folder(out: str | None) -> bool:
    """Say whether predictions are to be written into a folder, not one file."""
    return out is not None and (out.endswith("/") or not Path(out).suffix or Path(out).is_dir())


def _is_pattern(word: str) -> bool:
    return any(mark in word for mark in "*?[") and not is_there(word)
