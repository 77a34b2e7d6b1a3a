r"""Outcomes that a selection equation selects: each row is a correlated pair.

A row is selected if :math:`m + u > 0`, with :math:`m = z'\gamma` and u standard normal. Its
outcome has noise e, in units of its scale, of correlation :math:`\rho = \tanh t` with u. With the
sign d = 1 where a positive index selects the outcome, else -1,

* an observed outcome adds
  :math:`\log h - e^2/2 - \log\sqrt{2\pi} + \log\Phi(a)`, where :math:`e = h y - x'g` and
  :math:`a = d\,(m \cosh t + e \sinh t)`;
* a row without an outcome adds :math:`\log\Phi(-m)`.

In (γ, g, h) this is concave for any fixed t, and t may be any number.

With :math:`v = d\,(z, -x, y)` joined, :math:`a = v'(\gamma\cosh t, (g, h)\sinh t)` is linear, and
so is :math:`\dot a = da/dt = v'(\gamma\sinh t, (g, h)\cosh t)`. So two sums over the rows of an
alternative, :math:`\sum \lambda(a)\,v` and :math:`\sum \delta(a)\,v v'`, hold everything in the
score and the Hessian but what :math:`\sum e^2` says, and that is quadratic.

Ordered alternatives have cut points: alternative j is chosen where
:math:`m + c_{j-1} + u > 0 \ge m + c_j + u`, with :math:`c_j` minus the cut point above it. In place
of :math:`\log\Phi(a)` stands :math:`\log[\Phi(a) - \Phi(b)]`, with m + c in place of m in both:
joined rows have an entry more for each cut point, and all else is the same.

An outcome that is known only to lie between two limits adds the log-probability of that and of its
selection, see `kernels.selected`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows, guess_outcomes
from selfselect.errors import UnsupportedError
from selfselect.kernels.joint import ORDERS, hermite_values, limited_means, shifted_means
from selfselect.kernels.known_index import OBSERVED, UNKNOWN
from selfselect.kernels.selected import IntervalRows, SignedRows
from selfselect.kernels.tails import HALF_LOG_TWO_PI
from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods.base import (
    Likelihood,
    RowTerms,
    draw_selected,
    latent_outcomes,
    selection_limits,
)
from selfselect.likelihoods.binary_selection import BetweenRows, has_limits
from selfselect.problem.batch import Batch, Evaluation, Observation, Parts
from selfselect.problem.problem import Problem

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class OwnRows:
    """The rows of a batch in which an alternative's outcome was observed.

    Attributes
    ----------
    which : (m,) their positions.
    joined : covariates of the selection, its own cut points, then slopes of the noise h y - x'g
        in g and h.
    gram : (p + 1, p + 1) weighted products of the slopes of the noise.
    total : sum of the weights.
    sign : of the joined rows; 1 for those between two cut points.
    selection : positions, among the coefficients of the selection, of those that are joined.
    """

    which: Indices
    joined: SignedRows | IntervalRows
    gram: Array
    total: float
    sign: float
    selection: Indices

    @property
    def noise_slopes(self) -> Array:
        """(p + 1, m) slopes of the noise in g and h."""
        return self.sign * self.joined.values[-len(self.gram) :]


@dataclass(frozen=True, eq=False)
class SilentRows:
    """Rows of a batch that were not selected, or whose outcome was not recorded.

    Attributes
    ----------
    which : (m,) their positions.
    signed : covariates of the selection, and its own cut points.
    selection : positions, among the coefficients of the selection, of those.
    """

    which: Indices
    signed: SignedRows | IntervalRows
    selection: Indices


@dataclass(frozen=True, eq=False)
class JoinedRows:
    """The rows of a batch as the likelihood reads them.

    Attributes
    ----------
    n_slopes : number of coefficients of the selection that are no cut points.
    own : the rows of each alternative.
    silent : rows without an outcome, by what they say of the selection.
    between : by alternative, rows that have limits of the outcome; None where none has.
    """

    n_slopes: int
    own: tuple[OwnRows, ...]
    silent: tuple[SilentRows, ...]
    between: tuple[BetweenRows | None, ...]


def join_rows(problem: Problem, batch: Batch, *, guessed: bool = False) -> JoinedRows:
    """Return the rows of a batch joined and signed; made once for each batch.

    With `guessed`, outcomes between limits are as if they had been observed in the middle.
    """
    return batch.read(problem, _join_guessed if guessed and problem.partial else _join)


def _join_guessed(problem: Problem, rows: Rows) -> JoinedRows:
    if rows.outcome is not None:
        outcome = guess_outcomes(rows.outcome, rows.between)
        rows = replace(rows, outcome=outcome, between=None)
    return _join(problem, rows)


def _join(problem: Problem, rows: Rows) -> JoinedRows:
    equations, units, rule = problem.equations, problem.units, problem.ordered_rule
    assert equations.selection is not None and rows.chosen is not None and rows.outcome is not None
    selection = equations.selection
    columns = selection.columns[: selection.n_slopes]
    own: list[OwnRows] = []
    silent: list[SilentRows] = []
    between: list[BetweenRows | None] = []
    recorded, limited = ~np.isnan(rows.outcome), has_limits(rows)

    def sign_rows(
        which: Indices, ends: tuple[int | None, int | None], slopes: Array
    ) -> tuple[SignedRows | IntervalRows, float]:
        """Join the covariates of the selection, its cut points and slopes (n, p)."""
        lower, upper = ends
        z = units.design(rows.covariates[which], columns)
        weights = None if rows.weights is None else rows.weights[which]
        between = lower is not None and upper is not None
        sign = 1.0 if upper is None or between else -1.0
        # Beyond one cut point its constant is a covariate like any other.
        constant = np.ones((len(z), 1 if selection.n_cuts and not between else 0))
        values = np.ascontiguousarray(np.hstack([z, constant, slopes]).T)
        values *= sign
        if between:
            return IntervalRows(values, weights, len(columns)), sign
        return SignedRows(values, weights), sign

    ends = rule.intervals(equations.alternatives)
    for j, at_selection in enumerate(_own_selection(problem)):
        which = np.flatnonzero((rows.chosen == j) & recorded)
        x = units.design(rows.covariates[which], equations.each[j].columns)
        slopes = np.column_stack([-x, units.limits(rows.outcome[which])])
        weights = None if rows.weights is None else rows.weights[which]
        counted = slopes if weights is None else slopes * weights[:, None]
        total = float(len(which) if weights is None else weights.sum())
        joined, sign = sign_rows(which, ends[j], slopes)
        own.append(OwnRows(which, joined, slopes.T @ counted, total, sign, at_selection))
        inside = np.flatnonzero((rows.chosen == j) & limited)
        between.append(None)
        if len(inside):
            both = (equations.each[j].columns, columns)
            between[j] = BetweenRows.read(
                rows, inside, units, both, ends[j], has_cuts=bool(selection.n_cuts)
            )
        without = np.flatnonzero((rows.chosen == j) & ~(recorded | limited))
        if len(without):
            signed, _ = sign_rows(without, ends[j], np.empty((len(without), 0)))
            silent.append(SilentRows(without, signed, at_selection))
    without = np.flatnonzero(rows.chosen < 0)
    if len(without):
        # One outcome alone has a positive index where it is selected.
        signed, _ = sign_rows(without, (None, 0), np.empty((len(without), 0)))
        silent.append(SilentRows(without, signed, np.arange(len(columns))))
    return JoinedRows(len(columns), tuple(own), tuple(silent), tuple(between))


def _own_selection(problem: Problem) -> tuple[Indices, ...]:
    """Return by alternative which coefficients of the selection decide on it."""
    selection = problem.equations.selection
    assert selection is not None
    slopes = np.arange(selection.n_slopes)
    intervals = problem.ordered_rule.intervals(problem.equations.alternatives)
    if not selection.n_cuts:
        return (slopes,) * len(intervals)
    return tuple(
        np.append(slopes, [len(slopes) + cut for cut in ends if cut is not None]).astype(np.intp)
        for ends in intervals
    )


@dataclass(frozen=True, eq=False)
class SelectionLikelihood(Likelihood):
    """Outcomes, and an equation that says which of them, if any, is observed."""

    has_obstacles: ClassVar[bool] = True

    @cached_property
    def places(self) -> tuple[Indices, ...]:
        """By alternative, where γ, its cut points, g, h and t stand among the natural ones."""
        layout = self.problem.layout
        if not layout.turned[: len(layout.sizes)].all():
            raise UnsupportedError(
                "Two-step estimates do not maximise a likelihood. Use method='ml'."
            )
        return tuple(
            np.concatenate(
                [
                    self.gamma.start + selected,
                    np.arange(layout.starts[j], layout.starts[j + 1]),
                    [layout.starts[-1] + j],
                ]
            )
            for j, selected in enumerate(_own_selection(self.problem))
        )

    @cached_property
    def gamma(self) -> slice:
        """Where the coefficients and cut points of the selection stand among the natural ones."""
        layout = self.problem.layout
        assert layout.equations.selection is not None
        return slice(layout.n_natural - len(layout.equations.selection.columns), layout.n_natural)

    def observe(self, rows: Rows) -> Observation:
        assert rows.chosen is not None and rows.outcome is not None
        shape = (len(rows), self.problem.equations.n_alternatives)
        status = np.full(shape, UNKNOWN, dtype=np.int8)
        observed = np.flatnonzero((rows.chosen >= 0) & ~np.isnan(rows.outcome))
        status[observed, rows.chosen[observed]] = OBSERVED
        return Observation(status, rows.outcome[:, None])

    def evaluate(self, natural: Array, batch: Batch, curvature: Curvature) -> Evaluation:
        loglik, score = 0.0, np.zeros(len(natural))
        hessian = np.zeros((len(natural), len(natural)))
        for _, places, part in self.pieces(natural, batch, curvature):
            loglik += part.loglik
            score[places] += part.score
            hessian[places[:, None], places] += part.hessian
        return Evaluation(loglik, score, hessian)

    def pieces(
        self, natural: Array, batch: Batch, curvature: Curvature
    ) -> Iterator[tuple[int, Indices, Evaluation]]:
        """Yield what the rows of each alternative say, by its number, and of which parameters.

        The number of rows without an outcome is -1: they say something of the selection alone.
        """
        curved = curvature != "none"
        rows = join_rows(self.problem, batch)
        log_unit = math.log(self.problem.units.outcome_unit)
        for silent in rows.silent:
            at = self.gamma.start + silent.selection
            sums = silent.signed.at(natural[at], curved=curved)
            yield -1, at, Evaluation(sums.log_mass, sums.pull, -sums.curvature)
        for j, (own, places) in enumerate(zip(rows.own, self.places, strict=True)):
            part = _evaluate_own(own, natural[places], len(own.selection), curved)
            yield j, places, replace(part, loglik=part.loglik - own.total * log_unit)
            inside = rows.between[j]
            if inside is not None:
                yield j, places, inside.evaluate(natural[places])

    def rows(self, natural: Array, batch: Batch) -> SelectionRows:
        return SelectionRows(self.problem, natural, batch)

    def draw(self, natural: Array, rows: Rows, noise: Array, rng: Generator) -> Rows:
        latent = latent_outcomes(self.problem, natural, rows, noise[:, :-1])
        lower, upper = selection_limits(self.problem, natural, rows)
        selected = (lower < noise[:, -1:]) & (noise[:, -1:] <= upper)
        chosen = np.where(selected.any(axis=1), selected.argmax(axis=1), -1)
        return draw_selected(rows, latent, chosen, rng)

    def obstacles(self, rows: Rows) -> Array:
        return np.array([float(np.isnan(rows.covariates).any(axis=1).sum())])

    def why_not_drawn(self, obstacles: Array) -> str | None:
        if not obstacles.any():
            return None
        return "some rows lack covariates of an outcome that simulated samples may select"


def evaluate_apart(problem: Problem, natural: Array, batch: Batch) -> Parts:
    """Evaluate the rows of each alternative, and last those without an outcome, with curvature.

    The parameters of an alternative matter to its own rows alone. So an evaluation with one
    alternative's from here and another's from there is a sum of such parts.
    """
    size, k = len(natural), problem.equations.n_alternatives
    logliks, scores = np.zeros(k + 1), np.zeros((k + 1, size))
    hessians = np.zeros((k + 1, size, size))
    likelihood: Any = problem.likelihood
    for j, places, part in likelihood.pieces(natural, batch, "exact"):
        logliks[j] += part.loglik
        scores[j, places] += part.score
        hessians[j, places[:, None], places] += part.hessian
    return Parts((logliks, scores, hessians))


def _evaluate_own(own: OwnRows, natural: Array, n_gamma: int, curved: bool) -> Evaluation:
    """Evaluate the rows of an alternative at γ, g, h and t of their own."""
    noise, h, t = slice(n_gamma, -1), float(natural[-2]), float(natural[-1])
    c, s = math.cosh(t), math.sinh(t)
    # The argument's slopes are the joined rows times these; t turns one into the other.
    slopes, swapped = np.full(len(natural) - 1, s), np.full(len(natural) - 1, c)
    slopes[:n_gamma], swapped[:n_gamma] = c, s
    along, turned = slopes * natural[:-1], swapped * natural[:-1]
    sums = own.joined.at(along, curved=curved)
    squares = own.gram @ natural[noise]
    score, hessian = np.empty(len(natural)), np.zeros((len(natural), len(natural)))
    score[:-1], score[-1] = slopes * sums.pull, sums.pull @ turned
    score[noise] -= squares
    score[-2] += own.total / h
    if curved:
        twist = sums.curvature @ turned
        hessian[:-1, :-1] = sums.curvature * (-slopes[:, None] * slopes)
        hessian[noise, noise] -= own.gram
        hessian[-2, -2] -= own.total / h**2
        hessian[:-1, -1] = hessian[-1, :-1] = swapped * sums.pull - slopes * twist
        hessian[-1, -1] = sums.pull @ along - turned @ twist
    constant = own.total * (math.log(h) - HALF_LOG_TWO_PI) if own.total else 0.0
    loglik = float(constant - 0.5 * natural[noise] @ squares + sums.log_mass)
    return Evaluation(loglik, score, hessian)


@dataclass(frozen=True, eq=False)
class SelectionRows(RowTerms):
    """What rows say that a selection equation selects."""

    @cached_property
    def _parts(self) -> tuple[Array, Array]:
        """The log-likelihood (n,) and the score (n, n_natural) of every row."""
        likelihood: Any = self.problem.likelihood
        natural, rows = self.natural, join_rows(self.problem, self.batch)
        loglik, scores = np.zeros(len(self.batch)), np.zeros((len(self.batch), len(natural)))
        for silent in rows.silent:
            at = likelihood.gamma.start + silent.selection
            loglik[silent.which], pull = silent.signed.each(natural[at])
            scores[silent.which[:, None], at] = pull.T
        for own, places in zip(rows.own, likelihood.places, strict=True):
            h, t = float(natural[places[-2]]), float(natural[places[-1]])
            n_gamma, of_noise = len(own.selection), own.noise_slopes
            slopes, swapped = np.full((2, len(places) - 1), math.sinh(t))
            slopes[:n_gamma] = swapped[n_gamma:] = math.cosh(t)
            inside = natural[places[:-1]]
            noise = inside[n_gamma:] @ of_noise
            log_mass, pull = own.joined.each(slopes * inside)
            loglik[own.which] = math.log(h) - HALF_LOG_TWO_PI - 0.5 * noise**2 + log_mass
            own_scores = np.vstack([slopes[:, None] * pull, (swapped * inside) @ pull])
            own_scores[n_gamma:-1] -= of_noise * noise
            own_scores[-2] += 1.0 / h
            scores[own.which[:, None], places] = own_scores.T
        for inside, places in zip(rows.between, likelihood.places, strict=True):
            if inside is not None:
                at = inside.which
                loglik[at], scores[at[:, None], places] = inside.each(natural[places])
        return loglik, scores

    @property
    def hermite(self) -> Array:
        r"""(5, n, k + 1) means of Hermite polynomials, the selection's noise last.

        An outcome's noise e is known where it was observed, and there
        :math:`u = \rho e + \sqrt{1 - \rho^2} v` with v between limits. Elsewhere e has
        :math:`\rho^r` times the means of u given the selection alone: more would need the
        correlation of two outcomes, which is in no likelihood.
        """
        likelihood: Any = self.problem.likelihood
        natural, rows = self.natural, join_rows(self.problem, self.batch)
        chosen, k = self.batch.rows.chosen, len(rows.own)
        assert chosen is not None
        limits = selection_limits(self.problem, natural, self.batch.rows)
        each = np.arange(len(chosen))
        # Where nothing was selected the index lies below the limit of the only outcome.
        lower = np.where(chosen >= 0, limits[0][each, chosen], -np.inf)
        upper = np.where(chosen >= 0, limits[1][each, chosen], limits[0][:, 0])
        t = np.array([float(natural[places[-1]]) for places in likelihood.places])
        turns, lefts = np.tanh(t), 1.0 / np.cosh(t)
        found = np.empty((ORDERS, len(chosen), k + 1))
        found[:, :, k] = limited_means(lower, upper)
        found[:, :, :k] = found[:, :, k:] * (turns ** np.arange(ORDERS)[:, None])[:, None, :]
        for j, (own, places) in enumerate(zip(rows.own, likelihood.places, strict=True)):
            noise = natural[places[len(own.selection) : -1]] @ own.noise_slopes
            found[:, own.which, j] = hermite_values(noise)
            known = turns[j] * noise
            ends = ((limit[own.which] - known) / lefts[j] for limit in (lower, upper))
            found[:, own.which, k] = shifted_means(known, lefts[j], limited_means(*ends))
        return found

    @property
    def loglik(self) -> Array:
        return self._parts[0]

    @property
    def chance(self) -> Array:
        return (self.batch.observation.status == OBSERVED).astype(np.float64)

    @property
    def score(self) -> Array:
        return self._parts[1].copy()

    @property
    def residual(self) -> Array:
        r"""(n, 1) noise of the one outcome of sample selection, in units of its scale.

        Where it was not selected its mean is :math:`-\rho\lambda(-m)`.
        """
        likelihood: Any = self.problem.likelihood
        rows = join_rows(self.problem, self.batch)
        if len(rows.own) > 1:
            self._refuse_others("residuals of every alternative")
        (own,), (places,) = rows.own, likelihood.places
        residual = np.empty((len(self.batch), 1))
        residual[own.which, 0] = self.natural[places[len(own.selection) : -1]] @ own.noise_slopes
        for inside in rows.between:
            if inside is not None:
                residual[inside.which, 0] = inside.terms(self.natural[places]).noise
        chosen = self.batch.rows.chosen
        assert chosen is not None
        for silent in rows.silent:
            ratio, _ = silent.signed.moments(self.natural[likelihood.gamma])
            sign = 1.0 if chosen[silent.which[0]] >= 0 else -1.0
            residual[silent.which, 0] = sign * math.tanh(float(self.natural[places[-1]])) * ratio
        return residual

    @property
    def products(self) -> Array:
        self._refuse_others("products of residuals")

    def _refuse_others(self, what: str) -> NoReturn:
        raise UnsupportedError(
            f"A model with a selection equation has no {what}: no row shows two outcomes, so "
            "their correlation is not identified."
        )
