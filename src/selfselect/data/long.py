"""Long tables, one row per case and alternative: the rows of a case become one coded row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.checks import check_numbers, first_rows
from selfselect.data.coder import Coder
from selfselect.data.coding import CodedRows, KnownColumns, OutcomeCoder
from selfselect.data.columns import factorize
from selfselect.data.equations import INTERCEPT, Equation, Equations
from selfselect.data.row_coder import Sides
from selfselect.data.rows import Rows
from selfselect.data.tables import to_frame
from selfselect.errors import DataError
from selfselect.rules.base import Label, RowData

__all__ = [
    "CasePlaces",
    "LongCoding",
    "Source",
    "case_values",
    "find_case_columns",
    "long_equations",
    "named",
]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class CasePlaces:
    """Where each case's alternatives stand in a long table.

    Attributes
    ----------
    cases : labels of the cases, in order of appearance.
    row : (n, k) the row of each case and alternative; -1 where the case has none.
    case_of : (m,) the case of each row.
    """

    cases: pd.Index[Any]
    row: Indices
    case_of: Indices

    @classmethod
    def find(
        cls, frame: pd.DataFrame, case: str, alternative: str, codes: Indices, labels: Sequence[Any]
    ) -> CasePlaces:
        """Place the rows, whose alternatives have the given codes."""
        case_of, cases = factorize(frame[case], f"The column of cases {case!r}")
        lost = case_of < 0
        if lost.any():
            raise DataError(
                f"{lost.sum()} rows have no value in {case!r} ({first_rows(lost, frame.index)}): "
                "it is not known to which case they belong. Fill it in or leave them out."
            )
        lost = codes < 0
        if lost.any():
            raise DataError(
                f"{lost.sum()} rows have no value in {alternative!r} "
                f"({first_rows(lost, frame.index)}): their alternative is not known. Fill it in "
                "or leave them out."
            )
        row = np.full((len(cases), len(labels)), -1, dtype=np.intp)
        row[case_of, codes] = np.arange(len(frame))
        again = row[case_of, codes] != np.arange(len(frame))
        if again.any():
            at = int(np.flatnonzero(again)[0])
            raise DataError(
                f"{again.sum()} rows repeat a case and alternative of another row, first "
                f"{labels[codes[at]]!r} in the case {named(cases[case_of[at]])}. Long data has "
                "one row per case and alternative: leave one out, or correct the labels."
            )
        return cls(pd.Index(cases, name=case), row, case_of)

    @property
    def present(self) -> Mask:
        """Which alternatives each case has a row for (n, k)."""
        return np.asarray(self.row >= 0)

    @property
    def first(self) -> Indices:
        """The first row of each case (n,)."""
        return np.asarray(np.take_along_axis(self.row, self.present.argmax(1)[:, None], 1)[:, 0])

    def to_wide(self, values: Array) -> Array:
        """Return a column of the long table as (n, k), nan where a case has no row."""
        return np.where(self.present, values[self.row], np.nan)

    def any_of(self, rows: Mask) -> Mask:
        """Say of each case whether any of its rows is among `rows`."""
        return np.bincount(self.case_of, weights=rows, minlength=len(self.cases)) > 0


@dataclass(frozen=True)
class Source:
    """Where a covariate comes from: a column of a coder, of one alternative's rows or of any.

    Attributes
    ----------
    coder : which coder.
    name : the name of its column.
    alternative : position of the alternative whose rows it is taken from; None where it does not
        vary within cases.
    """

    coder: int
    name: str
    alternative: int | None


def long_equations(
    outcome: str, labels: Sequence[Label], sides: Sides, by_case: dict[str, bool]
) -> tuple[Equations, tuple[Source, ...]]:
    """Lay out equations whose terms keep their names and have a covariate per alternative.

    Parameters
    ----------
    outcome : its name.
    labels : alternatives.
    sides : the right sides, learnt from long rows.
    by_case : by name, whether a column does not vary within cases: one covariate then does for all.
    """
    found: dict[str, tuple[int, Source]] = {}

    def column(coder: int, name: str, j: int) -> int:
        if name == INTERCEPT:
            return 0
        own = None if by_case[name] else j
        full = name if own is None else f"{name}[{labels[j]}]"
        return found.setdefault(full, (len(found) + 1, Source(coder, name, own)))[0]

    each = []
    for j, (label, coder) in enumerate(zip(labels, sides.of_equations, strict=True)):
        names = list(sides.terms(coder))
        columns = [column(coder, name, j) for name in names]
        if label in sides.of_offsets:
            name = sides.offset_terms[label]
            columns.append(column(sides.of_offsets[label], name, j))
            names.append(f"offset({name})")
        each.append(Equation(label, tuple(names), tuple(columns), label in sides.of_offsets))
    costs, spreads = (
        tuple(
            Equation(
                label,
                tuple(sides.terms(coder)),
                tuple(
                    column(coder, name, list(labels).index(label)) for name in sides.terms(coder)
                ),
            )
            for label, coder in of_side.items()
        )
        for of_side in (sides.of_costs, sides.of_spreads)
    )
    equations = Equations(outcome, tuple(found), tuple(each), costs, spreads=spreads)
    return equations, tuple(source for _, source in found.values())


@dataclass(frozen=True, eq=False)
class LongCoding:
    """A coding learnt from formulas and a long table.

    Attributes
    ----------
    equations : names and positions of all terms.
    coders, coder_of, known, columns, outcome : as of a `FormulaCoding`; learnt from long rows.
    case, alternative : the columns that say to which case and alternative a row belongs.
    sources : where each covariate comes from.
    """

    equations: Equations
    coders: tuple[Coder, ...]
    coder_of: tuple[int, ...]
    known: KnownColumns
    columns: tuple[str, ...]
    outcome: OutcomeCoder
    case: str
    alternative: str
    sources: tuple[Source, ...]

    def covariates(self, matrices: Sequence[Array], places: CasePlaces) -> Array:
        """Put the coded long rows of each case beside each other (n, D)."""
        covariates = np.empty((len(places.cases), len(self.sources)))
        for place, source in enumerate(self.sources):
            position = self.coders[source.coder].names.index(source.name)
            values = places.to_wide(matrices[source.coder][:, position])
            if source.alternative is None:
                covariates[:, place] = self._constant(
                    values[:, self._users(place + 1)], source.name, places
                )
            else:
                own = values[:, source.alternative]
                # Who is not open to a case says nothing there: any number will do.
                covariates[:, place] = np.where(np.isnan(own), _mean(own), own)
        return covariates

    def _users(self, column: int) -> list[int]:
        """Return the alternatives whose equation, cost or log scale has a column."""
        each = (*self.equations.each, *self.equations.costs, *self.equations.spreads)
        labels = {one.alternative for one in each if column in one.columns}
        return [j for j, label in enumerate(self.equations.alternatives) if label in labels]

    def _constant(self, values: Array, name: str, places: CasePlaces) -> Array:
        """Return what does not vary within cases (n,); cases without a value take the mean."""
        if varies_within(values).any():
            where = varies_within(values)
            raise DataError(
                f"The term {name!r} did not vary within the cases of the fit, but does in "
                f"{where.sum()} of these (first {named(places.cases[where][0])})."
            )
        found = np.isfinite(values)
        first = np.take_along_axis(values, found.argmax(1)[:, None], axis=1)[:, 0]
        return np.where(found.any(axis=1), first, _mean(first))

    def known_of(self, frame: pd.DataFrame, places: CasePlaces) -> RowData:
        """Read costs from each alternative's own rows, and what is open to a case."""
        costs: Array | None = None
        if any(entry is not None for entry in self.known.costs):
            costs = np.zeros(places.row.shape)
            for j, entry in enumerate(self.known.costs):
                if isinstance(entry, str):
                    values = check_numbers(frame[entry], f"The cost column {entry!r}")
                    costs[:, j] = np.nan_to_num(places.to_wide(values)[:, j])
                elif entry is not None:
                    costs[:, j] = entry
        return RowData(costs, None if places.present.all() else places.present)

    def place(self, frame: pd.DataFrame) -> CasePlaces:
        """Find each case's rows in a long table with the alternatives of the fit."""
        labels = self.equations.alternatives
        by_text = {str(label): i for i, label in enumerate(labels)}
        values = frame[self.alternative]
        codes = np.array(
            [-1 if pd.isna(value) else by_text.get(_text(value), -2) for value in values],
            dtype=np.intp,
        )
        new = codes == -2
        if new.any():
            raise DataError(
                f"The column {self.alternative!r} holds {values[new].iloc[0]!r}, which the fit did "
                f"not have ({', '.join(map(str, labels))}). There is no equation for it: leave "
                "those rows out."
            )
        return CasePlaces.find(frame, self.case, self.alternative, codes, labels)

    def code(
        self, data: Any, *, with_known: bool, with_outcome: bool = False, needed: str = "all"
    ) -> CodedRows:
        del needed
        wanted = (*self.columns, *(self.outcome.columns if with_outcome else ()))
        costs = self.known.columns if with_known else ()
        frame = to_frame(data, (self.case, self.alternative, *wanted, *costs))
        places = self.place(frame)
        complete = ~places.any_of(frame[list(self.columns)].isna().any(axis=1).to_numpy())
        outcomes = None
        if with_outcome:
            outcomes = case_values(frame, self.outcome.columns, places)
            complete &= outcomes.notna().all(axis=1).to_numpy()
        kept = frame[complete[places.case_of]]
        left = places
        if len(kept) < len(frame):
            left = self.place(kept)
        covariates = self.covariates([coder.code(kept) for coder in self.coders], left)
        outcome = None if outcomes is None else self.outcome.code(outcomes[complete])
        known = self.known_of(kept, left)
        if not with_known:
            known = RowData(None, known.available)
        return CodedRows(Rows(covariates, outcome=outcome, known=known), places.cases, complete)


def find_case_columns(sides: Sides, places: CasePlaces, labels: Sequence[Label]) -> dict[str, bool]:
    """Say of each coded column whether it does not vary within cases.

    Rows of alternatives that do not use a column do not count.
    """
    uses = [
        {
            coder,
            *(
                by[label]
                for by in (sides.of_offsets, sides.of_costs, sides.of_spreads)
                if label in by
            ),
        }
        for label, coder in zip(labels, sides.of_equations, strict=True)
    ]
    found: dict[str, bool] = {}
    for coder, matrix in zip(sides.coders, sides.matrices, strict=True):
        for place, name in enumerate(coder.names):
            users = [
                j for j, used in enumerate(uses) if any(name in sides.coders[i].names for i in used)
            ]
            values = places.to_wide(matrix[:, place])[:, users]
            found.setdefault(name, len(users) > 1 and not varies_within(values).any())
    return found


def varies_within(values: Array) -> Mask:
    """Say of each case (n, k) whether what is there differs between alternatives."""
    low = np.where(np.isnan(values), np.inf, values).min(axis=1)
    high = np.where(np.isnan(values), -np.inf, values).max(axis=1)
    return np.asarray(high > low)


def case_values(frame: pd.DataFrame, columns: Sequence[str], places: CasePlaces) -> pd.DataFrame:
    """Return columns with one value per case: what its rows agree on, missing where none has it."""
    made: dict[str, Any] = {}
    for name in columns:
        values = frame[name].reset_index(drop=True)
        by_case = values.groupby(places.case_of)
        differ = (by_case.nunique() > 1).to_numpy()
        if differ.any():
            raise DataError(
                f"The column {name!r} has several values in {differ.sum()} cases (first "
                f"{named(places.cases[differ][0])}). It belongs to the case as a whole: give "
                "the same value in all rows of a case, or leave all but one empty."
            )
        made[name] = by_case.first().to_numpy()
    return pd.DataFrame(made, index=places.cases)


def named(case: Any) -> str:
    """Write the label of a case in a sentence."""
    return repr(case.item() if isinstance(case, np.generic) else case)


def _mean(values: Array) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else 0.0


def _text(value: Any) -> str:
    """Write a label as text; whole numbers may have been read as floats."""
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole else str(value)
