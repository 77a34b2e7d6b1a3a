"""Coverage and tests under restrictions: python experiments/coverage_restrictions.py [--help].

Draws samples in which the restrictions hold, fits each with and without them, and counts how often
95% intervals hold the truth and how often 5% tests reject them. Writes a Markdown table.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEVEL = 0.95


@dataclass(frozen=True)
class Drawn:
    """A sample: how to fit it, the truth, and the options that restrict."""

    formula: Any
    data: Any
    options: dict[str, Any]
    restrictions: dict[str, Any]
    truth: dict[tuple[str, str], float]


def shared_slope(n_rows: int, seed: int) -> Drawn:
    """Two alternatives with a slope in common and a scale each."""
    return _careers(n_rows, seed, {"shared": ["x"]})


def shared_constant(n_rows: int, seed: int) -> Drawn:
    """The same with the constant in common, covariates far from zero, and an offset."""
    return _careers(n_rows, seed, {"shared": ["Intercept"]}, constants=(1.0, 1.0), slope_b=0.12)


def _careers(
    n_rows: int,
    seed: int,
    restrictions: dict[str, Any],
    constants: tuple[float, float] = (1.0, 1.5),
    slope_b: float = 0.1,
) -> Drawn:
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(seed)
    x, z, bonus = rng.normal(10.0, 3.0, n_rows), rng.normal(size=n_rows), rng.exponential(1, n_rows)
    a = constants[0] + 0.1 * x + 0.5 * z + rng.normal(size=n_rows)
    b = constants[1] + slope_b * x - 0.8 * z + bonus + 1.6 * rng.normal(size=n_rows)
    data = pd.DataFrame({"x": x, "z": z, "bonus": bonus, "y": np.maximum(a, b)})
    data["job"] = np.where(a > b, "a", "b")
    each = {
        ("a", "Intercept"): constants[0],
        ("a", "x"): 0.1,
        ("a", "z"): 0.5,
        ("a", "scale"): 1.0,
        ("b", "Intercept"): constants[1],
        ("b", "x"): slope_b,
        ("b", "z"): -0.8,
        ("b", "scale"): 1.6,
    }
    for term in restrictions["shared"]:
        each[("(common)", term)] = each.pop(("a", term))
        del each[("b", term)]
    options = {"chosen": "job", "offset": {"b": "bonus"}}
    return Drawn("y ~ x + z", data, options, restrictions, each)


def symmetric(n_rows: int, seed: int) -> Drawn:
    """Tenders among four firms of one cost function, from a long table."""
    return _tenders(n_rows, seed, "won")


def symmetric_unknown(n_rows: int, seed: int) -> Drawn:
    """The same without the winner."""
    return _tenders(n_rows, seed, None)


def _tenders(n_rows: int, seed: int, chosen: str | None) -> Drawn:
    import selfselect as ss

    sample = ss.simulators.tender(n_rows, seed=seed)
    noise = ss.noises.Independent("common")
    options = {
        "case": "tender", "alternatives": "firm", "chosen": chosen, "rule": "min", "noise": noise,
    }  # fmt: skip
    truth = sample.params.to_dict()
    return Drawn(sample.formula, sample.data, options, {"shared": "all"}, truth)


DESIGNS: dict[str, Callable[[int, int], Drawn]] = {
    "a slope shared by two, a scale each, an offset": shared_slope,
    "a constant shared by two, a scale each, an offset": shared_constant,
    "all shared by four, long data": symmetric,
    "all shared by four, long data, winner unknown": symmetric_unknown,
}


def replicate(task: tuple[str, int, int]) -> tuple[Any, bool] | None:
    """Draw and fit a sample: which intervals hold the truth, is the restriction rejected."""
    import selfselect as ss

    name, n_rows, seed = task
    drawn = DESIGNS[name](n_rows, seed)
    try:
        narrow = ss.fit(drawn.formula, drawn.data, **drawn.options, **drawn.restrictions)
        wide = ss.fit(drawn.formula, drawn.data, **drawn.options)
    except ss.errors.SelfSelectError:
        return None
    test = wide.lr_test(narrow)
    if not (narrow.converged and test.reason is None):
        return None
    ends = narrow.conf_int(LEVEL)
    truth = [drawn.truth[label] for label in ends.index]
    covered = (ends["conf_low"] <= truth) & (truth <= ends["conf_high"])
    return covered.to_numpy(), test.rejects()


def study(pool: Any, name: str, replications: int, n_rows: int, first: int) -> str:
    """Return the design's row of the table."""
    import numpy as np

    tasks = [(name, n_rows, seed) for seed in range(first, first + replications)]
    done = [found for found in pool.imap_unordered(replicate, tasks, chunksize=10) if found]
    coverage = 100 * np.mean([covered for covered, _ in done], axis=0)
    rejected = 100 * np.mean([rejects for _, rejects in done])
    return (
        f"| {name} | {len(coverage)} | {coverage.mean():.2f}% | {coverage.min():.2f}% | "
        f"{coverage.max():.2f}% | {rejected:.1f}% | {replications} | {replications - len(done)} |"
    )


def page(rows: list[str], replications: int, n_rows: int) -> str:
    """Return the whole page."""
    error = 100 * (LEVEL * (1 - LEVEL) / replications) ** 0.5
    head = f"""# Coverage and tests under restrictions

Samples of {n_rows:,} rows (tenders) in which the restrictions hold; observed-information errors,
95% intervals, and 5% likelihood-ratio tests of the restrictions against the fit without them. A
coverage or a rejection rate of one design over {replications:,} replications has a standard error
of {error:.2f} percentage points. Failed are samples of which a fit did not converge.

Made by `python experiments/coverage_restrictions.py --replications {replications} --rows {n_rows}`.

| restriction | parameters | average | lowest | highest | test rejects | samples | failed |
|---|---|---|---|---|---|---|---|
"""
    return head + "\n".join(rows) + "\n"


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=1_000)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--designs", type=int, nargs="*", default=[1, 2, 3, 4], help="which rows")
    parser.add_argument("--first", type=int, default=0, help="seed of the first sample")
    parser.add_argument(
        "--output", type=Path, default=Path("docs/studies/coverage-restrictions.md")
    )
    options = parser.parse_args()
    # Processes share the cores already; each of them computes on one thread.
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    started = time.perf_counter()
    rows = []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for name in (list(DESIGNS)[number - 1] for number in options.designs):
            rows.append(study(pool, name, options.replications, options.rows, options.first))
            print(f"{time.perf_counter() - started:6.0f} s  {rows[-1]}", flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(page(rows, options.replications, options.rows), encoding="utf-8")


if __name__ == "__main__":
    main()
