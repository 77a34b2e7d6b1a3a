"""What is asked of a table by a model with a selection equation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from selfselect.data.equations import INTERCEPT, Equations
from selfselect.data.formulas import ParsedFormula
from selfselect.data.restrictions import offset_columns
from selfselect.errors import OptionError
from selfselect.rules.base import Label

__all__ = ["OUTCOME", "SLOPES", "SelectionPlan", "find_towards", "order_of", "shared_terms"]

OUTCOME = "outcome"
"""The label of the one alternative of a sample-selection model."""
SLOPES = "slopes"
"""Stands for all coefficients but constants among those that are shared."""


@dataclass(frozen=True, eq=False)
class SelectionPlan:
    """What is asked of a table.

    Attributes
    ----------
    outcomes : the formula of the outcome, or one by alternative.
    selection : the formula of the selection.
    switching : whether there are several outcomes, and the selection is between them.
    ordered : labels from the lowest index to the highest, or True for the column's own order;
        None where there are two outcomes, and no order.
    shared : coefficients that alternatives have in common, as in `selfselect.fit`; or ``"slopes"``,
        all but the constants.
    binary : whether the outcome is true or false.
    several : whether there may be more than two outcomes without an order.
    offset : a column that is added to the mean of every outcome, or one by alternative.
    endogenous : by covariate, the right side that holds its instruments.
    if_recorded : whether a row is selected where its outcome is recorded; the left side of
        `selection` then means nothing.
    """

    outcomes: ParsedFormula | dict[Any, ParsedFormula]
    selection: ParsedFormula
    switching: bool
    if_recorded: bool = False
    ordered: Any = None
    shared: Any = None
    binary: bool = False
    offset: Any = None
    several: bool = False
    endogenous: Any = None

    @property
    def each(self) -> list[ParsedFormula]:
        """The formulas of outcomes that were given."""
        given = self.outcomes
        return list(given.values()) if isinstance(given, dict) else [given]

    @property
    def chosen(self) -> tuple[str, ...]:
        """The columns that say which rows were selected."""
        return () if self.if_recorded else self.selection.outcome_columns

    @property
    def terms(self) -> tuple[str, ...]:
        """The columns of all right sides."""
        formulas = (*self.each, self.selection)
        named = [name for one in formulas for name in one.term_columns]
        return tuple(dict.fromkeys((*named, *offset_columns(self.offset))))


def order_of(ordered: Any, labels: Sequence[Label], column: pd.Series[Any]) -> list[int]:
    """Return the places of the labels from the lowest index to the highest."""
    name = column.name
    if ordered is True:
        if isinstance(column.dtype, pd.CategoricalDtype):
            if column.cat.ordered:
                known = [str(one) for one in column.cat.categories]
                return sorted(range(len(labels)), key=lambda j: known.index(str(labels[j])))
        elif all(isinstance(label, bool | int | float) for label in labels):
            return sorted(range(len(labels)), key=lambda j: float(labels[j]))
        raise OptionError(
            f"ordered=True needs numbers or an ordered category, and {name!r} holds "
            f"{', '.join(map(repr, labels[:6]))}, which have no order. Give it: ordered=[lowest, "
            "..., highest]."
        )
    if isinstance(ordered, str) or not isinstance(ordered, Sequence):
        raise OptionError(
            f"ordered={ordered!r} is not possible. Give the labels of {name!r} in order, "
            f"ordered={list(labels)!r}, or True for numbers and ordered categories."
        )
    texts, given = [str(label) for label in labels], [str(one) for one in ordered]
    if sorted(texts) != sorted(given):
        raise OptionError(
            f"ordered={list(ordered)!r} does not name the labels of {name!r} once each: "
            f"{', '.join(map(repr, labels))}."
        )
    return [texts.index(one) for one in given]


def shared_terms(equations: Equations, shared: Any) -> Any:
    """Return the terms of all slopes that alternatives have in common, where those are meant."""
    if shared != SLOPES:
        return shared
    every = [term for one in equations.each for term in one.estimated if term != INTERCEPT]
    found = [term for term in dict.fromkeys(every) if every.count(term) > 1]
    if not found:
        raise OptionError(
            "shared='slopes' finds no covariate that two alternatives have. Name the terms that "
            "belong together: shared={'distance': {'a': 'distance_a', 'b': 'distance_b'}}."
        )
    return found


def find_towards(labels: Sequence[Label], towards: Any) -> Label:
    """Return the alternative that a positive index selects."""
    if towards is None:
        # True and 1 speak for themselves; else the first that the user named.
        yes = [label for label in labels if label is True or (label == 1 and set(labels) == {0, 1})]
        return yes[0] if yes else labels[0]
    found = [label for label in labels if str(label) == str(towards)]
    if not found:
        raise OptionError(
            f"towards={towards!r} is no alternative. Use {' or '.join(map(repr, labels))}."
        )
    return found[0]
