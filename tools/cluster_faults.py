"""Faults of a Dask cluster, over and over: the answer must be the same to the last bit.

    python tools/cluster_faults.py --times 20        prints one line per fault

In a random pass of a fit all workers are killed, or one is; one stands still for some seconds; all
run out of memory and are paused; or the scheduler dies, after which the fit goes on from its
checkpoint on another cluster. The exit code is 1 where bits differ, or an error is not a sentence
of the package.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dask
import dask.dataframe as dd
import distributed
import numpy as np

import selfselect as ss
from selfselect.engines import _cluster
from selfselect.engines import dask as engine
from selfselect.errors import ClusterWarning, EngineError

FORMULA, N_ROWS, N_PARTITIONS = "income ~ height + weight", 20_000, 6

STILL_S, FULL_S = 6.0, 15.0
"""Seconds that a worker stands still, and that memory is full."""

LIMIT_MB = 600
"""Memory of a worker."""


def rows() -> Any:
    """Return the rows as a frame whose partitions can be made again."""
    table = ss.simulators.village(N_ROWS, seed=3).data
    parts = [table.iloc[i::N_PARTITIONS] for i in range(N_PARTITIONS)]
    return dd.from_map(lambda i: parts[i], range(N_PARTITIONS), meta=table.iloc[:0])


def fit(client: Any, **options: Any) -> Any:
    """Fit the rows on a cluster."""
    return ss.fit(
        FORMULA, rows(), chosen="job", covariance="robust", engine=ss.engines.Dask(client),
        progress=False, **options,
    )  # fmt: skip


def bits(result: Any) -> bytes:
    """Return what must stay the same."""
    return np.concatenate([result.params, result.cov_params().to_numpy().ravel()]).tobytes()


@contextmanager
def happening(fault: Callable[[Any], None], at: int) -> Iterator[list[int]]:
    """Let something happen to the cluster in the pass of a number."""
    ask, passes = engine.gather, list[int]()

    def disturbed(client: Any, futures: list[Any], done: Any = None) -> list[Any]:
        passes.append(1)
        if len(passes) == at:
            fault(client)
        return ask(client, futures, done)

    engine.gather = disturbed
    try:
        yield passes
    finally:
        engine.gather = ask


# faults


def kill_all(client: Any) -> None:
    """Kill every worker."""
    for pid in client.run(os.getpid).values():
        os.kill(pid, signal.SIGKILL)


def kill_one(client: Any) -> None:
    """Kill one worker."""
    os.kill(sorted(client.run(os.getpid).items())[0][1], signal.SIGKILL)


def stand_still(client: Any) -> None:
    """Stop a worker for some seconds."""
    pid = sorted(client.run(os.getpid).items())[0][1]
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(STILL_S, os.kill, (pid, signal.SIGCONT)).start()


def fill_memory(client: Any) -> None:
    """Fill the memory of every worker beyond where it is paused, for some seconds."""
    client.run(_hold, 0.88 * LIMIT_MB * 1e6, FULL_S)
    time.sleep(1.0)


def _hold(wanted: float, seconds: float) -> None:
    import psutil

    missing = int(wanted - psutil.Process().memory_info().rss)
    held = [np.ones(max(missing, 0) // 8)]
    threading.Timer(seconds, held.clear).start()


FAULTS = {
    "all workers are killed": kill_all,
    "one worker is killed": kill_one,
    "a worker stands still": stand_still,
    "memory is full": fill_memory,
}


# clusters


@contextmanager
def local_cluster() -> Iterator[Any]:
    """Start workers that are started again when they die."""
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "120s"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0",
            memory_limit=f"{LIMIT_MB}MB",
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):  # fmt: skip
        yield client


@contextmanager
def mortal_cluster(folder: Path) -> Iterator[tuple[Any, subprocess.Popen[bytes]]]:
    """Start a scheduler and two workers as processes; yield a client, and the scheduler."""
    address = folder / "scheduler.json"
    address.unlink(missing_ok=True)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    start = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    scheduler = subprocess.Popen(
        [*start, "--port", "0", "--no-dashboard", "--scheduler-file", str(address)], **quiet
    )
    workers: list[subprocess.Popen[bytes]] = []
    try:
        while not address.exists():
            time.sleep(0.1)
        work = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1"]
        for _ in range(2):
            command = [*work, "--no-dashboard", "--scheduler-file", str(address)]
            workers.append(subprocess.Popen(command, **quiet))
        client = distributed.Client(scheduler_file=str(address), set_as_default=False)
        client.wait_for_workers(2)
        yield client, scheduler
        client.close(timeout=1)
    finally:
        for one in (*workers, scheduler):
            one.kill()
            one.wait()


def without_its_scheduler(folder: Path, at: int, expected: bytes) -> str:
    """Kill the scheduler in a pass, then go on with the checkpoint on another cluster."""
    checkpoint = folder / "fit.checkpoint.json"
    said = ""
    with mortal_cluster(folder) as (client, scheduler), happening(lambda _: scheduler.kill(), at):
        try:
            fit(client, checkpoint=checkpoint)
            return "wrong: the fit ended although the scheduler was killed"
        except EngineError as error:
            said = str(error).split(".")[0]
    with mortal_cluster(folder) as (client, _):
        result = fit(client, checkpoint=checkpoint)
    return f"same bits after “{said}”" if bits(result) == expected else "wrong: other bits"


def one_fault(client: Any, name: str, at: int, expected: bytes) -> str:
    """Fit once under a fault; say what came of it."""
    with (
        warnings.catch_warnings(record=True) as heard,
        happening(FAULTS[name], at) as passes,
    ):
        warnings.simplefilter("always")
        result = fit(client)
    if len(passes) < at:
        return "wrong: the fit had fewer passes"
    waited = any(issubclass(one.category, ClusterWarning) for one in heard)
    words = ", and it said that it waits" if waited else ""
    return f"same bits{words}" if bits(result) == expected else "wrong: other bits"


def main() -> int:
    """Run faults in turns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--only", choices=[*FAULTS, "the scheduler dies"])
    asked = parser.parse_args()
    engine.GROUP_ROWS = N_ROWS // N_PARTITIONS
    _cluster.IDLE_S = 5.0
    names = [asked.only] if asked.only else [*FAULTS, "the scheduler dies"]
    rng, wrong = random.Random(1), 0
    with TemporaryDirectory() as folder, local_cluster() as client:
        expected = bits(fit(client))
        for i in range(asked.times):
            name, at = names[i % len(names)], rng.randrange(2, 6)
            began = time.monotonic()
            try:
                if name in FAULTS:
                    client.wait_for_workers(2)
                    said = one_fault(client, name, at, expected)
                else:
                    said = without_its_scheduler(Path(folder), at, expected)
            except Exception as error:
                said = f"wrong: {type(error).__name__}: {error}"
            for path in Path(folder).iterdir():
                path.unlink()
            wrong += said.startswith("wrong")
            spent = time.monotonic() - began
            print(f"{i + 1:3d}  {name} in pass {at}: {said} ({spent:.0f} s)", flush=True)
    print(f"{asked.times} faults, {wrong} wrong.")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
