"""What is asked of a table by a model with a selection equation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.coding import OutcomeCoder
from selfselect.data.columns import first_rows, to_numbers
from selfselect.data.equations import INTERCEPT, Equations
from selfselect.data.formulas import (
    ParsedFormula,
    column_alone,
    label_rows,
    refuse_decided_covariates,
)
from selfselect.data.missing import (
    EVERYTHING_RECORDED,
    Unrecorded,
    drop_unrecorded,
    find_any_absent,
    find_incomplete,
)
from selfselect.data.plan import Contents, Kept, Learner, offset_columns
from selfselect.data.rows import guess_outcomes
from selfselect.errors import DataError, OptionError
from selfselect.rules.base import Label

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

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
    weights, weights_kind, missing, missing_outcome, available : as in `selfselect.fit`; weights
        that are no column are left to the caller.
    ways : the columns that rows are clustered by.
    unrecorded : what is known of rows without an outcome.
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
    weights: str | None = None
    weights_kind: str | None = None
    ways: tuple[str, ...] = ()
    missing: str = "drop"
    missing_outcome: str = "raise"
    available: Mapping[Any, str] | None = None
    unrecorded: Unrecorded = EVERYTHING_RECORDED
    panel: ClassVar[None] = None

    def __post_init__(self) -> None:
        refuse_decided_covariates(self.each, offset_columns(self.offset))

    @property
    def each(self) -> list[ParsedFormula]:
        """The formulas of outcomes that were given."""
        given = self.outcomes
        return list(given.values()) if isinstance(given, dict) else [given]

    @property
    def first(self) -> ParsedFormula:
        """The first formula of an outcome; all have the same left side."""
        return self.each[0]

    @property
    def left_sides(self) -> tuple[str, ...]:
        """What is computed of rows one by one: the outcome, and what says that it was selected."""
        return (self.first.outcome, *(() if self.if_recorded else (self.selection.outcome,)))

    @property
    def right_sides(self) -> tuple[ParsedFormula, ...]:
        """The formulas of outcomes and of the selection."""
        return (*self.each, self.selection)

    @cached_property
    def choice(self) -> str:
        """The left side of the selection; the name of its column, where it is no more than that."""
        return column_alone(self.selection)

    @property
    def chosen(self) -> tuple[str, ...]:
        """The columns that say which rows were selected."""
        return () if self.if_recorded else self.selection.outcome_columns

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns of alternatives and of clusters."""
        return (*((self.choice,) if self.switching else ()), *self.ways)

    @cached_property
    def term_columns(self) -> tuple[str, ...]:
        """The columns of all right sides and offsets."""
        named = [name for one in self.right_sides for name in one.term_columns]
        return tuple(dict.fromkeys((*named, *offset_columns(self.offset))))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All data columns that are needed."""
        wanted = [*self.first.outcome_columns, *self.chosen, *self.term_columns, *self.ways]
        wanted += [*self.unrecorded.columns, *([] if self.weights is None else [self.weights])]
        return tuple(dict.fromkeys((*wanted, *(self.available or {}).values())))

    def keys(self, formulas: Sequence[ParsedFormula]) -> list[str]:
        """Name what is learnt: the selection's right side, and those of outcomes, in order.

        Sides of outcomes that are the same are learnt once. That of a single outcome is learnt
        from other rows than the selection's, so it has a name of its own.
        """
        of_outcomes = [one.terms for one in formulas]
        if not self.switching:
            of_outcomes = [f"{OUTCOME} ~ {terms}" for terms in of_outcomes]
        return [self.selection.terms, *of_outcomes]

    def outcome_of(self, label: Label) -> str:
        """Name the outcome of an alternative in messages."""
        return f"{self.first.outcome} of {label}" if self.switching else self.first.outcome

    def choices(self, frame: pd.DataFrame) -> tuple[Indices, list[Label]]:
        """Return the place of each row's alternative among those met, -1 where none is selected."""
        if not self.switching:
            if self.if_recorded:
                absent = find_any_absent(frame, self.first.outcome_columns)
                selected = np.ones(len(frame), dtype=bool) if absent is None else ~absent
            else:
                selected = _truth(frame, self.selection)
            return np.where(selected, 0, -1).astype(np.intp), [OUTCOME]
        if self.choice not in frame:
            raise OptionError(
                f"The left side of the selection, {self.choice!r}, is not a column. "
                "Name the column that says which alternative was chosen."
            )
        return label_rows(frame[self.choice])

    def shown(self, frame: pd.DataFrame, codes: Indices) -> Indices:
        """Return `codes` where the outcome, or a limit of it, was recorded, and -1 elsewhere."""
        absent = find_any_absent(frame, self.first.outcome_columns)
        if absent is None:
            return codes
        limits = self.unrecorded.limits(frame, np.zeros(len(frame)))
        if limits is not None:
            absent = absent & ~np.isfinite(limits).any(axis=1)
        return np.where(absent, -1, codes)

    def limits(self, frame: pd.DataFrame, codes: Indices | None, outcome: Array) -> Array | None:
        """Return limits (n, 2) of selected outcomes that were not recorded; nan elsewhere."""
        assert codes is not None
        between = self.unrecorded.limits(frame, np.where(codes >= 0, outcome, 0.0))
        if between is not None:
            between[(codes < 0) | ~np.isnan(outcome)] = np.nan
        return between

    def clean(self, frame: pd.DataFrame) -> Kept:
        """Leave out rows that lack a covariate, or the outcome, of an equation they are used in."""
        n_without = 0
        for name in self.chosen:
            choice = "raise" if self.missing_outcome == "silent" else self.missing_outcome
            frame, n_more = drop_unrecorded(
                frame, (), name, choice, name, can_keep=False, weights=self.weights
            )
            n_without += n_more
        incomplete, lacking = find_incomplete(frame, self.selection.term_columns)
        kept = frame[~incomplete].infer_objects() if lacking else frame
        n_incomplete = int(incomplete.sum())
        if find_any_absent(kept, {*self.first.outcome_columns, *self.term_columns}) is None:
            return Kept(kept, lacking, n_incomplete, n_without)
        codes, labels = self.choices(kept)
        # Rows without an outcome need what explains the selection, and nothing else.
        used = self.shown(kept, codes) if self.unrecorded.silent else codes
        incomplete = np.zeros(len(kept), dtype=bool)
        for place, label in enumerate(labels):
            own = np.flatnonzero(used == place)
            absent, of_own = find_incomplete(_rows(kept, own), self.needed(label))
            incomplete[own] = absent
            lacking += of_own
        if incomplete.any():
            kept, used = kept[~incomplete].infer_objects(), used[~incomplete]
        unrecorded = find_any_absent(kept, self.first.outcome_columns)
        if unrecorded is not None and (unrecorded & (used >= 0)).any():
            selected = np.flatnonzero(used >= 0)
            left, n_more = drop_unrecorded(
                kept.iloc[selected], self.first.outcome_columns, None, self.missing_outcome,
                self.first.outcome, self.unrecorded, selected=True, weights=self.weights,
            )  # fmt: skip
            if len(left) < len(selected):
                kept, n_without = kept[~unrecorded | (used < 0)], n_without + n_more
        return Kept(kept, lacking, n_incomplete + int(incomplete.sum()), n_without)

    def needed(self, label: Label) -> tuple[str, ...]:
        """Return the columns that the outcome of an alternative depends on."""
        formula = _of_label(self.outcomes, label)
        offset = _of_label(self.offset, label)
        named = () if formula is None else formula.term_columns
        return (*named, *(() if offset is None else (offset,)))

    def contents(self, frame: pd.DataFrame) -> Contents:
        """Read outcome and choice; a right side is learnt from the rows that have its columns."""
        codes, labels = self.choices(frame)
        shown = self.shown(frame, codes)
        absent = find_any_absent(frame, self.first.outcome_columns)
        observed = np.flatnonzero((shown >= 0) & (True if absent is None else ~absent))
        outcome = np.full(len(frame), np.nan)
        if len(observed):
            outcome[observed] = self.outcome_coder(_rows(frame, observed))[1]
        guessed = guess_outcomes(outcome, self.limits(frame, codes, outcome))
        columns = (*self.selection.term_columns, *self.label_columns)
        learners = [Learner(None, frame, columns)]
        for place, label in enumerate(labels):
            own = _rows(frame, np.flatnonzero(shown == place))
            learners.append(Learner(label, own, () if self.switching else self.needed(label)))
        sides = self.right_sides if self.switching else ()
        for terms, needed in {one.terms: one.term_columns for one in sides}.items():
            absent = find_any_absent(frame, needed)
            whole = frame if absent is None else frame[~absent]
            learners.append(Learner(None, whole, needed, terms))
        return Contents(guessed, codes, labels, learners, int((shown >= 0).sum()) - len(observed))

    def outcome_coder(self, frame: pd.DataFrame) -> tuple[OutcomeCoder, Array]:
        """Learn how outcomes are coded from rows that have one, and code them."""
        coder, values = OutcomeCoder.learn(self.first.outcome, self.first.outcome_columns, frame)
        if self.binary:
            self.check_binary(values)
        return coder, values

    def check_binary(self, values: Array) -> None:
        """Refuse a binary outcome that is neither true nor false."""
        odd = ~np.isin(values, (0.0, 1.0))
        if odd.any():
            name = self.first.outcome
            raise DataError(
                f"binary=True needs an outcome of 1 and 0 (or true and false), but {name!r} holds "
                f"{values[odd][0]:g}. Make a column that is, such as data[{name!r}] > 0, or leave "
                "it out."
            )


def _rows(frame: pd.DataFrame, which: Indices) -> pd.DataFrame:
    return frame if len(which) == len(frame) else frame.iloc[which]


def _of_label(given: Any, label: Label) -> Any:
    """Return what was given for all alternatives, or for the one of a label; None if nothing."""
    if not isinstance(given, Mapping):
        return given
    return given.get(
        label, next((one for key, one in given.items() if str(key) == str(label)), None)
    )


def _truth(frame: pd.DataFrame, selection: ParsedFormula) -> Mask:
    """Read the left side of a selection as true or false."""
    name = column_alone(selection)
    what = f"The selection {name!r} must be true or false (1 or 0)"
    advice = f"Make a column that is, such as data[{name!r}] == {{value}}."
    if not len(frame):
        return np.zeros(0, dtype=bool)
    if name in frame:
        try:
            numbers = to_numbers(frame[name], what)
        except DataError as error:
            example = repr(frame[name].iloc[0])
            raise DataError(
                f"{what}, but it holds values such as {example}. {advice.format(value=example)}"
            ) from error
    else:
        numbers = OutcomeCoder.learn(name, selection.outcome_columns, frame)[1]
    odd = (numbers != 0) & (numbers != 1)
    if odd.any():
        example = f"{numbers[odd][0]:g}"
        raise DataError(
            f"{what}, but {first_rows(odd, frame.index)} hold {example}. "
            f"{advice.format(value=example)}"
        )
    return np.equal(numbers, 1.0)


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
