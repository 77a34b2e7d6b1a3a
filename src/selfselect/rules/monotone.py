"""Outcomes are transformed, then compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from selfselect.errors import ArchiveError, OptionError, RuleError
from selfselect.plain import archived
from selfselect.rules.base import (
    NO_ROW_DATA,
    Array,
    BoxRule,
    Indices,
    Label,
    RowData,
    by_alternative,
    choose_largest,
)

# Strictly monotone transforms of an outcome, with inverses given or found by bisection.

Function = Callable[[Any], Any]

PROBES = 801
BISECTIONS = 64
PROBED = np.array([-1e4, -3.7, -0.01, 0.2, 1.9, 5e3])
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
        found = np.where(above_all, self.domain[1], self.domain[0])
        between = np.flatnonzero(~(above_all | below_all))
        if len(between):
            low, high, level = low[between], high[between], level[between]
            for _ in range(BISECTIONS):
                middle = 0.5 * (low + high)
                under = rising * self(self._spread(middle)) <= level
                low = np.where(under, middle, low)
                high = np.where(under, high, middle)
            found[between] = self._spread(0.5 * (low + high))
        return found

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

    @property
    def factor(self) -> float | None:
        """The number that outcomes are multiplied by, where that is all."""
        claimed = {"identity": 1.0, "negative": -1.0}.get(str(self.label), self.label)
        # A label is what a user likes to call a function.
        if not isinstance(claimed, float) or not np.array_equal(self(PROBED), claimed * PROBED):
            return None
        return claimed

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


# The monotone-argmax rule: the alternative whose transformed outcome is largest is chosen.


@archived("monotone argmax")
@dataclass(frozen=True)
class MonotoneArgmax(BoxRule):
    r"""Choose the alternative whose transformed outcome, net of its cost, is largest.

    With strictly monotone :math:`f_j`, alternative :math:`j` is chosen if
    :math:`f_j(y_j) - c_j` is largest. Then :math:`f_l(y_l) \le f_j(y_j) - c_j + c_l`, so
    :math:`y_l` is bounded above where :math:`f_l` increases and below where it decreases.

    Parameters
    ----------
    transforms : per alternative, as a mapping by label or a sequence in order: a name
        (identity, negative, exp, log, sqrt, logistic), a number (a factor), a function, a pair
        (function, inverse), or a `Transform`. Alternatives a mapping leaves out keep their
        outcome as it is. An inverse that is not given is found by bisection.
    cost : known cost of alternatives, in the units of the transformed outcomes.

    Examples
    --------
    >>> import numpy as np
    >>> from selfselect.rules import MonotoneArgmax
    >>> rule = MonotoneArgmax(["exp", 2.0])
    >>> rule.choose(np.array([[0.0, 1.0], [2.0, 1.0]])).tolist()
    [1, 0]
    """

    transforms: Mapping[Any, Any] | Sequence[Any] = ()
    cost: Mapping[Any, Any] | None = None
    _ordered: tuple[Transform, ...] | None = field(default=None, repr=False, compare=False)

    trusted: ClassVar[bool] = True
    scored: ClassVar[bool] = True
    words: ClassVar[str] = "the one whose known transform is largest"

    def __post_init__(self) -> None:
        if not self.transforms:
            raise RuleError(
                "MonotoneArgmax needs a transform for at least one alternative, for example "
                "MonotoneArgmax({'A': 'exp'}). Without any, use Maximum()."
            )
        if self._ordered is None and not isinstance(self.transforms, Mapping):
            object.__setattr__(self, "_ordered", tuple(map(as_transform, self.transforms)))

    @property
    def name(self) -> str:
        if isinstance(self.transforms, Mapping):
            words = [f"{k}: {as_transform(v).describe()}" for k, v in self.transforms.items()]
        else:
            words = [transform.describe() for transform in self._in_order()]
        return (
            f"the alternative with the largest transformed outcome is chosen ({', '.join(words)})"
        )

    def plain(self) -> dict[str, Any]:
        """Return what a file holds of the rule: names of transforms and factors, never code."""
        given = self.transforms
        held: Any
        if isinstance(given, Mapping):
            held = {key: _label_of(value) for key, value in given.items()}
        else:
            held = tuple(_label_of(value) for value in given)
        return {"transforms": held, "cost": self.cost}

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> Self:
        """Rebuild the rule from a file."""
        given = values["transforms"]
        for value in given.values() if isinstance(given, Mapping) else given:
            _label_of(value)
        return cls(given, cost=values["cost"])

    def _in_order(self) -> tuple[Transform, ...]:
        if self._ordered is None:
            raise RuleError(
                "MonotoneArgmax holds transforms by label and does not know the alternatives' "
                "order yet. Call rule.for_alternatives([...]) first, or give a sequence."
            )
        return self._ordered

    def for_alternatives(self, alternatives: Sequence[Label]) -> Self:
        if not isinstance(self.transforms, Mapping):
            if len(self._in_order()) != len(alternatives):
                raise RuleError(
                    f"MonotoneArgmax holds {len(self._in_order())} transforms but there are "
                    f"{len(alternatives)} alternatives: {', '.join(map(str, alternatives))}."
                )
            return self
        given = by_alternative(self.transforms, alternatives, what="transform")
        ordered = tuple(
            as_transform(given[label]) if label in given else NAMED["identity"]
            for label in alternatives
        )
        return replace(self, _ordered=ordered)

    def factors(self) -> Array | None:
        """Return the factor of each alternative; None where a transform is another function."""
        found = [transform.factor for transform in self._in_order()]
        return None if None in found else np.array(found, dtype=float)

    def check_range(self, low: float, high: float) -> None:
        reach = 3.0 * (high - low)
        for transform in self._in_order():
            transform.probed(low - reach, high + reach)

    def choose(self, latent: Array, rows: RowData = NO_ROW_DATA) -> Indices:
        score = np.column_stack([f(latent[:, j]) for j, f in enumerate(self._in_order())])
        return choose_largest(score if rows.costs is None else score - rows.costs, rows)

    def bounds(
        self, chosen: Indices, outcome: Array, rows: RowData = NO_ROW_DATA
    ) -> tuple[Array, Array]:
        transforms = self._in_order()
        shape = (outcome.shape[0], len(transforms))
        level = np.empty(shape[0])
        for j, transform in enumerate(transforms):
            here = chosen == j
            level[here] = transform(outcome[here])
            if rows.costs is not None:
                level[here] -= rows.costs[here, j]
        lower, upper = np.full(shape, -np.inf), np.full(shape, np.inf)
        for j, transform in enumerate(transforms):
            others = chosen != j
            threshold = (
                level[others] if rows.costs is None else level[others] + rows.costs[others, j]
            )
            side = upper if transform.increasing else lower
            side[others, j] = transform.solve(threshold)
        return lower, upper


def _label_of(value: Any) -> str | float:
    """Return the name or factor of a transform, if that is all there is to it."""
    label = as_transform(value).label
    if label is None or (isinstance(label, str) and label not in NAMED):
        raise ArchiveError(
            "A fit whose transforms are functions cannot be saved: a saved fit holds no code. Use "
            f"named transforms ({', '.join(sorted(NAMED))}) or factors, or save its tables with "
            "tidy().to_csv(...)."
        )
    return label
