"""Formulas as text: cut into sides, and refused with the reason where they cannot be read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from selfselect.data.equations import INTERCEPT
from selfselect.data.formula_code import refuse_code, refuse_expansion
from selfselect.data.formula_columns import columns_in, expression_tree, functions_in
from selfselect.data.terms import Method, SeveralPartsError, Term, parse_side
from selfselect.errors import FormulaError

__all__ = [
    "ParsedFormula",
    "column_alone",
    "parse_formula",
    "parse_formulas",
    "refuse_decided_covariates",
]

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
    formulas: Iterable[ParsedFormula], offsets: Iterable[str] = (), chosen: str | None = None
) -> None:
    """Refuse right sides and offsets that hold the outcome, or the choice that outcomes decide.

    A ratio may be explained by a part of it, as wages per hour by hours: only a term with all
    columns of the left side is a function of the outcome.
    """
    formulas = tuple(formulas)
    left = formulas[0]
    sides = [(one.terms, term) for one in formulas for term in parse_side(one.terms)]
    used = [(text, columns_in([term])) for text, term in sides]
    used += [(column, {column}) for column in offsets]
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
