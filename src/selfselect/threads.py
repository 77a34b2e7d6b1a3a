"""Threads: tasks side by side, each with one thread of linear algebra.

NumPy's BLAS starts a thread per core for every product. Under several threads of our own those
multiply and wait for each other: on two busy cores a pass took a hundred times longer.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

__all__ = ["n_cores", "one_blas_thread", "parallel_map"]

Result = TypeVar("Result")

AHEAD = 2
"""Items per thread that wait for their turn: none may stand idle, and few should be in memory."""


def n_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_blas_thread() -> Any:
    """Return a context in which linear algebra has one thread, also outside of parallel maps.

    The small factorisations between passes gain nothing from threads and wait for them on a busy
    machine.
    """
    return _controller().limit(limits=1, user_api="blas")


def parallel_map(
    task: Callable[..., Result], *items: Iterable[Any], n_threads: int | None = None
) -> Iterator[Result]:
    """Yield what `task` returns for each item, in order, worked on by several threads.

    Items are asked for a few at a time, so they may be more than fit in memory.
    """
    n_threads = n_cores() if n_threads is None else n_threads
    if n_threads <= 1:
        yield from map(task, *items)
        return
    pool = ThreadPoolExecutor(n_threads)
    with one_blas_thread():
        try:
            waiting: deque[Future[Result]] = deque()
            for item in zip(*items, strict=False):
                waiting.append(pool.submit(task, *item))
                if len(waiting) > AHEAD * n_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            # After an error or an interrupt nothing that has not begun is waited for.
            pool.shutdown(cancel_futures=True)
