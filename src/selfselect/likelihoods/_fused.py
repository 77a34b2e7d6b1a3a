"""What the fused kernels take and return, to and from the stacked natural parameters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels._fused import FusedSums, RowArguments
from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods.base import Likelihood
from selfselect.problem.batch import Batch, Evaluation
from selfselect.problem.problem import Problem

__all__ = ["padding_of", "placed", "row_arguments"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Padding:
    """Where the natural parameters of k alternatives lie in arrays with one row for each.

    Attributes
    ----------
    columns : (k, m) the columns of [1 | covariates] of each, padded with -1.
    sizes : (k,) how many of them there are.
    used : (k, m + 1) where there is a parameter; that of h is in the last column.
    kept : index of the rows and columns of a Hessian over all entries that are used; all of it
        where all are, which is a view.
    """

    columns: NDArray[np.int64]
    sizes: NDArray[np.int64]
    used: NDArray[np.bool_]
    kept: tuple[Any, ...]


@lru_cache(maxsize=64)
def _padding(columns: tuple[tuple[int, ...], ...]) -> Padding:
    sizes = np.array([len(own) for own in columns])
    padded = np.full((len(columns), sizes.max()), -1, dtype=np.int64)
    for row, own in zip(padded, columns, strict=True):
        row[: len(own)] = own
    used = np.column_stack([padded >= 0, np.ones(len(columns), dtype=np.bool_)])
    kept = np.flatnonzero(used)
    return Padding(padded, sizes, used, (...,) if used.all() else np.ix_(kept, kept))


def padding_of(problem: Problem) -> Padding:
    """Return where a problem's natural parameters lie in padded arrays."""
    return _padding(tuple(equation.columns for equation in problem.equations.each))


def row_arguments(problem: Problem, natural: Array, batch: Batch) -> RowArguments:
    """Return what every fused kernel takes of a batch, at parameters (..., n_natural)."""
    units, observation, padding = problem.units, batch.observation, padding_of(problem)
    padded = np.zeros((*natural.shape[:-1], *padding.used.shape))
    # A mask alone is faster than one behind an ellipsis.
    where = padding.used if natural.ndim == 1 else (..., padding.used)
    padded[where] = natural[..., : problem.layout.starts[-1]]
    return RowArguments(
        batch.rows.covariates, observation.status, observation.limit, batch.rows.weights,
        padding.columns, padding.sizes,
        units.shift, units.unit, units.outcome_shift, units.outcome_unit,
        padded[..., :-1], padded[..., -1], observation.upper,
    )  # fmt: skip


def placed(
    likelihood: Likelihood, batch: Batch, sums: FusedSums, curvature: Curvature = "exact"
) -> Evaluation:
    """Put a fused kernel's padded sums in the places of the natural parameters."""
    padding = padding_of(likelihood.problem)
    used = padding.used
    loglik, score = sums.loglik + likelihood.unit_correction(batch.rows), sums.score[used]
    if curvature == "none":
        return Evaluation(loglik, score, np.zeros((len(score), len(score))))
    whole = np.zeros(used.shape * 2) if sums.cross is None else sums.cross
    for j, own in enumerate(sums.hessian):
        whole[j, :, j] = own
    return Evaluation(loglik, score, whole.reshape(used.size, used.size)[padding.kept])
