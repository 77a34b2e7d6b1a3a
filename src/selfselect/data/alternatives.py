"""Alternatives: their labels, order and formulas, recorded in a column or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.columns import factorize
from selfselect.data.equations import Equations
from selfselect.data.formulas import ParsedFormula
from selfselect.errors import DataError, OptionError
from selfselect.rules._labels import by_alternative
from selfselect.rules.base import Label

__all__ = [
    "check_distinct",
    "code_chosen",
    "label_rows",
    "recorded_alternatives",
    "unnamed_alternatives",
]

Indices = NDArray[np.intp]

NO_LABEL = -2
"""Marks a value that is none of the alternatives."""

LABELS = (str, bool, int, float, Decimal, date, timedelta, pd.Period, pd.Interval)
"""What may name an alternative."""

FEW_LABELS = 20
"""Different labels up to which a column may be one of alternatives, however few rows there are."""

ROWS_EACH = 10
"""Rows by label below which a column of many labels is taken for something else."""

LONGEST_LIST = 4_096
"""Whole numbers between the first and the last label that are looked up in a list."""


def unnamed_alternatives(
    parsed: ParsedFormula | dict[Any, ParsedFormula], alternatives: Any
) -> tuple[tuple[Label, ...], tuple[ParsedFormula, ...]]:
    """Return labels and formulas: those of a dict, or 1 to k for one formula."""
    if isinstance(parsed, dict):
        if alternatives is not None and alternatives != len(parsed):
            raise OptionError(
                f"alternatives={alternatives!r} but {len(parsed)} formulas are given. Leave "
                "`alternatives` out: the formulas name them."
            )
        texts = [str(label) for label in parsed]
        for text in texts:
            if texts.count(text) > 1:
                raise OptionError(f"The alternative {text!r} is named twice. Give distinct names.")
        return tuple(parsed), tuple(parsed.values())
    if alternatives is None:
        raise OptionError(
            "Neither `chosen` nor `alternatives` is given. Pass chosen='column' if a column says "
            "which alternative was chosen; else alternatives=k, or a dict with a formula per "
            "alternative."
        )
    if isinstance(alternatives, bool) or not isinstance(alternatives, Integral):
        raise OptionError(
            f"alternatives must be a whole number, not {alternatives!r}. To name alternatives, "
            "give a dict with a formula for each."
        )
    if alternatives < 1:
        raise OptionError(f"alternatives={alternatives} is not possible. Give at least two.")
    if alternatives == 1:
        raise DataError(
            f"alternatives={alternatives}: with one alternative nothing is selected and the model "
            "is least squares. Give at least two."
        )
    labels = tuple(range(1, int(alternatives) + 1))
    return labels, (parsed,) * len(labels)


def check_distinct(equations: Equations, *, named: bool) -> None:
    """Refuse names for equations that nothing tells apart."""
    if not named:
        return
    met: dict[tuple[int, ...], Label] = {}
    for equation in equations.each:
        columns = tuple(sorted(equation.columns))
        if columns in met:
            raise DataError(
                f"The alternatives {met[columns]!r} and {equation.alternative!r} have the same "
                "covariates, so nothing distinguishes them. Give one of them a covariate of its "
                "own, or a single formula with alternatives=k for alternatives without names."
            )
        met[columns] = equation.alternative


def recorded_alternatives(
    values: pd.Series[Any], chosen: str, parsed: ParsedFormula | dict[Any, ParsedFormula]
) -> tuple[tuple[Label, ...], Indices, tuple[ParsedFormula, ...]]:
    """Return the labels in order, the index of the chosen one in each row, and their formulas.

    The index is -1 where it was not recorded.
    """
    codes, found = label_rows(values)
    if not found:
        raise DataError(
            f"The column {chosen!r} is missing in every row: no choice was recorded. Leave "
            "`chosen` out; the fit then takes all that may be the chosen one into account."
        )
    if len(found) > FEW_LABELS and len(found) > len(values) / ROWS_EACH:
        raise DataError(
            f"The column {chosen!r} holds {len(found):,} different values in {len(values):,} rows, "
            f"such as {found[0]!r}: it is a measurement or an identifier, and no list of "
            "alternatives. Name the column that says which alternative was chosen; if none does, "
            "leave `chosen` out and give alternatives=k."
        )
    texts = [str(label) for label in found]
    for text in texts:
        if texts.count(text) > 1:
            raise DataError(
                f"The column {chosen!r} has two different labels that both read {text!r} (one may "
                "be a number and one text). Make the labels distinct."
            )
    if isinstance(parsed, dict):
        by_label = by_alternative(parsed, [*found, *_never_seen(parsed, found)], what="formula")
        left_out = [label for label in found if label not in by_label]
        if left_out:
            raise DataError(
                f"The column {chosen!r} holds {', '.join(map(repr, left_out))}, for which no "
                "formula is given. Add a formula, or leave those rows out if they are not part "
                "of the choice."
            )
    else:
        by_label = dict.fromkeys(_in_order(found, values), parsed)
    labels = tuple(by_label)
    return labels, _recode(codes, [labels.index(label) for label in found]), (*by_label.values(),)


def _in_order(found: list[Any], values: pd.Series[Any]) -> list[Any]:
    """Return labels in the order of their categories, else sorted."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        known = [_plain_label(one) for one in values.dtype.categories]
        if set(found) <= set(known):
            return sorted(found, key=known.index)
    alike = len({type(label) for label in found}) == 1
    return sorted(found, key=None if alike else str)


def code_chosen(values: pd.Series[Any], chosen: str, labels: tuple[Label, ...]) -> Indices:
    """Return the index of the chosen one in each row, -1 where it was not recorded."""
    known = _look_up(values, labels)
    if known is not None:
        return known
    codes, found = label_rows(values)
    for label in found:
        if label not in labels:
            raise DataError(
                f"The column {chosen!r} holds {label!r}, which is none of the alternatives "
                f"({', '.join(map(repr, labels))})."
            )
    return _recode(codes, [labels.index(label) for label in found])


def _look_up(values: pd.Series[Any], labels: tuple[Label, ...]) -> Indices | None:
    """Look every row up in a short list; None where there is none, or it lacks a value."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        keys: NDArray[Any] = values.cat.codes.to_numpy()
        met = values.cat.categories.tolist()
        places = [labels.index(label) if label in labels else NO_LABEL for label in met]
        # Rows without a label have the code -1, which picks the last entry.
        found: Indices = np.array([*places, -1], dtype=np.intp)[keys]
        return None if NO_LABEL in places and (found == NO_LABEL).any() else found
    whole = isinstance(values.dtype, np.dtype) and values.dtype.kind in "iu" and len(values)
    if not whole or not all(isinstance(label, int) for label in labels):
        return None
    numbers = values.to_numpy()
    low, high = min(labels), max(labels)
    if high - low > LONGEST_LIST or numbers.min() < low or numbers.max() > high:
        return None
    table = np.full(high - low + 1, NO_LABEL, dtype=np.intp)
    table[np.array(labels) - low] = np.arange(len(labels))
    found = table[numbers - low] if low else table[numbers]
    return None if (table == NO_LABEL).any() and (found == NO_LABEL).any() else found


def label_rows(values: pd.Series[Any]) -> tuple[Indices, list[Any]]:
    """Return each row's place among the labels met, -1 where it has none, and those labels."""
    codes, uniques = factorize(values, f"The column {values.name!r}")
    found: list[Any] = [_plain_label(value) for value in uniques]
    for label in found:
        if not isinstance(label, LABELS):
            raise DataError(
                f"The column {values.name!r} holds {str(label)[:40]!r} of the type "
                f"{type(label).__name__}, which names no alternative. Name alternatives by text or "
                "whole numbers."
            )
    if all(isinstance(label, float) and label.is_integer() for label in found):
        # Whole numbers are read as floats where another row of the column was missing.
        found = [int(label) for label in found]
    return codes, found


def _recode(codes: Indices, places: list[int]) -> Indices:
    # Rows without a label have the code -1, which picks the last entry.
    return np.array([*places, -1], dtype=np.intp)[codes]


def _never_seen(parsed: dict[Any, ParsedFormula], found: Sequence[Any]) -> list[Any]:
    texts = {str(label) for label in found}
    return [label for label in parsed if str(label) not in texts]


def _plain_label(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
