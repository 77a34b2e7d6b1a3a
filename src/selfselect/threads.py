"""How many cores and threads there are, and tasks side by side, each with one BLAS thread."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache
from numbers import Integral
from pathlib import Path, PurePosixPath
from threading import Lock
from time import perf_counter
from typing import Any, TypeVar

from selfselect.errors import OptionError

# How many cores this process may use: affinity and the quotas of containers.


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


# Threads: how many there are, and tasks side by side, each with one thread of linear algebra.
#
# NumPy's BLAS starts a thread per core for every product. Under several threads of our own those
# multiply and wait for each other: on two busy cores a pass took a hundred times longer.


Result = TypeVar("Result")

AHEAD = 2
"""Items per thread that wait for their turn: none may stand idle, and few should be in memory."""

WORTH_THREADS = 0.002
"""Seconds of work below which no threads are started for it."""

_asked: int | None = None
"""What `set_threads` was given."""

_limit: ContextVar[int | None] = ContextVar("threads", default=None)
"""What holds in this context: the threads of an engine; 1 inside of a parallel map."""


def set_threads(threads: int | None) -> None:
    """Set how many threads this package uses in this process; estimates do not depend on it.

    Parameters
    ----------
    threads : a positive number; None for the default, which is the environment variable
        ``SELFSELECT_THREADS`` where it is set. Else it is the number of cores that affinity and the
        quotas of control groups leave to this process, or ``OMP_NUM_THREADS`` where that is less.

    Examples
    --------
    >>> import selfselect as ss
    >>> ss.set_threads(1)
    >>> ss.set_threads(None)
    """
    global _asked  # noqa: PLW0603
    _asked = check_threads(threads)


def check_threads(threads: Any) -> int | None:
    """Return a number of threads, or None; refuse anything else."""
    if threads is None:
        return None
    if not isinstance(threads, Integral) or isinstance(threads, bool) or threads < 1:
        raise OptionError(
            f"threads={threads!r} is not possible. Give a positive number, or None for the default."
        )
    return int(threads)


def thread_count() -> int:
    """Return how many threads to use here."""
    limit = _limit.get()
    if limit is not None:
        return limit
    if _asked is not None:
        return _asked
    text = os.environ.get("SELFSELECT_THREADS", "").strip()
    if text:
        if not text.isdecimal() or int(text) < 1:
            raise OptionError(
                f"SELFSELECT_THREADS is {text!r} in the environment, which is not a positive "
                "number. Correct it, or leave it out for the number of cores."
            )
        return int(text)
    # OpenMP takes a list, one number per level of nested threads.
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    cores = available_cores()
    return min(cores, int(first)) if first.isdecimal() and int(first) >= 1 else cores


@contextmanager
def limited_to(threads: int | None) -> Iterator[None]:
    """Use that many threads inside; None changes nothing."""
    if threads is None:
        yield
        return
    before = _limit.set(threads)
    try:
        yield
    finally:
        _limit.reset(before)


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Give linear algebra one thread, also outside of parallel maps.

    The small factorisations between passes gain nothing from threads and wait for them on a busy
    machine. The limit is that of the process: it holds until the last thread that asked for it
    leaves, so that no other thread's sums change while it works.
    """
    _blas.enter()
    try:
        yield
    finally:
        _blas.leave()


class _BlasLimit:
    """One thread for linear algebra while anybody asks for it."""

    def __init__(self) -> None:
        self.lock, self.inside = Lock(), 0
        self.held: Any = None

    def enter(self) -> None:
        with self.lock:
            if self.inside == 0:
                _release_control()
                self.held = _controller().limit(limits=1, user_api="blas")
            self.inside += 1

    def leave(self) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                _release_control()
                self.held.restore_original_limits()
                _release_control()


def _release_control() -> None:
    """Let this thread set the limit of the process, and any other one after it.

    From version 3.8 on, threadpoolctl listens to the thread that was the first to set a limit, and
    passes over all others without a word.
    """
    for library in _controller().lib_controllers:
        release = getattr(library, "clear_controlling_thread", None)
        if release is not None:
            release(force=True)


_blas = _BlasLimit()


def _alone(task: Callable[..., Result], *item: Any) -> Result:
    with limited_to(1):
        return task(*item)


def parallel_map(
    task: Callable[..., Result], *items: Iterable[Any], n_threads: int | None = None
) -> Iterator[Result]:
    """Yield what `task` returns for each item, in order, worked on by several threads.

    Items are asked for a few at a time, so they may be more than fit in memory. Inside of `task`
    there is one thread.
    """
    n_threads = thread_count() if n_threads is None else n_threads
    if n_threads <= 1:
        with one_blas_thread():
            yield from map(task, *items)
        return
    pool = ThreadPoolExecutor(n_threads)
    with one_blas_thread():
        try:
            waiting: deque[Future[Result]] = deque()
            for item in zip(*items, strict=False):
                waiting.append(pool.submit(copy_context().run, _alone, task, *item))
                if len(waiting) > AHEAD * n_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            # After an error or an interrupt nothing that has not begun is waited for.
            pool.shutdown(cancel_futures=True)


def shared_map(
    task: Callable[[Any], Result], items: Sequence[Any], n_threads: int | None = None
) -> Iterator[Result]:
    """Do as `parallel_map` for items of equal size, with threads only where they pay.

    The first item shows how long the others take. Starting threads costs half a millisecond, and
    several on a busy machine.
    """
    n_threads = thread_count() if n_threads is None else n_threads
    with one_blas_thread():
        if n_threads <= 1 or len(items) < 2:
            yield from map(task, items)
            return
        begun = perf_counter()
        yield _alone(task, items[0])
        left = (len(items) - 1) * (perf_counter() - begun)
        if left < WORTH_THREADS:
            yield from (_alone(task, item) for item in items[1:])
        else:
            yield from parallel_map(task, items[1:], n_threads=n_threads)
