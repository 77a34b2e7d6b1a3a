"""The probit of selection: the first of the two steps, and where a fit starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.classics.design import Design
from selfselect.errors import DataError
from selfselect.kernels.tails import mills_terms

__all__ = ["Probit", "fit_probit"]

Array = NDArray[np.float64]

MAX_STEPS = 100
TOLERANCE = 1e-10
"""Distance to the optimum, in standard errors."""
FLAT = 1e-7
"""Curvature per row, of at most 2/π, below which a direction leads on to perfect prediction."""


@dataclass(frozen=True, eq=False)
class Probit:
    """The probit in the selection's orthogonal covariates.

    Attributes
    ----------
    gamma : (p,) coefficients.
    loglik : log-likelihood.
    information : (p, p) observed information.
    scores : (n, p) each row's weighted score.
    """

    gamma: Array
    loglik: float
    information: Array
    scores: Array


def fit_probit(design: Design) -> Probit:
    """Fit the probit of selection by Newton's method; it is concave."""
    z, sign = design.selection.basis, design.sign
    weights = np.ones(len(sign)) if design.weights is None else design.weights

    def visit(gamma: Array) -> Probit:
        mills = mills_terms(sign * (z @ gamma))
        scores = z * (weights * sign * mills.ratio)[:, None]
        information = z.T @ (z * (weights * mills.slope)[:, None])
        return Probit(gamma, float(weights @ mills.log_cdf), information, scores)

    here = visit(np.zeros(z.shape[1]))
    for _ in range(MAX_STEPS):
        _refuse_separation(design, here, weights)
        score = here.scores.sum(axis=0)
        step = np.linalg.solve(here.information, score)
        distance = np.sqrt(max(float(score @ step), 0.0))
        after = visit(here.gamma + step)
        while after.loglik < here.loglik - 1e-9 * abs(here.loglik):
            step *= 0.5
            after = visit(here.gamma + step)
        here = after
        if distance <= TOLERANCE:
            break
    return here


def _refuse_separation(design: Design, probit: Probit, weights: Array) -> None:
    """Refuse covariates that predict perfectly: their coefficients are infinite."""
    values, vectors = np.linalg.eigh(probit.information / weights.sum())
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
