"""What a selection rule is asked, and what a user keyed by alternative."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from selfselect.errors import OptionError

# The contract of selection rules: which alternative is chosen, and what explains the choice.
#
# A rule picks one alternative from the latent outcomes of a row. What a solver can do with a rule
# depends on what the rule offers beyond `choose`: a projection onto the explaining set (the latent
# outcomes under which the recorded alternative would be chosen with the recorded outcome), or
# bounds, when that set is a box.


Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

Label = Any
"""The name of an alternative: a label of the `chosen` column or a key of the equations."""

CostSpec = Mapping[Any, Any]
"""Known costs by alternative: a number for all rows, or the name of a column."""


@dataclass(frozen=True, eq=False)
class RowData:
    """What a rule may use of each row besides its outcomes.

    Attributes
    ----------
    costs : (n, k) known cost of each alternative, or None where none has one.
    available : (n, k) whether each alternative was open to the row, or None where all were.
    described : (n, k) whether the covariates of each alternative are known, or None where all are.
        Those of an alternative that was not open may be any numbers where they are not.
    priced : (n, k) whether the cost of each alternative is known, or None where all are.
    """

    costs: Array | None = None
    available: Mask | None = None
    described: Mask | None = None
    priced: Mask | None = None

    def take(self, which: slice | Indices) -> RowData:
        """Keep the rows `which`."""
        return RowData(
            None if self.costs is None else self.costs[which],
            None if self.available is None else self.available[which],
            None if self.described is None else self.described[which],
            None if self.priced is None else self.priced[which],
        )


NO_ROW_DATA = RowData()


@runtime_checkable
class SelectionRule(Protocol):
    """Anything that says which alternative is chosen."""

    @property
    def name(self) -> str:
        """A few words for summaries, such as 'the largest outcome is observed'."""

    def choose(self, latent: Array, rows: RowData = NO_ROW_DATA) -> Indices:
        """Return the chosen alternative of each row.

        Parameters
        ----------
        latent : (n, k) all outcomes of each row.
        rows : known costs and availability.

        Returns
        -------
        (n,) index of the chosen alternative.
        """


@runtime_checkable
class HasProjection(Protocol):
    """A rule that can move latent outcomes to the nearest point of the explaining set."""

    def project(
        self, latent: Array, chosen: Indices, outcome: Array, rows: RowData = NO_ROW_DATA
    ) -> Array:
        """Return the points (n, k) nearest to `latent` that explain `chosen` and `outcome`."""


@runtime_checkable
class HasBounds(Protocol):
    """A rule whose explaining sets are boxes."""

    def bounds(
        self, chosen: Indices, outcome: Array, rows: RowData = NO_ROW_DATA
    ) -> tuple[Array, Array]:
        """Return the lower and upper limits of the box that explains each row.

        Each is (n, k), or (n, 1) where all alternatives share it. The entries of the chosen
        alternative itself, and of those not available, mean nothing.
        """


class BoxRule(ABC):
    """A rule with box-shaped explaining sets: projection follows from bounds.

    Members are frozen dataclasses. Known costs, ``{alternative: number or column name}``, make an
    alternative less attractive: rules that seek the largest outcome subtract them, those that
    seek the smallest add them.
    """

    cost: CostSpec | None = None

    convex: ClassVar[bool] = True

    @property
    @abstractmethod
    def name(self) -> str:
        """A few words for summaries."""

    @abstractmethod
    def choose(self, latent: Array, rows: RowData = NO_ROW_DATA) -> Indices:
        """Return the chosen alternative of each row."""

    @abstractmethod
    def bounds(
        self, chosen: Indices, outcome: Array, rows: RowData = NO_ROW_DATA
    ) -> tuple[Array, Array]:
        """Return the limits of the box that explains each row."""

    def project(
        self, latent: Array, chosen: Indices, outcome: Array, rows: RowData = NO_ROW_DATA
    ) -> Array:
        """Clip every latent outcome to its limits, and set the chosen one to its outcome."""
        lower, upper = self.bounds(chosen, outcome, rows)
        projected = np.clip(latent, lower, upper)
        if rows.available is not None:
            projected = np.where(rows.available, projected, latent)
        projected[np.arange(latent.shape[0]), chosen] = outcome
        return projected

    def check_range(self, low: float, high: float) -> None:
        """Raise a `RuleError` if the rule cannot be right for outcomes from `low` to `high`."""
        del low, high

    def for_alternatives(self, alternatives: Sequence[Label]) -> Self:
        """Return the rule with everything it keeps by label put in the order of `alternatives`."""
        del alternatives
        return self


def choose_largest(score: Array, rows: RowData) -> Indices:
    """Pick the largest score of each row among the alternatives available to it."""
    if rows.available is not None:
        score = np.where(rows.available, score, -np.inf)
    return score.argmax(axis=1)


def own_cost(chosen: Indices, costs: Array) -> Array:
    """Return the cost of the chosen alternative of each row, shape (n, 1)."""
    return np.take_along_axis(costs, chosen[:, None], axis=1)


def has_bounds(rule: Any) -> bool:
    """Say whether the explaining sets of a rule are boxes."""
    return isinstance(rule, HasBounds)


def has_projection(rule: Any) -> bool:
    """Say whether a rule can project onto its explaining sets."""
    return isinstance(rule, HasProjection)


def takes_costs(rule: Any) -> bool:
    """Say whether a rule weighs costs against outcomes."""
    return isinstance(rule, BoxRule)


def rank_of(rule: Any, n_alternatives: int) -> int | None:
    """Return the rank of the outcome that a rule picks; None where it does not go by rank."""
    find = getattr(rule, "rank_among", None)
    return None if find is None else int(find(n_alternatives))


def direction_of(rule: Any) -> float | None:
    """Return 1 where a rule picks the largest outcome, -1 where the smallest, None for others.

    A class says so of itself alone: what derives from it may pick otherwise.
    """
    return vars(type(rule)).get("direction")


def factors_of(rule: Any, n_alternatives: int) -> Array | None:
    """Return what multiplies outcomes (k,) before they are compared, net of costs; None for others.

    A class says so of itself alone: what derives from it may compare otherwise.
    """
    if direction_of(rule) is not None:
        return np.full(n_alternatives, direction_of(rule))
    return rule.factors() if "factors" in vars(type(rule)) else None


def compares_scores(rule: Any) -> bool:
    """Say whether a rule compares scores of which each depends on its own alternative only.

    What makes one alternative better then moves rows towards it and nowhere else. A class says so
    of itself alone: what derives from it may pick otherwise.
    """
    return bool(vars(type(rule)).get("scored", False))


def linear_scores_of(rule: Any) -> tuple[Array, Array] | None:
    """Return M and c where a rule chooses the largest entry of M y + c, less costs; else None.

    A class says so of itself alone: what derives from it may choose otherwise.
    """
    return rule.linear_scores() if "linear_scores" in vars(type(rule)) else None


def picks(rule: Any) -> str:
    """Say which of the outcomes a rule picks, in words that follow "recorded is ..."."""
    if "words" not in vars(type(rule)):
        return f"the one that the rule selects ({rule.name})"
    return str(rule.words)


def is_trusted(rule: Any) -> bool:
    """Say whether a rule is one of the package, convex by construction, and not derived of one."""
    return bool(vars(type(rule)).get("trusted", False))


# Matching what a user keyed by alternative to the alternatives there are.


Value = TypeVar("Value")


def by_alternative(
    given: Mapping[Any, Value], alternatives: Sequence[Label], *, what: str
) -> dict[Label, Value]:
    """Return `given` keyed by the alternatives' own labels.

    A key matches the label it equals, else the one whose text it is: a shell can only write
    text, and the label may be the number 1.
    """
    matched: dict[Label, Value] = {}
    by_text = {str(label): label for label in alternatives}
    for key, value in given.items():
        label = key if key in alternatives else by_text.get(str(key))
        if label is None:
            names = ", ".join(map(str, alternatives))
            near = get_close_matches(str(key), by_text, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise OptionError(
                f"A {what} is given for {key!r}, but the alternatives are {names}.{hint}"
            )
        if label in matched:
            raise OptionError(f"The alternative {label!r} is given a {what} twice. Keep one.")
        matched[label] = value
    return matched
