"""Tables of coefficients as text: one row per parameter, with its error and interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from selfselect.data.equations import SELECTION
from selfselect.inference.covariance import Covariance
from selfselect.inference.statistics import format_p_value
from selfselect.problem.parameters import COMMON, SCALE
from selfselect.report.numbers import format_number, stars_of
from selfselect.report.page import Block

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = [
    "DEVIATION",
    "coefficient_rows",
    "in_order",
    "shared_block",
    "table_header",
    "with_deviations",
]

DEVIATION = "std deviation"
"""Stands below the scale of noise that is not normal: the standard deviation of the noise."""


def table_header(covariance: Covariance, level: float) -> tuple[str, ...]:
    """Return the headings of a table of coefficients."""
    tail = 50.0 * (1.0 - level)
    letter = "z" if np.isinf(covariance.df) else "t"
    ends = f"[{tail:g}%", f"{100 - tail:g}%]"
    return ("", "coef", "std err", letter, f"P>|{letter}|", *ends)


def coefficient_rows(entries: object, *, stars: bool = False) -> tuple[tuple[str, ...], ...]:
    """Write rows of a tidy table as text."""
    rows = []
    for entry in entries:  # type: ignore[attr-defined]
        z = "" if np.isnan(entry.statistic) else f"{entry.statistic:.3f}"
        p = "" if np.isnan(entry.p_value) else format_p_value(entry.p_value)
        ends = (entry.conf_low, entry.conf_high)
        rows.append(
            (
                entry.term,
                format_number(entry.estimate) + (stars_of(entry.p_value) if stars else ""),
                format_number(entry.std_error),
                z,
                p,
                *(str(end) if np.isinf(end) else format_number(end) for end in ends),
            )
        )
    return tuple(rows)


def in_order(fit: FitResult, j: int, own: tuple[tuple[str, ...], ...]) -> tuple[Any, ...]:
    """Add to an alternative's own rows what it shares, and its offset, in the equation's order."""
    if not fit.problem.equations.restricted:
        return own
    equation = fit.problem.equations.each[j]
    values = fit.problem.layout.coefficients_of(fit.values)[j]
    left = {row[0]: row for row in own}
    rows = []
    for term, value in zip(equation.terms, values, strict=True):
        why = "(shared)" if term in equation.estimated else "(offset)"
        rows.append(left.pop(term, (term, format_number(float(value)), why, "", "", "", "")))
    return (*rows, *left.values())


def shared_block(
    fit: FitResult, table: pd.DataFrame, header: tuple[str, ...], *, stars: bool = False
) -> tuple[Block, ...]:
    """Return the block of parameters of several alternatives; none where there are none."""
    others = (*fit.problem.equations.alternatives, SELECTION)
    beside = [one not in others for one in table["alternative"]]
    if not any(beside):
        return ()
    across = table[beside].copy()
    named = across["alternative"] != COMMON
    across.loc[named, "term"] = across["term"] + " of " + across["alternative"].astype(str)
    title = "across alternatives" if named.any() else "all alternatives"
    return (
        Block(
            title,
            header,
            coefficient_rows(
                with_deviations(fit, list(across.itertuples(index=False))), stars=stars
            ),
        ),
    )


def with_deviations(fit: FitResult, table: list[Any]) -> list[Any]:
    """Return entries of a tidy table, each scale followed by the standard deviation it means.

    For normal noise they are the same.
    """
    noise, layout = fit.problem.noise, fit.problem.layout
    extras, entries = layout.extras_of(fit.values)[: layout.n_noise_extras], []
    shapes = noise.margins(extras, len(layout.sizes))
    for entry in table:
        entries.append(entry)
        if entry.term == SCALE:
            labels = fit.problem.equations.alternatives
            j = 0 if entry.alternative == COMMON else labels.index(entry.alternative)
            # With parameters of its own that are estimated, a shape would need more than a factor.
            known = noise.family is None
            if shapes[j].deviation != 1.0 and np.isfinite(shapes[j].deviation):
                numbers = ("estimate", "std_error", "conf_low", "conf_high")
                grown = {
                    name: shapes[j].deviation * getattr(entry, name)
                    if known or name == "estimate"
                    else np.nan
                    for name in numbers
                }
                entries.append(entry._replace(term=DEVIATION, **grown))
    return entries
