"""The probit of selection: the first of the two steps, and where a fit starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.classics.design import Design
from selfselect.classics.rows import SignedRows
from selfselect.errors import DataError
from selfselect.kernels.tails import mills_terms

__all__ = ["Probit", "fit_probit", "probit_scores"]

Array = NDArray[np.float64]

MAX_STEPS = 100
TOLERANCE = 1e-6
"""Length of the last step, in standard errors; the next would have been about its square."""
FLAT = 1e-7
"""Curvature per row, of at most 2/π, below which a direction leads on to perfect prediction."""


@dataclass(frozen=True, eq=False)
class Probit:
    """The probit in the selection's orthogonal covariates.

    Attributes
    ----------
    gamma : (p,) coefficients.
    loglik : log-likelihood.
    score : (p,) its slope.
    information : (p, p) observed information.
    """

    gamma: Array
    loglik: float
    score: Array
    information: Array


def fit_probit(design: Design) -> Probit:
    """Fit the probit of selection by Newton's method; it is concave."""
    signed = np.ascontiguousarray((design.selection.basis * design.sign[:, None]).T)
    rows = SignedRows(signed, design.weights)

    def visit(gamma: Array) -> Probit:
        sums = rows.at(gamma)
        return Probit(gamma, float(sums.log_cdf), sums.pull, sums.curvature)

    total = design.facts.weight_total
    here = visit(np.zeros(len(rows.values)))
    for _ in range(MAX_STEPS):
        _refuse_separation(design, here, total)
        step = np.linalg.solve(here.information, here.score)
        distance = np.sqrt(max(float(here.score @ step), 0.0))
        after = visit(here.gamma + step)
        while after.loglik < here.loglik - 1e-9 * abs(here.loglik):
            step *= 0.5
            after = visit(here.gamma + step)
        here = after
        if distance <= TOLERANCE:
            break
    return here


def probit_scores(design: Design, gamma: Array) -> Array:
    """Return each row's weighted score, shape (n, p)."""
    z, sign = design.selection.basis, design.sign
    pull = sign * mills_terms(sign * (z @ gamma)).ratio
    return z * (pull if design.weights is None else design.weights * pull)[:, None]


def _refuse_separation(design: Design, probit: Probit, total: float) -> None:
    """Refuse covariates that predict perfectly: their coefficients are infinite."""
    values, vectors = np.linalg.eigh(probit.information / total)
    if values[0] > FLAT:
        return
    side = design.selection
    direction = side.carry @ vectors[:, 0] * side.matrix.std(axis=0)
    name = side.terms[int(np.argmax(np.abs(direction)))]
    raise DataError(
        f"The selection equation predicts {design.facts.chosen!r} perfectly in some or all rows, "
        f"by {name!r} above all: its coefficient would be infinite. Leave that covariate out, or "
        "the rows it decides."
    )
