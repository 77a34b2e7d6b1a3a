"""What a user asks of a table, read and checked before any row is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.alternatives import label_rows
from selfselect.data.checks import check_word
from selfselect.data.coding import OutcomeCoder, check_known
from selfselect.data.costs import parse_cost, split_costs
from selfselect.data.formulas import ParsedFormula, parse_formulas, refuse_decided_covariates
from selfselect.data.missing import drop_unrecorded, find_any_absent, find_incomplete
from selfselect.data.restrictions import offset_columns
from selfselect.data.spreads import Spreads, parse_spreads
from selfselect.data.unrecorded import Unrecorded
from selfselect.data.weights import check_weights_kind
from selfselect.rules.base import Label

__all__ = ["Contents", "Kept", "Learner", "Plan", "read_plan"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Kept:
    """Rows that are used, and what became of the others.

    Attributes
    ----------
    frame : the rows to be used.
    lacking : by covariate, rows that lack it.
    n_incomplete, n_without : rows left out for a covariate, and for an outcome.
    """

    frame: pd.DataFrame
    lacking: Counter[str]
    n_incomplete: int
    n_without: int


@dataclass(frozen=True, eq=False)
class Learner:
    """Rows from which something is learnt.

    Attributes
    ----------
    label : of the alternative whose outcomes they show; None where those are not asked about.
    frame : the rows.
    columns : those of their columns that something is learnt from.
    side : the right side that is learnt from them; None where every one is.
    """

    label: Label | None
    frame: pd.DataFrame
    columns: tuple[str, ...]
    side: str | None = None


@dataclass(frozen=True, eq=False)
class Contents:
    """What rows hold, read before anything is learnt from them.

    Attributes
    ----------
    outcome : (n,) nan where there is none.
    chosen : (n,) place of each row's alternative among `labels`, -1 for none; None where the choice
        is not recorded.
    labels : the alternatives that occur.
    learners : which rows are learnt from.
    n_selected_silent, n_between : rows that a selection equation selected, without an outcome, and
        with limits of it alone.
    """

    outcome: Array
    chosen: Indices | None
    labels: list[Label]
    learners: list[Learner]
    n_selected_silent: int = 0
    n_between: int = 0


@dataclass(frozen=True, eq=False)
class Plan:
    """The arguments of a fit that speak of the table.

    Attributes
    ----------
    parsed : one formula, or one per alternative.
    chosen : the column of the chosen alternative; None where it was not recorded.
    alternatives : how many, where the chosen one was not recorded.
    available : by alternative, the column that says whether it is available.
    cost : known costs by alternative: numbers or columns.
    estimated : formulas of the costs that are estimated.
    spreads : formulas of log scales that move with covariates.
    shared, offset : restrictions, as given.
    weights : the column of weights, or None.
    weights_kind : frequency or probability; None where it was not said.
    ways : the columns that rows are clustered by.
    panel : the column that says whose row it is; None where each row is its own.
    weighing : the formula of the weights of unobserved types; None where they depend on nothing.
    missing, missing_outcome : what becomes of rows that lack something.
    unrecorded : what is known of rows without an outcome, or without a choice.
    """

    parsed: ParsedFormula | dict[Any, ParsedFormula]
    chosen: str | None
    alternatives: Any
    available: Mapping[Any, str] | None
    cost: Mapping[Any, Any] | None
    estimated: dict[Any, ParsedFormula]
    spreads: Spreads
    shared: Any
    offset: Any
    weights: str | None
    weights_kind: str | None
    ways: tuple[str, ...]
    missing: str
    missing_outcome: str
    unrecorded: Unrecorded
    panel: str | None = None
    weighing: ParsedFormula | None = None

    @property
    def each(self) -> list[ParsedFormula]:
        """The formulas that were given."""
        return list(self.parsed.values()) if isinstance(self.parsed, dict) else [self.parsed]

    @property
    def first(self) -> ParsedFormula:
        """The first formula; all have the same left side."""
        return self.each[0]

    @cached_property
    def right_sides(self) -> tuple[ParsedFormula, ...]:
        """The formulas of outcomes, estimated costs, log scales and weights of types."""
        spreads = self.spreads
        each = spreads.values() if isinstance(spreads, dict) else [spreads] if spreads else []
        weighing = () if self.weighing is None else (self.weighing,)
        return (*self.each, *self.estimated.values(), *each, *weighing)

    @cached_property
    def term_columns(self) -> tuple[str, ...]:
        """The data columns that right sides and offsets need."""
        named = [name for one in self.right_sides for name in one.term_columns]
        return tuple(dict.fromkeys((*named, *offset_columns(self.offset))))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All data columns that are needed."""
        wanted = [*self.first.outcome_columns, *self.term_columns, self.chosen, self.weights]
        wanted += [
            *self.ways,
            self.panel,
            *(self.available or {}).values(),
            *self.unrecorded.columns,
        ]
        wanted += [entry for entry in (self.cost or {}).values() if isinstance(entry, str)]
        return tuple(dict.fromkeys(name for name in wanted if name is not None))

    @property
    def left_sides(self) -> tuple[str, ...]:
        """What is computed of rows one by one."""
        return (self.first.outcome,)

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns of alternatives, people and clusters."""
        named = (self.chosen, self.panel)
        return (*(name for name in named if name is not None), *self.ways)

    def limits(self, frame: pd.DataFrame, chosen: Indices | None, outcome: Array) -> Array | None:
        """Return limits (n, 2) of outcomes that were not recorded; nan where there is none."""
        del chosen
        return self.unrecorded.limits(frame, outcome)

    def clean(self, frame: pd.DataFrame) -> Kept:
        """Leave out rows that lack a covariate, or what `missing_outcome` says."""
        incomplete, lacking = find_incomplete(frame, self.term_columns)
        # True and false are objects in a piece where some are missing, and plain in others.
        kept = frame[~incomplete].infer_objects() if lacking else frame
        kept, n_without = drop_unrecorded(
            kept, self.first.outcome_columns, self.chosen, self.missing_outcome,
            self.first.outcome, self.unrecorded,
        )  # fmt: skip
        return Kept(kept, lacking, int(incomplete.sum()), n_without)

    def contents(self, frame: pd.DataFrame) -> Contents:
        """Read outcome and choice of rows; all right sides are learnt from all of them."""
        columns = self.first.outcome_columns
        absent = find_any_absent(frame, columns)
        outcome = np.full(len(frame), np.nan)
        if len(frame) and (absent is None or not absent.all()):
            _, outcome = OutcomeCoder.learn(self.first.outcome, columns, frame)
        learners = [Learner(None, frame, (*self.term_columns, *self.label_columns))]
        if self.chosen is None:
            return Contents(outcome, None, [], learners)
        return Contents(outcome, *label_rows(frame[self.chosen]), learners)


def read_plan(
    formula: str | Mapping[Any, str],
    *,
    chosen: str | None,
    alternatives: Any = None,
    available: Mapping[Any, str] | None = None,
    possible: Mapping[Any, str] | None = None,
    cost: Mapping[Any, Any] | None = None,
    spread: Any = None,
    shared: Any = None,
    offset: Any = None,
    weights: Any = None,
    weights_kind: str | None = None,
    ways: tuple[str, ...] = (),
    panel: str | None = None,
    weighing: str | None = None,
    missing: str = "drop",
    missing_outcome: str = "raise",
    outcome_between: Any = None,
) -> Plan:
    """Read the arguments of `selfselect.fit`; weights that are no column are left to the caller.

    `spread` are the formulas of log scales, which the noise has.
    """
    check_word("missing", missing, ("drop", "raise"))
    check_word("missing_outcome", missing_outcome, ("raise", "drop", "silent"))
    known, estimated = split_costs(cost)
    check_weights_kind(weights_kind, weights)
    check_known(known, available)
    unrecorded = Unrecorded.read(missing_outcome, outcome_between, possible)
    parsed = parse_formulas(formula)
    first = next(iter(parsed.values())) if isinstance(parsed, dict) else parsed
    plan = Plan(
        parsed=parsed,
        chosen=chosen,
        alternatives=alternatives,
        available=available,
        cost=known,
        estimated={label: parse_cost(text, first.outcome) for label, text in estimated.items()},
        spreads=parse_spreads(spread, first),
        shared=shared,
        offset=offset,
        weights=weights if isinstance(weights, str) else None,
        weights_kind=weights_kind,
        ways=ways,
        missing=missing,
        missing_outcome=missing_outcome,
        unrecorded=unrecorded,
        panel=panel,
        weighing=None if weighing is None else parse_cost(weighing.strip(), first.outcome),
    )
    refuse_decided_covariates(plan.right_sides, offset_columns(offset), chosen)
    return plan
