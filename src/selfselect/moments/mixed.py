"""Moments over unobserved types, by simulation, and of levels where logarithms were modelled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.errors import UnsupportedError
from selfselect.likelihoods.components import Components, TypesAt
from selfselect.moments.base import (
    NEGLIGIBLE,
    Expectations,
    Moments,
    as_cells,
    latent_means,
    with_outcome,
)
from selfselect.moments.choose import moments_of
from selfselect.moments.selection import SelectionMoments, carry_to_coefficients
from selfselect.noises.shapes import Shape
from selfselect.problem.batch import Batch, Observation
from selfselect.rules import has_bounds
from selfselect.rules.base import RowData

Array = NDArray[np.float64]


# Moments where unobserved types differ: those of every type, averaged by their weights.
#
# Given its type a row has independent noise, and the moments of that. Weights are those before any
# row of a person is looked at, so that new rows and rows of the fit are treated alike.


@dataclass(frozen=True, eq=False)
class MixedMoments(Moments):
    """Moments by averaging over types."""

    @cached_property
    def components(self) -> Components:
        """The problem of one type."""
        return Components.of(self.problem)

    @cached_property
    def inner(self) -> Moments:
        """The moments of one type."""
        return moments_of(self.components.inner, self.rule)

    def check_cells(self) -> None:
        self.inner.check_cells()

    def expectations(
        self, reported: Array, rows: Rows, *, shift: Array | None = None
    ) -> Expectations:
        types = self.types(reported, rows)
        each = [self.inner.expectations(one, rows, shift=shift) for one in types.reported]
        found = average_expectations(each, types.chances)
        return self.without_unknown(found)

    def undetermined(self) -> NDArray[np.bool_]:
        """Say of every type (M, k) which outcomes the data do not determine.

        What people would have where they hardly ever are is known to nobody. Where the types to
        average over were named, theirs are taken as they are held.
        """
        noise: Any = self.problem.noise
        labels = self.problem.equations.alternatives
        found = np.zeros((noise.count, len(labels)), dtype=bool)
        if noise.averaged is None:
            for m, label, _ in noise.held_shifts:
                found[m, labels.index(label)] = True
        return found

    def without_unknown(self, found: Expectations) -> Expectations:
        """Take out what people would have where some types' outcomes are not determined."""
        for j in np.flatnonzero(self.undetermined().any(axis=0)):
            found.given_seen[:, j, np.arange(found.chance.shape[1]) != j] = np.nan
        return found

    def types(self, reported: Array, rows: Rows) -> TypesOfRows:
        """Return the types at reported parameters, with their chances in rows."""
        layout = self.problem.layout
        natural = layout.natural(layout.read(reported))
        batch = Batch(rows, Observation.of_nothing(len(rows)))
        return TypesOfRows(self.components, self.components.at(natural, batch, None))

    def latent(self, reported: Array, rows: Rows) -> Array:
        # Shifts add up to zero over everybody, not over rows whose covariates favour a type.
        types = self.types(reported, rows)
        each = [self.inner.latent(one, rows) for one in types.reported]
        return np.asarray(np.einsum("nm,mnk->nk", types.chances, np.array(each)))

    def cells(self, reported: Array, rows: Rows) -> Array:
        types = self.types(reported, rows)
        each = [
            self.inner.cells(one, rows) @ types.without_shift(m).T
            for m, one in enumerate(types.reported)
        ]
        return np.asarray(np.einsum("nm,mnq->nq", types.chances, np.array(each)))

    def cells_and_slope(self, reported: Array, rows: Rows, weights: Array) -> tuple[Array, Array]:
        layout, parts = self.problem.layout, self.components
        free = layout.read(reported)
        types = self.types(reported, rows)
        k, number = self.problem.equations.n_alternatives, types.at.number
        size = 2 * k + 2 * k * k
        slope = np.zeros((size, layout.n_natural))
        each = np.empty((number, len(rows), size))
        for m in range(number):
            own = weights * types.chances[:, m]
            values, slopes = self.inner.cells_and_slope(types.reported[m], rows, own)
            turn = types.without_shift(m)
            each[m] = values @ turn.T
            inner = parts.inner.layout.report(parts.inner.layout.gather(types.at.inner(m)))
            slope += turn @ slopes @ inner.jacobian @ types.at.slope(m)
            # A shift is taken off what covariates predict.
            chance = own @ values[:, :k]
            moves = types.at.values.shift_slopes[m] * self.problem.units.outcome_unit
            off = -np.einsum("le,g->lge", moves, chance).reshape(k * k, -1)
            slope[k + k * k : k + 2 * k * k, parts.at_types] += off
        average = np.einsum("nm,mnq->nq", types.chances, each)
        for m in range(1, number):
            pull = (weights * types.chances[:, m])[:, None] * (each[m] - average)
            slope[:, parts.at_types.start + m - 1] += pull.sum(axis=0)
            covariates = parts.weighing(rows, None)
            if covariates is not None:
                slope[:, parts.slopes_at[m - 1]] += pull.T @ covariates
        by_free = layout.pull_back_vector(slope, free)
        # More is reported than there are free parameters: any inverse will do. It is taken in units
        # of each, beside which no other is lost.
        jacobian = layout.report(free).jacobian
        units = np.sqrt((jacobian**2).sum(axis=1))
        units[units == 0] = 1.0
        return np.asarray(average), by_free @ (np.linalg.pinv(jacobian / units[:, None]) / units)


@dataclass(frozen=True, eq=False)
class TypesOfRows:
    """The types at some parameters, and their chances in rows."""

    components: Components
    at: TypesAt

    @cached_property
    def chances(self) -> Array:
        """(n, M) chance of each type, among those that are averaged over."""
        prior = np.exp(self.at.log_prior)
        noise: Any = self.components.problem.noise
        if noise.averaged is not None:
            kept = np.isin(np.arange(prior.shape[1]), noise.averaged)
            prior = np.where(kept, prior, 0.0)
            prior /= prior.sum(axis=1, keepdims=True)
        return np.broadcast_to(prior, (len(self.at.batch), prior.shape[1]))

    @cached_property
    def reported(self) -> list[Array]:
        """The reported parameters of the problem of each type."""
        layout = self.components.inner.layout
        return [
            layout.report(layout.gather(self.at.inner(m))).values for m in range(self.at.number)
        ]

    def without_shift(self, m: int) -> Array:
        """Return the matrix that takes a type's shift off what covariates predict, in cells."""
        shifts = self.at.values.shifts[m] * self.components.problem.units.outcome_unit
        k = len(shifts)
        turn = np.eye(2 * k + 2 * k * k)
        for j in range(k):
            at = k + k * k + j * k + np.arange(k)
            turn[at, np.arange(k)] -= shifts[j]
        return turn


def average_expectations(each: list[Expectations], chances: Any) -> Expectations:
    """Average what types expect by their chances (n, M)."""
    chance = sum(share[:, None] * one.chance for share, one in zip(chances.T, each, strict=True))
    outcome = sum(share * one.outcome for share, one in zip(chances.T, each, strict=True))
    total = sum(
        (share[:, None] * one.chance)[:, None, :] * np.nan_to_num(one.given_seen)
        for share, one in zip(chances.T, each, strict=True)
    )
    chance = np.asarray(chance)
    with np.errstate(divide="ignore", invalid="ignore"):
        given = np.where(chance[:, None, :] < NEGLIGIBLE, np.nan, total / chance[:, None, :])
    return Expectations(chance, np.asarray(outcome), given)


# Moments by simulation, for rules without bounds and noise of known correlation.


POINTS_LOG2 = 12
"""Sobol points per row, as a power of two: chances are then good to about a thousandth."""

ROWS_AT_ONCE = 64

SEED = 20220506
"""Of the scrambling. The points are the same for all rows, so that predictions differ only as
their rows do, and the same prediction comes out every time."""


@dataclass(frozen=True, eq=False)
class SimulatedMoments(Moments):
    """Averages over simulated latent outcomes; effects are refused."""

    smooth: ClassVar[bool] = False

    def expectations(
        self, reported: Array, rows: Rows, *, shift: Array | None = None
    ) -> Expectations:
        problem = self.problem
        means = latent_means(problem, reported, rows)
        return simulated_expectations(
            self.rule,
            means if shift is None else means + shift,
            problem.row_scales(reported, rows),
            problem.noise.margin,
            problem.noise.known_correlation(problem.equations.alternatives),
            rows.known,
        )

    def check_cells(self) -> NoReturn:
        if not has_bounds(self.rule):
            raise UnsupportedError(
                f"{type(self.rule).__name__} offers no `bounds`, and effects need box-shaped "
                "explaining sets. Give the rule a `bounds` method."
            )
        raise UnsupportedError(
            "Effects need noise other than KnownCovariance. Use predict(), which simulates, or "
            "noises.Correlated with fixed scales and correlations."
        )

    def cells(self, reported: Array, rows: Rows) -> Array:
        del reported, rows
        self.check_cells()

    def cells_and_slope(self, reported: Array, rows: Rows, weights: Array) -> tuple[Array, Array]:
        del reported, rows, weights
        self.check_cells()


def simulated_expectations(
    rule: Any,
    means: Array,
    scales: Array,
    shape: Shape,
    correlation: Array | None,
    known: RowData,
) -> Expectations:
    """Average over simulated latent outcomes: 4,096 quasi-random points per row.

    Parameters
    ----------
    rule : which alternative is chosen, in the order of the alternatives.
    means : (n, k) mean of every latent outcome.
    scales : (n, k) their scales, or (k,) where all rows have the same.
    shape : of the noise.
    correlation : (k, k) of the noise, or None.
    known : costs and availability.
    """
    # Imported here: scipy.stats takes half a second to load, which only such rules need.
    from scipy.stats import qmc

    scales = np.atleast_2d(scales)
    n_rows, k = means.shape
    uniform = qmc.Sobol(k, rng=np.random.default_rng(SEED)).random_base2(POINTS_LOG2)
    noise = shape.quantile(np.clip(uniform, 1e-12, 1.0 - 1e-12))
    if correlation is not None:
        noise = noise @ np.linalg.cholesky(correlation).T
    n_points = len(noise)
    chance, given = np.empty((n_rows, k)), np.full((n_rows, k, k), np.nan)
    for start in range(0, n_rows, ROWS_AT_ONCE):
        part = slice(start, min(start + ROWS_AT_ONCE, n_rows))
        size = part.stop - part.start
        wide = scales if len(scales) == 1 else scales[part]
        latent: Array = (means[part, None, :] + noise * wide[:, None, :]).reshape(-1, k)
        each = np.repeat(np.arange(part.start, part.stop), n_points)
        chosen = np.asarray(rule.choose(latent, known.take(each))).reshape(size, n_points)
        latent = latent.reshape(size, n_points, k)
        for j in range(k):
            mine = (chosen == j).astype(np.float64)
            count = mine.sum(axis=1)
            chance[part, j] = count / n_points
            with np.errstate(divide="ignore", invalid="ignore"):
                given[part, :, j] = np.einsum("np,npk->nk", mine, latent) / count[:, None]
    return with_outcome(chance, given)


# Moments of the outcome itself, where its logarithm was modelled.
#
# The mean of :math:`e^y` is not :math:`e^{E y}`. For normal noise, and mixtures of normals, it is
# known exactly: weighing a normal density by :math:`e^{c y_j}` gives one whose means are moved by
# c times the covariances with :math:`y_j`,
#
# .. math:: e^{cy_j}\,\phi(y; \mu, \Sigma) =
#    e^{c\mu_j + c^2\Sigma_{jj}/2}\,\phi(y; \mu + c\Sigma_{\cdot j}, \Sigma),
#
# so the mean of :math:`e^{c y_j}` among rows in which l is chosen is the constant before it times
# the chance of l with the means moved so, over its chance without.
#
# Smearing (averaging the exponentials of residuals) would be wrong here: the residuals that are
# observed are those of outcomes that were selected.


STEP = 1e-5
"""Of central differences in the parameters, in internal units."""


@dataclass(frozen=True)
class Logarithm:
    """A left side that is a logarithm.

    Attributes
    ----------
    level : what it is the logarithm of, as text.
    rate : c, where the level is e^(cy) less the offset.
    offset : one for log1p, else zero.
    """

    level: str
    rate: float
    offset: float

    def undo(self, outcomes: Array) -> Array:
        """Return the levels of modelled outcomes."""
        with np.errstate(over="ignore"):
            return np.exp(self.rate * outcomes) - self.offset


@dataclass(frozen=True, eq=False)
class LevelMoments(Moments):
    """Moments in which outcomes are levels; chances stay what they are.

    Attributes
    ----------
    logarithm : which one was modelled.
    """

    logarithm: Logarithm

    def latent(self, reported: Array, rows: Rows, *, shift: Array | None = None) -> Array:
        """Return the mean (n, k) of every outcome's level."""
        if self.problem.noise.mixed:
            # As the latent means are those of types whose outcomes are determined, so are these.
            known = ~MixedMoments(self.problem, self.rule).undetermined()
            each, chances = self._by_type(reported, rows)
            by_type = np.array([one.latent(values, rows, shift=shift) for one, values in each])
            shares = chances[:, :, None] * known
            return np.asarray(np.einsum("nmk,mnk->nk", shares, by_type) / shares.sum(axis=1))
        moments = moments_of(self.problem, self.rule)
        found = moments.exponentials(reported, rows, self.logarithm.rate, shift=shift)
        return found - self.logarithm.offset

    def expectations(
        self, reported: Array, rows: Rows, *, shift: Array | None = None
    ) -> Expectations:
        """Integrate over the latent outcomes of rows; `shift` is in units of the logarithm."""
        if self.problem.noise.selected:
            return self._selected(reported, rows, shift)
        if self.problem.noise.mixed:
            each, chances = self._by_type(reported, rows)
            found = [one.expectations(values, rows, shift=shift) for one, values in each]
            average = average_expectations(found, chances)
            return MixedMoments(self.problem, self.rule).without_unknown(average)
        moments, offset = moments_of(self.problem, self.rule), self.logarithm.offset
        chance = moments.chances(reported, rows, shift=shift)
        weighed = moments.weighed(reported, rows, self.logarithm.rate, shift=shift)
        with np.errstate(divide="ignore", invalid="ignore"):
            given = weighed / chance[:, None, :] - offset
        given[np.broadcast_to(chance[:, None, :] < NEGLIGIBLE, given.shape)] = np.nan
        return Expectations(chance, np.einsum("nll->n", weighed) - offset, given)

    def _by_type(
        self, reported: Array, rows: Rows
    ) -> tuple[list[tuple[LevelMoments, Array]], Array]:
        """Return the moments of every unobserved type at its parameters, and the types' chances."""
        mixed = MixedMoments(self.problem, self.rule)
        types = mixed.types(reported, rows)
        inner = replace(self, problem=mixed.components.inner)
        return [(inner, values) for values in types.reported], types.chances

    def _selected(self, reported: Array, rows: Rows, shift: Array | None) -> Expectations:
        """Return the same where a selection equation selects.

        Weighing by e^(cy) moves the mean of the selection's noise by c times its covariance with y.
        """
        moments, offset = SelectionMoments(self.problem, self.rule), self.logarithm.offset
        plain = moments.expectations(reported, rows)
        levels = self.latent(reported, rows, shift=shift) + offset
        ratio = moments.weighed_chances(reported, rows, self.logarithm.rate)
        given = levels[:, :, None] * ratio - offset
        if given.shape[1] == 1:
            return Expectations(plain.chance, given[:, 0, 0], given)
        own = np.einsum("nll->nl", given)
        return Expectations(plain.chance, (plain.chance * own).sum(axis=1), given)

    def check_cells(self) -> None:
        moments_of(self.problem, self.rule).check_cells()

    def of_averages(self) -> LevelMoments:
        return replace(self, problem=moments_of(self.problem, self.rule).of_averages().problem)

    def cells(self, reported: Array, rows: Rows) -> Array:
        self.check_cells()
        return self.of_averages()._shifted_cells(reported, rows)

    def _shifted_cells(self, reported: Array, rows: Rows, *, shift: Array | None = None) -> Array:
        """Return the cells where `shift` (k,) is added to the latent means of the logarithm."""
        found = self.expectations(reported, rows, shift=shift)
        means = self.latent(reported, rows, shift=shift)
        given = found.given_seen[:, :, : means.shape[1]]
        outcome = np.where(np.isnan(given), 0.0, given) * found.chance[:, None, :]
        return as_cells(np.concatenate([found.chance[:, None, :], outcome], axis=1), means)

    def cells_and_slope(self, reported: Array, rows: Rows, weights: Array) -> tuple[Array, Array]:
        layout, moments = self.problem.layout, self.of_averages()
        sizes = np.linalg.norm(layout.report(layout.read(reported)).jacobian, axis=1)
        here = self.cells(reported, rows)
        slope = np.zeros((here.shape[1], len(reported)))
        of_coefficients: set[int] = set()
        scales = layout.central_scales(reported)
        for j, (equation, where) in enumerate(
            zip(self.problem.equations.each, layout.reported_places, strict=True)
        ):
            shift = np.zeros(len(scales))
            shift[j] = STEP * scales[j]
            ends = [moments._shifted_cells(reported, rows, shift=way * shift) for way in (1, -1)]
            by_mean = (ends[0] - ends[1]) / (2.0 * shift[j]) * weights[:, None]
            carry_to_coefficients(slope, by_mean, equation.columns, where, rows)
            of_coefficients |= set(where.tolist())
        for place in set(range(len(reported))) - of_coefficients:
            step = STEP * sizes[place]
            up, down = reported.copy(), reported.copy()
            up[place] += step
            down[place] -= step
            difference = moments.cells(up, rows) - moments.cells(down, rows)
            slope[:, place] = weights @ difference / (2.0 * step) if step else 0.0
        return here, slope
