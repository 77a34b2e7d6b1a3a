"""One door to the log-likelihood of a batch, whatever was observed in it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.unknown_index import Curvature
from selfselect.problem.batch import Backend, Batch, Evaluation, Parts
from selfselect.problem.joint import evaluate_joint, joint_rows
from selfselect.problem.known import alternative_terms, evaluate_known, known_score_blocks
from selfselect.problem.problem import Problem
from selfselect.problem.ranked import evaluate_ranked, ranked_score_blocks
from selfselect.problem.unknown import (
    evaluate_unknown,
    evaluate_unknown_places,
    find_memberships,
    unknown_score_blocks,
)

__all__ = [
    "Backend",
    "Batch",
    "Evaluation",
    "alternative_terms",
    "evaluate",
    "evaluate_places",
    "find_memberships",
    "joint_rows",
    "score_blocks",
]

Array = NDArray[np.float64]


def evaluate(
    problem: Problem, natural: Array, batch: Batch, *, curvature: Curvature = "exact"
) -> Evaluation:
    """Evaluate the log-likelihood on a batch.

    Parameters
    ----------
    problem : the model.
    natural : (n_natural,) parameters in internal units.
    batch : rows.
    curvature : how much of the Hessian is wanted; zeros stand for one that was not. A concave
        problem's data are complete, so its complete Hessian is the exact one.
    """
    if problem.joint:
        return evaluate_joint(problem, natural, batch, curvature)
    if problem.index == "unknown":
        return evaluate_unknown(problem, natural, batch, curvature)
    if problem.rank is not None:
        return evaluate_ranked(problem, natural, batch, curvature)
    return evaluate_known(problem, natural, batch, curvature)


def evaluate_places(problem: Problem, naturals: Array, batch: Batch) -> Parts:
    """Return log-likelihoods (s,) and scores (s, m) of a batch at natural parameters (s, m).

    Where rows are few, all places of an unknown index share each call.
    """
    if problem.index == "unknown" and not problem.joint and batch.backend == "numpy":
        return evaluate_unknown_places(problem, naturals, batch)
    each = [evaluate(problem, natural, batch, curvature="none") for natural in naturals]
    return Parts((np.array([one.loglik for one in each]), np.stack([one.score for one in each])))


def score_blocks(problem: Problem, natural: Array, batch: Batch) -> list[Array]:
    """Return each row's unweighted score, per alternative (n, p_j + 1), or in one block."""
    if problem.joint:
        return [joint_rows(problem, natural, batch).score]
    if problem.index == "unknown":
        return unknown_score_blocks(problem, natural, batch)
    if problem.rank is not None:
        return ranked_score_blocks(problem, natural, batch)
    return known_score_blocks(problem, natural, batch)
