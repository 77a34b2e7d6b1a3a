"""Rows of a model with a selection equation become numbers: learnt once, applied to any others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.alternatives import code_chosen, recorded_alternatives
from selfselect.data.clusters import code_clusters
from selfselect.data.coder import Coder
from selfselect.data.coding import KnownColumns
from selfselect.data.design import check_known_values
from selfselect.data.equations import SELECTION
from selfselect.data.formulas import ParsedFormula
from selfselect.data.missing import find_any_absent
from selfselect.data.restrictions import read_offsets, share
from selfselect.data.row_coder import CodedValues, LearntCoder
from selfselect.data.rows import Rows
from selfselect.data.selection_coding import SelectionCoding, is_codable, selection_equations
from selfselect.data.selection_plan import OUTCOME, SelectionPlan, order_of, shared_terms
from selfselect.errors import DataError
from selfselect.rules.base import Label

__all__ = ["SelectionCoder", "find_alternatives", "own_rows"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


def find_alternatives(
    plan: SelectionPlan, frame: pd.DataFrame
) -> tuple[tuple[Label, ...], tuple[ParsedFormula, ...]]:
    """Return the alternatives of rows, in order, and their formulas."""
    if not plan.switching:
        assert isinstance(plan.outcomes, ParsedFormula)
        return (OUTCOME,), (plan.outcomes,)
    name = plan.choice
    labels, _, formulas = recorded_alternatives(frame[name], name, plan.outcomes)
    if plan.ordered is not None:
        order = order_of(plan.ordered, labels, frame[name])
        labels, formulas = (tuple(one[place] for place in order) for one in (labels, formulas))
    elif len(labels) < 2 or (len(labels) > 2 and not plan.several):
        raise DataError(
            f"There are {len(labels)} alternatives of {name!r} "
            f"({', '.join(map(repr, labels[:6]))}). Switching is between two: join some, give "
            "ordered=[...] if they have an order, or use selfselect.fit for more."
        )
    if SELECTION in map(str, labels):
        raise DataError(
            f"An alternative cannot be named {SELECTION!r}: results use the word for the selection "
            "equation. Rename it."
        )
    return labels, formulas


class SelectionCoder(LearntCoder[SelectionPlan, SelectionCoding]):
    """How rows are coded where an equation of its own selects: each learnt from its own rows."""

    @classmethod
    def learn(
        cls,
        plan: SelectionPlan,
        labels: tuple[Label, ...],
        formulas: tuple[ParsedFormula, ...],
        frames: Sequence[pd.DataFrame],
        clusters: tuple[pd.Index[Any], ...],
    ) -> tuple[SelectionCoder, list[Array]]:
        """Learn every right side from its own rows, and code those rows by the way.

        `frames` has all rows, from which the selection is learnt, then those of each alternative.
        """
        for label, own in zip(labels, frames[1:], strict=True):
            if not len(own):
                raise DataError(
                    f"No row shows {plan.outcome_of(label)}: nothing says what it depends on."
                )
        sides = (plan.selection, *formulas)
        learnt = [Coder.learn(one.terms, own) for one, own in zip(sides, frames, strict=True)]
        coders = tuple(coder for coder, _ in learnt)
        offsets = read_offsets(plan.offset, labels)
        equations = selection_equations(
            plan.first.outcome,
            coders,
            labels,
            [one.text for one in sides],
            ordered=plan.ordered is not None,
        )
        if offsets:
            equations = equations.with_offsets(offsets)
        equations = share(equations, shared_terms(equations, plan.shared))
        known = KnownColumns.resolve(None, plan.available, labels)
        recorded = [_with_outcome(own, plan.first.outcome_columns) for own in frames[1:]]
        outcome, _ = plan.outcome_coder(max(recorded, key=len))
        places = tuple(range(1, len(coders)))
        coding = SelectionCoding(equations, coders, places, known, plan.term_columns, outcome)
        coder = cls(plan, coding, labels, formulas, clusters)
        return coder, [matrix for _, matrix in learnt]

    def codes(self, frame: pd.DataFrame) -> Indices:
        """Return the alternative of each row, -1 where none was selected."""
        if not self.plan.switching:
            return self.plan.choices(frame)[0]
        name = self.plan.choice
        return code_chosen(frame[name], name, self.labels)

    def values(self, frame: pd.DataFrame) -> CodedValues:
        """Code what depends on what was learnt, of other rows."""
        codes = self.codes(frame)
        own = own_rows(self.plan.shown(frame, codes), len(self.labels))
        matrices = [
            coder.code(frame if not place else frame.iloc[own[place]])
            for place, coder in enumerate(self.coding.coders)
        ]
        return self.place(frame, codes, own, matrices)

    def place(
        self, frame: pd.DataFrame, codes: Indices, own: list[Indices], matrices: list[Array]
    ) -> CodedValues:
        """Put values together, given the positions of each equation's own rows, and those coded."""
        outcome = np.full(len(frame), np.nan)
        observed = np.sort(np.concatenate(own[1:]))
        values = self.coding.outcome.code_recorded(frame.iloc[observed])
        if self.plan.binary:
            self.plan.check_binary(values[~np.isnan(values)])
        outcome[observed] = values
        clusters = code_clusters(frame, self.plan.ways, self.clusters)
        return CodedValues(self._covariates(frame, own, matrices), codes, outcome, clusters)

    def check(self, rows: Rows) -> None:
        """Refuse rows with values that no fit can use."""
        check_known_values(self.labels, rows, self.plan.weights, self.plan.weights_kind)

    def _covariates(self, frame: pd.DataFrame, own: list[Indices], matrices: list[Array]) -> Array:
        """Place coded rows, and code all others that have what an equation needs."""
        coding = self.coding
        covariates = coding.new_covariates(len(frame))
        for place, (coder, matrix) in enumerate(zip(coding.coders, matrices, strict=True)):
            if not np.isfinite(matrix).all():
                name = coder.names[int(np.argmin(np.isfinite(matrix).all(axis=0)))]
                what = "selection equation"
                if place:
                    what = f"equation of {self.labels[place - 1]!r}"
                raise DataError(
                    f"The covariate {name!r} of the {what} is infinite or not a number in some "
                    "rows. Correct them, leave them out, or use another transform."
                )
            coding.place_side(place, own[place], matrix, covariates)
        coding.place_offsets(frame, covariates)
        for place, coder in enumerate(coding.coders[1:], start=1):
            # Effects ask what the rows of one alternative would have in another.
            columns = [column - 1 for column in coding.equation_of(place).columns if column]
            wanted = np.isnan(covariates[:, columns]).any(axis=1)
            if not wanted.any():
                continue
            absent = find_any_absent(frame, coder.kinds)
            others = np.flatnonzero(wanted if absent is None else wanted & ~absent)
            if len(others):
                coded = is_codable(coding, place, frame.iloc[others])
                if coded is not None:
                    coding.place_side(place, others, coded, covariates)
        return covariates


def _with_outcome(frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return the rows whose outcome was recorded: the frame itself where that is all of them."""
    absent = find_any_absent(frame, columns)
    return frame if absent is None else frame[~absent]


def own_rows(shown: Indices, n_alternatives: int) -> list[Indices]:
    """Return the positions of rows that each equation is learnt from: all, then by alternative."""
    return [np.arange(len(shown)), *(np.flatnonzero(shown == j) for j in range(n_alternatives))]
