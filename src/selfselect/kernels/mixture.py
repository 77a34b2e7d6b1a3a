r"""Mixtures of normal distributions: logarithms of density and tails with all their derivatives.

Component m has the share :math:`\pi_m`, the mean :math:`\mu_m` and the spread :math:`s_m`. With
:math:`z = (a - \mu_m)/s_m`, each component adds :math:`\log\pi_m` and the logarithm of its density
or tail; the mixture is the log-sum of these. With :math:`\tau_m` the posterior share of component
m, its gradient is :math:`\sum_m \tau_m g_m` and its Hessian
:math:`\sum_m \tau_m (H_m + g_m g_m') - g g'`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.compiled import extension
from selfselect.kernels.status import ABOVE, BELOW, OBSERVED
from selfselect.kernels.tails import HALF_LOG_TWO_PI, mills_terms

__all__ = [
    "ShapeSums",
    "ShapeTerms",
    "mixture_sums",
    "mixture_sums_by_numpy",
    "mixture_terms",
    "summed",
]

Array = NDArray[np.float64]
Codes = NDArray[np.int8]


class ShapeTerms(NamedTuple):
    """A logarithm and its derivatives in a, and in the parameters of a shape.

    Attributes
    ----------
    value : (n,)
    gradient : (n, 1 + m) in a first.
    hessian : (n, 1 + m, 1 + m); None where it was not wanted.
    """

    value: Array
    gradient: Array
    hessian: Array | None


class ShapeSums(NamedTuple):
    """The same with second derivatives in the parameters of the shape added up over rows.

    Attributes
    ----------
    value, slope, bend : (n,) the logarithm and its derivatives in a.
    by : (m, n) first derivatives in the parameters.
    mixed : (m, n) second derivatives in a and in these.
    twice : (m, m) weighted sum of second derivatives in these.

    Where no second derivatives were wanted, they mean nothing.
    """

    value: Array
    slope: Array
    bend: Array
    by: Array
    mixed: Array
    twice: Array


SIDES = {OBSERVED: 0, BELOW: 1, ABOVE: -1}
"""Which logarithm a row of each status adds."""


def summed(
    evaluate: Callable[[Array, int], ShapeTerms],
    a: Array,
    status: Codes,
    weights: Array,
    n_parameters: int,
) -> ShapeSums:
    """Evaluate an alternative's rows by their status; those between limits or silent add nothing.

    Parameters
    ----------
    evaluate : returns the terms of `a` on a side: 0 for log f, 1 for log F, -1 for log(1 - F).
    a : (n,) standardised outcome or limit.
    status : (n,) what each row says of the alternative.
    weights : (n,) of the sum.
    n_parameters : how many parameters the terms are differentiated in.
    """
    value, slope, bend = np.zeros((3, len(a)))
    by, mixed = np.zeros((2, n_parameters, len(a)))
    twice = np.zeros((n_parameters, n_parameters))
    for code, side in SIDES.items():
        here = np.flatnonzero(status == code)
        if not len(here):
            continue
        terms = evaluate(a[here], side)
        value[here], slope[here] = terms.value, terms.gradient[:, 0]
        by[:, here] = terms.gradient[:, 1:].T
        if terms.hessian is not None:
            bend[here], mixed[:, here] = terms.hessian[:, 0, 0], terms.hessian[:, 0, 1:].T
            twice += np.tensordot(weights[here], terms.hessian[:, 1:, 1:], axes=(0, 0))
    return ShapeSums(value, slope, bend, by, mixed, twice)


def mixture_sums(
    a: Array, status: Codes, components: Array, weights: Array, *, curvature: bool
) -> ShapeSums:
    """Evaluate an alternative's rows under a mixture, by compiled code where there is any."""
    native = extension()
    if native is None:
        return mixture_sums_by_numpy(a, status, components, weights, curvature=curvature)
    m = len(components)
    terms, twice = np.empty((3 + 6 * m, len(a))), np.zeros((3 * m, 3 * m))
    native.mixture_rows(
        np.ascontiguousarray(a), status, np.ascontiguousarray(components),
        np.ascontiguousarray(weights), float(curvature), terms, twice,
    )  # fmt: skip
    return ShapeSums(terms[0], terms[1], terms[2], terms[3 : 3 + 3 * m], terms[3 + 3 * m :], twice)


def mixture_sums_by_numpy(
    a: Array, status: Codes, components: Array, weights: Array, *, curvature: bool
) -> ShapeSums:
    """Do the same by NumPy: the oracle of the compiled kernel."""

    def evaluate(some: Array, side: int) -> ShapeTerms:
        return mixture_terms(some, side, components, curvature=curvature)

    return summed(evaluate, a, status, weights, components.size)


def mixture_terms(a: Array, side: int, components: Array, *, curvature: bool = True) -> ShapeTerms:
    """Evaluate a mixture at `a` (n,).

    Parameters
    ----------
    a : where.
    side : 0 for the log-density, 1 for log F, -1 for log(1 - F).
    components : (M, 3) share, mean and spread of each. Derivatives are in a, then in these, row
        by row.
    curvature : whether second derivatives are wanted.
    """
    share, mean, spread = components.T[:, :, None]
    z = (a - mean) / spread
    if side == 0:
        with np.errstate(over="ignore"):
            logs = -0.5 * z * z - HALF_LOG_TWO_PI - np.log(spread)
        slope, bend = -z, np.full_like(z, -1.0)
    else:
        tail = mills_terms(side * z)
        logs, slope, bend = tail.log_cdf, side * tail.ratio, -tail.slope
    logs = logs + np.log(share)
    largest = logs.max(axis=0)
    relative = np.exp(logs - largest)
    total = relative.sum(axis=0)
    chance = relative / total
    own = 1.0 if side == 0 else 0.0
    # Derivatives of each component's term in a, share, mean and spread.
    by_a = slope / spread
    by_spread = -(slope * z + own) / spread
    each = np.stack([by_a, np.broadcast_to(1.0 / share, z.shape), -by_a, by_spread])
    n_components, n = z.shape
    gradient = np.empty((n, 1 + 3 * n_components))
    gradient[:, 0] = (chance * by_a).sum(axis=0)
    # (n, M, 3), row by row of the components.
    weighted = (chance * each[1:]).transpose(2, 1, 0)
    gradient[:, 1:] = weighted.reshape(n, -1)
    value = largest + np.log(total)
    if not curvature:
        return ShapeTerms(value, gradient, None)
    second = _second_derivatives(z, share, spread, slope, bend, own)
    whole = chance * (second + each[:, None] * each[None, :])
    hessian = -gradient[:, :, None] * gradient[:, None, :]
    hessian[:, 0, 0] += whole[0, 0].sum(axis=0)
    for m in range(n_components):
        at = slice(1 + 3 * m, 4 + 3 * m)
        cross = whole[0, 1:, m].T
        hessian[:, 0, at] += cross
        hessian[:, at, 0] += cross
        hessian[:, at, at] += whole[1:, 1:, m].transpose(2, 0, 1)
    return ShapeTerms(value, gradient, hessian)


def _second_derivatives(
    z: Array, share: Array, spread: Array, slope: Array, bend: Array, own: float
) -> Array:
    """Return those (4, 4, M, n) of each component's term in a, share, mean and spread."""
    second = np.zeros((4, 4, *z.shape))
    square = spread**2
    twice = bend / square
    mixed = (bend * z + slope) / square
    second[0, 0] = second[2, 2] = twice
    second[0, 2] = second[2, 0] = -twice
    second[0, 3] = second[3, 0] = -mixed
    second[2, 3] = second[3, 2] = mixed
    second[3, 3] = (bend * z * z + 2.0 * slope * z + own) / square
    second[1, 1] = -1.0 / share**2
    return second
