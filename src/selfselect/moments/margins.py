"""Moments by quadrature over one outcome, with their derivatives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.moments._expectations import (
    NoiseMoments,
    chances,
    edges_of,
    expectations,
    moments_of_largest,
    nodes_of,
    of_largest,
    standardised,
)
from selfselect.moments.base import (
    Expectations,
    Moments,
    as_cells,
    costs_of_rows,
    latent_means,
    normal_exponentials,
)
from selfselect.noises.shapes import Shape
from selfselect.noises.shapes.normal import SHAPE as NORMAL
from selfselect.problem.problem import Problem
from selfselect.rules import direction_of, rank_of
from selfselect.rules.base import RowData

Array = NDArray[np.float64]


# Means of outcomes over those who chose each alternative, with exact derivatives.
#
# For alternative :math:`g` the partial moments of a row are :math:`P(g)`, the chance that it is
# chosen, and :math:`E[y_l; g] = E[y_l 1\{g \text{ is chosen}\}]`. All effects are made of their
# averages. The choice depends on the latent outcomes alone, so derivatives in their means and
# scales are moments too: with :math:`z_m = (y_m - \mu_m)/\sigma_m` and :math:`\psi = -f'/f` of the
# noise,
#
# .. math:: \frac{\partial}{\partial\mu_m} E[h(y)] = \frac{E[h(y) \psi(z_m)]}{\sigma_m}, \qquad
#    \frac{\partial}{\partial\sigma_m} E[h(y)] = \frac{E[h(y) (z_m\psi(z_m) - 1)]}{\sigma_m}.
#
# Between limits a and b the means of :math:`\psi`, :math:`z\psi - 1` and their products with z
# follow from densities at the limits, since :math:`f\psi = -f'`. For independent noise and
# box-shaped explaining sets every moment is an integral in one dimension. The largest and the
# smallest of normal outcomes have a kernel (`kernels.largest`); others are cut into pieces as in
# `_expectations`.


FREE = (0.0, 0.0, 1.0, 0.0, 0.0)
"""The `Powers` where nothing is known of z."""

STEP = 1e-4
"""Step, in scales, of the differences used where derivatives have no short form."""


@dataclass(frozen=True, eq=False)
class PartialMoments:
    """Partial moments of rows and their derivatives.

    Attributes
    ----------
    value : (n, 1 + k, k) the chance that g is chosen at [row, 0, g], and E[y_l; g] at
        [row, 1 + l, g].
    by_mean : (n, 1 + k, k, k) their derivatives in the mean of each alternative (last axis).
    by_scale : (n, 1 + k, k, k) their derivatives in the scale of each alternative.
    """

    value: Array
    by_mean: Array
    by_scale: Array


def partial_moments(
    rule: Any, means: Array, scales: Array, known: RowData, shapes: Sequence[Shape]
) -> PartialMoments:
    """Integrate over the latent outcomes of a block of rows.

    Parameters
    ----------
    rule : with bounds or a rank, in the order of the alternatives.
    means : (n, k) mean of every latent outcome.
    scales : (n, k) their scales, or (k,) where all rows have the same.
    known : costs and availability.
    shapes : of each alternative's noise.
    """
    scales = np.atleast_2d(scales)
    if rank_of(rule, means.shape[1]) is not None:
        return _by_differences(rule, means, scales, known, shapes)
    if of_largest(rule, scales, shapes):
        return _adding_up(*_of_largest(rule, means, scales, known, shapes))
    n_rows, k = means.shape
    value = np.empty((n_rows, 1 + k, k))
    by_mean, by_scale = np.empty((n_rows, 1 + k, k, k)), np.empty((n_rows, 1 + k, k, k))
    for chosen in range(k):
        value[:, :, chosen], by_mean[:, :, chosen], by_scale[:, :, chosen] = _integrate(
            rule, means, scales, known, chosen, shapes
        )
    return _adding_up(value, by_mean, by_scale)


def partial_values(
    rule: Any, means: Array, scales: Array, known: RowData, shapes: Sequence[Shape]
) -> Array:
    """Integrate the same (n, 1 + k, k) without derivatives, which takes half the time."""
    scales = np.atleast_2d(scales)
    if rank_of(rule, means.shape[1]) is not None:
        return _ranked_values(rule, means, scales, known, shapes)
    if of_largest(rule, scales, shapes):
        found = moments_of_largest(rule, means, scales, known, shapes, slopes=False)
        value = _values(means, scales, found)
        return value / value[:, 0].sum(axis=1)[:, None, None]
    n_rows, k = means.shape
    value = np.empty((n_rows, 1 + k, k))
    for chosen in range(k):
        weight, power = _conditional_powers(
            rule, means, scales, known, chosen, shapes, slopes=False
        )
        chance = weight.sum(axis=1)
        first = np.einsum("nkm,nm->nk", power.first, weight)
        value[:, 0, chosen] = chance
        value[:, 1:, chosen] = means * chance[:, None] + scales * first
    return value / value[:, 0].sum(axis=1)[:, None, None]


def _values(means: Array, scales: Array, found: NoiseMoments) -> Array:
    """Return chances and E[y_l; g] (n, 1 + k, k) of moments of the noise."""
    chance = found.chance[:, None, :]
    return np.concatenate(
        [chance, means[:, :, None] * chance + scales[:, :, None] * found.first], 1
    )


def _of_largest(
    rule: Any, means: Array, scales: Array, known: RowData, shapes: Sequence[Shape]
) -> tuple[Array, Array, Array]:
    """Return the moments of all alternatives, and their derivatives, by the kernel."""
    found = moments_of_largest(rule, means, scales, known, shapes, slopes=True)
    assert found.psi is not None
    assert found.fall is not None
    assert found.pair is not None
    assert found.pair_fall is not None
    slopes = []
    for alone, beside in ((found.psi, found.pair), (found.fall, found.pair_fall)):
        # From [row, l, m, g] to [row, l, g, m].
        own, pairs = alone.swapaxes(1, 2)[:, None], np.swapaxes(beside, 2, 3)
        rest = means[:, :, None, None] * own + scales[:, :, None, None] * pairs
        slopes.append(np.concatenate([own, rest], axis=1) / scales[:, None, None, :])
    return _values(means, scales, found), slopes[0], slopes[1]


def _adding_up(value: Array, by_mean: Array, by_scale: Array) -> PartialMoments:
    """Divide by the sum of the chances, which is one but for rounding, and derivatives alike."""
    total = value[:, 0].sum(axis=1)[:, None, None]
    value = value / total
    parts = [
        (part - value[..., None] * part[:, 0].sum(axis=1)[:, None, None, :]) / total[..., None]
        for part in (by_mean, by_scale)
    ]
    return PartialMoments(value, *parts)


@dataclass(frozen=True, eq=False)
class Powers:
    """Means of functions of every z (n, k, nodes) given the outcome of the chosen one.

    Attributes
    ----------
    first : of z.
    psi, z_psi : of the score in the mean, and z times it.
    fall, z_fall : of z psi - 1, the score in the logarithm of the scale, and z times it.
    """

    first: Array
    psi: Array
    z_psi: Array
    fall: Array
    z_fall: Array


def _integrate(
    rule: Any, means: Array, scales: Array, known: RowData, chosen: int, shapes: Sequence[Shape]
) -> tuple[Array, Array, Array]:
    """Return (n, 1 + k) moments where `chosen` is, and their two derivatives (n, 1 + k, k)."""
    n_rows, k = means.shape
    weight, power = _conditional_powers(rule, means, scales, known, chosen, shapes, slopes=True)
    chance = weight.sum(axis=1)
    weighted = power.first * weight[:, None, :]
    first = weighted.sum(axis=-1)

    def summed(values: Array) -> Array:
        return np.einsum("nkm,nm->nk", values, weight)

    psi, fall = summed(power.psi), summed(power.fall)
    pair = weighted @ power.psi.transpose(0, 2, 1)
    pair_of_fall = weighted @ power.fall.transpose(0, 2, 1)
    diagonal = np.arange(k)
    pair[:, diagonal, diagonal] = summed(power.z_psi)
    pair_of_fall[:, diagonal, diagonal] = summed(power.z_fall)

    value = np.empty((n_rows, 1 + k))
    by_mean, by_scale = np.empty((n_rows, 1 + k, k)), np.empty((n_rows, 1 + k, k))
    value[:, 0] = chance
    value[:, 1:] = means * chance[:, None] + scales * first
    by_mean[:, 0] = psi
    by_mean[:, 1:] = means[:, :, None] * psi[:, None, :] + scales[:, :, None] * pair
    by_scale[:, 0] = fall
    by_scale[:, 1:] = means[:, :, None] * fall[:, None, :] + scales[:, :, None] * pair_of_fall
    return value, by_mean / scales[:, None, :], by_scale / scales[:, None, :]


def _conditional_powers(
    rule: Any,
    means: Array,
    scales: Array,
    known: RowData,
    chosen: int,
    shapes: Sequence[Shape],
    *,
    slopes: bool,
) -> tuple[Array, Powers]:
    """Return the weight (n, nodes) of every outcome of the chosen one at which is evaluated.

    It includes the chance that all others lie within their bounds. Beside it, the means of
    functions of every z given that; those of derivatives only where `slopes` are wanted.
    """
    n_rows, k = means.shape
    edges = edges_of(rule, means, scales, known, chosen, shapes)
    outcome, weight = nodes_of(edges, means, scales, chosen, shapes[chosen])
    n_nodes = outcome.shape[1]
    each = np.repeat(np.arange(n_rows), n_nodes)
    lower, upper = rule.bounds(
        np.full(each.size, chosen, dtype=np.intp), outcome.ravel(), known.take(each)
    )
    powers = [np.empty((n_rows, k, n_nodes)) for _ in range(5 if slopes else 1)]
    for m in range(k):
        if m == chosen:
            z = (outcome - means[:, [m]]) / scales[:, [m]]
            powers[0][:, m] = z
            if slopes:
                psi = -shapes[chosen].density(z).slope
                fall = z * psi - 1.0
                powers[1][:, m], powers[2][:, m] = psi, fall + 1.0
                powers[3][:, m], powers[4][:, m] = fall, z * fall
            continue
        low = standardised(lower, m, means, scales, n_nodes)
        high = standardised(upper, m, means, scales, n_nodes)
        mass, found = _truncated_powers(low, high, shapes[m], slopes=slopes)
        closed = None if known.available is None else ~known.available[:, m]
        if closed is not None:
            mass[closed] = 1.0
        for power, one, free in zip(powers, found, FREE, strict=False):
            power[:, m] = one
            if closed is not None:
                power[closed, m] = free
        weight *= mass
    if known.available is not None:
        weight *= known.available[:, [chosen]]
    return weight, Powers(*(powers if slopes else powers * 5))


def _truncated_powers(
    low: Array, high: Array, shape: Shape, *, slopes: bool
) -> tuple[Array, list[Array]]:
    """Return P(low < Z < high), and the `Powers` given that (zero where it is 0)."""
    mass, first = shape.mass_and_partial(low, high)
    found = [first]
    if slopes:
        ends = np.zeros((3, *mass.shape))
        # A side that is open everywhere adds nothing; leaving it out saves half of the work.
        for bound, sign, is_open in ((low, 1.0, np.isneginf(low)), (high, -1.0, np.isposinf(high))):
            if is_open.all():
                continue
            density = sign * shape.pdf(bound)
            # Far out the density is zero, and its product with any power is meant to be zero.
            reached = np.where(density != 0, bound, 0.0)
            for order in range(3):
                ends[order] += density
                density = density * reached
        found += [ends[0], mass + ends[1], ends[1], ends[2] + first]
    possible = mass > 0
    divisor = np.where(possible, mass, 1.0)
    found = [one / divisor for one in found]
    if not possible.all():
        found = [one * possible for one in found]
    return mass, found


def _by_differences(
    rule: Any, means: Array, scales: Array, known: RowData, shapes: Sequence[Shape]
) -> PartialMoments:
    """Differentiate by central differences, for rules whose integrals have no short derivatives."""

    def value(means: Array, scales: Array) -> Array:
        return _ranked_values(rule, means, scales, known, shapes)

    shifts = [STEP * scales * own for own in np.eye(means.shape[1])]
    steps = [shift.sum(axis=1)[:, None, None] for shift in shifts]
    by_mean = [
        (value(means + shift, scales) - value(means - shift, scales)) / (2.0 * step)
        for step, shift in zip(steps, shifts, strict=True)
    ]
    by_scale = [
        (value(means, scales + shift) - value(means, scales - shift)) / (2.0 * step)
        for step, shift in zip(steps, shifts, strict=True)
    ]
    return PartialMoments(
        value(means, scales), np.stack(by_mean, axis=-1), np.stack(by_scale, axis=-1)
    )


def _ranked_values(
    rule: Any, means: Array, scales: Array, known: RowData, shapes: Sequence[Shape]
) -> Array:
    found = expectations(rule, means, scales, known, shapes)
    partial = np.nan_to_num(found.given_seen) * found.chance[:, None, :]
    return np.concatenate([found.chance[:, None, :], partial], axis=1)


# Moments under independent noise, by quadrature over one outcome at a time.


PARAMETER_STEP = 1e-5
"""Step of the differences in the noise's own parameters."""


class _WeighedNormal(NamedTuple):
    """A normal density times e^(cy): its integral, mean and standard deviation in rows (n,)."""

    size: Array
    mean: Array
    scale: Array


@dataclass(frozen=True, eq=False)
class MarginMoments(Moments):
    """Independent noise of any shape, rules with bounds or a rank, known and estimated costs."""

    def expectations(
        self, reported: Array, rows: Rows, *, shift: Array | None = None
    ) -> Expectations:
        means = latent_means(self.problem, reported, rows, shift=shift)
        scales = self.problem.row_scales(reported, rows)
        known, shapes = self._known(reported, rows), self._shapes(reported)
        return expectations(self.rule, means, scales, known, shapes)

    def _known(self, reported: Array, rows: Rows) -> RowData:
        """Return what is known of rows at given parameters: estimated costs are among the costs."""
        if not self.problem.equations.costs:
            return rows.known
        return replace(rows.known, costs=costs_of_rows(self.problem, reported, rows))

    def chances(self, reported: Array, rows: Rows, *, shift: Array | None = None) -> Array:
        means = latent_means(self.problem, reported, rows, shift=shift)
        scales = self.problem.row_scales(reported, rows)
        known, shapes = self._known(reported, rows), self._shapes(reported)
        return chances(self.rule, means, scales, known, shapes)

    def exponentials(
        self, reported: Array, rows: Rows, rate: float, *, shift: Array | None = None
    ) -> Array:
        means = latent_means(self.problem, reported, rows, shift=shift)
        found = np.zeros(means.shape)
        for j, part in self._weighed_normals(reported, rows, means, rate):
            found[:, j] += part.size
        return found

    def weighed(
        self, reported: Array, rows: Rows, rate: float, *, shift: Array | None = None
    ) -> Array:
        means = latent_means(self.problem, reported, rows, shift=shift)
        scales = np.broadcast_to(self.problem.row_scales(reported, rows), means.shape)
        known, shapes = self._known(reported, rows), self._shapes(reported)
        found = np.zeros((*means.shape, means.shape[1]))
        for j, part in self._weighed_normals(reported, rows, means, rate):
            moved, wide, each = means.copy(), scales.copy(), shapes.copy()
            moved[:, j], wide[:, j], each[j] = part.mean, part.scale, NORMAL
            found[:, j] += part.size[:, None] * chances(self.rule, moved, wide, known, each)
        return found

    def _weighed_normals(
        self, reported: Array, rows: Rows, means: Array, rate: float
    ) -> Iterator[tuple[int, _WeighedNormal]]:
        """Yield the normal parts of every outcome's density, weighed by e^(cy)."""
        scales = np.broadcast_to(self.problem.row_scales(reported, rows), means.shape)
        for j, shape in enumerate(self._shapes(reported)):
            assert shape.normals is not None
            for share, centre, spread in shape.normals:
                mean, scale = means[:, j] + scales[:, j] * centre, scales[:, j] * spread
                size = share * normal_exponentials(mean, scale**2, rate)
                yield j, _WeighedNormal(size, mean + rate * scale**2, scale)

    def _shapes(self, reported: Array) -> list[Shape]:
        """Return the shape of every alternative's noise."""
        layout, k = self.problem.layout, self.problem.equations.n_alternatives
        return self.problem.noise.margins(layout.extras_of(reported)[: layout.n_noise_extras], k)

    @property
    def _at_extras(self) -> list[int]:
        """Where the noise's own parameters stand among the reported."""
        layout = self.problem.layout
        places = layout.reported_extras[: layout.n_noise_extras]
        return [int(place) for place in places if place >= 0]

    def cells(self, reported: Array, rows: Rows) -> Array:
        means = latent_means(self.problem, reported, rows)
        scales = self.problem.row_scales(reported, rows)
        known, shapes = self._known(reported, rows), self._shapes(reported)
        return as_cells(partial_values(self.rule, means, scales, known, shapes), means)

    def cells_and_slope(self, reported: Array, rows: Rows, weights: Array) -> tuple[Array, Array]:
        means = latent_means(self.problem, reported, rows)
        scales = self.problem.row_scales(reported, rows)
        known, shapes = self._known(reported, rows), self._shapes(reported)
        found = partial_moments(self.rule, means, scales, known, shapes)
        k = means.shape[1]
        chance = found.value[:, 0]
        own = np.eye(k)[:, None, :] * chance[:, None, :, None]
        predicted_by_mean = means[:, :, None, None] * found.by_mean[:, [0]] + own
        predicted_by_scale = means[:, :, None, None] * found.by_scale[:, [0]]
        deep = (len(means), -1, k)
        by_mean = np.concatenate(
            [
                found.by_mean.reshape(deep),
                predicted_by_mean.reshape(deep),
                np.broadcast_to(np.eye(k), (len(means), k, k)),
            ],
            axis=1,
        )
        by_scale = np.concatenate(
            [
                found.by_scale.reshape(deep),
                predicted_by_scale.reshape(deep),
                np.zeros((len(means), k, k)),
            ],
            axis=1,
        )
        slope = _carry_back(self.problem, rows, by_mean, by_scale, weights, scales)
        if self.problem.equations.costs:
            # A cost moves choices as the mean does that it is compared with, and leaves outcomes.
            by_choice = by_mean.copy()
            by_choice[:, k:-k] -= np.tile(own.reshape(deep), (1, 2, 1))
            by_choice[:, -k:] = 0.0
            self._carry_costs_back(rows, by_choice, weights, slope)
        for position in self._at_extras:
            ends = []
            for way in (PARAMETER_STEP, -PARAMETER_STEP):
                moved = reported.copy()
                moved[position] += way
                ends.append(weights @ self.cells(moved, rows))
            slope[:, position] = (ends[0] - ends[1]) / (2.0 * PARAMETER_STEP)
        return as_cells(found.value, means), slope

    def _carry_costs_back(self, rows: Rows, by_choice: Array, weights: Array, slope: Array) -> None:
        """Add the derivatives in the coefficients of estimated costs to `slope` (q, m)."""
        equations, layout = self.problem.equations, self.problem.layout
        way = direction_of(self.rule)
        assert way is not None
        place = len(layout.extras) - sum(len(cost.terms) for cost in equations.costs)
        for cost in equations.costs:
            j = equations.alternatives.index(cost.alternative)
            weighted = -way * by_choice[:, :, j] * weights[:, None]
            for column in cost.columns:
                values = np.ones(len(rows)) if column == 0 else rows.covariates[:, column - 1]
                slope[:, layout.reported_extras[place]] += values @ weighted
                place += 1


def _carry_back(
    problem: Problem, rows: Rows, by_mean: Array, by_scale: Array, weights: Array, scales: Array
) -> Array:
    """Return the weighted sum of the cells' derivatives (q, m) in the reported parameters."""
    layout = problem.layout
    slope = np.zeros((by_mean.shape[1], len(layout.reported_order)))
    at_scale = layout.reported_scales if layout.scales is None else None
    for j, (equation, where) in enumerate(
        zip(problem.equations.each, layout.reported_places, strict=True)
    ):
        weighted = by_mean[:, :, j] * weights[:, None]
        for column, position in zip(equation.columns, where, strict=True):
            if position < 0:
                continue  # An offset has no coefficient that could be off.
            values = np.ones(len(rows)) if column == 0 else rows.covariates[:, column - 1]
            slope[:, position] += values @ weighted
        spread = layout.spread_of[j]
        if spread is not None and at_scale is not None:
            by_log = by_scale[:, :, j] * (weights * scales[:, j])[:, None]
            slope[:, at_scale[j]] += by_log.sum(axis=0)
            at = layout.reported_extras[spread.places - int(layout.starts[-1])]
            for column, position in zip(spread.columns, at, strict=True):
                slope[:, position] += rows.covariates[:, column - 1] @ by_log
        elif at_scale is not None:
            slope[:, at_scale[j]] += weights @ by_scale[:, :, j]
    return slope
