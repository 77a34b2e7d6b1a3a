r"""Types where alternatives are independent given the type: sums in the scalars of each row.

A row enters by its location and inverse scale of every alternative. Their derivatives, r and q, are
numbers, of which those in the coefficients are r times x; so second derivatives in the coefficients
of two alternatives are one weighted sum of xx', however many types there are, where each row is its
own group. All else that a type moves, inverse scales and the types' parameters, is short.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.known_index import BoxTerms
from selfselect.kernels.mixture import grouped_sum
from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods.components import TypesAt
from selfselect.problem.batch import Batch

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class BoxTypes:
    """The rows of a batch under every type.

    Attributes
    ----------
    at : the types.
    batch : the rows.
    starts : where groups begin; None where each row is one.
    """

    at: TypesAt
    batch: Batch
    starts: Indices | None

    @cached_property
    def designs(self) -> list[Array]:
        """Every alternative's covariates (n, p_j) in internal units."""
        return self.at.components.problem.designs(self.batch.rows)

    @cached_property
    def terms(self) -> list[list[BoxTerms]]:
        """By type and alternative, the terms of all rows."""
        problem, natural = self.at.components.problem, self.at.natural
        observation, units = self.batch.observation, problem.units
        shape, k = problem.noise.margin, len(self.designs)
        h = natural[problem.layout.inverse_scale_positions]
        location = problem.locations(natural, self.designs)
        limits = [units.limits(observation.limit_of(j)) for j in range(k)]
        upper = None if observation.upper is None else units.limits(observation.upper)
        return [
            [
                shape.row_terms(
                    location[:, j] + h[j] * shifts[j],
                    float(h[j]),
                    status=observation.status[:, j],
                    limit=limits[j],
                    upper=None if upper is None else upper[:, j],
                )
                for j in range(k)
            ]
            for shifts in self.at.values.shifts
        ]

    @cached_property
    def loglik(self) -> Array:
        """(n, M) log-likelihood of rows under each type."""
        each = [np.sum([one.loglik for one in terms], axis=0) for terms in self.terms]
        return np.column_stack(each)

    def row_scores(self, chances: Array) -> Array:
        """Return the scores (n, n_natural) of rows, but for those of the weights.

        `chances` (n, M) are those of the types.
        """
        sums = _Sums(self, chances, np.ones(len(self.batch)))
        scores = np.zeros((len(self.batch), len(self.at.natural)))
        for j, design in enumerate(self.designs):
            mean = _added(chances[:, m] * one[j].residual for m, one in enumerate(self.terms))
            np.multiply(design, mean[:, None], out=scores[:, sums.own_at(j)])
        scores[:, sums.short_at] = _added(
            chances[:, [m]] * sums.short_scores(m) for m in range(self.at.number)
        )
        return scores

    def score_and_hessian(
        self, tau: Array, weight: Array, curvature: Curvature
    ) -> tuple[Array, Array]:
        """Return the score, and the Hessian unless it is not wanted, but for those of weights.

        `tau` (G, M) are the chances of the types, `weight` (G,) what groups count.
        """
        return _Sums(self, tau, weight).total(curvature)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over the rows of a batch."""

    boxes: BoxTypes
    tau: Array
    weight: Array

    @property
    def _starts(self) -> Indices | None:
        return self.boxes.starts

    @cached_property
    def share(self) -> Array:
        """(n, M) chance of each type times the weight, by row."""
        share = self.tau * self.weight[:, None]
        if self._starts is None:
            return share
        return np.repeat(share, np.diff(np.append(self._starts, len(self.boxes.batch))), axis=0)

    @cached_property
    def short(self) -> list[Array]:
        """By type, derivatives (2k, s) of locations and inverse scales in the short vector.

        That is made of the inverse scales and the parameters of the types.
        """
        at = self.boxes.at
        h = at.natural[at.components.problem.layout.inverse_scale_positions]
        k = len(h)
        made = []
        for m in range(at.number):
            slope = np.zeros((2 * k, k + at.components.map.size))
            slope[np.arange(k), np.arange(k)] = at.values.shifts[m]
            slope[:k, k:] = h[:, None] * at.values.shift_slopes[m]
            slope[k + np.arange(k), np.arange(k)] = 1.0
            made.append(slope)
        return made

    @cached_property
    def short_at(self) -> Indices:
        """Places of the short vector among the natural parameters."""
        parts = self.boxes.at.components
        types = np.arange(parts.at_types.start, parts.at_types.stop)
        return np.concatenate([parts.problem.layout.inverse_scale_positions, types])

    def own_at(self, j: int) -> slice:
        """Places of an alternative's coefficients among the natural parameters."""
        layout = self.boxes.at.components.problem.layout
        return slice(int(layout.starts[j]), int(layout.inverse_scale_positions[j]))

    def short_scores(self, m: int) -> Array:
        """Return the scores (n, s) of rows under a type, in the short vector, less the weights'."""
        terms = self.boxes.terms[m]
        scalars = np.column_stack([one.residual for one in terms] + [one.score_h for one in terms])
        return np.asarray(scalars @ self.short[m])

    def total(self, curvature: Curvature) -> tuple[Array, Array]:
        """Return score and Hessian in the natural parameters."""
        boxes, size = self.boxes, len(self.boxes.at.natural)
        terms, k = boxes.terms, len(boxes.designs)
        score = np.zeros(size)
        for j, design in enumerate(boxes.designs):
            mean = _added(self.share[:, m] * one[j].residual for m, one in enumerate(terms))
            score[self.own_at(j)] = mean @ design
        for m in range(boxes.at.number):
            sums = [self.share[:, m] @ one.residual for one in terms[m]]
            sums += [self.share[:, m] @ one.score_h for one in terms[m]]
            score[self.short_at] += np.array(sums) @ self.short[m]
        if curvature == "none":
            return score, np.zeros((1, 1))
        hessian = np.zeros((size, size))
        for j, design in enumerate(boxes.designs):
            bend = _added(self.share[:, m] * one[j].curvature for m, one in enumerate(terms))
            self._add(hessian, j, j, design.T @ (design * bend[:, None]))
            across = np.zeros((len(design), len(self.short_at)))
            for m, one in enumerate(terms):
                both = np.column_stack([one[j].curvature, one[j].curvature_gh])
                across += (both * self.share[:, [m]]) @ self.short[m][[j, k + j]]
            self._add_short(hessian, j, design.T @ across)
        hessian[np.ix_(self.short_at, self.short_at)] += self._short_hessian()
        if curvature == "exact":
            constants = boxes.at.components.constants
            scores = np.zeros((boxes.at.number, boxes.at.components.inner.layout.n_natural))
            for m, one in enumerate(terms):
                scores[m, constants] = [self.share[:, m] @ part.residual for part in one]
            hessian += boxes.at.bend(scores)
            hessian += self._spread_of_rows() if self._starts is None else self._spread_of_groups()
        return score, hessian

    def _add(self, hessian: Array, j: int, other: int, block: Array) -> None:
        hessian[self.own_at(j), self.own_at(other)] += block
        if j != other:
            hessian[self.own_at(other), self.own_at(j)] += block.T

    def _add_short(self, hessian: Array, j: int, block: Array) -> None:
        hessian[self.own_at(j), self.short_at] += block
        hessian[self.short_at, self.own_at(j)] += block.T

    def _short_hessian(self) -> Array:
        """Return second derivatives in the short vector, as far as they are not of a spread."""
        k, total = len(self.boxes.designs), np.zeros((len(self.short_at),) * 2)
        for m, one in enumerate(self.boxes.terms):
            inner = np.zeros((2 * k, 2 * k))
            for j, part in enumerate(one):
                share = self.share[:, m]
                inner[j, j] = share @ part.curvature
                inner[j, k + j] = inner[k + j, j] = share @ part.curvature_gh
                inner[k + j, k + j] = share @ part.curvature_hh
            total += self.short[m].T @ inner @ self.short[m]
        return total

    def _with_weights(self, m: int, short: Array, prior: Array) -> None:
        """Add to short scores those of the weights of the types."""
        k = len(self.boxes.designs)
        short[:, k : k + self.boxes.at.number - 1] -= prior[:, 1:]
        if m:
            short[:, k + m - 1] += 1.0

    def _spread_of_rows(self) -> Array:
        """Return the variance over types of the scores of rows, summed."""
        boxes, size = self.boxes, len(self.boxes.at.natural)
        number = boxes.at.number
        prior = np.exp(boxes.at.log_prior)
        hessian = np.zeros((size, size))
        residuals = np.array([[part.residual for part in one] for one in boxes.terms])
        shorts = []
        for m in range(number):
            short = self.short_scores(m)
            self._with_weights(m, short, prior)
            shorts.append(short)
        mean_short = _added(self.tau[:, [m]] * one for m, one in enumerate(shorts))
        mean = np.einsum("nm,mjn->jn", self.tau, residuals)
        for j, design in enumerate(boxes.designs):
            for other in range(j + 1):
                spread = _added(
                    self.share[:, m] * residuals[m, j] * residuals[m, other] for m in range(number)
                )
                spread = spread - self.weight * mean[j] * mean[other]
                block = design.T @ (boxes.designs[other] * spread[:, None])
                self._add(hessian, j, other, block)
            across = -(self.weight * mean[j])[:, None] * mean_short
            for m, one in enumerate(shorts):
                across += (self.share[:, m] * residuals[m, j])[:, None] * one
            self._add_short(hessian, j, design.T @ across)
        total = -mean_short.T @ (mean_short * self.weight[:, None])
        for m, one in enumerate(shorts):
            total += one.T @ (one * self.share[:, [m]])
        hessian[np.ix_(self.short_at, self.short_at)] += total
        return hessian

    def _spread_of_groups(self) -> Array:
        """Return the variance over types of the scores of groups, summed."""
        boxes, starts = self.boxes, self._starts
        prior = np.exp(boxes.at.log_prior)
        at = [
            np.arange(self.own_at(j).start, self.own_at(j).stop) for j in range(len(boxes.designs))
        ]
        places = np.concatenate([*at, self.short_at])
        mean = np.zeros((len(self.weight), len(places)))
        total = np.zeros((len(places),) * 2)
        for m, one in enumerate(boxes.terms):
            short = grouped_sum(self.short_scores(m), starts)
            self._with_weights(m, short, prior)
            both = zip(boxes.designs, one, strict=True)
            scores = np.hstack(
                [grouped_sum(x * part.residual[:, None], starts) for x, part in both] + [short]
            )
            mean += scores * self.tau[:, [m]]
            total += scores.T @ (scores * (self.weight * self.tau[:, m])[:, None])
        total -= mean.T @ (mean * self.weight[:, None])
        hessian = np.zeros((len(boxes.at.natural),) * 2)
        hessian[np.ix_(places, places)] = total
        return hessian


def _added(parts: Iterable[Array]) -> Array:
    return reduce(add, parts)
