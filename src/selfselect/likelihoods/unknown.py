"""Unknown index: only the outcome was recorded, not the alternative it belongs to."""

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
from selfselect.kernels.status import MAYBE
from selfselect.kernels.unknown_index import Curvature, Memberships
from selfselect.likelihoods._fused import padding_of, placed, row_arguments
from selfselect.likelihoods.base import Likelihood, RowTerms
from selfselect.problem.batch import Batch, Evaluation, Parts
from selfselect.problem.observation import Observation, observe_unknown

__all__ = ["Unknown"]

Array = NDArray[np.float64]

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
