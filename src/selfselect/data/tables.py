"""Any frame as a table, and CSV files that are read at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from importlib.util import find_spec
from io import BufferedReader, BytesIO, FileIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from selfselect.data.file_types import (
    CHANGED_BY_NUMBERS,
    COMPRESSED,
    TEXT_FORMATS,
    find_files,
    format_of,
    has_semicolons,
    may_change_labels,
    other_encoding,
    polars_categories,
    reason_of,
    refuse_semicolons,
)
from selfselect.data.files import Files, are_files, open_files
from selfselect.errors import DataError, SelfSelectWarning, warn_user
from selfselect.progress import is_watched, progress_bar

# CSV files read at once by pandas: from the shell, and where pyarrow is not installed.


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
    return _read_text(source, how)


def _read_text(source: Path | BytesIO, how: dict[str, Any]) -> pd.DataFrame:
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


# Tables of any kind, reduced to the columns a fit needs.


COPIES_ON_WRITE = int(pd.__version__.partition(".")[0]) >= 3
"""Whether frames that share their values keep them when one of them is written to."""


def column_names(data: Any) -> list[str]:
    """Return the column names of a table of any kind."""
    if are_files(data):
        data = open_whole(data)
    if isinstance(data, Files | TextFiles):
        return data.names
    if isinstance(data, Mapping):
        return [str(name) for name in data]
    if isinstance(data, pd.DataFrame):
        return [str(name) for name in data.columns]
    return list(_through_narwhals(data).collect_schema().names())


def to_frame(data: Any, columns: Iterable[str]) -> pd.DataFrame:
    """Return `columns` of a table as a pandas frame, or say which one is not there.

    Parameters
    ----------
    data : a pandas or polars frame, a pyarrow table, anything narwhals reads, a mapping of
        column names to arrays, or files.
    columns : the names that are needed; others are never converted.
    """
    wanted = list(dict.fromkeys(columns))
    if are_files(data):
        data = open_whole(data)
    present = column_names(data)
    for name in wanted:
        if name == "":
            raise DataError("A column name is empty. Name the column, and use its name.")
        if name not in present:
            raise DataError(f"There is no column {name!r} in the data.{nearest(name, present)}")
        if present.count(name) > 1:
            raise DataError(
                f"The data has {present.count(name)} columns named {name!r}. Rename or drop all "
                "but one: it is not clear which is meant."
            )
    if isinstance(data, pd.DataFrame):
        return _from_pandas(data, [present.index(name) for name in wanted], wanted)
    # Without a column a table of most kinds has no rows: one tells how many there are.
    made = _read(data, wanted or present[:1])
    return made if wanted else made[[]]


def _read(data: Any, wanted: list[str]) -> pd.DataFrame:
    """Return columns that are there of any table but a pandas frame."""
    if isinstance(data, Files | TextFiles):
        return data.table(wanted)
    if isinstance(data, Mapping):
        return _from_mapping(data, wanted)
    frame = _through_narwhals(data).select(wanted)
    frame = frame.collect() if hasattr(frame, "collect") else frame
    made: pd.DataFrame = frame.to_pandas()
    for name in _categories_as_met(frame):
        labels = made[name].cat.categories
        made[name] = made[name].cat.reorder_categories(sorted(labels))
    return made


def _categories_as_met(frame: Any) -> Iterator[str]:
    """Yield the columns whose categories are listed in the order in which rows hold them."""
    import narwhals.stable.v2 as nw

    if frame.implementation.is_polars():
        yield from (name for name, kind in frame.schema.items() if kind == nw.Categorical)
    elif frame.implementation.is_pyarrow():
        yield from polars_categories(frame.to_native().schema)


def in_table_order(data: Any, columns: Iterable[str]) -> list[str]:
    """Return names in the order of a pandas frame, of which neighbours are not copied."""
    if not isinstance(data, pd.DataFrame):
        return list(columns)
    place = {name: at for at, name in enumerate(column_names(data))}
    return sorted(columns, key=lambda name: place.get(name, len(place)))


def _from_pandas(data: pd.DataFrame, places: list[int], names: list[str]) -> pd.DataFrame:
    """Return the columns at some places, in the order given.

    Neighbours are not copied where pandas copies what is written to later.
    """
    first = places[0] if places else 0
    if places == list(range(first, first + len(places))):
        chosen = data.iloc[:, first : first + len(places)].copy(deep=not COPIES_ON_WRITE)
    else:
        chosen = data.take(places, axis=1)
    chosen.columns = pd.Index(names)
    return chosen


def nearest(name: str, present: Iterable[str]) -> str:
    """Word a hint that names the nearest of the names there are."""
    present = list(present)
    near = get_close_matches(name, present, n=3, cutoff=0.5)
    if near:
        return f" Did you mean {' or '.join(map(repr, near))}?"
    shown = ", ".join(present[:12]) + (", ..." if len(present) > 12 else "")
    return f" It has: {shown}." if present else " It has no columns at all."


def _from_mapping(data: Mapping[Any, Any], wanted: list[str]) -> pd.DataFrame:
    by_text = {str(name): values for name, values in data.items()}
    _refuse_other_orders({name: by_text[name] for name in wanted})
    # Values belong together by position: an index a series may bring along must not reorder them.
    arrays = {
        name: values.reset_index(drop=True) if isinstance(values, pd.Series) else _on_host(values)
        for name, values in ((name, by_text[name]) for name in wanted)
    }
    for name, values in arrays.items():
        if np.ndim(values) != 1:
            kind = "is a single value" if np.ndim(values) == 0 else "is not one-dimensional"
            raise DataError(f"The column {name!r} {kind}. Give one value per row.")
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise DataError(f"The columns have different lengths ({listed}). Make them equal.")
    return pd.DataFrame(arrays)


def _refuse_other_orders(columns: Mapping[str, Any]) -> None:
    """Refuse series of the same rows in another order: by position they would be mixed up."""
    indexed = {name: one.index for name, one in columns.items() if isinstance(one, pd.Series)}
    first = next(iter(indexed), "")
    for name, index in indexed.items():
        if in_another_order(index, indexed[first]):
            raise DataError(
                f"The columns {first!r} and {name!r} are series with the same index in another "
                "order, so it is not clear which values belong together. Give a frame, "
                "pd.DataFrame(data), which goes by the index, or arrays in the order of the rows."
            )


def in_another_order(index: pd.Index[Any], other: pd.Index[Any]) -> bool:
    """Say whether two series are of the same rows in another order."""
    if index is other or len(index) != len(other) or index.equals(other):
        return False
    return bool(index.is_unique and other.is_unique and index.isin(other).all())


def _on_host(values: Any) -> Any:
    """Copy a tensor from whatever device it lives on; columns may live on different ones."""
    return values.detach().cpu().numpy() if hasattr(values, "detach") else values


def _through_narwhals(data: Any) -> Any:
    import narwhals.stable.v2 as nw

    try:
        return nw.from_native(data)
    except TypeError as error:
        raise DataError(
            f"A {type(data).__name__} is not a table. Give a pandas or polars frame, a pyarrow "
            "table, or a dict of arrays; for NumPy arrays use SelfSelectionRegressor."
        ) from error
