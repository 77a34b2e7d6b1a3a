"""Selection rules: who is seen, given all outcomes of a row."""

from __future__ import annotations

from typing import Any

from selfselect.errors import OptionError
from selfselect.rules._transforms import Transform
from selfselect.rules.base import BoxRule, HasBounds, HasProjection, RowData, SelectionRule
from selfselect.rules.check import Counterexample, RuleCheck, check
from selfselect.rules.convex import ConvexRule
from selfselect.rules.linear import LinearArgmax
from selfselect.rules.maximum import Maximum
from selfselect.rules.minimum import Minimum
from selfselect.rules.monotone import MonotoneArgmax
from selfselect.rules.ranked import Ranked

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
    "Ranked",
    "RowData",
    "RuleCheck",
    "SelectionRule",
    "Transform",
    "as_rule",
    "check",
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
    return rule
