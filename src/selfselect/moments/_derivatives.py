r"""Means of outcomes over those who chose each alternative, with exact derivatives.

For alternative :math:`g` the partial moments of a row are :math:`P(g)`, the chance that it is
chosen, and :math:`E[y_l; g] = E[y_l 1\{g \text{ is chosen}\}]`. All effects are made of their
averages. The choice depends on the latent outcomes alone, so derivatives in their means and scales
are moments too: with :math:`z_m = (y_m - \mu_m)/\sigma_m` and :math:`\psi = -f'/f` of the noise,

.. math:: \frac{\partial}{\partial\mu_m} E[h(y)] = \frac{E[h(y) \psi(z_m)]}{\sigma_m}, \qquad
   \frac{\partial}{\partial\sigma_m} E[h(y)] = \frac{E[h(y) (z_m\psi(z_m) - 1)]}{\sigma_m}.

Between limits a and b the means of :math:`\psi`, :math:`z\psi - 1` and their products with z follow
from densities at the limits, since :math:`f\psi = -f'`. For independent noise and box-shaped
explaining sets every moment is an integral in one dimension. The largest and the smallest of normal
outcomes have a kernel (`kernels.largest`); others are cut into pieces as in `_expectations`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.moments._expectations import expectations
from selfselect.moments._largest import NoiseMoments, moments_of_largest, of_largest
from selfselect.moments._quadrature import edges_of, nodes_of, standardised
from selfselect.noises.shapes import Shape
from selfselect.rules import rank_of
from selfselect.rules.base import RowData

__all__ = ["PartialMoments", "partial_moments", "partial_values"]

Array = NDArray[np.float64]

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
