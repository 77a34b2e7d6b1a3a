"""What the fused kernels take and return, to and from the stacked natural parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods.base import Likelihood
from selfselect.problem.batch import Batch, Evaluation
from selfselect.problem.problem import Problem

if TYPE_CHECKING:
    from selfselect.kernels._fused import FusedSums

__all__ = ["fused_arguments", "placed"]

Array = NDArray[np.float64]


def fused_arguments(problem: Problem, natural: Array, batch: Batch) -> dict[str, Any]:
    """Return the arguments that all fused kernels share."""
    layout, units, observation = problem.layout, problem.units, batch.observation
    n_alternatives, widest = len(layout.sizes), max(layout.sizes)
    columns = np.full((n_alternatives, widest), -1, dtype=np.int64)
    g = np.zeros((n_alternatives, widest))
    for j, (equation, start) in enumerate(zip(problem.equations.each, layout.starts, strict=False)):
        columns[j, : layout.sizes[j]] = equation.columns
        g[j, : layout.sizes[j]] = natural[start : start + layout.sizes[j]]
    return {
        "covariates": batch.rows.covariates,
        "status": observation.status,
        "limit": observation.limit,
        "weights": batch.rows.weights,
        "columns": columns,
        "sizes": np.array(layout.sizes, dtype=np.int64),
        "shift": units.shift,
        "unit": units.unit,
        "limit_shift": units.outcome_shift,
        "limit_unit": units.outcome_unit,
        "g": g,
        "h": natural[layout.inverse_scale_positions],
    }


def placed(
    likelihood: Likelihood, batch: Batch, sums: FusedSums, curvature: Curvature = "exact"
) -> Evaluation:
    """Put a fused kernel's padded sums in the places of the natural parameters."""
    layout = likelihood.problem.layout
    n_alternatives, widest = len(layout.sizes), max(layout.sizes)
    used = np.arange(widest + 1) < np.array(layout.sizes)[:, None]
    used[:, -1] = True
    loglik, score = sums.loglik + likelihood.unit_correction(batch.rows), sums.score[used]
    if curvature == "none":
        return Evaluation(loglik, score, np.zeros((len(score), len(score))))
    shape = (n_alternatives, widest + 1)
    whole = np.zeros(shape * 2) if sums.cross is None else sums.cross.copy()
    each = np.arange(n_alternatives)
    whole[each, :, each] = sums.hessian
    kept = np.flatnonzero(used)
    hessian = whole.reshape(used.size, used.size)[np.ix_(kept, kept)]
    return Evaluation(loglik, score, hessian)
