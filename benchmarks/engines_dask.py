"""Dask on two worker processes beside one process that reads files on two threads.

``python -m benchmarks.engines_dask --rows 2e6``. Rows are written in batches to a temporary folder,
as Parquet; both engines read those files, Parquet in every pass, Dask once.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import selfselect as ss
from benchmarks.timing import take_turns
from selfselect.engines.dask import sum_groups
from selfselect.likelihoods import evaluate

BATCH = 250_000
COVARIATES, ALTERNATIVES = 10, 3


def write(folder: Path, n_rows: int) -> list[str]:
    """Write rows as Parquet files of one batch each; return their names."""
    names = []
    slopes = np.random.default_rng(0).standard_normal((ALTERNATIVES, COVARIATES)) / 3
    for i, start in enumerate(range(0, n_rows, BATCH)):
        rng, size = np.random.default_rng([1, i]), min(BATCH, n_rows - start)
        covariates = rng.standard_normal((size, COVARIATES))
        latent = covariates @ slopes.T + rng.standard_normal((size, ALTERNATIVES))
        columns = {f"x{j}": covariates[:, j] for j in range(COVARIATES)}
        seen = {"y": latent.max(axis=1), "job": latent.argmax(axis=1)}
        table = pd.DataFrame(seen | columns)
        names.append(str(folder / f"{i:04d}.parquet"))
        table.to_parquet(names[-1])
    return names


def nothing(batch: Any) -> float:
    """Do no work, to see what a pass costs beside it."""
    return float(len(batch))


def compare(n_rows: int, rounds: int) -> None:
    """Print time per pass of both engines, what a pass costs beyond the work, and its bytes."""
    import distributed

    formula = "y ~ " + " + ".join(f"x{j}" for j in range(COVARIATES))
    with (
        tempfile.TemporaryDirectory() as folder,
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        names = write(Path(folder), n_rows)
        here = ss.fit(formula, names, chosen="job", progress=False)
        there = ss.fit(formula, names, chosen="job", progress=False, engine=ss.engines.Dask(client))
        held = ss.fit(formula, names, chosen="job", progress=False, engine=ss.engines.Memory())
        natural = here.problem.layout.natural(here.solution.free)
        task = partial(evaluate, here.problem, natural)
        spent = take_turns(
            {
                "parquet": lambda: here.engine.sum(task),
                "memory": lambda: held.engine.sum(task),
                "dask": lambda: there.engine.sum(task),
                "overhead": lambda: there.engine.sum(nothing),
            },
            rounds=rounds,
        )
        answers = [
            len(one.result())
            for one in [
                client.submit(
                    sum_groups, there.engine.message(task), len(there.engine.groups), list(mine),
                    pure=False,
                )
                for mine in np.array_split(np.array(there.engine.groups.futures, dtype=object), 2)
            ]
        ]  # fmt: skip
        gap = float(np.abs(np.asarray(here.params) - np.asarray(there.params)).max())
        size = f"n={n_rows:.0e} d={COVARIATES} k={ALTERNATIVES}"
        print(f"{size}: Parquet, two threads {1e3 * spent['parquet']:.0f} ms a pass")
        print(f"   Dask, two processes {1e3 * spent['dask']:.0f} ms a pass")
        print(f"   rows in memory, two threads {1e3 * spent['memory']:.0f} ms a pass")
        print(f"   ratio {spent['dask'] / spent['parquet']:.3f} (limit 1.3)")
        print(f"   a pass without work {1e3 * spent['overhead']:.0f} ms (limit 100)")
        print(f"   bytes a pass: {len(there.engine.message(task)):,} out to each worker, "
              f"{' and '.join(f'{one:,}' for one in answers)} back")  # fmt: skip
        print(f"   largest difference of an estimate {gap:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engines_dask")
    parser.add_argument("--rows", type=float, default=2e6)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    compare(int(options.rows), options.rounds)


if __name__ == "__main__":
    main()
