"""Files as a source of rows: Parquet, CSV, Arrow and Feather, one or many."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd

from selfselect.data.source import Piece, Result
from selfselect.errors import DataError, OptionError
from selfselect.threads import parallel_map

__all__ = ["Files", "are_files", "open_files", "read_fragment"]

BATCH_ROWS = 131_072
"""Rows per piece: large enough to make calls cheap, small enough that a few of them are little."""

FORMATS = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".feather": "feather",
    ".arrow": "ipc", ".ipc": "ipc",
}  # fmt: skip

READ_AHEAD = 2
"""Batches that are decoded before they are asked for."""


def are_files(data: Any) -> bool:
    """Say whether data is given as files: a path, a pattern, a list of paths, an Arrow dataset."""
    if isinstance(data, str | Path):
        return True
    if isinstance(data, list | tuple) and data:
        return all(isinstance(one, str | Path) for one in data)
    return _is_dataset(data)


def open_files(data: Any, *, batch_rows: int = BATCH_ROWS) -> Files:
    """Find the files and look at their schemas; no row is read yet.

    Parameters
    ----------
    data : a file, a folder, a pattern such as ``rows/*.parquet``, a list of files, or a
        `pyarrow.dataset.Dataset`.
    batch_rows : how many rows are read at a time.
    """
    pyarrow_dataset = _pyarrow_dataset()
    if isinstance(batch_rows, bool) or not isinstance(batch_rows, int) or batch_rows < 1:
        raise OptionError(f"batch_rows={batch_rows!r} is not possible. Give a whole number from 1.")
    if _is_dataset(data):
        return Files(data, "an Arrow dataset", batch_rows)
    paths = _paths(data)
    kinds = {_format(path) for path in paths}
    if len(kinds) > 1:
        raise DataError(
            f"The files are of different formats ({', '.join(sorted(kinds))}). Give files of one."
        )
    kind = kinds.pop()
    names = [str(path) for path in paths]
    try:
        dataset = pyarrow_dataset.dataset(names[:1], format=kind)
        if kind == "csv":
            dataset = _with_decimals(dataset, names)
        else:
            dataset = pyarrow_dataset.dataset(names, format=kind, schema=dataset.schema)
    except (OSError, ValueError) as error:
        raise DataError(f"{names[0]} cannot be read as {kind}: {_reason(error)}") from error
    title = names[0] if len(names) == 1 else f"{len(names)} files, {names[0]} to {names[-1]}"
    return Files(dataset, title, batch_rows)


@dataclass(frozen=True, eq=False)
class Files:
    """Rows in files, read in batches with a bounded buffer.

    Attributes
    ----------
    dataset : the files as an Arrow dataset.
    title : what it is, for messages.
    batch_rows : rows read at a time.
    """

    dataset: Any
    title: str
    batch_rows: int = BATCH_ROWS

    @property
    def names(self) -> list[str]:
        return list(self.dataset.schema.names)

    @cached_property
    def fingerprint(self) -> str:
        known = sha256(str(self.dataset.schema).encode())
        for name in self.dataset.files if hasattr(self.dataset, "files") else ():
            path = Path(name)
            state = path.stat() if path.exists() else None
            known.update(f"{name} {state and (state.st_size, state.st_mtime_ns)}".encode())
        return known.hexdigest()

    def map(
        self, task: Callable[[Piece], Result], columns: Sequence[str], *, n_threads: int
    ) -> Iterator[Result]:
        yield from parallel_map(task, self._pieces(columns), n_threads=n_threads)

    def sums(
        self, task: Callable[[Piece], Any], columns: Sequence[str], *, n_threads: int
    ) -> Iterator[Any]:
        yield from self.map(task, columns, n_threads=n_threads)

    def fragments(self) -> Iterator[tuple[str, Any]]:
        """Yield the parts that can be read on their own, each with the name of its file."""
        for fragment in self.dataset.get_fragments():
            whole = not hasattr(fragment, "split_by_row_group")
            for part in [fragment] if whole else fragment.split_by_row_group():
                yield _name(fragment), part

    def _pieces(self, columns: Sequence[str]) -> Iterator[Piece]:
        number = 0
        for fragment in self.dataset.get_fragments():
            for batch in self._batches(fragment, columns):
                if batch.num_rows:
                    yield Piece(number, _name(fragment), _to_pandas(batch))
                    number += 1

    def _batches(self, fragment: Any, columns: Sequence[str]) -> Iterator[Any]:
        import pyarrow

        try:
            yield from fragment.to_batches(
                schema=self.dataset.schema,
                columns=list(columns),
                batch_size=self.batch_rows,
                batch_readahead=READ_AHEAD,
                fragment_readahead=1,
            )
        except (pyarrow.ArrowException, OSError) as error:
            raise DataError(
                f"{_name(fragment)} cannot be read: {_reason(error)} Write the file again, or "
                "leave it out."
            ) from error

    def head(self, columns: Sequence[str]) -> pd.DataFrame:
        return _to_pandas(self.dataset.head(1_000, columns=list(columns)))

    def table(self, columns: Sequence[str]) -> pd.DataFrame:
        """Return all rows at once."""
        import pyarrow

        self.check(columns)
        try:
            return _to_pandas(self.dataset.to_table(columns=list(columns)).unify_dictionaries())
        except (pyarrow.ArrowException, OSError) as error:
            raise DataError(f"{self.title} cannot be read: {_reason(error)}") from error

    def check(self, columns: Sequence[str]) -> None:
        """Refuse files that cannot be read, lack a column, or hold it as another type.

        Parquet and Arrow files say so themselves, before any row is read.
        """
        import pyarrow

        wanted = self.dataset.schema
        for fragment in self.dataset.get_fragments():
            try:
                schema = fragment.physical_schema
            except (pyarrow.ArrowException, OSError) as error:
                raise DataError(
                    f"{_name(fragment)} cannot be read: {_reason(error)} Write the file again, or "
                    "leave it out."
                ) from error
            for name in columns:
                if name not in schema.names:
                    raise DataError(
                        f"{_name(fragment)} has no column {name!r}, which the other files have. "
                        "All files need the same columns."
                    )
                found, expected = schema.field(name).type, wanted.field(name).type
                if _kind(found) != _kind(expected):
                    raise DataError(
                        f"The column {name!r} holds {found} in {_name(fragment)} but {expected} in "
                        "the first file. Write all files with the same types."
                    )


def read_fragment(fragment: Any, schema: Any, columns: Sequence[str]) -> pd.DataFrame:
    """Read one part of a dataset at once, wherever this runs."""
    import pyarrow

    try:
        table = fragment.to_table(schema=schema, columns=list(columns))
        return _to_pandas(table.unify_dictionaries())
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(
            f"{_name(fragment)} cannot be read: {_reason(error)} Every worker must be able to "
            "read it under this name."
        ) from error


def _paths(data: Any) -> list[Path]:
    given = list(data) if isinstance(data, list | tuple) else [data]
    found: list[Path] = []
    for one in given:
        path = Path(one)
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.suffix in FORMATS and p.is_file())
            if not inside:
                raise DataError(f"The folder {one} has no {' or '.join(FORMATS)} file in it.")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            matched = sorted(Path(name) for name in glob.glob(str(one), recursive=True))
            if not matched:
                raise DataError(f"There is no file {one}. Check the path, or the pattern.")
            found += [p for p in matched if p.is_file()]
    return found


def _format(path: Path) -> str:
    if path.suffix not in FORMATS:
        raise DataError(
            f"{path} is of no known format. Files end in {', '.join(FORMATS)}; read others into a "
            "table first."
        )
    return FORMATS[path.suffix]


def _with_decimals(dataset: Any, names: list[str]) -> Any:
    """Read whole numbers of CSV as decimals: types are guessed from the first rows only."""
    import pyarrow
    import pyarrow.csv

    schema = dataset.schema
    for i, field in enumerate(schema):
        if pyarrow.types.is_integer(field.type):
            schema = schema.set(i, pyarrow.field(field.name, pyarrow.float64()))
    types = {field.name: field.type for field in schema}
    form = _pyarrow_dataset().CsvFileFormat(
        convert_options=pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    )
    return _pyarrow_dataset().dataset(names, format=form, schema=schema)


def _to_pandas(batch: Any) -> pd.DataFrame:
    # Columns of their own are views of the batch where nothing is missing.
    frame: pd.DataFrame = batch.to_pandas(split_blocks=True, self_destruct=False)
    return frame


def _kind(type_: Any) -> str:
    """Return what a column is to a formula: number, text, or something else."""
    import pyarrow.types as kinds

    if kinds.is_dictionary(type_):
        return _kind(type_.value_type)
    if kinds.is_integer(type_) or kinds.is_floating(type_) or kinds.is_decimal(type_):
        return "number"
    if kinds.is_string(type_) or kinds.is_large_string(type_) or kinds.is_string_view(type_):
        return "text"
    return str(type_)


def _name(fragment: Any) -> str:
    return getattr(fragment, "path", None) or "the dataset"


def _reason(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__).rstrip(".") + "."


def _is_dataset(data: Any) -> bool:
    return type(data).__module__.startswith("pyarrow") and hasattr(data, "get_fragments")


def _pyarrow_dataset() -> Any:
    try:
        import pyarrow.dataset
    except ImportError as error:
        raise OptionError(
            "Reading files needs pyarrow: pip install 'selfselect[parquet]'"
        ) from error
    return pyarrow.dataset
