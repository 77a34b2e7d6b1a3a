"""How much memory something will take, asked before it is built."""

from __future__ import annotations

import os
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfselect.errors import DataError

if TYPE_CHECKING:
    from selfselect.data.equations import Equations

__all__ = [
    "memory_left",
    "refuse_beyond_memory",
    "refuse_large_model",
    "refuse_many_alternatives",
]

MANY = 100
"""Alternatives up to which memory is not checked."""

MATRICES = 3
"""Matrices of all parameters by all parameters that a fit holds at once: the information, its
factor, the covariance."""

NO_QUESTION = 1 << 28
"""Bytes that are taken without asking how much there is."""

GROUPS = Path("/sys/fs/cgroup")


def refuse_beyond_memory(what: str, n_bytes: float, instead: str = "") -> None:
    """Refuse to build what does not fit into memory.

    Parameters
    ----------
    what : the subject of the message, such as ``"C(town) with 20,000 categories"``.
    n_bytes : what it takes at least.
    instead : a sentence that says what to do.
    """
    if n_bytes <= NO_QUESTION:
        return
    left = memory_left()
    if left is not None and n_bytes > left:
        advice = f" {instead}" if instead else ""
        raise DataError(
            f"{what} would take at least {_in_words(n_bytes)} of memory, and {_in_words(left)} are "
            f"free.{advice}"
        )


def refuse_many_alternatives(n_alternatives: Any, data: Any) -> None:
    """Refuse a number of alternatives that no memory holds, before anything is made for them.

    Parameters
    ----------
    n_alternatives : as the user gave them; anything but a large number passes.
    data : the table, whose rows count where it knows how many it has.
    """
    if isinstance(n_alternatives, Integral) and int(n_alternatives) > MANY:
        frame = hasattr(data, "columns") and hasattr(data, "__len__")
        _refuse(int(n_alternatives), 2 * int(n_alternatives), len(data) if frame else 0)


def refuse_large_model(equations: Equations, n_rows: int) -> None:
    """Refuse equations whose matrices no memory holds."""
    n_alternatives = equations.n_alternatives
    own = sum(equations.own_terms) + len(equations.shared) + n_alternatives
    _refuse(n_alternatives, own, n_rows)


def _refuse(n_alternatives: int, n_parameters: int, n_rows: int) -> None:
    refuse_beyond_memory(
        f"A model of {n_alternatives:,} alternatives with {n_parameters:,} parameters or more",
        8.0 * (MATRICES * float(n_parameters) ** 2 + float(n_rows) * n_alternatives),
        "Give fewer alternatives, or fewer terms.",
    )


def memory_left() -> float | None:
    """Return how many bytes of memory this process may still take; None where that is unknown."""
    found = [*_system(), *_group(), *_own_limit()]
    return max(0.0, min(found)) if found else None


def _system() -> list[float]:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return [1024.0 * int(line.split()[1])]
    except (OSError, ValueError):
        pass
    try:
        return [float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, OSError, ValueError):
        return []


def _group() -> list[float]:
    """Return what is left to the container this runs in, where it has a limit."""
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            most = float((GROUPS / limit).read_text(encoding="ascii"))
            return [most - float((GROUPS / used).read_text(encoding="ascii"))]
        except (OSError, ValueError):
            continue
    return []


def _own_limit() -> list[float]:
    try:
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_AS)
        if most == resource.RLIM_INFINITY:
            return []
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        return [float(most) - pages * resource.getpagesize()]
    except (ImportError, OSError, ValueError):
        return []


def _in_words(n_bytes: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB", "EB"):
        if n_bytes < 1000 or unit == "EB":
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    raise AssertionError
