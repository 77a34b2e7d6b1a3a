"""The first stage of a fit: a formula and a table become coded rows and the coding itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.categories import check_categories
from selfselect.data.checks import (
    check_enough_rows,
    check_text_columns,
    check_word,
)
from selfselect.data.clusters import cluster_columns
from selfselect.data.coding import (
    ArrayCoding,
    KnownColumns,
)
from selfselect.data.design import DataFacts, Design, check_and_describe
from selfselect.data.equations import INTERCEPT, Equations
from selfselect.data.formulas import parse_formulas
from selfselect.data.missing import drop_incomplete, drop_unrecorded
from selfselect.data.plan import read_plan
from selfselect.data.row_coder import RowCoder
from selfselect.data.rows import Rows
from selfselect.data.tables import in_table_order, to_frame
from selfselect.data.weights import check_weights_kind, scale_weights
from selfselect.errors import DataError, OptionError
from selfselect.rules.base import Label

__all__ = [
    "DataFacts",
    "Design",
    "build_design",
    "check_word",
    "design_from_arrays",
    "in_order_of_rows",
    "parse_formulas",
    "with_column",
]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


def build_design(
    formula: str | Mapping[Any, str],
    data: Any,
    *,
    weights: str | Sequence[float] | None = None,
    cluster: str | Sequence[Any] | None = None,
    **asked: Any,
) -> Design:
    """Code a table by formula. Arguments are those of `selfselect.fit`: see `read_plan`."""
    ways = cluster_columns(cluster, data)
    plan = read_plan(formula, weights=weights, ways=ways, **asked)
    frame = to_frame(data, in_table_order(data, plan.columns))
    frame, weights_column = with_column(frame, weights, "weights")
    if not ways:
        frame, labelled = with_column(frame, cluster, "cluster")
        ways = () if labelled is None else (labelled,)
    plan = replace(plan, weights=weights_column, ways=ways)
    if len(frame) == 0:
        raise DataError("The table has no rows.")
    check_text_columns(frame, [name for name in plan.term_columns if name != plan.chosen])

    frame, n_dropped = drop_incomplete(frame, plan.term_columns, plan.missing)
    frame, n_without = drop_unrecorded(
        frame, plan.first.outcome_columns, plan.chosen, plan.missing_outcome, plan.first.outcome,
        plan.unrecorded,
    )  # fmt: skip
    if len(frame) == 0:
        raise DataError("No row is complete: every one lacks a covariate, so none is left to fit.")
    coder, made = RowCoder.learn(plan, frame)
    coding, rows = coder.coding, coder.assemble(frame, made)
    check_categories(coding.coders, coding.coder_of, frame, made.chosen, coder.labels)
    if rows.weights is not None:
        rows = replace(rows, weights=scale_weights(rows.weights, plan.weights_kind))
    facts = check_and_describe(
        coding,
        rows,
        formulas=tuple(one.text for one in coder.formulas),
        chosen=plan.chosen,
        weights=plan.weights,
        cluster=" and ".join(ways) or None,
        n_dropped=n_dropped,
        n_without_outcome=n_without,
        weights_kind=plan.weights_kind,
        panel=plan.panel,
    )
    design = Design(coding, rows, facts, frame.index, frame)
    if plan.chosen is None:
        check_enough_rows(design.n_counted, design.n_coefficients, design.equations.n_alternatives)
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
    groups: Indices | None = None,
    outcome_name: str = "y",
) -> Design:
    """Make a design of plain arrays: the same covariates for every alternative.

    Unlike `build_design` it does not refuse too few rows for an unknown index: see
    `Design.n_coefficients`.

    Parameters
    ----------
    covariates : (n, D) finite numbers, not copied.
    outcome : (n,) finite numbers.
    chosen : (n,) index into `alternatives`; None where the choice was not recorded.
    alternatives : labels, in order.
    names : D names of the covariates.
    fit_intercept : whether every equation has a constant.
    weights : (n,) or None.
    weights_kind : as in `selfselect.fit`.
    cost : known costs of alternatives, as numbers.
    groups : (n,) number of the person each row belongs to; rows are clustered by it.
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
        clusters=groups,
        known=known.repeat(len(covariates)),
        groups=groups,
    )
    panel = None if groups is None else "panel"
    formula = f"{outcome_name} ~ {' + '.join(names)}{'' if fit_intercept else ' - 1'}"
    facts = check_and_describe(
        coding,
        rows,
        formulas=(formula,) * len(alternatives),
        chosen=None if chosen is None else "chosen",
        weights=None if weights is None else "sample_weight",
        cluster=panel,
        panel=panel,
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
    return frame.assign(**{name: in_order_of_rows(given, frame.index, default)}), name


def in_order_of_rows(given: Any, labels: pd.Index[Any], what: str) -> Any:
    """Return one value per row; a series is put in order by its index, which must match."""
    if isinstance(given, pd.Series) and not given.index.equals(labels):
        distinct = given.index.is_unique and labels.is_unique
        if not (distinct and labels.isin(given.index).all()):
            raise DataError(
                f"`{what}` is a series whose index is not that of the table, so it is not clear "
                "which value belongs to which row. Make it a column of the table, or give "
                f"{what}.to_numpy() if it is in the order of the rows."
            )
        given = given.reindex(labels)
    if isinstance(given, pd.Series):
        return given.array
    # A series keeps what is masked as missing; an array would forget it.
    return pd.Series(given).array
