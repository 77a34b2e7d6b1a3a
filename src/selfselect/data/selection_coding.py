"""The coding of outcomes and of the equation that selects them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.coder import Coder
from selfselect.data.coding import CodedRows, FormulaCoding
from selfselect.data.columns import to_numbers
from selfselect.data.equations import INTERCEPT, SELECTION, Equation, Equations, intercept_first
from selfselect.data.files import are_files
from selfselect.data.first_stage import FirstStage, residual_name
from selfselect.data.tables import column_names
from selfselect.errors import DataError, FormulaError
from selfselect.rules.base import Label

__all__ = ["SelectionCoding", "cut_names", "selection_equations"]

Array = NDArray[np.float64]
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
