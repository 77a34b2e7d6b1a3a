"""The answer at the head of a report: paragraphs in words, made by one function."""

from __future__ import annotations

import warnings
from itertools import combinations
from typing import TYPE_CHECKING, Any

from selfselect.errors import SelfSelectError, SelfSelectWarning
from selfselect.report.summary import format_number

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["MOST_ALTERNATIVES", "MOST_COMPARED", "answer", "pairs_compared"]

MOST_COMPARED = 4
"""Alternatives, those chosen most often, of which all pairs are compared."""

MOST_ALTERNATIVES = 12
"""Alternatives up to which effects have room on a page: their tables grow with the square."""


def answer(fit: FitResult, level: float) -> tuple[str, ...]:
    """Return the paragraphs of the answer: what each alternative gives instead of another.

    Empty where the fit has no rows, no two outcomes to compare, or too many.
    """
    if not fit.has_rows or fit.problem.equations.n_alternatives > MOST_ALTERNATIVES:
        return ()
    return tuple(said for a, b in pairs_compared(fit) if (said := _compared(fit, a, b, level)))


def pairs_compared(fit: FitResult) -> tuple[tuple[Any, Any], ...]:
    """Return all pairs of alternatives, of those chosen most often where there are many."""
    order = fit.shares.to_numpy().argsort(kind="stable")[::-1][:MOST_COMPARED]
    labels = fit.problem.equations.alternatives
    return tuple((labels[a], labels[b]) for a, b in combinations(order, 2))


def _compared(fit: FitResult, to: Any, versus: Any, level: float) -> str:
    """Say what `to` gives instead of `versus`, for whom, and how sure that is."""
    try:
        with warnings.catch_warnings():
            # Doubts stand beside the answer.
            warnings.simplefilter("ignore", SelfSelectWarning)
            table = fit.treatment_effects(to, versus, level=level).table
    except SelfSelectError:
        return ""
    parts = []
    groups = ("for everyone", f"for those who choose {to}", "for those who do not")
    numbers = table[["estimate", "conf_low", "conf_high"]].to_numpy(dtype=float)
    for who, row in zip(groups, numbers, strict=True):
        size, low, high = map(format_number, row)
        parts.append(f"{size} {who} ({100 * level:g}% interval {low} to {high})")
    outcome = fit.problem.equations.outcome
    return f"{to} instead of {versus} changes the mean of {outcome} by {'; '.join(parts)}."
