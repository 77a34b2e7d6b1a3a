"""CSV files read at once by pandas: from the shell, and where pyarrow is not installed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from io import BufferedReader, BytesIO, FileIO
from pathlib import Path
from typing import Any

import pandas as pd

from selfselect.data.file_names import COMPRESSED, TEXT_FORMATS, find_files, format_of
from selfselect.data.file_types import (
    CHANGED_BY_NUMBERS,
    has_semicolons,
    may_change_labels,
    other_encoding,
    reason_of,
    refuse_semicolons,
)
from selfselect.data.files import Files, open_files
from selfselect.errors import DataError, SelfSelectWarning, warn_user
from selfselect.progress import is_watched, progress_bar

__all__ = ["TextFiles", "open_whole", "read_csv"]

BYTES_AT_ONCE = 2**20
"""Between two updates of a progress bar."""

DECIMAL_COMMA = r"[+-]?[0-9]+(,[0-9]+)?([eE][+-]?[0-9]+)?"


def open_whole(data: Any) -> Files | TextFiles:
    """Find files that are read at once; CSV files need no pyarrow."""
    if find_spec("pyarrow") is None and isinstance(data, str | Path | list | tuple):
        names = [str(path) for path in find_files(data)]
        if all(format_of(name) in TEXT_FORMATS for name in names):
            return TextFiles(tuple(names))
    return open_files(data)


@dataclass(frozen=True, eq=False)
class TextFiles:
    """CSV files, and columns that hold labels: 01 and 1 are two of them, so those are text."""

    paths: tuple[str, ...]
    labels: tuple[str, ...] = ()

    @cached_property
    def names(self) -> list[str]:
        """The columns of the first file, which all of them need."""
        first = Path(self.paths[0])
        with _reading(self.paths[0]):
            header = pd.read_csv(first, **separator(first), nrows=0)
        if format_of(self.paths[0]) == "csv":
            refuse_semicolons(self.paths[0], None)
        return [str(name) for name in header.columns]

    def with_labels(self, columns: Sequence[str]) -> TextFiles:
        """Return the same files with columns that are known to hold labels."""
        return replace(self, labels=tuple(columns))

    def table(self, columns: Sequence[str]) -> pd.DataFrame:
        """Return all rows at once."""
        frames = [self._read(path, list(columns)) for path in self.paths]
        for path, frame in zip(self.paths, frames, strict=True):
            for name in columns:
                first, here = (kind_of(one[name]) for one in (frames[0], frame))
                if "nothing" not in (first, here) and first != here:
                    raise DataError(
                        f"The column {name!r} holds {here} in {path} but {first} in the first "
                        "file. Write all files with the same types."
                    )
        return pd.concat(frames, ignore_index=True)

    def _read(self, path: str, columns: list[str]) -> pd.DataFrame:
        with _reading(path):
            found = read_csv(Path(path), None, self.labels)
        for name in columns:
            if name not in found:
                raise DataError(
                    f"{path} has no column {name!r}, which the first file has. All files need the "
                    "same columns."
                )
        return found.loc[:, columns]


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Say which file cannot be read."""
    try:
        yield
    except UnicodeError as error:
        raise other_encoding(path, "something in it") from error
    except (pd.errors.ParserError, EOFError, OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as csv: {reason_of(error)}") from error


def kind_of(column: pd.Series[Any]) -> str:
    """Return what a column is to a formula."""
    if column.isna().all():
        return "nothing"
    return "number" if pd.api.types.is_numeric_dtype(column) else "text"


def read_csv(source: Path | BytesIO, encoding: str | None, labels: Sequence[Any]) -> pd.DataFrame:
    """Read CSV, a file or its bytes; columns of labels are text where a number would change one."""
    how = {**separator(source), "encoding": encoding}
    if how["sep"] == "," and has_semicolons(_again(source, {**how, "nrows": 0}).columns):
        how, table = _read_semicolons(source, how)
    else:
        table = _again(source, how)
    numbers = [
        name
        for name in dict.fromkeys(labels)
        if name in table and pd.api.types.is_numeric_dtype(table[name])
    ]
    if numbers and (isinstance(source, BytesIO) or may_change_labels(str(source))):
        written = _again(source, {**how, "usecols": numbers, "dtype": str})
        for name in numbers:
            if written[name].str.match(CHANGED_BY_NUMBERS).any():
                table[name] = written[name]
    return table


def _read_semicolons(
    source: Path | BytesIO, how: dict[str, Any]
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Read columns between semicolons, as spreadsheets write them where decimals have commas."""
    how = {**how, "sep": ";"}
    table, also = _again(source, how), ""
    if any(_has_decimal_commas(table[name]) for name in table):
        how, also = {**how, "decimal": ","}, ", and decimal commas"
        points = table.select_dtypes("float").columns
        table = _again(source, how)
        lost = [name for name in points if not pd.api.types.is_numeric_dtype(table[name])]
        if lost:
            raise DataError(
                f"Decimals have commas in some columns and points in others, such as {lost[0]!r}. "
                "Write all of them in one way."
            )
    warn_user(f"The table was read with semicolons between columns{also}.", SelfSelectWarning)
    return how, table


def _has_decimal_commas(column: pd.Series[Any]) -> bool:
    if pd.api.types.is_numeric_dtype(column):
        return False
    written = column.dropna().astype(str).str.strip()
    numbers = bool(written.str.fullmatch(DECIMAL_COMMA).all())
    return numbers and bool(written.str.contains(",").any())


def _again(source: Path | BytesIO, how: dict[str, Any]) -> pd.DataFrame:
    """Read from the beginning."""
    if isinstance(source, BytesIO):
        source.seek(0)
    return _read(source, how)


def _read(source: Path | BytesIO, how: dict[str, Any]) -> pd.DataFrame:
    """Read CSV, a file with progress where somebody watches."""
    # From an open file pandas reads with one thread, which takes up to twice as long.
    if isinstance(source, BytesIO) or not is_watched() or how.get("nrows") == 0:
        return pd.read_csv(source, **how)
    ending = source.suffix.lower()
    if ".tar" in source.suffixes or ending not in (*COMPRESSED, ".csv", ".tsv", ".txt", ""):
        return pd.read_csv(source, **how)
    size = source.stat().st_size
    with (
        progress_bar(None, what=f"Reading {source.name}", total=size, unit="bytes") as bar,
        BufferedReader(_Counted(source, bar), BYTES_AT_ONCE) as file,
    ):
        return pd.read_csv(file, **how, compression=COMPRESSED.get(ending))


class _Counted(FileIO):
    """A file that tells a bar how much of it was read."""

    def __init__(self, path: Path, bar: Any) -> None:
        super().__init__(path)
        self.bar = bar

    def readinto(self, buffer: Any) -> int:
        """Read bytes, and count them."""
        found = super().readinto(buffer) or 0
        self.bar.update(found)
        return found


def separator(source: Path | BytesIO) -> dict[str, Any]:
    """Return how fields are separated; in .txt files that is found out, which is slower."""
    if isinstance(source, BytesIO):
        return {"sep": ","}
    if ".txt" in source.suffixes:
        return {"sep": None, "engine": "python"}
    return {"sep": "\t" if ".tsv" in source.suffixes else ","}
