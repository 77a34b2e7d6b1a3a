"""Known index, box-shaped explaining sets, independent noise: a product over alternatives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.kernels import known_index
from selfselect.kernels.fused_known import sum_known_index
from selfselect.kernels.status import ABOVE, BELOW, BETWEEN, SEEN, UNKNOWN
from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods._fused import fused_arguments, placed
from selfselect.likelihoods.base import Likelihood, RowTerms
from selfselect.problem.batch import Batch, Evaluation
from selfselect.problem.observation import Observation, observe

__all__ = ["Boxes"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Boxes(Likelihood):
    """Known index, rules with bounds, independent noise."""

    @property
    def on_device(self) -> bool:
        return self.problem.noise.margin.normal

    @property
    def concave(self) -> bool:
        return self.problem.noise.margin.log_concave

    @property
    def compiled(self) -> bool:
        return self.problem.noise.margin.normal

    def observe(self, rows: Rows) -> Observation:
        return observe(self.problem.ordered_rule, rows, self.problem.equations.alternatives)

    def evaluate(self, natural: Array, batch: Batch, curvature: Curvature) -> Evaluation:
        """Evaluate on a batch; only "none" spares the Hessian, since the data are complete."""
        if batch.backend != "fused":
            return self._evaluate_numpy(natural, batch, curvature)
        sums = sum_known_index(
            **fused_arguments(self.problem, natural, batch),
            upper=batch.observation.upper,
            curvature=curvature,
        )
        return placed(self, batch, sums, curvature)

    def rows(self, natural: Array, batch: Batch) -> BoxRows:
        return BoxRows(self.problem, natural, batch)

    def _evaluate_numpy(self, natural: Array, batch: Batch, curvature: Curvature) -> Evaluation:
        layout, total = self.problem.layout, len(natural)
        loglik, score, hessian = 0.0, np.empty(total), np.zeros((total, total))
        rows, weights = self.rows(natural, batch), batch.rows.weights
        for j, (design, terms) in enumerate(zip(rows.designs, rows.terms, strict=True)):
            sums = known_index.sum_rows(design, terms, weights, curved=curvature != "none")
            own = slice(layout.starts[j], layout.starts[j + 1])
            loglik += sums.loglik
            score[own] = sums.score
            hessian[own, own] = sums.hessian
        return Evaluation(loglik + self.unit_correction(batch.rows), score, hessian)


@dataclass(frozen=True, eq=False)
class BoxRows(RowTerms):
    """What rows say where alternatives are independent given the outcome."""

    @cached_property
    def designs(self) -> list[Array]:
        """Every alternative's covariates (n, p_j) in internal units."""
        return self.problem.designs(self.batch.rows)

    @cached_property
    def terms(self) -> list[known_index.RowTerms]:
        """The terms of every alternative."""
        problem, natural, observation = self.problem, self.natural, self.batch.observation
        layout, units, shape = problem.layout, problem.units, problem.noise.margin
        return [
            shape.row_terms(
                design @ natural[start:at_h],
                float(natural[at_h]),
                status=observation.status[:, j],
                limit=units.limits(observation.limit_of(j)),
                upper=None if observation.upper is None else units.limits(observation.upper[:, j]),
            )
            for j, (design, start, at_h) in enumerate(
                zip(self.designs, layout.starts, layout.inverse_scale_positions, strict=False)
            )
        ]

    @property
    def loglik(self) -> Array:
        return np.asarray(sum(terms.loglik for terms in self.terms))

    @property
    def chance(self) -> Array:
        return (self.batch.observation.status == SEEN).astype(np.float64)

    @cached_property
    def residual(self) -> Array:
        shape, observation = self.problem.noise.margin, self.batch.observation
        if shape.normal:
            # The mean of normal noise given a row is the row's score in the mean.
            return np.column_stack([terms.residual for terms in self.terms])
        status, a = observation.status, self.standardised
        lower = np.where((status == ABOVE) | (status == BETWEEN), a, -np.inf)
        upper = np.where(status == BELOW, a, np.inf)
        if observation.upper is not None:
            between = self._in_scales(observation.upper)
            upper = np.where(status == BETWEEN, between, upper)
        return np.where(status == SEEN, a, shape.mean_between(lower, upper))

    def _in_scales(self, limit: Array) -> Array:
        """Return limits (n, k) less the means, in units of the scales."""
        h = self.natural[self.problem.layout.inverse_scale_positions]
        location = self.problem.locations(self.natural, self.designs)
        return np.asarray(self.problem.units.limits(limit) * h - location)

    @property
    def score(self) -> Array:
        both = zip(self.designs, self.terms, strict=True)
        return np.column_stack([known_index.row_scores(*one) for one in both])

    @property
    def products(self) -> Array:
        return self.residual[:, :, None] * self.residual[:, None, :]

    @property
    def standardised(self) -> Array:
        observation = self.batch.observation
        a = self._in_scales(observation.limit)
        # A row that is silent about an alternative may have an infinite limit, which means nothing.
        a[observation.status == UNKNOWN] = 0.0
        return a

    @property
    def censored_residual(self) -> Array:
        return self.residual

    @property
    def log_mass(self) -> Array:
        mass = [
            np.where(self.batch.observation.status[:, j] == SEEN, 0.0, terms.loglik)
            for j, terms in enumerate(self.terms)
        ]
        return np.asarray(sum(mass))
