"""Reading and writing tables from the shell: CSV and Parquet."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import click
import pandas as pd

from selfselect.cli._streams import STANDARD, is_there, refuse_missing, standard_input
from selfselect.data.file_names import COMPRESSED, ending_of
from selfselect.data.text_files import read_csv
from selfselect.errors import DataError, MissingDependencyError
from selfselect.progress import progress_bar
from selfselect.results.files import refuse_target, whole_file
from selfselect.results.streaming import flat_columns

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = [
    "check_out",
    "check_target",
    "for_spreadsheets",
    "joined",
    "labels_of",
    "read_table",
    "refuse_inputs",
    "write_table",
]

NEEDS_PYARROW = "Parquet files need pyarrow: pip install 'selfselect[parquet]'"

PARQUET = (".parquet", ".pq")

TEXT = ("", ".csv", ".txt")

ROWS_AT_ONCE = 100_000
"""Rows of a table that are written between two updates of progress."""

FORMULA = re.compile(r"\s*[=+\-@]|[\t\r]")
"""What a spreadsheet takes for a formula where a cell begins with it."""


def read_table(
    path: str, *, encoding: str | None = None, labels: Sequence[Any] = ()
) -> pd.DataFrame:
    """Read a CSV or Parquet file by its ending.

    Parameters
    ----------
    path : of the file; ``-`` for standard input, CSV or Parquet.
    encoding : of a CSV file; None for UTF-8.
    labels : columns that hold labels: 01 and 1 are two of them, so such a column is text.
    """
    source = Path(path)
    refuse_missing(path)
    if source.is_dir():
        raise DataError(f"{path!r} is a folder. Give one CSV or Parquet file.")
    try:
        if path == STANDARD:
            return _read_standard(encoding, labels)
        if source.suffix.lower() in PARQUET:
            return _read_parquet(source)
        return read_csv(source, encoding, labels)
    except pd.errors.EmptyDataError as error:
        raise DataError(f"The file {path!r} is empty.") from error
    except UnicodeError as error:
        raise DataError(
            f"The file {path!r} is not encoded as {encoding or 'UTF-8'}: {error}. Say how it is "
            "encoded, such as --encoding cp1252 (Windows, Western Europe), latin-1 or utf-16."
        ) from error
    except (pd.errors.ParserError, EOFError, OSError, ValueError, zlib.error, BadZipFile) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "unknown reason"
        raise DataError(
            f"The file {path!r} cannot be read: {reason}. It may be truncated or of another kind."
        ) from error


def _read_standard(encoding: str | None, labels: Sequence[Any]) -> pd.DataFrame:
    content = standard_input()
    if content.getvalue().startswith(b"PAR1"):
        return _read_parquet(content)
    return read_csv(content, encoding, labels)


def _read_parquet(source: Path | BytesIO) -> pd.DataFrame:
    try:
        return pd.read_parquet(source)
    except ImportError as error:
        raise MissingDependencyError(NEEDS_PYARROW) from error


def labels_of(fit: FitResult) -> list[str]:
    """Return the columns that held labels when a model was fitted."""
    from selfselect.posing import label_columns

    facts, coders = fit.facts, getattr(fit.coding, "coders", ())
    named = label_columns(dict(enumerate(facts.formulas)), chosen=facts.chosen, case=facts.case)
    return [*named, *(name for coder in coders for name in sorted(coder.categorical))]


def check_target(path: str | None, *inputs: str) -> None:
    """Refuse a file that cannot be written to, before the work that would be lost."""
    if path is None or path == STANDARD:
        return
    refuse_inputs(path, *inputs)
    try:
        refuse_target(path)
    except OSError as error:
        raise _unwritten(path, error) from error


def check_out(path: str | None, *inputs: str) -> None:
    """Do the same for a table, whose ending must be one of theirs."""
    check_target(path, *inputs)
    if path is None or path == STANDARD:
        return
    ending = Path(path).suffix.lower()
    if ending not in (*TEXT, *PARQUET, *COMPRESSED):
        raise DataError(
            f"{path!r} ends in {ending}, but tables are written as CSV or Parquet: let the name "
            "end in .csv, .csv.gz or .parquet."
        )


def refuse_inputs(path: str | None, *inputs: str) -> None:
    """Refuse to write over a file that is read: what was in it would be lost."""
    if path is None or path == STANDARD or not is_there(path):
        return
    target = Path(path).resolve()
    for one in inputs:
        source = Path(one).resolve()
        # Of a folder, files of rows are read and others left alone.
        if target == source or (source in target.parents and ending_of(target)):
            raise DataError(
                f"{path!r} is read by this command, and what is in it would be lost. Write to "
                "another file."
            )


def _unwritten(path: str, error: OSError) -> DataError:
    return DataError(
        f"Nothing could be written to {path!r}: {error.strerror or error}. What was there before "
        "is unharmed."
    )


def for_spreadsheets(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose text no spreadsheet takes for a formula.

    Text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return gets an
    apostrophe in front, as spreadsheets mark text; names of columns as well. Numbers, and text
    that reads as a number, stay as they are.
    """
    columns = [
        column
        if pd.api.types.is_numeric_dtype(column.dtype)
        else column.map(_as_text, na_action="ignore")
        for _, column in frame.items()
    ]
    made = pd.concat(columns, axis=1) if columns else frame
    return made.set_axis([_as_text(name) for name in frame.columns], axis=1)


def _as_text(cell: Any) -> Any:
    if not isinstance(cell, str) or not FORMULA.match(cell):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def joined(table: pd.DataFrame | pd.Series[Any], beside: pd.DataFrame | None) -> pd.DataFrame:
    """Return a table whose columns have a text each, columns `beside` it first."""
    frame = flat_columns(table)
    if beside is None:
        return frame
    twice = [name for name in beside.columns if name in frame.columns]
    if twice:
        raise DataError(f"There would be two columns {twice[0]!r}: it cannot be kept.")
    return pd.concat([beside.set_axis(frame.index), frame], axis=1)


def write_table(
    table: pd.DataFrame | pd.Series[Any],
    out: str | None,
    *,
    index: bool,
    beside: pd.DataFrame | None = None,
) -> None:
    """Write a table, columns `beside` it first, to a CSV or Parquet file, or to standard output.

    A file appears whole or not at all. In CSV no text is left that a spreadsheet would run.
    """
    frame = joined(table, beside)
    if out is None or out == STANDARD:
        click.echo(for_spreadsheets(frame).to_csv(index=index), nl=False)
        return
    ending = Path(out).suffix.lower()
    try:
        with whole_file(out) as file:
            if ending in PARQUET:
                frame.to_parquet(file, index=index)
            else:
                _write_csv(for_spreadsheets(frame), file, index=index, how=COMPRESSED.get(ending))
    except ImportError as error:
        raise MissingDependencyError(NEEDS_PYARROW) from error
    except OSError as error:
        raise _unwritten(out, error) from error


def _write_csv(frame: pd.DataFrame, file: Any, *, index: bool, how: Any) -> None:
    """Write a table as text, with progress where that takes seconds."""
    if how is not None:
        frame.to_csv(file, index=index, mode="wb", compression=how)
        return
    with progress_bar(None, what="Writing", total=len(frame), unit="rows") as bar:
        for start in range(0, max(len(frame), 1), ROWS_AT_ONCE):
            piece = frame.iloc[start : start + ROWS_AT_ONCE]
            piece.to_csv(file, index=index, mode="wb", header=start == 0)
            bar.update(len(piece))
