r"""Sums over the atoms of a batch: scores and Hessians by the chain rule.

A row of several atoms has the score of their mixture, and the Hessian by Louis (1982):

.. math:: H = \sum_t \pi_t (H_t + s_t s_t') - s s'.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from selfselect.likelihoods._pieces import Piece
from selfselect.problem.problem import Problem

__all__ = ["add_up", "row_scores"]

Array = NDArray[np.float64]


def add_up(
    problem: Problem,
    natural: Array,
    piece: Piece,
    weight: Array,
    score: Array,
    hessian: Array | None,
) -> None:
    """Add a piece's weighted score and Hessian to those of the batch."""
    atoms, terms = piece.atoms, piece.terms
    single = atoms.log_weight is None
    per_atom = weight if single else weight[atoms.row] * piece.share
    at_h = problem.layout.inverse_scale_positions
    counts = np.bincount(atoms.chosen, weights=per_atom, minlength=len(at_h))
    for j, one in enumerate(piece.own_scale):
        score[one.places] += _weighted_sum(one.slope, per_atom * (atoms.chosen == j))
    for place, one in enumerate(piece.inputs):
        score[one.places] += _weighted_sum(one.slope, per_atom * terms.gradient[:, place])
    if hessian is None:
        return
    assert terms.hessian is not None
    hessian[at_h, at_h] -= counts / natural[at_h] ** 2
    for places, others, left, right in piece.bent:
        block = _weighted_cross(left, per_atom, right)
        hessian[np.ix_(places, others)] += block
        hessian[np.ix_(others, places)] += block.T
    curved, inputs = terms.hessian, piece.inputs
    if not single:
        # An atom's own score also has what log h_j adds: an input of its own.
        own = (atoms.chosen[:, None] == np.arange(len(at_h))).astype(float)
        along = np.concatenate([terms.gradient, own], axis=1)
        inputs = inputs + piece.own_scale
        curved = along[:, :, None] * along[:, None, :]
        curved[:, : terms.hessian.shape[1], : terms.hessian.shape[1]] += terms.hessian
        rows = row_scores(natural, piece)
        hessian -= rows.T @ (rows * weight[:, None])
    for place, one in enumerate(inputs):
        for earlier in range(place + 1):
            other = inputs[earlier]
            block = _weighted_cross(one.slope, per_atom * curved[:, place, earlier], other.slope)
            hessian[np.ix_(one.places, other.places)] += block
            if earlier != place:
                hessian[np.ix_(other.places, one.places)] += block.T


def row_scores(natural: Array, piece: Piece) -> Array:
    """Return each row's own score (m, n_natural)."""
    atoms = piece.atoms
    scores = np.zeros((len(atoms.rows), len(natural)))
    for place, one in enumerate(piece.inputs):
        along = (piece.share * piece.terms.gradient[:, place])[:, None] * one.slope
        scores[:, one.places] += (
            along if atoms.log_weight is None else np.add.reduceat(along, atoms.first)
        )
    for j, one in enumerate(piece.own_scale):
        mine = np.flatnonzero(atoms.chosen == j)
        slope = one.slope if len(one.slope) == 1 else one.slope[mine]
        along = piece.share[mine, None] * slope
        np.add.at(scores, (atoms.row[mine, None], one.places[None, :]), along)
    return scores


def _weighted_sum(slope: Array, weight: Array) -> Array:
    total: Array = weight.sum() * slope[0] if len(slope) == 1 else weight @ slope
    return total


def _weighted_cross(left: Array, weight: Array, right: Array) -> Array:
    """Return left' diag(weight) right, where either may be one row that stands for all."""
    if len(left) == 1:
        return np.outer(left[0], _weighted_sum(right, weight))
    if len(right) == 1:
        return np.outer(weight @ left, right[0])
    cross: Array = left.T @ (right * weight[:, None])
    return cross
