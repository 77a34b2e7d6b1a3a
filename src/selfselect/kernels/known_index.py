"""What a row says of an alternative, and the oracle of known indices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.compiled import extension
from selfselect.kernels.tails import HALF_LOG_TWO_PI, interval_terms_by_numpy, mills_terms_by_numpy

# What a row says of one alternative: the codes every kernel branches on.
#
# A row tells of each alternative one of eight things. `OBSERVED`: its outcome was recorded.
# `BELOW` and `ABOVE`: it was not, so it lies on one known side of a limit. `BETWEEN`: it lies
# between two limits. `UNKNOWN`: the row is silent about it (the alternative was not available,
# or the rule lets its outcome be anything). `MAYBE`: the recorded outcome may be its own; if not,
# its outcome lies on the side of it that the rule discards. `EITHER`: its outcome lies on one side
# of the recorded one, and which side is not known. `INSIDE`: all such outcomes of the row lie,
# together, in the set that explains its choice.


OBSERVED: Final = 0
BELOW: Final = 1
ABOVE: Final = 2
BETWEEN: Final = 3
UNKNOWN: Final = 4
MAYBE: Final = 5
EITHER: Final = 6
INSIDE: Final = 7

# The per-row mathematics of the known index, in NumPy: the oracle of the fused kernels.
#
# Every alternative is written with :math:`h = 1/\sigma` and :math:`g = w/\sigma`, in which the
# log-likelihood is jointly concave (Olsen 1978). With the limit :math:`c` of a row (its outcome
# where the alternative is observed, its bound where it is not) and :math:`a = h c - g'x`, a row
# adds
#
# * observed: :math:`\log h - a^2/2 - \log\sqrt{2\pi}`
# * below its limit: :math:`\log\Phi(a)`;  above it: :math:`\log\Phi(-a)`
# * between two limits: :math:`\log(\Phi(b) - \Phi(a))`
#
# and everything a solver, a covariance or a test needs follows from a handful of numbers per row
# and alternative, the `BoxTerms`.


Array = NDArray[np.float64]
Codes = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class BoxTerms:
    r"""One alternative's terms of the log-likelihood, one entry per row.

    Attributes
    ----------
    loglik
        The term itself.
    residual
        Its derivative along :math:`g` per unit of :math:`x`. This is also the generalised
        residual :math:`E[(y_j - \mu_j)/\sigma_j \mid \text{row}]`.
    score_h
        Its derivative in :math:`h`.
    curvature, curvature_gh, curvature_hh
        Its second derivatives, per unit of :math:`xx'`, of :math:`x`, and plain.
    """

    loglik: Array
    residual: Array
    score_h: Array
    curvature: Array
    curvature_gh: Array
    curvature_hh: Array


def row_terms(
    location: Array,
    inverse_scale: float,
    *,
    status: Codes,
    limit: Array,
    upper: Array | None,
) -> BoxTerms:
    """Evaluate the terms of one alternative.

    Parameters
    ----------
    location : (n,) g'x of each row.
    inverse_scale : h.
    status : (n,) what each row says of the alternative.
    limit : (n,) outcome where observed, bound where below or above, lower bound where between.
    upper : (n,) upper bound where between; None where no row has that status.
    """
    native = extension()
    if native is None:
        return row_terms_by_numpy(location, inverse_scale, status=status, limit=limit, upper=upper)
    terms = np.empty((6, len(location)))
    native.known_rows(location, inverse_scale, status, limit, upper, terms)
    return BoxTerms(*terms)


def row_terms_by_numpy(
    location: Array,
    inverse_scale: float,
    *,
    status: Codes,
    limit: Array,
    upper: Array | None,
) -> BoxTerms:
    """Do the same by NumPy: the oracle of the compiled kernels."""
    n_rows = location.shape[0]
    loglik = np.zeros(n_rows)
    residual = np.zeros(n_rows)
    curvature = np.zeros(n_rows)

    observed = status == OBSERVED
    a = inverse_scale * limit[observed] - location[observed]
    loglik[observed] = np.log(inverse_scale) - HALF_LOG_TWO_PI - 0.5 * a * a
    residual[observed] = a
    curvature[observed] = -1.0

    for code, side in ((BELOW, 1.0), (ABOVE, -1.0)):
        here = status == code
        if here.any():
            tail = mills_terms_by_numpy(side * (inverse_scale * limit[here] - location[here]))
            loglik[here] = tail.log_cdf
            residual[here] = -side * tail.ratio
            curvature[here] = -tail.slope

    # One limit c moves only a = h c - g'x, so derivatives in h are those in g times -c.
    informative = np.where(status <= ABOVE, limit, 0.0)
    score_h = -residual * informative
    curvature_gh = -curvature * informative
    curvature_hh = -curvature_gh * informative
    score_h[observed] += 1.0 / inverse_scale
    curvature_hh[observed] -= 1.0 / inverse_scale**2

    between = status == BETWEEN
    if upper is not None and between.any():
        low, high = limit[between], upper[between]
        lower_a = inverse_scale * low - location[between]
        upper_a = inverse_scale * high - location[between]
        mass = interval_terms_by_numpy(lower_a, upper_a)
        at_low, at_high = mass.lower_density, mass.upper_density
        slope_low, slope_high = lower_a * at_low, upper_a * at_high
        # Squares of the scores, not of the end densities: those of a narrow interval are huge.
        along_g, along_h = at_low - at_high, at_high * high - at_low * low
        loglik[between] = mass.log_mass
        residual[between] = along_g
        score_h[between] = along_h
        curvature[between] = slope_low - slope_high - along_g**2
        curvature_gh[between] = slope_high * high - slope_low * low - along_g * along_h
        curvature_hh[between] = slope_low * low**2 - slope_high * high**2 - along_h**2
    return BoxTerms(loglik, residual, score_h, curvature, curvature_gh, curvature_hh)


@dataclass(frozen=True, eq=False)
class Sums:
    """One alternative's weighted sums over rows: log-likelihood, score and Hessian in (g, h)."""

    loglik: float
    score: Array
    hessian: Array


def sum_rows(design: Array, terms: BoxTerms, weights: Array | None, *, curved: bool = True) -> Sums:
    """Add up one alternative's terms over rows with covariates `design` (n, p).

    Without `curved` the Hessian is zero.
    """
    if weights is not None:
        terms = BoxTerms(*(weights * part for part in vars(terms).values()))
    size = design.shape[1]
    score = np.empty(size + 1)
    score[:size] = design.T @ terms.residual
    score[size] = terms.score_h.sum()
    hessian = np.zeros((size + 1, size + 1))
    if curved:
        hessian[:size, :size] = design.T @ (design * terms.curvature[:, None])
        hessian[:size, size] = hessian[size, :size] = design.T @ terms.curvature_gh
        hessian[size, size] = terms.curvature_hh.sum()
    return Sums(float(terms.loglik.sum()), score, hessian)
