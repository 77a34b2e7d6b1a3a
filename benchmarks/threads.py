"""What threads cost where several fits run at once: in processes, joblib, Dask and pytest-xdist.

`python -m benchmarks.threads`: seconds until all fits are done, each process with the threads that
it takes by itself, and with one. Half a minute or so on two cores.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from selfselect.threads import thread_count

N_ROWS, N_FITS, PROCESSES = 300_000, 4, (1, 2, 4)

FITS = f"""
import selfselect as ss
data = ss.simulators.village({N_ROWS}, seed=1).data
for _ in range(%d):
    ss.fit("income ~ height + weight", data, chosen="job")
"""


def seconds_in_processes(n_processes: int, threads: str | None) -> float:
    """Return how long processes at once take for their share of the fits, each started anew."""
    environment = {key: value for key, value in os.environ.items() if key != "SELFSELECT_THREADS"}
    if threads is not None:
        environment["SELFSELECT_THREADS"] = threads
    command = [sys.executable, "-c", FITS % (N_FITS // n_processes)]
    began = time.perf_counter()
    running = [subprocess.Popen(command, env=environment) for _ in range(n_processes)]
    for one in running:
        one.wait()
    return time.perf_counter() - began


def count_in_a_task(_: int = 0) -> int:
    """Return how many threads a fit would use here."""
    return thread_count()


def count_under_xdist() -> str:
    """Return how many threads a fit uses in a test that runs beside others."""
    test = "import selfselect.threads as t\ndef test_it(): print('N', t.thread_count())\n"
    with TemporaryDirectory() as folder:
        file = Path(folder) / "test_it.py"
        file.write_text(test, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-n", "2", "-q", "-rP", str(file)]
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    counts = (line.split()[1] for line in said.splitlines() if line.startswith("N "))
    return next(counts, "not installed")


def counts_elsewhere() -> dict[str, str]:
    """Return how many threads a fit uses inside of other packages' workers."""
    found = {"this process": str(thread_count()), "pytest-xdist, -n 2": count_under_xdist()}
    try:
        from joblib import Parallel, delayed

        for n_jobs in (2, 4):
            counts = Parallel(n_jobs=n_jobs)(delayed(count_in_a_task)(i) for i in range(n_jobs))
            found[f"joblib, n_jobs={n_jobs}"] = str(max(counts))
    except ImportError:
        found["joblib"] = "not installed"
    try:
        import distributed

        with distributed.Client(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as client:
            found["a Dask worker process"] = str(client.submit(count_in_a_task).result())
    except ImportError:
        found["a Dask worker process"] = "not installed"
    return found


def main() -> None:
    """Print both tables."""
    print(f"{N_FITS} fits of {N_ROWS:,} rows, seconds until all are done\n")
    print("| processes at once | threads by default | one thread each |\n|---:|---:|---:|")
    for n in PROCESSES:
        by_default, single = (
            min(seconds_in_processes(n, threads) for _ in range(2)) for threads in (None, "1")
        )
        print(f"| {n} | {by_default:.1f} | {single:.1f} |", flush=True)
    print("\n| where | threads of a fit |\n|---|---:|")
    for where, count in counts_elsewhere().items():
        print(f"| {where} | {count} |")


if __name__ == "__main__":
    main()
