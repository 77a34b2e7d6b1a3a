"""Error against n of least squares, the paper's method and the MLE.

The setting of Theorem 1: known index, known scale, Gaussian covariates without intercept, the
largest of three observed, so that all three can be run at any n. Writes a page and a picture.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import selfselect as ss
from selfselect.noises import Independent
from selfselect.samplers import ProjectedLangevin
from selfselect.solvers import ProjectedSGD

METHODS = {
    "least squares": None,
    "PSGD, Langevin": ProjectedSGD(sampler=ProjectedLangevin(gamma=0.05, steps=200)),
    "PSGD, exact means": ProjectedSGD(),
    "MLE": "exact",
}


def errors(n_rows: int, seed: int, n_covariates: int = 4) -> dict[str, float]:
    """Return the root mean square error of the coefficients by method, of one sample."""
    sample = ss.simulators.gaussian(n_rows, n_covariates, 3, intercept=False, seed=seed)
    found = {}
    for name, solver in METHODS.items():
        result = ss.fit(
            sample.formula, sample.data, chosen="chosen", noise=Independent(1.0), seed=seed,
            solver=solver if isinstance(solver, ProjectedSGD) else None,
        )  # fmt: skip
        values = result.naive["estimate"] if name == "least squares" else result.params
        values = values[[key for key in values.index if key[1] != "scale"]]
        gap = values - sample.params.reindex(values.index)
        found[name] = float(np.sqrt(np.mean(gap**2)))
    return found


def study(sizes: list[int], n_samples: int) -> dict[str, list[float]]:
    table: dict[str, list[float]] = {name: [] for name in METHODS}
    started = time.perf_counter()
    for n_rows in sizes:
        each = [errors(n_rows, seed) for seed in range(n_samples)]
        for name, line in table.items():
            line.append(float(np.sqrt(np.mean([one[name] ** 2 for one in each]))))
        print(f"{time.perf_counter() - started:6.0f} s  n = {n_rows}", flush=True)
    return table


def page(sizes: list[int], table: dict[str, list[float]], n_samples: int) -> str:
    slopes = {name: np.polyfit(np.log(sizes), np.log(line), 1)[0] for name, line in table.items()}
    rows = "\n".join(
        f"| {name} | " + " | ".join(f"{value:.4f}" for value in line) + f" | {slopes[name]:+.2f} |"
        for name, line in table.items()
    )
    heads = " | ".join(f"n = {n:,}" for n in sizes)
    langevin, exact = slopes["PSGD, Langevin"], slopes["PSGD, exact means"]
    return f"""# Theorem 1: error against the number of rows

Root mean square error of the coefficients over {n_samples} samples: three alternatives, four
standard normal covariates, slopes of length one, no intercept, noise of known scale 1, the largest
observed. Least squares uses the rows in which each alternative was observed. PSGD is one pass of
`ProjectedSGD` in batches of 32, with 200 steps of projected Langevin of size 0.05 per draw, or with
exact conditional means. The last column is the slope of log error on log n.

| method | {heads} | slope |
|---|{"---|" * len(sizes)}---|
{rows}

![error against n](../images/theorem1.png)

**Theorem and simulation.** The theorem states an error whose square falls
as log(n)/n, a slope of -1/2 up to the logarithm; its proof, which draws rows with replacement and
must not draw one twice, gives only log(n)/sqrt(n), a slope of -1/4. In one pass without
replacement and with exact means the slope observed is {exact:+.2f}, that of the MLE
{slopes["MLE"]:+.2f}. With Langevin draws of a fixed step size it is {langevin:+.2f}
over these n: the bias of the sampler does not shrink with n, so the error must level off where it
meets that bias, and the theorem has to shrink the step with the accuracy wanted. Least squares does
not converge ({slopes["least squares"]:+.2f}: it levels off at its bias). Slopes rest on
{n_samples} samples per size, so their second digit is not reliable.

Made by `python experiments/theorem1.py --samples {n_samples} --largest {sizes[-1]}`.
"""


def draw(sizes: list[int], table: dict[str, list[float]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.0, 4.0), layout="constrained")
    for (name, line), marker in zip(table.items(), "os^D", strict=True):
        axes.loglog(sizes, line, marker=marker, label=name)
    guide = table["MLE"][0] * np.sqrt(sizes[0] / np.array(sizes))
    axes.loglog(sizes, 0.8 * guide, ":", color="grey", label="slope -1/2")
    axes.set_xlabel("rows")
    axes.set_ylabel("root mean square error of a coefficient")
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--largest", type=int, default=32_000)
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    options = parser.parse_args()
    sizes = [1_000 * 2**power for power in range(8) if 1_000 * 2**power <= options.largest]
    table = study(sizes, options.samples)
    (options.docs / "studies" / "theorem1.md").write_text(
        page(sizes, table, options.samples), encoding="utf-8"
    )
    draw(sizes, table, options.docs / "images" / "theorem1.png")


if __name__ == "__main__":
    main()
