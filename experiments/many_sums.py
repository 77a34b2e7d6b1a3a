"""Tests of many moments or pairs: python experiments/many_sums.py [--help].

Draws rows of many alternatives, or of two with many covariates, whose noise is as assumed, and
counts how often the tests of a summary reject at 1%, and how often they give no verdict.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

import selfselect as ss
from selfselect.errors import without_warnings

LEVEL = 0.01
SUBJECTS = ("independence", "normality", "constant variance")
DESIGNS = (
    (3, 1, 5_000), (5, 1, 2_000), (8, 1, 20_000), (12, 1, 5_000), (12, 1, 20_000), (20, 1, 2_000),
    (20, 1, 20_000), (60, 1, 20_000), (2, 100, 6_000), (2, 300, 6_000),
)  # fmt: skip
"""Alternatives, covariates and rows."""


def draw(n_alternatives: int, n_covariates: int, n_rows: int, seed: int) -> pd.DataFrame:
    """Draw rows with small slopes and independent standard normal noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, n_covariates))
    slopes = (0.2 if n_covariates == 1 else 0.05) * rng.normal(size=(n_covariates, n_alternatives))
    outcomes = x @ slopes + rng.normal(size=(n_rows, n_alternatives))
    rows = pd.DataFrame(x, columns=[f"x{i}" for i in range(n_covariates)])
    return rows.assign(y=outcomes.max(axis=1), chosen=outcomes.argmax(axis=1))


def p_values(rows: pd.DataFrame) -> list[float]:
    """Return the p-values of the tests; nan where there is no verdict."""
    formula = f"y ~ {' + '.join(name for name in rows if name.startswith('x'))}"
    with without_warnings(ss.errors.SelfSelectWarning):
        fit = ss.fit(formula, rows, chosen="chosen")
    tests = fit.independence_test(), fit.normality_test(0), fit.heteroskedasticity_test(0)
    return [test.p_value for test in tests]


def _counted(found: np.ndarray) -> str:
    """Write how many of the tests with a verdict reject."""
    decided = int(np.isfinite(found).sum())
    if not decided:
        return "no verdict"
    rejected = int((found <= LEVEL).sum())
    return str(rejected) if decided == len(found) else f"{rejected} of {decided}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=40)
    samples = parser.parse_args().samples
    print(f"| alternatives | covariates | rows | {' | '.join(SUBJECTS)} | samples |")
    print("|---|---|---|---|---|---|---|")
    for k, d, n in DESIGNS:
        found = np.array([p_values(draw(k, d, n, seed)) for seed in range(samples)])
        cells = [_counted(one) for one in found.T]
        print(f"| {k} | {d} | {n:,} | {' | '.join(cells)} | {samples} |", flush=True)


if __name__ == "__main__":
    main()
