"""Coverage of 95% intervals where alternatives are joined: python experiments/coverage_joint.py.

Correlated noise (two alternatives in closed form, three by simulation), a shared shock, an
alternative whose outcome is never recorded, and an estimated cost. Draws samples, fits each, and
counts how often the interval of every parameter holds the truth. Writes a Markdown table.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEVEL = 0.95


@dataclass(frozen=True)
class Design:
    """One row of the table.

    Attributes
    ----------
    name : what is estimated.
    n_rows : rows per sample.
    n_alternatives : how many.
    fraction : of the replications that are made; fits by simulation take seconds.
    """

    name: str
    n_rows: int
    n_alternatives: int
    fraction: float = 1.0


DESIGNS = [
    Design("correlated", 1_500, 2),
    Design("shared shock", 2_000, 4),
    Design("silent alternative", 1_000, 3),
    Design("silent alternative", 4_000, 3),
    Design("estimated cost", 1_500, 2),
    Design("correlated, simulated", 2_000, 3, 0.25),
]

SLOPES = [(0.8, -0.3), (-0.5, 0.6), (0.2, 0.7), (0.5, 0.4)]
INTERCEPTS = [0.2, 0.4, 0.0, 0.3]
SCALES = [0.8, 1.0, 1.2, 0.9]
DRAWS = 64
"""Points of the simulation; with so few rows their error is far below a standard error."""


def draw(design: Design, seed: int) -> tuple[Any, dict[str, Any], dict[tuple[str, str], float]]:
    """Draw a sample; return the table, the arguments of the fit, and the true parameters."""
    import numpy as np
    import pandas as pd

    from selfselect.noises import Correlated, SharedShock

    rng = np.random.default_rng([seed, design.n_alternatives, len(design.name)])
    n, k = design.n_rows, design.n_alternatives
    labels = list("abcd")[:k]
    x = rng.standard_normal((n, 2))
    means = np.array(INTERCEPTS[:k]) + x @ np.array(SLOPES[:k]).T
    noise = rng.standard_normal((n, k)) * SCALES[:k]
    truth = {}
    for j, label in enumerate(labels):
        truth |= {
            (label, "Intercept"): INTERCEPTS[j],
            (label, "x1"): SLOPES[j][0],
            (label, "x2"): SLOPES[j][1],
            (label, "scale"): SCALES[j],
        }
    options: dict[str, Any] = {"formula": "y ~ x1 + x2", "chosen": "seen"}
    cost = np.zeros((n, k))
    table = pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1]})
    if design.name.startswith("correlated"):
        pairs = (
            {("a", "b"): 0.5} if k == 2 else {("a", "b"): 0.4, ("a", "c"): 0.0, ("b", "c"): -0.3}
        )
        matrix = np.eye(k)
        for (one, other), value in pairs.items():
            j, m = labels.index(one), labels.index(other)
            matrix[j, m] = matrix[m, j] = value
            truth[f"{one} & {other}", "correlation"] = value
        noise = rng.standard_normal((n, k)) @ np.linalg.cholesky(matrix).T * SCALES[:k]
        options["noise"] = Correlated(draws=DRAWS)
    elif design.name == "shared shock":
        loadings = [0.6, 0.9, 0.5, 0.7]
        noise = rng.standard_normal((n, k))
        truth = {key: value for key, value in truth.items() if key[1] != "scale"}
        truth["(common)", "scale"] = 1.0
        noise += rng.standard_normal((n, 1)) * loadings
        truth |= {(label, "loading"): b for label, b in zip(labels, loadings, strict=True)}
        options["noise"] = SharedShock(scale="common")
    elif design.name == "silent alternative":
        options["missing_outcome"] = "silent"
    elif design.name == "estimated cost":
        table["z"] = rng.standard_normal(n)
        cost[:, 1] = 0.3 + 0.5 * table["z"]
        truth |= {("b", "cost: Intercept"): 0.3, ("b", "cost: z"): 0.5}
        options["cost"] = {"b": "~ z"}
    latent = means + noise
    seen = (latent - cost).argmax(axis=1)
    table["y"] = latent[np.arange(n), seen]
    table["seen"] = np.array(labels)[seen]
    if design.name == "silent alternative":
        table.loc[table["seen"] == "c", "y"] = np.nan
    return table, options, truth


def replicate(task: tuple[Design, int]) -> Any:
    """Draw one sample, fit it, and say which intervals hold the truth; None where it failed."""
    import warnings

    import numpy as np

    import selfselect as ss
    from selfselect.solvers import Continuation

    warnings.simplefilter("ignore")
    design, seed = task
    table, options, truth = draw(design, seed)
    if design.n_alternatives == 3 and "noise" in options:
        options["solver"] = Continuation(steady=None)
    try:
        result = ss.fit(options.pop("formula"), table, **options)
    except ss.errors.SelfSelectError:
        return None
    if not result.converged:
        return None
    ends = result.conf_int(LEVEL)
    values = np.array([truth[label] for label in ends.index])
    covered = (ends["conf_low"] <= values) & (values <= ends["conf_high"])
    return dict(zip(ends.index, covered, strict=True))


def study(pool: Any, design: Design, replications: int) -> str:
    """Return the design's row of the table."""
    import pandas as pd

    replications = round(design.fraction * replications)
    tasks = [(design, seed) for seed in range(replications)]
    done = [one for one in pool.imap_unordered(replicate, tasks, chunksize=10) if one is not None]
    coverage = 100 * pd.DataFrame(done).mean()
    worst = coverage.idxmin()
    return (
        f"| {design.name} | {design.n_alternatives} | {design.n_rows:,} | {len(coverage)} | "
        f"{coverage.mean():.2f}% | {coverage.min():.2f}% ({worst[0]}: {worst[1]}) | "
        f"{coverage.max():.2f}% | {replications:,} | {replications - len(done)} |"
    )


def page(rows: list[str], replications: int) -> str:
    error = 100 * (LEVEL * (1 - LEVEL) / replications) ** 0.5
    head = f"""# Coverage of 95% intervals where alternatives are joined

Two standard normal covariates and an intercept per alternative, scales from 0.8 to 1.2, one per
alternative; the largest outcome is observed. `correlated`: correlation 0.5. `correlated,
simulated`: 0.4, 0 and -0.3, by GHK with {DRAWS} points. `shared shock`: loadings from 0.5 to 0.9,
one scale of 1 for all. `silent
alternative`: c is chosen but its outcome never recorded, noise independent. `estimated cost`: that
of b is 0.3 + 0.5 z. Observed-information errors; intervals of scales on the log scale, of
correlations on Fisher's. Coverage is over the fits that converged; a fit at a boundary counts as
failed. One parameter's coverage over {replications:,} replications has a standard error of
{error:.2f} percentage points.

Made by `python experiments/coverage_joint.py --replications {replications}`.

| design | alternatives | rows | parameters | average | lowest | highest | samples | failed |
|---|---|---|---|---|---|---|---|---|
"""
    return head + "\n".join(rows) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=2_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", help="designs whose name contains this")
    parser.add_argument("--output", type=Path, default=Path("docs/studies/coverage-joint.md"))
    options = parser.parse_args()
    # Processes share the cores already; each of them computes on one thread.
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    started = time.perf_counter()
    rows = []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for design in DESIGNS:
            if options.only is None or options.only in design.name:
                rows.append(study(pool, design, options.replications))
                print(f"{time.perf_counter() - started:6.0f} s  {rows[-1]}", flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(page(rows, options.replications), encoding="utf-8")


if __name__ == "__main__":
    main()
