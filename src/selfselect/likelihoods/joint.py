r"""Likelihoods in which the alternatives of a row depend on each other: sums over atoms.

Correlated noise, a shared shock, costs that are estimated, outcomes or choices that were not
recorded: all are sums over atoms (see `_atoms`) of terms in the inputs :math:`a_l` and what the
noise adds (see `kernels.joint`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.errors import UnsupportedError
from selfselect.kernels.hermite import ORDERS
from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods._costs import cost_values
from selfselect.likelihoods._drawing import (
    draw_rows,
    latent_outcomes,
    recording_obstacles,
    why_not_recorded_alike,
)
from selfselect.likelihoods._fused_joint import evaluate_fused
from selfselect.likelihoods._piece_sums import add_up, row_scores
from selfselect.likelihoods._pieces import (
    hermite_of,
    kernel_extras,
    noise_covariance,
    pieces_of,
    residuals_of,
)
from selfselect.likelihoods.base import Likelihood, RowTerms, is_weighed
from selfselect.problem.batch import Batch, Evaluation
from selfselect.problem.observation import (
    Observation,
    observe,
    observe_partial,
    observe_unknown,
)

__all__ = ["Joint"]

Array = NDArray[np.float64]

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
