"""How the fused kernels are compiled: by numba, on one thread, without the GIL, and once.

Products and sums may be fused. Nothing else is relaxed, so infinities and NaNs keep their meaning,
and roundings stay as written.
"""

from __future__ import annotations

import pkgutil
import zlib
from collections.abc import Callable
from typing import Any, Final

import numba

__all__ = ["compiled", "inlined", "merged", "reordered", "strict"]

Function = Callable[..., Any]

_CONTRACT: Final = {"contract"}
_OPTIONS: Final[dict[str, Any]] = {"nogil": True, "error_model": "numpy"}

_INGREDIENTS: Final = (
    "_compile.py", "_blocks.py", "_scalars.py", "_erfcx.py", "_mills.py", "status.py",
)  # fmt: skip
"""The files whose functions and constants end up in a kernel."""


def strict(function: Function) -> Function:
    """Compile a loop over the rows of a block."""
    return numba.njit(function, fastmath=_CONTRACT, **_OPTIONS)


def reordered(function: Function) -> Function:
    """Compile a loop whose sums may be reordered: only then are they vectorised."""
    return numba.njit(function, fastmath=_CONTRACT | {"reassoc"}, **_OPTIONS)


def inlined(function: Function) -> Function:
    """Compile a function of one number into the loops that call it."""
    return numba.njit(function, fastmath=_CONTRACT, forceinline=True, **_OPTIONS)


def merged(function: Function) -> Function:
    """Make a function that mostly calls others part of the kernel before that is compiled.

    Compiled for itself, each level would optimise all levels below it once more.
    """
    return numba.njit(function, fastmath=_CONTRACT, inline="always", **_OPTIONS)


def compiled(signature: Any) -> Callable[[Function], Function]:
    """Compile a kernel when its module is imported, and keep the machine code for the next time.

    numba takes kept code for good as long as the file that holds the kernel has not changed,
    whatever became of the functions inlined into it from other files. It keeps the code under the
    qualified name, so a digest of those files is made part of that.
    """

    def compile_now(function: Function) -> Function:
        function.__qualname__ += f"_{_digest()}"
        return numba.njit(signature, cache=True, fastmath=_CONTRACT, **_OPTIONS)(function)

    return compile_now


def _digest() -> str:
    texts = (pkgutil.get_data(__package__, name) or b"" for name in _INGREDIENTS)
    return f"{zlib.crc32(b''.join(texts)):08x}"
