"""Selection rules: which alternative is chosen, given all outcomes of a row."""

from __future__ import annotations

from typing import Any

from selfselect.errors import OptionError, RuleError
from selfselect.rules.base import (
    BoxRule,
    HasBounds,
    HasProjection,
    RowData,
    SelectionRule,
    compares_scores,
    direction_of,
    has_bounds,
    has_projection,
    is_trusted,
    linear_scores_of,
    picks,
    rank_of,
    takes_costs,
)
from selfselect.rules.check import Counterexample, RuleCheck, check
from selfselect.rules.convex import ConvexRule
from selfselect.rules.linear import LinearArgmax
from selfselect.rules.maximum import Maximum
from selfselect.rules.minimum import Minimum
from selfselect.rules.monotone import MonotoneArgmax, Transform
from selfselect.rules.ordered_index import OrderedIndex
from selfselect.rules.ranked import Ranked
from selfselect.rules.selection_index import SelectionIndex

__all__ = [
    "BoxRule",
    "ConvexRule",
    "Counterexample",
    "HasBounds",
    "HasProjection",
    "LinearArgmax",
    "Maximum",
    "Minimum",
    "MonotoneArgmax",
    "OrderedIndex",
    "Ranked",
    "RowData",
    "RuleCheck",
    "SelectionIndex",
    "SelectionRule",
    "Transform",
    "as_rule",
    "check",
    "compares_scores",
    "direction_of",
    "has_bounds",
    "has_projection",
    "is_trusted",
    "linear_scores_of",
    "picks",
    "rank_of",
    "takes_costs",
]

_BY_NAME = {"max": Maximum, "min": Minimum}


def as_rule(rule: Any) -> SelectionRule:
    """Make a rule of ``"max"``, ``"min"`` or a rule object."""
    if isinstance(rule, str):
        if rule not in _BY_NAME:
            raise OptionError(
                f"There is no rule named {rule!r}. Use 'max', 'min', or a rule object such as "
                "selfselect.rules.MonotoneArgmax({...})."
            )
        return _BY_NAME[rule]()
    if isinstance(rule, type) or not isinstance(rule, SelectionRule):
        raise OptionError(
            f"{rule!r} is not a selection rule, an object with `choose` and `name`. Use 'max', "
            "'min', or an object of selfselect.rules (call the class: Maximum(), not Maximum)."
        )
    _refuse_half_a_rule(type(rule))
    return rule


def _refuse_half_a_rule(kind: type) -> None:
    """Refuse a rule that derives its own `choose` and inherits what the likelihood is made of.

    Likelihoods use `bounds` (or a rank) and never ask `choose`.
    """
    choosing = _owner(kind, "choose")
    for method in ("bounds", "project", "rank_among"):
        owner = _owner(kind, method)
        if owner is None or owner in (choosing, BoxRule) or choosing is None:
            continue
        if issubclass(choosing, owner):
            raise RuleError(
                f"{choosing.__name__} changes `choose` of {owner.__name__} and keeps its "
                f"`{method}`, so it would be fitted as {owner.__name__}. Change both, or pass the "
                "function as selfselect.rules.ConvexRule(choose)."
            )


def _owner(kind: type, method: str) -> type | None:
    """Return the class in which a rule finds a method."""
    return next((one for one in kind.__mro__ if method in vars(one)), None)
