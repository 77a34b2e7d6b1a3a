"""Rows of a table become numbers: learnt from some rows, applied to any others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
from selfselect.data.equations import Equations, intercept_first
from selfselect.data.formulas import ParsedFormula
from selfselect.data.missing import find_any_absent
from selfselect.data.plan import Plan
from selfselect.data.restrictions import (
    check_symmetric,
    offset_columns,
    offset_side,
    read_offsets,
    share,
)
from selfselect.data.rows import Rows
from selfselect.rules._labels import by_alternative
from selfselect.rules.base import Label

__all__ = ["Made", "RowCoder"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Made:
    """What depends on what was learnt: covariates, choices, outcome and clusters of rows."""

    covariates: Array
    chosen: Indices | None
    outcome: Array
    clusters: Indices | None


@dataclass(frozen=True, eq=False)
class RowCoder:
    """How rows are coded, with everything that was learnt.

    Attributes
    ----------
    plan : what the user asked for.
    coding : of covariates and outcome; it codes rows to predict, too.
    labels, formulas : of the alternatives, in order.
    clusters : the clusters that were met, one index per way of clustering.
    """

    plan: Plan
    coding: FormulaCoding
    labels: tuple[Label, ...]
    formulas: tuple[ParsedFormula, ...]
    clusters: tuple[pd.Index[Any], ...]

    @classmethod
    def learn(cls, plan: Plan, frame: pd.DataFrame) -> tuple[RowCoder, Made]:
        """Learn labels, categories and transforms from rows, and code those rows by the way."""
        codes: Indices | None = None
        if plan.chosen is None:
            labels, formulas = unnamed_alternatives(plan.parsed, plan.alternatives)
        else:
            labels, codes, formulas = recorded_alternatives(
                frame[plan.chosen], plan.chosen, plan.parsed
            )
        known = KnownColumns.resolve(plan.cost, plan.available, labels)
        of_costs = by_alternative(plan.estimated, labels, what="cost")
        offsets = read_offsets(plan.offset, labels)
        for name in offset_columns(plan.offset):
            check_numbers(frame[name], f"The offset column {name!r}")
        sides = dict.fromkeys(one.terms for one in (*plan.each, *of_costs.values()))
        sides |= dict.fromkeys(map(offset_side, offset_columns(plan.offset)))
        learnt = [Coder.learn(side, frame) for side in sides]
        coders = tuple(coder for coder, _ in learnt)
        position = {side: i for i, side in enumerate(sides)}
        coder_of = tuple(position[one.terms] for one in formulas)
        equations = Equations.build(
            plan.first.outcome, [intercept_first(coders[i].names) for i in coder_of], labels
        )
        if offsets:
            equations = equations.with_offsets(
                {
                    label: coders[position[offset_side(name)]].names[0]
                    for label, name in offsets.items()
                }
            )
        named = isinstance(plan.parsed, dict)
        if plan.chosen is None:
            check_distinct(equations, named=named)
        if of_costs:
            terms = {
                label: intercept_first(coders[position[one.terms]].names)
                for label, one in of_costs.items()
            }
            check_costs(terms, labels)
            equations = equations.with_costs(terms)
        equations = share(equations, plan.shared)
        if plan.chosen is None and not named:
            check_symmetric(equations)
        outcome_coder, outcome = OutcomeCoder.learn(
            plan.first.outcome, plan.first.outcome_columns, frame
        )
        coding = FormulaCoding(equations, coders, coder_of, known, plan.term_columns, outcome_coder)
        clusters, members = learn_clusters(frame, plan.ways)
        coder = cls(plan, coding, labels, formulas, clusters)
        covariates = coding.covariates([matrix for _, matrix in learnt])
        return coder, Made(covariates, codes, outcome, members)

    def code(self, frame: pd.DataFrame) -> Rows:
        """Code other rows as those that were learnt from; the frame holds only rows to be used."""
        plan, outcome = self.plan, self.coding.outcome
        lacking = find_any_absent(frame, outcome.columns)
        if lacking is None:
            values = outcome.code(frame)
        else:
            values = np.full(len(frame), np.nan)
            values[~lacking] = outcome.code(frame[~lacking])
        chosen = None
        if plan.chosen is not None:
            chosen = code_chosen(frame[plan.chosen], plan.chosen, self.labels)
        made = Made(
            self.coding.read_covariates(frame),
            chosen,
            values,
            code_clusters(frame, plan.ways, self.clusters),
        )
        return self.assemble(frame, made)

    def assemble(self, frame: pd.DataFrame, made: Made) -> Rows:
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
            between=plan.unrecorded.limits(frame, made.outcome),
            possible=plan.unrecorded.candidates(frame, made.chosen, self.labels, known.available),
        )
