"""Alternatives that nobody recorded: how many, what they are called, can they be told apart."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from selfselect.data.equations import Equations
from selfselect.data.formulas import ParsedFormula
from selfselect.errors import DataError, OptionError
from selfselect.rules.base import Label

__all__ = ["check_distinct", "unnamed_alternatives"]


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
            "It is not known who was seen: give chosen='column' where it was recorded, else "
            "alternatives=k, or a dict with a formula per alternative."
        )
    if isinstance(alternatives, bool) or not isinstance(alternatives, Integral):
        raise OptionError(
            f"alternatives must be a whole number, not {alternatives!r}. To name alternatives, "
            "give a dict with a formula for each."
        )
    if alternatives < 2:
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
    seen: dict[tuple[int, ...], Label] = {}
    for equation in equations.each:
        columns = tuple(sorted(equation.columns))
        if columns in seen:
            raise DataError(
                f"The alternatives {seen[columns]!r} and {equation.alternative!r} have the same "
                "covariates, so nothing says which is which. Give one of them a covariate of its "
                "own, or a single formula with alternatives=k for alternatives without names."
            )
        seen[columns] = equation.alternative
