"""The gate from a table's column to numbers: what is a number, what a category, what neither.

Every column passes here, whether it comes from memory, a file or a loaded fit. Numbers become
double precision before any arithmetic: whole numbers of eight bits overflow at 128, and the
logarithm of one has half precision.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.errors import DataError

__all__ = [
    "KINDS",
    "LARGEST_EXACT",
    "Kind",
    "factorize",
    "find_kind",
    "is_text",
    "listed_labels",
    "plain_label",
    "read_column",
    "read_columns",
    "to_numbers",
    "unmet_categories",
]

Array = NDArray[np.float64]

Kind = Literal["number", "truth", "category"]
"""What a column is to a formula. ``truth`` is a number that is 0 or 1 and only used in logic."""

KINDS = ("number", "truth", "category")

LARGEST_EXACT = 2**53
"""Whole numbers beyond this are not all doubles, so two labels could become one."""

_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating, Decimal, Fraction)


def find_kind(values: pd.Series[Any], name: str, *, as_category: bool = False) -> Kind:
    """Say what a column holds; refuse one that is neither numbers nor categories.

    `as_category` says that formulas use it inside ``C(...)`` only, so that any label will do.
    """
    if isinstance(values.dtype, pd.CategoricalDtype) or as_category:
        _refuse_odd_labels(values, name)
        return "category"
    if _is_number(values):
        return "number"
    if is_text(values):
        return "category"
    raise DataError(f"The column {name!r} {_what_is_odd(values)}")


def read_columns(frame: pd.DataFrame, kinds: Mapping[str, Kind]) -> pd.DataFrame:
    """Return columns as a formula uses them, with rows numbered afresh; refuse other kinds."""
    made = {name: read_column(frame[name], name, kind) for name, kind in kinds.items()}
    return pd.DataFrame(made, index=pd.RangeIndex(len(frame)), copy=False)


def read_column(values: pd.Series[Any], name: str, kind: Kind) -> Any:
    """Return one column as a formula uses it: doubles, truth values, text or a categorical."""
    if kind == "category":
        return _labels(values, name)
    numbers = to_numbers(values, f"The column {name!r}", "held numbers when the model was fitted")
    if kind == "number":
        return numbers
    if not np.isin(numbers, (0.0, 1.0)).all():
        raise DataError(
            f"The column {name!r} is used as true or false in the formula, but holds "
            f"{numbers[~np.isin(numbers, (0.0, 1.0))][0]:g}. Compare it with a number first, as in "
            f"({name} > 0)."
        )
    return numbers.astype(bool)


def to_numbers(values: pd.Series[Any], what: str, why: str = "must hold numbers") -> Array:
    """Return a column as doubles, nan where it is missing; refuse what is not a number.

    Parameters
    ----------
    values : the column.
    what : it, for the sentence.
    why : what it should be, for the sentence.
    """
    dtype = values.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "iufb":
        return values.to_numpy(dtype=np.float64)
    if not _is_number(values):
        raise DataError(f"{what} {why}, but it {_what_is_odd(values)}")
    try:
        if _is_object(dtype):
            gaps = values.isna().to_numpy()
            numbers = np.full(len(values), np.nan)
            numbers[~gaps] = [float(value) for value in values[~gaps]]
            return numbers
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    except (OverflowError, TypeError, ValueError) as error:
        raise DataError(
            f"{what} {why}, but it holds {dtype} values that are no doubles ({error}). Convert it "
            "to float64 first."
        ) from error


def factorize(values: pd.Series[Any], what: str) -> tuple[NDArray[np.intp], Any]:
    """Return each row's place among the values met, -1 where it is missing, and those values.

    Cells that cannot be told apart, such as lists, are refused; `what` names the column.
    """
    try:
        codes, met = pd.factorize(values)
    except TypeError as error:
        odd = next(value for value in values if type(value).__hash__ is None)
        raise DataError(
            f"{what} holds values such as {_shown(odd)} ({type(odd).__name__}), which are no "
            "labels. Make them text or whole numbers."
        ) from error
    return codes.astype(np.intp, copy=False), met


def plain_label(value: Any) -> Any:
    """Return the label of a category as text, a whole number, a float or a truth value."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    return str(value)


def unmet_categories(column: str, new: list[Any], known: list[Any]) -> str:
    """Say that a column has categories that the fit did not meet."""
    return (
        f"The column {column!r} has {listed_labels(new)}, not met when the model was fitted (it "
        f"met {listed_labels(known)}). There is no coefficient for it: leave those rows out, or "
        "fit again with rows that have it."
    )


def listed_labels(labels: list[Any], most: int = 8) -> str:
    """Return labels as text, the first of them where there are many."""
    shown = ", ".join(repr(plain_label(one)) for one in labels[:most])
    return shown + (f" and {len(labels) - most} more" if len(labels) > most else "")


def _is_object(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind == "O"


def _is_number(values: pd.Series[Any]) -> bool:
    dtype = values.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "iufb":
        return True
    if _is_object(dtype):
        return all(issubclass(one, _NUMBERS) for one in _types(values))
    if isinstance(dtype, pd.CategoricalDtype) or pd.api.types.is_complex_dtype(dtype):
        return False
    return bool(pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_bool_dtype(dtype))


def is_text(values: pd.Series[Any]) -> bool:
    """Say whether a column holds text."""
    if _is_object(values.dtype):
        return all(issubclass(one, str) for one in _types(values))
    return isinstance(values.dtype, pd.StringDtype) or _is_arrow_text(values.dtype)


def _is_arrow_text(dtype: Any) -> bool:
    if not isinstance(dtype, pd.ArrowDtype):
        return False
    import pyarrow.types as kinds

    held = dtype.pyarrow_dtype
    held = held.value_type if kinds.is_dictionary(held) else held
    return kinds.is_string(held) or kinds.is_large_string(held)


def _types(values: pd.Series[Any]) -> set[type]:
    """Return the types of the values that are not missing."""
    return set(map(type, values[values.notna()]))


def _labels(values: pd.Series[Any], name: str) -> Any:
    """Return labels of categories: text, or a categorical of those that occur, in their order."""
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        met = values.array.remove_unused_categories()
        labels = [plain_label(label) for label in met.categories]
        if len(set(labels)) < len(labels):
            raise DataError(
                f"The column {name!r} has two categories that both read "
                f"{next(one for one in labels if labels.count(one) > 1)!r}. Rename one."
            )
        return met.rename_categories(labels)
    if dtype == "str":
        return values.array
    if is_text(values):
        return values.to_numpy(dtype=object)
    _refuse_odd_labels(values, name)
    if isinstance(dtype, np.dtype) and dtype.kind in "iu":
        return values.array
    distinct = {value: plain_label(value) for value in values.drop_duplicates()}
    return np.array([distinct[value] for value in values], dtype=object)


def _refuse_odd_labels(values: pd.Series[Any], name: str) -> None:
    """Refuse labels that cannot be told apart or written down: lists, bytes, complex numbers."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return
    if _is_object(values.dtype):
        odd = {one for one in _types(values) if one.__hash__ is None or one in (bytes, complex)}
        if odd:
            raise DataError(f"The column {name!r} {_what_is_odd(values)}")
    elif pd.api.types.is_complex_dtype(values.dtype):
        raise DataError(f"The column {name!r} {_what_is_odd(values)}")


def _what_is_odd(values: pd.Series[Any]) -> str:
    """Say what a column holds that is not a number, and what to do."""
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        labels = [plain_label(one) for one in dtype.categories[:1]]
        shown = f" such as {labels[0]!r}" if labels else ""
        return f"holds categories{shown}. Convert it to numbers first."
    present = values[values.notna()]
    example = present.iloc[0] if len(present) else None
    kinds = _types(values) if _is_object(dtype) else set()
    numbers = {one for one in kinds if issubclass(one, _NUMBERS)}
    if numbers and any(issubclass(one, str) for one in kinds):
        stray = next(value for value in present if isinstance(value, str))
        return (
            f"holds numbers and text such as {stray!r}. Make it one of the two (in pandas: "
            "pd.to_numeric, or astype(str))."
        )
    if kinds - numbers:
        example = next(value for value in present if not isinstance(value, _NUMBERS))
    shown = _shown(example.item() if isinstance(example, np.generic) else example)
    if isinstance(example, str):
        return f"holds text such as {_stray_text(present)}. Convert it to numbers first."
    if pd.api.types.is_complex_dtype(dtype) or isinstance(example, complex):
        return f"holds complex numbers such as {shown}. Give their real part, or their size."
    if pd.api.types.is_datetime64_any_dtype(dtype) or hasattr(example, "year"):
        return (
            f"holds dates such as {shown}. Make them numbers (such as years, or days since a "
            "date), or text to use them as categories."
        )
    if pd.api.types.is_timedelta64_dtype(dtype) or hasattr(example, "total_seconds"):
        return f"holds durations such as {shown}. Make them numbers, such as hours."
    return (
        f"holds values such as {shown} ({type(example).__name__}), which are neither numbers nor "
        "text. Convert it first."
    )


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _stray_text(present: pd.Series[Any]) -> str:
    """Show a text and its row: the first that does not even look like a number, if there is one."""
    strays = pd.to_numeric(present.astype(object), errors="coerce").isna().to_numpy()
    place = int(strays.argmax())
    return f"{str(present.iloc[place])[:60]!r} (row {present.index[place]})"
