"""Predictions for files, written batch by batch; files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pandas as pd

from selfselect.data.file_types import ending_of
from selfselect.data.files import Files, are_files, open_files, to_pandas, with_text
from selfselect.data.rows import Piece
from selfselect.data.stream import placed
from selfselect.data.tables import nearest
from selfselect.errors import (
    DataError,
    MissingRowsWarning,
    OptionError,
    UnsupportedError,
    warn_user,
)
from selfselect.options import PredictionKind, Scale
from selfselect.progress import progress_bar
from selfselect.results.memberships import new_responsibilities
from selfselect.results.predictions import columns_for, find_kind, predict_new, say_lacking
from selfselect.threads import parallel_map

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


# Files that appear whole or not at all.
#
# A file is written beside its target under a name that cannot be guessed, opened exclusively,
# forced to the disk and then put in its place. So a full disk, a kill or another writer never
# leaves half of it, and the old file stays until the new one is whole. Nothing is written through
# a symbolic link, nor into a pipe or a device: such a target is refused.


FLAGS = (
    os.O_WRONLY | os.O_CREAT | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)  # fmt: skip


def as_path(name: object) -> Path:
    """Return the name of a file as a path; refuse what is none."""
    if not isinstance(name, str | os.PathLike) or not str(name) or "\0" in str(name):
        raise OptionError(f"{name!r} is not the name of a file. Give a text or a pathlib.Path.")
    return Path(name)


def refuse_target(target: str | Path) -> os.stat_result | None:
    """Raise an `OSError` where a file must not or cannot be; return what is there already."""
    place = Path(target)
    if not place.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {str(place.parent)!r}")
    try:
        found = place.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        raise OSError(
            errno.ELOOP,
            "it is a symbolic link, and nothing is written through links; name the file that it "
            "points to, or remove it",
        )
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "that is a folder")
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")
    return found


@contextmanager
def whole_file(target: str | Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of the target when all was written.

    A new file has the permissions that the umask says; one that replaces another keeps its. Of a
    failure, which is raised, nothing is left.
    """
    place = Path(target)
    old = refuse_target(place)
    scratch = place.with_name(_unguessable())
    number = os.open(scratch, FLAGS, 0o666)
    try:
        with open(number, "wb", closefd=False) as file:
            yield file
        if old is not None and hasattr(os, "fchmod"):
            os.fchmod(number, stat.S_IMODE(old.st_mode))
        os.fsync(number)
        os.close(number)
        number = -1
        refuse_target(place)
        scratch.replace(place)
    except BaseException:
        with suppress(OSError):
            if number >= 0:
                os.close(number)
        scratch.unlink(missing_ok=True)
        raise
    _sync_folder(place.parent)


def write_whole(target: str | Path, text: str) -> None:
    """Write a text to a file, in UTF-8."""
    content = text.encode("utf-8", errors="replace")
    with whole_file(target) as file:
        file.write(content)


@contextmanager
def whole_folder(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a folder beside the target to write into; its files are moved there when all are whole.

    A target with something in it is refused, unless `overwrite` says that files of the same name
    may be replaced. Nothing is left of a failure.
    """
    if target.exists() and not target.is_dir():
        raise DataError(f"{target} is a file. Give a folder to write into.")
    if target.exists() and any(target.iterdir()) and not overwrite:
        raise DataError(
            f"The folder {target} is not empty. Give another one, or allow replacing files of the "
            "same name with overwrite."
        )
    # A folder may be a link to another disk: files are moved from beside the folder itself.
    target = target.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_name(_unguessable())
    scratch.mkdir()
    try:
        yield scratch
        inside = sorted(path for path in scratch.rglob("*") if path.is_file())
        places = {path: target / path.relative_to(scratch) for path in inside}
        for place in places.values():
            _refuse_inside(target, place)
        for path, place in places.items():
            place.parent.mkdir(parents=True, exist_ok=True)
            path.replace(place)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _refuse_inside(folder: Path, place: Path) -> None:
    """Refuse a place in a folder to which a link leads, or where no file can be."""
    between = [above for above in place.parents if folder in above.parents]
    if any(above.is_symlink() for above in between):
        raise OSError(errno.ELOOP, f"{place.parent} is a symbolic link")
    if place.parent.is_dir():
        refuse_target(place)


def _unguessable() -> str:
    return f".selfselect-{secrets.token_hex(16)}.part"


def _sync_folder(folder: Path) -> None:
    """Force the new name to the disk, where the system can."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


# Predictions for files, made and written batch by batch: nothing is ever whole in memory.


Make = Callable[[pd.DataFrame], tuple[Any, int]]
"""What is made of some rows, and how many of them lack what it needs."""


def write_predictions(
    fit: FitResult,
    out: str | Path,
    data: Any = None,
    kind: PredictionKind = "latent",
    scale: Scale = "model",
    *,
    level: float | None = None,
    keep: Sequence[str] = (),
    overwrite: bool = False,
    progress: bool | None = None,
) -> list[Path]:
    """Predict for files that may be larger than memory, and write Parquet files into a folder.

    Each file that is read gives one file of the same name, with its rows in their order. The
    files appear when all are written; after an error or an interrupt none is left.

    Parameters
    ----------
    out : the folder.
    data : files as in `selfselect.fit`: a path, a pattern, a list of them, an Arrow dataset;
        None for those of the fit, where it was made of files.
    kind, scale, level : as in `predict`.
    keep : columns that are copied from the files that are read, such as an id.
    overwrite : whether files of the same name may be replaced; else the folder must be empty.
    progress : whether to show progress; None shows it on a terminal for what takes seconds.

    Returns
    -------
    list of Path
        The files that were written.
    """
    find_kind(fit, kind, scale, level)
    _refuse_unknown_columns(fit)
    make = partial(predict_new, fit, kind=kind, scale=scale, level=level)
    return _write(
        fit,
        data,
        out,
        make,
        columns_for(fit, kind),
        keep=keep,
        overwrite=overwrite,
        progress=progress,
    )


def write_responsibilities(
    fit: FitResult,
    out: str | Path,
    data: Any = None,
    *,
    keep: Sequence[str] = (),
    overwrite: bool = False,
    progress: bool | None = None,
) -> list[Path]:
    """Write the probabilities of `responsibilities` for files that may be larger than memory.

    Parameters are those of `write_predictions`.
    """
    if fit.problem.index == "known":
        raise OptionError(
            "In this fit the choice was recorded, so there is nothing to infer. For chances before "
            "anything is observed write predictions of kind='chance'."
        )
    _refuse_unknown_columns(fit)
    coding: Any = fit.coding
    columns = (*coding.columns, *coding.known.columns, *coding.outcome.columns)
    make = partial(new_responsibilities, fit)
    return _write(fit, data, out, make, columns, keep=keep, overwrite=overwrite, progress=progress)


def flat_columns(made: pd.DataFrame | pd.Series[Any]) -> pd.DataFrame:
    """Return predictions as a frame whose columns have a text each, as files need."""
    frame = made.to_frame() if isinstance(made, pd.Series) else made
    if isinstance(frame.columns, pd.MultiIndex):
        return frame.set_axis([":".join(map(str, pair)) for pair in frame.columns], axis=1)
    return frame.set_axis([str(name) for name in frame.columns], axis=1)


def _refuse_unknown_columns(fit: FitResult) -> None:
    if not hasattr(fit.coding, "outcome") or fit.facts.case is not None:
        raise UnsupportedError(
            "Only fits of a formula to one row per case predict for files. Read the rows into a "
            "table and use predict()."
        )


def _write(
    fit: FitResult,
    data: Any,
    out: str | Path,
    make: Make,
    columns: Sequence[str],
    *,
    keep: Sequence[str],
    overwrite: bool,
    progress: bool | None,
) -> list[Path]:
    source = _source(fit, data)
    columns = columns or source.names[:1]  # One column tells how many rows there are.
    keep = (keep,) if isinstance(keep, str) else tuple(keep)
    for name in (*columns, *keep):
        if name not in source.names:
            raise DataError(
                f"There is no column {name!r} in {source.title}.{nearest(name, source.names)}"
            )
    wanted = tuple(dict.fromkeys((*columns, *keep)))
    source.check(wanted)
    task = partial(_made, source, make, tuple(dict.fromkeys(columns)), keep)
    n_rows = n_lacking = 0
    target = as_path(out)
    try:
        with whole_folder(target, overwrite=overwrite) as folder:
            places = _places(source)
            with (
                _Writer(folder, places) as writer,
                progress_bar(progress, what="Predicting", total=source.n_rows, unit="rows") as bar,
            ):
                for name, table, lacking in parallel_map(task, source.batches(wanted)):
                    writer.write(name, table)
                    bar.update(table.num_rows)
                    n_rows, n_lacking = n_rows + table.num_rows, n_lacking + lacking
            if not n_rows:
                raise DataError(f"There are no rows in {source.title}.")
    except OSError as error:
        raise DataError(
            f"Nothing was written to {target}: {error.strerror or error}. Check the path and the "
            "room on the disk."
        ) from error
    if n_lacking:
        said = say_lacking(n_lacking, n_rows, "value", "predictions")
        warn_user(said, MissingRowsWarning)
    return [target / place for place in places.values()]


def _source(fit: FitResult, data: Any) -> Files:
    if data is None:
        stream = getattr(fit.engine, "stream", None)
        if stream is None or not isinstance(stream.source, Files):
            raise UnsupportedError(
                "The rows of this fit are in no files. Give the files to predict for."
            )
        return stream.source
    if not isinstance(data, Files) and not are_files(data):
        raise DataError(
            f"A {type(data).__name__} is no file. Give a path, a pattern or a list of them; tables "
            "are for predict()."
        )
    return open_files(data)


def _places(source: Files) -> dict[str, Path]:
    """Return, by file that is read, the one that is written, relative to the folder."""
    files = list(getattr(source.dataset, "files", ())) or ["part-0.parquet"]
    above = Path(os.path.commonpath([Path(name).parent for name in files]))
    places = {}
    for name in files:
        path = Path(name).relative_to(above)
        stem = path.name[: -len(ending_of(path) or "")] or path.name
        places[name] = path.with_name(f"{stem}.parquet")
    if len(set(places.values())) < len(places):
        raise DataError(
            "Two of the files differ in their ending only. Predict for them one by one."
        )
    return places


def _made(
    source: Files,
    make: Make,
    columns: tuple[str, ...],
    keep: tuple[str, ...],
    numbered: tuple[int, str, Any, int],
) -> tuple[str, Any, int]:
    """Return the file a batch is from, what is written of it, and how many rows lack something."""
    import pyarrow

    number, name, batch, first = numbered
    piece = Piece(number, name, to_pandas(batch.select(columns)), first)
    with placed(piece):
        made, n_lacking = make(piece.frame)
    frame = flat_columns(made)
    for column in keep:
        if column in frame.columns:
            raise OptionError(f"The predictions have a column {column!r}, so it cannot be kept.")
    # Columns that are kept go from file to file as they are.
    kept = with_text(batch.select(keep), source.text)
    arrays = [*kept.columns, *(pyarrow.array(frame[one], from_pandas=True) for one in frame)]
    table = pyarrow.Table.from_arrays(arrays, names=[*keep, *frame.columns])
    return name, table, n_lacking


class _Writer:
    """Writes batches to the file that belongs to the one they were read from."""

    def __init__(self, folder: Path, places: dict[str, Path]) -> None:
        self.folder, self.places = folder, places
        self.name: str | None = None
        self.file: Any = None
        self.schema: Any = None

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if self.file is not None:
            self.file.close()
        if kind is None and self.schema is not None:
            # Files without rows have a counterpart, too.
            for place in self.places.values():
                if not (self.folder / place).exists():
                    self._open(place).close()

    def write(self, name: str, table: Any) -> None:
        """Write a batch; those of one file follow each other."""
        if name != self.name:
            if self.file is not None:
                self.file.close()
            self.schema = table.schema if self.schema is None else self.schema
            place = self.places.get(name) or next(iter(self.places.values()))
            self.file, self.name = self._open(place), name
        self.file.write_table(table)

    def _open(self, place: Path) -> Any:
        import pyarrow.parquet

        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        return pyarrow.parquet.ParquetWriter(path, self.schema)
