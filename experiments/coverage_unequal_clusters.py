"""Coverage of 95% intervals where a few clusters hold most of the rows: see --help.

Rows of a cluster share parts of every covariate and noise. Each design is fitted as sample
selection, by maximum likelihood and in two steps, and as the larger of two outcomes. Writes a
Markdown table.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

LEVEL = 0.95
SHARE = 0.3
"""Share of the variance of every covariate and noise that rows of a cluster have in common."""

DESIGNS = {
    "40 of 30 rows": [30] * 40,
    "3 of 300 rows, 37 of 10": [300] * 3 + [10] * 37,
    "60, log-normal": None,
    "3 of 1,000 rows, 197 of 10": [1_000] * 3 + [10] * 197,
}
SELECTION = {
    ("outcome", "Intercept"): 1.0,
    ("outcome", "x"): 0.7,
    ("outcome", "scale"): 1.5,
    ("outcome", "correlation"): 0.6,
    ("selection", "Intercept"): 0.2,
    ("selection", "x"): 0.5,
    ("selection", "z"): 0.8,
}
LARGER = {
    ("a", "Intercept"): 0.3,
    ("a", "x"): 0.8,
    ("a", "scale"): 1.0,
    ("b", "Intercept"): 0.2,
    ("b", "x"): -0.6,
    ("b", "scale"): 1.0,
}
MODELS = {"selection, ml": SELECTION, "selection, two-step": SELECTION, "larger of two": LARGER}


def draw(design: str, seed: int) -> Any:
    """Draw rows with outcomes of both models."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng([7, seed])
    sizes = DESIGNS[design] or np.maximum(3, (20 * np.exp(rng.standard_normal(60))).astype(int))
    cluster = np.repeat(np.arange(len(sizes)), sizes)

    def standard() -> Any:
        shared = rng.standard_normal(len(sizes))[cluster]
        return SHARE**0.5 * shared + (1 - SHARE) ** 0.5 * rng.standard_normal(len(cluster))

    x, z, u, v = (standard() for _ in range(4))
    selected = 0.2 + 0.5 * x + 0.8 * z + u > 0
    latent = np.column_stack([0.3 + 0.8 * x + u, 0.2 - 0.6 * x + v])
    return pd.DataFrame(
        {
            "x": x,
            "z": z,
            "selected": selected,
            "y": np.where(selected, 1 + 0.7 * x + 1.5 * (0.6 * u + 0.8 * v), np.nan),
            "larger": latent.max(axis=1),
            "who": np.array(["a", "b"])[latent.argmax(axis=1)],
            "cluster": cluster,
        }
    )


def replicate(task: tuple[str, str, int]) -> Any:
    """Draw one sample, fit it, and return effective clusters, estimates, errors and intervals."""
    import numpy as np

    import selfselect as ss
    from selfselect.inference.statistics import interval_reach

    design, model, seed = task
    table = draw(design, seed)
    if model == "larger of two":
        fit = ss.fit("larger ~ x", table, chosen="who", cluster="cluster")
    else:
        fit = ss.sample_selection(
            "y ~ x", "selected ~ x + z", table, cluster="cluster", method=model.split(", ")[1]
        )
    truth = MODELS[model]
    names = list(truth)
    ends = fit.conf_int(LEVEL).loc[names].to_numpy()
    wanted = np.array(list(truth.values()))
    inside = 1.0 * ((ends[:, 0] <= wanted) & (wanted <= ends[:, 1]))
    inside[fit.bse[names].isna()] = np.nan
    reach = interval_reach(LEVEL, table["cluster"].nunique() - 1)
    by_count = 1.0 * (np.abs(fit.params[names] - wanted) <= reach * fit.bse[names])
    return fit.covariance.df + 1, fit.params[names], fit.bse[names], inside, by_count


def study(pool: Any, design: str, model: str, replications: int) -> str:
    """Return one row of the table."""
    import numpy as np

    tasks = [(design, model, seed) for seed in range(replications)]
    parts = zip(*pool.imap(replicate, tasks, chunksize=10), strict=True)
    effective, estimates, errors, inside, by_count = (np.array(part) for part in parts)
    slopes = np.array([term not in ("scale", "correlation") for _, term in MODELS[model]])
    covered = 100 * inside.mean(axis=0)
    ratio = (np.median(errors, axis=0) / estimates.std(axis=0, ddof=1))[slopes]
    others = covered[~slopes]
    return (
        f"| {design} | {model} | {effective.mean():.1f} | {ratio.mean():.2f} | "
        f"{100 * by_count[:, slopes].mean():.1f}% | {covered[slopes].mean():.1f}% | "
        f"{covered[slopes].min():.1f}% | "
        f"{'' if np.isnan(others).any() else f'{others.mean():.1f}%'} |"
    )


def page(rows: list[str], replications: int) -> str:
    error = 100 * (LEVEL * (1 - LEVEL) / replications) ** 0.5
    return f"""# Coverage of 95% intervals where a few clusters hold most of the rows

{100 * SHARE:.0f}% of the variance of every covariate and noise is common to the rows of a cluster.
*Selection*: 0.2 + 0.5 x + 0.8 z + u > 0; its outcome is 1 + 0.7 x, scale 1.5, correlation 0.6 with
u. *Larger of two*: 0.3 + 0.8 x and 0.2 - 0.6 x with standard noises. *Log-normal*: sizes of
clusters have a log deviation of one. Fitted with `cluster=`; {replications} samples, so one
parameter's coverage has a standard error of {error:.1f} points.

`effective` is the number of clusters of equal size that those are worth, (Σ N)² / Σ N² over their
sizes N (Carter, Schnepel and Steigerwald 2017, where a cluster's part in the variance is in
proportion to its size). `errors / dev.` is the median standard error over the standard deviation of
the estimates, averaged over coefficients. `by count` is the coverage that Student's t with one
degree of freedom less than there are *clusters* would reach, `coverage` that of the intervals of
results, which have one less than there are *effective* clusters; then the lowest of any
coefficient, and the average over scales and correlations.

By maximum likelihood the scores of all clusters, or of more than 100 clusters the large ones, are
bias-reduced. Two steps have a plain sandwich times G/(G - 1). Where a few clusters hold most of the
rows most standard errors are too small, and now and then one is far too large.

Made by `python experiments/coverage_unequal_clusters.py --replications {replications}`.

| clusters | model | effective | errors / dev. | by count | coverage | lowest | scales |
|---|---|---|---|---|---|---|---|
""" + "\n".join(rows) + "\n"  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=400)
    parser.add_argument("--processes", type=int, default=2)
    where = Path("docs/studies/coverage-unequal-clusters.md")
    parser.add_argument("--output", type=Path, default=where)
    options = parser.parse_args()
    # Processes share the cores already; each of them computes on one thread.
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    started = time.perf_counter()
    rows = []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for design in DESIGNS:
            for model in MODELS:
                rows.append(study(pool, design, model, options.replications))
                print(f"{time.perf_counter() - started:6.0f} s  {rows[-1]}", flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(page(rows, options.replications), encoding="utf-8")


if __name__ == "__main__":
    main()
