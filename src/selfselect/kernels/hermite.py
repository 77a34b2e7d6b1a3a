r"""Means of Hermite polynomials of noise given a row: what it says of the noise's shape.

With :math:`\mathrm{He}_3 = z^3 - 3z` and :math:`\mathrm{He}_4 = z^4 - 6z^2 + 3`, the means
:math:`E[\mathrm{He}_r(z) \mid \text{row}]` average zero where z is standard normal, as
:math:`\mathrm{He}_r` does. Since :math:`(\mathrm{He}_{r-1}\phi)' = -\mathrm{He}_r\phi`, a row with
the limit a says

* observed: :math:`\mathrm{He}_r(a)`
* on one side of a: :math:`\mathrm{He}_{r-1}(a)` times the mean of z itself
* between a and b: :math:`(\mathrm{He}_{r-1}(a)\phi(a) - \mathrm{He}_{r-1}(b)\phi(b))/P`.

Noise that is known in part, :math:`c + s v` with v standard normal and independent of c, has

.. math:: E[\mathrm{He}_r(c + s v)] = \sum_i \binom{r}{i} s^i E[\mathrm{He}_i(v)]\,
   \mathrm{He}^{[1 - s^2]}_{r-i}(c),

with polynomials of variance :math:`1 - s^2`, so that correlated noise needs no other integrals.
All arrays of means begin with the order, 0 to 4.
"""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.tails import interval_terms, mills_terms

__all__ = [
    "ORDERS",
    "hermite_values",
    "independent_means",
    "interval_means",
    "limited_means",
    "one_sided_means",
    "shifted_means",
    "tail_means",
]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Sides = NDArray[np.int8]

ORDERS = 5
"""Orders 0 to 4."""


def hermite_values(z: Array, variance: Array | float = 1.0) -> Array:
    """Return the polynomials (5, ...) of a variance at `z`, by their recurrence."""
    z = np.asarray(z)
    found = np.empty((ORDERS, *z.shape))
    found[0], found[1] = 1.0, z
    for order in range(1, ORDERS - 1):
        found[order + 1] = z * found[order] - order * variance * found[order - 1]
    return found


def tail_means(limit: Array, side: Sides | Array | float) -> Array:
    """Return means (5, ...) given that z lies below a limit (side 1) or above it (-1).

    Side 0 stands for no limit at all.
    """
    side = np.asarray(side, dtype=np.float64)
    limit = np.where(side == 0.0, 0.0, limit)
    return one_sided_means(limit, -side * mills_terms(side * limit).ratio)


def one_sided_means(limit: Array, mean: Array) -> Array:
    """Return means (5, ...) given that z lies on a side of a limit, where its own mean is known."""
    return _means_of(hermite_values(limit), mean)


def interval_means(lower: Array, upper: Array, at_lower: Array, at_upper: Array) -> Array:
    """Return means (5, ...) between two limits, given the densities there over the mass."""
    return _means_of(hermite_values(lower), at_lower) - _means_of(
        hermite_values(upper), at_upper, nothing=0.0
    )


def limited_means(lower: Array, upper: Array) -> Array:
    """Return means (5, n) given that z lies between two limits, either of which may be infinite."""
    below, above = np.isinf(lower), np.isinf(upper)
    side = below.astype(np.float64) - above
    found = tail_means(np.where(below, upper, lower), side)
    both = ~(below | above)
    if both.any():
        terms = interval_terms(lower[both], upper[both])
        found[:, both] = interval_means(
            lower[both], upper[both], terms.lower_density, terms.upper_density
        )
    return found


def _means_of(polynomials: Array, factor: Array, nothing: float = 1.0) -> Array:
    """Return each polynomial of one order less times a factor; `nothing` for the order 0."""
    found = np.empty_like(polynomials)
    found[0] = nothing
    found[1:] = polynomials[:-1] * factor
    return found


def shifted_means(centre: Array, spread: Array | float, means: Array) -> Array:
    """Return means (5, ...) of c + s v, given c, s and the means of v."""
    around = hermite_values(centre, 1.0 - np.square(spread))
    scaled = [np.power(spread, i) * means[i] for i in range(ORDERS)]
    found = np.zeros(np.broadcast_shapes(around.shape, means.shape))
    for r in range(ORDERS):
        for i in range(r + 1):
            found[r] += comb(r, i) * (scaled[i] * around[r - i])
    return found


def independent_means(z: Array, observed: Mask, side: Sides) -> Array:
    """Return means (5, n, k) of independent noises.

    Parameters
    ----------
    z : (n, k) the noise where it was observed, its limit elsewhere.
    observed : (n, k) whether it was.
    side : (n, k) 1 where it lies below its limit, -1 where above, 0 where nothing is known of it.
    """
    return np.where(observed, hermite_values(z), tail_means(z, np.where(observed, 0, side)))
