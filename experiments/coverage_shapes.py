"""Coverage and accuracy where noise is not normal: see --help.

Noise is Student's t with 5 degrees of freedom, skewed (a centred gamma) or normal, independent
across two alternatives; the largest outcome is observed and the choice is recorded, or with
--index unknown not: both scales are one then, and alternatives, which have no names, are compared
with the truth in the order that is closer to it. Each sample is fitted with normal noise, with a
mixture of normals, and with the noise it was drawn from (Student's t with 5 degrees of freedom; a
mixture of three for the gamma, which stands for it). Writes a Markdown table: coverage of 95%
intervals and the root mean square error of the slopes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
import warnings
from typing import Any

WEIGHTS = {"a": (1.0, 1.0, 0.5), "b": (0.5, -0.5, 1.0)}
SCALES = {"known": (1.0, 0.7), "unknown": (1.0, 1.0)}
TRUTHS = ("t5", "skewed", "normal")


def draw(truth: str, index: str, n_rows: int, seed: int) -> Any:
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
    latent = design @ np.array(list(WEIGHTS.values())).T + noise * SCALES[index]
    chosen = latent.argmax(axis=1)
    return pd.DataFrame(covariates, columns=["x", "z"]).assign(
        y=latent[np.arange(n_rows), chosen], c=np.array(list(WEIGHTS))[chosen]
    )


def noises(truth: str, index: str, components: Any) -> dict[str, Any]:
    """Return the noises that are compared."""
    from selfselect.noises import Independent, Mixture, Student

    scale = "each" if index == "known" else "common"
    normal = Independent(scale=scale)
    true = {"t5": Student(5, scale=scale), "skewed": Mixture(3, scale=scale), "normal": normal}
    return {"normal": normal, "mixture": Mixture(components, scale=scale), "true": true[truth]}


def in_closest_order(fit: Any, index: str, wanted: Any) -> tuple[Any, Any]:
    """Return slopes and their errors; alternatives without names in the order nearer the truth."""
    import numpy as np

    labels = fit.problem.equations.alternatives

    def slopes(table: Any, order: Any) -> Any:
        return np.concatenate([table[label].to_numpy()[1:3] for label in order])

    orders = [labels] if index == "known" else [labels, labels[::-1]]
    best = min(orders, key=lambda order: np.sum((slopes(fit.params, order) - wanted) ** 2))
    return slopes(fit.params, best), slopes(fit.bse, best)


def replicate(job: tuple[str, str, int, int, Any]) -> tuple[str, dict[str, Any]]:
    """Fit one sample with every noise: errors of slopes, and whether intervals hold them."""
    import numpy as np

    import selfselect as ss
    from selfselect.errors import DataError

    truth, index, n_rows, seed, components = job
    data, found = draw(truth, index, n_rows, seed), {}
    recorded = {"chosen": "c"} if index == "known" else {"alternatives": 2, "seed": seed}
    wanted = np.array(list(WEIGHTS.values()))[:, 1:].ravel()
    for name, noise in noises(truth, index, components).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                fit = ss.fit("y ~ x + z", data, noise=noise, **recorded)
            except DataError:
                found[name] = None
                continue
        slopes, errors = in_closest_order(fit, index, wanted)
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
    parser.add_argument("--index", choices=list(SCALES), default="known")
    parser.add_argument("--components", default="2", help="a number, or bic")
    parser.add_argument("--truths", nargs="*", default=list(TRUTHS), choices=TRUTHS)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    components = options.components if options.components == "bic" else int(options.components)
    jobs = [
        (truth, options.index, options.rows, seed, components)
        for truth in options.truths
        for seed in range(options.replications)
    ]
    began = time.time()
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        done = pool.map(replicate, jobs, chunksize=1)
    print(
        f"{options.index} index, n = {options.rows}, {options.replications} samples, "
        f"Mixture({components!r}), {time.time() - began:.0f} s\n"
    )
    print("| truth | noise of the fit | coverage of slopes | lowest of four | rmse | rmse / true "
          "model's | converged |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    for truth in options.truths:
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
