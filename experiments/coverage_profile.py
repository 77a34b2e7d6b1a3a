"""Coverage of profile-likelihood intervals in weakly identified models: see --help.

Draws samples of a sample-selection model whose exclusion is weak, and of a model of which one
alternative's outcome is never recorded; fits them, and counts how often intervals from standard
errors and profile intervals hold the truth, and how often the summary points to the latter. Writes
a Markdown table.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEVEL = 0.95
SELECTION = {"Intercept": 0.2, "x": 0.5}
OUTCOME = {"Intercept": 1.0, "x": 0.7, "scale": 1.5, "correlation": 0.6}
COEFFICIENTS = {
    "a": {"Intercept": 0.2, "x": 0.8, "z": 0.3},
    "b": {"Intercept": 0.1, "x": -0.6, "z": 0.2},
}
DESIGNS = {
    "weak exclusion, 300 rows": ("selection", 300, 0.1, 1.0),
    "weak exclusion, 1,000 rows": ("selection", 1_000, 0.1, 1.0),
    "strong exclusion, 300 rows": ("selection", 300, 0.8, 1.0),
    "silent alternative, 1,000 rows": ("silent", 1_000, 0.0, 0.5),
    "brackets, weak exclusion, 500 rows": ("brackets", 500, 0.1, 1.0),
}
"""Kind, rows, strength of the exclusion, and the share of the replications that is run."""
EDGES = (-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
"""Between which two of these an outcome lies is all that *brackets* knows of it."""
SHOWN = {
    "selection": None,
    "brackets": None,
    "silent": ["a:Intercept", "b:Intercept", "b:x", "b:scale"],
}
"""Parameters that are looked at: a silent alternative's likelihood takes its time."""


@dataclass(frozen=True)
class Found:
    """What one fit found, in the order of its parameters.

    `wald` and `profile` are -1 where the interval lies above the truth, 1 where it lies below, 0
    where it holds it, nan where an end is missing.
    """

    names: list[str]
    truth: Any
    estimates: Any
    errors: Any
    wald: Any
    profile: Any
    unbounded: Any
    pointed: bool


def draw_selection(n_rows: int, seed: int, strength: float) -> Any:
    """Draw rows of which `z` moves the selection by `strength` and not the outcome."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng([seed, n_rows])
    x, z, u, other = rng.standard_normal((4, n_rows))
    works = SELECTION["Intercept"] + SELECTION["x"] * x + strength * z + u > 0
    rho = OUTCOME["correlation"]
    noise = rho * u + np.sqrt(1 - rho**2) * other
    y = OUTCOME["Intercept"] + OUTCOME["x"] * x + OUTCOME["scale"] * noise
    return pd.DataFrame({"x": x, "z": z, "works": works, "y": np.where(works, y, np.nan)})


def bracketed(table: Any) -> Any:
    """Leave of every outcome the limits of its bracket; the first and the last have one."""
    import numpy as np

    place = np.searchsorted(EDGES, table["y"])
    low, high = np.append(np.nan, EDGES)[place], np.append(EDGES, np.nan)[place]
    return table.assign(low=low, high=high, y=np.nan)


def draw_silent(n_rows: int, seed: int) -> Any:
    """Draw rows that choose the larger of two outcomes, of which b's is never recorded."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng([seed, n_rows, 1])
    x, z = rng.standard_normal((2, n_rows))
    means = [b["Intercept"] + b["x"] * x + b["z"] * z for b in COEFFICIENTS.values()]
    latent = np.column_stack(means) + rng.standard_normal((n_rows, 2))
    chosen = latent.argmax(axis=1)
    y = np.where(chosen == 0, latent[:, 0], np.nan)
    return pd.DataFrame({"x": x, "z": z, "who": np.array(["a", "b"])[chosen], "y": y})


def fit_and_truth(design: str, seed: int) -> tuple[Any, dict[str, float]]:
    """Draw and fit one sample; return the fit and the true parameters by name."""
    import selfselect as ss

    kind, n_rows, strength, _ = DESIGNS[design]
    if kind == "silent":
        truth = {f"{j}:{t}": v for j, own in COEFFICIENTS.items() for t, v in own.items()}
        truth |= {"a:scale": 1.0, "b:scale": 1.0}
        table = draw_silent(n_rows, seed)
        fit: Any = ss.fit("y ~ x + z", table, chosen="who", missing_outcome="silent", seed=seed)
        return fit, truth
    truth = {f"outcome:{t}": v for t, v in OUTCOME.items()}
    truth |= {f"selection:{t}": v for t, v in (SELECTION | {"z": strength}).items()}
    table = draw_selection(n_rows, seed, strength)
    if kind == "brackets":
        table = bracketed(table)
        options = {"outcome_between": ("low", "high")}
        return ss.sample_selection("y ~ x", "works ~ x + z", table, **options), truth
    return ss.sample_selection("y ~ x", "works ~ x + z", table), truth


def replicate(task: tuple[str, int]) -> Found | None:
    """Draw one sample, fit it, and say which intervals hold the truth."""
    import warnings

    import numpy as np

    import selfselect as ss

    design, seed = task
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fit, truths = fit_and_truth(design, seed)
        except ss.errors.SelfSelectError:
            return None
        if not fit.converged:
            return None
        shown = SHOWN[DESIGNS[design][0]] or fit.names
        at = [fit.names.index(name) for name in shown]
        truth = np.array([truths[name] for name in shown])

        def side(ends: Any) -> Any:
            low, high = ends["conf_low"].to_numpy(), ends["conf_high"].to_numpy()
            found = np.where(truth < low, -1.0, np.where(truth > high, 1.0, 0.0))
            return np.where(np.isnan(low) | np.isnan(high), np.nan, found)

        profile = fit.conf_int(LEVEL, method="profile", params=shown, progress=False)
        pointed = any("far from quadratic" in note for note in fit.summary().notes)
        return Found(
            shown, truth, fit.values[at], fit.bse.to_numpy()[at],
            side(fit.conf_int(LEVEL, params=shown)), side(profile),
            (profile["reason"] != "").to_numpy(), pointed,
        )  # fmt: skip


def study(pool: Any, design: str, replications: int) -> tuple[str, str]:
    """Return the rows of both tables: the whole, and by parameter."""
    import numpy as np

    replications = round(DESIGNS[design][3] * replications)
    tasks = [(design, seed) for seed in range(replications)]
    done = [found for found in pool.imap_unordered(replicate, tasks, chunksize=5) if found]

    def shares(name: str, value: float) -> Any:
        found = np.array([getattr(one, name) for one in done])
        return 100 * np.nanmean(np.where(np.isnan(found), np.nan, found == value), axis=0)

    wald, profile = shares("wald", 0.0), shares("profile", 0.0)
    estimates = np.array([one.estimates for one in done])
    errors = np.array([one.errors for one in done])
    spread = estimates.std(axis=0, ddof=1)
    ratio = np.nanmedian(errors, axis=0) / spread
    missing = np.isnan([one.profile for one in done]).any(axis=1).sum()
    whole = (
        f"| {design} | {wald.mean():.1f}% | {wald.min():.1f}% | {profile.mean():.1f}% | "
        f"{profile.min():.1f}% | {profile.max():.1f}% | {len(done)} | {replications - len(done)} | "
        f"{sum(one.unbounded.any() for one in done)} | {missing} | "
        f"{100 * np.mean([one.pointed for one in done]):.0f}% |"
    )
    below, above = shares("profile", 1.0), shares("profile", -1.0)
    rows = [
        f"| {design} | {name} | {done[0].truth[i]:g} | {np.median(estimates[:, i]):.3f} | "
        f"{spread[i]:.3f} | {ratio[i]:.2f} | {wald[i]:.1f}% | {profile[i]:.1f}% | {below[i]:.1f}% "
        f"| {above[i]:.1f}% |"
        for i, name in enumerate(done[0].names)
    ]
    return whole, "\n".join(rows)


def page(whole: list[str], each: list[str], options: Any) -> str:
    error = 100 * math.sqrt(LEVEL * (1 - LEVEL) / options.replications)
    return f"""# Coverage of profile-likelihood intervals in weakly identified models

*Exclusion*: a sample-selection model (tobit-2), selection 0.2 + 0.5 x + s z + u > 0 with s of 0.1
(weak) or 0.8 (strong), outcome 1 + 0.7 x with scale 1.5 and correlation 0.6 with u. *Silent
alternative*: the larger of two outcomes is chosen, 0.2 + 0.8 x + 0.3 z and 0.1 - 0.6 x + 0.2 z with
standard normal noise, and that of `b` is never recorded (`missing_outcome="silent"`). *Brackets*:
of the outcomes of *exclusion* only the bracket is known, between -1, 0, 0.5, 1, 1.5, 2 and 3. Wald
intervals are those of standard errors, on the log scale for scales and on Fisher's for
correlations. `open` counts samples in which some profile interval has an infinite end or one at a
limit of what is possible, `missing` those in which an end was not found, `pointed` how often the
summary points to profiles. One parameter's coverage has a standard error of {error:.1f} points in
{options.replications} fits.

Made by `python experiments/coverage_profile.py --replications {options.replications}`.

| design | Wald | lowest | profile | lowest | highest | fits | failed | open | missing | pointed |
|---|---|---|---|---|---|---|---|---|---|---|
{chr(10).join(whole)}

By parameter: median and standard deviation of the estimates, the median standard error over that
deviation, coverage of both, and how often the profile interval lies below or above the truth.

| design | parameter | truth | median | deviation | error / dev. | Wald | profile | below | above |
|---|---|---|---|---|---|---|---|---|---|
{chr(10).join(each)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=500)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--designs", nargs="*", default=list(DESIGNS), choices=list(DESIGNS))
    parser.add_argument("--output", type=Path, default=Path("docs/studies/coverage-profile.md"))
    options = parser.parse_args()
    # Processes share the cores already; each of them computes on one thread.
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    started = time.perf_counter()
    whole, each = [], []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for design in options.designs:
            table, rows = study(pool, design, options.replications)
            whole.append(table)
            each.append(rows)
            print(f"{time.perf_counter() - started:6.0f} s  {table}\n{rows}", flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(page(whole, each, options), encoding="utf-8")


if __name__ == "__main__":
    main()
