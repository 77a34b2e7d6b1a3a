"""Checks of values, each with a sentence that says what is wrong and what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.columns import is_text, to_numbers
from selfselect.errors import DataError, OptionError

__all__ = [
    "check_any_weight",
    "check_availability",
    "check_chosen_available",
    "check_counts",
    "check_covariates",
    "check_enough_rows",
    "check_numbers",
    "check_outcome",
    "check_text_columns",
    "check_varies",
    "check_weight_total",
    "check_weights",
    "check_word",
    "first_rows",
    "refuse_unshown",
]

Array = NDArray[np.float64]
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
    counts: Sequence[int], sizes: Sequence[int], alternatives: Sequence[Any], chosen: str
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
                f"The alternative {label!r} is chosen in {count} row{'s' * (count > 1)} but has "
                f"{size} parameters. "
                "Give it fewer covariates, or leave the alternative and its rows out."
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
