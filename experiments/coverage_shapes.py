"""Coverage and accuracy where noise is not normal: see --help.

Noise is Student's t with 5 degrees of freedom, skewed (a centred gamma) or normal, independent
across two alternatives; the largest outcome is observed and the choice is recorded. Each sample is
fitted with normal noise, with a mixture of normals, and with the noise it was drawn from (Student's
t with 5 degrees of freedom; a mixture of three for the gamma, which stands for it). Writes a
Markdown table: coverage of 95% intervals and the root mean square error of the slopes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
import warnings
from typing import Any

WEIGHTS = {"a": (1.0, 1.0, 0.5), "b": (0.5, -0.5, 1.0)}
SCALES = (1.0, 0.7)
TRUTHS = ("t5", "skewed", "normal")


def draw(truth: str, n_rows: int, seed: int) -> Any:
    """Draw a sample of which the larger of two outcomes is observed."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng([seed, n_rows, TRUTHS.index(truth)])
    covariates = rng.standard_normal((n_rows, 2))
    size = (n_rows, 2)
    if truth == "t5":
        noise = rng.standard_t(5, size) / np.sqrt(5.0 / 3.0)
    elif truth == "skewed":
        noise = (rng.gamma(2.0, 1.0, size) - 2.0) / np.sqrt(2.0)
    else:
        noise = rng.standard_normal(size)
    design = np.column_stack([np.ones(n_rows), covariates])
    latent = design @ np.array(list(WEIGHTS.values())).T + noise * SCALES
    chosen = latent.argmax(axis=1)
    return pd.DataFrame(covariates, columns=["x", "z"]).assign(
        y=latent[np.arange(n_rows), chosen], c=np.array(list(WEIGHTS))[chosen]
    )


def noises(truth: str, components: Any) -> dict[str, Any]:
    """Return the noises that are compared."""
    from selfselect.noises import Independent, Mixture, Student

    true = {"t5": Student(5), "skewed": Mixture(3), "normal": Independent()}[truth]
    return {"normal": Independent(), "mixture": Mixture(components), "true": true}


def replicate(job: tuple[str, int, int, Any]) -> tuple[str, dict[str, Any]]:
    """Fit one sample with every noise: errors of slopes, and whether intervals hold them."""
    import numpy as np

    import selfselect as ss
    from selfselect.errors import DataError

    truth, n_rows, seed, components = job
    data, found = draw(truth, n_rows, seed), {}
    wanted = np.array(list(WEIGHTS.values()))[:, 1:].ravel()
    for name, noise in noises(truth, components).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                fit = ss.fit("y ~ x + z", data, chosen="c", noise=noise)
            except DataError:
                found[name] = None
                continue
        slopes = np.concatenate([fit.params[label].to_numpy()[1:3] for label in WEIGHTS])
        errors = np.concatenate([fit.bse[label].to_numpy()[1:3] for label in WEIGHTS])
        # Without standard errors an interval holds nothing.
        held = np.abs(slopes - wanted) < 1.959964 * np.nan_to_num(errors)
        found[name] = (slopes - wanted, held, fit.converged)
    return truth, found


def main() -> None:
    import numpy as np

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--replications", type=int, default=1_000)
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--components", default="2", help="a number, or bic")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    components = options.components if options.components == "bic" else int(options.components)
    jobs = [
        (truth, options.rows, seed, components)
        for truth in TRUTHS
        for seed in range(options.replications)
    ]
    began = time.time()
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        done = pool.map(replicate, jobs, chunksize=1)
    print(f"n = {options.rows}, {options.replications} samples, Mixture({components!r}), "
          f"{time.time() - began:.0f} s\n")  # fmt: skip
    print("| truth | noise of the fit | coverage of slopes | lowest of four | rmse | rmse / true "
          "model's | converged |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    for truth in TRUTHS:
        rows = [found for one, found in done if one == truth]
        rmse = {}
        for name in ("true", "mixture", "normal"):
            kept = [found[name] for found in rows if found[name] is not None]
            errors, held = (np.array([one[i] for one in kept]) for i in (0, 1))
            rmse[name] = float(np.sqrt(np.mean(errors**2)))
            settled = sum(bool(one[2]) for one in kept)
            print(f"| {truth} | {name} | {100 * held.mean():.1f}% | "
                  f"{100 * held.mean(axis=0).min():.1f}% | {rmse[name]:.4f} | "
                  f"{rmse[name] / rmse['true']:.2f} | {settled} of {len(rows)} |")  # fmt: skip


if __name__ == "__main__":
    main()
