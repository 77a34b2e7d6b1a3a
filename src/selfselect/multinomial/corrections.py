"""First step and corrections: a multinomial logit, and means of the noises given its choice."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from selfselect.errors import DataError, OptionError
from selfselect.noises.shapes.normal import SHAPE
from selfselect.solvers.climb import Hill, Point, ascend

Array = NDArray[np.float64]


# The first step: a multinomial logit, by Newton's method.

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


# Means of the noises that decide a logit choice, as functions of the chances alone.
#
# The noises are Gumbel. With P the chance of an alternative, its noise exceeds its mean on average
# by :math:`-\log P` where it is chosen and by :math:`P \log P / (1 - P)` where it is not, whatever
# is chosen instead. Turned into a standard normal, the noise has the mean
#
# .. math:: M(P) = \int_0^1 \Phi^{-1}(w^P)\,dw
#
# where its alternative is chosen, and :math:`-M(P) P / (1 - P)` where not. M(1/n) is the expected
# largest of n standard normal numbers. All are functions of :math:`t = -\log P`.


FARTHEST, STEP = 40.0, 0.04
"""Range and step of the table of M in t; chances below 4e-18 have the mean of that one."""

SMALL = 1e-4
"""t below which series replace quotients of small numbers."""


def _bernoulli(t: Array) -> tuple[Array, Array]:
    """Return t / (e^t - 1) and its derivative."""
    t = np.minimum(t, 700.0)
    small = t < SMALL
    growth = np.expm1(np.where(small, 1.0, t))
    value = np.where(small, 1.0 - t / 2.0 + t**2 / 12.0, t / growth)
    slope = np.where(small, -0.5 + t / 6.0, (growth - t * (growth + 1.0)) / growth / growth)
    return value, slope


def unchosen_gumbel(t: Array) -> tuple[Array, Array]:
    """Return the mean P log P / (1 - P) of a noise not chosen, and its derivative in t."""
    value, slope = _bernoulli(t)
    return -value, -slope


@cache
def _table() -> tuple[Array, Array]:
    """Tabulate M and its derivative in t: an integral over e = -log w, on its log scale."""
    y = np.arange(-40.0, 4.2, 0.05)
    e = np.exp(y)
    weights = 0.05 * np.exp(y - e)
    shrunk = np.exp(-np.arange(0.0, FARTHEST + 1.5 * STEP, STEP))[:, None] * e
    # The smaller tail keeps its digits.
    upper = shrunk < 0.5
    normal = np.where(
        upper,
        -SHAPE.quantile(-np.expm1(-np.where(upper, shrunk, 0.5))),
        SHAPE.quantile(np.exp(-np.where(upper, 1.0, shrunk))),
    )
    slope = shrunk * np.exp(-shrunk - SHAPE.density(normal).value)
    return normal @ weights, slope @ weights


def chosen_normal(t: Array) -> tuple[Array, Array]:
    """Return the mean M of a noise, turned normal, where it is chosen, and its derivative in t."""
    values, slopes = _table()
    place = np.clip(t, 0.0, FARTHEST) / STEP
    left = place.astype(np.intp)
    u = place - left
    v0, v1, d0, d1 = (
        values[left], values[left + 1], slopes[left] * STEP, slopes[left + 1] * STEP,
    )  # fmt: skip
    # The cubic that has both values and both slopes.
    third = d0 + d1 + 2.0 * (v0 - v1)
    second = 3.0 * (v1 - v0) - 2.0 * d0 - d1
    value = v0 + u * (d0 + u * (second + u * third))
    slope = (d0 + u * (2.0 * second + 3.0 * u * third)) / STEP
    return value, np.where(t > FARTHEST, 0.0, slope)


def unchosen_normal(t: Array) -> tuple[Array, Array]:
    """Return the mean -M(P) P / (1 - P) of a noise not chosen, and its derivative in t."""
    mean, slope = chosen_normal(t)
    ratio, by_t = _bernoulli(t)
    # M is zero at zero: within the first step its cubic is divided by t term by term.
    near = t < STEP
    safe = np.where(near, 1.0, t)
    values, slopes = _table()
    first, end, rise = slopes[0] * STEP, slopes[1] * STEP, float(values[1])
    second, third = 3.0 * rise - 2.0 * first - end, first + end - 2.0 * rise
    u = np.clip(t, 0.0, STEP) / STEP
    per_t = np.where(near, (first + u * (second + u * third)) / STEP, mean / safe)
    moved = np.where(near, (second + 2.0 * u * third) / STEP**2, (slope - per_t) / safe)
    return -per_t * ratio, -(moved * ratio + per_t * by_t)


# Corrections for a multinomial choice: what an outcome's noise is expected to be, given it.
#
# Each turns the chances of a logit into regressors of the second step (Bourguignon, Fournier and
# Gurgand 2007 compare them). With :math:`P_j` the chance of the chosen alternative:
#
# * ``"dmf1"`` (Dubin and McFadden 1984): noise is linear in the choice's Gumbel noises;
# * ``"dmf0"``: the same with coefficients that add up to zero, as Dubin and McFadden had it;
# * ``"dmf2"``: noise is linear in the Gumbel noises turned normal;
# * ``"lee"`` (Lee 1983): one regressor, :math:`-\phi(\Phi^{-1}(P_j))/P_j`;
# * ``"dahl"`` (Dahl 2002): any smooth function of :math:`P_j` and the largest other chance.


CORRECTIONS = ("dmf0", "dmf1", "dmf2", "lee", "dahl")

TERM = "correction"


@dataclass(frozen=True)
class Regressors:
    """Regressors of a correction.

    Attributes
    ----------
    values : (n, r).
    slopes : (n, r, k) their derivatives in the logarithms of all chances.
    """

    values: Array
    slopes: Array


class Correction(ABC):
    """A correction: its regressors, and what can be learnt with it."""

    name: ClassVar[str]
    levels: ClassVar[bool]
    """Whether the constants of outcomes are identified."""
    others: ClassVar[bool]
    """Whether noise is known where another alternative is chosen."""

    @abstractmethod
    def terms(self, own: int, labels: Sequence[Any]) -> list[str]:
        """Name the regressors of an alternative."""

    @abstractmethod
    def regressors(self, log_chances: Array, own: int, given: int) -> Regressors:
        """Return the regressors of alternative `own` where `given` is chosen.

        `log_chances` (n, k) are -inf where an alternative is not available.
        """

    def means(self, log_chances: Array, given: int) -> dict[int, Array]:
        """Return the regressors where `given` is chosen, of every alternative that has some."""
        return {given: self.regressors(log_chances, given, given).values}

    @property
    @abstractmethod
    def assumption(self) -> str:
        """What is assumed beyond a logit choice."""


@dataclass(frozen=True)
class DubinMcFadden(Correction):
    """Noise is linear in the noises of the choice.

    Attributes
    ----------
    variant : 0 where coefficients add up to zero, 1 where not, 2 for noises turned normal.
    """

    variant: int

    levels: ClassVar[bool] = True
    others: ClassVar[bool] = True

    @property
    def name(self) -> str:  # type: ignore[override]
        """The word users write."""
        return f"dmf{self.variant}"

    def terms(self, own: int, labels: Sequence[Any]) -> list[str]:
        return [
            f"{TERM}: {label}" for m, label in enumerate(labels) if self.variant != 0 or m != own
        ]

    def regressors(self, log_chances: Array, own: int, given: int) -> Regressors:
        values, by_t = self._noises(log_chances, given)
        n, k = values.shape
        slopes = np.zeros((n, k, k))
        slopes[:, range(k), range(k)] = -by_t
        return Regressors(self._own(values, own), self._own(slopes, own))

    def means(self, log_chances: Array, given: int) -> dict[int, Array]:
        values, _ = self._noises(log_chances, given)
        return {own: self._own(values, own) for own in range(values.shape[1])}

    def _noises(self, log_chances: Array, given: int) -> tuple[Array, Array]:
        """Return the mean (n, k) of every noise of the choice, and its derivative in -log P."""
        t = -np.maximum(log_chances, -700.0)
        values, by_t = unchosen_normal(t) if self.variant == 2 else unchosen_gumbel(t)
        chosen = t[:, given]
        if self.variant == 2:
            values[:, given], by_t[:, given] = chosen_normal(chosen)
        else:
            values[:, given], by_t[:, given] = chosen, 1.0
        return values, by_t

    def _own(self, noises: Array, own: int) -> Array:
        """Return what stands for noises in the equation of an alternative."""
        if self.variant != 0:
            return noises
        rest = [m for m in range(noises.shape[1]) if m != own]
        return np.asarray(noises[:, rest] - noises[:, [own]])

    @property
    def assumption(self) -> str:
        noises = "those noises turned normal" if self.variant == 2 else "those noises"
        said = (
            f"The noise of every outcome is assumed to be linear in {noises} plus noise that is "
            "independent of the choice."
        )
        if self.variant == 0:
            said += (
                " Its coefficients are assumed to add up to zero, which the data may contradict."
            )
        return said


@dataclass(frozen=True)
class Lee(Correction):
    """Noise depends on the choice through the chance of the chosen alternative alone."""

    name: ClassVar[str] = "lee"
    levels: ClassVar[bool] = True
    others: ClassVar[bool] = False

    def terms(self, own: int, labels: Sequence[Any]) -> list[str]:
        del own, labels
        return [TERM]

    def regressors(self, log_chances: Array, own: int, given: int) -> Regressors:
        assert own == given
        own_log = log_chances[:, own]
        tail = -np.expm1(own_log)
        # The smaller tail keeps its digits where the chance is nearly one.
        normal = np.where(own_log > -0.5, -SHAPE.quantile(tail), SHAPE.quantile(np.exp(own_log)))
        normal = np.clip(normal, -37.0, 8.5)
        ratio = np.exp(SHAPE.density(normal).value - own_log)
        slopes = np.zeros((len(own_log), 1, log_chances.shape[1]))
        # d/dlogP of -phi/P, with dJ/dlogP = P/phi.
        slopes[:, 0, own] = normal + ratio
        return Regressors(-ratio[:, None], slopes)

    @property
    def assumption(self) -> str:
        return (
            "The noise of an outcome is assumed to depend on all noises of the choice through "
            "one normal number, and in the same way whichever other alternatives are not chosen: "
            "a strong assumption that often fails in simulations (Bourguignon, Fournier and "
            "Gurgand 2007)."
        )


@dataclass(frozen=True)
class Dahl(Correction):
    """Noise depends on the chances of the chosen and of the likeliest other alternative.

    Attributes
    ----------
    degree : of the polynomial in both.
    """

    degree: int = 2

    name: ClassVar[str] = "dahl"
    levels: ClassVar[bool] = False
    others: ClassVar[bool] = False

    def _powers(self, k: int) -> list[tuple[int, int]]:
        # Of two alternatives the other chance is one less the first.
        return [
            (a, total - a)
            for total in range(1, self.degree + 1)
            for a in range(total, -1, -1)
            if k > 2 or a == total
        ]

    def terms(self, own: int, labels: Sequence[Any]) -> list[str]:
        del own
        return [f"{TERM}: {_power('P', a)}{_power('Q', b)}" for a, b in self._powers(len(labels))]

    def regressors(self, log_chances: Array, own: int, given: int) -> Regressors:
        assert own == given
        n, k = log_chances.shape
        others = log_chances.copy()
        others[:, own] = -np.inf
        likeliest = others.argmax(axis=1)
        p = np.exp(log_chances[:, own])
        q = np.exp(others[np.arange(n), likeliest])
        powers = self._powers(k)
        values = np.column_stack([p**a * q**b for a, b in powers])
        slopes = np.zeros((n, len(powers), k))
        for place, (a, b) in enumerate(powers):
            slopes[:, place, own] += a * values[:, place]
            slopes[np.arange(n), place, likeliest] += b * values[:, place]
        return Regressors(values, slopes)

    @property
    def assumption(self) -> str:
        return (
            "The mean noise of an outcome is assumed to be a function of the chances of the chosen "
            f"(P) and of the likeliest other alternative (Q) alone, a polynomial of degree "
            f"{self.degree}. It has a constant of its own, so the constants of outcomes are not "
            "identified, nor are levels of effects."
        )


def _power(letter: str, exponent: int) -> str:
    return "" if exponent == 0 else letter if exponent == 1 else f"{letter}^{exponent}"


def find_correction(word: Any, degree: Any) -> Correction:
    """Return the correction of a name, or say which there are."""
    if word not in CORRECTIONS:
        raise OptionError(f"There is no correction {word!r}. Use one of {', '.join(CORRECTIONS)}.")
    if word != "dahl":
        if degree is not None:
            raise OptionError(
                f"correction={word!r} has no degree: its regressors follow from its assumptions. "
                "Leave `degree` out, or use correction='dahl'."
            )
        return Lee() if word == "lee" else DubinMcFadden(int(word[-1]))
    degree = 2 if degree is None else degree
    if isinstance(degree, bool) or not isinstance(degree, int) or not 1 <= degree <= 6:
        raise OptionError(f"degree={degree!r} is not possible. Give a whole number from 1 to 6.")
    return Dahl(degree)
