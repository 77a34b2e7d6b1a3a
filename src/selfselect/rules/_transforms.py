"""Strictly monotone transforms of an outcome, with inverses given or found by bisection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.errors import OptionError, RuleError

__all__ = ["NAMED", "Transform", "as_transform"]

Array = NDArray[np.float64]
Function = Callable[[Any], Any]

PROBES = 801
BISECTIONS = 64
WIDEST = 40.0
"""The search variable runs from -40 to 40; sinh(40) is about 1e17, beyond any outcome's digits."""

INVERSE_TOLERANCE = 1e-6
"""How far f(inverse(f(y))) may be from f(y), relative to the spread of f, before it is wrong."""


@dataclass(frozen=True)
class Transform:
    """A strictly monotone function of an outcome.

    Parameters
    ----------
    function : vectorised, strictly increasing or strictly decreasing on `domain`.
    inverse : its vectorised inverse; found numerically where it is None.
    domain : open interval on which `function` is defined. Outcomes outside it are worth as much
        as the end they lie beyond: with the logarithm, every outcome below zero is worth -inf.
    increasing : found by probing where it is None.
    label : what summaries print and archives keep.
    """

    function: Function
    inverse: Function | None = None
    domain: tuple[float, float] = (-np.inf, np.inf)
    increasing: bool | None = None
    label: str | float | None = None

    def __call__(self, outcome: Array) -> Array:
        """Transform outcomes; those beyond the domain get the value of the end they lie beyond."""
        low, high = self.domain
        inside = (outcome > low) & (outcome < high)
        with np.errstate(all="ignore"):
            value = np.asarray(self.function(np.where(inside, outcome, self._middle())), float)
        if value.shape != np.shape(outcome):
            raise RuleError(
                f"The transform {self.describe()} turned an array of shape {np.shape(outcome)} "
                f"into one of shape {value.shape}. Give a function that works elementwise."
            )
        if not inside.all():
            worst, best = (-np.inf, np.inf) if self.increasing else (np.inf, -np.inf)
            value = np.where(outcome <= low, worst, np.where(outcome >= high, best, value))
        return value

    def solve(self, level: Array) -> Array:
        """Return the outcome whose transform is `level`; an end of the domain if none reaches it.

        An inverse may answer beyond the range of the function too, and wrongly: the square of -2
        is not where the square root is -2. So what it answers is transformed and compared.
        """
        rising = 1.0 if self.increasing else -1.0
        if self.inverse is None:
            return self._bisect(rising * level, rising)
        with np.errstate(all="ignore"):
            outcome = np.asarray(self.inverse(level), float)
            gap = np.abs(self(outcome) - level)
        # Against an infinite level any gap is small.
        lost = ~(gap <= INVERSE_TOLERANCE * (1.0 + np.abs(level))) | np.isinf(level)
        if lost.any():
            outcome = outcome.copy()
            outcome[lost] = self._bisect(rising * level[lost], rising)
        return outcome

    def _bisect(self, level: Array, rising: float) -> Array:
        low = np.full(level.shape, -WIDEST)
        high = np.full(level.shape, WIDEST)
        above_all = rising * self(self._spread(high)) <= level
        below_all = rising * self(self._spread(low)) >= level
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            under = rising * self(self._spread(middle)) <= level
            low = np.where(under, middle, low)
            high = np.where(under, high, middle)
        found = self._spread(0.5 * (low + high))
        return np.where(above_all, self.domain[1], np.where(below_all, self.domain[0], found))

    def _spread(self, u: Array) -> Array:
        """Map the search variable onto the domain, fine near its finite ends and near zero."""
        low, high = self.domain
        if np.isfinite(low) and np.isfinite(high):
            return low + (high - low) / (1.0 + np.exp(-u))
        if np.isfinite(low):
            return low + np.exp(u)
        if np.isfinite(high):
            return high - np.exp(-u)
        return np.sinh(u)

    def _middle(self) -> float:
        return float(self._spread(np.zeros(1))[0])

    def probed(self, low: float | None = None, high: float | None = None) -> Transform:
        """Check monotonicity on a grid and return the transform with its direction filled in.

        The grid covers the whole domain, or `low` to `high` where given.
        """
        if low is None or high is None:
            outcome = self._spread(np.linspace(-12.0, 12.0, PROBES))
        else:
            outcome = np.linspace(max(low, self.domain[0]), min(high, self.domain[1]), PROBES)
            outcome = outcome[(outcome > self.domain[0]) & (outcome < self.domain[1])]
        value = self(outcome)
        if np.isnan(value).any():
            bad = outcome[np.isnan(value)][0]
            raise RuleError(
                f"The transform {self.describe()} is not defined at {bad:.6g}. Outcomes can take "
                "any real value: give a function defined everywhere, or its `domain` with "
                "selfselect.rules.Transform(function, domain=(low, high))."
            )
        finite = np.isfinite(value)
        outcome, value = outcome[finite], value[finite]
        steps = np.diff(value)
        # Functions that saturate (a logistic curve) or round off are flat in floating point.
        rises, falls = steps > 0, steps < 0
        if rises.any() and falls.any():
            minority = falls if falls.sum() <= rises.sum() else rises
            at = int(np.flatnonzero(minority)[0])
            raise RuleError(
                f"The transform {self.describe()} is not monotone: from {outcome[at]:.6g} to "
                f"{outcome[at + 1]:.6g} it goes from {value[at]:.6g} to {value[at + 1]:.6g}, "
                "against its direction elsewhere. Only strictly increasing or decreasing "
                "transforms have box-shaped explaining sets."
            )
        if not (rises.any() or falls.any()):
            raise RuleError(
                f"The transform {self.describe()} is constant, so it cannot rank outcomes. "
                "Give a strictly increasing or decreasing function."
            )
        direction = bool(rises.any())
        if self.increasing is not None and self.increasing != direction:
            raise RuleError(
                f"The transform {self.describe()} was declared "
                f"{'increasing' if self.increasing else 'decreasing'} but goes the other way."
            )
        known = replace(self, increasing=direction)
        known._check_inverse(outcome, value)
        return known

    def _check_inverse(self, outcome: Array, value: Array) -> None:
        if self.inverse is None:
            return
        with np.errstate(all="ignore"):
            back = self(np.asarray(self.inverse(value), float))
        gap = np.abs(back - value) / np.maximum(np.abs(value), np.median(np.abs(value)) + 1e-300)
        wrong = ~(gap <= INVERSE_TOLERANCE)
        # Where the function saturates or underflows, no inverse can tell where it came from.
        moves = np.diff(value) != 0
        wrong &= np.append(moves, True) & np.append(True, moves)
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise RuleError(
                f"The inverse given for the transform {self.describe()} is not its inverse: at "
                f"{outcome[at]:.6g} the transform is {value[at]:.6g}, and transforming what the "
                f"inverse returns for that gives {back[at]:.6g}. Leave the inverse out to have "
                "it found numerically."
            )

    def describe(self) -> str:
        """Name the transform for messages and summaries."""
        if isinstance(self.label, float):
            return f"{self.label:g}·y"
        return str(self.label or getattr(self.function, "__name__", "function"))


def _logistic(y: Array) -> Array:
    return np.where(y < 0, np.exp(np.minimum(y, 0)), 1.0) / (1.0 + np.exp(-np.abs(y)))


def _logit(p: Array) -> Array:
    return np.log(p) - np.log1p(-p)


NAMED: dict[str, Transform] = {
    "identity": Transform(np.positive, np.positive, increasing=True, label="identity"),
    "negative": Transform(np.negative, np.negative, increasing=False, label="negative"),
    "exp": Transform(np.exp, np.log, increasing=True, label="exp"),
    "log": Transform(np.log, np.exp, (0.0, np.inf), increasing=True, label="log"),
    "sqrt": Transform(np.sqrt, np.square, (0.0, np.inf), increasing=True, label="sqrt"),
    "logistic": Transform(_logistic, _logit, increasing=True, label="logistic"),
}


def as_transform(value: Any) -> Transform:
    """Make a transform of a name, a number (a factor), a function, or (function, inverse)."""
    if isinstance(value, Transform):
        return value.probed()
    if isinstance(value, str):
        if value not in NAMED:
            raise OptionError(
                f"There is no transform named {value!r}. Use one of {', '.join(sorted(NAMED))}, "
                "a number (a factor), a function, or a pair (function, inverse)."
            )
        return NAMED[value]
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return _factor(float(value))
    if isinstance(value, tuple) and len(value) == 2 and all(callable(part) for part in value):
        return Transform(*value).probed()
    if callable(value):
        return Transform(value).probed()
    raise OptionError(
        f"{value!r} is not a transform. Use a name ({', '.join(sorted(NAMED))}), a number "
        "(a factor), a function, or a pair (function, inverse)."
    )


def _factor(factor: float) -> Transform:
    if not np.isfinite(factor) or factor == 0:
        raise RuleError(f"A transform by the factor {factor:g} is not monotone. Use another.")
    return Transform(
        lambda y: factor * y, lambda v: v / factor, increasing=factor > 0, label=factor
    )
