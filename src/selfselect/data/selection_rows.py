"""How rows with a selection equation are coded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.build import CodedValues, LearntCoder
from selfselect.data.coder import Coder
from selfselect.data.coding import CodedRows, FirstStage, FormulaCoding, KnownColumns, residual_name
from selfselect.data.columns import to_numbers
from selfselect.data.design import check_known_values
from selfselect.data.equations import INTERCEPT, SELECTION, Equation, Equations, intercept_first
from selfselect.data.files import are_files
from selfselect.data.formulas import ParsedFormula, code_chosen, recorded_alternatives
from selfselect.data.missing import find_any_absent
from selfselect.data.panels import code_clusters
from selfselect.data.plan import read_offsets, share
from selfselect.data.rows import Rows
from selfselect.data.selection_plan import OUTCOME, SelectionPlan, order_of, shared_terms
from selfselect.data.tables import column_names
from selfselect.errors import DataError, FormulaError, OptionError, SelfSelectError
from selfselect.rules.base import Label

Array = NDArray[np.float64]


# The coding of outcomes and of the equation that selects them.

Mask = NDArray[np.bool_]

TAKEN = ("scale", "correlation", "mills ratio")
"""Terms of parameters that are no coefficients; no covariate can bear such a name."""


@dataclass(frozen=True, eq=False)
class SelectionCoding(FormulaCoding):
    """How rows are coded; a row needs only the covariates of the equations it is used in.

    `coders` has the selection's first, then one for each alternative, and `coder_of` says which.
    Covariates that a row lacks are nan in the coded rows. `first_stages` are those of endogenous
    covariates, whose residuals are columns of the table like any other.
    """

    first_stages: tuple[FirstStage, ...] = ()

    def code(
        self, data: Any, *, with_known: bool, with_outcome: bool = False, needed: str = "all"
    ) -> CodedRows:
        self.check_residuals(data, self.columns_for(needed))
        return super().code(data, with_known=with_known, with_outcome=with_outcome, needed=needed)

    def check_residuals(self, data: Any, needed: Sequence[str]) -> None:
        """Refuse data without the residuals of first stages, and say how to add them."""
        present = () if are_files(data) or not self.first_stages else column_names(data)
        for one in self.first_stages:
            name = residual_name(one.column)
            if present and name in needed and name not in present:
                raise DataError(
                    f"There is no column {name!r} in the data: it holds the residuals of the first "
                    f"stage of {one.column!r}. Add it with result.with_residuals(data)."
                )

    def place_side(self, place: int, which: Any, matrix: Array, covariates: Array) -> None:
        """Write coded rows of a coder, at the positions `which`, into all covariates (n, D)."""
        coder, equation = self.coders[place], self.equation_of(place)
        column_of = dict(zip(equation.estimated, equation.columns, strict=False))
        for position, name in enumerate(coder.names):
            if name != INTERCEPT:
                covariates[which, column_of[name] - 1] = matrix[:, position]

    def place_offsets(self, frame: pd.DataFrame, covariates: Array) -> None:
        """Write the offsets of all rows; nan where a row has none."""
        for name in self.offset_columns:
            values = to_numbers(frame[name], f"The offset column {name!r}")
            if np.isinf(values).any():
                raise DataError(f"The offset column {name!r} is infinite in some rows.")
            covariates[:, self.equations.covariates.index(name)] = values

    @property
    def offset_columns(self) -> tuple[str, ...]:
        """The columns that are added to means as they are."""
        names = self.equations.covariates
        found = (names[one.columns[-1] - 1] for one in self.equations.each if one.has_offset)
        return tuple(dict.fromkeys(found))

    def equation_of(self, place: int) -> Equation:
        """Return the equation that a coder codes."""
        assert self.equations.selection is not None
        return self.equations.selection if place == 0 else self.equations.each[place - 1]

    def new_covariates(self, n_rows: int) -> Array:
        """Return covariates (n, D) that are all missing; columns lie one after the other."""
        return np.full((len(self.equations.covariates), n_rows), np.nan).T

    def _sides(self, needed: str) -> tuple[int, ...]:
        """Return the coders of all equations, the "outcomes" or the "selection"."""
        return {"outcomes": self.coder_of, "selection": (0,)}.get(needed, (0, *self.coder_of))

    def columns_for(self, needed: str) -> tuple[str, ...]:
        """Return the data columns of all equations, the "outcomes" or the "selection"."""
        named = [name for place in self._sides(needed) for name in self.coders[place].kinds]
        return tuple(
            dict.fromkeys((*named, *(self.offset_columns if needed != "selection" else ())))
        )

    def covariates_for(self, needed: str) -> Any:
        """Return the positions of the covariates of those equations."""
        each = map(self.equation_of, self._sides(needed))
        return sorted({column - 1 for one in each for column in one.columns if column})

    def read_covariates(self, frame: pd.DataFrame, needed: str = "all") -> Array:
        """Code the right sides of other rows; covariates that are not needed are nan."""
        covariates = self.new_covariates(len(frame))
        for place in self._sides(needed):
            matrix = self.coders[place].code(frame)
            self.place_side(place, slice(None), matrix, covariates)
        if needed != "selection":
            self.place_offsets(frame, covariates)
        return covariates


def selection_equations(
    outcome: str,
    coders: Sequence[Coder],
    labels: Sequence[Label],
    texts: Sequence[str],
    *,
    ordered: bool = False,
) -> Equations:
    """Lay out the selection's equation and the alternatives', in the order of their coders.

    Where alternatives are `ordered`, the selection has cut points between them and no constant.

    Equations share a covariate of the same name, unless it is made by a transform (a spline, a
    centred column) or of categories, and what was learnt of these differs between the equations.
    """
    covariates: dict[str, int] = {}
    learnt: dict[str, Any] = {}
    made = []
    for coder, label, text in zip(coders, (SELECTION, *labels), texts, strict=True):
        if not coder.names:
            raise FormulaError(f"The formula {text!r} has neither covariates nor a constant.")
        for name in TAKEN:
            if name in coder.names:
                raise FormulaError(
                    f"A covariate cannot be named {name!r}: results use the word for a parameter. "
                    "Rename the column."
                )
        states = {**coder.transforms, **{f"{name}[": one for name, one in coder.factors.items()}}
        own = [
            name
            for name, state in states.items()
            if repr(learnt.setdefault(name, state)) != repr(state)
        ]
        terms = intercept_first(coder.names)
        columns = []
        for term in terms:
            if term == INTERCEPT:
                columns.append(0)
                continue
            name = f"{term}[{label}]" if any(one in term for one in own) else term
            columns.append(covariates.setdefault(name, len(covariates) + 1))
        made.append(Equation(label, tuple(terms), tuple(columns)))
    selection = _with_cuts(made[0], labels, texts[0]) if ordered else made[0]
    return Equations(outcome, tuple(covariates), tuple(made[1:]), selection=selection)


def _with_cuts(selection: Equation, labels: Sequence[Label], text: str) -> Equation:
    """Put the cut points between ordered alternatives in the place of the constant."""
    slopes = [place for place, column in enumerate(selection.columns) if column]
    if not slopes:
        raise FormulaError(
            f"The formula {text!r} of the selection has no covariate: nothing moves the selection "
            "among ordered alternatives. Give one."
        )
    cuts = cut_names(labels)
    return Equation(
        SELECTION,
        (*(selection.terms[place] for place in slopes), *cuts),
        (*(selection.columns[place] for place in slopes), *(0 for _ in cuts)),
        n_cuts=len(cuts),
    )


def cut_names(labels: Sequence[Label]) -> tuple[str, ...]:
    """Name the cut points between ordered alternatives."""
    return tuple(f"cut {one}|{other}" for one, other in pairwise(labels))


# Rows of a model with a selection equation become numbers: learnt once, applied to any others.

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
