"""The likelihood of alternatives that depend on each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from operator import add
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.errors import UnsupportedError
from selfselect.kernels.fused_known import MIXTURE, STUDENT
from selfselect.kernels.fused_unknown import JointSums, sum_joint, sum_unknown_shapes
from selfselect.kernels.joint import ORDERS
from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods._atoms import cost_values
from selfselect.likelihoods.base import (
    Likelihood,
    RowTerms,
    draw_rows,
    is_weighed,
    latent_outcomes,
    recording_obstacles,
    why_not_recorded_alike,
)
from selfselect.likelihoods.boxes import padding_of, placed, row_arguments
from selfselect.likelihoods.pieces import (
    AtomPiece,
    hermite_of,
    kernel_extras,
    noise_covariance,
    pieces_of,
    residuals_of,
)
from selfselect.likelihoods.shaped import parameters_of
from selfselect.noises.shapes.base import Inner
from selfselect.problem.batch import (
    Batch,
    Evaluation,
    Observation,
    observe,
    observe_partial,
    observe_unknown,
)
from selfselect.problem.problem import Problem

Array = NDArray[np.float64]


# Sums over the atoms of a batch: scores and Hessians by the chain rule.
#
# A row of several atoms has the score of their mixture, and the Hessian by Louis (1982):
#
# .. math:: H = \sum_t \pi_t (H_t + s_t s_t') - s s'.


def add_up(
    problem: Problem,
    natural: Array,
    piece: AtomPiece,
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


def row_scores(natural: Array, piece: AtomPiece) -> Array:
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


# Sums of atoms by the fused kernels: two correlated alternatives, a shared shock, other shapes.


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


# Likelihoods in which the alternatives of a row depend on each other: sums over atoms.
#
# Correlated noise, a shared shock, costs that are estimated, outcomes or choices that were not
# recorded: all are sums over atoms (see `_atoms`) of terms in the inputs :math:`a_l` and what the
# noise adds (see `kernels.joint`).


ROWS_AT_ONCE = 2_048
"""Rows whose atoms, inputs and second derivatives are held at once."""


@dataclass(frozen=True, eq=False)
class Joint(Likelihood):
    """Rules with bounds, any noise, estimated costs, rows that lack something."""

    joint: ClassVar[bool] = True
    has_obstacles: ClassVar[bool] = True

    @property
    def weighed(self) -> bool:
        return is_weighed(self.problem)

    @property
    def exact(self) -> bool:
        return not self.problem.noise.simulated(self.problem.equations.n_alternatives)

    @property
    def compiled(self) -> bool:
        problem = self.problem
        if problem.partial or problem.equations.costs or problem.layout.spreads or self.weighed:
            return False
        return problem.noise.compiled(problem.equations.n_alternatives, problem.index)

    def observe(self, rows: Rows) -> Observation:
        problem = self.problem
        if problem.index == "unknown":
            return observe_unknown(rows, problem.equations.n_alternatives)
        if problem.partial:
            return observe_partial(problem.ordered_rule, rows, problem.equations.alternatives)
        found = observe(problem.ordered_rule, rows, problem.equations.alternatives)
        if found.upper is not None:
            raise UnsupportedError(
                f"{type(problem.rule).__name__} bounds outcomes on both sides, which is possible "
                "with independent noise and known costs only."
            )
        return found

    def evaluate(self, natural: Array, batch: Batch, curvature: Curvature) -> Evaluation:
        """Evaluate on a batch; "complete" curvature is the exact one here."""
        wanted, noise = curvature != "none", self.problem.noise
        score = np.zeros(len(natural))
        hessian = np.zeros((len(natural),) * 2 if wanted else (1, 1))
        if noise.independent and not noise.possible(kernel_extras(self.problem, natural)):
            # There is no such shape.
            return Evaluation(-np.inf, score, hessian)
        if batch.backend == "fused" and self.compiled:
            evaluation = evaluate_fused(self, natural, batch, curvature=wanted)
            if evaluation is not None and np.isfinite(evaluation.loglik):
                return evaluation
        if len(batch) > ROWS_AT_ONCE:
            parts = [
                self.evaluate(natural, batch.take(slice(at, at + ROWS_AT_ONCE)), curvature)
                for at in range(0, len(batch), ROWS_AT_ONCE)
            ]
            return reduce(add, parts)
        weights = np.ones(len(batch)) if batch.rows.weights is None else batch.rows.weights
        loglik = self.unit_correction(batch.rows)
        for piece in pieces_of(self.problem, natural, batch, curvature=wanted):
            weight = weights[piece.atoms.rows]
            # A row of weight zero may have no likelihood at all.
            loglik += float(weight @ np.where(weight > 0, piece.loglik, 0.0))
            add_up(self.problem, natural, piece, weight, score, hessian if wanted else None)
        return Evaluation(loglik, score, hessian)

    def rows(self, natural: Array, batch: Batch) -> JointRows:
        return JointRows(self.problem, natural, batch)

    def draw(self, natural: Array, rows: Rows, noise: Array, rng: Generator) -> Rows:
        latent = latent_outcomes(self.problem, natural, rows, noise)
        return draw_rows(self.problem, rows, latent, cost_values(self.problem, natural, rows), rng)

    def obstacles(self, rows: Rows) -> Array:
        return recording_obstacles(rows) if self.problem.partial else np.zeros(4)

    def why_not_drawn(self, obstacles: Array) -> str | None:
        return why_not_recorded_alike(obstacles)


@dataclass(frozen=True, eq=False)
class Summed:
    """What the atoms of each row add up to; products only where they were wanted."""

    loglik: Array
    chance: Array
    residual: Array
    score: Array
    products: Array


@dataclass(frozen=True, eq=False)
class JointRows(RowTerms):
    """What rows say as mixtures of their atoms."""

    @cached_property
    def _with_products(self) -> Summed:
        return self._sum(products=True)

    @cached_property
    def _summed(self) -> Summed:
        # Where products were asked for first, everything else is known already.
        known: Summed | None = vars(self).get("_with_products")
        return self._sum(products=False) if known is None else known

    def _sum(self, *, products: bool) -> Summed:
        n_rows, k = len(self.batch), self.problem.equations.n_alternatives
        loglik, chance = np.empty(n_rows), np.zeros((n_rows, k))
        residual, score = np.empty((n_rows, k)), np.empty((n_rows, len(self.natural)))
        pairs = np.empty((n_rows if products else 0, k, k))
        covariance = noise_covariance(self.problem, self.natural)
        for at in range(0, n_rows, ROWS_AT_ONCE):
            part = self.batch.take(slice(at, at + ROWS_AT_ONCE))
            for piece in pieces_of(self.problem, self.natural, part, curvature=False):
                atoms, rows, share = piece.atoms, at + piece.atoms.rows, piece.share[:, None]
                loglik[rows] = piece.loglik
                np.add.at(chance, (rows[atoms.row], atoms.member), piece.share)
                noise = residuals_of(self.problem, piece, covariance)
                residual[rows] = np.add.reduceat(noise * share, atoms.first)
                score[rows] = row_scores(self.natural, piece)
                if products:
                    along = piece.terms.gradient[:, :k]
                    both = (along * share)[:, :, None] * along[:, None, :]
                    pairs[rows] = np.add.reduceat(both, atoms.first)
        return Summed(loglik, chance, residual, score, pairs)

    @property
    def loglik(self) -> Array:
        return self._summed.loglik

    @property
    def chance(self) -> Array:
        return self._summed.chance

    @property
    def residual(self) -> Array:
        return self._summed.residual

    @property
    def score(self) -> Array:
        return self._summed.score

    @property
    def products(self) -> Array:
        return self._with_products.products

    @cached_property
    def hermite(self) -> Array:
        n_rows, k = len(self.batch), self.problem.equations.n_alternatives
        found = np.empty((ORDERS, n_rows, k))
        for at in range(0, n_rows, ROWS_AT_ONCE):
            part = self.batch.take(slice(at, at + ROWS_AT_ONCE))
            for piece in pieces_of(self.problem, self.natural, part, curvature=False):
                found[:, at + piece.atoms.rows] = hermite_of(self.problem, piece)
        return found
