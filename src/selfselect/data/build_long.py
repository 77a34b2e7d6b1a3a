"""The first stage of a fit of long data: one row per case and alternative."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from selfselect.data.alternatives import check_distinct, recorded_alternatives
from selfselect.data.checks import (
    check_enough_rows,
    check_numbers,
    check_text_columns,
    first_rows,
)
from selfselect.data.clusters import cluster_codes
from selfselect.data.coding import KnownColumns, OutcomeCoder
from selfselect.data.design import Design, check_and_describe
from selfselect.data.long import (
    CasePlaces,
    LongCoding,
    case_values,
    find_case_columns,
    long_equations,
    named,
)
from selfselect.data.missing import drop_unrecorded
from selfselect.data.panels import group_codes
from selfselect.data.plan import read_plan
from selfselect.data.restrictions import share
from selfselect.data.row_coder import Sides
from selfselect.data.rows import Rows
from selfselect.data.tables import to_frame
from selfselect.data.weights import scale_weights
from selfselect.errors import (
    DataError,
    MissingRowsWarning,
    OptionError,
    UnsupportedError,
    warn_user,
)

__all__ = ["build_long_design"]


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
        own, first.outcome_columns, chosen, plan.missing_outcome, first.outcome, unrecorded
    )
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
            "selected and least squares is right. Give rows of at least two."
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
