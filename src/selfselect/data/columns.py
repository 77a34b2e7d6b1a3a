"""What a column is: a number, a category, or neither; and checks of values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.errors import DataError, OptionError

Array = NDArray[np.float64]


# The gate from a table's column to numbers: what is a number, what a category, what neither.
#
# Every column passes here, whether it comes from memory, a file or a loaded fit. Numbers become
# double precision before any arithmetic: whole numbers of eight bits overflow at 128, and the
# logarithm of one has half precision.


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


# Checks of values, each with a sentence that says what is wrong and what to do.


NOTHING_SELECTED = (
    "least squares is right where every outcome was recorded, a censored regression where some are "
    "only known to lie between limits"
)
"""What to do where all rows have one alternative."""
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


def first_rows(where: Mask, labels: pd.Index[Any] | None = None, most: int = 3) -> str:
    """Name the first few rows at which a check failed."""
    found = np.flatnonzero(where)[:most]
    named = [str(labels[i]) if labels is not None else str(i) for i in found]
    return f"row{'s' if len(named) > 1 else ''} {', '.join(named)}" + (
        ", ..." if where.sum() > most else ""
    )


def check_numbers(values: pd.Series[Any], what: str) -> Array:
    """Return finite numbers, or say which rows are missing, infinite or not numbers."""
    numbers = to_numbers(values, what)
    if _all_finite(numbers):
        return numbers
    missing = np.isnan(numbers)
    if missing.any():
        raise DataError(
            f"{what} has {missing.sum()} missing values ({first_rows(missing, values.index)}). "
            "Fill them in or leave those rows out."
        )
    infinite = np.isinf(numbers)
    if infinite.any():
        raise DataError(
            f"{what} has {infinite.sum()} infinite values ({first_rows(infinite, values.index)}). "
            "Correct them or leave those rows out."
        )
    return numbers


def _all_finite(values: Array) -> bool:
    """Say that all are finite, without a mask: a sum is only if all its parts are.

    A sum of huge values may overflow, so False says that it takes a closer look.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        return bool(np.isfinite(values.sum()))


def check_availability(values: pd.Series[Any], column: str) -> Mask:
    """Return availability as true or false."""
    numbers = check_numbers(values, f"The availability column {column!r}")
    odd = (numbers != 0) & (numbers != 1)
    if odd.any():
        raise DataError(
            f"The availability column {column!r} must be true or false (1 or 0), but "
            f"{first_rows(odd, values.index)} hold {numbers[odd][0]:g}."
        )
    return np.equal(numbers, 1.0)


def check_outcome(outcome: Array, name: str) -> None:
    """Refuse an outcome that is infinite; it is not a number where it was not recorded."""
    if _all_finite(outcome):
        return
    infinite = np.isinf(outcome)
    if infinite.any():
        raise DataError(
            f"The outcome {name!r} is infinite or not a number in {infinite.sum()} rows "
            f"({first_rows(infinite)}). Correct them or leave those rows out."
        )


def check_varies(lowest: float, highest: float, name: str) -> None:
    """Refuse an outcome that does not vary."""
    if lowest == highest:
        raise DataError(
            f"The outcome {name!r} is {lowest:g} in every row: it does not vary, so there is "
            "nothing to explain."
        )


def check_covariates(covariates: Array, names: Sequence[str]) -> None:
    """Refuse covariates that are infinite or not a number."""
    if _all_finite(covariates):
        return
    for position, name in enumerate(names):
        bad = ~np.isfinite(covariates[:, position])
        if bad.any():
            raise DataError(
                f"The covariate {name!r} is infinite or not a number in {bad.sum()} rows "
                f"({first_rows(bad)}). Correct them, leave them out, or use another transform."
            )


MOST_MEAN_WEIGHT = 5.0
"""Mean weight above which weights of no stated kind are hardly numbers of identical rows."""

WHICH_WEIGHTS = (
    "Say what they mean: weights_kind='probability' for weights that correct for unequal sampling, "
    "of which only ratios matter; weights_kind='frequency' for numbers of identical rows."
)


def check_weights(weights: Array, name: str, kind: str | None = None) -> None:
    """Refuse weights that are negative, and numbers of rows that are not whole."""
    if (weights < 0).any():
        raise DataError(
            f"The weights {name!r} are negative in {first_rows(weights < 0)}. Weights say how "
            "much a row counts: make them zero or positive."
        )
    broken = weights != np.round(weights)
    if kind == "frequency" and broken.any():
        raise DataError(
            f"Frequency weights are numbers of identical rows, but {name!r} is "
            f"{weights[broken][0]:g} in {first_rows(broken)}. Weights that correct for unequal "
            "sampling are weights_kind='probability'."
        )
    if kind is None and broken.any():
        raise DataError(
            f"The weights {name!r} are not whole numbers ({weights[broken][0]:g} in "
            f"{first_rows(broken)}), so they do not count rows. {WHICH_WEIGHTS}"
        )


def check_weight_total(total: float, n_rows: int, name: str, kind: str | None) -> None:
    """Refuse weights that stand for many more rows than there are, unless that is what is said."""
    if kind is None and total > MOST_MEAN_WEIGHT * n_rows:
        raise DataError(
            f"The weights {name!r} add up to {total:g}, {total / n_rows:.3g} times the {n_rows} "
            f"rows: as numbers of rows they would make standard errors far too small if they are "
            f"survey weights. {WHICH_WEIGHTS}"
        )


def check_any_weight(n_weighted: int, name: str) -> None:
    """Refuse weights that are all zero."""
    if not n_weighted:
        raise DataError(f"The weights {name!r} are all zero, so no row counts. Use positive ones.")


def check_counts(
    counts: Sequence[int],
    sizes: Sequence[int],
    alternatives: Sequence[Any],
    chosen: str,
    which: str = "",
) -> None:
    """Refuse alternatives chosen never, or less often than they have parameters."""
    for count, size, label in zip(counts, sizes, alternatives, strict=True):
        if count == 0 and size > 0:
            raise DataError(
                f"The alternative {label!r} never occurs in {chosen!r}, so nothing can be learnt "
                "about it. Leave it out of the model."
            )
        if count < size:
            raise DataError(
                f"The alternative {label!r} is chosen in {count} row{'s' * (count > 1)}{which} "
                f"but has {size} parameters. Give it fewer covariates, or leave the "
                "alternative and its rows out."
            )


def check_enough_rows(n_rows: int, n_coefficients: int, n_alternatives: int) -> None:
    """Refuse models with as many coefficients as rows that count, or more."""
    if n_rows <= n_coefficients:
        raise DataError(
            f"{n_alternatives} alternatives have {n_coefficients} coefficients, but there are only "
            f"{n_rows} rows: too few to tell them apart. Take fewer alternatives or covariates."
        )


def check_chosen_available(chosen: Indices, available: Mask, alternatives: Sequence[Any]) -> None:
    """Refuse rows whose recorded alternative is marked as not available to them."""
    open_to = np.take_along_axis(available, np.maximum(chosen, 0)[:, None], axis=1)[:, 0]
    contradicted = (chosen >= 0) & ~open_to
    if contradicted.any():
        label = alternatives[int(chosen[np.flatnonzero(contradicted)[0]])]
        raise DataError(
            f"{contradicted.sum()} rows chose an alternative marked as not available to "
            f"them ({first_rows(contradicted)}, chosen: {label!r}). Correct `available` or the "
            "rows."
        )


DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")


def check_text_columns(frame: pd.DataFrame, columns: Sequence[str]) -> None:
    """Refuse a text column that looks like numbers with a few stray words among them."""
    for name in columns:
        values = frame[name]
        if not is_text(values):
            continue
        levels = pd.unique(values.dropna())
        if len(levels) <= 20:
            continue
        numeric = pd.to_numeric(pd.Series(levels), errors="coerce")
        stray = numeric.isna().to_numpy()
        commas = [str(one) for one in levels if DECIMAL_COMMA.fullmatch(str(one))]
        if len(commas) > 0.5 * len(levels):
            raise DataError(
                f"The column {name!r} holds text such as {commas[0]!r}: numbers with decimal "
                "commas. Read the file with pandas.read_csv(path, decimal=','), and sep=';' where "
                "semicolons separate its columns."
            )
        if 0 < stray.sum() < 0.2 * len(levels) or not stray.any():
            example = levels[stray][0] if stray.any() else levels[0]
            raise DataError(
                f"The column {name!r} holds text such as {str(example)!r}, although most of its "
                f"{len(levels)} values look like numbers. Correct the others, make them missing "
                f"(in pandas: pd.to_numeric(data[{name!r}], errors='coerce')), or mark the column "
                "as a category if it is one."
            )


def check_word(option: str, value: Any, words: tuple[str, ...]) -> None:
    """Refuse a value of an option that is not among its words."""
    if value not in words:
        raise OptionError(
            f"{option}={value!r} is not possible. Use {' or '.join(map(repr, words))}."
        )


def refuse_unshown(label: Any, names: Sequence[str]) -> None:
    """Refuse terms that depend on each other where a category of theirs may not be shown."""
    if not any("[" in name for name in names):
        return
    said = f"{', '.join(map(repr, names[:4]))}{', ...' if len(names) > 4 else ''}"
    raise DataError(
        f"In the rows that show the outcome of {label!r}, {said} cannot be told apart from the "
        "other terms: some category, combination of categories or part of a spline has no row "
        "there, and nothing tells what such rows would have. Join categories, give a spline fewer "
        "degrees of freedom, leave out the rows that others alone have (where the column means "
        "nothing, set it missing), or leave the column out. In switching, shared= takes the "
        "coefficient from the other alternatives."
    )
