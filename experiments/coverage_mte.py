"""Coverage of MTE bands and of intervals of predictions: python experiments/coverage_mte.py.

Draws samples of a switching regression, fits it by maximum likelihood, and counts how often 95%
intervals of the curve, of ATE, ATT and ATU, and of predictions for given rows hold the truth: with
errors of the model, robust ones, and clustered ones where rows come in clusters that share part of
their noise. Writes a Markdown table.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

LEVEL = 0.95
GAMMA = (0.2, 0.5)
STRENGTHS = {"strong": 0.8, "weak": 0.25}
"""The coefficient of the excluded covariate z."""
BETA = {1: (1.0, 0.7, 1.5, 0.6), 0: (-0.5, 0.3, 0.8, -0.5)}
"""By alternative: constant, slope, scale, and correlation with the noise of the selection."""
RESISTANCES = (0.1, 0.3, 0.5, 0.7, 0.9)
PLACES = ((-1.0, -1.0), (0.0, 0.0), (1.0, 1.0))
"""Rows (x, z) that are predicted."""
SHARE = 0.3
"""Of the variance of every noise that the rows of a cluster share, where there are clusters."""
CLUSTER = 10
ERRORS = {"observed": {}, "robust": {"covariance": "robust"}, "clustered": {"cluster": "g"}}


def draw(n_rows: int, seed: int, strength: str, clustered: bool) -> Any:
    """Draw rows; where they are clustered, noises and covariates are alike in a cluster."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng([seed, n_rows, clustered])
    group = np.arange(n_rows) // CLUSTER

    def noise() -> Any:
        own = rng.standard_normal(n_rows)
        if not clustered:
            return own
        shared = rng.standard_normal(group.max() + 1)[group]
        return SHARE**0.5 * shared + (1 - SHARE) ** 0.5 * own

    x, z, u = noise(), noise(), noise()
    d = GAMMA[0] + GAMMA[1] * x + STRENGTHS[strength] * z + u > 0
    y = np.empty(n_rows)
    for label, (constant, slope, scale, rho) in BETA.items():
        latent = constant + slope * x + scale * (rho * u + (1 - rho**2) ** 0.5 * noise())
        y = np.where(d == label, latent, y)
    return pd.DataFrame({"x": x, "z": z, "d": d.astype(int), "y": y, "g": group})


def truth(strength: str) -> dict[str, Any]:
    """Return the true values of all that is asked."""
    import numpy as np
    from scipy.stats import norm

    (b1, s1, t1, r1), (b0, s0, t0, r0) = BETA[1], BETA[0]
    c = r1 * t1 - r0 * t0
    found: dict[str, Any] = {
        "curve": b1 - b0 - c * norm.ppf(RESISTANCES),
    }
    x, w = np.polynomial.hermite_e.hermegauss(60)
    w = w / w.sum()
    spread = (1 + STRENGTHS[strength] ** 2) ** 0.5
    # z is integrated out of what depends on the index; x has mean zero.
    index = (GAMMA[0] + GAMMA[1] * x) / spread
    p = w @ norm.cdf(index)
    lift, gain = w @ norm.pdf(index) / spread, b1 - b0
    moved = (s1 - s0) * (w @ (x * norm.cdf(index)))
    treated = gain * p + moved + c * lift
    found["averages"] = np.array([gain, treated / p, (gain - treated) / (1 - p)])
    at = np.array(PLACES)
    m = GAMMA[0] + GAMMA[1] * at[:, 0] + STRENGTHS[strength] * at[:, 1]
    latent = [BETA[j][0] + BETA[j][1] * at[:, 0] for j in (1, 0)]
    chance = norm.cdf(m)
    found["latent"] = np.stack(latent, axis=1)
    found["chance"] = chance[:, None]
    found["outcome"] = (latent[0] * chance + latent[1] * (1 - chance) + c * norm.pdf(m))[:, None]
    return found


def replicate(task: tuple[int, int, str, str]) -> dict[str, Any] | None:
    """Draw one sample, fit it, and say which intervals hold the truth."""
    import numpy as np
    import pandas as pd

    import selfselect as ss

    n_rows, seed, strength, errors = task
    table = draw(n_rows, seed, strength, errors == "clustered")
    try:
        fit = ss.switching("y ~ x", "d ~ x + z", table, **ERRORS[errors])
    except ss.errors.SelfSelectError:
        return None
    if not fit.converged:
        return None
    true, found = truth(strength), {}
    made = fit.mte(level=LEVEL)
    curve = made.table.set_index("resistance").loc[list(RESISTANCES)]
    tables = {"curve": curve, "averages": made.averages.table}
    for name, one in tables.items():
        low, high = one["conf_low"].to_numpy(), one["conf_high"].to_numpy()
        found[name] = (low <= true[name]) & (true[name] <= high)
    new = pd.DataFrame(PLACES, columns=["x", "z"])
    for kind in ("latent", "chance", "outcome"):
        told = fit.predict(new, kind, level=LEVEL)
        low, high = (_numbers(told, one, kind) for one in ("conf_low", "conf_high"))
        found[kind] = ((low <= true[kind]) & (true[kind] <= high)).ravel()
    return {name: np.asarray(one, dtype=float) for name, one in found.items()}


def _numbers(told: Any, column: str, kind: str) -> Any:
    """Return one kind of column of predictions (rows, alternatives), the treated first."""
    import numpy as np

    part = told.xs(column, axis=1, level=-1) if told.columns.nlevels > 1 else told[[column]]
    if kind == "outcome":
        return np.asarray(part)
    labels = [1, 0] if kind == "latent" else [1]
    return np.column_stack([part[label] for label in labels])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--strengths", nargs="*", choices=STRENGTHS, default=list(STRENGTHS))
    parser.add_argument("--errors", nargs="*", choices=ERRORS, default=list(ERRORS))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("docs/studies/coverage-mte.md"))
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    started, lines = time.perf_counter(), []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for strength, errors in itertools.product(options.strengths, options.errors):
            tasks = [(options.rows, seed, strength, errors) for seed in range(options.replications)]
            done = [one for one in pool.imap_unordered(replicate, tasks, chunksize=10) if one]
            lines.append(_line(strength, errors, done, options.replications))
            print(f"{time.perf_counter() - started:6.0f} s  {lines[-1]}", flush=True)
    options.output.write_text(page(lines, options), encoding="utf-8")


def _line(strength: str, errors: str, done: list[dict[str, Any]], replications: int) -> str:
    import numpy as np

    means = {name: 100 * np.mean([one[name] for one in done], axis=0) for name in done[0]}
    shown = [f"{value:.1f}" for value in (*means["curve"], *means["averages"])]
    shown += [f"{means[kind].mean():.1f}" for kind in ("latent", "chance", "outcome")]
    return f"| {strength} | {errors} | {' | '.join(shown)} | {replications - len(done)} |"


def page(lines: list[str], options: Any) -> str:
    error = 100 * (LEVEL * (1 - LEVEL) / options.replications) ** 0.5
    heads = [f"MTE {one:g}" for one in RESISTANCES]
    columns = [*heads, "ATE", "ATT", "ATU", "latent", "chance", "outcome"]
    return f"""# Coverage of MTE bands and of intervals of predictions

Samples of {options.rows:,} rows of a switching regression: treated where 0.2 + 0.5 x + s z + u > 0,
with s of 0.8 (strong) or 0.25 (weak); outcomes 1 + 0.7 x (scale 1.5, correlation 0.6 with u) and
-0.5 + 0.3 x (scale 0.8, correlation -0.5). x, z and noises are standard normal; under *clustered*
they come in clusters of {CLUSTER} rows that share {100 * SHARE:g}% of each one's variance. By
maximum likelihood, with errors of the model, robust or clustered. Percentages of samples in which
the pointwise 95% interval holds the truth: of the curve at five resistances, of its averages, and
of `predict(level=0.95)` for three rows (mean over them). Averages are those of the population, so
errors count the rows as a sample. Over {options.replications:,} samples a percentage has a standard
error of {error:.1f}.

Made by `python experiments/coverage_mte.py --replications {options.replications} --rows
{options.rows}`.

| exclusion | errors | {" | ".join(columns)} | failed |
|---|---|{"---|" * len(columns)}---|
{chr(10).join(lines)}
"""


if __name__ == "__main__":
    main()
