"""The terms of one side of a formula.

Sums of columns are read here. Everything else is read by formulaic, which is loaded where it is
needed: loading it takes longer than fitting and printing a few thousand rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from keyword import iskeyword
from typing import Any

__all__ = [
    "Factor",
    "Method",
    "SeveralPartsError",
    "Term",
    "from_formulaic",
    "parse_side",
    "sum_of_columns",
    "syntax_of",
]

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_SUM = re.compile(rf"\s*(?:([01])\s*\+\s*)?({_NAME}(?:\s*\+\s*{_NAME})*)(?:\s*([-+]\s*[01]))?\s*")

_CONSTANT = {None: True, "1": True, "0": False, "+1": True, "+0": False, "-1": False}
"""Whether a side has a constant, by the number that it begins or ends with."""


class SeveralPartsError(Exception):
    """A side has several lists of terms, by ``|`` or a tuple."""


class Method(Enum):
    """How a factor is had: a number, a column, or an expression; named as in formulaic."""

    LITERAL = "literal"
    LOOKUP = "lookup"
    PYTHON = "python"


@dataclass(frozen=True)
class Factor:
    """A factor of a term: its expression, and how that is evaluated."""

    expr: str
    method: Method

    def __str__(self) -> str:
        quoted = ":" in self.expr and self.method is Method.LOOKUP
        return f"`{self.expr}`" if quoted else self.expr


@dataclass(frozen=True)
class Term:
    """A product of factors."""

    factors: tuple[Factor, ...]

    def __str__(self) -> str:
        return ":".join(map(str, self.factors))


@lru_cache(maxsize=256)
def parse_side(side: str) -> tuple[Term, ...]:
    """Parse a side once: a fit meets the same one per alternative, and once more to code it.

    Raises
    ------
    ValueError
        If it does not parse.
    SeveralPartsError
        If it has several lists of terms.
    """
    plain = sum_of_columns(side)
    return _by_formulaic(side) if plain is None else plain


def sum_of_columns(side: str) -> tuple[Term, ...] | None:
    """Return the terms of columns that are added up, with or without a constant.

    None where a side is anything else, and must be read by formulaic.
    """
    found = _SUM.fullmatch(side)
    if found is None:
        return None
    first, listed, last = found.groups()
    names = [name.strip() for name in listed.split("+")]
    ending = None if last is None else last[0] + last[-1]
    if (first and last) or ending not in _CONSTANT or any(map(iskeyword, names)):
        return None
    constant = _CONSTANT[first] and _CONSTANT[ending]
    factors = [Factor("1", Method.LITERAL)] if constant else []
    factors += [Factor(name, Method.LOOKUP) for name in dict.fromkeys(names)]
    return tuple(Term((factor,)) for factor in factors)


def _by_formulaic(side: str) -> tuple[Term, ...]:
    from selfselect.data.grammar import Formula, FormulaicError, SimpleFormula

    try:
        parsed = Formula(side)
    except FormulaicError as error:
        raise ValueError(str(error)) from error
    if not isinstance(parsed, SimpleFormula):
        raise SeveralPartsError(side)
    return tuple(map(from_formulaic, parsed))


def from_formulaic(term: Any) -> Term:
    """Return a term of formulaic as one of ours."""
    return Term(tuple(Factor(one.expr, Method(one.eval_method.value)) for one in term.factors))


def syntax_of(side: str) -> Any:
    """Return the operators of a side as formulaic's tree, not expanded into terms.

    Raises
    ------
    ValueError
        If it does not parse.
    """
    from selfselect.data.grammar import DefaultFormulaParser, FormulaicError

    try:
        return DefaultFormulaParser().get_ast(side)
    except FormulaicError as error:
        raise ValueError(str(error)) from error
