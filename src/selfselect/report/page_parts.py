"""What pages are made of: tables of coefficients, equations side by side, notes at the foot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from selfselect.data.design import DataFacts
from selfselect.data.equations import SELECTION
from selfselect.inference.covariance import Covariance
from selfselect.inference.statistics import FLAG_LEVEL, format_p_value
from selfselect.noises.base import COMMON
from selfselect.noises.correlated import CORRELATION
from selfselect.noises.selection import MILLS
from selfselect.problem.parameters import SCALE
from selfselect.report.page import STARS, Block, Page, format_number, stars_of
from selfselect.results.rejections import tests_of_noise

if TYPE_CHECKING:
    from selfselect.results.estimates import Estimates
    from selfselect.results.fit_result import FitResult


# Tables of coefficients as text: one row per parameter, with its error and interval.


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


# Equations side by side: one column each, as papers print regressions.


ACROSS = "across"

LAST = (MILLS, "correction", SCALE, CORRELATION)
"""How terms that are no covariates begin: they stand below all of those."""


def side_by_side(fit: Estimates, *, stars: bool = False) -> Page:
    """Compose a page with one column per equation, standard errors below the estimates.

    Parameters
    ----------
    stars : whether estimates carry stars for p-values below 0.05, 0.01 and 0.001.
    """
    table, equations = fit.tidy(), fit.equation_labels
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


# Sentences at the foot of a summary: on standard errors, intervals, stars and tests.


FEWEST_MEASURED = 8
"""Clusters of the smallest design in which coverage was measured."""

DOMINATED = 10
"""Effective clusters below which unequal sizes were measured to cost coverage."""

PSEUDO_LIKELIHOOD = (
    "Probability weights are scaled to average 1: the log-likelihood, AIC and BIC are those of a "
    "pseudo-likelihood: use them for description, not for tests."
)


def errors_in_words(covariance: Covariance) -> str:
    """Say how standard errors were made, or that there are none."""
    return covariance.description if np.isfinite(covariance.matrix).any() else "none"


def notes_on_errors(covariance: Covariance, *, measured: bool = True) -> list[str]:
    """Say what a reader should know of standard errors and intervals.

    `measured` says whether coverage with few clusters is known for models of this kind.
    """
    notes = []
    if covariance.few_clusters:
        notes.append(_few_clusters(covariance, measured))
    if covariance.sandwich:
        notes.append(
            "Robust standard errors allow for a misspecified variance; they do not repair "
            "estimates that misspecification makes inconsistent."
        )
    return notes


def _few_clusters(covariance: Covariance, measured: bool) -> str:
    corrected = covariance.kind != "bootstrap"
    how = "standard errors are corrected for their small number, and " if corrected else ""
    effective = covariance.df + 1
    degrees = "1 degree" if covariance.df == 1 else f"{covariance.df:.4g} degrees"
    said = (
        f"Few clusters ({covariance.clusters_in_words}): {how}intervals and p-values are those of "
        f"Student's t with {degrees} of freedom."
    )
    if not measured or round(effective) < FEWEST_MEASURED:
        where = f"with fewer than {FEWEST_MEASURED} clusters" if measured else "in such models"
        said += f" The coverage of these intervals {where} was not measured."
    else:
        said += (
            " Intervals of coefficients then cover at about their level; those of scales cover "
            "less."
        )
        if corrected:
            said += " covariance='bootstrap' draws whole clusters and covers about as well."
    if covariance.unequal_clusters and effective < DOMINATED:
        said += (
            " Where a few clusters hold most of the rows, intervals cover less than their level: "
            "in simulations of selection models 83 to 93% at a level of 95%."
        )
    return said


def note_on_two_values(outcome: str, facts: DataFacts) -> str:
    """Say that an outcome has two values alone; the sentence goes on, or ends."""
    low, high = facts.outcome_range
    return (
        f"The outcome {outcome} has two values, {low:g} and {high:g}: this is a linear model of it"
    )


def profile_facts(intervals: str) -> tuple[tuple[str, str], ...]:
    """Say how intervals were made, where it is not by standard errors."""
    return () if intervals == "wald" else (("Intervals", "profile likelihood"),)


def profile_notes(fit: Any, level: float, intervals: str) -> tuple[str, ...]:
    """Say which ends of profile intervals are open or missing, and why."""
    if intervals == "wald":
        return ()
    reasons = fit.conf_int(level, method=intervals)["reason"]
    return tuple(
        f"The interval of {name}: {reason}."
        for name, reason in zip(fit.names, reasons, strict=True)
        if reason
    )


def notes_on_stars(stars: bool) -> tuple[str, ...]:
    """Say what stars mean, where there are any."""
    return (f"{STARS}.",) if stars else ()


def notes_on_tests(fit: FitResult) -> list[str]:
    """Say of dependence, shape and spread of the noise what a test says, or why there is none."""
    tests = (fit.independence_test(), *tests_of_noise(fit))
    notes = [f"{test}.".replace("..", ".") for test in tests]
    if any(test.possible for test in tests):
        notes.append(f"A test rejects where p is at most {1.0 - FLAG_LEVEL:.2g}.")
    return notes
