"""Parallel maps keep order, and hold linear algebra to one thread while they run."""

from __future__ import annotations

import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from selfselect.threads import n_cores, parallel_map


def blas_threads() -> list[int]:
    return [
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    ]


def test_results_come_in_the_order_of_the_items_whoever_finishes_first() -> None:
    def slow_first(item: int) -> int:
        time.sleep(0.05 if item == 0 else 0.0)
        return item

    assert list(parallel_map(slow_first, range(6), n_threads=3)) == list(range(6))


def test_linear_algebra_has_one_thread_inside_and_its_own_number_again_after() -> None:
    np.eye(2) @ np.eye(2)
    before = blas_threads()
    inside = list(parallel_map(lambda _: blas_threads(), range(4), n_threads=2))
    assert all(threads == [1] * len(before) for threads in inside)
    assert blas_threads() == before


def test_one_thread_runs_in_the_caller() -> None:
    assert list(parallel_map(lambda a, b: a + b, [1, 2], [10, 20], n_threads=1)) == [11, 22]


def test_an_error_in_a_task_reaches_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        list(parallel_map(lambda item: 1 / item, [1, 0], n_threads=2))


def test_there_is_at_least_one_core() -> None:
    assert n_cores() >= 1
