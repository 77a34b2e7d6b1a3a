"""Types by the compiled kernel: its sums carried to the natural parameters.

The kernel differentiates in (g, h), in the offset that every type adds to every location, and in
the logarithms of the weights. Offsets are h times the shifts, which depend on the parameters of
the types.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.fused_types import FusedTypes, sum_types
from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods._components import TypesAt
from selfselect.likelihoods._fused import padding_of, row_arguments
from selfselect.problem.batch import Batch, Evaluation

__all__ = ["evaluate_types", "fused_people"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


def fused_people(at: TypesAt, batch: Batch, starts: Indices | None) -> Array:
    """Return the expected weight (M,) of the groups of each type."""
    return _sums(at, batch, starts, "none").type_score.reshape(at.number, -1)[:, -1]


def _sums(at: TypesAt, batch: Batch, starts: Indices | None, curvature: Curvature) -> FusedTypes:
    problem = at.components.problem
    h = at.natural[problem.layout.inverse_scale_positions]
    return sum_types(
        row_arguments(problem, at.natural, batch),
        offsets=h * at.values.shifts,
        log_prior=at.log_prior[0],
        starts=None if starts is None else starts.astype(np.int64, copy=False),
        curvature=curvature,
    )


def evaluate_types(
    at: TypesAt, batch: Batch, starts: Indices | None, weight: Array, curvature: Curvature
) -> Evaluation:
    """Evaluate a batch of groups that begin at `starts` and count `weight` (G,), units aside."""
    parts, natural = at.components, at.natural
    problem, layout = parts.problem, parts.problem.layout
    k, size, count = problem.equations.n_alternatives, len(natural), at.number
    h = natural[layout.inverse_scale_positions]
    sums = _sums(at, batch, starts, curvature)
    # Sums of types by their derivatives in the natural parameters.
    by_type = np.zeros((count, k + 1, size))
    by_type[:, np.arange(k), layout.inverse_scale_positions] = at.values.shifts
    by_type[:, :k, parts.at_types] += h[:, None] * at.values.shift_slopes
    first = parts.at_types.start
    by_type[np.arange(1, count), k, np.arange(first, first + count - 1)] = 1.0
    slope = by_type.reshape(-1, size)
    padding = padding_of(problem)
    used = padding.used
    own = slice(0, int(used.sum()))
    score = slope.T @ sums.type_score
    score[own] += sums.score[used]
    # What weights that add up to one take away.
    prior, total = np.exp(at.log_prior[0]), float(weight.sum())
    score[first : first + count - 1] -= total * prior[1:]
    if curvature == "none":
        return Evaluation(sums.loglik, score, np.zeros((1, 1)))
    hessian = slope.T @ sums.type_hessian @ slope
    hessian[own, own] += sums.hessian.reshape(used.size, used.size)[padding.kept]
    mixed = sums.mixed[used] @ slope
    hessian[own] += mixed
    hessian[:, own] += mixed.T
    hessian += at.prior_hessian(np.array([total]))
    if curvature == "exact":
        scores = np.zeros((count, parts.inner.layout.n_natural))
        scores[:, parts.constants] = sums.type_score.reshape(count, k + 1)[:, :k]
        hessian += at.bend(scores)
    return Evaluation(sums.loglik, score, hessian)
