r"""Control variates: what is known to have expectation zero, taken out of what was drawn.

A step looks at fresh normal deviations :math:`\nu`, some of them inside of the explaining set. The
mean of products :math:`\nu_a \nu_b` over all of them is known, so by how much it was missed says
by how much the means over those inside were. The best coefficient for the mean of :math:`z_j` is
its covariance with the product inside of the set, over the product's variance outside. It is taken
as if each outcome had one bound of its own, :math:`z_j < b_j`: then all such covariances follow
from the first two moments. Where that is wrong less scatter is removed, and no bias comes in:
coefficients of one chain come from the other, which is independent of it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["controlled"]

Array = NDArray[np.float64]

SMALLEST, FARTHEST_BOUND = 1e-3, 20.0
"""Means and bounds, in standard deviations, that the formulas below are kept from passing."""

LARGEST = (0.6, 1.5)
"""Coefficients of the squares for means and for means of squares: halves of one-sided normals."""


def controlled(first: Array, square: Array, control: Array, spread: Array) -> tuple[Array, Array]:
    """Return both chains' mean deviations and squares (2, n, k) with less scatter.

    Parameters
    ----------
    first, square : (2, n, k) means over the steps of either chain.
    control : (2, k, k, n) means of what has expectation zero.
    spread : (n, k) standard deviations.
    """
    unit = np.where(spread > 0, spread, 1.0)
    scaled = control / (unit.T[:, None] * unit.T[None, :])
    means, squares = first[::-1] / unit, square[::-1] / unit**2
    safe = np.where(np.abs(means) < SMALLEST, np.copysign(SMALLEST, means), means)
    bound = np.clip((squares - 1.0) / safe, -FARTHEST_BOUND, FARTHEST_BOUND)
    with_square = np.clip(0.5 * means * (2.0 + bound**2 - squares), -LARGEST[0], LARGEST[0])
    fourth = 3.0 - (bound**2 + 3.0) * (1.0 - squares)
    own_square = np.clip(0.5 * (fourth - squares**2), 0.0, LARGEST[1])
    variance = np.clip(squares - means**2, 0.0, 1.0)
    own = np.einsum("cjjn->cnj", scaled)
    # What the other outcomes' products with this one say, each as far as that one is bounded.
    others = np.einsum("cjln,cnl->cnj", scaled, means) - own * means
    first = first - unit * (with_square * own + variance * others)
    square = square - unit**2 * (own_square * own + 2.0 * with_square * others)
    return first, square
