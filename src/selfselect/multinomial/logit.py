"""The first step: a multinomial logit, by Newton's method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.errors import DataError

__all__ = ["Logit", "fit_logit", "log_chances", "scores"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

MOST_STEPS = 60
TOLERANCE = 1e-12
"""Fall of the log-likelihood, by the quadratic at a step, at which Newton's method stops."""

FLAT = 1e-7
"""Curvature per row, of at most 1/4, below which a direction leads on to perfect prediction."""


@dataclass(frozen=True, eq=False)
class Logit:
    """A fitted choice.

    Attributes
    ----------
    coefficients : (k, q), zero for the base.
    information : of all coefficients but the base's, alternative by alternative.
    log_chances : (n, k), -inf where an alternative is not available.
    loglik : the log-likelihood.
    n_steps : Newton steps taken.
    """

    coefficients: Array
    information: Array
    log_chances: Array
    loglik: float
    n_steps: int


def log_chances(z: Array, coefficients: Array, available: Mask | None) -> Array:
    """Return the logarithms (n, k) of the chances of alternatives."""
    utility = z @ coefficients.T
    if available is not None:
        utility = np.where(available, utility, -np.inf)
    utility -= utility.max(axis=1, keepdims=True)
    found: Array = utility - np.log(np.exp(utility).sum(axis=1, keepdims=True))
    return found


def scores(z: Array, chosen: Indices, log_p: Array, base: int) -> Array:
    """Return each row's score (n, (k - 1) q), alternative by alternative without the base."""
    pull = -np.exp(log_p)
    pull[np.arange(len(z)), chosen] += 1.0
    pull = np.delete(pull, base, axis=1)
    return np.asarray((pull[:, :, None] * z[:, None, :]).reshape(len(z), -1))


def _information(z: Array, weights: Array, log_p: Array, base: int) -> Array:
    p = np.delete(np.exp(log_p), base, axis=1)
    k, q = p.shape[1], z.shape[1]
    found = np.empty((k, q, k, q))
    for m in range(k):
        for other in range(m, k):
            curve = weights * p[:, m] * ((m == other) - p[:, other])
            found[m, :, other, :] = found[other, :, m, :] = z.T @ (z * curve[:, None])
    return found.reshape(k * q, k * q)


def fit_logit(
    z: Array,
    chosen: Indices,
    weights: Array,
    n_alternatives: int,
    *,
    base: int,
    available: Mask | None,
    terms: tuple[str, ...],
    start: Array | None = None,
) -> Logit:
    """Fit a multinomial logit.

    Parameters
    ----------
    z : (n, q) covariates in units of order one, constant included.
    chosen : (n,) the chosen alternative.
    weights : (n,).
    base : the alternative whose coefficients are zero.
    available : (n, k), None where all always are.
    terms : names of the covariates, for messages.
    start : coefficients (k, q) to start from.
    """
    k, q = n_alternatives, z.shape[1]
    rest = [m for m in range(k) if m != base]
    coefficients = np.zeros((k, q)) if start is None else start.copy()
    rows, total = np.arange(len(z)), float(weights.sum())

    def at(point: Array) -> tuple[Array, float]:
        log_p = log_chances(z, point, available)
        return log_p, float(weights @ log_p[rows, chosen])

    log_p, loglik = at(coefficients)
    for step in range(1, MOST_STEPS + 1):
        gradient = weights @ scores(z, chosen, log_p, base)
        information = _information(z, weights, log_p, base)
        _refuse_separation(information / total, terms, len(rest))
        move = np.linalg.solve(information, gradient)
        decrement = float(gradient @ move)
        length = 1.0
        while True:
            moved = coefficients.copy()
            moved[rest] += length * move.reshape(len(rest), q)
            there, reached = at(moved)
            if reached >= loglik + 1e-4 * length * decrement - 1e-10 * total or length < 1e-6:
                break
            length /= 2.0
        coefficients, log_p, loglik = moved, there, reached
        if decrement < TOLERANCE * total:
            return Logit(coefficients, _information(z, weights, log_p, base), log_p, loglik, step)
    raise DataError(
        f"The choice was not fitted in {MOST_STEPS} Newton steps. Its covariates may predict it "
        "perfectly in some rows: leave out those that do."
    )


def _refuse_separation(information: Array, terms: tuple[str, ...], n_free: int) -> None:
    values, vectors = np.linalg.eigh(information)
    if values[0] > FLAT:
        return
    size = np.abs(vectors[:, 0]).reshape(n_free, len(terms)).max(axis=0)
    others = [place for place, term in enumerate(terms) if term != "Intercept"] or [0]
    name = terms[max(others, key=lambda place: size[place])]
    raise DataError(
        f"The covariates predict the choice perfectly in some or all rows, by {name!r} above all, "
        "or repeat each other: coefficients of the choice would be infinite or are not determined. "
        "Leave that covariate out, or join alternatives that are rarely chosen."
    )
