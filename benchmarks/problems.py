"""The data the benchmarks run on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Arrays:
    covariates: NDArray[np.float64]
    outcome: NDArray[np.float64]
    chosen: NDArray[np.int64]
    coefficients: NDArray[np.float64]
    n_alternatives: int


def maximum(
    n_rows: int, n_covariates: int, n_alternatives: int, *, norm: float = 1.0, seed: int = 0
) -> Arrays:
    """Standard normal covariates, slopes of length `norm`, unit noise, the largest is observed."""
    rng = np.random.default_rng(seed)
    slopes = rng.standard_normal((n_alternatives, n_covariates))
    slopes *= norm / np.linalg.norm(slopes, axis=1, keepdims=True)
    covariates = np.empty((n_rows, n_covariates))
    outcome = np.empty(n_rows)
    chosen = np.empty(n_rows, dtype=np.int64)
    step = 250_000
    for start in range(0, n_rows, step):
        part = slice(start, min(start + step, n_rows))
        x = rng.standard_normal((part.stop - part.start, n_covariates))
        latent = x @ slopes.T + rng.standard_normal((len(x), n_alternatives))
        covariates[part], chosen[part] = x, latent.argmax(axis=1)
        outcome[part] = latent.max(axis=1)
    return Arrays(covariates, outcome, chosen, slopes, n_alternatives)
