r"""Known index, box-shaped explaining sets, independent noise: a product over alternatives.

Where scales move, a row of alternative j has :math:`e^t h` and :math:`e^t g` in place of h and g,
:math:`t = -z'\delta`. Derivatives in t are those along (g'x, h) themselves: the first is
:math:`D = g'x\,\partial_{g'x} + h\,\partial_h` of the row's term, the second D of that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.kernels import known_index
from selfselect.kernels.fused_known import sum_known_index
from selfselect.kernels.fused_moments import sum_moments
from selfselect.kernels.hermite import independent_means, interval_means
from selfselect.kernels.status import ABOVE, BELOW, BETWEEN, OBSERVED, UNKNOWN
from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods._fused import placed, row_arguments
from selfselect.likelihoods._row_sums import Asked, RowSums
from selfselect.likelihoods._spreads import (
    AlongSpread,
    along_spread,
    fused_moving,
    sum_moved,
    with_moved,
)
from selfselect.likelihoods.base import Likelihood, RowTerms
from selfselect.noises.shapes import Shape
from selfselect.noises.shapes.normal import SHAPE as NORMAL
from selfselect.problem.batch import Batch, Evaluation, Parts
from selfselect.problem.observation import Observation, observe

__all__ = ["BoxRows", "Boxes"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Boxes(Likelihood):
    """Known index, rules with bounds, independent noise."""

    convex_sets: ClassVar[bool] = True

    @property
    def on_device(self) -> bool:
        return self.problem.noise.margin.normal and not self.problem.layout.spreads

    @property
    def concave(self) -> bool:
        return self.problem.noise.margin.log_concave and not self.problem.layout.spreads

    @property
    def compiled(self) -> bool:
        return self.problem.noise.margin.kernel is not None

    def observe(self, rows: Rows) -> Observation:
        return observe(self.problem.ordered_rule, rows, self.problem.equations.alternatives)

    def evaluate(self, natural: Array, batch: Batch, curvature: Curvature) -> Evaluation:
        """Evaluate on a batch; only "none" spares the Hessian, since the data are complete."""
        moves, upper = bool(self.problem.layout.spreads), batch.observation.upper
        shape = self.problem.noise.margin.kernel
        bounded = upper is not None and (moves or not self.problem.noise.margin.normal)
        if batch.backend != "fused" or shape is None or bounded:
            return self._evaluate_numpy(natural, batch, curvature)
        moving = fused_moving(self.problem, natural) if moves else None
        sums = sum_known_index(
            row_arguments(self.problem, natural, batch),
            moving=moving,
            shape=shape,
            student=self.problem.noise.margin.table,
            curvature=curvature,
        )
        own = placed(self, batch, sums, curvature)
        return own if moving is None else with_moved(self.problem, own, moving)

    def rows(self, natural: Array, batch: Batch) -> BoxRows:
        return BoxRows(self.problem, natural, batch)

    def sum_rows(self, natural: Array, batch: Batch, asked: Asked) -> RowSums:
        limited = bool(self.problem.layout.spreads) or batch.observation.upper is not None
        if batch.backend != "fused" or limited or not self.problem.noise.margin.normal:
            return super().sum_rows(natural, batch, asked)
        found = sum_moments(row_arguments(self.problem, natural, batch), grams=asked.grams)
        weights, k = batch.rows.weights, len(found.observed)
        sizes = [len(equation.columns) for equation in self.problem.equations.each]
        return RowSums(
            float(len(batch) if weights is None else weights.sum()),
            found.pairs[np.triu_indices(k, 1)],
            found.shape,
            Parts(one[:size] for one, size in zip(found.spread, sizes, strict=True)),
            Parts(one[:p, :p] for one, p in zip(found.everywhere, sizes, strict=True)),
            Parts(one[:p, :p] for one, p in zip(found.where_observed, sizes, strict=True)),
            found.observed,
        )

    def _evaluate_numpy(self, natural: Array, batch: Batch, curvature: Curvature) -> Evaluation:
        layout, total = self.problem.layout, len(natural)
        loglik, score, hessian = 0.0, np.zeros(total), np.zeros((total, total))
        rows, weights, curved = self.rows(natural, batch), batch.rows.weights, curvature != "none"
        for j, (design, terms) in enumerate(zip(rows.designs, rows.terms, strict=True)):
            sums = known_index.sum_rows(design, terms, weights, curved=curved)
            own = slice(layout.starts[j], layout.starts[j + 1])
            loglik += sums.loglik
            score[own] = sums.score
            hessian[own, own] = sums.hessian
            spread, along = layout.spread_of[j], rows.along_spreads[j]
            if spread is not None and along is not None:
                moved = sum_moved(along, design, weights, curved=curved)
                score[spread.places] = moved.score
                hessian[np.ix_(spread.places, spread.places)] = moved.hessian
                hessian[own, spread.places] = moved.cross
                hessian[spread.places, own] = moved.cross.T
        return Evaluation(loglik + self.unit_correction(batch.rows), score, hessian)


@dataclass(frozen=True, eq=False)
class BoxRows(RowTerms):
    """What rows say where alternatives are independent given the outcome."""

    @cached_property
    def terms(self) -> list[known_index.RowTerms]:
        """The terms of every alternative, with derivatives in its own (g'x, h)."""
        log_factors = self._log_factors
        if log_factors is None:
            return self._standard
        made = []
        for j, terms in enumerate(self._standard):
            factor = np.exp(log_factors[:, j])
            observed = self.batch.observation.status[:, j] == OBSERVED
            made.append(
                replace(
                    terms,
                    loglik=terms.loglik + np.where(observed, log_factors[:, j], 0.0),
                    residual=factor * terms.residual,
                    curvature=factor**2 * terms.curvature,
                    curvature_gh=factor * terms.curvature_gh,
                )
            )
        return made

    @cached_property
    def _standard(self) -> list[known_index.RowTerms]:
        """The same of rows in which covariates and limits are multiplied by what moves scales."""
        problem, natural, observation = self.problem, self.natural, self.batch.observation
        layout, units, shape = problem.layout, problem.units, problem.noise.margin
        log_factors = self._log_factors
        made = []
        for j, at_h in enumerate(layout.inverse_scale_positions):
            location, limit = self.locations[j], units.limits(observation.limit_of(j))
            upper = None if observation.upper is None else units.limits(observation.upper[:, j])
            if log_factors is not None:
                factor = np.exp(log_factors[:, j])
                location, limit = factor * location, factor * limit
                upper = None if upper is None else factor * upper
            made.append(
                shape.row_terms(
                    location,
                    float(natural[at_h]),
                    status=observation.status[:, j],
                    limit=limit,
                    upper=upper,
                )
            )
        return made

    @cached_property
    def locations(self) -> list[Array]:
        """(n,) g'x of every alternative."""
        each = self.problem.layout.coefficients_in(self.natural)
        return [design @ g for design, g in zip(self.designs, each, strict=True)]

    @cached_property
    def _spread_designs(self) -> list[Array | None]:
        return self.problem.spread_designs(self.batch.rows)

    @cached_property
    def _log_factors(self) -> Array | None:
        return self.problem.log_factors(self.natural, self._spread_designs)

    @cached_property
    def along_spreads(self) -> list[AlongSpread | None]:
        """Derivatives of every alternative's terms in what moves its scale; None where it stays."""
        h = self.natural[self.problem.layout.inverse_scale_positions]
        return [
            None if z is None else along_spread(z, terms, self.locations[j], float(h[j]))
            for j, (z, terms) in enumerate(zip(self._spread_designs, self.terms, strict=True))
        ]

    @property
    def loglik(self) -> Array:
        return np.asarray(sum(terms.loglik for terms in self.terms))

    @property
    def chance(self) -> Array:
        return (self.batch.observation.status == OBSERVED).astype(np.float64)

    @cached_property
    def residual(self) -> Array:
        shape = self.problem.noise.margin
        if shape.normal:
            # The mean of normal noise given a row is the row's score in the mean.
            return np.column_stack([terms.residual for terms in self._standard])
        return self.means_between(shape)

    def means_between(self, shape: Shape) -> Array:
        """Return the mean (n, k) of noise of a shape given what each row says of it."""
        observation = self.batch.observation
        status, a = observation.status, self.standardised
        lower = np.where((status == ABOVE) | (status == BETWEEN), a, -np.inf)
        upper = np.where(status == BELOW, a, np.inf)
        if observation.upper is not None:
            between = self._in_scales(observation.upper)
            upper = np.where(status == BETWEEN, between, upper)
        return np.where(status == OBSERVED, a, shape.mean_between(lower, upper))

    def _in_scales(self, limit: Array) -> Array:
        """Return limits (n, k) less the means, in units of the scales."""
        h = self.natural[self.problem.layout.inverse_scale_positions]
        a = self.problem.units.limits(limit) * h - np.column_stack(self.locations)
        return np.asarray(a if self._log_factors is None else a * np.exp(self._log_factors))

    @property
    def score(self) -> Array:
        # Column by column, as the designs are.
        layout, scores = self.problem.layout, np.zeros((len(self.natural), len(self.batch))).T
        for j, (design, terms) in enumerate(zip(self.designs, self.terms, strict=True)):
            first, at_h = layout.starts[j], layout.starts[j + 1] - 1
            np.multiply(design, terms.residual[:, None], out=scores[:, first:at_h])
            scores[:, at_h] = terms.score_h
            spread, along = layout.spread_of[j], self.along_spreads[j]
            if spread is not None and along is not None:
                scores[:, spread.places] = -along.z * along.first[:, None]
        return scores

    @property
    def products(self) -> Array:
        along = np.column_stack([terms.residual for terms in self.terms])
        if self._log_factors is not None:
            along /= np.exp(self._log_factors)
        return along[:, :, None] * along[:, None, :]

    @property
    def standardised(self) -> Array:
        observation = self.batch.observation
        a = self._in_scales(observation.limit)
        # A row that is silent about an alternative may have an infinite limit, which means nothing.
        a[observation.status == UNKNOWN] = 0.0
        return a

    @property
    def hermite(self) -> Array:
        problem, observation = self.problem, self.batch.observation
        noise, first = problem.noise, int(problem.layout.starts[-1])
        extras = self.natural[first : first + problem.layout.n_noise_extras]
        status = observation.status
        if noise.margin.normal:
            # The residuals of normal noise are known already.
            found = super().hermite
        else:
            z = noise.normal_scores(self.standardised, extras)
            side = (status == BELOW).astype(np.int8) - (status == ABOVE)
            found = independent_means(z, status == OBSERVED, side)
        if observation.upper is not None:
            between = status == BETWEEN
            limits = self.standardised, self._in_scales(observation.upper)
            low, high = (noise.normal_scores(limit, extras)[between] for limit in limits)
            mass = NORMAL.between(low, high)
            means = interval_means(low, high, mass.lower_density, mass.upper_density)
            found[:, between] = means
        return found

    @property
    def excess(self) -> Array:
        h = self.natural[self.problem.layout.inverse_scale_positions]
        along = [
            self.locations[j] * terms.residual + h[j] * terms.score_h
            for j, terms in enumerate(self.terms)
        ]
        return -np.column_stack(along)

    @property
    def censored_residual(self) -> Array:
        return self.residual

    @property
    def log_mass(self) -> Array:
        mass = [
            np.where(self.batch.observation.status[:, j] == OBSERVED, 0.0, terms.loglik)
            for j, terms in enumerate(self.terms)
        ]
        return np.asarray(sum(mass))
