r"""The score test of one scale for all alternatives against one for each.

At the estimate with one scale, the score of the model with a scale each is zero but along
differences of scales. With :math:`u_i` its rows, freed of nothing since all parameters are in it,

.. math:: s = \sum_i u_i, \qquad s' \Big(\sum_i u_i u_i'\Big)^{-1} s \sim \chi^2_{k-1}.

One pass, no fit. The information of a mixture need not be positive away from its optimum, the outer
product always is.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine, Parts
from selfselect.inference.dependence import Dependence
from selfselect.inference.statistics import TestResult, chi_square_test, impossible_test
from selfselect.likelihoods import Batch, row_terms
from selfselect.problem.problem import Problem
from selfselect.solvers.base import Solution

__all__ = ["common_scale_test"]

Array = NDArray[np.float64]

NAME = "Score test of one scale for all alternatives"


def common_scale_test(
    problem: Problem,
    engine: Engine,
    solution: Solution,
    dependence: Dependence,
) -> TestResult:
    """Test that all alternatives have the scale they were given in common.

    Parameters
    ----------
    problem, engine, solution : the fit with one scale.
    dependence : clusters, with which there is no such test, and weights: probability weights
        multiply what a row says, all others count rows.
    """
    noise: Any = problem.noise
    if not noise.independent or not problem.layout.common:
        return impossible_test(NAME, "there is no scale in common")
    if dependence.clusters:
        return impossible_test(NAME, "it takes rows as independent, and these come in clusters")
    if not solution.converged or problem.likelihood.sampled:
        return impossible_test(NAME, "the estimate is not one of maximum likelihood")
    large = replace(problem, noise=replace(noise, scale="each"))
    natural = problem.layout.natural(solution.free)
    power = 2 if dependence.weights_kind == "probability" else 1
    total, outer = engine.sum(partial(_sums, large, natural, power))
    free = large.layout.gather(natural)
    score = large.layout.pull_back_vector(total, free)
    variance = large.layout.pull_back_matrix(outer, free)
    try:
        np.linalg.cholesky(variance)
        statistic = float(score @ np.linalg.solve(variance, score))
    except np.linalg.LinAlgError:
        return impossible_test(NAME, "the information about the scales is singular")
    df = large.layout.n_free - problem.layout.n_free
    return chi_square_test(NAME, statistic, df, "one scale")


def _sums(problem: Problem, natural: Array, power: int, batch: Batch) -> Parts:
    scores = row_terms(problem, natural, batch).score
    weights = np.ones(len(batch)) if batch.rows.weights is None else batch.rows.weights
    return Parts((weights @ scores, scores.T @ (scores * (weights**power)[:, None])))
