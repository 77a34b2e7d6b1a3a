"""Rows are coded one by one: learnt once, applied to any piece; the builder of tables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.coder import Coder, check_categories
from selfselect.data.coding import ArrayCoding, FormulaCoding, KnownColumns, OutcomeCoder
from selfselect.data.columns import check_enough_rows, check_numbers, check_text_columns
from selfselect.data.design import Design, check_and_describe, check_rows
from selfselect.data.equations import INTERCEPT, Equations, intercept_first
from selfselect.data.formulas import (
    ParsedFormula,
    check_distinct,
    code_chosen,
    recorded_alternatives,
    unnamed_alternatives,
)
from selfselect.data.missing import drop_incomplete, drop_unrecorded
from selfselect.data.panels import (
    check_weights_kind,
    cluster_columns,
    code_clusters,
    code_groups,
    learn_clusters,
    learn_groups,
    scale_weights,
)
from selfselect.data.plan import (
    Plan,
    check_costs,
    check_symmetric,
    offset_columns,
    offset_side,
    read_offsets,
    read_plan,
    share,
    spreads_by_alternative,
)
from selfselect.data.rows import Rows
from selfselect.data.selection_plan import SelectionPlan
from selfselect.data.tables import in_table_order, to_frame
from selfselect.errors import DataError, OptionError
from selfselect.rules.base import Label, by_alternative

Array = NDArray[np.float64]


# Rows of a table become numbers: learnt from some rows, applied to any others.

Indices = NDArray[np.intp]

PlanT = TypeVar("PlanT", bound=Plan | SelectionPlan)
CodingT = TypeVar("CodingT", bound=FormulaCoding)


@dataclass(frozen=True, eq=False)
class Sides:
    """The distinct right sides of a plan, learnt, and which of them each part of it uses.

    Attributes
    ----------
    coders : one per right side.
    matrices : the rows they were learnt from, coded.
    of_equations : per alternative, the place of its side.
    of_offsets, of_costs, of_spreads : by alternative that has one, the place of its offset,
        estimated cost or log scale.
    of_types : the place of what the weights of types depend on; None where there is nothing.
    """

    coders: tuple[Coder, ...]
    matrices: tuple[Array, ...]
    of_equations: tuple[int, ...]
    of_offsets: dict[Label, int]
    of_costs: dict[Label, int]
    of_spreads: dict[Label, int]
    of_types: int | None = None

    @classmethod
    def learn(
        cls,
        plan: Plan,
        labels: tuple[Label, ...],
        formulas: tuple[ParsedFormula, ...],
        frame: pd.DataFrame,
    ) -> Sides:
        """Learn every side from rows."""
        costs = by_alternative(plan.estimated, labels, what="cost")
        spreads = spreads_by_alternative(plan.spreads, labels)
        offsets = read_offsets(plan.offset, labels)
        for name in offset_columns(plan.offset):
            check_numbers(frame[name], f"The offset column {name!r}")
        texts = dict.fromkeys(one.terms for one in (*plan.each, *costs.values(), *spreads.values()))
        texts |= dict.fromkeys(map(offset_side, offset_columns(plan.offset)))
        if plan.weighing is not None:
            texts |= {plan.weighing.terms: None}
        learnt = [Coder.learn(text, frame) for text in texts]
        place = {text: i for i, text in enumerate(texts)}
        found = cls(
            tuple(coder for coder, _ in learnt),
            tuple(matrix for _, matrix in learnt),
            tuple(place[one.terms] for one in formulas),
            {label: place[offset_side(name)] for label, name in offsets.items()},
            {label: place[one.terms] for label, one in costs.items()},
            {label: place[one.terms] for label, one in spreads.items()},
            None if plan.weighing is None else place[plan.weighing.terms],
        )
        check_costs(found.cost_terms, labels)
        return found

    def terms(self, place: int) -> list[str]:
        """Return the terms of a side, the intercept first where it has one."""
        return intercept_first(self.coders[place].names)

    @property
    def equation_terms(self) -> list[list[str]]:
        """The terms of each equation."""
        return [self.terms(place) for place in self.of_equations]

    @property
    def offset_terms(self) -> dict[Label, str]:
        """By alternative, its offset."""
        return {label: self.coders[place].names[0] for label, place in self.of_offsets.items()}

    @property
    def cost_terms(self) -> dict[Label, list[str]]:
        """By alternative, the terms of its estimated cost."""
        return {label: self.terms(place) for label, place in self.of_costs.items()}

    @property
    def spread_terms(self) -> dict[Label, list[str]]:
        """By alternative, the terms of its log scale."""
        return {label: self.terms(place) for label, place in self.of_spreads.items()}


@dataclass(frozen=True, eq=False)
class CodedValues:
    """What depends on what was learnt: covariates, choices, outcome and clusters of rows."""

    covariates: Array
    chosen: Indices | None
    outcome: Array
    clusters: Indices | None
    groups: Indices | None = None


@dataclass(frozen=True, eq=False)
class LearntCoder(Generic[PlanT, CodingT]):
    """How rows are coded, with everything that was learnt.

    Attributes
    ----------
    plan : what the user asked for.
    coding : of covariates and outcome; it codes rows to predict, too.
    labels, formulas : of the alternatives, in order.
    clusters : the clusters that were met, one index per way of clustering.
    people : those of the panel column; None where there is none.
    """

    plan: PlanT
    coding: CodingT
    labels: tuple[Label, ...]
    formulas: tuple[ParsedFormula, ...]
    clusters: tuple[pd.Index[Any], ...]
    people: pd.Index[Any] | None = None

    @abstractmethod
    def values(self, frame: pd.DataFrame) -> CodedValues:
        """Code what depends on what was learnt, of other rows."""

    @abstractmethod
    def check(self, rows: Rows) -> None:
        """Refuse rows with values that no fit can use."""

    def code(self, frame: pd.DataFrame) -> Rows:
        """Code other rows as those that were learnt from; the frame holds only rows to be used."""
        rows = self.assemble(frame, self.values(frame))
        self.check(rows)
        return rows

    def assemble(self, frame: pd.DataFrame, made: CodedValues) -> Rows:
        """Put the rows together: what was made, and what is read from columns as it is."""
        plan, known = self.plan, self.coding.known.read(frame)
        weights: Array | None = None
        if plan.weights is not None:
            weights = check_numbers(frame[plan.weights], f"The column of weights {plan.weights!r}")
        return Rows(
            made.covariates,
            outcome=made.outcome,
            chosen=made.chosen,
            weights=weights,
            clusters=made.clusters,
            known=known,
            groups=made.groups,
            between=plan.limits(frame, made.chosen, made.outcome),
            possible=plan.unrecorded.candidates(frame, made.chosen, self.labels, known.available),
        )


class RowCoder(LearntCoder[Plan, FormulaCoding]):
    """How rows are coded where the rule alone says which outcome is observed."""

    @classmethod
    def learn(cls, plan: Plan, frame: pd.DataFrame) -> tuple[RowCoder, CodedValues]:
        """Learn labels, categories and transforms from rows, and code those rows by the way."""
        codes: Indices | None = None
        if plan.chosen is None:
            labels, formulas = unnamed_alternatives(plan.parsed, plan.alternatives)
        else:
            labels, codes, formulas = recorded_alternatives(
                frame[plan.chosen], plan.chosen, plan.parsed
            )
        known = KnownColumns.resolve(plan.cost, plan.available, labels)
        sides = Sides.learn(plan, labels, formulas, frame)
        equations = Equations.build(plan.first.outcome, sides.equation_terms, labels)
        if sides.of_offsets:
            equations = equations.with_offsets(sides.offset_terms)
        named = isinstance(plan.parsed, dict)
        if plan.chosen is None:
            check_distinct(equations, named=named)
        if sides.of_costs:
            equations = equations.with_costs(sides.cost_terms)
        if sides.of_spreads:
            equations = equations.with_spreads(sides.spread_terms)
        if sides.of_types is not None:
            equations = equations.with_types(sides.terms(sides.of_types))
        equations = share(equations, plan.shared)
        if plan.chosen is None and not named:
            check_symmetric(equations)
        outcome_coder, outcome = OutcomeCoder.learn(
            plan.first.outcome, plan.first.outcome_columns, frame
        )
        coding = FormulaCoding(
            equations, sides.coders, sides.of_equations, known, plan.term_columns, outcome_coder
        )
        people, groups = learn_groups(frame, plan.panel)
        clusters, members = learn_clusters(frame, plan.ways)
        coder = cls(plan, coding, labels, formulas, clusters, people)
        covariates = coding.covariates(sides.matrices)
        return coder, CodedValues(covariates, codes, outcome, members, groups)

    def values(self, frame: pd.DataFrame) -> CodedValues:
        """Code what depends on what was learnt, of other rows."""
        plan = self.plan
        chosen = None
        if plan.chosen is not None:
            chosen = code_chosen(frame[plan.chosen], plan.chosen, self.labels)
        return CodedValues(
            self.coding.read_covariates(frame),
            chosen,
            self.coding.outcome.code_recorded(frame),
            code_clusters(frame, plan.ways, self.clusters),
            code_groups(frame, plan.panel, self.people),
        )

    def check(self, rows: Rows) -> None:
        """Refuse rows with values that no fit can use."""
        check_rows(self.coding.equations, rows, self.plan.weights, self.plan.weights_kind)


# The first stage of a fit: a formula and a table become coded rows and the coding itself.


def build_design(
    formula: str | Mapping[Any, str],
    data: Any,
    *,
    weights: str | Sequence[float] | None = None,
    cluster: str | Sequence[Any] | None = None,
    **asked: Any,
) -> Design:
    """Code a table by formula. Arguments are those of `selfselect.fit`: see `read_plan`."""
    ways = cluster_columns(cluster, data)
    plan = read_plan(formula, weights=weights, ways=ways, **asked)
    frame = to_frame(data, in_table_order(data, plan.columns))
    frame, weights_column = with_column(frame, weights, "weights")
    if not ways:
        frame, labelled = with_column(frame, cluster, "cluster")
        ways = () if labelled is None else (labelled,)
    plan = replace(plan, weights=weights_column, ways=ways)
    if len(frame) == 0:
        raise DataError("The table has no rows.")
    check_text_columns(frame, [name for name in plan.term_columns if name != plan.chosen])

    frame, n_dropped = drop_incomplete(frame, plan.term_columns, plan.missing)
    frame, n_without = drop_unrecorded(
        frame, plan.first.outcome_columns, plan.chosen, plan.missing_outcome, plan.first.outcome,
        plan.unrecorded, weights=plan.weights,
    )  # fmt: skip
    if len(frame) == 0:
        raise DataError("No row is complete: every one lacks a covariate, so none is left to fit.")
    coder, made = RowCoder.learn(plan, frame)
    coding, rows = coder.coding, coder.assemble(frame, made)
    check_categories(coding.coders, coding.coder_of, frame, made.chosen, coder.labels)
    if rows.weights is not None:
        rows = replace(rows, weights=scale_weights(rows.weights, plan.weights_kind))
    facts = check_and_describe(
        coding,
        rows,
        formulas=tuple(one.text for one in coder.formulas),
        chosen=plan.chosen,
        weights=plan.weights,
        cluster=" and ".join(ways) or None,
        n_dropped=n_dropped,
        n_without_outcome=n_without,
        weights_kind=plan.weights_kind,
        panel=plan.panel,
    )
    design = Design(coding, rows, facts, frame.index, frame)
    if plan.chosen is None:
        check_enough_rows(design.n_counted, design.n_coefficients, design.equations.n_alternatives)
    return design


def design_from_arrays(
    covariates: Array,
    outcome: Array,
    chosen: Indices | None,
    *,
    alternatives: Sequence[Label],
    names: Sequence[str],
    fit_intercept: bool = True,
    weights: Array | None = None,
    weights_kind: str | None = None,
    cost: Mapping[Any, Any] | None = None,
    groups: Indices | None = None,
    outcome_name: str = "y",
) -> Design:
    """Make a design of plain arrays: the same covariates for every alternative.

    Unlike `build_design` it does not refuse too few rows for an unknown index: see
    `Design.n_coefficients`.

    Parameters
    ----------
    covariates : (n, D) finite numbers, not copied.
    outcome : (n,) finite numbers.
    chosen : (n,) index into `alternatives`; None where the choice was not recorded.
    alternatives : labels, in order.
    names : D names of the covariates.
    fit_intercept : whether every equation has a constant.
    weights : (n,) or None.
    weights_kind : as in `selfselect.fit`.
    cost : known costs of alternatives, as numbers.
    groups : (n,) number of the person each row belongs to; rows are clustered by it.
    outcome_name : for summaries.
    """
    check_weights_kind(weights_kind, weights)
    terms = ([INTERCEPT] if fit_intercept else []) + list(names)
    equations = Equations.build(outcome_name, [terms] * len(alternatives), alternatives)
    known = KnownColumns.resolve(cost, None, alternatives)
    if known.columns:
        raise OptionError(
            f"The cost is in the column {known.columns[0]!r}, but arrays have no columns. Give a "
            "number, or use selfselect.fit with a table."
        )
    coding = ArrayCoding(equations, known)
    rows = Rows(
        covariates,
        outcome=outcome,
        chosen=chosen,
        weights=None if weights is None else scale_weights(weights, weights_kind),
        clusters=groups,
        known=known.repeat(len(covariates)),
        groups=groups,
    )
    panel = None if groups is None else "panel"
    formula = f"{outcome_name} ~ {' + '.join(names)}{'' if fit_intercept else ' - 1'}"
    facts = check_and_describe(
        coding,
        rows,
        formulas=(formula,) * len(alternatives),
        chosen=None if chosen is None else "chosen",
        weights=None if weights is None else "sample_weight",
        cluster=panel,
        panel=panel,
        n_dropped=0,
        n_without_outcome=0,
        weights_kind=weights_kind,
    )
    return Design(coding, rows, facts, pd.RangeIndex(len(rows)))


def with_column(frame: pd.DataFrame, given: Any, default: str) -> tuple[pd.DataFrame, str | None]:
    """Return the column that holds what was given; an array becomes one, so that rows stay whole.

    It is named `default`, or the next name like it that no column of the frame has.
    """
    if given is None or isinstance(given, str):
        return frame, given
    if np.ndim(given) != 1 or len(given) != len(frame):
        raise DataError(
            f"`{default}` has the shape {np.shape(given)} but the table has {len(frame)} rows. "
            "Give the name of a column, or one value per row."
        )
    name = default
    while name in frame:
        name += "_"
    return frame.assign(**{name: in_order_of_rows(given, frame.index, default)}), name


def in_order_of_rows(given: Any, labels: pd.Index[Any], what: str) -> Any:
    """Return one value per row; a series is put in order by its index, which must match."""
    if isinstance(given, pd.Series) and not given.index.equals(labels):
        distinct = given.index.is_unique and labels.is_unique
        if not (distinct and labels.isin(given.index).all()):
            raise DataError(
                f"`{what}` is a series whose index is not that of the table, so it is not clear "
                "which value belongs to which row. Make it a column of the table, or give "
                f"{what}.to_numpy() if it is in the order of the rows."
            )
        given = given.reindex(labels)
    if isinstance(given, pd.Series):
        return given.array
    # A series keeps what is masked as missing; an array would forget it.
    return pd.Series(given).array
