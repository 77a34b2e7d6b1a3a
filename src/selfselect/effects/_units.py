"""The independent units of a fit, rows or clusters, and what they add to errors of averages.

Rows have shares in an error. Those of a unit are added up before they are squared; where rows are
clustered in several ways, squares of all single ways are added, those of intersections of two
subtracted, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from selfselect.inference.cluster_totals import cluster_totals, every_join, sign_of_join
from selfselect.inference.sandwich import (
    cluster_scores,
    corrected_row_scores,
    free_scores,
    rows_are_few,
)

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["UnitErrors", "errors_of_units", "rows_are_repeated", "without_negative"]

ROUNDING = 1e-12
"""Share of the largest eigenvalue below which a negative one is taken for a rounding error."""

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class UnitErrors:
    """What units (G of them) have to do with errors of r numbers.

    Attributes
    ----------
    sign : whether their squares are added, 1, or subtracted, -1.
    direct : (G, r) by their own values.
    by_estimates : (G, r) by their part in the estimates; zero where that was not asked for.
    """

    sign: float
    direct: Array
    by_estimates: Array

    @property
    def direct_and_crossed(self) -> Array:
        """The covariance (r, r) of errors but for what estimates alone add to it."""
        mixed = self.direct.T @ self.by_estimates
        return self.sign * (self.direct.T @ self.direct + mixed + mixed.T)

    @property
    def whole(self) -> Array:
        """The covariance (r, r) of errors."""
        both = self.direct + self.by_estimates
        return self.sign * (both.T @ both)


def rows_are_repeated(fit: FitResult) -> bool:
    """Whether a row of weight w stands for w identical ones, rather than being drawn rarely."""
    return fit.covariance.of_model or fit.facts.weights_kind == "frequency"


def errors_of_units(
    fit: FitResult, direct: Array, reach: Array | None = None, moved: Array | None = None
) -> Iterator[UnitErrors]:
    """Yield the errors of the units of each way of clustering and of their intersections.

    Parameters
    ----------
    fit : its rows, and clusters, are meant.
    direct : (n, r) each row's share in the errors at given parameters.
    reach : (p, r) derivatives of the r numbers in the free parameters; None to leave out what the
        units have to do with the estimates.
    moved : (n, r) each row's share in the errors by estimates that move in other ways: those of
        first stages.
    """
    rows = fit.rows
    carry = None
    if reach is not None:
        carry = np.asarray(np.linalg.solve(fit.solution.information, reach), dtype=np.float64)
    if rows.clusters is not None:
        yield from _of_clusters(fit, direct, carry, moved)
        return
    moved = np.zeros_like(direct) if moved is None else moved
    if carry is not None:
        moved = moved + _row_scores(fit) @ carry
    share = np.ones(len(rows))
    if rows.weights is not None and rows_are_repeated(fit):
        share = 1.0 / np.sqrt(np.where(rows.weights > 0, rows.weights, 1.0))
    yield UnitErrors(1.0, direct * share[:, None], moved * share[:, None])


def _row_scores(fit: FitResult) -> Array:
    engine, free = fit.engine_of_rows(), fit.solution.free
    repeated = rows_are_repeated(fit)
    if not rows_are_few(fit.problem, engine, repeated=repeated):
        return engine.collect(partial(free_scores, fit.problem, fit.problem.layout.natural(free)))
    task = partial(corrected_row_scores, fit.problem, free, fit.solution.information, repeated)
    return engine.collect(task)


def _of_clusters(
    fit: FitResult, direct: Array, carry: Array | None, moved: Array | None
) -> Iterator[UnitErrors]:
    rows = fit.rows
    assert rows.clusters is not None
    sizes = rows.cluster_sizes

    def totals(shares: Array) -> list[Array]:
        return [one.totals * np.sqrt(one.counted.count / (one.counted.count - 1.0))
                for one in cluster_totals(rows, shares, sizes)]  # fmt: skip

    found = totals(direct)
    by_estimates = [np.zeros_like(one) for one in found] if moved is None else totals(moved)
    if carry is not None:
        # Scores are asked for only where they count: two steps have none.
        engine, solution, repeated = fit.engine_of_rows(), fit.solution, rows_are_repeated(fit)
        scores = cluster_scores(
            fit.problem, engine, solution.free, solution.information, sizes, repeated=repeated
        )
        both = zip(by_estimates, scores, strict=True)
        by_estimates = [own + one.scores @ carry for own, one in both]
    for which, own, others in zip(every_join(len(sizes)), found, by_estimates, strict=True):
        yield UnitErrors(sign_of_join(which), own, others)


def without_negative(covariance: Array) -> Array:
    """Set negative eigenvalues of a sum of added and subtracted covariances to zero.

    They are those of the correlations, so that units do not matter. Errors that are not positive
    to begin with, those that are missing, and eigenvalues that are negative by rounding only are
    left as they are; what does not vary at all has a variance of exactly zero.
    """
    variance = np.diag(covariance)
    if not np.isfinite(covariance).all() or not (variance > 0).any():
        return covariance
    scale = np.sqrt(np.where(variance > 0, variance, variance[variance > 0].min()))
    values, axes = np.linalg.eigh(covariance / np.outer(scale, scale))
    if values[0] >= -ROUNDING * values[-1]:
        return covariance
    carry = axes * scale[:, None]
    repaired = (carry * np.maximum(values, 0.0)) @ carry.T
    varies = covariance.any(axis=0)
    return np.asarray(np.where(np.outer(varies, varies), repaired, 0.0))
