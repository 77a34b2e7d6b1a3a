"""One number says how many threads there are; parallel maps keep order and do not nest."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import selfselect as ss
from selfselect import threads
from selfselect.errors import OptionError
from selfselect.threads import (
    available_cores,
    cpu_quota,
    limited_to,
    one_blas_thread,
    parallel_map,
    shared_map,
    thread_count,
)


@pytest.fixture(autouse=True)
def as_by_default(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody has said how many threads there shall be, and there are six cores."""
    for name in ("SELFSELECT_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads, "available_cores", lambda: 6)
    # Other tests may have loaded further libraries since.
    threads._controller.cache_clear()
    yield
    ss.set_threads(None)


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


@pytest.mark.parametrize("map_", [parallel_map, shared_map])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_linear_algebra_has_one_thread_where_tasks_run_in_the_caller_too(
    map_: Any, n_threads: int
) -> None:
    """A busy machine makes small products of two threads a hundred times slower."""
    np.eye(2) @ np.eye(2)
    before = blas_threads()
    inside = list(map_(lambda _: blas_threads(), [0], n_threads=n_threads))
    assert inside == [[1] * len(before)]
    assert blas_threads() == before


def test_effects_tests_and_bounds_leave_linear_algebra_one_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    villagers = ss.simulators.village(300, seed=1).data
    fit = ss.fit("income ~ height + weight", villagers, chosen="job")
    entered: list[int] = []
    enter = threads._BlasLimit.enter

    def counted(limit: Any) -> None:
        entered.append(limit.inside)
        enter(limit)

    monkeypatch.setattr(threads._BlasLimit, "enter", counted)
    for asked in (
        fit.independence_test,
        fit.bounds,
        lambda: fit.gains("hunting", "fishing", draws=600),
        lambda: fit.counterfactual(close=["fishing"]),
    ):
        entered.clear()
        asked()
        assert 0 in entered


def test_the_limit_holds_until_the_last_thread_leaves_it() -> None:
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas_threads() == [1] * len(before)
        second.__exit__(None, None, None)
        assert blas_threads() == before


def test_the_limit_holds_whichever_thread_asks_for_it() -> None:
    def inside() -> list[int]:
        with one_blas_thread():
            return blas_threads()

    def in_a_thread() -> list[int]:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(inside).result()

    before = blas_threads()
    # The first thread to set a limit must not be the only one that can.
    found = [inside(), in_a_thread(), in_a_thread(), inside()]
    assert found == [[1] * len(before)] * 4
    assert blas_threads() == before


def test_a_limit_that_one_thread_began_may_be_ended_by_another() -> None:
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        limit = one_blas_thread()
        limit.__enter__()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(limit.__exit__, None, None, None).result()
        assert blas_threads() == before


def test_sums_have_the_same_bits_in_every_thread() -> None:
    rng = np.random.default_rng(0)
    many, others = rng.standard_normal((2, 300_000))

    def sums() -> float:
        with one_blas_thread():
            return float(many @ others)

    with ThreadPoolExecutor(2) as pool:
        assert {sums(), *pool.map(lambda _: sums(), range(4))} == {sums()}


COLD = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
import selfselect as ss
data = ss.simulators.village(200, seed=1).data.assign(town=["a", "b"] * 100)
sides = ["height", "height + C(town)", "bs(height, df=4)", "np.log(height)"]
together = threading.Barrier(8)
def fit(place):
    together.wait()
    return ss.fit("income ~ " + sides[place % 4], data, chosen="job").llf
with ThreadPoolExecutor(8) as pool:
    found = list(pool.map(fit, range(8)))
sys.exit(0 if found[:4] == found[4:] else f"{found}")
"""


def test_the_first_fits_of_a_process_may_be_made_by_several_threads() -> None:
    # What is loaded when it is needed must not be met half loaded by another thread.
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", COLD], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_one_thread_runs_in_the_caller() -> None:
    assert list(parallel_map(lambda a, b: a + b, [1, 2], [10, 20], n_threads=1)) == [11, 22]


def test_an_error_in_a_task_reaches_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        list(parallel_map(lambda item: 1 / item, [1, 0], n_threads=2))


def test_inside_of_a_parallel_map_there_is_one_thread() -> None:
    def inner(_: int) -> tuple[int, set[int]]:
        return thread_count(), set(parallel_map(lambda _: threading.get_ident(), range(4)))

    for count, who in parallel_map(inner, range(4), n_threads=2):
        assert count == 1 and len(who) == 1
    assert thread_count() == 6


def test_the_nearest_word_on_threads_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert thread_count() == 6
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    assert thread_count() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    assert thread_count() == 6, "it is a limit, not a wish"
    monkeypatch.setenv("SELFSELECT_THREADS", "8")
    assert thread_count() == 8
    ss.set_threads(2)
    assert thread_count() == 2
    with limited_to(5):
        assert thread_count() == 5
        with limited_to(None):
            assert thread_count() == 5
    assert thread_count() == 2
    ss.set_threads(None)
    assert thread_count() == 8


@pytest.mark.parametrize("text", ["0", "-1", "many", "2.5", "1,1"])
def test_an_environment_that_says_no_number_is_refused(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELFSELECT_THREADS", text)
    with pytest.raises(OptionError, match=r"SELFSELECT_THREADS is .* not a positive number"):
        thread_count()


@pytest.mark.parametrize("wrong", [0, -2, 1.5, True, "2"])
def test_what_is_no_number_of_threads_is_refused(wrong: Any) -> None:
    for refuse in (ss.set_threads, ss.engines.Memory, lambda n: ss.engines.Parquet(threads=n)):
        with pytest.raises(OptionError, match=r"threads=.* is not possible"):
            refuse(wrong)
    assert thread_count() == 6


@pytest.mark.parametrize("n", [1, 3])
def test_the_threads_of_an_engine_hold_for_all_of_a_fit(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    pool = threads.ThreadPoolExecutor

    def counted(size: int, **options: Any) -> Any:
        sizes.append(size)
        return pool(size, **options)

    monkeypatch.setattr(threads, "ThreadPoolExecutor", counted)
    data = ss.simulators.village(70_000, seed=1).data
    options: dict[str, Any] = {"chosen": "job", "covariance": ss.inference.Bootstrap(2), "seed": 1}
    fit = ss.fit("income ~ height", data, engine=ss.engines.Memory(threads=n), **options)
    assert set(sizes) == ({n} if n > 1 else set())
    assert thread_count() == 6
    np.testing.assert_array_equal(fit.bse, ss.fit("income ~ height", data, **options).bse)
    assert max(sizes) == 6


def test_one_thread_reads_files_with_one(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    ss.simulators.village(3_000, seed=1).data.to_parquet(tmp_path / "rows.parquet")
    files, before = str(tmp_path / "rows.parquet"), threading.active_count()
    engine = ss.engines.Parquet(batch_rows=500, threads=1)
    who: set[int] = set()
    fit = ss.fit("income ~ height", files, chosen="job", engine=engine)
    fit.engine.sum(lambda _: who.add(threading.get_ident()) or 0.0)
    assert who == {threading.get_ident()} and threading.active_count() <= before


def write_groups(root: Path, lines: str, files: dict[str, str]) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(lines)
    for name, text in files.items():
        file = root / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


V1 = "3:cpu,cpuacct:/docker/abc\n2:memory:/docker/abc\n1:cpuset:/docker/abc\n"


@pytest.mark.parametrize(
    ("lines", "files", "quota"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/pod/box\n", {"pod/box/cpu.max": "max 100000", "pod/cpu.max": "50000 100000"}, 0.5),
        ("0::/pod/box\n", {"pod/box/cpu.max": "300000 100000", "pod/cpu.max": "4 1"}, 3.0),
        (V1, {"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2.0),
        (V1, {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        (
            V1,
            {
                "cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "70000",
                "cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000",
            },
            0.7,
        ),
        ("0::/\n", {"cpu.max": "much\n"}, None),
        ("0::/\n", {}, None),
        ("", {}, None),
    ],
)
def test_quotas_of_control_groups_are_read(
    lines: str, files: dict[str, str], quota: float | None, tmp_path: Path
) -> None:
    assert cpu_quota(write_groups(tmp_path, lines, files)) == quota


def test_a_machine_without_control_groups_has_no_quota(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path) is None


@pytest.mark.parametrize(
    ("quota", "cores_left"), [(None, 4), (0.3, 1), (1.5, 2), (2.0, 2), (64.0, 4)]
)
def test_cores_are_those_of_affinity_and_quota(
    quota: float | None, cores_left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "cpu_quota", lambda: quota)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5, 7}, raising=False)
    available_cores.cache_clear()
    assert available_cores() == cores_left
    available_cores.cache_clear()
