"""The first stage of a fit: a formula and a table become coded rows and the coding itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.alternatives import (
    check_distinct,
    recorded_alternatives,
    unnamed_alternatives,
)
from selfselect.data.checks import (
    check_enough_rows,
    check_numbers,
    check_text_columns,
    check_word,
)
from selfselect.data.clusters import cluster_codes, cluster_columns
from selfselect.data.coding import (
    ArrayCoding,
    FormulaCoding,
    KnownColumns,
    OutcomeCoder,
    check_known,
)
from selfselect.data.costs import check_costs, parse_cost, split_costs
from selfselect.data.design import DataFacts, Design, check_and_describe
from selfselect.data.equations import INTERCEPT, Equations, intercept_first
from selfselect.data.formulas import Coder, parse_formulas
from selfselect.data.missing import drop_incomplete, drop_unrecorded
from selfselect.data.restrictions import (
    check_symmetric,
    offset_columns,
    offset_side,
    read_offsets,
    share,
)
from selfselect.data.rows import Rows
from selfselect.data.tables import to_frame
from selfselect.data.unrecorded import Unrecorded
from selfselect.data.weights import check_weights_kind, scale_weights
from selfselect.errors import DataError, OptionError
from selfselect.rules._labels import by_alternative
from selfselect.rules.base import Label

__all__ = [
    "DataFacts",
    "Design",
    "build_design",
    "check_word",
    "design_from_arrays",
    "parse_formulas",
    "with_column",
]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


def build_design(
    formula: str | Mapping[Any, str],
    data: Any,
    *,
    chosen: str | None,
    alternatives: int | None = None,
    available: Mapping[Any, str] | None = None,
    possible: Mapping[Any, str] | None = None,
    cost: Mapping[Any, Any] | None = None,
    shared: Any = None,
    offset: Any = None,
    weights: str | Sequence[float] | None = None,
    weights_kind: str | None = None,
    cluster: str | Sequence[Any] | None = None,
    missing: str = "drop",
    missing_outcome: str = "raise",
    outcome_between: Any = None,
) -> Design:
    """Code a table by formula. Arguments are those of `selfselect.fit`."""
    check_word("missing", missing, ("drop", "raise"))
    check_word("missing_outcome", missing_outcome, ("raise", "drop", "silent"))
    cost, estimated = split_costs(cost)
    check_weights_kind(weights_kind, weights)
    check_known(cost, available)
    unrecorded = Unrecorded.read(missing_outcome, outcome_between, possible)
    parsed = parse_formulas(formula)
    first = next(iter(parsed.values())) if isinstance(parsed, dict) else parsed
    each = list(parsed.values()) if isinstance(parsed, dict) else [parsed]

    of_costs = {label: parse_cost(text, first.outcome) for label, text in estimated.items()}
    term_columns = tuple(
        dict.fromkeys(
            (
                *(name for one in (*each, *of_costs.values()) for name in one.term_columns),
                *offset_columns(offset),
            )
        )
    )
    columns = (*first.outcome_columns, *term_columns, *(() if chosen is None else (chosen,)))
    ways = cluster_columns(cluster, data)
    columns += (*((weights,) if isinstance(weights, str) else ()), *ways)
    columns += tuple(v for v in (cost or {}).values() if isinstance(v, str))
    columns += (*(available or {}).values(), *unrecorded.columns)
    frame = to_frame(data, columns)
    frame, weights_column = with_column(frame, weights, "weights")
    if not ways:
        frame, labelled = with_column(frame, cluster, "cluster")
        ways = () if labelled is None else (labelled,)
    if len(frame) == 0:
        raise DataError("The table has no rows.")
    check_text_columns(frame, [name for name in term_columns if name != chosen])

    frame, n_dropped = drop_incomplete(frame, term_columns, missing)
    frame, n_without = drop_unrecorded(
        frame, first.outcome_columns, chosen, missing_outcome, first.outcome, unrecorded
    )
    if len(frame) == 0:
        raise DataError("No row is complete: every one lacks a covariate, so none is left to fit.")

    codes: Indices | None = None
    if chosen is None:
        labels, formulas = unnamed_alternatives(parsed, alternatives)
    else:
        labels, codes, formulas = recorded_alternatives(frame[chosen], chosen, parsed)
    known = KnownColumns.resolve(cost, available, labels)
    of_costs = by_alternative(of_costs, labels, what="cost")
    offsets = read_offsets(offset, labels)
    for name in offset_columns(offset):
        check_numbers(frame[name], f"The offset column {name!r}")
    sides = dict.fromkeys(one.terms for one in (*each, *of_costs.values()))
    sides |= dict.fromkeys(map(offset_side, offset_columns(offset)))
    learnt = [Coder.learn(side, frame) for side in sides]
    coders = tuple(coder for coder, _ in learnt)
    position = {side: i for i, side in enumerate(sides)}
    coder_of = tuple(position[one.terms] for one in formulas)
    equations = Equations.build(
        first.outcome, [intercept_first(coders[i].names) for i in coder_of], labels
    )
    if offsets:
        equations = equations.with_offsets(
            {label: coders[position[offset_side(name)]].names[0] for label, name in offsets.items()}
        )
    if chosen is None:
        check_distinct(equations, named=isinstance(parsed, dict))
    if of_costs:
        terms = {
            label: intercept_first(coders[position[one.terms]].names)
            for label, one in of_costs.items()
        }
        check_costs(terms, labels)
        equations = equations.with_costs(terms)
    equations = share(equations, shared)
    if chosen is None and not isinstance(parsed, dict):
        check_symmetric(equations)
    outcome_coder, outcome = OutcomeCoder.learn(first.outcome, first.outcome_columns, frame)
    coding = FormulaCoding(equations, coders, coder_of, known, term_columns, outcome_coder)
    known_rows = known.read(frame)
    rows = Rows(
        coding.covariates([matrix for _, matrix in learnt]),
        outcome=outcome,
        chosen=codes,
        weights=None
        if weights_column is None
        else scale_weights(
            check_numbers(frame[weights_column], f"The column of weights {weights_column!r}"),
            weights_kind,
        ),
        clusters=cluster_codes(frame, ways),
        known=known_rows,
        between=unrecorded.limits(frame, outcome),
        possible=unrecorded.candidates(frame, codes, labels, known_rows.available),
    )
    facts = check_and_describe(
        coding,
        rows,
        formulas=tuple(one.text for one in formulas),
        chosen=chosen,
        weights=weights_column,
        cluster=" and ".join(ways) or None,
        n_dropped=n_dropped,
        n_without_outcome=n_without,
        weights_kind=weights_kind,
    )
    design = Design(coding, rows, facts, frame.index, frame)
    if chosen is None:
        check_enough_rows(design.n_counted, design.n_coefficients, equations.n_alternatives)
    return design


def design_from_arrays(
    covariates: Array,
    outcome: Array,
    chosen: Indices | None,
    *,
    alternatives: Sequence[Label],
    names: Sequence[str],
    fit_intercept: bool = True,
    weights: Array | None = None,
    weights_kind: str | None = None,
    cost: Mapping[Any, Any] | None = None,
    outcome_name: str = "y",
) -> Design:
    """Make a design of plain arrays: the same covariates for every alternative.

    Unlike `build_design` it does not refuse too few rows for an unknown index: see
    `Design.n_coefficients`.

    Parameters
    ----------
    covariates : (n, D) finite numbers, not copied.
    outcome : (n,) finite numbers.
    chosen : (n,) index into `alternatives`; None where nobody recorded who was seen.
    alternatives : labels, in order.
    names : D names of the covariates.
    fit_intercept : whether every equation has a constant.
    weights : (n,) or None.
    weights_kind : as in `selfselect.fit`.
    cost : known costs of alternatives, as numbers.
    outcome_name : for summaries.
    """
    check_weights_kind(weights_kind, weights)
    terms = ([INTERCEPT] if fit_intercept else []) + list(names)
    equations = Equations.build(outcome_name, [terms] * len(alternatives), alternatives)
    known = KnownColumns.resolve(cost, None, alternatives)
    if known.columns:
        raise OptionError(
            f"The cost is in the column {known.columns[0]!r}, but arrays have no columns. Give a "
            "number, or use selfselect.fit with a table."
        )
    coding = ArrayCoding(equations, known)
    rows = Rows(
        covariates,
        outcome=outcome,
        chosen=chosen,
        weights=None if weights is None else scale_weights(weights, weights_kind),
        known=known.repeat(len(covariates)),
    )
    formula = f"{outcome_name} ~ {' + '.join(names)}{'' if fit_intercept else ' - 1'}"
    facts = check_and_describe(
        coding,
        rows,
        formulas=(formula,) * len(alternatives),
        chosen=None if chosen is None else "chosen",
        weights=None if weights is None else "sample_weight",
        cluster=None,
        n_dropped=0,
        n_without_outcome=0,
        weights_kind=weights_kind,
    )
    return Design(coding, rows, facts, pd.RangeIndex(len(rows)))


def with_column(frame: pd.DataFrame, given: Any, default: str) -> tuple[pd.DataFrame, str | None]:
    """Return the column that holds what was given; an array becomes one, so that rows stay whole.

    It is named `default`, or the next name like it that no column of the frame has.
    """
    if given is None or isinstance(given, str):
        return frame, given
    if np.ndim(given) != 1 or len(given) != len(frame):
        raise DataError(
            f"`{default}` has the shape {np.shape(given)} but the table has {len(frame)} rows. "
            "Give the name of a column, or one value per row."
        )
    name = default
    while name in frame:
        name += "_"
    return frame.assign(**{name: np.asarray(given)}), name
