"""Reading and writing tables from the shell: CSV and Parquet."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import click
import pandas as pd

from selfselect.errors import DataError, MissingDependencyError
from selfselect.results.streaming import flat_columns

__all__ = ["read_table", "write_table"]

NEEDS_PYARROW = "Parquet files need pyarrow: pip install 'selfselect[parquet]'"


def read_table(path: str) -> pd.DataFrame:
    """Read a CSV or Parquet file by its ending."""
    source = Path(path)
    if not source.exists():
        raise DataError(f"There is no file {path!r}.")
    if source.is_dir():
        raise DataError(f"{path!r} is a folder. Give one CSV or Parquet file.")
    try:
        if source.suffix.lower() in (".parquet", ".pq"):
            return _read_parquet(source)
        return pd.read_csv(source, **_separator(source))
    except pd.errors.EmptyDataError as error:
        raise DataError(f"The file {path!r} is empty.") from error
    except (pd.errors.ParserError, EOFError, OSError, ValueError, zlib.error, BadZipFile) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "unknown reason"
        raise DataError(
            f"The file {path!r} cannot be read: {reason}. It may be truncated or of another kind."
        ) from error


def _separator(source: Path) -> dict[str, Any]:
    """Return how fields are separated; in .txt files that is found out, which is slower."""
    if ".txt" in source.suffixes:
        return {"sep": None, "engine": "python"}
    return {"sep": "\t" if ".tsv" in source.suffixes else ","}


def _read_parquet(source: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(source)
    except ImportError as error:
        raise MissingDependencyError(NEEDS_PYARROW) from error


def write_table(
    table: pd.DataFrame | pd.Series[Any],
    out: str | None,
    *,
    index: bool,
    beside: pd.DataFrame | None = None,
) -> None:
    """Write a table, columns `beside` it first, to a CSV or Parquet file, or to standard output."""
    frame = flat_columns(table)
    if beside is not None:
        twice = [name for name in beside.columns if name in frame.columns]
        if twice:
            raise DataError(f"There would be two columns {twice[0]!r}: it cannot be kept.")
        frame = pd.concat([beside.set_axis(frame.index), frame], axis=1)
    if out is None:
        click.echo(frame.to_csv(index=index), nl=False)
        return
    try:
        if Path(out).suffix.lower() in (".parquet", ".pq"):
            frame.to_parquet(out, index=index)
        else:
            frame.to_csv(out, index=index)
    except ImportError as error:
        raise MissingDependencyError(NEEDS_PYARROW) from error
    except OSError as error:
        raise DataError(f"Nothing could be written to {out!r}: {error}.") from error
