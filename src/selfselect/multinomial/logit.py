"""The first step: a multinomial logit, by Newton's method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.errors import DataError
from selfselect.solvers.climb import Hill, Point, ascend

__all__ = ["Logit", "fit_logit", "log_chances", "scores"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

MOST_STEPS = 60
TOLERANCE = 1e-18
"""Twice what a step gains, per row, at which Newton's method stops."""

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
    hill = _Choice(z, chosen, weights, n_alternatives, base, available, terms)
    coefficients = np.zeros((n_alternatives, z.shape[1])) if start is None else start
    found = ascend(hill, np.delete(coefficients, base, axis=0).ravel(), max_steps=MOST_STEPS)
    if not found.ending.converged:
        raise DataError(
            f"The choice was not fitted in {MOST_STEPS} Newton steps. Its covariates may predict "
            "it perfectly in some rows: leave out those that do."
        )
    top = found.point
    coefficients = hill.coefficients(top.free)
    chances = log_chances(z, coefficients, available)
    return Logit(coefficients, top.information, chances, top.loglik, len(found.trace) - 1)


class _Choice(Hill):
    """The log-likelihood of the choice; a place holds all coefficients but the base's."""

    def __init__(
        self,
        z: Array,
        chosen: Indices,
        weights: Array,
        n_alternatives: int,
        base: int,
        available: Mask | None,
        terms: tuple[str, ...],
    ) -> None:
        self.z, self.chosen, self.weights, self.base = z, chosen, weights, base
        self.available, self.terms, self.n_free = available, terms, n_alternatives - 1
        self.total = float(weights.sum())

    def coefficients(self, place: Array) -> Array:
        """Return the coefficients (k, q), zero for the base."""
        return np.insert(place.reshape(self.n_free, -1), self.base, 0.0, axis=0)

    def at(self, place: Array) -> Point:
        log_p = log_chances(self.z, self.coefficients(place), self.available)
        loglik = float(self.weights @ log_p[np.arange(len(log_p)), self.chosen])
        gradient = self.weights @ scores(self.z, self.chosen, log_p, self.base)
        information = _information(self.z, self.weights, log_p, self.base)
        _refuse_separation(information / self.total, self.terms, place)
        step = np.asarray(np.linalg.solve(information, gradient), dtype=np.float64)
        gain = float(gradient @ step)
        return Point(place, loglik, gradient, information, step, gain, float(np.sqrt(max(gain, 0))))

    def arrived(self, here: Point, before: float, size: float) -> bool:
        del before, size
        return here.gain < TOLERANCE * self.total

    def slack(self, here: Point) -> float:
        del here
        return 1e-10 * self.total

    def largest_step(self, here: Point) -> float:
        del here
        return 1.0


def _refuse_separation(information: Array, terms: tuple[str, ...], place: Array) -> None:
    values, vectors = np.linalg.eigh(information)
    if values[0] > FLAT:
        return
    # Covariates are alike in size, so the coefficient that went furthest tells; those that repeat
    # each other show before any has moved.
    telling = place if place.any() else vectors[:, 0]
    size = np.abs(telling).reshape(-1, len(terms)).max(axis=0)
    others = [place for place, term in enumerate(terms) if term != "Intercept"] or [0]
    name = terms[max(others, key=lambda place: size[place])]
    raise DataError(
        f"The covariates predict the choice perfectly in some or all rows, by {name!r} above all, "
        "or repeat each other: coefficients of the choice would be infinite or are not determined. "
        "Leave that covariate out, or join alternatives that are rarely chosen."
    )
