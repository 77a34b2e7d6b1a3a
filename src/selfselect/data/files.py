"""Files as a source of rows: Parquet, CSV, Arrow and Feather, one or many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd

from selfselect.data.file_types import (
    CHANGED_BY_NUMBERS,
    FORMATS,
    TEXT_FORMATS,
    State,
    check_encoding,
    common_schema,
    ending_of,
    file_state,
    find_files,
    folder_schema,
    folder_values,
    format_of,
    kind_of,
    may_change_labels,
    name_of,
    other_encoding,
    polars_categories,
    reading,
    reason_of,
    refuse_changed,
    refuse_other_encoding,
    refuse_semicolons,
    text_as_categories,
    text_format,
    with_decimals,
)
from selfselect.data.rows import Piece, Result
from selfselect.errors import DataError, MissingDependencyError, OptionError
from selfselect.threads import parallel_map, thread_count

MOST_ROWS = 131_072
"""Rows per piece: large enough to make calls cheap, small enough that a few of them are little."""

MOST_VALUES = 4_000_000
"""Values per piece, which tables of many columns reach with fewer rows: 32 MB of doubles."""

READ_AHEAD = 2
"""Batches that are decoded before they are asked for."""


def are_files(data: Any) -> bool:
    """Say whether data is given as files: a path, a pattern, a list of paths, an Arrow dataset."""
    if isinstance(data, str | Path):
        return True
    if isinstance(data, list | tuple) and data:
        return all(isinstance(one, str | Path) for one in data)
    return _is_dataset(data)


def open_files(data: Any, *, batch_rows: int | None = None, encoding: str | None = None) -> Files:
    """Find the files and look at their schemas; no row is read yet.

    Parameters
    ----------
    data : a file, a folder, a pattern such as ``rows/*.parquet``, a list of files, or a
        `pyarrow.dataset.Dataset`.
    batch_rows : how many rows are read at a time; None for as many as suit the columns.
    encoding : of CSV files; None for UTF-8.
    """
    if isinstance(data, Files):
        return data
    pyarrow_dataset = _pyarrow_dataset()
    whole = isinstance(batch_rows, int) and not isinstance(batch_rows, bool)
    if batch_rows is not None and not (whole and batch_rows >= 1):
        raise OptionError(f"batch_rows={batch_rows!r} is not possible. Give a whole number from 1.")
    if _is_dataset(data):
        filed = hasattr(data, "files")
        return Files(
            data.replace_schema(common_schema(data)) if filed else data,
            "an Arrow dataset",
            {name: file_state(name) for name in getattr(data, "files", ())},
            batch_rows,
            polars_categories(data.schema),
        )
    if not are_files(data):
        raise DataError(
            f"A {type(data).__name__} is no file. Give a path, a pattern, a list of them, or an "
            "Arrow dataset; tables are for engine=selfselect.engines.Memory()."
        )
    names = [str(path) for path in find_files(data)]
    kinds = {format_of(name) for name in names}
    if len(kinds) > 1:
        raise DataError(
            f"The files are of different formats ({', '.join(sorted(kinds))}). Give files of one."
        )
    kind = kinds.pop()
    check_encoding(encoding, kind)
    states = {name: file_state(name) for name in names}
    if kind == "csv":
        refuse_semicolons(names[0], encoding)
    form: Any = text_format(kind, encoding=encoding) if kind in TEXT_FORMATS else kind
    try:
        dataset, folders = _first_look(names, form)
    except UnicodeError as error:
        raise other_encoding(names[0], "a name of a column") from error
    except (OSError, ValueError) as error:
        raise DataError(f"{names[0]} cannot be read as {kind}: {reason_of(error)}") from error
    title = names[0] if len(names) == 1 else f"{len(names)} files, {names[0]} to {names[-1]}"
    if kind in TEXT_FORMATS:
        refuse_other_encoding(dataset.schema, names[0])
        schema = with_decimals(dataset.schema)
        typed = partial(_text_dataset, kind, encoding, schema, folders)
        return Files(typed(names, {}), title, states, batch_rows, typed=typed)
    schema = common_schema(dataset)
    text = polars_categories(dataset.schema)
    if kind == "parquet":
        schema, plain = text_as_categories(schema, next(dataset.get_fragments()).physical_schema)
        text |= plain
        form = pyarrow_dataset.ParquetFileFormat(dictionary_columns=sorted(text))
    dataset = pyarrow_dataset.dataset(
        names, format=form, schema=schema, partitioning=_partitioning(folders)
    )
    return Files(dataset, title, states, batch_rows, text)


def _text_dataset(
    kind: str,
    encoding: str | None,
    schema: Any,
    folders: Any,
    names: list[str],
    types: Mapping[str, Any],
) -> Any:
    """Return files of separated text as a dataset, some columns of which have other types."""
    import pyarrow

    fields = [pyarrow.field(one.name, types.get(one.name, one.type)) for one in schema]
    form = text_format(kind, {one.name: one.type for one in fields}, encoding)
    return _pyarrow_dataset().dataset(
        names, format=form, schema=pyarrow.schema(fields), partitioning=_partitioning(folders)
    )


@dataclass(frozen=True, eq=False)
class Files:
    """Rows in files, read in batches with a bounded buffer.

    Attributes
    ----------
    dataset : the files as an Arrow dataset.
    title : what it is, for messages.
    states : what changes when a file does, by its name, as it was when the files were opened.
    batch_rows : rows read at a time; None for as many as suit the columns.
    text : columns of text that are read as categories, which is how Parquet and polars hold them,
        and the types they have.
    typed : of files of separated text, makes a dataset of some of them with other types of some
        columns.
    types : those types.
    together : a column of which rows of one value that follow each other stay in one batch.
    """

    dataset: Any
    title: str
    states: Mapping[str, State]
    batch_rows: int | None = None
    text: Mapping[str, Any] = field(default_factory=dict)
    typed: Callable[[list[str], Mapping[str, Any]], Any] | None = None
    types: Mapping[str, Any] = field(default_factory=dict)
    together: str | None = None

    @property
    def names(self) -> list[str]:
        return list(self.dataset.schema.names)

    @cached_property
    def n_rows(self) -> int | None:
        """How many rows there are, where files say so without being read."""
        named = {ending_of(Path(name)) for name in getattr(self.dataset, "files", ())}
        known = all(FORMATS.get(ending or "") == "parquet" for ending in named)
        return self.dataset.count_rows() if named and known else None

    @property
    def fingerprint(self) -> str:
        known = sha256(str(self.dataset.schema).encode())
        for name, state in self.states.items():
            known.update(f"{name} {state}".encode())
        return known.hexdigest()

    def map(
        self, task: Callable[[Piece], Result], columns: Sequence[str], *, n_threads: int | None
    ) -> Iterator[Result]:
        for name in self.states:
            refuse_changed(name, self.states)
        # Batches become frames where they are worked on: that takes time, too.
        whole = partial(_worked_on, task, frozenset(self.text))
        yield from parallel_map(whole, self.batches(columns), n_threads=n_threads)

    def sums(
        self, task: Callable[[Piece], Any], columns: Sequence[str], *, n_threads: int | None
    ) -> Iterator[Any]:
        yield from self.map(task, columns, n_threads=n_threads)

    def fragments(self) -> Iterator[tuple[str, Any]]:
        """Yield the parts that can be read on their own, each with the name of its file.

        A part of separated text is made anew where it is read: one that travels to another
        process loses its encoding.
        """
        for fragment in self.dataset.get_fragments():
            if self.typed is not None:
                yield (
                    name_of(fragment),
                    partial(_only_fragment, self.typed, name_of(fragment), self.types),
                )
                continue
            whole = not hasattr(fragment, "split_by_row_group")
            for part in [fragment] if whole else fragment.split_by_row_group():
                yield name_of(fragment), part

    def with_people(self, panel: str) -> Files:
        """Return the same files, read so that a person's rows that follow each other stay together.

        Where all rows of a person follow each other, they are then in one batch.
        """
        return replace(self, together=panel)

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[int, str, Any, int]]:
        """Yield number, file, rows and position in the file of all batches that have rows."""
        read, together = self._batches(columns), self.together
        if together is None or together not in columns:
            return read
        # Imported here: few processes read panels from files.
        from selfselect.data.rows import keep_together

        return keep_together(read, together)

    def _batches(self, columns: Sequence[str]) -> Iterator[tuple[int, str, Any, int]]:
        rows = self.batch_rows or min(MOST_ROWS, MOST_VALUES // max(len(columns), 1) + 1)
        number = 0
        for fragment in self.dataset.get_fragments():
            first = 0
            with reading(fragment, self.states):
                for batch in fragment.to_batches(
                    schema=self.dataset.schema,
                    columns=list(columns),
                    batch_size=rows,
                    batch_readahead=READ_AHEAD,
                    fragment_readahead=1,
                    use_threads=thread_count() > 1,
                ):
                    if batch.num_rows:
                        yield number, name_of(fragment), batch, first
                        number += 1
                        first += batch.num_rows

    def head(self, columns: Sequence[str]) -> pd.DataFrame:
        for _, _, batch, _ in self.batches(columns):
            return to_pandas(batch.slice(0, 1_000))
        return to_pandas(self.dataset.schema.empty_table().select(list(columns)))

    def table(self, columns: Sequence[str]) -> pd.DataFrame:
        """Return all rows at once."""
        import pyarrow

        self.check(columns)
        schema = self.dataset.schema
        kept = pyarrow.schema([schema.field(name) for name in dict.fromkeys(columns)])
        batches = [batch for _, _, batch, _ in self._batches(columns)]
        table = pyarrow.Table.from_batches(batches, kept)
        return to_pandas(with_text(table, self.text).unify_dictionaries())

    def with_labels(self, columns: Sequence[str]) -> Files:
        """Return the same files, with columns of labels as text where a number would change one.

        In files of separated text nothing says whether 01 is a number. Labels such as 01 and 1
        are two, and so are two of sixteen digits that differ in the last one. So a column of
        labels is a number only where doubles keep all of them.
        """
        import pyarrow
        import pyarrow.compute

        if self.typed is None:
            return self
        schema, inside = self.dataset.schema, next(self.dataset.get_fragments()).physical_schema
        left = {
            name
            for name in columns
            if name in inside.names and kind_of(schema.field(name).type) == "number"
        }
        if not left or not any(map(may_change_labels, self.dataset.files)):
            return self
        found: set[str] = set()
        as_text = self._with_types(dict.fromkeys(left, pyarrow.string()))
        for _, _, batch, _ in as_text.batches(sorted(left)):
            for name in sorted(left - found):
                changed = pyarrow.compute.match_substring_regex(
                    batch.column(name), CHANGED_BY_NUMBERS
                )
                if pyarrow.compute.any(changed).as_py():
                    found.add(name)
            if found == left:
                break
        return self._with_types(dict.fromkeys(found, pyarrow.string())) if found else self

    def _with_types(self, types: Mapping[str, Any]) -> Files:
        assert self.typed is not None
        return replace(self, dataset=self.typed(list(self.dataset.files), types), types=types)

    def check(self, columns: Sequence[str]) -> None:
        """Refuse files that cannot be read, lack a column, or hold it as another type.

        Parquet and Arrow files say so themselves, before any row is read.
        """
        wanted = self.dataset.schema
        for fragment in self.dataset.get_fragments():
            with reading(fragment, self.states):
                schema = fragment.physical_schema
            for name in columns:
                if name in _pyarrow_dataset().get_partition_keys(fragment.partition_expression):
                    continue
                if name not in schema.names:
                    raise DataError(
                        f"{name_of(fragment)} has no column {name!r}, which the first file has. "
                        "All files need the same columns."
                    )
                if schema.names.count(name) > 1:
                    raise DataError(
                        f"{name_of(fragment)} has several columns named {name!r}: it is not clear "
                        "which is meant. Rename all but one."
                    )
                found, expected = (kind_of(one.field(name).type) for one in (schema, wanted))
                if found not in (expected, "nothing"):
                    raise DataError(
                        f"The column {name!r} holds {found} in {name_of(fragment)} but {expected} "
                        "in the first file. Write all files with the same types."
                    )


def _worked_on(
    task: Callable[[Piece], Result], text: frozenset[str], numbered: tuple[int, str, Any, int]
) -> Result:
    number, name, batch, first = numbered
    return task(Piece(number, name, to_pandas(batch), first, text))


def with_text(rows: Any, text: Mapping[str, Any]) -> Any:
    """Return a table or batch with text as text, of the types that columns of `text` have."""
    import pyarrow

    fields = [pyarrow.field(one.name, text.get(one.name, one.type)) for one in rows.schema]
    return rows.cast(pyarrow.schema(fields))


def read_fragment(
    fragment: Any,
    schema: Any,
    columns: Sequence[str],
    text: Mapping[str, Any],
    states: Mapping[str, State],
) -> pd.DataFrame:
    """Read one part of a dataset at once, wherever and whenever this runs.

    `text` and `states` are as in `Files`: a worker that reads the part again, because another one
    was lost, refuses a file that is no longer the same.
    """
    if isinstance(fragment, partial):
        fragment = fragment()
    with reading(fragment, states):
        table = fragment.to_table(schema=schema, columns=list(columns))
    return to_pandas(with_text(table, text).unify_dictionaries())


def _only_fragment(
    typed: Callable[[list[str], Mapping[str, Any]], Any], name: str, types: Mapping[str, Any]
) -> Any:
    return next(typed([name], types).get_fragments())


def _first_look(names: list[str], form: Any) -> tuple[Any, Any]:
    """Return the files as a dataset with the first one's schema, and the columns of folders."""
    inside = _pyarrow_dataset().dataset(names, format=form)
    folders = folder_schema(folder_values(names), inside.schema)
    if folders is None:
        return inside, None
    dataset = _pyarrow_dataset().dataset(names, format=form, partitioning=_partitioning(folders))
    return dataset, folders


def _partitioning(folders: Any) -> Any:
    return None if folders is None else _pyarrow_dataset().partitioning(folders, flavor="hive")


def to_pandas(batch: Any) -> pd.DataFrame:
    """Return a batch or table as a frame; columns are views of it where nothing is missing."""
    frame: pd.DataFrame = batch.to_pandas(split_blocks=True, self_destruct=False)
    return frame


def _is_dataset(data: Any) -> bool:
    return type(data).__module__.startswith("pyarrow") and hasattr(data, "get_fragments")


def _pyarrow_dataset() -> Any:
    try:
        import pyarrow.dataset
    except ImportError as error:
        raise MissingDependencyError(
            "Reading files needs pyarrow: pip install 'selfselect[parquet]'. CSV files can be read "
            "at once without it: engine=selfselect.engines.Memory()."
        ) from error
    return pyarrow.dataset
