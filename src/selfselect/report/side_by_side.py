"""Equations side by side: one column each, as papers print regressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from selfselect.noises.correlated import CORRELATION
from selfselect.noises.selection import MILLS
from selfselect.problem.parameters import COMMON, SCALE
from selfselect.report.numbers import STARS, format_number, stars_of
from selfselect.report.page import Block, Page

if TYPE_CHECKING:
    from selfselect.results.estimates import Estimates

__all__ = ["side_by_side"]

ACROSS = "across"

LAST = (MILLS, "correction", SCALE, CORRELATION)
"""How terms that are no covariates begin: they stand below all of those."""


def side_by_side(fit: Estimates, equations: tuple[Any, ...], *, stars: bool = False) -> Page:
    """Compose a page with one column per equation, standard errors below the estimates.

    Parameters
    ----------
    fit : estimates.
    equations : labels of those that have a column; what belongs to none of them has one together.
    stars : whether estimates carry stars.
    """
    table = fit.tidy()
    entries: dict[str, dict[Any, tuple[str, str]]] = {}
    row: Any
    for row in table.itertuples(index=False):
        own = row.alternative in equations
        term = str(row.term)
        if not own and row.alternative != COMMON:
            term = f"{term} of {row.alternative}"
        shown = format_number(row.estimate)
        if stars:
            shown += stars_of(row.p_value).strip()
        error = format_number(row.std_error)
        column = row.alternative if own else ACROSS
        entries.setdefault(term, {})[column] = (shown, f"({error})" if error else "")
    columns = [
        label for label in (*equations, ACROSS) if any(label in each for each in entries.values())
    ]
    rows: list[tuple[str, ...]] = []
    for term in sorted(entries, key=lambda name: name.startswith(LAST)):
        each = entries[term]
        found = [each.get(label, ("", "")) for label in columns]
        rows.append((term, *(one for one, _ in found)))
        rows.append(("", *(error for _, error in found)))
    summary = fit.summary()
    facts = tuple(fact for fact in summary.facts if fact[0] in ("Rows", "Cases", "Log-likelihood"))
    letter = "z" if np.isinf(fit.covariance.df) else "t"
    notes = [f"Standard errors in parentheses ({fit.covariance.description})."]
    if stars:
        notes.append(f"{STARS}, two-sided {letter} tests.")
    block = Block("", ("", *map(str, columns)), tuple(rows))
    return Page(summary.title, summary.notices, facts, (block,), tuple(notes))
