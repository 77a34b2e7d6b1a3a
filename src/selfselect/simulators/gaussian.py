"""Gaussian covariates and random coefficients: the setting of the theory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from selfselect.seeds import generator
from selfselect.simulators._sizes import check_sizes
from selfselect.simulators.sample import Sample, simulate

__all__ = ["gaussian"]


def gaussian(
    n_rows: int = 5_000,
    n_covariates: int = 5,
    n_alternatives: int = 3,
    *,
    intercept: bool = True,
    norm: float = 1.0,
    scales: Any = 1.0,
    rule: Any = "max",
    seed: int = 0,
) -> Sample:
    """Simulate independent standard normal covariates and random coefficients.

    Parameters
    ----------
    n_rows, n_covariates, n_alternatives : sizes. Alternatives are named a, b, c, ...
    intercept : whether equations have one; they are small, so that no alternative dominates.
    norm : Euclidean length of each alternative's slopes.
    scales : of the noise.
    rule : which alternative is chosen.
    seed : of the random draws.

    Examples
    --------
    >>> from selfselect.simulators import gaussian
    >>> gaussian(100, 2, 2, seed=1).data.shape
    (100, 4)
    """
    check_sizes(n_rows, n_covariates=n_covariates, n_alternatives=n_alternatives)
    rng = generator(seed, 7)
    names = [f"x{i + 1}" for i in range(n_covariates)]
    labels = [_letters(j) for j in range(n_alternatives)]
    slopes = rng.standard_normal((n_alternatives, n_covariates))
    slopes *= norm / np.linalg.norm(slopes, axis=1, keepdims=True)
    constants = 0.3 * rng.standard_normal(n_alternatives)
    coefficients = {
        label: {
            **({"Intercept": float(constants[j])} if intercept else {}),
            **dict(zip(names, map(float, slopes[j]), strict=True)),
        }
        for j, label in enumerate(labels)
    }
    covariates = pd.DataFrame(rng.standard_normal((n_rows, n_covariates)), columns=names)
    return simulate(coefficients, covariates, scales=scales, rule=rule, seed=seed)


def _letters(number: int) -> str:
    """Name alternatives a, b, ..., z, aa, ab, ..."""
    name = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        name = chr(ord("a") + rest) + name
    return name
