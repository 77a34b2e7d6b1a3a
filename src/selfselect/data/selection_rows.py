"""Rows of a model with a selection equation become numbers: learnt once, applied to any others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.alternatives import code_chosen, recorded_alternatives
from selfselect.data.clusters import code_clusters
from selfselect.data.coder import Coder
from selfselect.data.coding import KnownColumns
from selfselect.data.design import check_known_values
from selfselect.data.equations import SELECTION, Equations
from selfselect.data.formulas import ParsedFormula
from selfselect.data.missing import find_any_absent
from selfselect.data.restrictions import read_offsets, share
from selfselect.data.row_coder import CodedValues, LearntCoder
from selfselect.data.rows import Rows
from selfselect.data.selection_coding import SelectionCoding, selection_equations
from selfselect.data.selection_plan import OUTCOME, SelectionPlan, order_of, shared_terms
from selfselect.errors import DataError, OptionError
from selfselect.rules.base import Label

__all__ = ["SelectionCoder", "find_alternatives", "learning_rows", "rows_with_columns"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


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
    elif len(labels) < 2:
        raise DataError(
            f"Every row has {labels[0]!r} in {name!r}: there is no selection to model. Give rows "
            "of several alternatives."
        )
    elif len(labels) > 2 and not plan.several:
        raise DataError(
            f"There are {len(labels)} alternatives of {name!r} "
            f"({', '.join(map(repr, labels[:6]))}). Switching is between two: join some, give "
            "ordered=[...] if they have an order, use selfselect.multinomial_switching if they "
            "have none, or selfselect.fit if the outcome itself decides."
        )
    if SELECTION in map(str, labels):
        raise DataError(
            f"An alternative cannot be named {SELECTION!r}: results use the word for the selection "
            "equation. Rename it."
        )
    return labels, formulas


class SelectionCoder(LearntCoder[SelectionPlan, SelectionCoding]):
    """How rows are coded where an equation of its own selects.

    Every right side is learnt from all rows that have its columns: categories, centres and knots
    are then the same in all equations that name them.
    """

    @classmethod
    def learn(
        cls,
        plan: SelectionPlan,
        labels: tuple[Label, ...],
        formulas: tuple[ParsedFormula, ...],
        frames: Mapping[str, pd.DataFrame],
        recorded: Sequence[pd.DataFrame],
        clusters: tuple[pd.Index[Any], ...],
    ) -> tuple[SelectionCoder, dict[str, Array]]:
        """Learn every right side, and code the rows that it is learnt from by the way.

        `frames` has those rows by right side, `recorded` the rows that show each outcome.
        """
        for label, own in zip(labels, recorded, strict=True):
            if not len(own):
                raise DataError(
                    f"No row shows {plan.outcome_of(label)}: nothing says what it depends on. "
                    "An alternative without outcomes has no equation in this model; leave its "
                    "rows out, or join it with another."
                )
        sides = (plan.selection, *formulas)
        learnt = {one.terms: Coder.learn(one.terms, frames[one.terms]) for one in sides}
        coders = tuple(learnt[one.terms][0] for one in sides)
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
        _check_alike(equations)
        known = KnownColumns.resolve(None, plan.available, labels)
        complete = [_with_outcome(own, plan.first.outcome_columns) for own in recorded]
        outcome, _ = plan.outcome_coder(max(complete, key=len))
        places = tuple(range(1, len(coders)))
        coding = SelectionCoding(equations, coders, places, known, plan.term_columns, outcome)
        coder = cls(plan, coding, labels, formulas, clusters)
        return coder, {terms: matrix for terms, (_, matrix) in learnt.items()}

    def codes(self, frame: pd.DataFrame) -> Indices:
        """Return the alternative of each row, -1 where none was selected."""
        if not self.plan.switching:
            return self.plan.choices(frame)[0]
        name = self.plan.choice
        return code_chosen(frame[name], name, self.labels)

    def values(self, frame: pd.DataFrame) -> CodedValues:
        """Code what depends on what was learnt, of other rows."""
        whole = rows_with_columns(frame, (self.plan.selection, *self.formulas))
        matrices = {one.text: one.code(_rows(frame, whole[one.text])) for one in self._distinct}
        return self.place(frame, self.codes(frame), whole, matrices)

    def place(
        self,
        frame: pd.DataFrame,
        codes: Indices,
        whole: Mapping[str, Mask | None],
        matrices: Mapping[str, Array],
    ) -> CodedValues:
        """Put values together, given by right side the rows that have its columns, and coded."""
        shown = self.plan.shown(frame, codes)
        outcome = np.full(len(frame), np.nan)
        observed = np.flatnonzero(shown >= 0)
        values = self.coding.outcome.code_recorded(frame.iloc[observed])
        if self.plan.binary:
            self.plan.check_binary(values[~np.isnan(values)])
        outcome[observed] = values
        clusters = code_clusters(frame, self.plan.ways, self.clusters)
        covariates = self._covariates(frame, shown, whole, matrices)
        return CodedValues(covariates, codes, outcome, clusters)

    @property
    def _distinct(self) -> list[Coder]:
        return list({one.text: one for one in self.coding.coders}.values())

    def check(self, rows: Rows) -> None:
        """Refuse rows with values that no fit can use."""
        check_known_values(self.labels, rows, self.plan.weights, self.plan.weights_kind)

    def _covariates(
        self,
        frame: pd.DataFrame,
        shown: Indices,
        whole: Mapping[str, Mask | None],
        matrices: Mapping[str, Array],
    ) -> Array:
        """Place coded rows in all covariates; nan where a row has no number for one."""
        coding = self.coding
        covariates = coding.new_covariates(len(frame))
        for place, coder in enumerate(coding.coders):
            rows, matrix = whole[coder.text], matrices[coder.text]
            finite = np.isfinite(matrix)
            if not finite.all():
                # Only effects ask what rows of one alternative would have in another.
                own = np.ones(len(frame), dtype=bool) if not place else shown == place - 1
                odd = ~finite[own if rows is None else own[rows]].all(axis=0)
                if odd.any():
                    name, what = coder.names[int(np.argmax(odd))], "selection equation"
                    if place:
                        what = f"equation of {self.labels[place - 1]!r}"
                    raise DataError(
                        f"The covariate {name!r} of the {what} is infinite or not a number in "
                        "some rows. Correct them, leave them out, or use another transform."
                    )
                matrix = np.where(finite, matrix, np.nan)
            coding.place_side(place, slice(None) if rows is None else rows, matrix, covariates)
        coding.place_offsets(frame, covariates)
        return covariates


def _check_alike(equations: Equations) -> None:
    """Refuse to share the coefficient of a term that means something else in each equation."""
    for one in equations.shared:
        each = [equations.each[j] for j, _ in one.members]
        names = {own.terms[place] for own, (_, place) in zip(each, one.members, strict=True)}
        columns = {own.columns[place] for own, (_, place) in zip(each, one.members, strict=True)}
        if len(names) == 1 and len(columns) > 1:
            raise OptionError(
                f"The term {one.term!r} cannot be shared: its categories, or what its transform "
                "learns, come from other rows in each equation, because some rows lack a column "
                "of one of them. Compute the term as a column first, or leave those rows out."
            )


def rows_with_columns(
    frame: pd.DataFrame, formulas: Iterable[ParsedFormula]
) -> dict[str, Mask | None]:
    """Return by right side which rows have all its columns; None where all have."""
    absent = {one.terms: find_any_absent(frame, one.term_columns) for one in formulas}
    return {terms: None if lacking is None else ~lacking for terms, lacking in absent.items()}


def learning_rows(
    frame: pd.DataFrame, formulas: Iterable[ParsedFormula]
) -> tuple[dict[str, pd.DataFrame], dict[str, Mask | None]]:
    """Return by right side the rows it is learnt from, and which of `frame` they are."""
    whole = rows_with_columns(frame, formulas)
    return {terms: _rows(frame, rows) for terms, rows in whole.items()}, whole


def _rows(frame: pd.DataFrame, which: Mask | None) -> pd.DataFrame:
    return frame if which is None else frame[which]


def _with_outcome(frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return the rows whose outcome was recorded: the frame itself where that is all of them."""
    absent = find_any_absent(frame, columns)
    return frame if absent is None else frame[~absent]
