"""What the fused kernels take and return, to and from the stacked natural parameters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods.base import Likelihood
from selfselect.problem.batch import Batch, Evaluation
from selfselect.problem.problem import Problem

if TYPE_CHECKING:
    from selfselect.kernels._fused import FusedSums

__all__ = ["fused_arguments", "padding_of", "placed"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Padding:
    """Where the natural parameters of k alternatives lie in arrays with one row for each.

    Attributes
    ----------
    columns : (k, m) the columns of [1 | covariates] of each, padded with -1.
    sizes : (k,) how many of them there are.
    used : (k, m + 1) where there is a parameter; that of h is in the last column.
    kept : index of the rows and columns of a Hessian over all entries that are used.
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
    return Padding(padded, sizes, used, np.ix_(kept, kept))


def padding_of(problem: Problem) -> Padding:
    """Return where a problem's natural parameters lie in padded arrays."""
    return _padding(tuple(equation.columns for equation in problem.equations.each))


def fused_arguments(problem: Problem, natural: Array, batch: Batch) -> dict[str, Any]:
    """Return the arguments that all fused kernels share, at parameters (..., n_natural)."""
    units, observation, padding = problem.units, batch.observation, padding_of(problem)
    padded = np.zeros((*natural.shape[:-1], *padding.used.shape))
    padded[..., padding.used] = natural[..., : problem.layout.starts[-1]]
    return {
        "covariates": batch.rows.covariates,
        "status": observation.status,
        "limit": observation.limit,
        "weights": batch.rows.weights,
        "columns": padding.columns,
        "sizes": padding.sizes,
        "shift": units.shift,
        "unit": units.unit,
        "limit_shift": units.outcome_shift,
        "limit_unit": units.outcome_unit,
        "g": padded[..., :-1],
        "h": padded[..., -1],
    }


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
    each = np.arange(len(used))
    whole[each, :, each] = sums.hessian
    return Evaluation(loglik, score, whole.reshape(used.size, used.size)[padding.kept])
