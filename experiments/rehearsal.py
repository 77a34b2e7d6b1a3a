"""What rehearsals say in hard designs: see --help.

Draws samples of designs in which standard errors are known to be too small: an alternative that few
rows chose, a weak exclusion, an alternative whose outcome is never recorded, an unknown index (with
eight or twelve alternatives one of eight starts of the search ends at the best optimum). Fits each,
rehearses the fit, and counts how often intervals from standard errors, from the rehearsal's spread
and, where there is a selection equation, from profiles hold the truth, how often searches return,
and how often the summary of the fit warns of a fragile optimum. Writes a Markdown table.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

LEVEL = 0.95
DESIGNS = ("rare alternative, 500 rows", "weak exclusion, 300 rows", "weak exclusion, 1,000 rows",
           "silent alternative, 600 rows", "unknown index, 400 rows",
           "four alternatives, 500 rows", "eight alternatives, 1,000 rows",
           "twelve alternatives, 1,500 rows")  # fmt: skip

FOUR = ((0.3, 1.0, 0.0), (0.1, -0.8, 0.6), (-0.2, 0.1, -0.9), (0.2, 0.5, 0.8))
"""Coefficients where four alternatives are not recorded."""

COLUMNS = ("| design | Wald | worst | spread | worst | profile | worst | returned | warned | best "
           "| fragile | fits |")  # fmt: skip

CIRCLES = {"eight alternatives": (8, 3.0), "twelve alternatives": (12, 12.0)}
"""Where so many are not recorded, their slopes lie evenly on a circle of this radius."""


def fit_and_truth(design: str, seed: int) -> tuple[Any, dict[str, float]]:
    """Draw and fit one sample; return the fit and the true parameters by name."""
    import numpy as np

    import selfselect as ss

    rng = np.random.default_rng([seed, DESIGNS.index(design)])
    kind, rows = design.split(", ")
    n = int(rows.split()[0].replace(",", ""))
    x, z, u, v = rng.standard_normal((4, n))
    if kind == "four alternatives" or kind in CIRCLES:
        true = on_a_circle(*CIRCLES[kind]) if kind in CIRCLES else np.array(FOUR)
        latent = true @ [np.ones(n), x, z] + rng.standard_normal((len(true), n))
        table = {"x": x, "z": z, "y": latent.max(axis=0)}
        found = ss.fit("y ~ x + z", table, alternatives=len(true), seed=seed)
        return found, named_as_closest(found, true)
    if kind == "weak exclusion":
        y = 1.0 + 0.7 * x + 1.5 * (0.6 * u + 0.8 * v)
        works = 0.2 + 0.5 * x + 0.1 * z + u > 0
        table = {"x": x, "z": z, "works": works, "y": np.where(works, y, np.nan)}
        truth = {"outcome:Intercept": 1.0, "outcome:x": 0.7, "outcome:scale": 1.5,
                 "outcome:correlation": 0.6}  # fmt: skip
        return ss.sample_selection("y ~ x", "works ~ x + z", table), truth
    shift = {"rare alternative": 2.6, "silent alternative": 0.0, "unknown index": 0.3}[kind]
    latent = np.column_stack([shift + 0.8 * x + u, 0.1 - 0.6 * x + 0.5 * z + v])
    chosen = latent.argmax(axis=1)
    y = latent[np.arange(n), chosen]
    table = {"x": x, "z": z, "y": y, "job": np.array(["a", "b"])[chosen]}
    truth = {"a:Intercept": shift, "a:x": 0.8, "b:Intercept": 0.1, "b:x": -0.6, "b:z": 0.5}
    formulas = {"a": "y ~ x", "b": "y ~ x + z"}
    if kind == "unknown index":
        del table["job"]
        return ss.fit(formulas, table, seed=seed), truth
    if kind == "silent alternative":
        table["y"] = np.where(chosen == 0, y, np.nan)
        noise = ss.noises.Independent(scale="common")
        silent = ss.fit(formulas, table, chosen="job", missing_outcome="silent", noise=noise)
        return silent, truth
    return ss.fit(formulas, table, chosen="job"), truth


def on_a_circle(number: int, radius: float) -> Any:
    """Return the coefficients of alternatives whose slopes lie evenly on a circle."""
    import numpy as np

    angle = 2.0 * np.pi * np.arange(number) / number
    return np.column_stack([np.zeros(number), radius * np.cos(angle), radius * np.sin(angle)])


def named_as_closest(fit: Any, true: Any) -> dict[str, float]:
    """Return the true slopes of alternatives, in the order that is closest to a fit."""
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    labels, truth = fit.problem.equations.alternatives, true[:, 1:]
    slopes = np.array([fit.params[label].to_numpy()[1:3] for label in labels])
    _, best = linear_sum_assignment(((slopes[:, None] - truth) ** 2).sum(axis=2))
    return {
        f"{label}:{term}": float(truth[place, column])
        for label, place in zip(labels, best, strict=True)
        for column, term in enumerate(("x", "z"))
    }


def replicate(task: tuple[str, int, int]) -> dict[str, Any] | None:
    """Draw one sample, fit and rehearse it, and say which intervals hold the truth."""
    import warnings

    import numpy as np

    import selfselect as ss
    from selfselect.solvers.base import starts_at_best

    design, seed, samples = task
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fit, truths = fit_and_truth(design, seed)
            if not fit.converged:
                return None
            found = fit.rehearse(samples, seed=seed, progress=False)
        except ss.errors.SelfSelectError:
            return None
        at = [fit.names.index(name) for name in truths]
        truth = np.array(list(truths.values()))

        def holds(ends: Any) -> Any:
            low, high = ends["conf_low"].to_numpy(), ends["conf_high"].to_numpy()
            return np.where(np.isnan(low + high), np.nan, (low <= truth) & (truth <= high))

        wald = holds(fit.conf_int(LEVEL, params=list(truths)))
        spread = holds(found.conf_int(LEVEL).iloc[at])
        profile = np.full(len(truth), np.nan)
        if "exclusion" in design:
            ends = fit.conf_int(LEVEL, method="profile", params=list(truths), progress=False)
            profile = holds(ends)
        starts = fit.solution.starts
        best = starts_at_best(starts, 1.0) / len(starts) if starts else np.nan
        fragile = any("FRAGILE" in notice for notice in fit.summary().notices)
    return {"wald": wald, "spread": spread, "profile": profile, "returned": found.returned,
            "warned": bool(found.warnings), "best": best, "fragile": fragile}  # fmt: skip


def study(pool: Any, design: str, options: Any) -> str:
    """Return the row of a design."""
    import numpy as np

    tasks = [(design, seed, options.samples) for seed in range(options.replications)]
    done = [one for one in pool.imap_unordered(replicate, tasks) if one is not None]

    def share(name: str) -> str:
        held = np.array([one[name] for one in done])
        if np.isnan(held).all():
            return "|"
        each = 100 * np.nanmean(held, axis=0)
        return f"{each.mean():.1f}% | {each.min():.1f}%"

    shares = np.array([one["best"] for one in done])
    best = (
        "" if len(shares) == 0 or np.isnan(shares).all() else f"{100 * np.nanmedian(shares):.0f}%"
    )
    return (
        f"| {design} | {share('wald')} | {share('spread')} | {share('profile')} | "
        f"{100 * np.mean([one['returned'] for one in done]):.0f}% | "
        f"{100 * np.mean([one['warned'] for one in done]):.0f}% | {best} | "
        f"{100 * np.mean([one['fragile'] for one in done]):.0f}% | {len(done)} |"
    )


def page(lines: list[str], options: Any) -> str:
    return f"""# Rehearsals in hard designs

Coverage of 95% intervals, the mean over parameters and the worst of them: from standard errors,
from the spread of {options.samples} rehearsed samples (Student's t), and by profiles where there is
a selection equation. *Rare*: `b` is chosen by few rows. *Exclusion*: the excluded covariate moves
the selection by 0.1. *Silent*: no outcome of `b` is recorded. With *four*, *eight* and *twelve*
alternatives the index is unknown. *Returned* is the share of searches that return to the simulated
truth, *warned* that of rehearsals with a warning, *best* the median over samples of the share of
starts that end at the best optimum, *fragile* the share of summaries that call it fragile.
{options.replications} samples each, of which *fits* converged and could be rehearsed.

Made by `python experiments/rehearsal.py --replications {options.replications} --samples
{options.samples}`.

{COLUMNS}
{"|---" * (COLUMNS.count("|") - 1)}|
{chr(10).join(lines)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--designs", nargs="*", default=list(DESIGNS), choices=DESIGNS)
    parser.add_argument("--output", type=Path, default=Path("docs/studies/rehearsal.md"))
    options = parser.parse_args()
    # Processes share the cores already; each of them computes on one thread.
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    started = time.perf_counter()
    lines = []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for design in options.designs:
            lines.append(study(pool, design, options))
            print(f"{time.perf_counter() - started:6.0f} s  {lines[-1]}", flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(page(lines, options), encoding="utf-8")


if __name__ == "__main__":
    main()
