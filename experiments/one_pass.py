"""One pass of ProjectedSGD against the MLE, n = 100,000: python experiments/one_pass.py [--help].

The scale is known, the largest of three is observed and no alternative is dominated. Writes a page.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import selfselect as ss
from selfselect.noises import Independent
from selfselect.samplers import BoxExact
from selfselect.solvers import ProjectedSGD

METHODS = {
    "MLE": None,
    "exact conditional means": ProjectedSGD(),
    "one draw per row": ProjectedSGD(sampler=BoxExact(moments=False)),
    "exact conditional means, all iterates averaged": ProjectedSGD(average="all"),
}
SLOPES = [(0.8, -0.3, 0.2, 0.1, -0.3), (-0.5, 0.6, 0.1, -0.4, 0.2), (0.2, 0.4, -0.6, 0.3, 0.3)]


def squared_errors(n_rows: int, seed: int) -> dict[str, float]:
    """Return the mean squared error of the 18 coefficients of one sample, by method."""
    x = np.random.default_rng(seed).standard_normal((n_rows, 5))
    table = {f"x{i + 1}": x[:, i] for i in range(5)}
    truth = {
        label: {"Intercept": 0.2 * j} | dict(zip(table, SLOPES[j], strict=True))
        for j, label in enumerate("abc")
    }
    sample = ss.simulate(truth, table, seed=seed)
    found = {}
    for name, solver in METHODS.items():
        result = ss.fit(
            sample.formula, sample.data, chosen="chosen", noise=Independent(1.0), solver=solver,
            seed=seed,
        )  # fmt: skip
        gap = result.params - sample.params.reindex(result.params.index)
        found[name] = float(np.mean(gap**2))
    return found


def ratio(ours: list[float], best: list[float]) -> tuple[float, float]:
    """Return the ratio of two root mean squares over the same samples, and its standard error."""
    value = np.sqrt(np.mean(ours) / np.mean(best))
    relative = np.array(ours) / np.mean(ours) - np.array(best) / np.mean(best)
    return float(value), float(0.5 * value * relative.std(ddof=1) / np.sqrt(len(ours)))


def page(squares: dict[str, list[float]], n_rows: int) -> str:
    n_samples = len(squares["MLE"])
    lines = []
    for name, found in squares.items():
        value, error = ratio(found, squares["MLE"])
        against = "1" if name == "MLE" else f"{value:.3f} ± {error:.3f}"
        lines.append(f"| {name} | {np.sqrt(np.mean(found)):.5f} | {against} |")
    rows = "\n".join(lines)
    return f"""# One pass of ProjectedSGD

Root mean square error of all 18 coefficients over {n_samples} samples of {n_rows:,} rows: three
alternatives with an intercept and five standard normal covariates each, noise of known scale 1, the
largest observed, none dominated. `ProjectedSGD` makes one pass with its defaults. The last column
is the ratio to the error of the MLE on the same samples, with its standard error over samples.

| ProjectedSGD with | rmse | over the MLE's |
|---|---|---|
{rows}

With one draw per row the score of a row scatters around that of the exact mean, which one pass
cannot average out: that line is a lower bound for one pass with any sampler.

Made by `python experiments/one_pass.py --samples {n_samples} --rows {n_rows}`.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=24)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--output", type=Path, default=Path("docs/studies/one-pass.md"))
    options = parser.parse_args()
    squares: dict[str, list[float]] = {name: [] for name in METHODS}
    started = time.perf_counter()
    for seed in range(options.samples):
        for name, value in squared_errors(options.rows, seed).items():
            squares[name].append(value)
        print(f"{time.perf_counter() - started:6.0f} s  {seed + 1}", flush=True)
    options.output.write_text(page(squares, options.rows), encoding="utf-8")


if __name__ == "__main__":
    main()
