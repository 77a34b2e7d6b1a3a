"""The likelihoods of rows whose index was not recorded, or is a rank."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations
from operator import add

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.kernels import unknown_index
from selfselect.kernels.fused_unknown import sum_places, sum_unknown_index
from selfselect.kernels.known_index import MAYBE, OBSERVED
from selfselect.kernels.unknown_index import Curvature, Memberships, RankedSides, sides_of_others
from selfselect.likelihoods.base import Likelihood, RowTerms
from selfselect.likelihoods.boxes import padding_of, placed, row_arguments
from selfselect.problem.batch import (
    Batch,
    Evaluation,
    Observation,
    Parts,
    observe_ranked,
    observe_unknown,
)

Array = NDArray[np.float64]


# Unknown index: only the outcome was recorded, not the alternative it belongs to.


ROWS_AT_ONCE = 4_096
"""Rows whose scores, one number per parameter, NumPy holds at once for the exact Hessian."""


@dataclass(frozen=True, eq=False)
class Unknown(Likelihood):
    """Unknown index, the largest or the smallest of outcomes with independent noise."""

    @property
    def on_device(self) -> bool:
        return True

    @property
    def compiled(self) -> bool:
        return True

    def observe(self, rows: Rows) -> Observation:
        return observe_unknown(rows, self.problem.equations.n_alternatives)

    def evaluate(self, natural: Array, batch: Batch, curvature: Curvature) -> Evaluation:
        problem = self.problem
        if batch.backend == "fused":
            arguments = row_arguments(problem, natural, batch)
            fused = sum_unknown_index(arguments, side=problem.side, curvature=curvature)
            return placed(self, batch, fused, curvature)
        if len(batch) > ROWS_AT_ONCE:
            parts = [
                self.evaluate(natural, batch.take(slice(at, at + ROWS_AT_ONCE)), curvature)
                for at in range(0, len(batch), ROWS_AT_ONCE)
            ]
            return reduce(add, parts)
        rows = self.rows(natural, batch)
        sums = unknown_index.sum_rows(
            rows.designs,
            rows.inverse_scales,
            rows.limit,
            side=problem.side,
            candidate=rows.candidate,
            weights=batch.rows.weights,
            natural_g=problem.layout.coefficients_in(natural),
            curvature=curvature,
        )
        hessian = np.zeros((1, 1)) if sums.hessian is None else sums.hessian
        return Evaluation(sums.loglik + self.unit_correction(batch.rows), sums.score, hessian)

    def evaluate_places(self, naturals: Array, batch: Batch) -> Parts:
        """Evaluate all places in one call."""
        problem = self.problem
        if batch.backend == "fused":
            arguments = row_arguments(problem, naturals, batch)
            logliks, padded = sum_places(arguments, side=problem.side)
            scores = padded[:, padding_of(problem).used]
            return Parts((logliks + self.unit_correction(batch.rows), scores))
        if batch.backend != "numpy":
            return super().evaluate_places(naturals, batch)
        layout = problem.layout
        rows = self.rows(naturals[0], batch)
        logliks, scores = unknown_index.sum_places(
            rows.designs,
            layout.coefficients_in(naturals),
            naturals[:, layout.inverse_scale_positions],
            rows.limit,
            side=problem.side,
            candidate=rows.candidate,
            weights=batch.rows.weights,
        )
        return Parts((logliks + self.unit_correction(batch.rows), scores))

    def rows(self, natural: Array, batch: Batch) -> UnknownRows:
        return UnknownRows(self.problem, natural, batch)


@dataclass(frozen=True, eq=False)
class UnknownRows(RowTerms):
    """What rows say of every alternative that may have been chosen."""

    @property
    def inverse_scales(self) -> Array:
        """(k,) h of every alternative."""
        return self.natural[self.problem.layout.inverse_scale_positions]

    @cached_property
    def limit(self) -> Array:
        """(n,) the outcome in internal units."""
        return self.problem.units.limits(self.batch.observation.limit[:, 0])

    @property
    def candidate(self) -> NDArray[np.bool_] | None:
        """(n, k) whether each alternative was available; None where all were."""
        if self.batch.rows.known.available is None:
            return None
        return self.batch.observation.status == MAYBE

    @cached_property
    def memberships(self) -> Memberships:
        """Density of each outcome, and the chance of every alternative."""
        location = self.problem.locations(self.natural, self.designs)
        return unknown_index.memberships(
            location,
            self.inverse_scales,
            self.limit,
            side=self.problem.side,
            candidate=self.candidate,
        )

    @property
    def loglik(self) -> Array:
        return self.memberships.loglik

    @property
    def chance(self) -> Array:
        return self.memberships.chance

    @property
    def residual(self) -> Array:
        found = self.memberships
        return self.problem.side * (found.chance * (found.a + found.ratio) - found.ratio)

    @property
    def score(self) -> Array:
        return np.column_stack(
            [
                unknown_index.row_scores(
                    design,
                    self.memberships,
                    j,
                    inverse_scale=self.inverse_scales[j],
                    limit=self.limit,
                    side=self.problem.side,
                )
                for j, design in enumerate(self.designs)
            ]
        )

    @property
    def products(self) -> Array:
        """Mix the products over who may have been chosen."""
        chance, a, ratio = self.chance, self.memberships.a, self.memberships.ratio
        n_rows, k = chance.shape
        products = np.zeros((n_rows, k, k))
        for j, m in combinations(range(k), 2):
            products[:, j, m] = products[:, m, j] = (
                -chance[:, j] * a[:, j] * ratio[:, m]
                - chance[:, m] * a[:, m] * ratio[:, j]
                + (1.0 - chance[:, j] - chance[:, m]) * ratio[:, j] * ratio[:, m]
            )
        return products

    @property
    def standardised(self) -> Array:
        return self.problem.side * self.memberships.a

    @property
    def censored_residual(self) -> Array:
        return -self.problem.side * self.memberships.ratio


# Known index, and the outcome of a given rank is the observed one.


@dataclass(frozen=True, eq=False)
class RankedLikelihood(Likelihood):
    """The m-th largest of outcomes with independent noise."""

    def observe(self, rows: Rows) -> Observation:
        return observe_ranked(rows, self.problem.equations.n_alternatives)

    def rows(self, natural: Array, batch: Batch) -> RankedRows:
        return RankedRows(self.problem, natural, batch)

    def evaluate(self, natural: Array, batch: Batch, curvature: Curvature) -> Evaluation:
        layout = self.problem.layout
        rows = self.rows(natural, batch)
        sides = rows.sides_and_pairs if curvature == "exact" else rows.sides
        h = natural[layout.inverse_scale_positions]
        assert batch.rows.chosen is not None
        weights = np.ones(len(batch)) if batch.rows.weights is None else batch.rows.weights
        count = np.bincount(batch.rows.chosen, weights=weights, minlength=len(h))
        score = np.empty(len(natural))
        hessian = np.zeros((1, 1) if curvature == "none" else (len(natural), len(natural)))
        extended = [np.column_stack([design, -rows.outcome]) for design in rows.designs]
        for j, z in enumerate(extended):
            own = slice(layout.starts[j], layout.starts[j + 1])
            score[own] = z.T @ (weights * sides.residual[:, j])
            score[own.stop - 1] += count[j] / h[j]
            if curvature == "none":
                continue
            second = sides.complete[:, j].copy()
            if curvature == "exact":
                above = sides.above[:, j]
                second += above * (1.0 - above) * sides.gap[:, j] ** 2
            hessian[own, own] = z.T @ (z * (weights * second)[:, None])
            hessian[own.stop - 1, own.stop - 1] -= count[j] / h[j] ** 2
        for (j, m), both in sides.both.items():
            mixed = both - sides.above[:, j] * sides.above[:, m]
            factor = weights * mixed * sides.gap[:, j] * sides.gap[:, m]
            block = extended[j].T @ (extended[m] * factor[:, None])
            first = slice(layout.starts[j], layout.starts[j + 1])
            other = slice(layout.starts[m], layout.starts[m + 1])
            hessian[first, other], hessian[other, first] = block, block.T
        loglik = float(weights @ sides.loglik) + self.unit_correction(batch.rows)
        return Evaluation(loglik, score, hessian)


@dataclass(frozen=True, eq=False)
class RankedRows(RowTerms):
    """What rows say where only the number of outcomes above the observed one is known."""

    @cached_property
    def outcome(self) -> Array:
        """(n,) in internal units."""
        return self.problem.units.limits(self.batch.observation.limit[:, 0])

    @cached_property
    def standardised(self) -> Array:
        h = self.natural[self.problem.layout.inverse_scale_positions]
        return h * self.outcome[:, None] - self.problem.locations(self.natural, self.designs)

    @cached_property
    def sides(self) -> RankedSides:
        """On which side of its outcome the others of each row lie."""
        return self._sides(pairs=False)

    @cached_property
    def sides_and_pairs(self) -> RankedSides:
        """The same with the chances of pairs."""
        return self._sides(pairs=True)

    def _sides(self, *, pairs: bool) -> RankedSides:
        h = self.natural[self.problem.layout.inverse_scale_positions]
        rank = self.problem.rank
        assert self.batch.rows.chosen is not None and rank is not None
        return sides_of_others(
            self.standardised, np.log(h), self.batch.rows.chosen, rank, pairs=pairs
        )

    @property
    def loglik(self) -> Array:
        return self.sides.loglik

    @property
    def chance(self) -> Array:
        return (self.batch.observation.status == OBSERVED).astype(np.float64)

    @property
    def residual(self) -> Array:
        return self.sides.residual

    @property
    def censored_residual(self) -> Array:
        return self.sides.residual

    @property
    def score(self) -> Array:
        h = self.natural[self.problem.layout.inverse_scale_positions]
        residual, chosen = self.sides.residual, self.batch.rows.chosen
        return np.column_stack(
            [
                part
                for j, design in enumerate(self.designs)
                for part in (
                    design * residual[:, [j]],
                    (chosen == j) / h[j] - residual[:, j] * self.outcome,
                )
            ]
        )

    @property
    def products(self) -> Array:
        """Add the covariance of the sides to the product of the means."""
        sides = self.sides_and_pairs
        products = sides.residual[:, :, None] * sides.residual[:, None, :]
        for (j, m), both in sides.both.items():
            mixed = both - sides.above[:, j] * sides.above[:, m]
            products[:, j, m] += mixed * sides.gap[:, j] * sides.gap[:, m]
            products[:, m, j] = products[:, j, m]
        return products
