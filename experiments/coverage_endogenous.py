"""Coverage with an endogenous covariate under selection: python experiments/coverage_endogenous.py.

Draws samples in which what moves a covariate moves selection and outcome as well, fits sample
selection with its instruments in two steps and by maximum likelihood given the first stage, and
counts how often 95% intervals hold the truth. What is excluded from the outcome moves the selection
strongly, or weakly. Writes a Markdown table.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from itertools import product
from pathlib import Path
from typing import Any

TRUTH = {
    ("outcome", "Intercept"): 1.0, ("outcome", "x"): 0.7, ("outcome", "w"): 0.5,
    ("outcome", "x_residual"): 0.6, ("outcome", "mills ratio"): 0.6, ("outcome", "scale"): 1.0,
    ("outcome", "correlation"): 0.6, ("selection", "Intercept"): 0.2, ("selection", "x"): 0.4,
    ("selection", "w"): 0.3, ("selection", "x_residual"): 0.5,
}  # fmt: skip
METHODS = ("two-step", "ml")
STRENGTHS = {"strong": 0.8, "weak": 0.1}


def draw(n_rows: int, seed: int, strength: str) -> Any:
    """Draw rows of the model of the page."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng([seed, n_rows, 29])
    z1, z2, w, s, v, u, e = rng.standard_normal((7, n_rows))
    x = 0.3 + 0.6 * z1 + 0.4 * z2 + 0.5 * w + v
    works = 0.2 + 0.4 * x + 0.3 * w + STRENGTHS[strength] * s + 0.5 * v + u > 0
    y = 1 + 0.7 * x + 0.5 * w + 0.6 * v + 0.6 * u + 0.8 * e
    return pd.DataFrame({"x": x, "w": w, "s": s, "z1": z1, "z2": z2, "works": works, "y": y})


def truth_of(key: tuple[str, str], strength: str) -> float:
    """Return what a parameter is."""
    return STRENGTHS[strength] if key == ("selection", "s") else TRUTH[key]


def replicate(task: tuple[int, int, str, str]) -> Any:
    """Draw and fit one sample; return estimates, errors and which intervals hold the truth."""
    import numpy as np

    import selfselect as ss

    n_rows, seed, method, strength = task
    fit = ss.sample_selection(
        "y ~ x + w", "works ~ x + w + s", draw(n_rows, seed, strength), method=method,
        endogenous={"x": "~ z1 + z2"},
    )  # fmt: skip
    ends = fit.conf_int()
    truth = np.array([truth_of(key, strength) for key in ends.index])
    held = (ends["conf_low"] <= truth) & (truth <= ends["conf_high"])
    held = np.where(ends["conf_low"].isna(), np.nan, held)
    return list(ends.index), fit.params.to_numpy(), fit.bse.to_numpy(), held


def rows_of(done: list[Any], method: str, strength: str) -> str:
    """Return the lines of a method with an exclusion."""
    import numpy as np

    labels = done[0][0]
    estimates, errors, held = (np.array([one[place] for one in done]) for place in (1, 2, 3))
    lines = []
    for i, (label, term) in enumerate(labels):
        spread = estimates[:, i].std(ddof=1)
        known = not np.isnan(errors[:, i]).any()
        ratio = f"{np.sqrt((errors[:, i] ** 2).mean()) / spread:.3f}" if known else ""
        share = f"{100 * held[:, i].mean():.1f}%" if known else ""
        lines.append(
            f"| {method} | {strength} | {label}:{term} | {truth_of((label, term), strength):.2f} | "
            f"{estimates[:, i].mean():.4f} | {spread:.4f} | {ratio} | {share} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=1_000)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("docs/studies/coverage-endogenous.md"))
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    parts = []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for method, strength in product(METHODS, STRENGTHS):
            tasks = [(options.rows, seed, method, strength) for seed in range(options.replications)]
            done = pool.map(replicate, tasks, chunksize=10)
            parts.append(rows_of(done, method, strength))
    error = 100 * (0.95 * 0.05 / options.replications) ** 0.5
    options.output.write_text(
        f"""# Coverage of 95% intervals: an endogenous covariate under selection

Samples of {options.rows:,} rows. The covariate x is 0.3 + 0.6 z1 + 0.4 z2 + 0.5 w + v, a row is
selected where 0.2 + 0.4 x + 0.3 w + c s + 0.5 v + u > 0, with c of 0.8 (strong exclusion) or 0.1
(weak), and the outcome is 1 + 0.7 x + 0.5 w + 0.6 v + 0.6 u + 0.8 e, all of z1, z2, w, s, v, u
and e standard normal. Fitted with `endogenous={{"x": "~ z1 + z2"}}`; `x_residual` estimates the
parts of v. Over {options.replications:,} samples a coverage has a standard error of
{error:.1f} points, and a ratio of errors one of {100 / (2 * options.replications) ** 0.5:.0f}%.

Made by `python experiments/coverage_endogenous.py --replications {options.replications} --rows
{options.rows}`.

| method | exclusion | parameter | truth | mean | deviation | errors / dev. | coverage |
|---|---|---|---|---|---|---|---|
{chr(10).join(parts)}
""",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
