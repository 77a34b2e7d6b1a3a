"""The compiled kernels: loaded once, refused where they are stale, absent where none were built.

They are built when the package is installed, from the sources in ``native/``. Without a compiler
the installation is pure Python: the NumPy kernels then serve, at several times the cost.

Two environment variables are read when the kernels are first asked for. ``SELFSELECT_PURE=1``
leaves them out. ``SELFSELECT_INSTRUCTIONS`` names the instruction set to use (``baseline``,
``avx2`` or ``avx512``) in place of the best one that the machine has.
"""

from __future__ import annotations

import os
import zlib
from functools import cache
from pathlib import Path
from typing import Any, Final

from selfselect.errors import NotCompiledWarning, OptionError, StaleBuildError, warn_user

SOURCES: Final = Path(__file__).parent / "native"
"""Where the sources are. An installation that is not editable has none."""

MANY: Final = 100_000
"""Rows times alternatives from which a fit without compiled kernels takes a while."""


def source_digest(folder: Path) -> str:
    """Return a digest of the sources in a folder: names and contents."""
    digest = 0
    for path in sorted((*folder.glob("*.hpp"), *folder.glob("*.cpp"))):
        digest = zlib.crc32(path.read_bytes(), zlib.crc32(path.name.encode(), digest))
    return f"{digest:08x}"


def _left_out() -> bool:
    return os.environ.get("SELFSELECT_PURE", "") not in ("", "0")


@cache
def extension() -> Any:
    """Return the module of compiled kernels, or None where there is none.

    Raises
    ------
    StaleBuildError
        If it was built from other sources than those beside it.
    OptionError
        If ``SELFSELECT_INSTRUCTIONS`` names an instruction set that the machine does not have.
    """
    if _left_out():
        return None
    try:
        from selfselect.kernels import _native
    except ImportError:
        return None
    if SOURCES.is_dir() and source_digest(SOURCES) != _native.DIGEST:
        raise StaleBuildError(
            f"The compiled kernels in {_native.__file__} were built from other sources than those "
            f"in {SOURCES}. Rebuild them with `make`, or with `pip install --editable .` in the "
            "project's folder."
        )
    wanted = os.environ.get("SELFSELECT_INSTRUCTIONS")
    if wanted:
        there = _native.instructions()
        if wanted not in there:
            raise OptionError(
                f"SELFSELECT_INSTRUCTIONS is {wanted!r}, which is not an instruction set of this "
                f"machine. Those it has: {', '.join(there)}."
            )
        _native.use(wanted)
    return _native


_warned = False


def warn_where_slow(size: int) -> None:
    """Say once that a large fit runs without compiled kernels; `size` is rows × alternatives."""
    global _warned  # noqa: PLW0603
    if _warned or size < MANY or _left_out() or extension() is not None:
        return
    _warned = True
    warn_user(
        "This installation of selfselect has no compiled kernels, so large fits take several times "
        "longer than they need. To have them, install a C++ compiler (g++ or clang++) and then "
        "selfselect again. SELFSELECT_PURE=1 in the environment silences this warning.",
        NotCompiledWarning,
    )
