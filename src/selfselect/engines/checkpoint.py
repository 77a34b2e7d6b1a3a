"""Checkpoints: the file, digests of what it belongs to, and an engine that remembers its sums."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.engines.base import Engine, Sum
from selfselect.errors import ArchiveError, SelfSelectWarning, warn_user
from selfselect.likelihoods import Batch
from selfselect.plain import check_plain, from_plain, to_plain

# A hash of what a value means, the same in every process.


WHOLE = 1_000_000
"""Entries up to which every bit of an array counts. Of a longer one as many are looked at, evenly
spread, with the sums of all: a change shows in one or the other, and it costs one look."""


def digest(*values: Any) -> str:
    """Return a hash of values: arrays, dataclasses, functions and containers of them.

    Names of classes and functions count, where objects are in memory does not.
    """
    found = sha256()
    for value in values:
        for part in _parts(value):
            found.update(part)
            found.update(b"\0")
    return found.hexdigest()


def _parts(value: Any) -> list[bytes]:
    if isinstance(value, np.ndarray):
        return _of_array(value)
    if is_dataclass(value) and not isinstance(value, type):
        inside = [getattr(value, one.name) for one in fields(value)]
        return [_name(type(value)), digest(*inside).encode()]
    if isinstance(value, partial):
        return [b"partial", digest(value.func, value.args, value.keywords).encode()]
    if isinstance(value, Mapping):
        pairs = sorted(digest(key) + digest(entry) for key, entry in value.items())
        return [b"mapping", *(pair.encode() for pair in pairs)]
    if isinstance(value, set | frozenset):
        return [b"set", *sorted(digest(one).encode() for one in value)]
    if isinstance(value, list | tuple):
        return [b"list", *(digest(one).encode() for one in value)]
    if isinstance(value, types.MethodType):
        return [b"method", digest(value.__func__, value.__self__).encode()]
    if isinstance(value, types.FunctionType):
        # Functions of a package are known by name; others, such as a user's, by what they do.
        if value.__module__.startswith("selfselect.") and "<" not in value.__qualname__:
            return [_name(value)]
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return [_name(value), digest(value.__code__, value.__defaults__, cells).encode()]
    if isinstance(value, types.CodeType):
        return [value.co_code, digest(value.co_names, value.co_consts).encode()]
    if isinstance(value, type | types.BuiltinFunctionType | np.ufunc):
        return [_name(value)]
    if value is None or isinstance(value, str | bytes | bool | int | float | np.generic):
        return [type(value).__name__.encode(), repr(value).encode()]
    return [_name(type(value)), digest(getattr(value, "__dict__", None)).encode()]


def _of_array(array: Any) -> list[bytes]:
    head = f"{array.dtype} {array.shape}".encode()
    if array.dtype == object:
        return [head, digest(array.tolist()).encode()]
    if array.size <= WHOLE:
        return [head, np.ascontiguousarray(array).tobytes()]
    some = array[:: -(-array.size // WHOLE)]
    total = array.sum(axis=0)
    if np.isnan(total).any():  # a missing outcome would hide all others
        total = np.nansum(array, axis=0)
    return [head, np.ascontiguousarray(some).tobytes(), total.tobytes()]


def _name(value: Any) -> bytes:
    module = getattr(value, "__module__", "")
    return f"{module}.{getattr(value, '__qualname__', value)}".encode()


# The file of a checkpoint: one line of JSON for each sum that is known.
#
# A line is written whole and forced to the disk before the fit goes on. A process that is killed
# leaves at most its last line torn, which is cut off by the next one. A path that is a symbolic
# link, or that holds anything else than a checkpoint of this fit, is refused and left alone.


FORMAT = 2

FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def check_place(path: str | Path) -> None:
    """Refuse a place that cannot be written to, before any work is done."""
    place = Path(path)
    try:
        if place.is_symlink() or place.exists():
            _open(place, 0).close()
        else:
            with tempfile.TemporaryFile(dir=place.parent):
                pass
    except OSError as error:
        raise ArchiveError(
            f"The checkpoint {str(path)!r} cannot be written: {error.strerror}. Choose another "
            "place, or fit without checkpoint=."
        ) from error


def _open(place: Path, create: int) -> Any:
    """Open a regular file for reading and appending; raise an `OSError` for anything else."""
    if place.is_symlink():
        raise OSError(0, "it is a symbolic link, and nothing is written through links")
    if place.exists() and not place.is_dir() and not place.is_file():
        raise OSError(0, "it is no regular file")
    return os.fdopen(os.open(place, FLAGS | create, 0o666), "a+b")


class Checkpoint:
    """What is known already of a fit, and where to write what becomes known.

    Parameters
    ----------
    path : of the file.
    about : hashes of what makes this fit what it is, by name; a file about another is refused.
    """

    def __init__(self, path: str | Path, about: dict[str, str]) -> None:
        from selfselect import __version__

        self.path = Path(path)
        self.about = {"version of selfselect": __version__, **about}
        self.known: dict[str, tuple[str, Any]] = {}
        self.lock = threading.Lock()
        self.file = self._take()
        try:
            self._read()
        except BaseException:
            self.file.close()
            raise
        self.writing = True
        if not self.file.tell():
            self._write(self._header())

    def _header(self) -> dict[str, Any]:
        return {"format": FORMAT, "about": self.about}

    def _take(self) -> Any:
        """Open the file for this process alone."""
        while True:
            try:
                file = _open(self.path, os.O_CREAT)
            except OSError as error:
                raise ArchiveError(
                    f"The checkpoint {self.path} cannot be written: {error.strerror}. Choose "
                    "another place."
                ) from error
            try:
                _take_alone(file, self.path)
            except BaseException:
                file.close()
                raise
            if self._is_there(file):
                return file
            file.close()  # another fit was done with it, and removed it, in between

    def _is_there(self, file: Any) -> bool:
        """Say whether the path still leads to an open file."""
        try:
            return os.path.samestat(os.fstat(file.fileno()), os.lstat(self.path))
        except OSError:
            return False

    def _read(self) -> None:
        self.file.seek(0)
        whole, good = self.file.read(), 0
        lines = whole.split(b"\n")[:-1]  # what follows the last line's end was never finished
        for number, line in enumerate(lines):
            try:
                entry = json.loads(line)
                if number == 0:
                    self._check(entry)
                else:
                    self.known[entry["what"]] = (entry["asked"], entry["found"])
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                if isinstance(error, ArchiveError):
                    raise
                if number < len(lines) - 1:
                    raise ArchiveError(
                        f"{self.path} is damaged in line {number + 1}, or is no checkpoint. Delete "
                        "it, or choose another name."
                    ) from error
                break
            good += len(line) + 1
        if whole and not good and not _line(self._header()).startswith(whole):
            raise ArchiveError(f"{self.path} is no checkpoint of this fit. Choose another name.")
        self.file.truncate(good)
        self.file.seek(good)

    def _check(self, header: Any) -> None:
        if header["format"] != FORMAT:
            raise ArchiveError(
                f"{self.path} is a checkpoint of format {str(header['format'])[:40]}, and this "
                f"version reads {FORMAT}. Delete it, or choose another name."
            )
        other = [what for what, found in self.about.items() if header["about"].get(what) != found]
        if other:
            raise ArchiveError(
                f"{self.path} is the checkpoint of another fit: it differs in {_listed(other)}. "
                "Delete it to begin anew, or choose another name."
            )

    def recall(self, what: str, asked: str) -> tuple[bool, Any]:
        """Return whether it is known, and the answer.

        Parameters
        ----------
        what : which step of the fit.
        asked : a hash of what is asked. Where another question was asked at this step, as on a
            machine that rounds otherwise, this and all that follows is forgotten.
        """
        with self.lock:
            if what not in self.known:
                return False, None
            question, answer = self.known[what]
            if question == asked:
                return True, self._value(what, answer)
            warn_user(
                f"The checkpoint {self.path} differs from this fit at {what}, because another "
                "machine or library rounds differently. From there the fit continues without it.",
                SelfSelectWarning,
            )
            self._forget_from(what)
        return False, None

    def _value(self, what: str, held: Any) -> Any:
        try:
            check_plain(held)
            return from_plain(held)
        except ArchiveError as error:
            raise ArchiveError(
                f"{self.path} is damaged at {what}: {error}. Delete it, or choose another name."
            ) from error

    def _forget_from(self, what: str) -> None:
        names = list(self.known)
        for name in names[names.index(what) :]:
            del self.known[name]
        self.file.truncate(0)
        self._write(self._header())
        for name, (asked, found) in self.known.items():
            self._write({"what": name, "asked": asked, "found": found})

    def keep(self, what: str, asked: str, found: Any) -> Any:
        """Write down an answer, and return it as it will be read."""
        try:
            held = to_plain(found, exact=True)
        except ArchiveError as error:
            raise ArchiveError(
                f"A sum cannot be kept in a checkpoint: {error} Fit without checkpoint=."
            ) from error
        with self.lock:
            self._write({"what": what, "asked": asked, "found": held})
        return from_plain(held)

    def _write(self, entry: dict[str, Any]) -> None:
        if not self.writing:
            return
        try:
            self.file.write(_line(entry))
            self.file.flush()
            os.fsync(self.file.fileno())
        except OSError as error:
            self.writing = False
            warn_user(
                f"The checkpoint {self.path} can no longer be written: {error.strerror}. The fit "
                "continues without it; if it is stopped, it resumes from what is in the file.",
                SelfSelectWarning,
            )

    def close(self) -> None:
        """Let go of the file; it stays for the next process."""
        try:
            self.file.close()
        except OSError:
            # What could not be written was said already.
            self.writing = False

    def remove(self) -> None:
        """Delete the file of a fit that is done; another that took its place in between stays."""
        ours = self._is_there(self.file)
        if os.name == "nt":  # which cannot delete an open file
            self.close()
        if ours:
            # While it is open it is locked, so that no other fit has begun to write it.
            self.path.unlink(missing_ok=True)
        self.close()


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry, allow_nan=False).encode() + b"\n"


def _take_alone(file: Any, path: Path) -> None:
    """Refuse a file that another process writes."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ArchiveError(
            f"{path} is in use by another fit that runs now. Choose another name."
        ) from error
    except OSError:
        return  # a file system without locks


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


# An engine that remembers its sums, so that a fit that was killed goes on where it stopped.
#
# A solver is deterministic and asks only for sums over rows. So it runs again from the start, and
# every sum that was known before is read instead of done. Searches on a sample in memory are
# repeated.


Array = NDArray[np.float64]


@contextmanager
def recorded_in(path: str | Path | None, engine: Engine, **about: Any) -> Iterator[Engine]:
    """Give an engine whose sums are kept in a file, which is removed when all went well.

    Parameters
    ----------
    path : of the file; None for the engine as it is.
    engine : that does the sums.
    about : what makes the fit what it is, by name: a file about anything else is refused.
    """
    if path is None:
        yield engine
        return
    known = {what: digest(value) for what, value in about.items()}
    checkpoint = Checkpoint(path, {**known, "the engine": type(engine).__name__})
    try:
        yield Recorded(engine, checkpoint)
    except BaseException:
        checkpoint.close()
        raise
    checkpoint.remove()


def once(
    engine: Engine, what: str, about: Any, compute: Callable[[], Array | None]
) -> Array | None:
    """Return what `compute` returns; where the engine remembers, it is computed only once."""
    if not isinstance(engine, Recorded):
        return compute()
    return engine.once(what, digest(about), compute)


@dataclass(frozen=True, eq=False)
class Recorded:
    """Another engine whose sums over all rows are kept in a checkpoint.

    Those over samples and reweighted rows are not: they are done again.
    """

    engine: Engine
    checkpoint: Checkpoint
    steps: Iterator[int] = field(default_factory=count)

    @property
    def n_rows(self) -> int:
        return self.engine.n_rows

    @property
    def weight_total(self) -> float:
        return self.engine.weight_total

    @property
    def holds_rows(self) -> bool:
        return self.engine.holds_rows

    @property
    def rows_at_once(self) -> int:
        return self.engine.rows_at_once

    @property
    def rows(self) -> Rows:
        return self.engine.rows

    def sum(self, task: Callable[[Batch], Sum]) -> Sum:
        total: Sum = self.once(
            f"pass {next(self.steps)}", digest(task), lambda: self.engine.sum(task)
        )
        return total

    def once(self, what: str, asked: str, compute: Callable[[], Any]) -> Any:
        """Recall an answer, or compute it and write it down."""
        known, found = self.checkpoint.recall(what, asked)
        return found if known else self.checkpoint.keep(what, asked, compute())

    def collect(self, task: Callable[[Batch], Array]) -> Array:
        return self.engine.collect(task)

    def map(self, task: Callable[..., Any], *items: Iterable[Any]) -> Iterator[Any]:
        return self.engine.map(task, *items)

    def sample(self, n_rows: int, rng: Generator) -> Engine:
        return self.engine.sample(n_rows, rng)

    def recorded(self) -> Engine:
        return self.engine.recorded()

    def single_threaded(self) -> Engine:
        return self.engine.single_threaded()

    def reweighted(self, factor: Array) -> Engine:
        return self.engine.reweighted(factor)

    def resampled(self, rng: Generator, *, repeated: bool, n_clusters: int) -> Engine:
        return self.engine.resampled(rng, repeated=repeated, n_clusters=n_clusters)
