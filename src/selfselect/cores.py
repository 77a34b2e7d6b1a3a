"""How many cores this process may use: affinity and the quotas of containers."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

__all__ = ["available_cores", "cpu_quota"]


@cache
def available_cores() -> int:
    """Return how many cores this process may use, at least one; a part of a core is one."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    quota = cpu_quota()
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Return the processor time per second that the control groups allow; None where no limit is.

    Parameters
    ----------
    root : the file system with ``proc`` and ``sys``.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except (OSError, ValueError):
        return None
    limits = [limit for line in lines for limit in _limits(root / "sys/fs/cgroup", line)]
    return min(limits, default=None)


def _limits(mount: Path, line: str) -> Iterator[float]:
    """Yield the limits of one hierarchy: those of the group of this process and all above it.

    Inside of a container the path is that of the host, of which only the root can be seen.
    """
    _, controllers, path = line.split(":", 2)
    inside = PurePosixPath(path.lstrip("/"))
    groups = [inside, *inside.parents]
    if not controllers:
        for group in groups:
            yield from _ratio(_words(mount / group / "cpu.max"))
    elif "cpu" in controllers.split(","):
        for group in groups:
            for name in dict.fromkeys(("cpu", controllers)):
                folder = mount / name / group
                words = _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")
                yield from _ratio(words)


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except (OSError, ValueError):
        return []


def _ratio(words: list[str]) -> Iterator[float]:
    """Yield quota / period; nothing where there is none (``max`` or -1) or the file is odd."""
    try:
        quota, period = map(int, words)
    except ValueError:
        return
    if quota > 0 and period > 0:
        yield quota / period
