"""Rows of a model with a selection equation become numbers: learnt once, applied to any others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from selfselect.errors import DataError, OptionError, SelfSelectError
from selfselect.rules.base import Label

__all__ = ["SelectionCoder", "find_alternatives", "learning_rows", "rows_of"]

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

    Where there are several outcomes, every right side is learnt from all rows that have its
    columns: categories, centres and knots are then the same in all equations that name them. A
    single outcome is learnt from the rows that show it, as others may mean something else by its
    columns, or nothing.
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

        `frames` has those rows by the key of the side, `recorded` the rows that show each outcome.
        """
        for label, own in zip(labels, recorded, strict=True):
            if not len(own):
                raise DataError(
                    f"No row shows {plan.outcome_of(label)}: nothing says what it depends on. "
                    "An alternative without outcomes has no equation in this model; leave its "
                    "rows out, or join it with another."
                )
        sides, keys = (plan.selection, *formulas), plan.keys(formulas)
        learnt = {
            key: Coder.learn(one.terms, frames[key]) for key, one in zip(keys, sides, strict=True)
        }
        coders = tuple(learnt[key][0] for key in keys)
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
        return coder, {key: matrix for key, (_, matrix) in learnt.items()}

    def codes(self, frame: pd.DataFrame) -> Indices:
        """Return the alternative of each row, -1 where none was selected."""
        if not self.plan.switching:
            return self.plan.choices(frame)[0]
        name = self.plan.choice
        return code_chosen(frame[name], name, self.labels)

    def values(self, frame: pd.DataFrame) -> CodedValues:
        """Code what depends on what was learnt, of other rows."""
        codes = self.codes(frame)
        which = learning_rows(self.plan, self.formulas, frame, self.plan.shown(frame, codes))
        keys = self.plan.keys(self.formulas)
        coders = dict(zip(keys, self.coding.coders, strict=True))
        matrices = {key: coders[key].code(rows_of(frame, rows)) for key, rows in which.items()}
        return self.place(frame, codes, which, matrices)

    def place(
        self,
        frame: pd.DataFrame,
        codes: Indices,
        which: Mapping[str, Mask | None],
        matrices: Mapping[str, Array],
    ) -> CodedValues:
        """Put values together, given by right side the rows that it is learnt from, and coded."""
        shown = self.plan.shown(frame, codes)
        outcome = np.full(len(frame), np.nan)
        observed = np.flatnonzero(shown >= 0)
        values = self.coding.outcome.code_recorded(frame.iloc[observed])
        if self.plan.binary:
            self.plan.check_binary(values[~np.isnan(values)])
        outcome[observed] = values
        clusters = code_clusters(frame, self.plan.ways, self.clusters)
        covariates = self._covariates(frame, shown, which, matrices)
        return CodedValues(covariates, codes, outcome, clusters)

    def check(self, rows: Rows) -> None:
        """Refuse rows with values that no fit can use."""
        check_known_values(self.labels, rows, self.plan.weights, self.plan.weights_kind)

    def _covariates(
        self,
        frame: pd.DataFrame,
        shown: Indices,
        which: Mapping[str, Mask | None],
        matrices: Mapping[str, Array],
    ) -> Array:
        """Place coded rows in all covariates; nan where a row has no number for one."""
        coding, keys = self.coding, self.plan.keys(self.formulas)
        covariates = coding.new_covariates(len(frame))
        for place, (key, coder) in enumerate(zip(keys, coding.coders, strict=True)):
            rows, matrix = which[key], matrices[key]
            finite = np.isfinite(matrix)
            if not finite.all():
                # Only effects ask what rows of one alternative would have in another.
                own = np.ones(len(frame), dtype=bool) if not place else shown == place - 1
                odd = ~finite[own if rows is None else own[rows]].all(axis=0)
                if odd.any():
                    self._refuse_infinite(place, coder.names[int(np.argmax(odd))])
                matrix = np.where(finite, matrix, np.nan)
            coding.place_side(place, slice(None) if rows is None else rows, matrix, covariates)
        coding.place_offsets(frame, covariates)
        if not self.plan.switching:
            self._place_unselected(frame, which[keys[1]], covariates)
        return covariates

    def _place_unselected(self, frame: pd.DataFrame, own: Mask | None, covariates: Array) -> None:
        """Code what rows that do not show the outcome have of its equation, where they can be."""
        (formula,), coder = self.formulas, self.coding.coders[1]
        absent = find_any_absent(frame, formula.term_columns)
        others = np.zeros(len(frame), dtype=bool) if own is None else ~own
        others &= True if absent is None else ~absent
        others &= coder.known_categories(frame)
        if not others.any():
            return
        try:
            matrix = coder.code(frame[others])
        except SelfSelectError:
            return
        matrix = np.where(np.isfinite(matrix), matrix, np.nan)
        self.coding.place_side(1, others, matrix, covariates)

    def _refuse_infinite(self, place: int, name: str) -> None:
        what, more = "selection equation", ""
        if place:
            what = f"equation of {self.labels[place - 1]!r}"
        if place and self.plan.switching:
            more = (
                " Transforms such as center() learn from the rows of all alternatives: where the "
                "column means nothing, set it missing."
            )
        raise DataError(
            f"The covariate {name!r} of the {what} is infinite or not a number in some rows. "
            f"Correct them, leave them out, or use another transform.{more}"
        )


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


def learning_rows(
    plan: SelectionPlan,
    formulas: tuple[ParsedFormula, ...],
    frame: pd.DataFrame,
    shown: Indices,
) -> dict[str, Mask | None]:
    """Return by key of a side which rows it is learnt from; None where all are."""
    keys, found = plan.keys(formulas), dict[str, Mask | None]()
    for key, one in zip(keys, (plan.selection, *formulas), strict=True):
        absent = find_any_absent(frame, one.term_columns)
        found[key] = None if absent is None else ~absent
    if not plan.switching:
        found[keys[1]] = None if (shown >= 0).all() else shown >= 0
    return found


def rows_of(frame: pd.DataFrame, which: Mask | None) -> pd.DataFrame:
    """Return some rows; all of them where `which` is None."""
    return frame if which is None else frame[which]


def _with_outcome(frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return the rows whose outcome was recorded: the frame itself where that is all of them."""
    absent = find_any_absent(frame, columns)
    return frame if absent is None else frame[~absent]
