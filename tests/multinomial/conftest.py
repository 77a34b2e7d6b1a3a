"""A choice between three alternatives whose noise moves their outcomes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss

MIX = np.array([[0.4, -0.2, 0.0], [0.2, 0.5, -0.2], [0.0, 0.2, -0.5]])
"""Coefficients of every outcome's noise in the noises of the choice."""
CONSTANTS, SLOPES = np.array([1.0, 2.0, 0.0]), np.array([0.5, 1.0, -0.5])


def made(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, z1, z2 = rng.standard_normal((3, n))
    noise = rng.gumbel(size=(n, 3))
    pull = np.column_stack([0 * x, 0.3 + 0.5 * x + z1, -0.2 - 0.3 * x + z2]) + noise
    chosen = pull.argmax(axis=1)
    latent = CONSTANTS + x[:, None] * SLOPES + (noise - np.euler_gamma) @ MIX.T
    latent += 0.6 * rng.standard_normal((n, 3))
    y = latent[np.arange(n), chosen]
    job = np.array(["a", "b", "c"])[chosen]
    return pd.DataFrame({"x": x, "z1": z1, "z2": z2, "job": job, "y": y})


@pytest.fixture(scope="session")
def table() -> pd.DataFrame:
    return made(900, 1)


@pytest.fixture(scope="session")
def dmf1(table: pd.DataFrame) -> ss.MultinomialResult:
    return ss.multinomial_switching("y ~ x", "job ~ x + z1 + z2", table)
