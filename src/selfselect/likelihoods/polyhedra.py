r"""Known index, explaining sets that are polyhedra, independent normal noise.

If alternative j is chosen because its entry of :math:`My + c` is the largest, the noise of the
others lies in :math:`C e \le b`, one half-space per other alternative. With rows of C of length
one its chance is :math:`\Phi_q(b; CC')`, and its derivatives in b are moments of the noise within
the polyhedron (`kernels.orthants`). Complete data would have the score :math:`a_l` in
:math:`g_l'x` and :math:`1/h_l - a_l z_l` in :math:`h_l`. As in `sampled`, the score is its mean
(Fisher's identity), and the Hessian is the mean of that of complete data, and the covariance of
its score (Louis' identity); here both are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.kernels.joint import ORDERS, hermite_values
from selfselect.kernels.known_index import OBSERVED
from selfselect.kernels.orthants import LARGEST, hermite_means, keys, orthant_slopes
from selfselect.kernels.tails import HALF_LOG_TWO_PI
from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods.base import Likelihood, RowTerms
from selfselect.problem.batch import Batch, Evaluation, Observation, observe_inside
from selfselect.problem.problem import Problem
from selfselect.rules import linear_scores_of

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

SLANTED = 0.02
"""Smallest eigenvalue of the correlations of half-spaces, at equal scales, from which on quadrature
has digits to spare. Nearly parallel half-spaces are left to draws."""


def has_polyhedra(problem: Problem) -> bool:
    """Say whether all explaining sets are polyhedra whose mass is known by quadrature."""
    found = linear_scores_of(problem.ordered_rule)
    k = problem.equations.n_alternatives
    if found is None or k - 1 > LARGEST:
        return False
    for chosen in range(k):
        normals = _normals(found[0], chosen)
        length = np.sqrt((normals**2).sum(axis=1))
        if not (length > 0).all():
            return False
        unit = normals / length[:, None]
        if np.linalg.eigvalsh(unit @ unit.T)[0] < SLANTED:
            return False
    return True


def _normals(matrix: Array, chosen: int) -> Array:
    """Return how the others' scores exceed the chosen one's with the others' outcomes."""
    return np.delete(np.delete(matrix - matrix[chosen], chosen, axis=0), chosen, axis=1)


@cache
def _places(k: int) -> tuple[Indices, Indices, Indices]:
    """Return where means of a_j a_m, of a_j a_m² and of a_j² a_m² stand among those of an order."""
    each = range(k)
    tables = [
        [[keys(k, sum(powers))[tuple(sorted([j] * powers[0] + [m] * powers[1]))] for m in each]
         for j in each]
        for powers in ((1, 1), (1, 2), (2, 2))
    ]  # fmt: skip
    pairs, squares, fours = (np.array(table, dtype=np.intp) for table in tables)
    return pairs, squares, fours


@dataclass(frozen=True, eq=False)
class Polyhedra(Likelihood):
    """Known index, the largest of up to four linear scores, independent normal noise."""

    convex_sets: ClassVar[bool] = True

    @property
    def concave(self) -> bool:
        return True

    def observe(self, rows: Rows) -> Observation:
        return observe_inside(rows, self.problem.equations.n_alternatives)

    def rows(self, natural: Array, batch: Batch) -> PolyhedronRows:
        return PolyhedronRows(self.problem, natural, batch)

    def evaluate(self, natural: Array, batch: Batch, curvature: Curvature) -> Evaluation:
        """Evaluate on a batch; only "none" spares the Hessian."""
        layout, rows = self.problem.layout, self.rows(natural, batch)
        weights = np.ones(len(batch)) if batch.rows.weights is None else batch.rows.weights
        scaled, at_h = layout.scales is None, layout.inverse_scale_positions
        order = (2 if scaled else 1) if curvature == "none" else (4 if scaled else 2)
        terms = rows.up_to(order)
        loglik = float(weights @ rows.loglik_of(terms)) + self.unit_correction(batch.rows)
        score, total = np.zeros(len(natural)), len(natural)
        weighted = weights * terms.first
        owns = [slice(layout.starts[j], at_h[j]) for j in range(len(at_h))]
        for own, design, along in zip(owns, rows.designs, weighted, strict=True):
            score[own] = design.T @ along
        if scaled:
            score[at_h] = rows.along_scales(terms) @ weights
        if curvature == "none":
            return Evaluation(loglik, score, np.zeros((1, 1)))
        hessian = np.zeros((total, total))
        seconds = rows.second_derivatives(terms)
        for j, own in enumerate(owns):
            for m, other in enumerate(owns[: j + 1]):
                across = rows.designs[m] * (weights * seconds.locations[j, m])[:, None]
                hessian[own, other] = rows.designs[j].T @ across
                hessian[other, own] = hessian[own, other].T
            if scaled:
                hessian[own, at_h] = rows.designs[j].T @ (weights * seconds.mixed[j]).T
                hessian[at_h, own] = hessian[own, at_h].T
        if scaled:
            hessian[np.ix_(at_h, at_h)] = seconds.scales @ weights
        return Evaluation(loglik, score, hessian)


@dataclass(frozen=True, eq=False)
class _Terms:
    """Means of Hermite polynomials of the noise of rows; those not asked for are empty.

    Attributes
    ----------
    log_mass : (n,) log chance of the choice given the outcome.
    first : (k, n) means of a.
    second : (k, k, n) of the products of two, less one where they are the same.
    third : (k, k, n) of a_j and the second polynomial of a_m.
    fourth : (k, k, n) of the second polynomials of both.
    """

    log_mass: Array
    first: Array
    second: Array
    third: Array
    fourth: Array


@dataclass(frozen=True, eq=False)
class _Seconds:
    """Second derivatives of rows in all g'x and h; `mixed` and `scales` only for free scales.

    Attributes
    ----------
    locations : (k, k, n) in g_j'x and g_m'x.
    mixed : (k, k, n) in g_j'x and h_m.
    scales : (k, k, n) in h_j and h_m.
    """

    locations: Array
    mixed: Array
    scales: Array


@dataclass(frozen=True, eq=False)
class PolyhedronRows(RowTerms):
    """What rows say where the noise of the others lies in a polyhedron."""

    @cached_property
    def location(self) -> Array:
        """(k, n) g'x of every alternative."""
        return np.ascontiguousarray(self.problem.locations(self.natural, self.designs).T)

    @cached_property
    def inverse_scales(self) -> Array:
        """(k,) h of every alternative."""
        return self.natural[self.problem.layout.inverse_scale_positions]

    @cached_property
    def chosen(self) -> Indices:
        """(n,) the chosen alternative."""
        assert self.batch.rows.chosen is not None
        return self.batch.rows.chosen

    @cached_property
    def outcome(self) -> Array:
        """(n,) in internal units."""
        return self.problem.units.limits(self.batch.observation.limit[:, 0])

    @cached_property
    def own(self) -> Array:
        """(n,) the noise of the chosen alternative, in units of its scale."""
        each = np.arange(len(self.batch))
        h = self.inverse_scales[self.chosen]
        return np.asarray(h * self.outcome - self.location[self.chosen, each])

    def _groups(self) -> Iterator[tuple[Indices, int, Indices]]:
        """Yield rows of the same choice among the same alternatives, it, and the other ones."""
        k, open_to = self.problem.equations.n_alternatives, self.batch.rows.known.available
        pattern = self.chosen << k
        pattern += 2**k - 1 if open_to is None else open_to @ 2 ** np.arange(k)
        for one in np.unique(pattern).tolist():
            j = one >> k
            others = [m for m in range(k) if m != j and one >> m & 1]
            yield np.flatnonzero(pattern == one), j, np.array(others, dtype=np.intp)

    def up_to(self, order: int) -> _Terms:
        """Return means of polynomials up to an order of 1, 2 or 4."""
        k, n = self.location.shape
        log_mass, first = np.zeros(n), np.zeros((k, n))
        second = np.zeros((k, k, n if order >= 2 else 0))
        third = np.zeros((k, k, n if order >= 4 else 0))
        fourth = np.zeros_like(third)
        pairs, squares, fours = _places(k)
        for rows, j, others in self._groups():
            loadings, limit = self._polyhedron(rows, j, others)
            log_mass[rows], slopes = orthant_slopes(limit, loadings @ loadings.T, order)
            means, own = hermite_means(slopes, loadings), hermite_values(self.own[rows])
            first[:, rows] = means[1]
            first[j, rows] = own[1]
            if order >= 2:
                block = means[2][pairs]
                block[j] = block[:, j] = own[1] * first[:, rows]
                block[j, j] = own[2]
                second[:, :, rows] = block
            if order >= 4:
                third[:, :, rows], fourth[:, :, rows] = means[3][squares], means[4][fours]
                third[j, j, rows], fourth[j, j, rows] = own[3], own[4]
        return _Terms(log_mass, first, second, third, fourth)

    def _polyhedron(self, rows: Indices, j: int, others: Indices) -> tuple[Array, Array]:
        """Return C (q, k) and b (q, rows), one half-space per alternative that was open."""
        units, known = self.problem.units, self.batch.rows.known
        found = linear_scores_of(self.problem.ordered_rule)
        assert found is not None
        matrix, constant = found
        lead = matrix[others] - matrix[j]
        room = constant[j] - constant[others] - units.outcome_shift * lead.sum(axis=1)
        limit = np.repeat(room[:, None], len(rows), axis=1)
        if known.costs is not None:
            limit += (known.costs[np.ix_(rows, others)] - known.costs[rows, j][:, None]).T
        limit /= units.outcome_unit
        limit -= np.outer(lead[:, j], self.outcome[rows])
        loadings = lead / self.inverse_scales
        loadings[:, j] = 0.0
        limit -= loadings @ self.location[:, rows]
        length = np.sqrt((loadings**2).sum(axis=1))
        return loadings / length[:, None], limit / length[:, None]

    def loglik_of(self, terms: _Terms) -> Array:
        """Return log-likelihoods (n,) in internal units."""
        density = np.log(self.inverse_scales)[self.chosen] - 0.5 * self.own**2 - HALF_LOG_TWO_PI
        return np.asarray(density + terms.log_mass)

    def along_scales(self, terms: _Terms) -> Array:
        """Return scores (k, n) in h."""
        spread = np.einsum("jjn->jn", terms.second)
        return np.asarray(-(spread + terms.first * self.location) / self.inverse_scales[:, None])

    def second_derivatives(self, terms: _Terms) -> _Seconds:
        """Return those in the locations; of terms of order 4 also those in the scales."""
        each, h = np.arange(len(terms.first)), self.inverse_scales
        first, at = terms.first, self.location
        locations = terms.second - first[:, None] * first[None, :]
        if not terms.fourth.size:
            return _Seconds(locations, terms.third, terms.fourth)
        spread = np.einsum("jjn->jn", terms.second)
        # Covariances of a_j with the second polynomial of a_m, and of both second polynomials.
        skew = terms.third - first[:, None] * spread[None, :]
        tails = terms.fourth - spread[:, None] * spread[None, :]
        both = locations.copy()
        both[each, each] += 1.0
        skew[each, each] += 2.0 * first
        tails[each, each] += 4.0 * spread + 2.0
        known = self.batch.observation.status.T == OBSERVED
        for covariance in (both, skew, tails):
            covariance[np.broadcast_to(known[:, None], covariance.shape)] = 0.0
            covariance[np.broadcast_to(known[None, :], covariance.shape)] = 0.0
        mixed = -(skew + both * at[None, :]) / h[:, None]
        mixed[each, each] += (first + at) / h[:, None]
        across = skew * at[:, None]
        scales = tails + across + across.transpose(1, 0, 2) + both * at[:, None] * at[None, :]
        scales /= np.outer(h, h)[:, :, None]
        squared = spread + 1.0 + 2.0 * first * at + at**2
        scales[each, each] -= (1.0 + squared) / h[:, None] ** 2
        return _Seconds(locations, mixed, scales)

    @cached_property
    def terms(self) -> _Terms:
        """All means."""
        return self.up_to(ORDERS - 1)

    @property
    def loglik(self) -> Array:
        return self.loglik_of(self.terms)

    @property
    def chance(self) -> Array:
        return (self.batch.observation.status == OBSERVED).astype(np.float64)

    @property
    def residual(self) -> Array:
        return self.terms.first.T

    @property
    def censored_residual(self) -> Array:
        return self.residual

    @property
    def score(self) -> Array:
        layout = self.problem.layout
        scores = np.zeros((len(self.natural), len(self.batch))).T
        along = self.along_scales(self.terms)
        for j, (design, residual) in enumerate(zip(self.designs, self.terms.first, strict=True)):
            at_h = layout.inverse_scale_positions[j]
            np.multiply(design, residual[:, None], out=scores[:, layout.starts[j] : at_h])
            scores[:, at_h] = along[j]
        return scores

    @property
    def products(self) -> Array:
        return self.terms.second.transpose(2, 0, 1)

    @property
    def hermite(self) -> Array:
        terms = self.terms
        spread, third, fourth = (
            np.einsum("jjn->nj", part) for part in (terms.second, terms.third, terms.fourth)
        )
        return np.stack([np.ones_like(spread), terms.first.T, spread, third, fourth])

    @property
    def log_mass(self) -> Array:
        return self.terms.log_mass
