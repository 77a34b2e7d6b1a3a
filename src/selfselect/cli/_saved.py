"""Saved fits in the shell, and the rows they are asked about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from selfselect.cli._streams import STANDARD, refuse_twice
from selfselect.cli._terminal import say

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["in_order", "read_saved", "with_rows"]


def in_order(fit: str, data: str) -> tuple[str, str]:
    """Return the names of a saved fit and of a table; a notice says so where they are swapped."""
    if data.lower().endswith(".json") and not fit.lower().endswith(".json") and fit != STANDARD:
        say("notice: in all commands the saved FIT comes first, then DATA.")
        return data, fit
    return fit, data


def read_saved(fit: str, data: str, *, encoding: str | None) -> tuple[FitResult, Any]:
    """Read a saved fit, and a table for it; one of them may be standard input."""
    from selfselect.cli._streams import read_fit
    from selfselect.cli._tables import labels_of, read_table

    refuse_twice(fit, data)
    result = read_fit(fit)
    return result, read_table(data, encoding=encoding, labels=labels_of(result))


def with_rows(fit: FitResult, table: Any) -> FitResult:
    """Return a saved fit with rows of a table, outcome and choice included, in place of its own."""
    import numpy as np

    from selfselect.data.alternatives import code_chosen
    from selfselect.data.checks import check_numbers
    from selfselect.data.tables import to_frame
    from selfselect.engines import Memory
    from selfselect.errors import UnsupportedError

    facts, problem = fit.facts, fit.problem
    if problem.equations.selection is not None or facts.case is not None or facts.panel is not None:
        raise UnsupportedError(
            "This needs rows with their outcome, and those of a saved fit with a selection "
            "equation, of long data or of a panel are not read. Fit in Python instead."
        )
    coded = fit.coding.code(table, with_known=True, with_outcome=True)
    extra = [name for name in (facts.chosen, facts.weights) if name is not None]
    frame = to_frame(table, extra).loc[np.asarray(coded.complete)]
    rows = coded.rows
    if facts.chosen is not None:
        labels = problem.equations.alternatives
        rows = replace(rows, chosen=code_chosen(frame[facts.chosen], facts.chosen, labels))
    if facts.weights is not None:
        weights = check_numbers(frame[facts.weights], f"The column of weights {facts.weights!r}")
        rows = replace(rows, weights=weights)
    names = list(dict.fromkeys(getattr(fit.coding, "columns", ())))
    raw = to_frame(table, [*names, *fit.coding.known.columns]).loc[np.asarray(coded.complete)]
    return replace(fit, engine=Memory().load(problem, rows), row_labels=raw.index, table=raw)
