"""The report of a multinomial switching regression: what every report has at its core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from selfselect.errors import SelfSelectError, SelfSelectWarning, without_warnings
from selfselect.multinomial.explain import explain
from selfselect.report.chapters import reproduction
from selfselect.report.document import Document, Findings, Paragraph, Part, Section
from selfselect.report.effects_chapter import shown_effect
from selfselect.report.numbers import format_number
from selfselect.report.page import Block
from selfselect.report.question import MOST_COMPARED, listed, pairs_compared

if TYPE_CHECKING:
    from selfselect.multinomial.result import MultinomialResult

__all__ = ["compose"]


def compose(fit: MultinomialResult, level: float, command: str | None) -> Document:
    """Put the chapters together."""
    page = fit.summary(level)
    explained = explain(fit, level=level)
    outcome = fit.model.equations.outcome
    facts = Block("The fit as a whole", ("", ""), tuple(page.facts))
    sections = (
        Section("The data", tuple(_data(fit))),
        Section(
            "What is assumed, and tested", (Findings(tuple(("note", one) for one in page.notes)),)
        ),
        Section("Effects", tuple(_effects(fit, level))),
        Section("Least squares beside it", tuple(_comparison(fit))),
        Section("Corrected estimates in full", (*page.blocks, facts)),
        reproduction(fit.call, command, fit.status),
    )
    return Document(
        f"{outcome} by choice: {listed(fit.alternatives)}",
        explained.answers,
        (
            f"How does {outcome} depend on its covariates in each of {len(fit.alternatives)} "
            "alternatives, for everyone and not only for those who chose it? The choice is a "
            "multinomial logit, and its noise may be correlated with the outcomes.",
        ),
        (*page.notices, *explained.alarms),
        sections,
        "Both steps were solved. Read their assumptions first.",
    )


def _data(fit: MultinomialResult) -> list[Part]:
    facts = fit.facts
    low, high = facts.outcome_range
    total = sum(facts.counts)
    rows = tuple(
        (str(label), str(count), f"{100 * count / total:.1f}%")
        for label, count in zip(fit.alternatives, facts.counts, strict=True)
    )
    text = (
        f"{facts.n_rows} rows; {fit.model.equations.outcome} runs from {format_number(low)} to "
        f"{format_number(high)}."
    )
    return [Paragraph(text), Block("Chosen alternatives", ("", "rows", "share"), rows)]


def _effects(fit: MultinomialResult, level: float) -> list[Part]:
    """Compare the pairs of alternatives that the answer compares."""
    if fit.rows is None:
        return [
            Paragraph(
                "Effects are averages over rows, and this fit was loaded from a file, which "
                "keeps none. Pass rows to compute them: result.treatment_effects(..., data=rows)."
            )
        ]
    parts = _ask(lambda: fit.potential_outcomes(level=level))
    if len(fit.alternatives) > MOST_COMPARED:
        words = f"All pairs of the {MOST_COMPARED} alternatives chosen most often are compared."
        parts.append(Paragraph(f"{words} Use result.treatment_effects for others."))
    for pair in pairs_compared(fit.alternatives, fit.facts.counts):
        parts += _ask(lambda pair=pair: fit.treatment_effects(*pair, level=level))
    return parts


def _ask(make: Any) -> list[Part]:
    """Ask for one effect; where it cannot be had, the reason takes its place."""
    try:
        with without_warnings(SelfSelectWarning):
            return shown_effect(make())
    except SelfSelectError as error:
        return [Paragraph(str(error))]


def _comparison(fit: MultinomialResult) -> list[Part]:
    try:
        table = fit.compare().table
    except SelfSelectError as error:
        return [Paragraph(str(error))]
    header = ("", *map(str, table.columns))
    rows = tuple(
        (f"{label}: {term}", *(format_number(float(value)) for value in row))
        for (label, term), row in zip(table.index, table.to_numpy(), strict=True)
    )
    return [Block("Least squares on each alternative's own rows, and corrected", header, rows)]
