"""Coverage of 95% intervals under clusters and weights: see --help.

Rows share shocks within firms, or within firms and within years; or rows were kept with a chance
that depends on their outcome. Each design is fitted with the covariance that ignores it and those
that are meant for it. Writes a Markdown table.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LEVEL = 0.95
SCALES = (False, False, True) * 2
"""Which of the parameters are scales."""
TRUTH = {"a": {"Intercept": 0.3, "x": 0.8}, "b": {"Intercept": 0.2, "x": -0.6}}
SHARE = 0.3
"""Share of the noise's variance that rows of a firm, or of a year, have in common."""


def shared_shocks(seed: int, by: tuple[str, ...], n_firms: int = 40) -> Any:
    """Draw firms in 25 years; noise stays standard normal, but rows share parts of it."""
    import numpy as np
    import pandas as pd

    n_rows = 25 * n_firms
    rng = np.random.default_rng([seed, len(by), n_firms])
    firm, year = (part.ravel() for part in np.meshgrid(np.arange(n_firms), np.arange(25)))
    place = {"firm": (firm, n_firms), "year": (year, 25)}
    common = [place[name] for name in by]
    x = sum(rng.standard_normal(size)[code] for code, size in common)
    x = (x + rng.standard_normal(n_rows)) / np.sqrt(len(by) + 1)
    noise = np.sqrt(1 - SHARE * len(by)) * rng.standard_normal((n_rows, 2))
    for code, size in common:
        noise += np.sqrt(SHARE) * rng.standard_normal((size, 2))[code]
    means = np.column_stack([part["Intercept"] + part["x"] * x for part in TRUTH.values()])
    latent = means + noise
    chosen = latent.argmax(axis=1)
    return pd.DataFrame(
        {"y": latent[np.arange(n_rows), chosen], "who": np.array(list(TRUTH))[chosen], "x": x,
         "firm": firm, "year": year}
    )  # fmt: skip


def unequal_sampling(seed: int, n_rows: int = 2_500, least: float = 0.15) -> Any:
    """Draw rows and keep those with a large outcome rarely; `w` is one over that chance."""
    import numpy as np

    import selfselect as ss

    rng = np.random.default_rng([seed, 9, n_rows])
    sample = ss.simulate(TRUTH, {"x": rng.standard_normal(n_rows)}, outcome="y", chosen="who",
                         seed=seed)  # fmt: skip
    chance = least + (1 - least) / (1.0 + np.exp(2.0 * (sample.data["y"] - 0.5)))
    kept = rng.uniform(size=n_rows) < chance
    return sample.data[kept].assign(w=1.0 / chance[kept])


WAYS: dict[str, dict[str, Any]] = {
    "clustered": {"cluster": "firm"},
    "cluster bootstrap": {"cluster": "firm", "covariance": "bootstrap"},
}


def few_firms(n_firms: int) -> Callable[[int], Any]:
    """Return what draws that many firms."""
    return lambda seed: shared_shocks(seed, ("firm",), n_firms)


DESIGNS: dict[str, tuple[Callable[[int], Any], dict[str, dict[str, Any]]]] = {
    "shocks by firm": (
        lambda seed: shared_shocks(seed, ("firm",)),
        {
            "observed": {},
            **WAYS,
        },
    ),
    "8 firms": (few_firms(8), WAYS),
    "20 firms": (few_firms(20), WAYS),
    "50 firms": (few_firms(50), WAYS),
    "shocks by firm and by year": (
        lambda seed: shared_shocks(seed, ("firm", "year")),
        {
            "observed": {},
            "clustered by firm": {"cluster": "firm"},
            "clustered by firm and year": {"cluster": ["firm", "year"]},
        },
    ),
    "unequal sampling": (
        unequal_sampling,
        {
            "no weights": {},
            "probability weights": {"weights": "w", "weights_kind": "probability"},
        },
    ),
    "unequal sampling, 500 rows": (
        lambda seed: unequal_sampling(seed, 870, 0.08),
        {"probability weights": {"weights": "w", "weights_kind": "probability"}},
    ),
}


def replicate(task: tuple[str, str, int, int]) -> Any:
    """Draw one sample, fit it, and say which intervals hold the truth."""
    import warnings

    import numpy as np

    import selfselect as ss

    design, label, seed, draws = task
    make, fits = DESIGNS[design]
    options = dict(fits[label])
    if options.get("covariance") == "bootstrap":
        options["covariance"] = ss.inference.Bootstrap(draws)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = ss.fit("y ~ x", make(seed), chosen="who", seed=seed, **options)
        except ss.errors.DataError:
            return np.full(len(SCALES), np.nan)
    truth = np.array([v for part in TRUTH.values() for v in (*part.values(), 1.0)])
    ends = result.conf_int(LEVEL).to_numpy()
    return 1.0 * ((ends[:, 0] <= truth) & (truth <= ends[:, 1]))


def study(pool: Any, design: str, label: str, replications: int, draws: int) -> str:
    """Return one row of the table."""
    import numpy as np

    tasks = [(design, label, seed, draws) for seed in range(replications)]
    found = np.array(list(pool.imap_unordered(replicate, tasks, chunksize=10)))
    failed = int(np.isnan(found[:, 0]).sum())
    found = 100 * np.nanmean(found, axis=0)
    scales = np.array(SCALES)
    coefficients = found[~scales]
    return (
        f"| {design} | {label} | {coefficients.mean():.1f}% | {coefficients.min():.1f}% | "
        f"{coefficients.max():.1f}% | {found[scales].mean():.1f}% | {failed} |"
    )


def page(rows: list[str], replications: int, draws: int) -> str:
    error = 100 * (LEVEL * (1 - LEVEL) / replications) ** 0.5
    return f"""# Coverage of 95% intervals under clusters and weights

The larger of two outcomes is observed, one covariate, six parameters. *Shocks by firm*: 40 firms
in 25
years; {100 * SHARE:.0f}% of the noise's variance, and half of the covariate's, is common to all
rows of a firm; *8, 20, 50 firms* are the same with so many firms. *By firm and by year*: each has
such a share. *Unequal sampling*: of 2,500 rows those with a large outcome were kept rarely, and
weights, up to 6.7 times the smallest, are one over the chance to be kept; of *500 rows*, up to 12.5
times. Average, lowest and highest coverage over the coefficients, and the average over the scales;
of {replications} samples, so one parameter's has a standard error of {error:.1f} points. The
bootstrap draws {draws} samples. `failed` counts samples in which it was refused, since too few of
its samples could be fitted.

Sandwiches are bias-reduced, by clusters or by rows, and intervals under clusters are those of
Student's t with one degree of freedom less than there are clusters (of the way with fewest); firms
have the same number of rows ([where they do not](coverage-unequal-clusters.md)). Intervals of
scales cover less than their level with few clusters or unequal weights, because their scores are
squares, whose variance a few units do not show. Ignoring clusters is far worse.

Made by `python experiments/coverage_clusters_weights.py --replications {replications}`.

| design | covariance | coefficients | lowest | highest | scales | failed |
|---|---|---|---|---|---|---|
""" + "\n".join(rows) + "\n"  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=400)
    parser.add_argument("--draws", type=int, default=99)
    parser.add_argument("--processes", type=int, default=2)
    where = Path("docs/studies/coverage-clusters-weights.md")
    parser.add_argument("--output", type=Path, default=where)
    options = parser.parse_args()
    # Processes share the cores already; each of them computes on one thread.
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    started = time.perf_counter()
    rows = []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for design, (_, fits) in DESIGNS.items():
            for label in fits:
                rows.append(study(pool, design, label, options.replications, options.draws))
                print(f"{time.perf_counter() - started:6.0f} s  {rows[-1]}", flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(page(rows, options.replications, options.draws), encoding="utf-8")


if __name__ == "__main__":
    main()
