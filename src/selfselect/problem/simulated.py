"""Expectations over the latent outcomes of new rows by simulation, for rules without bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from selfselect.problem.expectations import Expectations
from selfselect.rules.base import RowData

__all__ = ["simulated_expectations"]

Array = NDArray[np.float64]

POINTS_LOG2 = 12
"""Sobol points per row, as a power of two: chances are then good to about a thousandth."""

ROWS_AT_ONCE = 64

SEED = 20220506
"""Of the scrambling. The points are the same for all rows, so that predictions differ only as
their rows do, and the same prediction comes out every time."""


def simulated_expectations(
    rule: Any, means: Array, scales: Array, correlation: Array | None, known: RowData
) -> Expectations:
    """Average over simulated latent outcomes: 4,096 quasi-random points per row.

    Parameters
    ----------
    rule : who is seen, in the order of the alternatives.
    means : (n, k) mean of every latent outcome.
    scales : (k,) their standard deviations.
    correlation : (k, k) of the noise, or None.
    known : costs and availability.
    """
    # Imported here: scipy.stats takes half a second to load, which only such rules need.
    from scipy.stats import qmc

    n_rows, k = means.shape
    uniform = qmc.Sobol(k, seed=np.random.default_rng(SEED)).random_base2(POINTS_LOG2)
    noise = ndtri(np.clip(uniform, 1e-12, 1.0 - 1e-12))
    if correlation is not None:
        noise = noise @ np.linalg.cholesky(correlation).T
    noise *= scales
    n_points = len(noise)
    chance, given = np.empty((n_rows, k)), np.full((n_rows, k, k), np.nan)
    for start in range(0, n_rows, ROWS_AT_ONCE):
        part = slice(start, min(start + ROWS_AT_ONCE, n_rows))
        size = part.stop - part.start
        latent = (means[part, None, :] + noise).reshape(size * n_points, k)
        each = np.repeat(np.arange(part.start, part.stop), n_points)
        seen = np.asarray(rule.choose(latent, known.take(each))).reshape(size, n_points)
        latent = latent.reshape(size, n_points, k)
        for j in range(k):
            mine = (seen == j).astype(np.float64)
            count = mine.sum(axis=1)
            chance[part, j] = count / n_points
            with np.errstate(divide="ignore", invalid="ignore"):
                given[part, :, j] = np.einsum("np,npk->nk", mine, latent) / count[:, None]
    own = np.einsum("nll->nl", given)
    outcome = np.where(chance > 0, chance * np.nan_to_num(own), 0.0).sum(axis=1)
    return Expectations(chance, outcome, given)
