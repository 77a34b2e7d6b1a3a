r"""Likelihoods that join the alternatives: what every such kernel takes and returns.

An *atom* says: alternative j had this outcome and every other one lay on its side of a limit. Most
rows are one atom; a row in which something was not recorded is a sum of several. With
:math:`a_l = h_l c_l - g_l'x`, the standardised outcome of j and limit of the others, and what the
noise adds (correlations, loadings), a kernel returns the log-likelihood of each atom, less
:math:`\log h_j`, and its derivatives in those *inputs*: first the a, then what the noise adds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.tails import HALF_LOG_TWO_PI, mills_terms

__all__ = ["JointTerms", "independent_atoms"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Sides = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class JointTerms:
    """Log-likelihood of atoms and its derivatives in their inputs.

    Attributes
    ----------
    loglik : (n,)
    gradient : (n, m) first derivatives.
    hessian : (n, m, m) second derivatives; None where they were not wanted.
    """

    loglik: Array
    gradient: Array
    hessian: Array | None


def independent_atoms(a: Array, chosen: Indices, side: Sides, *, curvature: bool) -> JointTerms:
    """Evaluate atoms under independent noise.

    Parameters
    ----------
    a : (n, k) standardised outcome where chosen, limit elsewhere.
    chosen : (n,) the alternative whose outcome it is.
    side : (n, k) 1 where an alternative lies below its limit, -1 where above, 0 where nothing is
        known of it. The entry of the chosen one is not read.
    curvature : whether second derivatives are wanted.
    """
    n_atoms, k = a.shape
    each = np.arange(n_atoms)
    tail = mills_terms(np.where(side == 0, 0.0, side * a))
    open_to = side != 0
    open_to[each, chosen] = False
    loglik = np.where(open_to, tail.log_cdf, 0.0).sum(axis=1)
    gradient = np.where(open_to, side * tail.ratio, 0.0)
    own = a[each, chosen]
    loglik -= 0.5 * own * own + HALF_LOG_TWO_PI
    gradient[each, chosen] = -own
    hessian = None
    if curvature:
        hessian = np.zeros((n_atoms, k, k))
        diagonal = np.where(open_to, -tail.slope, 0.0)
        diagonal[each, chosen] = -1.0
        hessian[:, np.arange(k), np.arange(k)] = diagonal
    return JointTerms(loglik, gradient, hessian)
