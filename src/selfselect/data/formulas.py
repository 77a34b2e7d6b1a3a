"""Formulas, cut into sides, and the labels and order of alternatives."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.columns import factorize
from selfselect.data.equations import (
    INTERCEPT,
    Equations,
    Method,
    SeveralPartsError,
    Term,
    parse_side,
)
from selfselect.data.formula_code import (
    columns_in,
    expression_tree,
    functions_in,
    refuse_code,
    refuse_expansion,
)
from selfselect.errors import DataError, FormulaError, OptionError
from selfselect.rules.base import Label, by_alternative

# Formulas as text: cut into sides, and refused with the reason where they cannot be read.


LONGEST = 100_000
"""Characters of a formula beyond which it is taken for a mistake."""

_NEEDS_BACKTICKS = re.compile(r"""\w +\w|[^\w\s+\-*/:~|()\[\]{}.,=<>^'"]""")
"""A name with a space, or a sign that no formula uses."""

_ALL_COLUMNS = re.compile(r"(?:^|[\s+(-])\.(?:$|[\s+)-])")
"""R's dot, which stands for all other columns."""


@dataclass(frozen=True)
class ParsedFormula:
    """A formula cut into its two sides, both as text.

    Attributes
    ----------
    text : as the user wrote it.
    outcome : the left side.
    terms : the right side.
    outcome_columns, term_columns : the data columns each side needs.
    """

    text: str
    outcome: str
    terms: str
    outcome_columns: tuple[str, ...]
    term_columns: tuple[str, ...]


def parse_formula(text: Any) -> ParsedFormula:
    """Parse ``outcome ~ terms`` and refuse anything else, and any code that is not arithmetic."""
    if not isinstance(text, str):
        raise FormulaError(
            f"A formula is text such as 'income ~ height + weight', not {type(text).__name__}."
        )
    if len(text) > LONGEST:
        raise FormulaError(
            f"The formula has {len(text):,} characters; at most {LONGEST:,} are read. Give fewer "
            "covariates, or put them into an array and use SelfSelectionRegressor."
        )
    if text.count("~") != 1:
        raise FormulaError(
            f"The formula {text!r} needs exactly one '~' between the outcome and the covariates, "
            "as in 'income ~ height + weight'."
        )
    if "``" in text:
        raise FormulaError(f"The formula {text!r} has an empty column name, ``. Name the column.")
    left, right = (side.strip() for side in text.split("~"))
    if not left or not right:
        side = "outcome before" if not left else "covariates after"
        raise FormulaError(f"The formula {text!r} has no {side} the '~'.")
    if re.match(r"[-+(.\d]", left):
        raise FormulaError(_arithmetic(left, text))
    outcome, terms = _parse_side(left + " - 1", text), _parse_side(right, text)
    if len(outcome) != 1:
        raise FormulaError(
            f"The formula {text!r} has {len(outcome)} outcomes on its left side. Give one, or "
            f"write I({left}) for the value of the expression."
        )
    read = "".join(str(factor.expr) for factor in outcome[0].factors)
    if _without_marks(read) != _without_marks(left) and not _same_code(read, left):
        raise FormulaError(_arithmetic(left, text))
    recorded, needed = columns_in(outcome), columns_in(terms)
    for name in re.findall(r"`([^`]+)`", text):
        if name not in recorded | needed:
            raise FormulaError(
                f"The column {name!r} reads as a number in the formula {text!r}. Rename it."
            )
    if INTERCEPT in needed:
        raise FormulaError(
            f"A covariate cannot be named {INTERCEPT!r}: that is the constant, which formulas have "
            "unless they end in '- 1'. Rename the column."
        )
    return ParsedFormula(text, left, right, tuple(sorted(recorded)), tuple(sorted(needed)))


def parse_formulas(formula: str | Mapping[Any, str]) -> ParsedFormula | dict[Any, ParsedFormula]:
    """Parse a formula, or one per alternative."""
    if not isinstance(formula, Mapping):
        return parse_formula(formula)
    if len(formula) < 2:
        raise FormulaError(
            "A dict of formulas needs at least two alternatives; "
            f"{len(formula)} given. With one alternative nothing is selected."
        )
    parsed = {label: parse_formula(text) for label, text in formula.items()}
    outcomes = {one.outcome for one in parsed.values()}
    if len(outcomes) > 1:
        raise FormulaError(
            f"The formulas have different outcomes ({', '.join(sorted(outcomes))}). There is one "
            "recorded outcome: give the same left side for every alternative."
        )
    return parsed


def column_alone(formula: ParsedFormula) -> str:
    """Return the left side; the name without its backticks where it is a column and no more."""
    name = formula.outcome.removeprefix("`").removesuffix("`")
    return name if formula.outcome_columns == (name,) else formula.outcome


def refuse_decided_covariates(
    formulas: Iterable[ParsedFormula],
    offsets: Iterable[str] = (),
    chosen: str | None = None,
    costs: Iterable[str] = (),
) -> None:
    """Refuse right sides, offsets and known costs that hold the outcome, or what it decides.

    A ratio may be explained by a part of it, as wages per hour by hours: only a term with all
    columns of the left side is a function of the outcome.
    """
    formulas = tuple(formulas)
    left = formulas[0]
    sides = [(one.terms, term) for one in formulas for term in parse_side(one.terms)]
    used = [(text, columns_in([term])) for text, term in sides]
    used += [(column, {column}) for column in offsets]
    refuse_decided_costs(costs, left.outcome_columns, chosen)
    for text, columns in used:
        if chosen in columns:
            raise FormulaError(
                f"The covariates {text!r} hold the choice {chosen!r}, which the outcomes decide. "
                "Leave it out: every alternative has coefficients of its own."
            )
        if left.outcome_columns and columns >= set(left.outcome_columns):
            raise FormulaError(
                f"The covariates {text!r} hold the outcome {left.outcome!r} itself, or what is "
                "computed from it. Leave that out: an outcome does not explain itself."
            )


def refuse_decided_costs(
    columns: Iterable[str], outcome: Iterable[str], chosen: str | None
) -> None:
    """Refuse known costs in the column of the outcome, or of the choice."""
    for column in columns:
        if column == chosen or {column} == set(outcome):
            what = "choice" if column == chosen else "outcome"
            raise FormulaError(
                f"A cost is in the column {column!r}, which holds the {what}. Costs are known "
                "before the choice, and outcomes are compared net of them: give a column of what "
                "an alternative costs, or a number."
            )


def _arithmetic(left: str, text: str) -> str:
    return (
        f"The left side {left!r} of the formula {text!r} has arithmetic, which formulas read as a "
        f"choice of terms. Write I({left.replace('^', '**')}) for its value."
    )


def _without_marks(text: str) -> str:
    return re.sub(r"[\s`]", "", text)


def _same_code(one: str, other: str) -> bool:
    """Say whether two expressions differ only in how they are written, as .5 and 0.5 do."""
    try:
        first, second = (ast.dump(ast.parse(text, mode="eval")) for text in (one, other))
    except SyntaxError:
        return False
    return first == second


def _parse_side(side: str, text: str) -> tuple[Term, ...]:
    if _ALL_COLUMNS.search(side):
        raise FormulaError(
            f"The formula {text!r} uses '.' for all other columns, which is not possible. Name "
            "the covariates."
        )
    try:
        refuse_expansion(side, text)
        parsed = parse_side(side)
    except FormulaError:
        raise
    except SeveralPartsError as error:
        raise FormulaError(
            f"The formula {text!r} has several parts (by '|' or a tuple). Give one list of "
            "covariates; for different covariates per alternative give a dict of formulas."
        ) from error
    except (SyntaxError, ValueError, TypeError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "syntax error"
        if isinstance(error, SyntaxError):
            # Python's own error names a file, and guesses at what may be missing.
            reason = (error.msg or reason).split(". Perhaps")[0]
        hint = " Names with spaces or signs go in backticks: `monthly pay`."
        if "`" in text or not _NEEDS_BACKTICKS.search(text):
            hint = ""
        raise FormulaError(
            f"The formula {text!r} does not parse: {reason.rstrip('.')}.{hint}"
        ) from error
    except (RecursionError, MemoryError) as error:
        raise FormulaError("The formula is nested too deeply to be read. Simplify it.") from error
    for term in parsed:
        for factor in term.factors:
            if factor.method is Method.PYTHON:
                refuse_code(factor.expr, text)
    _refuse_functions_as_columns(parsed, text)
    return parsed


def _refuse_functions_as_columns(terms: tuple[Term, ...], text: str) -> None:
    """Refuse a column that has the name of a function of the same side: there is one of a name."""
    code = [one.expr for term in terms for one in term.factors if one.method is Method.PYTHON]
    trees = [expression_tree(one)[0] for one in code]
    for name in sorted(columns_in(terms) & {one for tree in trees for one in functions_in(tree)}):
        raise FormulaError(
            f"The formula {text!r} uses {name} both as a column and as a function. Rename the "
            "column."
        )


# Alternatives: their labels, order and formulas, recorded in a column or not at all.


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
