"""The likelihood of types, or of a shock, that the rows of a person share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.errors import UnsupportedError
from selfselect.kernels.fused_unknown import FusedTypes, sum_types
from selfselect.kernels.joint import ORDERS, hermite_values
from selfselect.kernels.mixture import grouped_sum, mix_groups
from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods._atoms import cost_values
from selfselect.likelihoods._mixed_boxes import BoxTypes
from selfselect.likelihoods.base import Latent, Likelihood, RowTerms, draw_rows, latent_outcomes
from selfselect.likelihoods.boxes import Boxes, padding_of, row_arguments
from selfselect.likelihoods.components import Components, Shocks, ShocksAt, TypesAt
from selfselect.problem.batch import Batch, Evaluation, Observation
from selfselect.problem.problem import Problem

Array = NDArray[np.float64]


# Types by the compiled kernel: its sums carried to the natural parameters.
#
# The kernel differentiates in (g, h), in the offset that every type adds to every location, and in
# the logarithms of the weights. Offsets are h times the shifts, which depend on the parameters of
# the types.

Indices = NDArray[np.intp]


def fused_people(at: TypesAt, batch: Batch, starts: Indices | None) -> Array:
    """Return the expected weight (M,) of the groups of each type."""
    return _sums(at, batch, starts, "none").type_score.reshape(at.number, -1)[:, -1]


def _sums(at: TypesAt, batch: Batch, starts: Indices | None, curvature: Curvature) -> FusedTypes:
    problem = at.components.problem
    h = at.natural[problem.layout.inverse_scale_positions]
    return sum_types(
        row_arguments(problem, at.natural, batch),
        offsets=h * at.values.shifts,
        log_prior=at.log_prior[0],
        starts=None if starts is None else starts.astype(np.int64, copy=False),
        curvature=curvature,
    )


def evaluate_types(
    at: TypesAt, batch: Batch, starts: Indices | None, weight: Array, curvature: Curvature
) -> Evaluation:
    """Evaluate a batch of groups that begin at `starts` and count `weight` (G,), units aside."""
    parts, natural = at.components, at.natural
    problem, layout = parts.problem, parts.problem.layout
    k, size, count = problem.equations.n_alternatives, len(natural), at.number
    h = natural[layout.inverse_scale_positions]
    sums = _sums(at, batch, starts, curvature)
    # Sums of types by their derivatives in the natural parameters.
    by_type = np.zeros((count, k + 1, size))
    by_type[:, np.arange(k), layout.inverse_scale_positions] = at.values.shifts
    by_type[:, :k, parts.at_types] += h[:, None] * at.values.shift_slopes
    first = parts.at_types.start
    by_type[np.arange(1, count), k, np.arange(first, first + count - 1)] = 1.0
    slope = by_type.reshape(-1, size)
    padding = padding_of(problem)
    used = padding.used
    own = slice(0, int(used.sum()))
    score = slope.T @ sums.type_score
    score[own] += sums.score[used]
    # What weights that add up to one take away.
    prior, total = np.exp(at.log_prior[0]), float(weight.sum())
    score[first : first + count - 1] -= total * prior[1:]
    if curvature == "none":
        return Evaluation(sums.loglik, score, np.zeros((1, 1)))
    hessian = slope.T @ sums.type_hessian @ slope
    hessian[own, own] += sums.hessian.reshape(used.size, used.size)[padding.kept]
    mixed = sums.mixed[used] @ slope
    hessian[own] += mixed
    hessian[:, own] += mixed.T
    hessian += at.prior_hessian(np.array([total]))
    if curvature == "exact":
        scores = np.zeros((count, parts.inner.layout.n_natural))
        scores[:, parts.constants] = sums.type_score.reshape(count, k + 1)[:, :k]
        hessian += at.bend(scores)
    return Evaluation(sums.loglik, score, hessian)


# What people share, drawn: a type or a shock for each, and outcomes of their rows given it.


def draw_given_shared(at: TypesAt | ShocksAt, noise: Array, rng: Generator) -> tuple[Array, Array]:
    """Return outcomes and estimated costs (n, k) of rows, in units of the outcome.

    Parameters
    ----------
    at : the types, or the shock, for a batch in which the rows of a person stand together.
    noise : (n, k) of the rows, in units of the scales.
    rng : draws what each person has.
    """
    inner = at.components.inner if isinstance(at, TypesAt) else at.shocks.inner
    latent, costs = np.empty(noise.shape), np.zeros(noise.shape)
    pieces = _by_type(at, rng) if isinstance(at, TypesAt) else _with_shocks(at, rng)
    for which, natural, rows in pieces:
        latent[which] = latent_outcomes(inner, natural, rows, noise[which])
        costs[which] = cost_values(inner, natural, rows)
    return latent, costs


def _by_type(at: TypesAt, rng: Generator) -> Iterator[tuple[Indices, Array, Rows]]:
    """Give every person a type; return the rows of each type, and its inner parameters."""
    rows = at.batch.rows
    sizes = _sizes(at)
    drawn = rng.uniform(size=(len(sizes), 1))
    # Rounding may leave the last sum below one.
    type_of = (drawn > np.cumsum(np.exp(at.log_prior), axis=1)[:, :-1]).sum(axis=1)
    by_row = np.repeat(type_of, sizes)
    for m in range(at.number):
        which = np.flatnonzero(by_row == m)
        yield which, at.inner(m), rows.take(which)


def _with_shocks(at: ShocksAt, rng: Generator) -> Iterator[tuple[Indices, Array, Rows]]:
    """Give every person a shock; return all rows with it as a covariate."""
    sizes = _sizes(at)
    rows = at.with_shock(rng.standard_normal(len(sizes))).rows
    yield np.arange(len(rows)), at.inner(0), rows


def _sizes(at: TypesAt | ShocksAt) -> Indices:
    n_rows = len(at.batch)
    if at.starts is None:
        return np.ones(n_rows, dtype=np.intp)
    return np.diff(np.append(at.starts, n_rows))


# What the rows of a person share, a type or a shock: a mixture over it of independent noise.
#
# Group p (a person; without a panel, a row) has the log-likelihood
#
# .. math:: \log L_p = \log \sum_m \pi_m \prod_{i \in p} L_i(m),
#
# with posterior chances :math:`\tau_{pm}` of the types. With :math:`S_p(m)` the score of the group
# under type m, that of its weight included, the score is :math:`\sum_p \sum_m \tau_{pm} S_p(m)`
# and the Hessian (Louis 1982)
#
# .. math:: \sum_p \Big\{ \sum_m \tau_{pm} H_p(m) + \mathrm{Var}_\tau[S_p(m)] \Big\}.
#
# A shock that the rows of a group share is the same with nodes of a quadrature in place of types.


def refuse_types(problem: Problem) -> None:
    """Refuse types whose costs or weights cannot be told from other parameters."""
    noise: Any = problem.noise
    if not noise.mixed:
        return
    if noise.costs:
        _ = problem.cost_sign
        doubled = [cost.alternative for cost in problem.equations.costs if 0 in cost.columns]
        if doubled:
            raise UnsupportedError(
                f"Types(costs=True) has a constant of its own in every cost, and that of "
                f"{doubled[0]!r} has another. Write '- 1' in its formula."
            )
    if problem.equations.types is not None and not problem.equations.all_have_intercepts:
        raise UnsupportedError(
            "Types(covariates=...) needs a constant in every equation: shifts have mean zero at "
            "the mean of the covariates, and nothing else would take up the mean elsewhere."
        )


@dataclass(frozen=True, eq=False)
class Mixed(Likelihood):
    """Unobserved types, or a shock, shared by the rows of a group."""

    joint: ClassVar[bool] = True

    @cached_property
    def components(self) -> Components | Shocks:
        """How the problem and that of one type, or of a known shock, belong together."""
        return Components.of(self.problem) if self.problem.noise.mixed else Shocks.of(self.problem)

    @property
    def inner(self) -> Likelihood:
        """The likelihood of one type."""
        return self.components.inner.likelihood

    @property
    def weighed(self) -> bool:
        return self.inner.weighed

    @property
    def compiled(self) -> bool:
        return self.inner.compiled

    def observe(self, rows: Rows) -> Observation:
        return self.inner.observe(rows)

    def evaluate(self, natural: Array, batch: Batch, curvature: Curvature) -> Evaluation:
        """Evaluate on a batch of whole groups; "complete" curvature takes types as known."""
        mixture = _Mixture(self, natural, batch)
        weight, number = mixture.weight, mixture.at.number
        if mixture.fused and isinstance(mixture.at, TypesAt):
            found = evaluate_types(mixture.at, batch, mixture.starts, weight, curvature)
            return replace(found, loglik=found.loglik + self.unit_correction(batch.rows))
        loglik = float(weight @ np.where(weight > 0, mixture.loglik, 0.0))
        loglik += self.unit_correction(batch.rows)
        if mixture.boxes is not None:
            score, hessian = mixture.boxes.score_and_hessian(mixture.tau, weight, curvature)
            score = score + weight @ mixture.prior_scores()
            if curvature != "none":
                hessian = hessian + mixture.at.prior_hessian(weight)
            return Evaluation(loglik, score, hessian)
        parts = [mixture.weighted(m, curvature) for m in range(number)]
        slopes = [mixture.at.slope(m) for m in range(number)]
        score = weight @ mixture.prior_scores()
        for part, slope in zip(parts, slopes, strict=True):
            score += part.score @ slope
        if curvature == "none":
            return Evaluation(loglik, score, np.zeros((1, 1)))
        hessian = mixture.at.prior_hessian(weight)
        for part, slope in zip(parts, slopes, strict=True):
            hessian += slope.T @ part.hessian @ slope
        if curvature == "exact":
            hessian += mixture.at.bend(np.array([part.score for part in parts]))
            mean = np.zeros((len(weight), len(natural)))
            for m in range(number):
                scores, share = mixture.group_score(m), mixture.tau[:, m]
                mean += scores * share[:, None]
                hessian += scores.T @ (scores * (weight * share)[:, None])
            hessian -= mean.T @ (mean * weight[:, None])
        return Evaluation(loglik, score, hessian)

    def rows(self, natural: Array, batch: Batch) -> MixedRows:
        return MixedRows(self.problem, natural, batch)

    def noise_of(self, natural: Array, normal: Array) -> Array:
        """Return the normal numbers: given what people share, noise is independent and normal."""
        del natural
        return normal

    def draw_noise(self, natural: Array, n_rows: int, rng: Generator) -> Array:
        # What people share is drawn with the outcomes, once.
        return self.noise_of(natural, rng.standard_normal((n_rows, len(self.problem.layout.sizes))))

    def draw(self, natural: Array, rows: Rows, noise: Array, rng: Generator) -> Latent:
        # The rows of a person share what is drawn.
        recorded = rows
        order = np.arange(len(rows))
        if self.problem.grouped and rows.groups is not None:
            order = np.argsort(rows.groups, kind="stable")
        else:
            rows = replace(rows, groups=None)
        rows = rows.take(order)
        batch = Batch(rows, Observation.of_nothing(len(rows)))
        at = self.components.at(natural, batch, rows.group_starts)
        back = np.argsort(order)
        latent, costs = (one[back] for one in draw_given_shared(at, noise[order], rng))
        return Latent(latent, partial(draw_rows, self.problem, recorded, latent, costs, rng))

    def obstacles(self, rows: Rows) -> Array:
        return self.inner.obstacles(rows)

    def why_not_drawn(self, obstacles: Array) -> str | None:
        return self.inner.why_not_drawn(obstacles)


@dataclass(frozen=True, eq=False)
class _Mixture:
    """The groups of a batch, mixed at natural parameters."""

    likelihood: Mixed
    natural: Array
    batch: Batch

    @cached_property
    def starts(self) -> Indices | None:
        """Where groups begin; None where each row is one."""
        return self.batch.rows.group_starts

    @cached_property
    def sizes(self) -> Indices:
        """(G,) rows of each group."""
        if self.starts is None:
            return np.ones(len(self.batch), dtype=np.intp)
        return np.diff(np.append(self.starts, len(self.batch)))

    @cached_property
    def weight(self) -> Array:
        """(G,) weight of each group: that of its rows, which all have the same."""
        weights = self.batch.rows.weights
        if weights is None:
            return np.ones(len(self.sizes))
        return weights if self.starts is None else np.asarray(weights[self.starts])

    @cached_property
    def at(self) -> TypesAt | ShocksAt:
        """The types, or the nodes of a shock."""
        return self.likelihood.components.at(self.natural, self.batch, self.starts)

    @cached_property
    def rows(self) -> list[RowTerms]:
        """What rows say under each type."""
        return [
            self.likelihood.inner.rows(self.at.inner(m), self.at.rows_of(m))
            for m in range(self.at.number)
        ]

    @cached_property
    def boxes(self) -> BoxTypes | None:
        """The rows where alternatives are independent given a type; None elsewhere."""
        problem, at = self.likelihood.problem, self.at
        product = isinstance(self.likelihood.inner, Boxes) and problem.equations.types is None
        if not (product and isinstance(at, TypesAt)):
            return None
        return BoxTypes(at, self.batch, self.starts)

    @property
    def fused(self) -> bool:
        """Whether the compiled kernel of types serves these rows."""
        bounded = self.batch.observation.upper is not None
        return self.batch.backend == "fused" and self.boxes is not None and not bounded

    @cached_property
    def _mixed(self) -> tuple[Array, Array]:
        each = (
            np.column_stack([one.loglik for one in self.rows])
            if self.boxes is None
            else self.boxes.loglik
        )
        loglik, tau = mix_groups(self.at.log_prior, grouped_sum(each, self.starts))
        # A group of weight zero may have no likelihood, and no chances.
        return loglik, np.where((self.weight[:, None] > 0) | np.isfinite(tau), tau, 0.0)

    @property
    def loglik(self) -> Array:
        """(G,) log-likelihood of each group."""
        return self._mixed[0]

    @property
    def tau(self) -> Array:
        """(G, M) chance of each type given the rows of the group."""
        return self._mixed[1]

    def by_row(self, values: Array) -> Array:
        """Repeat what groups have (G, ...) for their rows."""
        return values if self.starts is None else np.repeat(values, self.sizes, axis=0)

    def weighted(self, m: int, curvature: Curvature) -> Evaluation:
        """Evaluate the rows under a type, each as far as it has it."""
        given = self.at.rows_of(m)
        rows = replace(given.rows, weights=self.by_row(self.weight * self.tau[:, m]))
        batch = Batch(rows, given.observation, given.backend, given.start)
        wanted: Curvature = "exact" if curvature != "none" else "none"
        return self.likelihood.inner.evaluate(self.at.inner(m), batch, wanted)

    def group_score(self, m: int) -> Array:
        """Return the score (G, n_natural) of every group under a type."""
        own = grouped_sum(self.rows[m].score, self.starts) @ self.at.slope(m)
        away = -np.exp(self.at.log_prior)
        away[:, m] += 1.0
        self.at.add_prior_scores(own, np.broadcast_to(away, self.tau.shape))
        return own

    def prior_scores(self) -> Array:
        """Return the scores (G, n_natural) of the weights of types."""
        scores = np.zeros((len(self.weight), len(self.natural)))
        self.at.add_prior_scores(scores, self.tau - np.exp(self.at.log_prior))
        return scores


@dataclass(frozen=True, eq=False)
class MixedRows(RowTerms):
    """What rows say as members of groups whose type is not known."""

    @cached_property
    def mixture(self) -> _Mixture:
        """The groups."""
        likelihood = self.problem.likelihood
        assert isinstance(likelihood, Mixed)
        return _Mixture(likelihood, self.natural, self.batch)

    @cached_property
    def types(self) -> Array:
        """(n, M) chance of each type, given all rows of the group."""
        return self.mixture.by_row(self.mixture.tau)

    def people(self) -> Array:
        """Return the expected weight (M,) of the groups of each type."""
        mixture = self.mixture
        if mixture.fused and isinstance(mixture.at, TypesAt):
            return fused_people(mixture.at, self.batch, mixture.starts)
        return np.asarray(mixture.weight @ mixture.tau)

    def visits(self, weights: Array) -> Array:
        """Return the expected weight (M, k) of rows in which each type chose each alternative."""
        share = self.types * weights[:, None]
        both = zip(self.mixture.rows, share.T, strict=True)
        return np.array([one @ terms.chance for terms, one in both])

    @property
    def loglik(self) -> Array:
        """(n,) log-likelihood of the groups, shared evenly by their rows."""
        mixture = self.mixture
        return mixture.by_row(mixture.loglik / mixture.sizes)

    @property
    def chance(self) -> Array:
        return self._averaged([one.chance for one in self.mixture.rows])

    @property
    def residual(self) -> Array:
        return self._averaged(self._residuals)

    @cached_property
    def _residuals(self) -> list[Array]:
        """(n, k) mean noise of each type, its shift included."""
        at, layout = self.mixture.at, self.problem.layout
        h = self.natural[layout.inverse_scale_positions]
        return [one.residual + h * at.shift(m) for m, one in enumerate(self.mixture.rows)]

    @property
    def score(self) -> Array:
        """(n, n_natural) scores; that of the weights is shared evenly by the rows of a group."""
        mixture = self.mixture
        if mixture.boxes is not None:
            scores = mixture.boxes.row_scores(self.types)
        else:
            slopes = map(mixture.at.slope, range(mixture.at.number))
            both = zip(mixture.rows, slopes, strict=True)
            scores = self._averaged([one.score @ slope for one, slope in both])
        of_weights = mixture.prior_scores() / mixture.sizes[:, None]
        return np.asarray(scores + mixture.by_row(of_weights))

    @property
    def hermite(self) -> Array:
        """(5, n, m) means of each alternative's own noise, and behind them those of a shock.

        A shock is one of a person: its means are shared evenly by the person's rows.
        """
        mixture = self.mixture
        found = np.zeros((ORDERS, len(self.batch), self.problem.equations.n_alternatives))
        for one, share in zip(mixture.rows, self.types.T, strict=True):
            found += one.hermite * share[:, None]
        if isinstance(mixture.at, TypesAt):
            return found
        shock = np.einsum("rpm,pm->rp", hermite_values(mixture.at.nodes), mixture.tau)
        shock = mixture.by_row((shock / mixture.sizes).T).T
        return np.concatenate([found, shock[:, :, None]], axis=2)

    @property
    def products(self) -> Array:
        return self._averaged([one[:, :, None] * one[:, None, :] for one in self._residuals])

    def _averaged(self, each: list[Array]) -> Array:
        """Average what types say, (n, ...) each, by their chances."""
        total = np.zeros_like(each[0])
        for one, share in zip(each, self.types.T, strict=True):
            total += one * share.reshape(-1, *(1,) * (one.ndim - 1))
        return total
