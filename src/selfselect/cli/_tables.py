"""Tables that commands read and write, and their formats."""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import click
import pandas as pd

from selfselect.cli._streams import STANDARD, is_there, on_terminal, refuse_missing, standard_input
from selfselect.data.file_types import COMPRESSED, ending_of
from selfselect.data.tables import read_csv
from selfselect.errors import DataError, MissingDependencyError
from selfselect.inference.statistics import TestResult
from selfselect.options import Intervals
from selfselect.progress import progress_bar
from selfselect.results.fit_result import FitResult
from selfselect.results.rejections import tests_of_noise
from selfselect.results.streaming import flat_columns, refuse_target, whole_file

if TYPE_CHECKING:
    from selfselect.multinomial.result import MultinomialResult


# Reading and writing tables from the shell: CSV and Parquet.


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


# A fit in the formats the shell can ask for.


def render(
    fit: FitResult | MultinomialResult,
    form: str,
    level: float,
    intervals: Intervals = "wald",
    *,
    stars: bool = False,
) -> str:
    """Return the summary of a fit in one of the formats of --format."""

    def page() -> Any:
        return fit.summary(level, intervals=intervals, stars=stars)

    forms: dict[str, Callable[[], str]] = {
        "text": lambda: page().to_text(),
        "latex": lambda: page().to_latex(),
        "markdown": lambda: page().to_markdown(),
        "html": lambda: page().to_html(),
        "csv": lambda: (
            for_spreadsheets(fit.tidy(level, intervals=intervals)).to_csv(index=False).rstrip("\n")
        ),
        "json": lambda: _as_json(fit, level, intervals),
    }
    return forms[form]()


def json_lines(table: pd.DataFrame) -> str:
    """Return one JSON object per row and line; missing and infinite numbers are null."""
    return "\n".join(
        json.dumps(one, allow_nan=False, default=str, ensure_ascii=False) for one in _records(table)
    )


def show_table(page: Any, table: pd.DataFrame, out: str | None, *, as_json: bool) -> None:
    """Print a page, or its table as JSON lines, or write the table to a file."""
    if as_json and out is not None:
        raise click.UsageError("--json prints the table and --out writes it. Give one of them.")
    if as_json:
        click.echo(json_lines(table))
    elif out is None:
        with on_terminal():
            click.echo(str(page))
    else:
        write_table(table, out, index=False)


def _as_json(fit: FitResult | MultinomialResult, level: float, intervals: Intervals) -> str:
    content: dict[str, Any] = {
        "notices": list(fit.summary(level).notices),
        "status": fit.status,
        "fit": _records(fit.glance())[0],
        "counts": {str(label): int(count) for label, count in fit.counts.items()},
        "coefficients": _records(fit.tidy(level, intervals=intervals)),
    }
    if isinstance(fit, FitResult):
        normality, variance = tests_of_noise(fit)
        content["independence_test"] = _as_plain(fit.independence_test())
        content["normality_test"] = _as_plain(normality)
        content["heteroskedasticity_test"] = _as_plain(variance)
    else:
        content["selection_test"] = _as_plain(fit.selection_test())
    return json.dumps(content, indent=2, allow_nan=False, default=str)


def _as_plain(test: TestResult) -> dict[str, Any]:
    return {
        "statistic": test.statistic if test.possible or test.undecided else None,
        "df": test.df,
        "df_residual": test.df_residual,
        "p_value": test.p_value if test.possible else None,
        "replications": test.replications,
        "reason": test.reason,
    }


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as plain dicts, missing and infinite numbers as null, as JSON wants it."""

    def plain(value: Any) -> Any:
        unknown = pd.isna(value) or (isinstance(value, float) and math.isinf(value))
        return None if unknown else value

    return [
        {str(name): plain(value) for name, value in row.items()}
        for row in table.to_dict(orient="records")
    ]
