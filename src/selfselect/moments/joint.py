"""Moments over all outcomes, and of two or three normal ones in closed form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.kernels.known_index import MAYBE
from selfselect.kernels.orthants import log_bivariate_cdf
from selfselect.likelihoods.pieces import noise_covariance, pieces_of, residuals_of
from selfselect.moments.base import (
    NEGLIGIBLE,
    Expectations,
    Moments,
    as_cells,
    costs_of_rows,
    covariance_of_rows,
    latent_means,
    with_outcome,
)
from selfselect.noises.shapes.normal import SHAPE as NORMAL
from selfselect.problem.batch import Batch, Observation
from selfselect.problem.problem import Problem
from selfselect.rules import direction_of
from selfselect.threads import parallel_map

Array = NDArray[np.float64]


# Moments where noise or estimated costs make the alternatives of a row depend on each other.
#
# A row of which nothing was recorded is the sum of all atoms there are: their weights add up to
# one, and those of an alternative to the chance that it is chosen. Derivatives are central
# differences: in the mean of every alternative, from which those in coefficients follow by the
# chain rule, and in every other parameter.


AT_ONCE = 128
"""Rows whose expectations are integrated at once: each has some hundred atoms."""

STEP = 1e-4
"""Step of the differences, in scales of the noise or by how much a free parameter moves what is
reported."""

DRAWS = 128
"""Points of simulated chances, which are averaged over rows."""


@dataclass(frozen=True, eq=False)
class JointMoments(Moments):
    """Moments by quadrature over the atoms of a row."""

    quick: ClassVar[bool] = False

    def expectations(
        self, reported: Array, rows: Rows, *, shift: Array | None = None
    ) -> Expectations:
        here = replace(self.problem, rule=self.rule)
        natural = here.layout.natural(here.layout.read(reported))
        return joint_expectations(here, natural, rows, shift=shift)

    def cells(self, reported: Array, rows: Rows) -> Array:
        return self._shifted_cells(reported, rows, None)

    def _shifted_cells(self, reported: Array, rows: Rows, shift: Array | None) -> Array:
        """Return the cells where `shift` (k,) is added to the latent means."""
        found = self.of_averages().expectations(reported, rows, shift=shift)
        means = latent_means(self.problem, reported, rows, shift=shift)
        outcome = np.nan_to_num(found.given_seen) * found.chance[:, None, :]
        return as_cells(np.concatenate([found.chance[:, None, :], outcome], axis=1), means)

    def of_averages(self) -> Moments:
        noise = self.problem.noise
        points = noise.points(self.problem.equations.n_alternatives)
        if points is not None and not points.alike:
            noise = noise.with_points(min(points.number, DRAWS))
        return replace(self, problem=replace(self.problem, noise=noise))

    def cells_and_slope(self, reported: Array, rows: Rows, weights: Array) -> tuple[Array, Array]:
        problem = self.problem
        layout, k = problem.layout, problem.equations.n_alternatives
        scales = layout.central_scales(reported)
        slope = np.zeros((2 * k + 2 * k * k, len(reported)))
        of_coefficients: set[int] = set()
        for j, (equation, where) in enumerate(
            zip(problem.equations.each, layout.reported_places, strict=True)
        ):
            shift = np.zeros(k)
            shift[j] = STEP * scales[j]
            ends = [self._shifted_cells(reported, rows, way * shift) for way in (1, -1)]
            by_mean = (ends[0] - ends[1]) / (2.0 * shift[j]) * weights[:, None]
            for column, position in zip(equation.columns, where, strict=True):
                if position < 0:
                    continue  # An offset has no coefficient that could be off.
                values = np.ones(len(rows)) if column == 0 else rows.covariates[:, column - 1]
                slope[:, position] += values @ by_mean
                of_coefficients.add(int(position))
        # In the user's units: an outcome may be counted in millions, or in millionths.
        sizes = np.linalg.norm(layout.report(layout.read(reported)).jacobian, axis=1)
        for position in set(range(len(reported))) - of_coefficients:
            step = STEP * sizes[position]
            ends = []
            for way in (step, -step):
                moved = reported.copy()
                moved[position] += way
                ends.append(weights @ self.cells(moved, rows))
            slope[:, position] = (ends[0] - ends[1]) / (2.0 * step) if step else 0.0
        return self.cells(reported, rows), slope


def joint_expectations(
    problem: Problem, natural: Array, rows: Rows, *, shift: Array | None = None
) -> Expectations:
    """Integrate over the latent outcomes of rows of which nothing was recorded.

    `shift` (k,) or (n, k) is added to all means, in the user's units.
    """
    central = natural[problem.layout.inverse_scale_positions]
    moved = np.zeros(problem.equations.n_alternatives) if shift is None else shift
    moved = np.atleast_2d(moved / problem.units.outcome_unit)
    n_rows, k = len(rows), problem.equations.n_alternatives
    h = problem.inverse_scales(natural, rows)
    covariance = noise_covariance(problem, natural)
    chance, given = np.empty((n_rows, k)), np.empty((n_rows, k, k))
    problem = replace(problem, partial=True)
    blank = replace(
        rows,
        outcome=np.full(n_rows, np.nan),
        chosen=np.full(n_rows, -1),
        between=None,
        possible=None,
    )
    nothing = Observation(np.full((n_rows, k), MAYBE, dtype=np.int8), np.zeros((n_rows, k)))
    whole = Batch(blank, nothing, "joint")

    def fill(at: int) -> None:
        here = slice(at, at + AT_ONCE)
        part = whole.take(here)
        shifted = moved if len(moved) == 1 else moved[here]
        (piece,) = pieces_of(problem, natural, part, curvature=False, moved=shifted)
        atoms = piece.atoms
        location = problem.locations(natural, problem.designs(part.rows))
        means = (location / central + shifted)[atoms.row]
        noise = residuals_of(problem, piece, covariance)
        noise = noise / (h if len(h) == 1 else h[here][atoms.row])
        outcome = problem.units.outcome_shift + problem.units.outcome_unit * (means + noise)
        place = atoms.row * k + atoms.chosen
        size = len(part) * k
        share = np.bincount(place, piece.share, size).reshape(-1, k)
        chance[at : at + len(part)] = share
        for m in range(k):
            total = np.bincount(place, piece.share * outcome[:, m], size).reshape(-1, k)
            with np.errstate(divide="ignore", invalid="ignore"):
                given[at : at + len(part), m] = np.where(share < NEGLIGIBLE, np.nan, total / share)

    for _ in parallel_map(fill, range(0, n_rows, AT_ONCE)):
        pass
    return with_outcome(chance, given)


# Moments of two jointly normal outcomes, in closed form.
#
# The first of two is chosen where :math:`D = \pm(y_1 - y_2) - (c_1 - c_2)` is positive, a normal
# number with mean d and standard deviation s. With :math:`\delta = d/s`,
#
# .. math:: P(1) = \Phi(\delta), \qquad
#    E[y_l; 1] = \mu_l \Phi(\delta) + \frac{\mathrm{cov}(y_l, D)}{s} \phi(\delta).


NO_SPREAD = 1e-12
"""Variance of the difference of two noises, over the sum of theirs, that is taken for none."""


@dataclass(frozen=True, eq=False)
class PairMoments(JointMoments):
    """Two alternatives, jointly normal noise, the largest or smallest outcome net of costs."""

    quick: ClassVar[bool] = True

    def expectations(
        self, reported: Array, rows: Rows, *, shift: Array | None = None
    ) -> Expectations:
        way = direction_of(self.rule)
        assert way is not None
        means = latent_means(self.problem, reported, rows, shift=shift)
        covariance = covariance_of_rows(self.problem, reported, rows)
        net = way * means - costs_of_rows(self.problem, reported, rows)
        both = covariance[:, 0, 0] + covariance[:, 1, 1]
        # A step of a numerical derivative may take a correlation at its boundary beyond one.
        spread = np.sqrt(np.maximum(both - 2.0 * covariance[:, 0, 1], NO_SPREAD * both))
        delta = (net[:, 0] - net[:, 1]) / spread
        chance = np.stack([NORMAL.cdf(delta), NORMAL.cdf(-delta)], axis=1)
        # cov(y_l, D)/s times the density, which is what the mean of y_l gains where D is positive.
        gain = way * (covariance[:, :, 0] - covariance[:, :, 1]) / spread[:, None]
        gain = gain * NORMAL.pdf(delta)[:, None]
        available = rows.known.available
        if available is not None:
            alone = ~available.all(axis=1)
            chance[alone], gain[alone] = available[alone], 0.0
        given = np.full((len(rows), 2, 2), np.nan)
        for chosen, sign in ((0, 1.0), (1, -1.0)):
            likely = chance[:, chosen] >= NEGLIGIBLE
            added = sign * gain[likely] / chance[likely][:, [chosen]]
            given[likely, :, chosen] = means[likely] + added
        return with_outcome(chance, given)

    def of_averages(self) -> Moments:
        return self


# Moments of three jointly normal outcomes, in closed form.
#
# Alternative j is chosen where its differences from the other two, net of costs,
# :math:`D_i = \pm(y_j - y_i) - (c_j - c_i)`, are both positive: two normal numbers with means
# :math:`d_i`, standard deviations :math:`s_i` and correlation r. With :math:`\delta_i = d_i/s_i`,
#
# .. math:: P(j) = \Phi_2(\delta_1, \delta_2; r), \qquad
#    E[y_l; j] = \mu_l P(j) + \sum_i \frac{\mathrm{cov}(y_l, D_i)}{s_i} \phi(\delta_i)\,
#    \Phi\Big(\frac{\delta_{i'} - r \delta_i}{\sqrt{1 - r^2}}\Big),
#
# where :math:`i'` is the other of the two (Tallis 1961).


FAR = 40.0
"""Standard deviations by which any other alternative is ahead of one that is not available."""


@dataclass(frozen=True, eq=False)
class TripleMoments(PairMoments):
    """Three alternatives, jointly normal noise of one covariance for all rows."""

    def expectations(
        self, reported: Array, rows: Rows, *, shift: Array | None = None
    ) -> Expectations:
        way = direction_of(self.rule)
        assert way is not None
        means = latent_means(self.problem, reported, rows, shift=shift)
        (covariance,) = covariance_of_rows(self.problem, reported, rows)
        net = way * means - costs_of_rows(self.problem, reported, rows)
        chance = np.empty((len(rows), 3))
        given = np.full((len(rows), 3, 3), np.nan)
        for chosen in range(3):
            chance[:, chosen], gain = self._of(chosen, net, covariance, way, rows)
            likely = chance[:, chosen] >= NEGLIGIBLE
            added = gain[likely] / chance[likely][:, [chosen]]
            given[likely, :, chosen] = means[likely] + added
        return with_outcome(chance, given)

    def _of(
        self, chosen: int, net: Array, covariance: Array, way: float, rows: Rows
    ) -> tuple[Array, Array]:
        """Return the chance (n,) of an alternative, and what outcomes gain (n, 3) from its choice.

        `covariance` is that of the outcomes; `way` is 1 where the largest is chosen, else -1.
        """
        others = [j for j in range(3) if j != chosen]
        # Covariances of the outcomes with the two differences, and of these with each other.
        along = way * (covariance[:, [chosen]] - covariance[:, others])
        between = way * (along[[chosen]] - along[others])
        # A step of a numerical derivative may take them beyond what is possible, as of two.
        spread = np.sqrt(np.maximum(np.diag(between), NO_SPREAD * np.trace(covariance)))
        r = float(np.clip(between[0, 1] / spread.prod(), NO_SPREAD - 1.0, 1.0 - NO_SPREAD))
        delta = (net[:, [chosen]] - net[:, others]) / spread
        available = rows.known.available
        if available is not None:
            delta = np.where(available[:, others], delta, FAR)
        chance = np.exp(log_bivariate_cdf(delta[:, 0], delta[:, 1], r))
        left = np.sqrt(1.0 - r * r)
        edge = NORMAL.pdf(delta) * NORMAL.cdf((delta[:, ::-1] - r * delta) / left)
        gain = edge @ (along / spread).T
        if available is not None:
            chance, gain = chance * available[:, chosen], gain * available[:, [chosen]]
        return chance, gain
