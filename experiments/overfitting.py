"""Size and power of the test of one alternative fewer: see --help.

Draws samples of two or three alternatives of which the largest outcome is recorded without saying
whose it is, fits three, and tests two against three by samples drawn from the smaller model. Counts
rejections, what BIC prefers, and how often the summary says that there may be one too many. Writes
a Markdown table.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

DESIGNS = {"two alternatives": (2, 1.0), "three, far apart": (3, 2.0), "three, close": (3, 1.0)}
"""How many there are, and how long their coefficients."""


def replicate(task: tuple[str, int, int, int, int]) -> dict[str, Any] | None:
    """Draw one sample, fit it and test one alternative fewer."""
    import warnings

    import selfselect as ss

    design, n_rows, seed, samples, starts = task
    k, norm = DESIGNS[design]
    table = ss.simulators.gaussian(n_rows, 3, k, norm=norm, seed=seed).data
    solver = ss.solvers.MaximumLikelihood(starts=starts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fits = [
                ss.fit("outcome ~ x1 + x2 + x3", table, alternatives=j, solver=solver, seed=seed)
                for j in (2, 3)
            ]
            told = any("TOO MANY" in notice for notice in fits[1].summary().notices)
            test = fits[1].overfitted_test(samples, solver=solver, seed=seed, progress=False)
        except ss.errors.SelfSelectError:
            return None
    return {"rejected": test.p_value <= 0.05, "told": told, "bic": fits[1].bic < fits[0].bic}


def study(pool: Any, design: str, n_rows: int, options: Any) -> str:
    """Return the row of a design."""
    tasks = [
        (design, n_rows, seed, options.samples, options.starts)
        for seed in range(options.replications)
    ]
    done = [one for one in pool.imap_unordered(replicate, tasks) if one is not None]
    shares = [100 * sum(one[name] for one in done) / len(done) for name in done[0]]
    return f"| {design} | {n_rows} | " + " | ".join(f"{one:.1f}%" for one in shares) + " |"


def page(lines: list[str], options: Any) -> str:
    return f"""# One alternative too many

The largest of two or three outcomes is recorded without its alternative; three are fitted, and two
are tested against three at 5% by {options.samples} samples of the fit of two. *Notice*: the summary
warns that there may be one too many. *BIC*: it prefers three.
{options.replications} samples each, {options.starts} starts per search.

Made by `python experiments/overfitting.py --replications {options.replications} --samples
{options.samples} --starts {options.starts}`.

| truth | rows | rejects two | notice | BIC prefers three |
|---|---|---|---|---|
{chr(10).join(lines)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=100)
    parser.add_argument("--samples", type=int, default=99)
    parser.add_argument("--starts", type=int, default=16)
    parser.add_argument("--sizes", type=int, nargs="*", default=[500, 2_000])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("docs/studies/overfitting.md"))
    options = parser.parse_args()
    # Processes share the cores already; each of them computes on one thread.
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    started = time.perf_counter()
    lines = []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for design in DESIGNS:
            for n_rows in options.sizes:
                lines.append(study(pool, design, n_rows, options))
                print(f"{time.perf_counter() - started:6.0f} s  {lines[-1]}", flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(page(lines, options), encoding="utf-8")


if __name__ == "__main__":
    main()
