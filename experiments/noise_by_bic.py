"""How often BIC finds the noise that a sample was drawn with: see --help.

Draws samples of two alternatives, the larger outcome observed and the choice recorded, in cross
sections and in panels, lets `choose_noise` fit them under all candidates, and counts which one has
the smallest BIC. Writes a Markdown table.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
import warnings
from pathlib import Path
from typing import Any

CROSS_SECTIONS = {
    "normal": "normal", "logistic": "logistic", "laplace": "laplace", "t5": "student",
    "two normals": "mixture of two", "moving scale": "moving scale",
    "correlation 0.5": "correlated", "correlation -0.5": "correlated",
}  # fmt: skip
"""By truth, the name of the candidate that is right."""

PANELS = {"random effect": "shared shock", "two types": "two types", "three types": "three types"}
YEARS = 5


def draw(truth: str, n_rows: int, seed: int) -> Any:
    """Draw a table of outcomes and choices."""
    import numpy as np
    import pandas as pd

    every = [*CROSS_SECTIONS, *PANELS]
    rng = np.random.default_rng([seed, n_rows, every.index(truth)])
    x, z = rng.standard_normal((2, n_rows))
    person = np.arange(n_rows) // (YEARS if truth in PANELS else 1)
    noise = _noise(truth, rng, x, person)
    latent = np.column_stack([0.3 + 0.8 * x, 0.1 - 0.5 * x + 0.6 * z]) + noise
    chosen = latent.argmax(axis=1)
    return pd.DataFrame({
        "y": latent[np.arange(n_rows), chosen], "job": np.array(["a", "b"])[chosen],
        "x": x, "z": z, "person": person,
    })  # fmt: skip


def _noise(truth: str, rng: Any, x: Any, person: Any) -> Any:
    """Return noises (n, 2) of mean zero."""
    import numpy as np

    size = (len(x), 2)
    plain = rng.standard_normal(size)
    if truth == "normal":
        return plain
    if truth == "logistic":
        return rng.logistic(size=size) * np.sqrt(3.0) / np.pi
    if truth == "laplace":
        return rng.laplace(size=size) / np.sqrt(2.0)
    if truth == "t5":
        return rng.standard_t(5, size) / np.sqrt(5.0 / 3.0)
    if truth == "two normals":
        first = rng.uniform(size=size) < 0.3
        return np.where(first, 1.05 + 0.9 * plain, -0.45 + 0.5 * plain)
    if truth == "moving scale":
        return plain * np.exp(0.3 * x)[:, None]
    if truth.startswith("correlation"):
        rho = float(truth.split()[1])
        return np.column_stack([plain[:, 0], rho * plain[:, 0] + np.sqrt(1 - rho**2) * plain[:, 1]])
    people = person[-1] + 1
    if truth == "random effect":
        return 0.8 * plain + 0.8 * rng.standard_normal(people)[person, None]
    shifts = {
        "two types": [(0.6, -0.4), (-0.9, 0.6)],
        "three types": [(1.2, 0.0), (-0.6, 1.0), (-0.6, -1.0)],
    }[truth]
    weights = {"two types": [0.6, 0.4], "three types": [1 / 3, 1 / 3, 1 / 3]}[truth]
    return 0.8 * plain + np.array(shifts)[rng.choice(len(shifts), people, p=weights)][person]


def candidates(truth: str) -> dict[str, Any]:
    """Return the noises to choose among."""
    from selfselect.noises import Correlated, Independent, Mixture, SharedShock, Student, Types

    every = {
        "normal": Independent(),
        "logistic": Independent(shape="logistic"),
        "laplace": Independent(shape="laplace"),
        "student": Student(),
        "mixture of two": Mixture(2),
        "moving scale": Independent(scale={"a": "~ x", "b": "~ x + z"}),
        "correlated": Correlated(),
    }
    if truth in PANELS:
        every |= {
            "shared shock": SharedShock(),
            "two types": Types(2),
            "three types": Types(3),
            "four types": Types(4),
        }
    return every


def replicate(task: tuple[str, int, int]) -> str:
    """Return the name of the noise with the smallest BIC."""
    import selfselect as ss

    truth, n_rows, seed = task
    panel = "person" if truth in PANELS else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ss.choose_noise(
            {"a": "y ~ x", "b": "y ~ x + z"}, draw(truth, n_rows, seed), chosen="job", panel=panel,
            candidates=candidates(truth), seed=seed, progress=False,
        ).best  # fmt: skip


def line(truth: str, right: str, found: list[str]) -> str:
    """Return one row of the table."""
    share = 100 * found.count(right) / len(found)
    wrong = {name: 100 * found.count(name) / len(found) for name in dict.fromkeys(found)}
    others = sorted((name for name in wrong if name != right), key=lambda name: -wrong[name])
    listed = ", ".join(f"{name} {wrong[name]:.0f}%" for name in others)
    where = f"panel of {YEARS}" if truth in PANELS else "cross-section"
    return f"| {truth} | {where} | {right} | {share:.0f}% | {listed} |"


def page(lines: list[str], options: Any) -> str:
    return f"""# Does BIC find the noise?

Samples of {options.rows:,} rows of two alternatives, the larger outcome observed and the choice
recorded; in panels the rows of {options.rows // YEARS} people of {YEARS} years each.
`choose_noise` fits each sample under normal, logistic, Laplace and Student noise, a mixture of two
normals, scales that move with the covariates, and correlated noise; in panels also under a shared
shock and two to four types. {options.replications} samples each.

Made by `python experiments/noise_by_bic.py --replications {options.replications} --rows
{options.rows}`.

| truth | rows | right | found | others |
|---|---|---|---|---|
{chr(10).join(lines)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=100)
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("docs/studies/noise-by-bic.md"))
    options = parser.parse_args()
    # Processes share the cores already; each of them computes on one thread.
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["SELFSELECT_THREADS"] = "1"
    started, lines = time.perf_counter(), []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for truth, right in (CROSS_SECTIONS | PANELS).items():
            tasks = [(truth, options.rows, seed) for seed in range(options.replications)]
            lines.append(line(truth, right, pool.map(replicate, tasks, 1)))
            print(f"{time.perf_counter() - started:6.0f} s  {lines[-1]}", flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(page(lines, options), encoding="utf-8")


if __name__ == "__main__":
    main()
