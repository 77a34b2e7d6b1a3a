"""What a user asks of a table, read and checked before any row is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from selfselect.data.checks import check_word
from selfselect.data.coding import check_known
from selfselect.data.costs import parse_cost, split_costs
from selfselect.data.formulas import ParsedFormula, parse_formulas
from selfselect.data.restrictions import offset_columns
from selfselect.data.spreads import Spreads, parse_spreads
from selfselect.data.unrecorded import Unrecorded
from selfselect.data.weights import check_weights_kind

__all__ = ["Plan", "read_plan"]


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
    return Plan(
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
