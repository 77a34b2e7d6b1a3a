"""Two correlated alternatives and a shared shock, by the fused kernel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.fused_joint import sum_joint
from selfselect.likelihoods._fused import padding_of, placed, row_arguments
from selfselect.likelihoods._pieces import kernel_extras
from selfselect.likelihoods.base import Likelihood
from selfselect.problem.batch import Batch, Evaluation

__all__ = ["evaluate_fused"]

Array = NDArray[np.float64]


def evaluate_fused(
    likelihood: Likelihood, natural: Array, batch: Batch, *, curvature: bool
) -> Evaluation | None:
    """Evaluate a batch by the fused kernel; None where it cannot at these parameters."""
    problem = likelihood.problem
    layout, k = problem.layout, problem.equations.n_alternatives
    n_own, h = int(layout.starts[-1]), natural[layout.inverse_scale_positions]
    extras, points = kernel_extras(problem, natural), problem.noise.points(k)
    if not problem.noise.possible(extras):
        return None
    rows = row_arguments(problem, natural, batch)
    nodes = None if points is None else points.number
    side = 0.0 if problem.index == "known" else problem.side
    sums = sum_joint(rows, extras=extras, nodes=nodes, side=side, curvature=curvature)
    own = placed(likelihood, batch, sums.own)
    score = np.concatenate([own.score, sums.score])
    mixed = sums.mixed[padding_of(problem).used]
    hessian = np.block([[own.hessian, mixed], [mixed.T, sums.hessian]])
    if problem.noise.extras_in_scales:
        # The kernel's inputs are the loadings in units of the scales, h b.
        turn = np.eye(len(natural))
        loadings = n_own + np.arange(k)
        turn[loadings, loadings] = h
        turn[loadings, layout.inverse_scale_positions] = natural[loadings]
        hessian = turn.T @ hessian @ turn
        hessian[loadings, layout.inverse_scale_positions] += sums.score
        hessian[layout.inverse_scale_positions, loadings] += sums.score
        score = turn.T @ score
    return Evaluation(own.loglik, score, hessian if curvature else np.zeros((1, 1)))
