"""Costs of alternatives: known ones, and those to be estimated from a formula."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from selfselect.data.equations import INTERCEPT
from selfselect.data.formulas import ParsedFormula, parse_formula
from selfselect.data.terms import parse_side
from selfselect.errors import DataError, OptionError
from selfselect.rules.base import Label

__all__ = ["check_costs", "parse_cost", "split_costs"]


def split_costs(cost: Any) -> tuple[Any, dict[Any, str]]:
    """Return known costs (numbers, columns) and formulas of those to be estimated."""
    if not isinstance(cost, Mapping):
        return cost, {}
    estimated = {
        label: entry.strip()
        for label, entry in cost.items()
        if isinstance(entry, str) and "~" in entry
    }
    known = {label: entry for label, entry in cost.items() if label not in estimated}
    return known or None, estimated


def parse_cost(text: str, outcome: str) -> ParsedFormula:
    """Parse a cost such as ``~ tuition``."""
    if not text.startswith("~"):
        raise OptionError(
            f"The cost {text!r} must begin with '~', as in '~ tuition': a cost is not recorded, so "
            "nothing stands on the left."
        )
    parsed = parse_formula(f"{outcome} {text}")
    if not parse_side(parsed.terms):
        raise OptionError(
            f"The cost {text!r} has no term to estimate. Name a covariate, write '~ 1' for a "
            "constant, or leave the cost out."
        )
    return parsed


def check_costs(terms: Mapping[Label, Sequence[str]], alternatives: Sequence[Label]) -> None:
    """Refuse costs that cannot be told apart: choices depend on differences of costs alone."""
    if len(terms) < len(alternatives):
        return
    everywhere = set.intersection(*(set(names) for names in terms.values()))
    if everywhere:
        name = INTERCEPT if INTERCEPT in everywhere else min(everywhere)
        raise DataError(
            f"The costs of all alternatives depend on {name!r}. Only differences of costs matter "
            "for a choice, so not all of these coefficients can be found. Leave the term out of "
            "one alternative's cost (write '- 1' for no constant)."
        )
