"""Scales that move with covariates: the right sides of log scales, one for all or one each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from selfselect.data.formulas import ParsedFormula, parse_formula
from selfselect.data.terms import parse_side
from selfselect.errors import OptionError
from selfselect.rules._labels import by_alternative
from selfselect.rules.base import Label

__all__ = ["Spreads", "parse_spreads", "spreads_by_alternative"]

Spreads = ParsedFormula | dict[Any, ParsedFormula] | None
"""The parsed log scales of a plan: one for all alternatives, one each, or none."""


def parse_spreads(scale: str | Mapping[Any, str] | None, outcome: ParsedFormula) -> Spreads:
    """Parse scales such as ``~ age``; `outcome` is a formula of the same fit."""
    if scale is None:
        return None
    if isinstance(scale, Mapping):
        return {label: _parse(text, outcome) for label, text in scale.items()}
    return _parse(scale, outcome)


def _parse(text: str, outcome: ParsedFormula) -> ParsedFormula:
    parsed = parse_formula(f"{outcome.outcome} {text.strip()}")
    recorded = sorted({*outcome.outcome_columns} & {*parsed.term_columns})
    if recorded:
        raise OptionError(
            f"The scale {text!r} depends on the outcome {recorded[0]!r}. The noise of an outcome "
            "cannot be scaled by the outcome itself: name covariates, or take its logarithm."
        )
    if not any(str(term) == "1" for term in parse_side(parsed.terms)):
        raise OptionError(
            f"The scale {text!r} has no constant, so its size would be fixed at 1 where all its "
            "terms are zero. Leave '- 1' or '0 +' out: the constant is the logarithm of the scale."
        )
    return parsed


def spreads_by_alternative(
    spreads: Spreads, alternatives: Sequence[Label]
) -> dict[Label, ParsedFormula]:
    """Return the log scale of every alternative; nothing where scales do not move."""
    if spreads is None:
        return {}
    if not isinstance(spreads, dict):
        return dict.fromkeys(alternatives, spreads)
    given = by_alternative(spreads, alternatives, what="scale")
    left_out = [label for label in alternatives if label not in given]
    if left_out:
        raise OptionError(
            f"No scale is given for {', '.join(map(str, left_out))}. Give one for every "
            "alternative: '~ 1' is one that does not move."
        )
    return {label: given[label] for label in alternatives}
