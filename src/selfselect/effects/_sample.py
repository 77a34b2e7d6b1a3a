"""The rows an effect is averaged over, coded and as they were given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from selfselect.data.coding import FormulaCoding
from selfselect.data.long import LongCoding
from selfselect.data.rows import Rows
from selfselect.data.selection_coding import SelectionCoding
from selfselect.data.tables import to_frame
from selfselect.errors import (
    DataError,
    ExtrapolationWarning,
    MissingRowsWarning,
    UnsupportedError,
    warn_user,
)

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = [
    "Sample", "code_rows", "counted_table", "extrapolations", "is_category", "raw_columns",
    "raw_table", "refuse_lacking", "sample_of", "typical_value",
]  # fmt: skip


SLACK = 0.05
"""Share of its range in the fit by which a covariate of new rows may exceed it unmentioned."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows to average over.

    Attributes
    ----------
    rows : coded.
    own : whether they are the rows of the fit.
    index : the caller's labels of the rows.
    warnings : what is doubtful about them.
    """

    rows: Rows
    own: bool
    index: pd.Index[Any]
    warnings: tuple[str, ...] = ()


def is_category(fit: FitResult, values: pd.Series[Any]) -> bool:
    """Whether a column holds categories: by its type, or because the formula makes it one."""
    coding = fit.coding
    if isinstance(coding, FormulaCoding | LongCoding) and any(
        values.name in coder.categorical for coder in coding.coders
    ):
        return True
    return pd.api.types.is_bool_dtype(values) or not pd.api.types.is_numeric_dtype(values)


def typical_value(values: pd.Series[Any], weights: Any, *, category: bool) -> Any:
    """Return the mean of a column, or the commonest of its categories, as weights count rows.

    Rows of another outcome may lack it.
    """
    present = values.notna().to_numpy()
    if not present.all():
        values, weights = values[present], None if weights is None else weights[present]
    if not category:
        return float(np.average(values.to_numpy(dtype=float), weights=weights))
    column = values.reset_index(drop=True)
    counted = pd.Series(1.0 if weights is None else weights, index=column.index)
    times = counted.groupby(column, observed=True).sum()
    return times.index[int(times.to_numpy().argmax())]


def raw_columns(fit: FitResult) -> tuple[str, ...]:
    """Return the columns a table of new rows must have."""
    coding = fit.coding
    names = coding.columns if isinstance(coding, FormulaCoding) else coding.equations.covariates
    if isinstance(coding, LongCoding):
        names = (coding.case, coding.alternative, *coding.columns)
    return tuple(dict.fromkeys((*names, *coding.known.columns)))


def raw_table(fit: FitResult, data: Any) -> pd.DataFrame:
    """Return covariates, costs and availability of complete rows as they were given."""
    names = raw_columns(fit)
    if data is None:
        if fit.table is not None:
            return fit.table[list(names)]
        covariates = _rows_of(fit).covariates
        return pd.DataFrame(covariates, columns=list(fit.problem.equations.covariates))
    if isinstance(data, np.ndarray) and not isinstance(fit.coding, FormulaCoding | LongCoding):
        data = pd.DataFrame(data, columns=list(names))
    if isinstance(fit.coding, SelectionCoding):
        fit.coding.check_residuals(data, names)
    table = to_frame(data, names)
    complete = table.notna().all(axis=1)
    if not complete.all():
        warn_user(
            f"{(~complete).sum()} of {len(table)} rows have a missing value and are left out.",
            MissingRowsWarning,
        )
    if len(table) == 0:
        raise DataError("The table has no rows, so there is nothing to average over.")
    if not complete.any():
        raise DataError("No row is complete, so there is nothing to average over.")
    return table[complete]


def counted_table(fit: FitResult) -> pd.DataFrame:
    """Return the rows of the fit as they were given, without those of weight zero."""
    table, weights = raw_table(fit, None), fit.rows.weights
    if weights is None or isinstance(fit.coding, LongCoding):
        return table
    return table[weights > 0]


def code_rows(fit: FitResult, table: pd.DataFrame) -> Rows:
    """Code complete rows as those of the fit were coded."""
    if not isinstance(fit.coding, FormulaCoding | LongCoding):
        return fit.coding.code(table.to_numpy(dtype=float), with_known=True).rows
    return fit.coding.code(table, with_known=True).rows


def sample_of(fit: FitResult, data: Any, *, option: str = "data") -> Sample:
    """Return the rows of `data`, or those of the fit where it is None; `option` takes them."""
    if data is None:
        rows = _rows_of(fit, option)
        index = pd.RangeIndex(len(rows)) if fit.row_labels is None else fit.row_labels
        return Sample(rows, own=True, index=index)
    table = raw_table(fit, data)
    index = table.index
    if isinstance(fit.coding, LongCoding):
        index = fit.coding.place(table).cases
    return Sample(code_rows(fit, table), False, index, extrapolations(fit, table))


def _rows_of(fit: FitResult, option: str = "data") -> Rows:
    if fit.engine is None:
        raise UnsupportedError(
            "This fit was loaded from a file and no longer has its rows. Give the rows to average "
            f"over, {option}=..., or fit again."
        )
    refuse_lacking(fit)
    return fit.rows


def refuse_lacking(fit: FitResult) -> None:
    """Refuse to average over the rows of a fit of which some lack covariates of an equation."""
    if fit.problem.equations.selection is None:
        return
    lacking = int(np.isnan(fit.rows.covariates).any(axis=1).sum())
    if lacking:
        whose = "another alternative's" if fit.problem.equations.n_alternatives > 1 else "its"
        raise UnsupportedError(
            f"{lacking} of {len(fit.rows)} rows of the fit do not show the outcome and lack a "
            f"covariate of {whose} equation, or have a category of it that was not met, so it "
            "cannot be predicted there. Give the rows "
            "to average over, data=..., with all covariates."
        )


def extrapolations(
    fit: FitResult, table: pd.DataFrame, names: Sequence[str] | None = None
) -> tuple[str, ...]:
    """Warn of numbers outside the range of the fit's rows, once per column.

    Of values a user gave by name every one counts; a table of new rows may exceed the range a
    little, as any other sample would.
    """
    if not fit.has_rows:
        return ()
    fitted = counted_table(fit)
    found = []
    for name in table.columns if names is None else names:
        if name not in fitted or is_category(fit, fitted[name]):
            continue
        low, high = float(fitted[name].min()), float(fitted[name].max())
        values = table[name].to_numpy(dtype=float)
        slack = 0.0 if names is not None else SLACK * (high - low)
        outside = (values < low - slack) | (values > high + slack)
        if outside.any():
            furthest = values[np.abs(values - 0.5 * (low + high)).argmax()]
            found.append(
                f"EXTRAPOLATION: in {outside.sum()} of {len(values)} rows {name!r} lies outside "
                f"the range of the fit, {low:g} to {high:g} (as far as {furthest:g}). There the "
                "result relies on the assumed linearity alone."
            )
    for sentence in found:
        warn_user(sentence, ExtrapolationWarning)
    return tuple(found)
