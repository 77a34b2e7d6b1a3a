"""Files that appear whole or not at all.

A file is written beside its target under a name that cannot be guessed, opened exclusively, forced
to the disk and then put in its place. So a full disk, a kill or another writer never leaves half
of it, and the old file stays until the new one is whole. Nothing is written through a symbolic
link, nor into a pipe or a device: such a target is refused.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from selfselect.errors import DataError, OptionError

__all__ = ["as_path", "refuse_target", "whole_file", "whole_folder", "write_whole"]

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
