"""Tables with one row per case and alternative, and their builder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.build import Sides
from selfselect.data.coder import Coder
from selfselect.data.coding import CodedRows, KnownColumns, OutcomeCoder
from selfselect.data.columns import (
    NOTHING_SELECTED,
    check_enough_rows,
    check_numbers,
    check_text_columns,
    factorize,
    first_rows,
)
from selfselect.data.design import Design, check_and_describe
from selfselect.data.equations import INTERCEPT, Equation, Equations
from selfselect.data.formulas import check_distinct, recorded_alternatives
from selfselect.data.missing import drop_unrecorded, find_any_absent
from selfselect.data.panels import cluster_codes, group_codes, scale_weights
from selfselect.data.plan import read_plan, share
from selfselect.data.rows import Rows
from selfselect.data.tables import to_frame
from selfselect.errors import (
    DataError,
    MissingRowsWarning,
    OptionError,
    UnsupportedError,
    warn_user,
)
from selfselect.rules.base import Label, RowData

# Long tables, one row per case and alternative: the rows of a case become one coded row.


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
class CovariateSource:
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
) -> tuple[Equations, tuple[CovariateSource, ...]]:
    """Lay out equations whose terms keep their names and have a covariate per alternative.

    Parameters
    ----------
    outcome : its name.
    labels : alternatives.
    sides : the right sides, learnt from long rows.
    by_case : by name, whether a column does not vary within cases: one covariate then does for all.
    """
    found: dict[str, tuple[int, CovariateSource]] = {}

    def column(coder: int, name: str, j: int) -> int:
        if name == INTERCEPT:
            return 0
        own = None if by_case[name] else j
        full = name if own is None else f"{name}[{labels[j]}]"
        return found.setdefault(full, (len(found) + 1, CovariateSource(coder, name, own)))[0]

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
    sources: tuple[CovariateSource, ...]

    def covariates(self, matrices: Sequence[Array], places: CasePlaces) -> Array:
        """Put the coded long rows of each case beside each other (n, D).

        What is not known of an alternative that is not open may be any number in a likelihood: the
        mean stands for it. `known_of` says where, as effects and predictions must not use it.
        """
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

    def known_of(
        self, frame: pd.DataFrame, places: CasePlaces, *, with_costs: bool = True
    ) -> RowData:
        """Read costs from each alternative's own rows, and what is open to a case, or known."""
        costs: Array | None = None
        if with_costs and any(entry is not None for entry in self.known.costs):
            costs = np.zeros(places.row.shape)
            for j, entry in enumerate(self.known.costs):
                if isinstance(entry, str):
                    values = check_numbers(frame[entry], f"The cost column {entry!r}")
                    costs[:, j] = np.nan_to_num(places.to_wide(values)[:, j])
                elif entry is not None:
                    costs[:, j] = entry
        if places.present.all():
            return RowData(costs)
        described = self._known(places, (*self.equations.each, *self.equations.spreads))
        priced = self._known(places, self.equations.costs)
        priced &= places.present | ~np.array([isinstance(one, str) for one in self.known.costs])
        return RowData(
            costs,
            places.present,
            None if described.all() else described,
            None if priced.all() else priced,
        )

    def _known(self, places: CasePlaces, equations: Sequence[Equation]) -> Mask:
        """Say of each case and alternative (n, k) whether all covariates of equations are known."""
        known = np.ones(places.row.shape, dtype=bool)
        for one in equations:
            j = self.equations.alternatives.index(one.alternative)
            for column in one.columns:
                if column:
                    own = self.sources[column - 1].alternative
                    users = self._users(column) if own is None else [own]
                    known[:, j] &= places.present[:, users].any(axis=1)
        return known

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
        lacking = find_any_absent(frame, (*self.columns, *costs))
        complete = np.ones(len(places.cases), dtype=bool)
        if lacking is not None:
            complete &= ~places.any_of(lacking)
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
        known = self.known_of(kept, left, with_costs=with_known)
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


# The first stage of a fit of long data: one row per case and alternative.


def build_long_design(
    formula: str | Mapping[Any, str],
    data: Any,
    *,
    case: str,
    alternatives: Any,
    weights: Any = None,
    cluster: Any = None,
    **asked: Any,
) -> Design:
    """Code a long table by formula. Arguments are those of `selfselect.fit`: see `read_plan`."""
    _refuse(case, alternatives, weights, cluster, asked)
    plan = read_plan(
        formula,
        alternatives=alternatives,
        weights=weights,
        ways=() if cluster is None else (cluster,),
        **asked,
    )
    chosen, panel = plan.chosen, plan.panel
    first, unrecorded, term_columns = plan.first, plan.unrecorded, plan.term_columns
    frame = to_frame(data, (case, alternatives, *plan.columns))
    if len(frame) == 0:
        raise DataError("The table has no rows.")
    check_text_columns(frame, term_columns)

    labels, codes, formulas = recorded_alternatives(frame[alternatives], alternatives, plan.parsed)
    places = CasePlaces.find(frame, case, alternatives, codes, labels)
    n_long, n_cases = len(frame), len(places.cases)
    lacking = frame[list(term_columns)].isna()
    complete = ~places.any_of(lacking.any(axis=1).to_numpy())
    if not complete.all():
        _say_incomplete(lacking, complete, plan.missing)
    seen_row, own = _one_row_per_case(frame, places, chosen, first.outcome_columns)
    own = own[complete]
    own, n_without = drop_unrecorded(
        own, first.outcome_columns, chosen, plan.missing_outcome, first.outcome, unrecorded,
        weights=plan.weights,
    )  # fmt: skip
    if len(own) == 0:
        raise DataError("No case is complete: every one lacks a covariate or its outcome.")
    kept = places.cases.isin(own.index)
    frame, codes, seen_row = (
        frame[kept[places.case_of]],
        codes[kept[places.case_of]],
        seen_row[kept],
    )
    places = CasePlaces.find(frame, case, alternatives, codes, labels)

    if len(labels) < 2:
        raise DataError(
            f"Only one alternative is in {alternatives!r} ({labels[0]!r}): then nothing was "
            f"selected, and {NOTHING_SELECTED}. Give rows of at least two."
        )
    sides = Sides.learn(plan, labels, formulas, frame)
    equations, sources = long_equations(
        first.outcome, labels, sides, find_case_columns(sides, places, labels)
    )
    if chosen is None and places.present.all():
        check_distinct(equations, named=True)
    known = KnownColumns.resolve(plan.cost, None, labels)
    outcome_coder, outcome = OutcomeCoder.learn(first.outcome, first.outcome_columns, own)
    coding = LongCoding(
        share(equations, plan.shared), sides.coders, sides.of_equations, known, term_columns,
        outcome_coder, case, alternatives, sources,
    )  # fmt: skip
    named = dict.fromkeys(n for n in (weights, cluster, panel) if n is not None)
    per_case = case_values(frame, list(named), places)
    counted = None
    if weights is not None:
        given = check_numbers(per_case[weights], f"The column of weights {weights!r}")
        counted = scale_weights(given, plan.weights_kind)
    rows = Rows(
        coding.covariates(sides.matrices, places),
        outcome=outcome,
        chosen=None if chosen is None else seen_row,
        weights=counted,
        clusters=None if cluster is None else cluster_codes(per_case, [cluster]),
        known=coding.known_of(frame, places),
        groups=group_codes(per_case, panel),
        between=unrecorded.limits(own, outcome),
    )
    facts = check_and_describe(
        coding,
        rows,
        formulas=tuple(one.text for one in formulas),
        chosen=chosen,
        weights=weights,
        cluster=cluster,
        n_dropped=n_cases - int(complete.sum()),
        n_without_outcome=n_without,
        weights_kind=plan.weights_kind,
        case=case,
        panel=panel,
        n_long_rows=n_long if n_cases == len(rows) else len(frame),
    )
    table = frame[list(dict.fromkeys((case, alternatives, *term_columns, *known.columns)))]
    design = Design(coding, rows, facts, places.cases, table)
    if chosen is None:
        check_enough_rows(design.n_counted, design.n_coefficients, equations.n_alternatives)
    return design


def _refuse(
    case: Any, alternatives: Any, weights: Any, cluster: Any, asked: Mapping[str, Any]
) -> None:
    if not isinstance(case, str):
        raise OptionError(f"`case` must be the name of a column, not {case!r}.")
    if not isinstance(alternatives, str):
        raise OptionError(
            "Long data (case='...') needs the column with the alternative of each row: give "
            f"alternatives='column', not {alternatives!r}."
        )
    if asked.get("available") is not None or asked.get("possible") is not None:
        raise OptionError(
            "In long data an alternative is available to a case if the case has a row for it: "
            "leave `available` and `possible` out, and the rows of those that are not."
        )
    for name, given in (("weights", weights), ("cluster", cluster)):
        if given is not None and not isinstance(given, str):
            raise OptionError(f"In long data `{name}` must be the name of a column.")
    if asked.get("weighing") is not None:
        raise UnsupportedError(
            "In long data the weights of types depend on no covariates. Leave "
            "Types(covariates=...) out, or give one row per case."
        )


def _say_incomplete(lacking: pd.DataFrame, complete: Any, missing: str) -> None:
    per_column = ", ".join(f"{name}: {n}" for name, n in lacking.sum().items() if n)
    sentence = (
        f"{(~complete).sum()} of {len(complete)} cases have a row with a missing covariate "
        f"({per_column})"
    )
    if missing == "raise":
        raise DataError(f"{sentence}. Fill them in, or allow leaving them out with missing='drop'.")
    warn_user(
        f"{sentence} and were left out whole: without that row an alternative would look as if it "
        "had not been open.",
        MissingRowsWarning,
    )


def _one_row_per_case(
    frame: pd.DataFrame, places: CasePlaces, chosen: str | None, outcome: tuple[str, ...]
) -> tuple[Any, pd.DataFrame]:
    """Return the chosen alternative of each case (n,), and a frame of one row per case."""
    if chosen is None:
        own = frame.iloc[places.first].set_axis(places.cases)
        return np.zeros(len(own), dtype=np.intp), own.assign(**case_values(frame, outcome, places))
    values = frame[chosen]
    try:
        marks = check_numbers(values, f"The column {chosen!r}")
    except DataError as error:
        raise DataError(
            f"In long data chosen={chosen!r} must be true (1) in the row of the chosen "
            f"alternative and false (0) in the other rows of the case. {error}"
        ) from error
    odd = (marks != 0) & (marks != 1)
    if odd.any():
        raise DataError(
            f"In long data chosen={chosen!r} must be true (1) in the row of the chosen "
            f"alternative and false (0) in the other rows of the case, but {marks[odd][0]:g} is in "
            f"{first_rows(odd, frame.index)}."
        )
    times = np.bincount(places.case_of, weights=marks, minlength=len(places.cases))
    for wrong, what in ((times == 0, "no row"), (times > 1, "several rows")):
        if wrong.any():
            raise DataError(
                f"{wrong.sum()} cases have {what} marked in {chosen!r} (first "
                f"{named(places.cases[wrong][0])}). Mark the row of the alternative that "
                "was chosen in each case."
            )
    picked = np.nan_to_num(places.to_wide(marks)).argmax(axis=1)
    at = places.row[np.arange(len(picked)), picked]
    return picked, frame.iloc[at].set_axis(places.cases)
