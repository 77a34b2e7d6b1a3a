"""Known index, and the outcome of a given rank is the observed one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.kernels.ranked import Sides, sides_of_others
from selfselect.kernels.status import OBSERVED
from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods.base import Likelihood, RowTerms
from selfselect.problem.batch import Batch, Evaluation
from selfselect.problem.observation import Observation, observe_ranked

__all__ = ["RankedLikelihood"]

Array = NDArray[np.float64]


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
    def sides(self) -> Sides:
        """On which side of its outcome the others of each row lie."""
        return self._sides(pairs=False)

    @cached_property
    def sides_and_pairs(self) -> Sides:
        """The same with the chances of pairs."""
        return self._sides(pairs=True)

    def _sides(self, *, pairs: bool) -> Sides:
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
