r"""Two alternatives with correlated noise, in closed form.

If j is chosen and l lies below its limit, an atom adds, with :math:`D = \sqrt{1 - r^2}`,

.. math:: \log\phi(a_j) + \log\Phi(v), \qquad v = (a_l - r a_j)/D.
"""

from __future__ import annotations

import numpy as np

from selfselect.kernels.hermite import ORDERS, hermite_values, shifted_means, tail_means
from selfselect.kernels.joint import Array, Indices, JointTerms, Sides
from selfselect.kernels.tails import HALF_LOG_TWO_PI, mills_terms

__all__ = ["correlated_pair_atoms", "correlated_pair_means"]


def correlated_pair_atoms(
    a: Array, chosen: Indices, side: Sides, correlation: float, *, curvature: bool
) -> JointTerms:
    """Evaluate atoms of two alternatives; the inputs are both a and the correlation.

    Arguments are those of `independent_atoms`, and the correlation.
    """
    n_atoms = len(a)
    each, other = np.arange(n_atoms), 1 - chosen
    own, limit, direction = a[each, chosen], a[each, other], side[each, other].astype(float)
    r, left = correlation, 1.0 - correlation**2
    root = np.sqrt(left)
    v = (limit - r * own) / root
    tail = mills_terms(direction * v)
    known = direction != 0
    loglik = -0.5 * own * own - HALF_LOG_TWO_PI + np.where(known, tail.log_cdf, 0.0)
    along = direction * tail.ratio
    # Derivatives of v in own, limit and r.
    v_own, v_limit, v_r = -r / root, 1.0 / root, (r * limit - own) / (left * root)
    gradient = np.empty((n_atoms, 3))
    gradient[each, chosen] = along * v_own - own
    gradient[each, other] = along * v_limit
    gradient[:, 2] = along * v_r
    if not curvature:
        return JointTerms(loglik, gradient, None)
    bend = np.where(known, -tail.slope, 0.0)
    hessian = np.empty((n_atoms, 3, 3))
    hessian[each, chosen, chosen] = bend * v_own**2 - 1.0
    hessian[each, other, other] = bend * v_limit**2
    mixed = bend * v_own * v_limit
    hessian[each, chosen, other] = hessian[each, other, chosen] = mixed
    cross_own = bend * v_own * v_r - along / (left * root)
    hessian[each, chosen, 2] = hessian[each, 2, chosen] = cross_own
    cross_limit = bend * v_limit * v_r + along * r / (left * root)
    hessian[each, other, 2] = hessian[each, 2, other] = cross_limit
    hessian[:, 2, 2] = bend * v_r**2 + along * (limit / (left * root) + 3.0 * r * v_r / left)
    return JointTerms(loglik, gradient, hessian)


def correlated_pair_means(a: Array, chosen: Indices, side: Sides, correlation: float) -> Array:
    """Return means (5, n, 2) of Hermite polynomials of both noises given each atom.

    The other noise is :math:`r a_j + D v` with v on its side of its own limit.
    """
    each, other = np.arange(len(a)), 1 - chosen
    own, limit = a[each, chosen], a[each, other]
    root = np.sqrt(1.0 - correlation**2)
    found = np.empty((ORDERS, len(a), 2))
    found[:, each, chosen] = hermite_values(own)
    cut = tail_means((limit - correlation * own) / root, side[each, other])
    found[:, each, other] = shifted_means(correlation * own, root, cut)
    return found
