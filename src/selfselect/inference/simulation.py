"""Outcomes and samples drawn from a fit, and what a row says of its noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.engines.base import Engine
from selfselect.engines.memory import Memory, ungrouped
from selfselect.errors import DataError
from selfselect.inference.dependence import Dependence, cluster_totals
from selfselect.kernels.tails import ndtri
from selfselect.likelihoods import Batch, RowTerms, row_terms
from selfselect.likelihoods.base import Latent
from selfselect.problem.batch import Parts
from selfselect.problem.problem import Problem

Array = NDArray[np.float64]


# Outcomes drawn from a fitted model, for tests that ask it how far chance would go.

Indices = NDArray[np.intp]

MOST_ROWS = 20_000_000
"""Rows that weights may stand for and still be written out one by one."""


SIMULATED, BY_POINTS = 10_000, 3_000
"""Rows drawn to know the spread of what rows say of the noise; a test's statistic is then known to
some 2%. Fewer, and 4%, where a row takes many points of a quadrature or simulation."""


def why_no_draws(problem: Problem) -> str | None:
    """Say why the model cannot be asked by draws what rows say of its noise; None where it can."""
    if problem.noise.method != "ml":
        return "two-step estimates do not maximise a likelihood; use method='ml'"
    if problem.noise.sign_only:
        return "a binary outcome shows only one side of zero, which is not enough to test its noise"
    if problem.noise.selected and problem.partial:
        return "some outcomes are known only to lie between limits"
    if problem.likelihood.sampled:
        return "moments given a row have no closed form where explaining sets are not boxes"
    return None


def why_rows_are_not_drawn(problem: Problem, engine: Engine) -> str | None:
    """Say why outcomes cannot be drawn for these rows as theirs were recorded; None if they can."""
    if not problem.likelihood.has_obstacles:
        return None
    return problem.likelihood.why_not_drawn(engine.sum(partial(_obstacles, problem)))


def _obstacles(problem: Problem, batch: Batch) -> Array:
    return problem.likelihood.obstacles(batch.rows)


def simulate_rows(problem: Problem, engine: Engine, natural: Array) -> tuple[Rows, Array]:
    """Draw outcomes of the fitted model for rows of the engine, always the same ones.

    Returns the rows, and how much each counts for sums to stand for those of all rows: their own
    weights are not in it.
    """
    rng, k = np.random.default_rng(0), problem.equations.n_alternatives
    by_points = problem.noise.points(k) is not None and not problem.grouped
    size = BY_POINTS if by_points else SIMULATED
    part = ungrouped(problem, engine.sample(size, rng).rows)
    times = -(-size // len(part))
    each = np.arange(len(part))
    rows = part.copies(np.tile(each, times), np.repeat(np.arange(times), len(part)))
    normal, density = wide_noise(len(rows), problem.noise.n_noises(k), rng, rows.groups)
    drawn = draw_outcomes(problem, natural, rows, rng, normal=normal).record()
    return drawn, density * (engine.n_rows / len(rows))


def draw_outcomes(
    problem: Problem,
    natural: Array,
    rows: Rows,
    rng: Generator,
    *,
    noise: Array | None = None,
    normal: Array | None = None,
    times: int | None = None,
) -> Latent:
    """Draw outcomes of a model at the covariates of rows: all that draws asks this.

    Parameters
    ----------
    problem, natural, rows : the model, its parameters in internal units, and rows.
    rng : draws the noise, where it is not given, then what people share and what goes unrecorded.
    noise : (n, n_noises) in units of the scales.
    normal : (n, n_noises) standard normal numbers to make it of.
    times : how often each row is drawn, where noises are independent: outcomes are (times, n, k).
    """
    likelihood = problem.likelihood
    if normal is not None:
        noise = likelihood.noise_of(natural, normal)
    if noise is None:
        noise = likelihood.draw_noise(natural, len(rows) * (times or 1), rng)
    if times is not None:
        noise = noise.reshape(times, len(rows), -1)
    return likelihood.draw(natural, rows, noise, rng)


def why_no_redraw(problem: Problem, rows: Rows) -> str | None:
    """Say why whole samples cannot be drawn from a fitted model; None where they can."""
    if problem.noise.selected:
        assert rows.chosen is not None and rows.outcome is not None
        reason = problem.likelihood.why_not_drawn(problem.likelihood.obstacles(rows))
        if reason is not None:
            return reason
        if problem.noise.sign_only:
            return "of its outcomes only the side of zero is known"
        if (np.isnan(rows.outcome) & (rows.chosen >= 0)).any():
            return (
                "some selected outcomes were not recorded, and the model does not say in which rows"
            )
        return None
    if rows.between is not None or rows.possible is not None:
        return (
            "some outcomes are known to lie between limits, or some choices to be among a few, and "
            "the model does not say in which rows that happens"
        )
    if rows.chosen is not None and (rows.chosen < 0).any():
        return "some choices were not recorded, and the model does not say in which rows"
    return None


def redraw(problem: Problem, reported: Array, rows: Rows, rng: Generator) -> Rows:
    """Draw outcomes and choices of the fitted model at the covariates of rows.

    Where outcomes of an alternative were not recorded in some share of the rows that chose it, so
    it is in the rows that are drawn, at random.
    """
    natural = problem.layout.natural(problem.layout.read(reported))
    return draw_outcomes(problem, natural, rows, rng).record()


def wide_noise(
    n_rows: int, k: int, rng: Generator, groups: Indices | None = None
) -> tuple[Array, Array]:
    """Draw noise (n, k) that is wider than standard normal, and how much each row then counts.

    What decides the spread of a fourth moment lies three or four standard deviations out, where
    normal draws hardly come: wider ones, evenly spread in every dimension, know it to 2% with
    10,000 rows where as many normal ones are off by more than 10%. The rows of one of `groups`
    count together.
    """
    n_groups = n_rows if groups is None else len(np.unique(groups))
    width = 1.0 + 0.4 * min(1.0, 5.0 * n_groups / (k * n_rows))
    strata = np.column_stack([rng.permutation(n_rows) for _ in range(k)])
    z = width * ndtri((strata + rng.uniform(size=(n_rows, k))) / n_rows)
    log_density = 0.5 * (z * z).sum(axis=1) * (1.0 / width**2 - 1.0)
    if groups is not None:
        log_density = np.bincount(groups, log_density)[groups]
    density = np.exp(log_density - log_density.max())
    return z, density / density.mean()


def write_out(rows: Rows, weights_kind: str | None) -> Rows:
    """Write out rows that stand for several: each of them has noise of its own."""
    if weights_kind != "frequency" or rows.weights is None:
        return rows
    total = rows.weights.sum()
    if total > MOST_ROWS:
        raise DataError(
            f"The frequency weights stand for {total:.3g} rows, too many to draw each one's noise. "
            "Use replications=0, the asymptotic test."
        )
    counts = rows.weights.astype(np.intp)
    each = np.repeat(np.arange(len(rows)), counts)
    copy = np.arange(len(each)) - np.repeat(np.cumsum(counts) - counts, counts)
    return replace(rows.copies(each, copy), weights=None)


# Conditional moments of the noise: what a row says of its shape and spread, under any model.
#
# * *shape*: :math:`E[\mathrm{He}_r(z_j) \mid \text{row}]` of orders 3 and 4, where :math:`z_j` is
#   the noise of alternative j on the scale of its normal scores, the noise itself where it is
#   normal. They are the scores of skewness and kurtosis in a density :math:`\phi (1 + c_3
#   \mathrm{He}_3 + c_4 \mathrm{He}_4)` at zero.
# * *spread*: the score of :math:`\gamma` in :math:`\sigma_j e^{\gamma x}` at zero, which is the
#   score of the log scale times the covariate.
#
# Both average zero under the model, by definition; a likelihood's `RowTerms` know them.


Subject = Literal["normality", "heteroskedasticity"]
SUBJECTS: tuple[Subject, ...] = ("normality", "heteroskedasticity")


def noise_moments(problem: Problem, natural: Array, batch: Batch) -> dict[Subject, Array]:
    """Return what each row says against the shape (n, 2m), and against a constant variance.

    The first are skewness and kurtosis of every noise; the second, (n, p), its excess variance
    times each covariate of its equation that is assumed not to move its scale.
    """
    return moments_of(row_terms(problem, natural, batch))


def moments_of(terms: RowTerms) -> dict[Subject, Array]:
    """Return the same of rows whose terms are in hand."""
    problem, excess = terms.problem, terms.excess
    third, fourth = terms.hermite[3:]
    spread: list[Array] = []
    steady = steady_columns(problem)
    for j, (equation, columns) in enumerate(zip(problem.equations.each, steady, strict=True)):
        covariates = terms.designs[j].T
        spread += [covariates[equation.columns.index(one)] * excess[:, j] for one in columns]
    return {
        "normality": np.stack([third.T, fourth.T], axis=1).reshape(-1, len(third)).T,
        "heteroskedasticity": np.stack(spread).T if spread else np.empty((len(third), 0)),
    }


def steady_columns(problem: Problem) -> list[tuple[int, ...]]:
    """Return the covariates of each equation that are assumed not to move its scale.

    Those of its log scale have had their score set to zero by the estimate.
    """
    moved = [() if one is None else one.columns for one in problem.layout.spread_of]
    return [
        tuple(column for column in equation.columns if column and column not in own)
        for equation, own in zip(problem.equations.each, moved, strict=True)
    ]


def row_residuals(problem: Problem, natural: Array, batch: Batch) -> Array:
    """Return generalised residuals (n, m): E[z | row] of every noise's normal score."""
    return row_terms(problem, natural, batch).hermite[1]


# Samples of a fitted model that are like the data: its clusters, weights and unrecorded outcomes.
#
# Rows of a cluster share a part of their noise: as much as makes generalised residuals correlate
# as they do in the data. Where clusters are people whose rows the model takes together, it says
# itself what they share. Rows with probability weights were drawn unequally, and what they were
# drawn by may be the outcome itself: then weights of the data say how weights go with outcomes,
# and outcomes that were seldom drawn are seldom drawn again.


MOST_SHARED = 0.95
"""Largest intraclass correlation with which samples are drawn."""

ROUNDS, PER_ROUND = 2, 4
"""Rounds in which intraclass correlations are corrected, and samples drawn in each."""

CANDIDATES = 16
"""Outcomes drawn for a row of which one is kept, where the chance to be drawn differs."""

NEIGHBOURS = 20
"""Rows of the data, alike in what explains weights, of which one lends its weight to a draw."""


@dataclass(frozen=True, eq=False)
class Samples:
    """What every sample has in common.

    Attributes
    ----------
    problem, natural : the fitted model.
    rows : those of the data, written out where a weight counts rows.
    shared : (m,) intraclass correlation of every noise; None where there are no clusters, or
        the model says what their rows share.
    weighing : how weights go with outcomes; None where they are no probability weights.
    """

    problem: Problem
    natural: Array
    rows: Rows
    shared: Array | None = None
    weighing: Weighing | None = None

    @classmethod
    def like(
        cls, problem: Problem, engine: Engine, natural: Array, dependence: Dependence, seed: int
    ) -> Samples:
        """Find out what samples must have in common with the rows of an engine."""
        weighing = None
        if dependence.weights_kind == "probability":
            weighing = Weighing.of(problem, engine.rows)
        rows = write_out(engine.rows, dependence.weights_kind)
        made = cls(problem, natural, rows, None, weighing)
        if not dependence.clusters or dependence.by_person:
            return made
        found = intraclass_correlations(problem, engine, natural, dependence.weights_kind)
        return made.sharing(found, np.random.default_rng(seed))

    def sharing(self, found: Array, rng: Generator) -> Samples:
        """Return samples that show, on average, the intraclass correlations `found`."""
        shared = found
        for _ in range(ROUNDS):
            shown = np.zeros(len(found))
            for _ in range(PER_ROUND):
                drawn = replace(self, shared=shared).draw(rng)
                sample = Memory().load(self.problem, drawn)
                kind = None if self.weighing is None else "probability"
                each = intraclass_correlations(self.problem, sample, self.natural, kind)
                shown += each / PER_ROUND
            ratio = np.divide(found, shown, out=np.ones_like(found), where=shown > 0)
            shared = np.clip(shared * ratio, 0.0, MOST_SHARED)
        return replace(self, shared=shared)

    def draw(self, rng: Generator) -> Rows:
        """Return rows with outcomes of the model, and weights that go with them."""
        common = self.common(rng)
        rows = self._draw(common, rng)
        if self.weighing is None:
            return rows
        level = self.weighing.expected(rows)
        odds = 1.0 / level
        for _ in range(CANDIDATES - 1):
            other = self._draw(common, rng)
            own = self.weighing.expected(other)
            odds += 1.0 / own
            # One of all candidates stays, each by its chance to be drawn.
            taken = rng.uniform(size=len(odds)) * odds < 1.0 / own
            rows, level = _either(taken, other, rows), np.where(taken, own, level)
        assert self.rows.weights is not None
        # A row of weight zero counts for nothing, whatever is drawn for it.
        counted = self.rows.weights > 0
        return replace(rows, weights=np.where(counted, self.weighing.lend(level, rng), 0.0))

    def common(self, rng: Generator) -> Array | None:
        """Draw what rows of a cluster share, (n, m) standard normal; None for nothing."""
        if self.shared is None:
            return None
        assert self.rows.clusters is not None
        drawn = rng.standard_normal((self.rows.cluster_sizes[0], len(self.shared)))
        return np.asarray(drawn[self.rows.clusters])

    def noise(self, common: Array | None, rng: Generator) -> Array:
        """Draw standard normal numbers (n, m), of which rows of a cluster share a part."""
        n_noises = self.problem.noise.n_noises(self.problem.equations.n_alternatives)
        own = rng.standard_normal((len(self.rows), n_noises))
        if common is None or self.shared is None:
            return own
        return np.sqrt(self.shared) * common + np.sqrt(1.0 - self.shared) * own

    def _draw(self, common: Array | None, rng: Generator) -> Rows:
        normal = self.noise(common, rng)
        return draw_outcomes(self.problem, self.natural, self.rows, rng, normal=normal).record()


def _either(taken: NDArray[np.bool_], one: Rows, other: Rows) -> Rows:
    """Return rows with the outcomes of one where it is taken, else of the other."""
    assert one.outcome is not None and other.outcome is not None
    chosen = other.chosen
    if one.chosen is not None and chosen is not None:
        chosen = np.where(taken, one.chosen, chosen)
    return replace(other, outcome=np.where(taken, one.outcome, other.outcome), chosen=chosen)


@dataclass(frozen=True, eq=False)
class Weighing:
    """How the weights of the data go with its outcomes, choices and covariates.

    Log weights are regressed on them, and rows put in the order of what that explains.

    Attributes
    ----------
    centre, unit : of the outcome, by which its powers are taken.
    slopes : of the regression.
    explained : (n,) what it explains of each row's log weight, in order.
    weights : (n,) the weights in that order.
    local : (n,) means of weights that are next to each other.
    """

    n_alternatives: int
    centre: float
    unit: float
    slopes: Array
    explained: Array
    weights: Array
    local: Array

    @classmethod
    def of(cls, problem: Problem, rows: Rows) -> Weighing:
        """Learn it from rows with positive weights."""
        assert rows.outcome is not None and rows.weights is not None
        used = np.flatnonzero(rows.weights > 0)
        rows = rows.take(used)
        assert rows.outcome is not None and rows.weights is not None
        k, none = problem.equations.n_alternatives, np.empty(0)
        centre, unit = float(np.nanmean(rows.outcome)), float(np.nanstd(rows.outcome)) or 1.0
        made = cls(k, centre, unit, none, none, none, none)
        design = made._design(rows)
        slopes = np.asarray(np.linalg.lstsq(design, np.log(rows.weights), rcond=None)[0], float)
        explained = design @ slopes
        order = np.argsort(explained, kind="stable")
        weights = rows.weights[order]
        width = min(NEIGHBOURS, len(weights))
        counts = np.convolve(np.ones(len(weights)), np.ones(width), mode="same")
        local = np.convolve(weights, np.ones(width), mode="same") / counts
        return replace(made, slopes=slopes, explained=explained[order], weights=weights,
                       local=local)  # fmt: skip

    def _design(self, rows: Rows) -> Array:
        assert rows.outcome is not None
        lost = np.isnan(rows.outcome)
        # Beyond three standard deviations powers would run away from what the data shows.
        y = np.clip((np.where(lost, self.centre, rows.outcome) - self.centre) / self.unit, -3, 3)
        columns = [np.nan_to_num(rows.covariates), np.ones_like(y), y, y**2, y**3, lost]
        if rows.chosen is not None:
            picked = rows.chosen[:, None] == np.arange(self.n_alternatives)
            columns += [picked, picked * y[:, None]]
        return np.column_stack(columns)

    def expected(self, rows: Rows) -> Array:
        """Return the mean weight of rows of the data that are like each of these."""
        found = np.searchsorted(self.explained, self._design(rows) @ self.slopes)
        return self.local[np.minimum(found, len(self.local) - 1)]

    def lend(self, level: Array, rng: Generator) -> Array:
        """Return weights whose mean is at a level: each that of a row of the data, scaled to it."""
        donors = rng.integers(0, len(self.weights), len(level))
        return level * self.weights[donors] / self.local[donors]


def intraclass_correlations(
    problem: Problem, engine: Engine, natural: Array, weights_kind: str | None
) -> Array:
    """Return about how much every noise correlates between rows of a cluster, (m,).

    A generalised residual e is what a row says of its noise z, and E[e z] = E[e^2]. So to first
    order the product of two residuals of a cluster averages the correlation times that squared.
    Where rows of a cluster are alike in how much they say, that is too much by a sixth or so.
    """
    repeated = weights_kind != "probability"
    clusters, sums = engine.sum(partial(_residual_sums, problem, natural, repeated))
    totals = (clusters[0].totals ** 2).sum(axis=0)
    own, pairs = totals[:-1] - sums[0, :-1], totals[-1] - sums[0, -1]
    informed = sums[1, :-1] / sums[1, -1]
    if pairs <= 0.0:
        return np.zeros(len(own))
    return np.clip(own / (pairs * informed**2), 0.0, MOST_SHARED)


def _residual_sums(problem: Problem, natural: Array, repeated: bool, batch: Batch) -> Parts:
    """Sum residuals and ones by cluster; their squares as rows vary, and as rows count."""
    rows = batch.rows
    joined = np.column_stack([row_residuals(problem, natural, batch), np.ones(len(batch))])
    weights = np.ones(len(batch)) if rows.weights is None else rows.weights
    counted = weights @ joined**2
    varied = counted if repeated else weights**2 @ joined**2
    totals = cluster_totals(rows, joined * weights[:, None], rows.cluster_sizes)
    return Parts((totals, np.array([varied, counted])))
