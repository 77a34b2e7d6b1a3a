"""Algorithm 2 as it is printed, row by row with Langevin draws, beside what else can be run.

The setting is that of `theorem1.py`: known index, known scale, the largest of three observed. As
printed means one row per step, a draw by projected Langevin (Algorithm 1), steps of 1/(λt) with
λ = α/(σ²k), and the average of all iterates; only its sign is corrected, since printed it descends
on a log-likelihood. Writes a page and a picture.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np

import selfselect as ss
from selfselect.errors import ConvergenceWarning
from selfselect.noises import Independent
from selfselect.samplers import BoxExact, ProjectedLangevin
from selfselect.solvers import ProjectedSGD

PRINTED = {"strength": 1 / 3, "bound": 2.0, "batch": 1, "average": "all"}
METHODS = {
    "as printed": ProjectedSGD(**PRINTED, sampler=ProjectedLangevin(gamma=0.05, steps=200)),
    "as printed, exact draws": ProjectedSGD(**PRINTED, sampler=BoxExact(moments=False)),
    "batches of 32, tail average, exact means": ProjectedSGD(),
    "MLE": None,
}


HEIGHTS = (0.02, 0.03, 0.05, 0.1, 0.15)


def errors(n_rows: int, seed: int) -> dict[str, tuple[float, float, bool]]:
    """Return error, distance from the MLE in standard errors, and whether converged."""
    sample = ss.simulators.gaussian(n_rows, 4, 3, intercept=False, seed=seed)
    options = {"chosen": "chosen", "noise": Independent(1.0), "seed": seed}
    exact = ss.fit(sample.formula, sample.data, **options)
    found = {}
    for name, solver in METHODS.items():
        result = ss.fit(sample.formula, sample.data, solver=solver, **options)
        values = result.params[[key for key in result.params.index if key[1] != "scale"]]
        gap = values - sample.params.reindex(values.index)
        away = ((result.params - exact.params) / exact.bse).abs().max()
        error = float(np.sqrt(np.mean(gap**2)))
        found[name] = (error, float(away), bool(result.converged))
    return found


def study(sizes: list[int], n_samples: int) -> dict[str, np.ndarray]:
    """Return, by method, (sizes, 3): error, standard errors from the MLE, share converged."""
    table: dict[str, list[np.ndarray]] = {name: [] for name in METHODS}
    started = time.perf_counter()
    for n_rows in sizes:
        each = [errors(n_rows, seed) for seed in range(n_samples)]
        for name, lines in table.items():
            runs = np.array([one[name] for one in each], dtype=float)
            lines.append(np.append(np.sqrt(np.mean(runs[:, 0] ** 2)), runs[:, 1:].mean(axis=0)))
        print(f"{time.perf_counter() - started:6.0f} s  n = {n_rows}", flush=True)
    return {name: np.array(lines) for name, lines in table.items()}


def page(sizes: list[int], table: dict[str, np.ndarray], n_samples: int) -> str:
    heads = " | ".join(f"n = {n:,}" for n in sizes)
    rows = "\n".join(
        f"| {name} | "
        + " | ".join(f"{value:.4f}" for value in lines[:, 0])
        + f" | {lines[-1, 1]:.2f} | {100 * lines[:, 2].mean():.0f}% |"
        for name, lines in table.items()
    )
    printed, best = (table[name][-1, 0] for name in ("as printed", "MLE"))
    return f"""# Algorithm 2 as printed

Root mean square error of the coefficients over {n_samples} samples: three alternatives, four
standard normal covariates, slopes of length one, no intercept, noise of known scale 1, the largest
observed. *As printed*: one row per step, a draw by 200 steps of projected Langevin of size 0.05,
steps
of 1/(λt) with λ = α/k = 1/3, coefficients confined to length 2, the average of all iterates, one
pass without replacement. Only the sign is corrected: printed, it descends on a log-likelihood, and
runs to the boundary. *Exact draws* has the same with exact draws in place of Langevin's. Then come
the distance from the MLE at the largest n, in standard errors of the coefficient that is farthest
away, and the share of all runs that reported convergence.

| method | {heads} | from the MLE | converged |
|---|{"---|" * len(sizes)}---|---|
{rows}

![error against n](../images/algorithm2.png)

With {sizes[-1]:,} rows the error of the algorithm as printed is {printed / best:.1f} times that
of the MLE. The average of all iterates keeps the effect of the first ones, which steps of 1/(λt)
with one row move far away; a draw in place of a mean adds noise; and Langevin steps of a fixed
size have a bias that does not vanish with more rows. Averaging the second half of the iterates of
batches, with exact means, is the default of `ProjectedSGD()`. A run has converged where the score
at its end puts the optimum within one standard error of every coefficient.

Made by `python experiments/algorithm2.py --samples {n_samples} --largest {sizes[-1]}`.
"""


def draw(sizes: list[int], table: dict[str, np.ndarray], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    for (name, lines), marker in zip(table.items(), "osD^", strict=True):
        axes.loglog(sizes, lines[:, 0], marker=marker, label=name)
    axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
    axes.minorticks_off()
    axes.set_yticks(HEIGHTS, [f"{height:g}" for height in HEIGHTS])
    axes.set_xlabel("rows")
    axes.set_ylabel("root mean square error of a coefficient")
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--largest", type=int, default=8_000)
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    sizes = [500 * 4**power for power in range(4) if 500 * 4**power <= options.largest]
    table = study(sizes, options.samples)
    (options.docs / "studies" / "algorithm2.md").write_text(
        page(sizes, table, options.samples), encoding="utf-8"
    )
    draw(sizes, table, options.docs / "images" / "algorithm2.png")


if __name__ == "__main__":
    main()
