"""Coverage of 95% intervals of multinomial switching: python experiments/coverage_multinomial.py.

Draws samples in which each correction is right, with strong and with weak excluded covariates, fits
it in two steps, and counts how often intervals of outcomes, corrections and effects hold the truth.
Dahl's correction has no model of its own: it is tried where Dubin and McFadden's is right, and
counts for slopes alone. Writes a Markdown table.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from functools import cache
from pathlib import Path
from typing import Any

LEVEL = 0.95
CORRECTIONS = ("dmf0", "dmf1", "dmf2", "lee", "dahl")
STRENGTHS = {"strong": 1.0, "weak": 0.3}
LABELS = ("a", "b", "c")
CONSTANTS, SLOPES = (1.0, 2.0, 0.0), (0.5, 1.0, -0.5)
MIXES = {
    "dmf0": ((0.4, -0.3, -0.1), (-0.2, 0.5, -0.3), (0.2, 0.2, -0.4)),
    "dmf1": ((0.4, -0.2, 0.0), (0.2, 0.5, -0.2), (0.0, 0.2, -0.5)),
}
MIXES |= {"dmf2": MIXES["dmf1"], "dahl": MIXES["dmf1"]}
LEE = (-0.5, 0.6, 0.4)
"""Covariances of outcomes' noises with the normal number that Lee's correction is about."""


def draw(correction: str, strength: float, n_rows: int, seed: int) -> tuple[Any, Any, Any]:
    """Draw rows; return the table, all outcomes, and the chosen alternatives."""
    import numpy as np
    import pandas as pd
    from scipy.special import ndtri

    rng = np.random.default_rng([seed, n_rows])
    x, z1, z2 = rng.standard_normal((3, n_rows))
    noise = rng.gumbel(size=(n_rows, 3))
    utility = np.column_stack([0 * x, 0.3 + 0.5 * x + strength * z1, -0.3 * x + strength * z2])
    pull = utility + noise
    chosen = pull.argmax(axis=1)
    own = rng.standard_normal((n_rows, 3))
    if correction == "lee":
        disturbance = np.empty((n_rows, 3))
        for j in range(3):
            others = [m for m in range(3) if m != j]
            rest = np.exp(utility[:, others]).sum(axis=1)
            lead = np.exp(pull[:, others].max(axis=1) - noise[:, j])
            disturbance[:, j] = LEE[j] * ndtri(np.clip(lead / (lead + rest), 1e-15, 1 - 1e-15))
    else:
        parts = noise - np.euler_gamma
        if correction == "dmf2":
            parts = ndtri(np.exp(-np.exp(-noise)))
        disturbance = parts @ np.array(MIXES[correction]).T
    latent = np.array(CONSTANTS) + x[:, None] * SLOPES + disturbance + 0.7 * own
    y = latent[np.arange(n_rows), chosen]
    job = np.array(LABELS)[chosen]
    return pd.DataFrame({"x": x, "z1": z1, "z2": z2, "job": job, "y": y}), latent, chosen


@cache
def true_effects(correction: str, strength: float) -> Any:
    """Return ATE, ATT and ATU of b instead of a, over 400,000 rows."""
    import numpy as np

    _, latent, chosen = draw(correction, strength, 400_000, 10**6)
    gain = latent[:, 1] - latent[:, 0]
    return np.array([gain.mean(), gain[chosen == 1].mean(), gain[chosen != 1].mean()])


def truth_of(correction: str, label: str, term: str) -> float:
    """Return the true value of a parameter of an outcome; missing where there is none."""
    j = LABELS.index(label)
    if term == "Intercept":
        return float("nan") if correction == "dahl" else CONSTANTS[j]
    if term == "x":
        return SLOPES[j]
    if correction == "lee":
        return LEE[j]
    if correction == "dahl":
        return float("nan")
    return MIXES[correction][j][LABELS.index(term.removeprefix("correction: "))]


def replicate(task: tuple[str, str, int, int]) -> tuple[list[str], list[float], list[bool]] | None:
    """Draw and fit one sample: names, estimates, and whether intervals hold the truth."""
    import math

    import selfselect as ss

    correction, strength, n_rows, seed = task
    table, _, _ = draw(correction, STRENGTHS[strength], n_rows, seed)
    try:
        fit = ss.multinomial_switching("y ~ x", "job ~ x + z1 + z2", table, correction=correction)
    except ss.errors.SelfSelectError:
        return None
    names, estimates, held = [], [], []
    ends = fit.conf_int(LEVEL)
    for (label, term), low, high, value in zip(
        ends.index, ends["conf_low"], ends["conf_high"], fit.values, strict=True
    ):
        truth = truth_of(correction, label, term) if label in LABELS else float("nan")
        if not math.isnan(truth):
            names.append(f"{label}:{term}")
            estimates.append(float(value) - truth)
            held.append(bool(low <= truth <= high))
    if correction != "dahl":
        effects = fit.treatment_effects("b", "a").table
        truths = true_effects(correction, STRENGTHS[strength])
        for row, truth in zip(effects.itertuples(), truths, strict=False):
            names.append(str(row.effect))
            estimates.append(float(row.estimate) - truth)
            held.append(bool(row.conf_low <= truth <= row.conf_high))
    return names, estimates, held


def study(pool: Any, correction: str, strength: str, options: Any) -> tuple[str, str]:
    """Return the rows of both tables: the whole, and by parameter."""
    import numpy as np

    tasks = [(correction, strength, options.rows, seed) for seed in range(options.replications)]
    done = [found for found in pool.imap_unordered(replicate, tasks, chunksize=5) if found]
    names = done[0][0]
    errors = np.array([found[1] for found in done])
    coverage = 100 * np.mean([found[2] for found in done], axis=0)
    whole = (
        f"| {correction} | {strength} | {len(names)} | {coverage.mean():.2f}% | "
        f"{coverage.min():.2f}% | {coverage.max():.2f}% | {len(done)} | "
        f"{options.replications - len(done)} |"
    )
    rows = [
        f"| {correction} | {strength} | {name} | {bias:+.4f} | {spread:.4f} | {share:.2f}% |"
        for name, bias, spread, share in zip(
            names, errors.mean(axis=0), errors.std(axis=0, ddof=1), coverage, strict=True
        )
    ]
    return whole, "\n".join(rows)


def page(whole: list[str], each: list[str], options: Any) -> str:
    error = 100 * (LEVEL * (1 - LEVEL) / options.replications) ** 0.5
    return f"""# Coverage of 95% intervals: multinomial switching

Samples of {options.rows:,} rows, three alternatives. Each correction is fitted where its
assumptions hold; Dahl's, which has no model of its own, where Dubin and McFadden's do, and counts
for slopes alone. Excluded covariates move the utility of one alternative each, by
{STRENGTHS["strong"]:g} (strong) or {STRENGTHS["weak"]:g} (weak) per standard deviation. Robust
standard errors over both steps; ATE, ATT and ATU are of b instead of a. Over
{options.replications:,} replications one parameter's coverage has a standard error of {error:.2f}
percentage points.

Made by `python experiments/coverage_multinomial.py --replications {options.replications} --rows
{options.rows}`.

| correction | exclusion | terms | average | lowest | highest | fits | failed |
|---|---|---|---|---|---|---|---|
{chr(10).join(whole)}

By parameter: bias, standard deviation and coverage.

| correction | exclusion | parameter | bias | deviation | coverage |
|---|---|---|---|---|---|
{chr(10).join(each)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=2_000)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--corrections", nargs="+", choices=CORRECTIONS, default=CORRECTIONS)
    parser.add_argument("--output", type=Path, default=Path("docs/studies/coverage-multinomial.md"))
    options = parser.parse_args()
    # Processes share the cores already; each of them computes on one thread.
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    started = time.perf_counter()
    whole, each = [], []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for correction in options.corrections:
            for strength in STRENGTHS:
                line, rows = study(pool, correction, strength, options)
                whole.append(line)
                each.append(rows)
                print(f"{time.perf_counter() - started:6.0f} s  {line}", flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(page(whole, each, options), encoding="utf-8")


if __name__ == "__main__":
    main()
