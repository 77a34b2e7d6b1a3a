"""Moments by simulation, for rules without bounds and noise of known correlation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.errors import UnsupportedError
from selfselect.moments.base import Expectations, Moments, latent_means, with_outcome
from selfselect.noises.shapes import Shape
from selfselect.rules import has_bounds
from selfselect.rules.base import RowData

__all__ = ["SimulatedMoments", "simulated_expectations"]

Array = NDArray[np.float64]

POINTS_LOG2 = 12
"""Sobol points per row, as a power of two: chances are then good to about a thousandth."""

ROWS_AT_ONCE = 64

SEED = 20220506
"""Of the scrambling. The points are the same for all rows, so that predictions differ only as
their rows do, and the same prediction comes out every time."""


@dataclass(frozen=True, eq=False)
class SimulatedMoments(Moments):
    """Averages over simulated latent outcomes; effects are refused."""

    smooth: ClassVar[bool] = False

    def expectations(
        self, reported: Array, rows: Rows, *, shift: Array | None = None
    ) -> Expectations:
        problem = self.problem
        means = latent_means(problem, reported, rows)
        return simulated_expectations(
            self.rule,
            means if shift is None else means + shift,
            problem.row_scales(reported, rows),
            problem.noise.margin,
            problem.noise.known_correlation(problem.equations.alternatives),
            rows.known,
        )

    def check_cells(self) -> NoReturn:
        if not has_bounds(self.rule):
            raise UnsupportedError(
                f"{type(self.rule).__name__} offers no `bounds`, and effects need box-shaped "
                "explaining sets. Give the rule a `bounds` method."
            )
        raise UnsupportedError(
            "Effects need noise other than KnownCovariance. Use predict(), which simulates, or "
            "noises.Correlated with fixed scales and correlations."
        )

    def cells(self, reported: Array, rows: Rows) -> Array:
        del reported, rows
        self.check_cells()

    def cells_and_slope(self, reported: Array, rows: Rows, weights: Array) -> tuple[Array, Array]:
        del reported, rows, weights
        self.check_cells()


def simulated_expectations(
    rule: Any,
    means: Array,
    scales: Array,
    shape: Shape,
    correlation: Array | None,
    known: RowData,
) -> Expectations:
    """Average over simulated latent outcomes: 4,096 quasi-random points per row.

    Parameters
    ----------
    rule : which alternative is chosen, in the order of the alternatives.
    means : (n, k) mean of every latent outcome.
    scales : (n, k) their scales, or (k,) where all rows have the same.
    shape : of the noise.
    correlation : (k, k) of the noise, or None.
    known : costs and availability.
    """
    # Imported here: scipy.stats takes half a second to load, which only such rules need.
    from scipy.stats import qmc

    scales = np.atleast_2d(scales)
    n_rows, k = means.shape
    uniform = qmc.Sobol(k, rng=np.random.default_rng(SEED)).random_base2(POINTS_LOG2)
    noise = shape.quantile(np.clip(uniform, 1e-12, 1.0 - 1e-12))
    if correlation is not None:
        noise = noise @ np.linalg.cholesky(correlation).T
    n_points = len(noise)
    chance, given = np.empty((n_rows, k)), np.full((n_rows, k, k), np.nan)
    for start in range(0, n_rows, ROWS_AT_ONCE):
        part = slice(start, min(start + ROWS_AT_ONCE, n_rows))
        size = part.stop - part.start
        wide = scales if len(scales) == 1 else scales[part]
        latent: Array = (means[part, None, :] + noise * wide[:, None, :]).reshape(-1, k)
        each = np.repeat(np.arange(part.start, part.stop), n_points)
        chosen = np.asarray(rule.choose(latent, known.take(each))).reshape(size, n_points)
        latent = latent.reshape(size, n_points, k)
        for j in range(k):
            mine = (chosen == j).astype(np.float64)
            count = mine.sum(axis=1)
            chance[part, j] = count / n_points
            with np.errstate(divide="ignore", invalid="ignore"):
                given[part, :, j] = np.einsum("np,npk->nk", mine, latent) / count[:, None]
    return with_outcome(chance, given)
