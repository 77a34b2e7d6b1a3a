"""Samples of a fitted model that are like the data: its clusters, weights and unrecorded outcomes.

Rows of a cluster share a part of their noise: as much as makes generalised residuals correlate as
they do in the data. Where clusters are people whose rows the model takes together, it says itself
what they share. Rows with probability weights were drawn unequally, and what they were drawn by
may be the outcome itself: then weights of the data say how weights go with outcomes, and outcomes
that were seldom drawn are seldom drawn again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.engines.base import Engine, Parts
from selfselect.engines.memory import Memory
from selfselect.inference.cluster_totals import cluster_totals
from selfselect.inference.dependence import Dependence
from selfselect.inference.moments import row_residuals
from selfselect.inference.simulation import draw_outcomes, write_out
from selfselect.likelihoods import Batch
from selfselect.problem.problem import Problem

__all__ = ["Samples", "Weighing", "intraclass_correlations"]

Array = NDArray[np.float64]

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
        return draw_outcomes(self.problem, self.natural, self.rows, self.noise(common, rng), rng)


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
