"""Compiled passes over all that may have been: joint noise, unknown index, mixtures, types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.compiled import extension
from selfselect.kernels.fused_known import Array, FusedSums, Indices, RowArguments
from selfselect.kernels.joint import STEEP, hermite

if TYPE_CHECKING:
    from selfselect.kernels.fused_known import StudentTable
    from selfselect.kernels.unknown_index import Curvature


# The compiled twin of pairs and of shared shocks (`joint`), for rows of one atom.
#
# For two correlated alternatives also of rows whose outcome may be either's: two atoms.
#
# Products of Φ are formed without logarithms: far out they underflow, the log-likelihood is then
# not finite, and whoever called turns to the twin that is slower.


@dataclass(frozen=True, eq=False)
class JointSums:
    """Weighted sums over rows.

    Attributes
    ----------
    own : those of coefficients and inverse scales.
    score : (q,) of the inputs the noise adds.
    hessian : (q, q)
    mixed : (k, m + 1, q) second derivatives in an alternative's parameters and those inputs.
    """

    own: FusedSums
    score: Array
    hessian: Array
    mixed: Array


def is_steep(loadings: Array) -> bool:
    """Say whether some factor changes too fast for the nodes; see `joint`."""
    spread = 1.0 / np.sqrt(1.0 + loadings**2)
    slope = np.outer(spread, np.abs(loadings))
    np.fill_diagonal(slope, 0.0)
    return bool((slope > STEEP).any())


def sum_joint(
    rows: RowArguments,
    *,
    extras: NDArray[np.float64],
    nodes: int | None,
    side: float = 0.0,
    curvature: bool,
) -> JointSums:
    """Add up log-likelihood, score and Hessian over rows, on one thread, without the GIL.

    Parameters
    ----------
    rows : in each of which one outcome is observed, or any may be.
    extras : the correlation of two alternatives, or the loadings of all in units of their scales.
    nodes : of the quadrature over the shock; None for two correlated alternatives.
    side : 0 where the index is known; where it is not, and there are two correlated alternatives, 1
        for the largest and -1 for the smallest.
    curvature : whether second derivatives are wanted; zero where they are not.
    """
    q, (score, hessian, cross) = len(extras), rows.zeros(cross=curvature)
    extra_score, extra_hessian, mixed = np.zeros(q), np.zeros((q, q)), np.zeros((*score.shape, q))
    at, node_weight = (np.empty(0), np.empty(0)) if nodes is None else hermite(nodes)
    loglik = extension().joint(
        *rows.native(), extras, at, node_weight, side, score, hessian, cross, extra_score,
        extra_hessian, mixed,
    )  # fmt: skip
    return JointSums(FusedSums(loglik, score, hessian, cross), extra_score, extra_hessian, mixed)


# The compiled twin of `unknown_index`, and of its atoms where noise is not normal.


def sum_unknown_index(rows: RowArguments, *, side: float, curvature: Curvature) -> FusedSums:
    """Add up the log-likelihood, score and Hessian over rows, on one thread, without the GIL.

    Parameters
    ----------
    rows : whose one limit is the outcome, and whose status is MAYBE where the alternative is open
        to the row; where it is anything else, the alternative takes no part. Rows to which none is
        open add nothing.
    side : 1 where the largest outcome is observed, -1 where the smallest is.
    curvature : how much of the Hessian is wanted. With "none" it is zero; with "complete" it is
        that of the complete data, each alternative's own block; with "exact" there are cross
        blocks too.
    """
    score, hessian, cross = rows.zeros(cross=curvature == "exact")
    loglik = extension().unknown(*_native(rows), side, curvature != "none", score, hessian, cross)
    return FusedSums(loglik, score, hessian, cross)


def sum_places(rows: RowArguments, *, side: float) -> tuple[Array, Array]:
    """Return log-likelihoods (s,) and scores (s, k, m + 1) at s places, in one call.

    As `sum_unknown_index`, but `rows` has g (s, k, m) and h (s, k).
    """
    *shared, g, h = _native(rows)
    loglik, score = np.zeros(len(g)), np.zeros((*g.shape[:2], g.shape[2] + 1))
    extension().unknown_places(
        *shared, g[0], h[0], side, np.ascontiguousarray(g), np.ascontiguousarray(h), loglik, score
    )
    return loglik, score


def sum_unknown_shapes(
    rows: RowArguments,
    *,
    side: float,
    shape: int,
    components: Array | None = None,
    student: StudentTable | None = None,
    n_parameters: int = 0,
    curvature: bool,
) -> JointSums:
    """Add up over rows as `sum_unknown_index`, under independent noise that is not normal.

    Parameters
    ----------
    rows, side : as there.
    shape : number of the noise's shape, as in `fused_known`.
    components : (1 or k, M, 3) shares, means and spreads of a mixture; else None.
    student : the table of Student's t, of one for all alternatives or one for each; else None.
    n_parameters : in how many parameters of the shapes sums are differentiated: all components of
        mixtures, or degrees of freedom, or none.
    curvature : whether second derivatives are wanted; zero where they are not.
    """
    q, (score, hessian, cross) = n_parameters, rows.zeros(cross=curvature)
    by, twice, mixed = np.zeros(q), np.zeros((q, q)), np.zeros((*score.shape, q))
    table = (None,) * 2 if student is None else tuple(student)
    loglik = extension().unknown_shapes(
        *_native(rows), side, shape, components, *table, curvature, score, hessian, cross, by,
        twice, mixed,
    )  # fmt: skip
    return JointSums(FusedSums(loglik, score, hessian, cross), by, twice, mixed)


def _native(rows: RowArguments) -> tuple[Any, ...]:
    if rows.limit.shape[1:] != (1,):
        raise ValueError("the shapes of the arguments disagree: there is one outcome per row")
    return rows.native()


# Mixtures of normals under a known index: one pass over the rows, compiled.
#
# The oracle is `likelihoods.shaped`, by the terms of `kernels.mixture`.


class FusedMixture(NamedTuple):
    """Sums over rows under one mixture for all alternatives, or under one for each.

    Attributes
    ----------
    own : in g and h.
    mixed : (k, m + 1, q) second derivatives in these and in the parameters of the mixture.
    by : (1 or k, 3 M) first derivatives in the components.
    hessian : (1 or k, q, q) second derivatives in the parameters of the mixture, as far as its
        components depend on these linearly.
    """

    own: FusedSums
    mixed: Array
    by: Array
    hessian: Array


def sum_mixture(
    rows: RowArguments,
    *,
    components: Array,
    slopes: Array,
    curvature: Curvature = "exact",
) -> FusedMixture:
    """Add up the log-likelihood, score and Hessian over rows, on one thread, without the GIL.

    Parameters
    ----------
    rows : without upper limits.
    components : (1 or k, M, 3) shares, means and spreads.
    slopes : (1 or k, 3 M, q) their derivatives in the parameters of the mixture.
    curvature : with "none" second derivatives are zero.
    """
    (sets, inside, q), (score, hessian, _) = slopes.shape, rows.zeros()
    mixed, by = np.zeros((*score.shape, q)), np.zeros((sets, inside))
    twice, products = np.zeros((sets, inside, inside)), np.zeros((sets, q, q))
    loglik = extension().mixture(
        *rows.native(), np.ascontiguousarray(components), np.ascontiguousarray(slopes),
        curvature != "none", score, hessian, mixed, by, twice, products,
    )  # fmt: skip
    whole = twice + np.triu(twice, 1).transpose(0, 2, 1)
    outer = products + np.tril(products, -1).transpose(0, 2, 1)
    curved = slopes.transpose(0, 2, 1) @ whole @ slopes - outer
    return FusedMixture(FusedSums(loglik, score, hessian), mixed, by, curved)


# Unobserved types under a known index: one pass over the rows, compiled.
#
# The oracle is `likelihoods._mixed_boxes`.


class FusedTypes(NamedTuple):
    """Sums over groups of rows whose type is not known.

    Of type m there are k + 1 sums: in its offset of each location, and in the logarithm of its
    weight, where weights need not add up to one.

    Attributes
    ----------
    loglik : log-likelihood.
    score : (k, m + 1) in g and h, laid out as in `FusedSums`.
    hessian : (k, m + 1, k, m + 1).
    type_score : (M (k + 1),).
    mixed : (k, m + 1, M (k + 1)).
    type_hessian : (M (k + 1), M (k + 1)).
    """

    loglik: float
    score: Array
    hessian: Array
    type_score: Array
    mixed: Array
    type_hessian: Array


def sum_types(
    rows: RowArguments,
    *,
    offsets: Array,
    log_prior: Array,
    starts: Indices | None,
    curvature: Curvature = "exact",
) -> FusedTypes:
    """Add up the log-likelihood, score and Hessian over groups, on one thread, without the GIL.

    Parameters
    ----------
    rows : without upper limits; those of a group have the same weight.
    offsets : (M, k) that each type adds to g'x.
    log_prior : (M,) logarithms of the weights of the types.
    starts : (G,) where groups begin; None where each row is one.
    curvature : "complete" takes types as known; with "none" second derivatives are zero.

    Raises
    ------
    ValueError
        If groups are not in order: compiled code would read astray.
    """
    k, width = rows.columns.shape
    shape, n_sums = (k, width + 1), len(log_prior) * (k + 1)
    found = FusedTypes(
        0.0, np.zeros(shape), np.zeros(shape * 2), np.zeros(n_sums), np.zeros((*shape, n_sums)),
        np.zeros((n_sums, n_sums)),
    )  # fmt: skip
    loglik = extension().types(
        *rows.native(), np.ascontiguousarray(offsets), np.ascontiguousarray(log_prior), starts,
        ("none", "complete", "exact").index(curvature), *found[1:],
    )  # fmt: skip
    return found._replace(loglik=loglik)
