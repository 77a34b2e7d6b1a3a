"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selfselect.errors import DataError

__all__ = ["whole_folder", "write_whole"]


def write_whole(target: Path, text: str) -> None:
    """Write text beside the target, then put it in its place; nothing is left of a failure."""
    scratch = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        scratch.write_text(text, encoding="utf-8", errors="replace")
        scratch.replace(target)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


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
    scratch = target.absolute().with_name(f".{target.absolute().name}.{os.getpid()}.part")
    try:
        scratch.mkdir(parents=True)
        yield scratch
        for path in sorted(p for p in scratch.rglob("*") if p.is_file()):
            place = target / path.relative_to(scratch)
            place.parent.mkdir(parents=True, exist_ok=True)
            path.replace(place)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
