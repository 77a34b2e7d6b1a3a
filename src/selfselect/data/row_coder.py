"""Rows of a table become numbers: learnt from some rows, applied to any others."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.alternatives import (
    check_distinct,
    code_chosen,
    recorded_alternatives,
    unnamed_alternatives,
)
from selfselect.data.checks import check_numbers
from selfselect.data.clusters import code_clusters, learn_clusters
from selfselect.data.coder import Coder
from selfselect.data.coding import FormulaCoding, KnownColumns, OutcomeCoder
from selfselect.data.costs import check_costs
from selfselect.data.design import check_rows
from selfselect.data.equations import Equations, intercept_first
from selfselect.data.formulas import ParsedFormula
from selfselect.data.panels import code_groups, learn_groups
from selfselect.data.plan import Plan
from selfselect.data.restrictions import (
    check_symmetric,
    offset_columns,
    offset_side,
    read_offsets,
    share,
)
from selfselect.data.rows import Rows
from selfselect.data.selection_plan import SelectionPlan
from selfselect.data.spreads import spreads_by_alternative
from selfselect.rules._labels import by_alternative
from selfselect.rules.base import Label

__all__ = ["CodedValues", "LearntCoder", "RowCoder", "Sides"]

Array = NDArray[np.float64]
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
