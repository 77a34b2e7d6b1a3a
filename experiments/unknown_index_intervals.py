"""Coverage of intervals where the choice was not recorded: see --help.

Draws samples of which the largest of two to four outcomes is observed, without the choice, fits
them, and counts how often 95% intervals of the slopes cover the truth: by how much the Wald
statistic of the two most similar equations exceeds its degrees of freedom. Writes a Markdown page.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import time
import warnings
from pathlib import Path
from typing import Any

WEIGHTS = ((0.3, 1.0, 0.0), (0.1, -0.8, 0.6), (-0.2, 0.1, -0.9), (0.2, 0.5, 0.8))
DESIGNS = ((4, 500, 1.0), (4, 2_000, 1.0), (4, 500, 2.0), (3, 500, 1.0), (3, 2_000, 1.0),
           (2, 300, 1.0), (2, 300, 0.5), (2, 1_000, 0.5), (2, 2_000, 1.0))  # fmt: skip
"""Alternatives, rows, and what the coefficients are multiplied by."""
EDGES = (-10.0, 5.0, 10.0, 20.0, 30.0, 50.0, 100.0, 1e9)


def replicate(task: tuple[int, int, float, int]) -> tuple[float, list[bool]] | None:
    """Draw and fit one sample; return how far apart its equations are, and what is covered."""
    import numpy as np

    import selfselect as ss
    from selfselect.results.overfitting import least_difference

    k, n_rows, size, seed = task
    rng = np.random.default_rng([seed, k, n_rows])
    x, z = rng.standard_normal((2, n_rows))
    weights = size * np.array(WEIGHTS[:k])
    latent = weights @ [np.ones(n_rows), x, z] + rng.standard_normal((k, n_rows))
    table = {"x": x, "z": z, "y": latent.max(axis=0)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fit = ss.fit("y ~ x + z", table, alternatives=k, seed=seed)
        except ss.errors.SelfSelectError:
            return None
    difference = least_difference(fit)
    if not fit.converged or difference is None:
        return None
    labels = fit.problem.equations.alternatives
    slopes, errors = (
        np.array([one[label].to_numpy()[1:3] for label in labels]) for one in (fit.params, fit.bse)
    )
    truth = min(
        (weights[list(order), 1:] for order in itertools.permutations(range(k))),
        key=lambda ordered: float(np.sum((slopes - ordered) ** 2)),
    )
    held = np.abs(slopes - truth) < 1.959964 * errors
    return difference.statistic - difference.df, held.ravel().tolist()


def page(found: dict[Any, list[Any]], options: Any) -> str:
    """Return the tables."""
    import numpy as np

    lines = ["| alternatives | rows | coefficients times | fits | coverage |",
             "|---|---|---|---|---|"]  # fmt: skip
    for (k, n_rows, size), fits in found.items():
        held = np.concatenate([one[1] for one in fits])
        lines.append(f"| {k} | {n_rows:,} | {size:g} | {len(fits)} | {100 * held.mean():.1f}% |")
    lines += ["", "| statistic less degrees of freedom | fits | coverage |", "|---|---|---|"]
    fits = [one for each in found.values() for one in each]
    for low, high in itertools.pairwise(EDGES):
        held = [np.mean(one[1]) for one in fits if low <= one[0] < high]
        if held:
            between = f"{low:g} to {high:g}" if high < EDGES[-1] else f"above {low:g}"
            between = f"below {high:g}" if low == EDGES[0] else between
            lines.append(f"| {between} | {len(held)} | {100 * np.mean(held):.1f}% |")
    return f"""# Intervals where the choice was not recorded

The largest of several outcomes is observed, and not which it is. Coverage of 95% intervals of the
slopes, from standard errors. The statistic is the Wald test that the two most similar equations are
equal. Where it exceeds its degrees of freedom by less than 30, the summary warns that the
alternatives are hardly distinct. {options.replications} samples of each design.

Made by `python experiments/unknown_index_intervals.py --replications {options.replications}`.

{chr(10).join(lines)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--replications", type=int, default=100)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--output", type=Path, default=Path("docs/studies/unknown-index-intervals.md")
    )
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    started, found = time.perf_counter(), {}
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for design in DESIGNS:
            tasks = [(*design, seed) for seed in range(options.replications)]
            found[design] = [one for one in pool.imap(replicate, tasks) if one is not None]
            print(f"{time.perf_counter() - started:6.0f} s  {design}", flush=True)
    options.output.write_text(page(found, options), encoding="utf-8")


if __name__ == "__main__":
    main()
