"""Names and types of files."""

from __future__ import annotations

import codecs
import glob
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pandas as pd

from selfselect.errors import DataError, OptionError

# Names of files: found by path, folder or pattern, and what their endings say.


FORMATS = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".csv.gz": "csv", ".tsv": "tsv",
    ".tsv.gz": "tsv", ".feather": "feather", ".arrow": "ipc", ".ipc": "ipc",
}  # fmt: skip

COMPRESSED: dict[str, Any] = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zip": "zip"}
"""How pandas calls the compression of a file, by the last ending of its name."""

TEXT_FORMATS = frozenset({"csv", "tsv"})

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The folder of rows whose value is missing."""


def find_files(data: Any) -> list[Path]:
    """Return the files of a path, a folder, a pattern, or a list of them."""
    given = list(data) if isinstance(data, list | tuple) else [data]
    if "" in given:
        raise DataError("The name of the file is empty. Give a path, or a pattern.")
    found: list[Path] = []
    for one in given:
        path = Path(one).expanduser()
        if path.is_dir():
            # Hidden files are what others left behind or have not finished.
            shown = (p for p in path.rglob("*") if not p.name.startswith((".", "_")))
            inside = sorted(p for p in shown if ending_of(p) and p.is_file())
            if not inside:
                raise DataError(f"The folder {one} has no {' or '.join(FORMATS)} file in it.")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            matched = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
            if not matched:
                raise DataError(f"There is no file {one}. Check the path, or the pattern.")
            found += [p for p in matched if p.is_file()]
    if len(set(found)) < len(found):
        twice = next(path for path in found if found.count(path) > 1)
        raise DataError(f"The file {twice} is given twice, so its rows would count twice.")
    return found


def ending_of(path: Path) -> str | None:
    """Return the ending that tells the format of a file; None where it is not known."""
    endings = ("".join(path.suffixes[-2:]).lower(), path.suffix.lower())
    return next((ending for ending in endings if ending in FORMATS), None)


def format_of(name: str) -> str:
    """Return the format of a file by its ending."""
    ending = ending_of(Path(name))
    if ending is None:
        raise DataError(
            f"{name} is of no known format. Files end in {', '.join(FORMATS)}; read others into a "
            "table first."
        )
    return FORMATS[ending]


def folder_values(names: Iterable[str]) -> dict[str, set[str]]:
    """Return the columns that folders such as ``year=2020`` name, and their values as text."""
    found: dict[str, set[str]] = {}
    for name in names:
        for folder in Path(name).parts[:-1]:
            column, sign, value = folder.partition("=")
            if sign and value != NO_VALUE:
                found.setdefault(unquote(column), set()).add(unquote(value))
            elif sign:
                found.setdefault(unquote(column), set())
    return found


# What columns of files hold: types that are common to all files, and how they are read.


State = tuple[int, int] | None
"""Size and time of change of a file; None where it is on no disk that can be asked."""

CHANGED_BY_NUMBERS = r"^\s*(0[0-9]|[+-]?[0-9]{16})"
"""What a label begins with that a double would not keep: a leading zero, or sixteen digits."""

ZERO_IN_BYTES = re.compile(rb'0[0-9](?<=[,;\n\r"\t ]..)')
LONG_IN_BYTES = re.compile(rb'[,;\n\r"\t +-][1-9][0-9]{15}')
"""The same after a separator, in bytes. Two patterns are looked for faster than one of both."""

CHUNK = 1 << 24

POLARS_CATEGORIES = b"_PL_CATEGORICAL"
"""How polars marks a column of `polars.Categorical`; one of `polars.Enum` has another mark."""

ENCODING = (
    "Say how it is encoded, such as encoding='cp1252' (Windows, Western Europe), 'latin-1' or "
    "'utf-16': engine=selfselect.engines.Parquet(encoding=...), --encoding in the shell, or "
    "pandas.read_csv(..., encoding=...)."
)


def file_state(name: str) -> State:
    """Return what changes when a file does."""
    try:
        found = Path(name).stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def may_change_labels(name: str) -> bool:
    """Say whether a file of separated text may hold a label that is no double, such as 01.

    It is a quick look at the bytes.

    False is certain: labels of other files are looked at one by one.
    """
    if Path(name).suffix.lower() not in (".csv", ".tsv"):
        return True
    tail = b"\n"
    with open(name, "rb") as file:
        while chunk := file.read(CHUNK):
            text = tail + chunk
            if b"\0" in text[:1_000]:
                return True
            if ZERO_IN_BYTES.search(text) or LONG_IN_BYTES.search(text):
                return True
            tail = chunk[-17:]
    return False


def refuse_changed(name: str, states: Mapping[str, State]) -> None:
    """Refuse a file that is not as it was when the fit first looked at it."""
    if name in states and file_state(name) != states[name]:
        raise DataError(
            f"{name} has changed since it was first read. Fit again when all files are written. "
            "Workers with copies of their own need copies that keep the time of change (cp -p)."
        )


@contextmanager
def reading(fragment: Any, states: Mapping[str, State]) -> Iterator[None]:
    """Say which file cannot be read, or has changed before it was read or meanwhile."""
    import pyarrow

    refuse_changed(name_of(fragment), states)
    try:
        yield
    except (pyarrow.ArrowException, OSError, UnicodeError) as error:
        refuse_changed(name_of(fragment), states)
        said = reason_of(error)
        if isinstance(error, UnicodeError) or "UTF8" in said:
            raise DataError(
                f"{name_of(fragment)} is not encoded as it is read: {said} {ENCODING}"
            ) from error
        raise DataError(
            f"{name_of(fragment)} cannot be read: {said} Write the file again, or leave it out."
        ) from error
    refuse_changed(name_of(fragment), states)


def check_encoding(encoding: Any, kind: str) -> None:
    """Refuse an encoding that is not known, and one for files that say theirs."""
    if encoding is None:
        return
    if kind not in ("csv", "tsv"):
        raise OptionError(
            f"encoding={encoding!r} is for CSV files; {kind} files say how they are encoded. Leave "
            "it out."
        )
    try:
        codecs.lookup(encoding)
    except (LookupError, TypeError) as error:
        raise OptionError(
            f"encoding={encoding!r} is not known. Use 'utf-8', 'cp1252', 'latin-1', 'utf-16' or "
            "another one that Python knows."
        ) from error


def has_semicolons(names: Iterable[Any]) -> bool:
    """Say whether the header of a file, split at commas, shows that semicolons separate columns."""
    listed = [str(name) for name in names]
    return len(listed) == 1 and ";" in listed[0]


def refuse_semicolons(path: str, encoding: str | None) -> None:
    """Refuse a CSV file whose columns are not separated by commas, with what to do."""
    names: Iterable[Any] = ()
    with suppress(OSError, ValueError, EOFError):  # Whoever reads the file says what is wrong.
        names = pd.read_csv(path, nrows=0, encoding=encoding).columns
    if has_semicolons(names):
        raise DataError(
            f"{path} has semicolons between its columns, not commas. Pass a table instead: "
            f"pandas.read_csv({path!r}, sep=';', decimal=','), where decimals have commas."
        )


def refuse_other_encoding(schema: Any, name: str) -> None:
    """Refuse text that was read as bytes, or whose columns have names that are no text."""
    import pyarrow.types as kinds

    try:
        broken = [
            f"the column {column!r}"
            for column, type_ in zip(schema.names, schema.types, strict=True)
            if kinds.is_binary(type_) or kinds.is_large_binary(type_)
        ]
    except UnicodeDecodeError as error:
        raise other_encoding(name, "a name of a column") from error
    if broken:
        raise other_encoding(name, broken[0])


def other_encoding(name: str, what: str) -> DataError:
    """Return the error of a file that is not in UTF-8, as something in it shows."""
    return DataError(f"{name} is not in UTF-8: {what} cannot be read as text. {ENCODING}")


def text_format(kind: str, types: dict[str, Any] | None = None, encoding: str | None = None) -> Any:
    """Return how files of separated text are read, with types of columns where they are known."""
    import pyarrow.csv
    import pyarrow.dataset

    return pyarrow.dataset.CsvFileFormat(
        read_options=pyarrow.csv.ReadOptions(encoding=encoding or "utf8"),
        parse_options=pyarrow.csv.ParseOptions(delimiter="\t" if kind == "tsv" else ","),
        convert_options=pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=True),
    )


def with_decimals(schema: Any) -> Any:
    """Read whole numbers of text as decimals: types are guessed from the first rows only."""
    import pyarrow

    for i, one in enumerate(schema):
        if pyarrow.types.is_integer(one.type):
            schema = schema.set(i, pyarrow.field(one.name, pyarrow.float64()))
    return schema


def common_schema(dataset: Any) -> Any:
    """Return types that hold what is in every file.

    Numbers of several types become decimals, categories get room for those of all files, and a
    column in which a file has nothing is what it is in others.
    """
    import pyarrow
    from pyarrow import types

    schema = dataset.schema
    found: list[Any] = [one.type for one in schema]
    for fragment in dataset.get_fragments():
        with reading(fragment, {}):
            other = fragment.physical_schema
        for i, name in enumerate(schema.names):
            place = other.get_field_index(name)
            if place < 0 or other.types[place] == found[i]:
                continue
            theirs = other.types[place]
            if types.is_null(found[i]):
                found[i] = theirs
            elif types.is_dictionary(found[i]) and types.is_dictionary(theirs):
                continue
            elif kind_of(found[i]) == kind_of(theirs) == "number":
                found[i] = pyarrow.float64()
            elif kind_of(found[i]) == kind_of(theirs) == "text":
                found[i] = pyarrow.string()
    for i, one in enumerate(found):
        if types.is_decimal(one):
            found[i] = pyarrow.float64()
        elif types.is_dictionary(one):
            found[i] = pyarrow.dictionary(pyarrow.int32(), one.value_type, one.ordered)
    pairs = zip(schema.names, found, strict=True)
    return pyarrow.schema([pyarrow.field(name, one) for name, one in pairs])


def folder_schema(values: Mapping[str, set[str]], inside: Any) -> Any:
    """Return types of the columns that folders such as ``year=2020`` name; None if they name none.

    A column that the files have themselves is read from them. Folders hold whole numbers where all
    of them are written as such, and text where one would change: 01 and 1 are two labels.
    """
    import pyarrow

    fields = [
        pyarrow.field(name, pyarrow.int64() if _are_whole(texts) else pyarrow.string())
        for name, texts in values.items()
        if name not in inside.names
    ]
    return pyarrow.schema(fields) if fields else None


def _are_whole(texts: set[str]) -> bool:
    plain = re.compile(r"0|-?[1-9][0-9]{0,14}")
    return bool(texts) and all(plain.fullmatch(text) for text in texts)


def text_as_categories(schema: Any, inside: Any) -> tuple[Any, dict[str, Any]]:
    """Return a schema that leaves text as numbers into a list of its values, and what is text.

    `inside` is the schema of a file, without the columns that folders name.
    """
    import pyarrow

    types = {}
    for i, one in enumerate(schema):
        coded = pyarrow.types.is_dictionary(one.type)
        if kind_of(one.type) == "text" and not coded and one.name in inside.names:
            numbers = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
            schema = schema.set(i, pyarrow.field(one.name, numbers))
            types[one.name] = one.type
    return schema, types


def polars_categories(schema: Any) -> dict[str, Any]:
    """Return the columns that were categories of polars without an order, and the type of a label.

    They are listed in the order in which they were met, which says nothing: they are text.
    """
    return {
        one.name: one.type.value_type
        for one in schema
        if any(key.startswith(POLARS_CATEGORIES) for key in one.metadata or {})
    }


def kind_of(type_: Any) -> str:
    """Return what a column is to a formula: number, text, or something else."""
    import pyarrow.types as kinds

    if kinds.is_dictionary(type_):
        return kind_of(type_.value_type)
    if kinds.is_null(type_):
        return "nothing"
    if kinds.is_integer(type_) or kinds.is_floating(type_) or kinds.is_decimal(type_):
        return "number"
    if kinds.is_string(type_) or kinds.is_large_string(type_) or kinds.is_string_view(type_):
        return "text"
    return str(type_)


def name_of(fragment: Any) -> str:
    """Return the file that some rows are in, for messages."""
    return getattr(fragment, "path", None) or "the dataset"


def reason_of(error: Exception) -> str:
    """Return the first line of what an error says, as a sentence."""
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__).rstrip(".") + "."
