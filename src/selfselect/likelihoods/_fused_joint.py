"""Sums of atoms by the fused kernels: two correlated alternatives, a shared shock, other shapes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.fused_joint import JointSums, sum_joint
from selfselect.kernels.fused_known import MIXTURE, STUDENT
from selfselect.kernels.fused_unknown import sum_unknown_shapes
from selfselect.likelihoods._fused import padding_of, placed, row_arguments
from selfselect.likelihoods._pieces import kernel_extras
from selfselect.likelihoods._shape_parameters import parameters_of
from selfselect.likelihoods.base import Likelihood
from selfselect.noises.shapes._family import Inner
from selfselect.problem.batch import Batch, Evaluation

__all__ = ["evaluate_fused"]

Array = NDArray[np.float64]


def evaluate_fused(
    likelihood: Likelihood, natural: Array, batch: Batch, *, curvature: bool
) -> Evaluation | None:
    """Evaluate a batch by the fused kernel; None where it cannot at these parameters."""
    problem = likelihood.problem
    if problem.noise.independent:
        return _evaluate_shapes(likelihood, natural, batch, curvature=curvature)
    layout, k = problem.layout, problem.equations.n_alternatives
    n_own, h = int(layout.starts[-1]), natural[layout.inverse_scale_positions]
    extras, points = kernel_extras(problem, natural), problem.noise.points(k)
    if not problem.noise.possible(extras):
        return None
    rows = row_arguments(problem, natural, batch)
    nodes = None if points is None else points.number
    side = 0.0 if problem.index == "known" else problem.side
    sums = sum_joint(rows, extras=extras, nodes=nodes, side=side, curvature=curvature)
    whole = _joined(likelihood, batch, sums)
    score, hessian = whole.score, whole.hessian
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
    return Evaluation(whole.loglik, score, hessian if curvature else np.zeros((1, 1)))


def _joined(likelihood: Likelihood, batch: Batch, sums: JointSums) -> Evaluation:
    """Put the sums of coefficients and scales before those of what the noise adds."""
    own = placed(likelihood, batch, sums.own)
    mixed = sums.mixed[padding_of(likelihood.problem).used]
    score = np.concatenate([own.score, sums.score])
    return Evaluation(own.loglik, score, np.block([[own.hessian, mixed], [mixed.T, sums.hessian]]))


def _evaluate_shapes(
    likelihood: Likelihood, natural: Array, batch: Batch, *, curvature: bool
) -> Evaluation:
    """Evaluate independent noise that is not normal, under an unknown index."""
    problem = likelihood.problem
    given = partial(
        sum_unknown_shapes,
        row_arguments(problem, natural, batch),
        side=problem.side,
        curvature=curvature,
    )
    if problem.layout.n_noise_extras:
        own = parameters_of(problem, natural)
        n_parameters = sum(len(inner.values) for inner in own.inner)
        if own.table is None:
            shape = partial(given, shape=MIXTURE, components=own.components)
        else:
            shape = partial(given, shape=STUDENT, student=own.table)
        sums = _chained(shape(n_parameters=n_parameters), own.inner)
    else:
        margin = problem.noise.margin
        assert margin.kernel is not None
        sums = given(shape=margin.kernel, student=margin.table)
    whole = _joined(likelihood, batch, sums)
    return whole if curvature else replace(whole, hessian=np.zeros((1, 1)))


def _chained(sums: JointSums, shapes: list[Inner]) -> JointSums:
    """Turn sums in the inner parameters of shapes into those in parameters that are estimated."""
    size, n_outer = shapes[0].slope.shape
    slope = np.zeros((size * len(shapes), n_outer * len(shapes)))
    bend = np.zeros((slope.shape[1],) * 2)
    for which, inner in enumerate(shapes):
        here = slice(which * size, (which + 1) * size)
        there = slice(which * n_outer, (which + 1) * n_outer)
        slope[here, there] = inner.slope
        bend[there, there] = np.tensordot(sums.score[here], inner.bend, axes=(0, 0))
    hessian = slope.T @ sums.hessian @ slope + bend
    return JointSums(sums.own, slope.T @ sums.score, hessian, sums.mixed @ slope)
