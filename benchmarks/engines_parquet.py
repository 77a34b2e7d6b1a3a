"""Rows in Parquet files: time of a pass against reading alone, memory, and passes of a fit.

``python -m benchmarks.engines_parquet --rows 20000000 --folder rows``; the files are kept there,
and used again if they have as many rows.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

import selfselect as ss
from benchmarks.timing import take_turns
from selfselect.engines.parquet import RowsInPieces
from selfselect.likelihoods import evaluate

N_COVARIATES, N_ALTERNATIVES, N_FILES = 10, 3, 8
COVARIATES = [f"x{i + 1}" for i in range(N_COVARIATES)]
COLUMNS = [*COVARIATES, "y", "job"]
FORMULA = "y ~ " + " + ".join(COVARIATES)
GROUP = 250_000
"""Rows that are drawn and written at a time."""


def write_rows(folder: Path, n_rows: int) -> None:
    """Write files of rows in which the best of three jobs is observed, a text as users have it."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"part-{i:03}.parquet" for i in range(N_FILES)]
    there = [pq.read_metadata(path).num_rows for path in files if path.exists()]
    if len(there) == len(files) and sum(there) == n_rows:
        return
    rng = np.random.default_rng(0)
    coefficients = rng.normal(size=(N_ALTERNATIVES, N_COVARIATES)) / 3
    jobs = pa.array(["farming", "fishing", "hunting"])
    for path, size in zip(
        files, np.diff(np.linspace(0, n_rows, N_FILES + 1).astype(int)), strict=True
    ):
        writer: Any = None
        for start in range(0, size, GROUP):
            n = min(GROUP, size - start)
            x = rng.normal(size=(n, N_COVARIATES))
            latent = x @ coefficients.T + rng.normal(size=(n, N_ALTERNATIVES))
            columns = {name: x[:, i] for i, name in enumerate(COVARIATES)}
            job = jobs.take(pa.array(latent.argmax(axis=1)))
            table = pa.table({**columns, "y": latent.max(axis=1), "job": job})
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table)
        writer.close()


def read_only(folder: Path) -> None:
    """Read the columns of a fit and discard them."""
    for _ in pa.dataset.dataset(folder).to_batches(columns=COLUMNS):
        pass


def resident() -> float:
    """Return the resident memory in megabytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def peak(found: dict[str, float], name: str) -> Iterator[None]:
    """Note the highest resident memory while something runs."""
    highest, done = [resident()], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            highest[0] = max(highest[0], resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        found[name] = highest[0]


def timed(task: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return task(), time.perf_counter() - start


def line(what: str, value: float, unit: str, note: str = "") -> None:
    print(f"{what:<58} {value:>9.3g} {unit:<8} {note}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        run(options.folder or Path(scratch) / "rows", options.rows, options.rounds, Path(scratch))


def run(folder: Path, n_rows: int, rounds: int, scratch: Path) -> None:
    write_rows(scratch / "few", 400_000)
    write_rows(folder, n_rows)
    size = sum(path.stat().st_size for path in folder.glob("*.parquet"))
    print(
        f"n={n_rows:,} d={N_COVARIATES} k={N_ALTERNATIVES}, {size / 1e9:.2f} GB in {N_FILES} files"
    )
    # Modules and compiled kernels are part of the interpreter, not of the data.
    ss.fit(FORMULA, scratch / "few" / "part-000.parquet", chosen="job").summary()
    passes = []
    sums = RowsInPieces.sum

    def counted(self: RowsInPieces, task: Any) -> Any:
        found, seconds = timed(lambda: sums(self, task))
        passes.append(seconds)
        return found

    RowsInPieces.sum = counted  # type: ignore[method-assign]
    memory: dict[str, float] = {}
    before = resident()
    with peak(memory, "fit"):
        result, seconds = timed(lambda: ss.fit(FORMULA, str(folder), chosen="job"))
    line("peak memory of the fit beyond the interpreter", memory["fit"] - before, "MB", "< 1000")
    of_steps = list(passes)
    first = seconds - sum(of_steps)
    line("whole fit", seconds, "s", f"{result.status} {result.n_steps} steps")
    line("   first pass and start on a sample", first, "s")
    line("   passes of Newton's method", len(of_steps), "", f"{np.mean(of_steps):.2f} s each")
    passes.clear()
    with peak(memory, "summary"):
        _, seconds = timed(result.summary)
    line("summary: naive fit, tests, diagnosis", seconds, "s", f"{len(passes)} passes")
    line("   peak memory", memory["summary"] - before, "MB")
    with peak(memory, "predict"):
        _, seconds = timed(lambda: result.write_predictions(scratch / "out"))
    line("predictions (means of every outcome), read and written", seconds, "s")
    line("   peak memory", memory["predict"] - before, "MB")
    task = partial(evaluate, result.problem, result.problem.layout.natural(result.solution.free))
    source = result.engine.stream.source
    spent = take_turns(
        {
            "pass": lambda: result.engine.sum(task),
            "read": lambda: read_only(folder),
            "lean": lambda: [None for _ in source.batches(COLUMNS)],
        },
        rounds=rounds,
    )
    line("one pass / reading the columns and discarding them", spent["pass"] / spent["read"], "",
         f"<= 2; {spent['pass']:.2f} s and {spent['read']:.2f} s")  # fmt: skip
    line("   / reading them with our bounded buffer", spent["pass"] / spent["lean"], "",
         f"{spent['lean']:.2f} s")  # fmt: skip
    line("   rows per second of a pass", n_rows / spent["pass"] / 1e6, "million")


if __name__ == "__main__":
    main()
