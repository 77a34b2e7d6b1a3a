"""The summary of a fit, and what pages are made of: heads, tables of coefficients, notes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from selfselect.data.design import DataFacts
from selfselect.inference.covariance import Covariance
from selfselect.inference.statistics import FLAG_LEVEL, TestResult, format_p_value
from selfselect.noises.base import COMMON
from selfselect.noises.correlated import CORRELATION
from selfselect.noises.selection import MILLS
from selfselect.options import Intervals
from selfselect.problem.parameters import SCALE
from selfselect.report.page import STARS, Block, Page, format_number, stars_of
from selfselect.results.estimates import sentences
from selfselect.results.tables import DIFFERENCE
from selfselect.threads import one_blas_thread

if TYPE_CHECKING:
    from selfselect.report.document import Section
    from selfselect.results.estimates import Estimates, Fitted

Entries = list[tuple[str, str]]
"""Names and values for the head of a page."""

Rows = tuple[tuple[str, ...], ...]


class TidyRow(NamedTuple):
    """A row of a tidy table."""

    alternative: Hashable
    term: str
    estimate: float
    std_error: float
    statistic: float
    p_value: float
    conf_low: float
    conf_high: float

    @classmethod
    def all_of(cls, table: pd.DataFrame) -> list[TidyRow]:
        """Return the rows of a table as they are named here."""
        return [cls(*row) for row in table.itertuples(index=False, name=None)]


# What the pages of a fit say that is particular to its model.


class Portrait(ABC):
    """What pages say of a fit that depends on its model; the rest is the same for all."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The headline of the summary."""

    @abstractmethod
    def entries(self) -> Entries:
        """Name what is assumed, and how it was estimated."""

    @abstractmethod
    def likelihood(self) -> Entries:
        """Say how well it fits."""

    @abstractmethod
    def titles(self) -> dict[Hashable, str]:
        """Return the headline of the block of each outcome, by its label."""

    @abstractmethod
    def choice_titles(self) -> dict[Hashable, str]:
        """Return the headlines of equations of the choice, by their labels."""

    def rows(self, label: Hashable, entries: list[TidyRow], *, stars: bool) -> Rows:
        """Write the parameters of an equation, or those of several, whose label is `COMMON`."""
        del label
        return coefficient_rows(entries, stars=stars)

    @abstractmethod
    def tests(self) -> Sequence[TestResult]:
        """Return the tests of what is assumed."""

    @abstractmethod
    def notes(self) -> list[str]:
        """Say what identifies the fit, and what else is particular to it."""

    def notes_on_least_squares(self) -> list[str]:
        """Say what least squares beside this fit is, where that is not plain."""
        return []

    @abstractmethod
    def answer(self, data: Any, level: float) -> tuple[list[str], Sequence[str]]:
        """Answer the question in sentences, and return what the tables behind them warn of."""

    @abstractmethod
    def assumptions(self) -> list[str]:
        """Say what the answer assumes, what of it was tested, and what was not."""

    @property
    @abstractmethod
    def headline(self) -> str:
        """The title of the report."""

    @abstractmethod
    def question(self) -> tuple[str, ...]:
        """Say what was asked."""

    @abstractmethod
    def nothing_wrong(self) -> str:
        """Say what was looked at where nothing is wrong, and what was not."""

    @abstractmethod
    def chapters(self, level: float, command: str | None) -> list[Section]:
        """Return the chapters of the report; `command` made the fit, in the shell."""


# The summary of a fit: what was assumed, what was found, and what to doubt first.


def summary(
    fit: Fitted, level: float = 0.95, *, intervals: Intervals = "wald", stars: bool = False
) -> Page:
    """Return the summary of the fit, which prints as text and is shown as HTML in notebooks.

    Parameters
    ----------
    level : of the intervals.
    intervals : ``"wald"`` or, where a likelihood was maximised, ``"profile"``; see `conf_int`.
    stars : whether estimates carry stars for p-values below 0.05, 0.01 and 0.001.
    """
    portrait = fit._portrait()
    with one_blas_thread():
        return Page(
            title=portrait.title,
            notices=sentences(fit.page_facts(), "grave"),
            facts=(
                *_formulas(fit),
                *portrait.entries(),
                *_counts(fit.facts),
                *portrait.likelihood(),
                ("Std errors", _errors_in_words(fit.covariance)),
                *_weights(fit.facts),
                *([("Intervals", "profile likelihood")] if intervals == "profile" else []),
            ),
            blocks=_coefficient_blocks(fit, portrait, level, intervals, stars=stars),
            notes=(
                *_notes_on_tests(portrait.tests()),
                *portrait.notes(),
                *_notes_on_rows(fit.facts),
                *_notes_on_errors(fit.covariance),
                *_foot_facts(fit),
                *_profile_notes(fit, level, intervals),
                *([f"{STARS}."] if stars else []),
            ),
        )


def compare_page(fit: Fitted, table: pd.DataFrame) -> Page:
    """Compose the page that puts naive and corrected estimates side by side."""
    portrait = fit._portrait()
    headings = {"roy": "Roy", DIFFERENCE: "difference*"}
    header = ("", *(headings.get(str(c), str(c)) for c in table.columns))
    header = tuple("std err" if name.endswith("_se") else name for name in header)
    blocks = []
    for label, title in portrait.titles().items():
        rows = tuple(
            (str(term), *(format_number(float(number)) for number in numbers))
            for (alternative, term), numbers in zip(table.index, table.to_numpy(), strict=True)
            if alternative == label
        )
        blocks.append(Block(title, header, rows))
    return Page(
        title="Naive least squares and corrected estimates",
        notices=sentences(fit.page_facts(), "grave"),
        facts=(("Outcome", fit.coding.equations.outcome), ("Rows", str(fit.nobs))),
        blocks=tuple(blocks),
        notes=(
            "* difference under the model: it is selection bias if the assumptions hold.",
            *portrait.notes_on_least_squares(),
        ),
    )


# The head of a summary: names and values.


def _formulas(fit: Fitted) -> Entries:
    """Return the formula of all outcomes, or of each where they differ."""
    formulas = fit.facts.formulas
    if len(set(formulas)) == 1:
        return [("Formula", formulas[0])]
    labels = fit.coding.equations.alternatives
    return [(str(label), text) for label, text in zip(labels, formulas, strict=True)]


def _counts(facts: DataFacts) -> Entries:
    """Say how many rows, or cases, and people there are."""
    entries = [("Rows", str(facts.n_rows))]
    if facts.case is not None:
        entries = [("Cases", f"{facts.n_rows} ({facts.n_long_rows} rows)")]
    if facts.panel:
        entries.append(("People", f"{facts.n_groups} ({facts.panel})"))
    return entries


def _weights(facts: DataFacts) -> Entries:
    """Name the weights, and say how many rows of equal weight would say as much."""
    entries = []
    if facts.weights:
        kind = f"{facts.weights_kind}, " if facts.weights_kind else ""
        entries.append(("Weights", f"{facts.weights} ({kind}sum {facts.weight_total:g})"))
    if facts.weights_kind == "probability":
        entries.append(("Effective rows", f"{facts.n_effective:.1f}"))
    return entries


def _errors_in_words(covariance: Covariance) -> str:
    """Say how standard errors were made, or that there are none."""
    return covariance.description if np.isfinite(covariance.matrix).any() else "none"


# Tables of coefficients as text: one row per parameter, with its error and interval.


def _table_header(covariance: Covariance, level: float) -> tuple[str, ...]:
    """Return the headings of a table of coefficients."""
    tail = 50.0 * (1.0 - level)
    letter = "z" if np.isinf(covariance.df) else "t"
    ends = f"[{tail:g}%", f"{100 - tail:g}%]"
    return ("", "coef", "std err", letter, f"P>|{letter}|", *ends)


def coefficient_rows(entries: Iterable[TidyRow], *, stars: bool = False) -> Rows:
    """Write rows of a tidy table as text."""
    rows = []
    for entry in entries:
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


def _coefficient_blocks(
    fit: Fitted, portrait: Portrait, level: float, intervals: Intervals, *, stars: bool
) -> tuple[Block, ...]:
    """Return the blocks of outcomes, of what several share, and of equations of the choice."""
    table = fit.tidy(level, intervals=intervals)
    header, entries = _table_header(fit.covariance, level), TidyRow.all_of(table)

    def blocks(titles: dict[Hashable, str]) -> list[Block]:
        each = [(x, [one for one in entries if one.alternative == x]) for x in titles]
        # An outcome may have nothing of its own, where all it has is shared.
        return [
            Block(titles[label], header, portrait.rows(label, own, stars=stars))
            for label, own in each
            if own
        ]

    outcomes, choices = portrait.titles(), portrait.choice_titles()
    across = [one for one in entries if one.alternative not in {**outcomes, **choices}]
    named = [
        one if one.alternative == COMMON else one._replace(term=f"{one.term} of {one.alternative}")
        for one in across
    ]
    title = "all alternatives" if named == across else "across alternatives"
    between = [Block(title, header, portrait.rows(COMMON, named, stars=stars))] if named else []
    return (*blocks(outcomes), *between, *blocks(choices))


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
    equations = fit.equation_labels
    entries: dict[str, dict[Hashable, tuple[str, str]]] = {}
    for row in TidyRow.all_of(fit.tidy()):
        own, term = row.alternative in equations, row.term
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
    page = fit.summary()
    facts = tuple(fact for fact in page.facts if fact[0] in ("Rows", "Cases", "Log-likelihood"))
    letter = "z" if np.isinf(fit.covariance.df) else "t"
    notes = [f"Standard errors in parentheses ({fit.covariance.description})."]
    if stars:
        notes.append(f"{STARS}, two-sided {letter} tests.")
    block = Block("", ("", *map(str, columns)), tuple(rows))
    return Page(page.title, page.notices, facts, (block,), tuple(notes))


# Sentences at the foot of a summary: on tests, rows, standard errors and intervals.


PSEUDO_LIKELIHOOD = (
    "Probability weights are scaled to average 1: the log-likelihood, AIC and BIC are those of a "
    "pseudo-likelihood: use them for description, not for tests."
)


def _notes_on_tests(tests: Sequence[TestResult]) -> list[str]:
    """Say what each test says, or why there is none."""
    notes = [f"{test}.".replace("..", ".") for test in tests]
    if any(test.possible for test in tests):
        notes.append(f"A test rejects where p is at most {1.0 - FLAG_LEVEL:.2g}.")
    return notes


def _notes_on_rows(facts: DataFacts) -> list[str]:
    """Say which rows were left out, and which say less than others."""
    notes, chosen, one = [], facts.selection is not None, len(facts.counts) == 1
    if facts.n_silent and not chosen:
        known = "the choice, and limits where given" if facts.counts else "its limits"
        notes.append(
            f"{facts.n_silent} rows have no recorded outcome; they contribute what is known about "
            f"it: {known}."
        )
    if facts.n_undecided:
        notes.append(
            f"In {facts.n_undecided} rows the chosen alternative was not recorded: the likelihood "
            "sums over all possible ones."
        )
    if facts.n_dropped:
        notes.append(f"{facts.n_dropped} rows with a missing covariate were left out.")
    if facts.n_without_outcome:
        notes.append(
            f"{facts.n_without_outcome} rows without a recorded outcome{' or choice' * chosen} "
            "were left out on request: that selects on the outcome unless they are missing at "
            "random."
        )
    if facts.n_between:
        notes.append(
            f"{facts.n_between} outcomes are known only to lie between limits, or beyond one; "
            "each contributes the probability of its interval."
        )
    if facts.n_selected_silent:
        which, what = ("were selected and ", "selection") if one else ("", "choice")
        notes.append(
            f"{facts.n_selected_silent} rows {which}have no recorded outcome; they count for the "
            f"{what} alone, as if the outcome were missing at random."
        )
    return notes


def two_values(fit: Fitted) -> str:
    """Say that an outcome has two values alone; the sentence goes on, or ends."""
    low, high = fit.facts.outcome_range
    return (
        f"The outcome {fit.coding.equations.outcome} has two values, {low:g} and {high:g}: this is "
        "a linear model of it"
    )


def _notes_on_errors(covariance: Covariance) -> list[str]:
    """Say what robust standard errors do not do."""
    if not covariance.sandwich:
        return []
    return [
        "Robust standard errors allow for a misspecified variance; they do not repair estimates "
        "that misspecification makes inconsistent."
    ]


def _foot_facts(fit: Fitted) -> tuple[str, ...]:
    """Return the facts that stand at the foot of a page; what is not tested, its tests say."""
    facts = (one for one in fit.page_facts() if one.kind != "not tested")
    return sentences(facts, "weak", "note")


def _profile_notes(fit: Fitted, level: float, intervals: Intervals) -> list[str]:
    """Say which ends of profile intervals are open or missing, and why."""
    if intervals == "wald":
        return []
    reasons = fit.conf_int(level, method=intervals)["reason"]
    return [
        f"The interval of {name}: {reason}."
        for name, reason in zip(fit.names, reasons, strict=True)
        if reason
    ]
