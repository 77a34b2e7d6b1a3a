r"""Derivatives of one alternative's terms in what moves its scale, by those in (g'x, h).

A row has :math:`e^t g` and :math:`e^t h` in place of g and h, :math:`t = -z'\delta`. So t moves
its term :math:`\ell` along :math:`(g'x, h)` itself,

.. math:: \ell_t = g'x\,\ell_g + h\,\ell_h, \qquad
   \ell_{tt} = \ell_t + (g'x)^2 \ell_{gg} + 2 h\,g'x\,\ell_{gh} + h^2 \ell_{hh},

whatever the shape of the noise and whatever a row says of the alternative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.fused_known import Moving
from selfselect.kernels.known_index import RowTerms
from selfselect.problem.batch import Evaluation
from selfselect.problem.problem import Problem

__all__ = [
    "AlongSpread",
    "Moved",
    "along_spread",
    "fused_moving",
    "sum_moved",
    "with_moved",
]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AlongSpread:
    """One alternative's derivatives in t, one entry per row.

    Attributes
    ----------
    z : (n, q) what moves the scale.
    first, second : first and second derivative in t.
    cross_g, cross_h : mixed ones, per unit of x and in h.
    """

    z: Array
    first: Array
    second: Array
    cross_g: Array
    cross_h: Array


def along_spread(z: Array, terms: RowTerms, location: Array, inverse_scale: float) -> AlongSpread:
    """Derive the terms of one alternative in t; `location` (n,) is g'x."""
    by_g = location * terms.curvature + inverse_scale * terms.curvature_gh
    by_h = location * terms.curvature_gh + inverse_scale * terms.curvature_hh
    first = location * terms.residual + inverse_scale * terms.score_h
    second = first + location * by_g + inverse_scale * by_h
    return AlongSpread(z, first, second, terms.residual + by_g, terms.score_h + by_h)


@dataclass(frozen=True, eq=False)
class Moved:
    """Sums over rows: score and Hessian in delta, and the mixed part (p + 1, q) with (g, h)."""

    score: Array
    hessian: Array
    cross: Array


def sum_moved(
    along: AlongSpread, design: Array, weights: Array | None, *, curved: bool = True
) -> Moved:
    """Add up one alternative's derivatives; without `curved` second ones are zero."""
    weight = 1.0 if weights is None else weights
    z, size = along.z, along.z.shape[1]
    score = -(z.T @ (weight * along.first))
    cross = np.zeros((design.shape[1] + 1, size))
    if not curved:
        return Moved(score, np.zeros((size, size)), cross)
    cross[:-1] = -(design.T @ (z * (weight * along.cross_g)[:, None]))
    cross[-1] = -(z.T @ (weight * along.cross_h))
    return Moved(score, z.T @ (z * (weight * along.second)[:, None]), cross)


def fused_moving(problem: Problem, natural: Array) -> Moving:
    """Return what moves the scales as the fused kernel takes it."""
    spreads = problem.layout.spread_of
    widest = max(len(one.columns) for one in spreads if one is not None)
    columns = np.full((len(spreads), widest), -1, dtype=np.int64)
    delta = np.zeros(columns.shape)
    for j, spread in enumerate(spreads):
        if spread is not None:
            columns[j, : len(spread.columns)] = spread.columns
            delta[j, : len(spread.columns)] = natural[spread.places]
    return Moving.empty(columns, delta, max(problem.layout.sizes))


def with_moved(problem: Problem, own: Evaluation, moving: Moving) -> Evaluation:
    """Put a fused kernel's sums in delta beside those in (g, h) of all alternatives."""
    layout = problem.layout
    total = layout.n_natural
    score, hessian = np.zeros(total), np.zeros((total, total))
    score[: len(own.score)] = own.score
    hessian[: len(own.score), : len(own.score)] = own.hessian
    for j, spread in enumerate(layout.spread_of):
        if spread is None:
            continue
        size, of_alternative = len(spread.places), slice(layout.starts[j], layout.starts[j + 1])
        score[spread.places] = moving.score[j, :size]
        lower = np.tril(moving.hessian[j, :size, :size])
        hessian[np.ix_(spread.places, spread.places)] = lower + np.tril(lower, -1).T
        used = np.append(np.arange(layout.sizes[j]), moving.mixed.shape[2] - 1)
        mixed = moving.mixed[j, :size][:, used]
        hessian[spread.places, of_alternative] = mixed
        hessian[of_alternative, spread.places] = mixed.T
    return Evaluation(own.loglik, score, hessian)
