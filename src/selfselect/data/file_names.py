"""Names of files: found by path, folder or pattern, and what their endings say."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from selfselect.errors import DataError

__all__ = [
    "COMPRESSED",
    "FORMATS",
    "TEXT_FORMATS",
    "ending_of",
    "find_files",
    "folder_values",
    "format_of",
]

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
