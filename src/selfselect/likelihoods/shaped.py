"""The same where the shape of the noise is estimated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels import known_index
from selfselect.kernels.fused_known import STUDENT, Degrees, StudentTable, sum_known_index
from selfselect.kernels.fused_unknown import FusedMixture, sum_mixture
from selfselect.kernels.known_index import ABOVE, BETWEEN, OBSERVED
from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods.boxes import (
    AlongSpread,
    Boxes,
    BoxRows,
    along_spread,
    padding_of,
    placed,
    row_arguments,
    sum_moved,
)
from selfselect.noises.shapes.base import Family, Inner
from selfselect.problem.batch import Batch, Evaluation
from selfselect.problem.problem import Problem

Array = NDArray[np.float64]


# The parameters of shapes that are estimated, and where they stand among the natural ones.


@dataclass(frozen=True, eq=False)
class ShapeParameters:
    """The parameters of the shapes of a problem.

    Attributes
    ----------
    family : the shapes.
    inner : inner parameters of each shape there is.
    each : whether every alternative has its own.
    first : where they begin among the natural parameters.
    possible : whether there are such shapes.
    """

    family: Family
    inner: list[Inner]
    each: bool
    first: int
    possible: bool

    @property
    def table(self) -> StudentTable | None:
        """The shapes as the compiled kernel of Student's t takes them; None if they are others."""
        return self.family.table([inner.values for inner in self.inner])

    @property
    def components(self) -> Array:
        """The components (1 or k, M, 3) of mixtures of normals."""
        return np.array([inner.values.reshape(-1, 3) for inner in self.inner])

    def of(self, j: int) -> int:
        """Return which shape is that of an alternative."""
        return j if self.each else 0

    def places(self, which: int) -> slice:
        """Return where the parameters of a shape stand among the natural ones."""
        size = len(self.family.terms)
        return slice(self.first + which * size, self.first + (which + 1) * size)


def parameters_of(problem: Problem, natural: Array) -> ShapeParameters:
    """Return the parameters of a problem's shapes, which are estimated."""
    noise, layout = problem.noise, problem.layout
    family, first = noise.family, int(layout.starts[-1])
    assert family is not None
    size = len(family.terms)
    extras = natural[first : first + layout.n_noise_extras]
    parts = [extras[at : at + size] for at in range(0, len(extras), size)]
    possible = noise.possible(extras)
    return ShapeParameters(
        family, [family.inner(part) for part in parts] if possible else [], noise.each, first,
        possible,
    )  # fmt: skip


# Known index, independent noise of a shape with parameters: a product over alternatives.
#
# As in `boxes`, but the terms of an alternative also depend on the parameters of its shape. They
# are differentiated in the shape's inner parameters (see `noises.shapes.base`), added up over
# rows, and carried to those that are estimated once a batch.


ROWS_AT_ONCE = 8_192
"""Rows whose second derivatives in the inner parameters are held at once."""


@dataclass(frozen=True, eq=False)
class ShapedBoxes(Boxes):
    """Known index, rules with bounds, noise of a family of shapes."""

    @property
    def on_device(self) -> bool:
        return False

    @property
    def concave(self) -> bool:
        return False

    @property
    def compiled(self) -> bool:
        family = self.problem.noise.family
        return family is not None and family.compiled

    def evaluate(self, natural: Array, batch: Batch, curvature: Curvature) -> Evaluation:
        total = len(natural)
        whole = batch.observation.upper is None and not self.problem.layout.spreads
        if batch.backend == "fused" and whole:
            own = parameters_of(self.problem, natural)
            if own.possible:
                return self._fused(natural, own, batch, curvature)
        loglik, score, hessian = 0.0, np.zeros(total), np.zeros((total, total))
        for at in range(0, len(batch), ROWS_AT_ONCE):
            part = batch.take(slice(at, at + ROWS_AT_ONCE))
            found = self._evaluate_part(natural, part, curved=curvature != "none")
            loglik += found.loglik
            score += found.score
            hessian += found.hessian
        return Evaluation(loglik + self.unit_correction(batch.rows), score, hessian)

    def rows(self, natural: Array, batch: Batch) -> ShapedRows:
        return ShapedRows(self.problem, natural, batch)

    def _fused(
        self, natural: Array, own: ShapeParameters, batch: Batch, curvature: Curvature
    ) -> Evaluation:
        """Evaluate by the compiled kernel of the family."""
        given, table = row_arguments(self.problem, natural, batch), own.table
        if table is None:
            sums = sum_mixture(
                given,
                components=own.components,
                slopes=np.array([inner.slope for inner in own.inner]),
                curvature=curvature,
            )
        else:
            degrees = Degrees.empty(table, *given.columns.shape)
            plain = sum_known_index(
                given, shape=STUDENT, student=table, degrees=degrees, curvature=curvature
            )
            sums = FusedMixture(
                plain,
                degrees.mixed[:, :, None],
                degrees.score[:, None],
                degrees.hessian[:, None, None],
            )
        found, total = placed(self, batch, sums.own, curvature), len(natural)
        first, used = len(found.score), padding_of(self.problem).used
        score, hessian = np.zeros(total), np.zeros((total, total))
        score[:first], hessian[:first, :first] = found.score, found.hessian
        starts = self.problem.layout.starts
        for which, inner in enumerate(own.inner):
            places = own.places(which)
            score[places] = inner.slope.T @ sums.by[which]
            if curvature == "none":
                continue
            bend = np.tensordot(sums.by[which], inner.bend, axes=(0, 0))
            hessian[places, places] = sums.hessian[which] + bend
        for j in range(len(used)):
            here, places = slice(starts[j], starts[j + 1]), own.places(own.of(j))
            hessian[here, places] = sums.mixed[j][used[j]]
            hessian[places, here] = sums.mixed[j][used[j]].T
        return Evaluation(found.loglik, score, hessian)

    def _evaluate_part(self, natural: Array, batch: Batch, *, curved: bool) -> Evaluation:
        problem, layout, total = self.problem, self.problem.layout, len(natural)
        score, hessian = np.zeros(total), np.zeros((total, total))
        own = parameters_of(problem, natural)
        if not own.possible:
            return Evaluation(-np.inf, score, hessian)
        rows, weights = self.rows(natural, batch), batch.rows.weights
        weight = np.ones(len(batch)) if weights is None else weights
        loglik, n_inner = 0.0, len(own.inner[0].values)
        by_inner = [np.zeros(n_inner) for _ in own.inner]
        twice = [np.zeros((n_inner, n_inner)) for _ in own.inner]
        for j, design in enumerate(rows.designs):
            terms = rows.shaped(j, curved=curved, weights=weight)
            sums = known_index.sum_rows(design, terms.plain, weights, curved=curved)
            here = slice(layout.starts[j], layout.starts[j + 1])
            loglik += sums.loglik
            score[here] = sums.score
            which = own.of(j)
            by_inner[which] += terms.by_inner @ weight
            spread = layout.spread_of[j]
            if spread is not None:
                along = rows.along(j, terms)
                moved = sum_moved(along, design, weights, curved=curved)
                score[spread.places] = moved.score
            if curved and spread is not None:
                at, shape = spread.places, np.arange(total)[own.places(which)]
                hessian[np.ix_(at, at)] = moved.hessian
                hessian[here, at], hessian[at, here] = moved.cross, moved.cross.T
                by_both = -(rows.shaped_along(j, terms) * weight) @ along.z
                by_both = by_both.T @ own.inner[which].slope
                hessian[np.ix_(at, shape)] += by_both
                hessian[np.ix_(shape, at)] += by_both.T
            if curved:
                hessian[here, here] = sums.hessian
                twice[which] += terms.twice
                cross = np.vstack([design.T @ (terms.along_g * weight).T, terms.along_h @ weight])
                places = own.places(which)
                cross = cross @ own.inner[which].slope
                hessian[here, places] += cross
                hessian[places, here] += cross.T
        for which, inner in enumerate(own.inner):
            places = own.places(which)
            score[places] = inner.slope.T @ by_inner[which]
            if curved:
                hessian[places, places] = inner.slope.T @ twice[which] @ inner.slope
                hessian[places, places] += np.tensordot(by_inner[which], inner.bend, axes=(0, 0))
        return Evaluation(loglik, score, hessian)


@dataclass(frozen=True, eq=False)
class ShapedTerms:
    """One alternative's terms, one entry per row, with derivatives in the inner parameters.

    Attributes
    ----------
    plain : log-likelihood and derivatives in (g, h).
    by_inner : (m, n) first derivatives in the inner parameters.
    along_g, along_h : (m, n) mixed second derivatives, per unit of x and plain.
    twice : (m, m) weighted sum of second derivatives in the inner parameters.
    """

    plain: known_index.BoxTerms
    by_inner: Array
    along_g: Array
    along_h: Array
    twice: Array


@dataclass(frozen=True, eq=False)
class ShapedRows(BoxRows):
    """What rows say where alternatives are independent and shapes have parameters."""

    @cached_property
    def parameters(self) -> ShapeParameters:
        return parameters_of(self.problem, self.natural)

    @cached_property
    def terms(self) -> list[known_index.BoxTerms]:
        return [one.plain for one in self._each]

    @cached_property
    def _each(self) -> list[ShapedTerms]:
        ones, curved = np.ones(len(self.batch)), bool(self.problem.layout.spreads)
        return [self.shaped(j, curved=curved, weights=ones) for j in range(len(self.designs))]

    def along(self, j: int, terms: ShapedTerms) -> AlongSpread:
        """Return the derivatives of an alternative's terms in what moves its scale."""
        z, at_h = self._spread_designs[j], self.problem.layout.inverse_scale_positions[j]
        assert z is not None
        return along_spread(z, terms.plain, self.locations[j], float(self.natural[at_h]))

    def shaped_along(self, j: int, terms: ShapedTerms) -> Array:
        """Return mixed derivatives (m, n) in the log factor of the scale and inner parameters."""
        h = self.natural[self.problem.layout.inverse_scale_positions[j]]
        return np.asarray(self.locations[j] * terms.along_g + h * terms.along_h)

    def shaped(self, j: int, *, curved: bool, weights: Array) -> ShapedTerms:
        """Return the terms of one alternative."""
        layout, units, observation = self.problem.layout, self.problem.units, self.batch.observation
        h = float(self.natural[layout.inverse_scale_positions[j]])
        log_factors = self._log_factors
        factor = 1.0 if log_factors is None else np.exp(log_factors[:, j])
        location = factor * self.locations[j]
        status = observation.status[:, j]
        own = self.parameters
        family, inner = own.family, own.inner[own.of(j)].values
        limit = factor * units.limits(observation.limit_of(j))
        with np.errstate(invalid="ignore"):
            a = h * limit - location
        found = family.sums(a, status, inner, weights, curvature=curved)
        # A limit that says nothing may be infinite, and nothing times it is not a number.
        c = np.where(status <= ABOVE, limit, 0.0)
        # Where a trial step of a search leads far out, terms overflow; the step is then not taken.
        with np.errstate(over="ignore", invalid="ignore"):
            plain = known_index.BoxTerms(
                found.value, -found.slope, found.slope * c, found.bend, -found.bend * c,
                found.bend * c * c,
            )  # fmt: skip
            along_h = found.mixed * c
        by_inner, along_g, twice = found.by, -found.mixed, found.twice
        chosen = status == OBSERVED
        plain.loglik[chosen] += np.log(h)
        plain.score_h[chosen] += 1.0 / h
        plain.curvature_hh[chosen] -= 1.0 / h**2
        here = np.flatnonzero(status == BETWEEN)
        if observation.upper is not None and len(here):
            upper = (factor * units.limits(observation.upper[:, j]))[here]
            c = np.column_stack([limit[here], upper])
            ends = h * c - location[here, None]
            mass = family.between(ends[:, 0], ends[:, 1], inner, curvature=curved)
            slope = mass.gradient[:, :2]
            plain.loglik[here], plain.residual[here] = mass.value, -slope.sum(axis=1)
            plain.score_h[here] = (slope * c).sum(axis=1)
            by_inner[:, here] = mass.gradient[:, 2:].T
            if mass.hessian is not None:
                bend, mixed = mass.hessian[:, :2, :2], mass.hessian[:, :2, 2:]
                plain.curvature[here] = bend.sum(axis=(1, 2))
                plain.curvature_gh[here] = -np.einsum("nij,nj->n", bend, c)
                plain.curvature_hh[here] = np.einsum("ni,nij,nj->n", c, bend, c)
                along_g[:, here] = -mixed.sum(axis=1).T
                along_h[:, here] = np.einsum("ni,nim->mn", c, mixed)
                twice += np.tensordot(weights[here], mass.hessian[:, 2:, 2:], axes=(0, 0))
        if log_factors is not None:
            plain.loglik[chosen] += log_factors[chosen, j]
            plain = replace(
                plain,
                residual=factor * plain.residual,
                curvature=factor**2 * plain.curvature,
                curvature_gh=factor * plain.curvature_gh,
            )
            along_g = factor * along_g
        return ShapedTerms(plain, by_inner, along_g, along_h, twice)

    @cached_property
    def residual(self) -> Array:
        first = int(self.problem.layout.starts[-1])
        extras = self.natural[first : first + self.problem.layout.n_noise_extras]
        shapes = self.problem.noise.margins(extras, len(self.designs))
        return np.column_stack([self.means_between(shape)[:, j] for j, shape in enumerate(shapes)])

    @property
    def score(self) -> Array:
        own = self.parameters
        scores = super().score
        for j, terms in enumerate(self._each):
            which = own.of(j)
            scores[:, own.places(which)] += terms.by_inner.T @ own.inner[which].slope
        return scores
