"""What is asked: costs, log scales, shared coefficients and offsets, and all of it as a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.coding import OutcomeCoder, check_known
from selfselect.data.columns import check_word
from selfselect.data.equations import INTERCEPT, Equations, SharedTerm, parse_side
from selfselect.data.formulas import (
    ParsedFormula,
    label_rows,
    parse_formula,
    parse_formulas,
    refuse_decided_covariates,
)
from selfselect.data.missing import Unrecorded, drop_unrecorded, find_any_absent, find_incomplete
from selfselect.data.panels import check_weights_kind
from selfselect.data.tables import nearest
from selfselect.errors import DataError, OptionError
from selfselect.rules.base import Label, by_alternative

# Costs of alternatives: known ones, and those to be estimated from a formula.


def split_costs(cost: Any) -> tuple[Any, dict[Any, str]]:
    """Return known costs (numbers, columns) and formulas of those to be estimated."""
    if not isinstance(cost, Mapping):
        return cost, {}
    estimated = {
        label: entry.strip()
        for label, entry in cost.items()
        if isinstance(entry, str) and "~" in entry
    }
    known = {label: entry for label, entry in cost.items() if label not in estimated}
    return known or None, estimated


def parse_cost(text: str, outcome: str) -> ParsedFormula:
    """Parse a cost such as ``~ tuition``."""
    if not text.startswith("~"):
        raise OptionError(
            f"The cost {text!r} must begin with '~', as in '~ tuition': a cost is not recorded, so "
            "nothing stands on the left."
        )
    parsed = parse_formula(f"{outcome} {text}")
    if not parse_side(parsed.terms):
        raise OptionError(
            f"The cost {text!r} has no term to estimate. Name a covariate, write '~ 1' for a "
            "constant, or leave the cost out."
        )
    return parsed


def check_costs(terms: Mapping[Label, Sequence[str]], alternatives: Sequence[Label]) -> None:
    """Refuse costs that cannot be told apart: choices depend on differences of costs alone."""
    if len(terms) < len(alternatives):
        return
    everywhere = set.intersection(*(set(names) for names in terms.values()))
    if everywhere:
        name = INTERCEPT if INTERCEPT in everywhere else min(everywhere)
        raise DataError(
            f"The costs of all alternatives depend on {name!r}. Only differences of costs matter "
            "for a choice, so not all of these coefficients can be found. Leave the term out of "
            "one alternative's cost (write '- 1' for no constant)."
        )


# Scales that move with covariates: the right sides of log scales, one for all or one each.


Spreads = ParsedFormula | dict[Any, ParsedFormula] | None
"""The parsed log scales of a plan: one for all alternatives, one each, or none."""


def parse_spreads(scale: str | Mapping[Any, str] | None, outcome: ParsedFormula) -> Spreads:
    """Parse scales such as ``~ age``; `outcome` is a formula of the same fit."""
    if scale is None:
        return None
    if isinstance(scale, Mapping):
        return {label: _parse(text, outcome) for label, text in scale.items()}
    return _parse(scale, outcome)


def _parse(text: str, outcome: ParsedFormula) -> ParsedFormula:
    parsed = parse_formula(f"{outcome.outcome} {text.strip()}")
    recorded = sorted({*outcome.outcome_columns} & {*parsed.term_columns})
    if recorded:
        raise OptionError(
            f"The scale {text!r} depends on the outcome {recorded[0]!r}. The noise of an outcome "
            "cannot be scaled by the outcome itself: name covariates, or take its logarithm."
        )
    if not any(str(term) == "1" for term in parse_side(parsed.terms)):
        raise OptionError(
            f"The scale {text!r} has no constant, so its size would be fixed at 1 where all its "
            "terms are zero. Leave '- 1' or '0 +' out: the constant is the logarithm of the scale."
        )
    return parsed


def spreads_by_alternative(
    spreads: Spreads, alternatives: Sequence[Label]
) -> dict[Label, ParsedFormula]:
    """Return the log scale of every alternative; nothing where scales do not move."""
    if spreads is None:
        return {}
    if not isinstance(spreads, dict):
        return dict.fromkeys(alternatives, spreads)
    given = by_alternative(spreads, alternatives, what="scale")
    left_out = [label for label in alternatives if label not in given]
    if left_out:
        raise OptionError(
            f"No scale is given for {', '.join(map(str, left_out))}. Give one for every "
            "alternative: '~ 1' is one that does not move."
        )
    return {label: given[label] for label in alternatives}


# Restrictions across alternatives: coefficients they share, and offsets.


ALL = "all"

EXAMPLE = (
    "shared=['distance'], shared='all', shared={'distance': ['a', 'b']}, or, where the columns "
    "have other names, shared={'distance': {'a': 'distance_a', 'b': 'distance_b'}}"
)


def share(equations: Equations, shared: Any) -> Equations:
    """Tie the coefficients that the user wants alternatives to share.

    Parameters
    ----------
    equations : of all alternatives.
    shared : ``"all"`` terms; a list of terms; or a mapping of terms to the alternatives that
        share them, or to the name the term has in each of those.
    """
    if shared is None:
        return equations
    found: list[SharedTerm] = []
    for name, wanted in _requests(equations, shared):
        for term, by_position in _matches(equations, name, wanted):
            if len(by_position) < 2:
                where = [str(equations.alternatives[j]) for j in by_position]
                raise OptionError(
                    f"The term {term!r} is in the equation of {where[0]!r} alone, so there is "
                    "nothing to share it with. Leave it out of `shared`."
                )
            found.append(SharedTerm(term, tuple(sorted(by_position.items()))))
    if not found:
        raise OptionError(f"`shared` names no term. Leave it out, or write {EXAMPLE}.")
    _check(equations, found)
    return replace(equations, shared=tuple(found))


def _requests(equations: Equations, shared: Any) -> list[tuple[str, Any]]:
    """Return the names asked for, each with what was said of who shares it, or None for all."""
    if isinstance(shared, Mapping):
        return [(str(name), wanted) for name, wanted in shared.items()]
    if isinstance(shared, str) and shared == ALL:
        terms = dict.fromkeys(term for one in equations.each for term in one.estimated)
        often = [term for term in terms if sum(term in one.estimated for one in equations.each) > 1]
        if not often:
            raise OptionError(
                "shared='all' finds no term that two alternatives have. Where their columns have "
                "names of their own, say which belong together: shared={'distance': {'a': "
                "'distance_a', 'b': 'distance_b'}}."
            )
        return [(term, None) for term in often]
    if isinstance(shared, Sequence) and not isinstance(shared, str):
        return [(str(name), None) for name in shared]
    raise OptionError(f"shared={shared!r} is not possible. Write {EXAMPLE}.")


def _matches(equations: Equations, name: str, wanted: Any) -> list[tuple[str, dict[int, int]]]:
    """Return each term that was meant, with where it stands in the equations that share it."""
    labels = equations.alternatives
    if wanted is None or (isinstance(wanted, str) and wanted == ALL):
        names: dict[Label, str] = {
            one.alternative: name for one in equations.each if _terms_like(one.estimated, name)
        }
        if not names:
            every = dict.fromkeys(term for one in equations.each for term in one.estimated)
            raise OptionError(f"There is no term {name!r} to share.{nearest(name, every)}")
    elif isinstance(wanted, Mapping):
        names = {k: str(v) for k, v in by_alternative(wanted, labels, what="shared term").items()}
    elif isinstance(wanted, Sequence) and not isinstance(wanted, str):
        names = by_alternative(dict.fromkeys(wanted, name), labels, what="shared term")
    else:
        raise OptionError(f"shared[{name!r}] is {wanted!r}. Write {EXAMPLE}.")
    coded: dict[str, dict[int, int]] = {}
    for label, own_name in names.items():
        j = labels.index(label)
        terms = equations.each[j].estimated
        like = _terms_like(terms, own_name)
        if not like:
            raise OptionError(
                f"The equation of {label!r} has no term {own_name!r} to share."
                f"{nearest(own_name, terms)}"
            )
        for term in like:
            # The codes of a category are shared one by one: region[T.north] with its like.
            coded.setdefault(name + term[len(own_name) :], {})[j] = terms.index(term)
    return list(coded.items())


def _terms_like(terms: Sequence[str], name: str) -> list[str]:
    """Return the term of that name, or all that code the category of that name."""
    if name in terms:
        return [name]
    return [term for term in terms if term.startswith(f"{name}[")]


def _check(equations: Equations, found: Sequence[SharedTerm]) -> None:
    """Refuse coefficients that are shared twice, and constants shared with covariates."""
    met: set[tuple[int, int]] = set()
    for one in found:
        terms = [equations.each[j].terms[place] for j, place in one.members]
        if INTERCEPT in terms and set(terms) != {INTERCEPT}:
            raise OptionError(
                f"shared[{one.term!r}] ties an intercept to a covariate's coefficient. Share "
                "intercepts with intercepts."
            )
        for member in one.members:
            if member in met:
                equation = equations.each[member[0]]
                raise OptionError(
                    f"The term {equation.terms[member[1]]!r} of {equation.alternative!r} is shared "
                    "twice. Name it once, with all who share it."
                )
            met.add(member)


def check_symmetric(equations: Equations) -> None:
    """Refuse terms shared by some of several alternatives that have no names of their own."""
    for one in equations.shared:
        if len(one.members) < equations.n_alternatives:
            raise OptionError(
                f"Alternatives without names cannot share {one.term!r} among some of them: "
                "nothing identifies them. Share it among all, or give named alternatives "
                "covariates of their own."
            )


def offset_columns(offset: Any) -> tuple[str, ...]:
    """Return the columns offsets are in."""
    given = offset.values() if isinstance(offset, Mapping) else [offset]
    return tuple(dict.fromkeys(one for one in given if isinstance(one, str)))


def offset_side(column: str) -> str:
    """Return the right side of a formula that codes an offset."""
    return f"`{column}` - 1"


def read_offsets(offset: Any, alternatives: Sequence[Label]) -> dict[Label, str]:
    """Return the offset column of each alternative that has one."""
    if offset is None:
        return {}
    if isinstance(offset, str):
        return dict.fromkeys(alternatives, offset)
    if isinstance(offset, Mapping) and all(isinstance(one, str) for one in offset.values()):
        return by_alternative(offset, alternatives, what="offset")
    raise OptionError(
        f"offset={offset!r} is not possible. Give a column, or one by alternative, as in "
        "offset={'fishing': 'subsidy'}."
    )


# What a user asks of a table, read and checked before any row is.


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
    n_between : rows that a selection equation selected, with limits of the outcome alone.
    """

    outcome: Array
    chosen: Indices | None
    labels: list[Label]
    learners: list[Learner]
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
            self.first.outcome, self.unrecorded, weights=self.weights,
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
    costs = [entry for entry in (known or {}).values() if isinstance(entry, str)]
    refuse_decided_covariates(plan.right_sides, offset_columns(offset), chosen, costs)
    return plan
