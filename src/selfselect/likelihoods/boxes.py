"""The likelihood of a known index and independent noise, also where scales move."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.kernels import known_index
from selfselect.kernels.fused_known import (
    FusedSums,
    MovingScales,
    RowArguments,
    sum_known_index,
    sum_moments,
)
from selfselect.kernels.joint import independent_means, interval_means
from selfselect.kernels.known_index import ABOVE, BELOW, BETWEEN, OBSERVED, UNKNOWN, BoxTerms
from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods.base import Asked, Likelihood, RowSums, RowTerms
from selfselect.noises.shapes import Shape
from selfselect.noises.shapes.normal import SHAPE as NORMAL
from selfselect.problem.batch import Batch, Evaluation, Observation, Parts, observe
from selfselect.problem.problem import Problem

Array = NDArray[np.float64]


# What the fused kernels take and return, to and from the stacked natural parameters.


@dataclass(frozen=True, eq=False)
class Padding:
    """Where the natural parameters of k alternatives lie in arrays with one row for each.

    Attributes
    ----------
    columns : (k, m) the columns of [1 | covariates] of each, padded with -1.
    sizes : (k,) how many of them there are.
    used : (k, m + 1) where there is a parameter; that of h is in the last column.
    kept : index of the rows and columns of a Hessian over all entries that are used; all of it
        where all are, which is a view.
    """

    columns: NDArray[np.int64]
    sizes: NDArray[np.int64]
    used: NDArray[np.bool_]
    kept: tuple[Any, ...]


@lru_cache(maxsize=64)
def _padding(columns: tuple[tuple[int, ...], ...]) -> Padding:
    sizes = np.array([len(own) for own in columns])
    padded = np.full((len(columns), sizes.max()), -1, dtype=np.int64)
    for row, own in zip(padded, columns, strict=True):
        row[: len(own)] = own
    used = np.column_stack([padded >= 0, np.ones(len(columns), dtype=np.bool_)])
    kept = np.flatnonzero(used)
    return Padding(padded, sizes, used, (...,) if used.all() else np.ix_(kept, kept))


def padding_of(problem: Problem) -> Padding:
    """Return where a problem's natural parameters lie in padded arrays."""
    return _padding(tuple(equation.columns for equation in problem.equations.each))


def row_arguments(problem: Problem, natural: Array, batch: Batch) -> RowArguments:
    """Return what every fused kernel takes of a batch, at parameters (..., n_natural)."""
    units, observation, padding = problem.units, batch.observation, padding_of(problem)
    padded = np.zeros((*natural.shape[:-1], *padding.used.shape))
    # A mask alone is faster than one behind an ellipsis.
    where = padding.used if natural.ndim == 1 else (..., padding.used)
    padded[where] = natural[..., : problem.layout.starts[-1]]
    return RowArguments(
        batch.rows.covariates, observation.status, observation.limit, batch.rows.weights,
        padding.columns, padding.sizes,
        units.shift, units.unit, units.outcome_shift, units.outcome_unit,
        padded[..., :-1], padded[..., -1], observation.upper,
    )  # fmt: skip


def placed(
    likelihood: Likelihood, batch: Batch, sums: FusedSums, curvature: Curvature = "exact"
) -> Evaluation:
    """Put a fused kernel's padded sums in the places of the natural parameters."""
    padding = padding_of(likelihood.problem)
    used = padding.used
    loglik, score = sums.loglik + likelihood.unit_correction(batch.rows), sums.score[used]
    if curvature == "none":
        return Evaluation(loglik, score, np.zeros((len(score), len(score))))
    whole = np.zeros(used.shape * 2) if sums.cross is None else sums.cross
    for j, own in enumerate(sums.hessian):
        whole[j, :, j] = own
    return Evaluation(loglik, score, whole.reshape(used.size, used.size)[padding.kept])


# Derivatives of one alternative's terms in what moves its scale, by those in (g'x, h).
#
# A row has :math:`e^t g` and :math:`e^t h` in place of g and h, :math:`t = -z'\delta`. So t moves
# its term :math:`\ell` along :math:`(g'x, h)` itself,
#
# .. math:: \ell_t = g'x\,\ell_g + h\,\ell_h, \qquad
#    \ell_{tt} = \ell_t + (g'x)^2 \ell_{gg} + 2 h\,g'x\,\ell_{gh} + h^2 \ell_{hh},
#
# whatever the shape of the noise and whatever a row says of the alternative.


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


def along_spread(z: Array, terms: BoxTerms, location: Array, inverse_scale: float) -> AlongSpread:
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


def fused_moving(problem: Problem, natural: Array) -> MovingScales:
    """Return what moves the scales as the fused kernel takes it."""
    spreads = problem.layout.spread_of
    widest = max(len(one.columns) for one in spreads if one is not None)
    columns = np.full((len(spreads), widest), -1, dtype=np.int64)
    delta = np.zeros(columns.shape)
    for j, spread in enumerate(spreads):
        if spread is not None:
            columns[j, : len(spread.columns)] = spread.columns
            delta[j, : len(spread.columns)] = natural[spread.places]
    return MovingScales.empty(columns, delta, max(problem.layout.sizes))


def with_moved(problem: Problem, own: Evaluation, moving: MovingScales) -> Evaluation:
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


# Known index, box-shaped explaining sets, independent noise: a product over alternatives.
#
# Where scales move, a row of alternative j has :math:`e^t h` and :math:`e^t g` in place of h and
# g, :math:`t = -z'\delta`. Derivatives in t are those along (g'x, h) themselves: the first is
# :math:`D = g'x\,\partial_{g'x} + h\,\partial_h` of the row's term, the second D of that.


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
    def terms(self) -> list[known_index.BoxTerms]:
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
    def _standard(self) -> list[known_index.BoxTerms]:
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
