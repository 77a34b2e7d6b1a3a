"""Coverage of 95% intervals of selection models: python experiments/coverage_selection.py.

Draws samples of a switching regression, fits sample selection (one outcome kept silent) and
switching by maximum likelihood and in two steps, switching among three ordered alternatives, an
endogenous treatment, and a probit with sample selection, each with a strong and a weak exclusion;
counts how often intervals hold the truth. Then draws samples without correlation and counts how
often independence is rejected. Writes a Markdown table.
"""

from __future__ import annotations

import argparse
import itertools
import math
import multiprocessing
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEVEL = 0.95
SELECTION = {"Intercept": 0.2, "x": 0.5}
STRENGTHS = {"strong": 0.8, "weak": 0.1}
"""The coefficient of the excluded covariate z."""
CUTS = {"cut low|mid": -0.7, "cut mid|high": 0.8}
OUTCOMES = {
    "in": {"Intercept": 1.0, "x": 0.7, "scale": 1.5},
    "out": {"Intercept": -0.5, "x": 0.3, "scale": 0.8},
    "low": {"Intercept": -0.5, "x": 0.3, "scale": 0.8},
    "mid": {"Intercept": 0.4, "x": -0.2, "scale": 1.2},
    "high": {"Intercept": 1.0, "x": 0.7, "scale": 1.5},
    "binary": {"Intercept": 0.3, "x": 0.7},
    "(common)": {"x": 0.7, "scale": 1.5},
    "treated": {"Intercept": 1.0},
    "not": {"Intercept": 0.2},
}
CORRELATIONS = {
    "in": 0.6, "out": -0.5, "low": -0.5, "mid": 0.4, "high": 0.6, "binary": 0.6, "(common)": 0.6,
}  # fmt: skip
MODELS = {
    "tobit-2": ("ml", "two-step"),
    "tobit-5": ("ml", "two-step"),
    "ordered": ("ml",),
    "treatment": ("ml",),
    "binary": ("ml",),
    "brackets": ("ml",),
}
"""Models, and the methods each is fitted by."""
EDGES = (-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
"""Between which two of these an outcome lies is all that *brackets* knows of it."""


@dataclass(frozen=True)
class Found:
    """What one fit found, in the order of its parameters."""

    labels: list[tuple[str, str]]
    estimates: Any
    errors: Any
    covered: Any
    independence_rejected: bool
    at_boundary: bool
    several_optima: bool
    two_step_start_behind: bool


def draw(n_rows: int, seed: int, size: float, strength: str) -> Any:
    """Draw rows; correlations are `size` times those above."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng([seed, n_rows])
    x, z, u = rng.standard_normal((3, n_rows))
    index = SELECTION["x"] * x + STRENGTHS[strength] * z + u
    chosen = SELECTION["Intercept"] + index > 0

    def latent(label: str) -> Any:
        beta, rho = OUTCOMES[label], size * CORRELATIONS[label]
        noise = rho * u + np.sqrt(1 - rho**2) * rng.standard_normal(n_rows)
        mean = beta.get("Intercept", 0.0) + beta["x"] * x
        return mean + beta.get("scale", 1.0) * noise

    sector, level = np.where(chosen, "in", "out"), np.digitize(index, list(CUTS.values()))
    treated = np.where(chosen, "treated", "not")
    constant = np.where(chosen, OUTCOMES["treated"]["Intercept"], OUTCOMES["not"]["Intercept"])
    return pd.DataFrame(
        {
            "x": x,
            "z": z,
            "works": chosen,
            "sector": sector,
            "y": np.where(chosen, latent("in"), latent("out")),
            "level": np.array(["low", "mid", "high"])[level],
            "pay": np.choose(level, [latent(label) for label in ("low", "mid", "high")]),
            "yes": latent("binary") > 0,
            "treated": treated,
            "gain": constant + latent("(common)"),
        }
    )


def bracketed(table: Any) -> Any:
    """Leave of every outcome the limits of its bracket; the first and the last have one."""
    import numpy as np

    place = np.searchsorted(EDGES, table["y"])
    low, high = np.append(np.nan, EDGES)[place], np.append(EDGES, np.nan)[place]
    return table.assign(low=low, high=high, y=np.nan)


def truth_of(model: str, label: str, term: str, size: float, strength: str) -> float:
    """Return the true value of a parameter."""
    if label == "selection":
        return {**SELECTION, **CUTS, "z": STRENGTHS[strength]}[term]
    own = ("binary" if model == "binary" else "in") if label == "outcome" else label
    beta, rho = OUTCOMES[own], size * CORRELATIONS.get(own, 0.0)
    scale = beta.get("scale", 1.0)
    return {"correlation": rho, "mills ratio": rho * scale, **beta}[term]


def fit_model(model: str, method: str, table: Any) -> Any:
    """Fit one of the models."""
    import selfselect as ss

    if model == "tobit-2":
        return ss.sample_selection("y ~ x", "works ~ x + z", table, method=method)
    if model == "tobit-5":
        return ss.switching("y ~ x", "sector ~ x + z", table, method=method, towards="in")
    if model == "brackets":
        return ss.sample_selection(
            "y ~ x", "works ~ x + z", bracketed(table), outcome_between=("low", "high")
        )
    if model == "ordered":
        return ss.switching("pay ~ x", "level ~ x + z", table, ordered=["low", "mid", "high"])
    if model == "treatment":
        return ss.switching(
            "gain ~ x", "treated ~ x + z", table, towards="treated", shared="slopes"
        )
    return ss.sample_selection("yes ~ x", "works ~ x + z", table, binary=True)


def replicate(task: tuple[str, str, int, int, float, str]) -> Found | None:
    """Draw one sample, fit it, and say which intervals hold the truth."""
    import numpy as np

    import selfselect as ss

    model, method, n_rows, seed, size, strength = task
    table = draw(n_rows, seed, size, strength)
    try:
        fit = fit_model(model, method, table)
    except ss.errors.SelfSelectError:
        return None
    if not fit.converged:
        return None
    ends = fit.conf_int(LEVEL)
    truth = np.array(
        [truth_of(model, str(label), term, size, strength) for label, term in ends.index]
    )
    covered = (ends["conf_low"] <= truth) & (truth <= ends["conf_high"])
    tops = {one.name: one.loglik for one in fit.solution.starts if one.fault is None}
    lower = {name for name, loglik in tops.items() if loglik < fit.llf - 1e-3}
    return Found(
        list(ends.index),
        fit.params.to_numpy(),
        fit.bse.to_numpy(),
        np.where(ends["conf_low"].isna(), np.nan, covered),
        fit.independence_test().rejects(LEVEL),
        bool(fit.boundary),
        bool(lower),
        "two-step" in lower,
    )


def study(
    pool: Any, model: str, method: str, strength: str, replications: int, n_rows: int
) -> tuple[str, str]:
    """Return the rows of both tables: the whole, and by parameter."""
    import numpy as np

    tasks = [(model, method, n_rows, seed, 1.0, strength) for seed in range(replications)]
    done = [found for found in pool.imap_unordered(replicate, tasks, chunksize=20) if found]
    covered = np.array([found.covered for found in done], dtype=float)
    known = ~np.isnan(covered).all(axis=0)
    coverage = np.full(covered.shape[1], np.nan)
    coverage[known] = 100 * np.nanmean(covered[:, known], axis=0)
    estimates = np.array([found.estimates for found in done])
    errors = np.array([found.errors for found in done])
    truth = np.array(
        [truth_of(model, str(label), term, 1.0, strength) for label, term in done[0].labels]
    )
    spread = estimates.std(axis=0, ddof=1)
    ratio = np.full_like(spread, np.nan)
    ratio[known] = np.sqrt(np.nanmean(errors[:, known] ** 2, axis=0)) / spread[known]
    inside = coverage[known]
    whole = (
        f"| {model} | {method} | {strength} | {known.sum()} | {inside.mean():.2f}% | "
        f"{inside.min():.2f}% | {inside.max():.2f}% | {len(done)} | {replications - len(done)} | "
        f"{sum(found.at_boundary for found in done)} | "
        f"{sum(found.several_optima for found in done)} | "
        f"{sum(found.two_step_start_behind for found in done)} |"
    )
    rows = [
        f"| {model} | {method} | {strength} | {label}:{term} | {truth[i]:.3f} | "
        f"{estimates[:, i].mean():.4f} | {spread[i]:.4f} | {_number(ratio[i], '.3f')} | "
        f"{_number(coverage[i], '.2f', '%')} |"
        for i, (label, term) in enumerate(done[0].labels)
    ]
    return whole, "\n".join(rows)


def _number(value: float, form: str, unit: str = "") -> str:
    return "" if math.isnan(value) else f"{value:{form}}{unit}"


def size_of(pool: Any, model: str, replications: int, n_rows: int) -> str:
    """Return how often independence is rejected where there is none to reject."""
    tasks = [(model, "ml", n_rows, seed, 0.0, "strong") for seed in range(replications)]
    done = [found for found in pool.imap_unordered(replicate, tasks, chunksize=20) if found]
    rejected = 100 * sum(found.independence_rejected for found in done) / len(done)
    return f"| {model} | {rejected:.2f}% | {len(done)} |"


def page(whole: list[str], each: list[str], sizes: list[str], options: Any) -> str:
    error = 100 * (LEVEL * (1 - LEVEL) / options.replications) ** 0.5
    return f"""# Coverage of 95% intervals: sample selection and switching

Samples of {options.rows:,} rows. Selection: 0.2 + 0.5 x + s z + u > 0, so that z is excluded from
the outcomes, with s of 0.8 (strong) or 0.1 (weak). Outcome `in`: 1 + 0.7 x, scale 1.5, correlation
0.6 with u; outcome `out`: -0.5 + 0.3 x, scale 0.8, correlation -0.5. Under tobit-2 `out` is silent.
*Ordered*: three alternatives by cut points -0.7 and 0.8 of 0.5 x + s z + u. *Treatment*: outcomes
1 + 0.7 x and 0.2 + 0.7 x have one noise, scale 1.5, correlation 0.6. *Binary*: one where
0.3 + 0.7 x + e > 0, correlation 0.6, selected as above. *Brackets*: tobit-2, of whose outcomes only
the bracket is known, between -1, 0, 0.5, 1, 1.5, 2 and 3. x, z and the noise are standard normal.
Intervals of scales are made on the log scale, of correlations on Fisher's; two steps give none of
either. `edge` counts fits with a correlation at its boundary, `more` those whose starts met more
than one optimum, `behind` those where the climb from the two-step estimate ended at a lesser one.
Over {options.replications:,} replications one parameter's coverage has a standard error of
{error:.2f} percentage points. The same samples serve every line.

Made by `python experiments/coverage_selection.py --replications {options.replications} --rows
{options.rows} --models {" ".join(options.models)}`.

| model | method | exclusion | terms | average | lowest | highest | fits | failed | edge | more | \
behind |
|---|---|---|---|---|---|---|---|---|---|---|---|
{chr(10).join(whole)}

By parameter: the mean of the estimates, their standard deviation, and the root mean square of the
standard errors over it, which is one where they are right.

| model | method | exclusion | parameter | truth | mean | deviation | errors / dev. | coverage |
|---|---|---|---|---|---|---|---|---|
{chr(10).join(each)}

The test of independence (likelihood ratio, 5%) where there is no correlation:

| model | rejected | samples |
|---|---|---|
{chr(10).join(sizes)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=2_000)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("docs/studies/coverage-selection.md"))
    options = parser.parse_args()
    # Processes share the cores already; each of them computes on one thread.
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    started = time.perf_counter()
    whole, each, sizes = [], [], []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for model in options.models:
            for method, strength in itertools.product(MODELS[model], STRENGTHS):
                line, rows = study(
                    pool, model, method, strength, options.replications, options.rows
                )
                whole.append(line)
                each.append(rows)
                print(f"{time.perf_counter() - started:6.0f} s  {line}", flush=True)
            sizes.append(size_of(pool, model, options.replications // 2, options.rows))
            print(f"{time.perf_counter() - started:6.0f} s  {sizes[-1]}", flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(page(whole, each, sizes, options), encoding="utf-8")


if __name__ == "__main__":
    main()
