r"""Corrections for a multinomial choice: what an outcome's noise is expected to be, given it.

Each turns the chances of a logit into regressors of the second step (Bourguignon, Fournier and
Gurgand 2007 compare them). With :math:`P_j` the chance of the chosen alternative:

* ``"dmf1"`` (Dubin and McFadden 1984): noise is linear in the choice's Gumbel noises;
* ``"dmf0"``: the same with coefficients that add up to zero, as Dubin and McFadden had it;
* ``"dmf2"``: noise is linear in the Gumbel noises turned normal;
* ``"lee"`` (Lee 1983): one regressor, :math:`-\phi(\Phi^{-1}(P_j))/P_j`;
* ``"dahl"`` (Dahl 2002): any smooth function of :math:`P_j` and the largest other chance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from selfselect.errors import OptionError
from selfselect.multinomial.extremes import chosen_normal, unchosen_gumbel, unchosen_normal
from selfselect.noises.shapes.normal import SHAPE

__all__ = ["CORRECTIONS", "Correction", "Dahl", "DubinMcFadden", "Lee", "find_correction"]

Array = NDArray[np.float64]

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
