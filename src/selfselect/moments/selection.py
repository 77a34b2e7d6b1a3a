"""Moments under a selection equation, and of one outcome where it is selected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.errors import UnsupportedError
from selfselect.kernels.tails import INV_SQRT_TWO_PI, interval_terms, log_cdf, mills_terms, ndtr
from selfselect.moments.base import (
    Expectations,
    Moments,
    as_cells,
    latent_means,
    normal_exponentials,
)
from selfselect.noises.selection import SelectionCovariance

Array = NDArray[np.float64]


# Moments of outcomes that a selection equation selects, in closed form.
#
# With the index :math:`m = z'\gamma`, u standard normal, and :math:`c_l` the covariance of outcome
# l's noise with u, alternative g is chosen where :math:`-a < u \le -b`. Beyond one cut point at
# zero :math:`a = m` and :math:`b = -\infty`, or :math:`a = \infty` and :math:`b = m`; ordered
# alternatives have m less the cut points below and above them.
#
# .. math:: P(g) = \Phi(a) - \Phi(b), \qquad
#    E[y_l; g] = \mu_l P(g) + c_l [\phi(a) - \phi(b)].
#
# One outcome alone (sample selection) has one alternative; its chance is that of being selected.

Ends = tuple[int | None, int | None]


@dataclass(frozen=True, eq=False)
class SelectionMoments(Moments):
    """Chances by the index alone, and means by Mills ratios."""

    @property
    def groups(self) -> tuple[Ends, ...]:
        """The cut points of the groups that means are given for: one outcome alone has a second."""
        if self.rule != self.problem.ordered_rule:
            raise UnsupportedError(
                "A selection equation selects by its own index. What another rule would select "
                "depends on the correlation of the outcomes, and no row shows two of them."
            )
        found: tuple[Ends, ...] = self.rule.intervals(self.problem.equations.alternatives)
        return found if len(found) > 1 else (found[0], found[0][::-1])

    def ends(self, reported: Array, rows: Rows) -> list[_Group]:
        """Return the ends of every group, in rows."""
        index, selection = self.index(reported, rows), self.problem.equations.selection
        assert selection is not None
        cuts = self.problem.layout.selection_of(reported)[selection.n_slopes :]
        beyond = [index - cut for cut in cuts] if selection.n_cuts else [index]
        return [
            _Group(
                None if lower is None else beyond[lower], None if upper is None else beyond[upper]
            )
            for lower, upper in self.groups
        ]

    def index(self, reported: Array, rows: Rows) -> Array:
        """Return the index m (n,) of rows."""
        selection = self.problem.equations.selection
        assert selection is not None
        index = np.zeros(len(rows))
        coefficients = self.problem.layout.selection_of(reported)
        # Cut points stand behind all that the index is made of.
        both = zip(selection.columns[: selection.n_slopes], coefficients, strict=False)
        for column, coefficient in both:
            index += coefficient if column == 0 else coefficient * rows.covariates[:, column - 1]
        return index

    def with_selection(self, reported: Array) -> SelectionCovariance:
        """Return covariances of the outcomes' noises with that of the selection."""
        layout = self.problem.layout
        noise: Any = self.problem.noise
        found: SelectionCovariance = noise.with_selection(
            layout.scales_of(reported), layout.extras_of(reported)
        )
        return found

    def expectations(
        self, reported: Array, rows: Rows, *, shift: Array | None = None
    ) -> Expectations:
        """Integrate over the latent outcomes of rows, at reported parameters.

        `shift` (k,) is added to the means of the outcomes, which the index does not see. With one
        alternative `outcome` is the mean where it is selected, and `given_seen` (n, 1, 2)
        has a second group: the rows that are not selected.
        """
        means = latent_means(self.problem, reported, rows, shift=shift)
        k, groups = means.shape[1], self.ends(reported, rows)
        noise = np.column_stack([group.mean() for group in groups])
        covariance = self.with_selection(reported).value
        given = means[:, :, None] + covariance[:, None] * noise[:, None, :]
        chance = np.column_stack([group.chance() for group in groups[:k]])
        if k == 1:
            return Expectations(chance, given[:, 0, 0], given)
        return Expectations(chance, (chance * np.einsum("nll->nl", given)).sum(axis=1), given)

    def exponentials(
        self, reported: Array, rows: Rows, rate: float, *, shift: Array | None = None
    ) -> Array:
        variances = self.problem.layout.scales_of(reported) ** 2
        means = latent_means(self.problem, reported, rows, shift=shift)
        return normal_exponentials(means, variances, rate)

    def weighed_chances(self, reported: Array, rows: Rows, rate: float) -> Array:
        """Return by how much the chance of each group grows (n, k, groups) if y_l is weighed.

        It is E[e^(c y_l) | group] over E[e^(c y_l)], with `rate` c.
        """
        covariance, groups = self.with_selection(reported).value, self.ends(reported, rows)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio: Array = np.exp(
                np.stack(
                    [
                        np.column_stack([group.moved(rate * c).log_mass() for c in covariance])
                        - group.log_mass()[:, None]
                        for group in groups
                    ],
                    axis=2,
                )
            )
        return ratio

    def cells(self, reported: Array, rows: Rows) -> Array:
        means = latent_means(self.problem, reported, rows)
        groups = self.ends(reported, rows)[: means.shape[1]]
        chance = np.column_stack([group.chance() for group in groups])
        lift = np.column_stack([group.lift() for group in groups])
        covariance = self.with_selection(reported).value
        outcome = means[:, :, None] * chance[:, None, :] + covariance[:, None] * lift[:, None, :]
        return as_cells(np.concatenate([chance[:, None, :], outcome], axis=1), means)

    def cells_and_slope(self, reported: Array, rows: Rows, weights: Array) -> tuple[Array, Array]:
        problem, layout = self.problem, self.problem.layout
        means, own = latent_means(problem, reported, rows), self.with_selection(reported)
        k = means.shape[1]
        groups, intervals = self.ends(reported, rows)[:k], self.groups[:k]
        chance = np.column_stack([group.chance() for group in groups])
        lift = np.column_stack([group.lift() for group in groups])
        slope = np.zeros((2 * k + 2 * k * k, len(reported)))
        selection = problem.equations.selection
        assert selection is not None
        places = layout.reported_extras[-len(selection.terms) :]
        of_index = np.zeros((len(rows), len(slope)))
        for way, of_group in (("lower", _Group.by_lower), ("upper", _Group.by_upper)):
            for g, (group, ends) in enumerate(zip(groups, intervals, strict=True)):
                cut = ends[0 if way == "lower" else 1]
                if cut is None:
                    continue
                by_chance, by_lift = (one[:, None] for one in of_group(group))
                moved = np.zeros((len(rows), 2 * k + 2 * k * k))
                moved[:, g] = by_chance[:, 0]
                outcomes = slice(k + g, k + k * k, k)
                moved[:, outcomes] = means * by_chance + own.value * by_lift
                moved[:, k + k * k + g : k + 2 * k * k : k] = means * by_chance
                of_index += moved
                if selection.n_cuts:
                    # What is beyond a cut point falls as that rises.
                    slope[:, places[selection.n_slopes + cut]] -= weights @ moved
        n_slopes = selection.n_slopes
        carry_to_coefficients(
            slope,
            of_index * weights[:, None],
            selection.columns[:n_slopes],
            places[:n_slopes],
            rows,
        )
        at_extras = layout.reported_extras[: layout.n_noise_extras]
        for j, equation in enumerate(problem.equations.each):
            # In its mean: both E[y_j; g] and E[x_j'w_j; g] by P(g), and the mean itself.
            of_mean = np.zeros((len(rows), slope.shape[0]))
            of_mean[:, k + j * k : k + (j + 1) * k] = chance
            of_mean[:, k + k * k + j * k : k + k * k + (j + 1) * k] = chance
            of_mean[:, k + 2 * k * k + j] = 1.0
            carry_to_coefficients(
                slope, of_mean * weights[:, None], equation.columns, layout.reported_places[j], rows
            )
            by_covariance = weights @ lift
            mine = slice(k + j * k, k + (j + 1) * k)
            slope[mine, layout.reported_scales[j]] += by_covariance * own.by_scale[j]
            # Several of the noise's parameters may be one and the same.
            for place, by_extra in zip(at_extras, own.by_extra[j], strict=True):
                slope[mine, place] += by_covariance * by_extra
        return self.cells(reported, rows), slope


def carry_to_coefficients(
    slope: Array, weighted: Array, columns: tuple[int, ...], places: NDArray[np.intp], rows: Rows
) -> None:
    """Add derivatives (n, q) in a linear predictor to those in its coefficients."""
    for column, place in zip(columns, places, strict=True):
        if place < 0:
            continue  # An offset's coefficient is given.
        values = np.ones(len(rows)) if column == 0 else rows.covariates[:, column - 1]
        slope[:, place] += values @ weighted


@dataclass(frozen=True, eq=False)
class _Group:
    """Rows (n,) in which a group lies between two ends: the index less each cut point.

    `lower` is that of the cut point below, and None where there is none.
    """

    lower: Array | None
    upper: Array | None

    def moved(self, by: float) -> _Group:
        """Return the same with another mean of the selection's noise."""
        return _Group(*(None if one is None else one + by for one in (self.lower, self.upper)))

    def chance(self) -> Array:
        """Return the chance to be between the ends."""
        if self.upper is None:
            return np.asarray(ndtr(self.lower))
        if self.lower is None:
            return np.asarray(ndtr(-self.upper))
        return np.exp(self.log_mass())

    def log_mass(self) -> Array:
        """Return its logarithm."""
        if self.upper is None or self.lower is None:
            return log_cdf(self._one_sided()[0])
        return interval_terms(self.upper, self.lower).log_mass

    def _one_sided(self) -> tuple[Array, float]:
        if self.upper is None:
            assert self.lower is not None
            return self.lower, 1.0
        return -self.upper, -1.0

    def mean(self) -> Array:
        """Return the mean of the selection's noise between the ends."""
        if self.upper is None or self.lower is None:
            end, sign = self._one_sided()
            return sign * mills_terms(end).ratio
        terms = interval_terms(self.upper, self.lower)
        return terms.upper_density - terms.lower_density

    def lift(self) -> Array:
        """Return that mean times the chance."""
        return _density(self.lower) - _density(self.upper)

    def by_lower(self) -> tuple[Array, Array]:
        """Return the derivatives of chance and lift in the end below."""
        assert self.lower is not None
        density = _density(self.lower)
        return density, -self.lower * density

    def by_upper(self) -> tuple[Array, Array]:
        """Return the derivatives of chance and lift in the end above."""
        assert self.upper is not None
        density = _density(self.upper)
        return -density, self.upper * density


def _density(a: Array | None) -> Any:
    """Evaluate the standard normal density; none where there is no end."""
    return 0.0 if a is None else INV_SQRT_TWO_PI * np.exp(-0.5 * a * a)


# Moments of one outcome that a selection equation selects, given that it is selected.
#
# The cells of a row hold :math:`E[y; s]`, the outcome where it is selected, times the chance of
# that. A row that is not selected has no observed outcome, so that :math:`E[y; s]` is no mean of
# anything, and depends on where outcomes are measured from. Here its place is taken by
#
# .. math:: E[y | s] = E[y; s] / P(s), \qquad
#    \partial E[y | s] = \frac{\partial E[y; s]}{P(s)} - \frac{E[y; s]}{P(s)^2} \partial P(s).


CHANCE, OUTCOME = 0, 1
"""Where the cells of one alternative have its chance, and its outcome where it is selected."""


@dataclass(frozen=True, eq=False)
class GivenSelectedMoments(Moments):
    """The moments of `inner`, of one alternative, with its mean given that it is selected."""

    inner: Moments

    def expectations(
        self, reported: Array, rows: Rows, *, shift: Array | None = None
    ) -> Expectations:
        return self.inner.expectations(reported, rows, shift=shift)

    def cells(self, reported: Array, rows: Rows) -> Array:
        return _divided(self.inner.cells(reported, rows))

    def cells_and_slope(self, reported: Array, rows: Rows, weights: Array) -> tuple[Array, Array]:
        cells, slope = self.inner.cells_and_slope(reported, rows, weights)
        given = _divided(cells)
        share = weights / _positive(cells[:, CHANCE])
        _, of_outcome = self.inner.cells_and_slope(reported, rows, share)
        _, of_chance = self.inner.cells_and_slope(reported, rows, share * given[:, OUTCOME])
        slope[OUTCOME] = of_outcome[OUTCOME] - of_chance[CHANCE]
        return given, slope


def _positive(chance: Array) -> Array:
    return np.maximum(chance, np.finfo(float).tiny)


def _divided(cells: Array) -> Array:
    given = cells.copy()
    given[:, OUTCOME] /= _positive(cells[:, CHANCE])
    return given
