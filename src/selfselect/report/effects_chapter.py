"""The chapter of effects: what follows from the fit, with the doubts that go with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from selfselect import plots
from selfselect.errors import SelfSelectError, SelfSelectWarning, without_warnings
from selfselect.plots.paths import columns_of
from selfselect.report.chapters import without_rows
from selfselect.report.charts import MOST_COVARIATES, along, chart
from selfselect.report.document import Folded, Heading, Paragraph, Part, Section
from selfselect.report.page import Block

if TYPE_CHECKING:
    from selfselect.effects import EffectTable
    from selfselect.results.fit_result import FitResult

__all__ = ["effects_chapter"]

WORK = 160_000
"""Rows times parameters that the slowest effects may take; their errors need every parameter
moved, so with more of them fewer rows are averaged over and fewer gains are drawn."""


def effects_chapter(fit: FitResult, level: float) -> Section:
    """Say what outcomes would be in each alternative, who chooses which, and who gains."""
    if not fit.has_rows:
        return Section(
            "Effects",
            (
                Paragraph(
                    f"Effects are averages over rows. {without_rows(fit)} Ask for effects with "
                    "rows of your own: result.treatment_effects(..., data=rows)."
                ),
            ),
        )
    columns = [str(name) for name in columns_of(fit)][:MOST_COVARIATES]
    compared: list[Part] = []
    if fit.problem.equations.n_alternatives > 1:
        to, versus = _commonest(fit)
        compared = [
            *_table(fit, "treatment_effects", to, versus, level=level),
            *_gains(fit, to, versus, level),
            *_table(fit, "decompose", to, versus, level=level),
        ]
    parts: list[Part] = [
        *_table(fit, "potential_outcomes", level=level),
        *compared,
        Heading("Chances of the alternatives"),
        _chances(fit, columns, level),
        *_table(fit, "choice_probabilities", level=level),
        *(_table(fit, "marginal_effects", data=_sample(fit), level=level) if columns else ()),
    ]
    if fit.problem.equations.n_alternatives > 2:
        words = f"Two alternatives are compared: {to} and {versus}, the two chosen most often."
        parts.insert(0, Paragraph(f"{words} Ask result.treatment_effects for others."))
    return Section("Effects", tuple(_without_repeats(parts)))


def _commonest(fit: FitResult) -> tuple[Any, Any]:
    order = fit.shares.to_numpy().argsort(kind="stable")[::-1]
    labels = fit.problem.equations.alternatives
    return labels[order[0]], labels[order[1]]


def _table(fit: FitResult, name: str, *labels: Any, **options: Any) -> list[Part]:
    """Ask for one effect; where it cannot be had, the reason takes its place."""
    try:
        # What is doubtful stands in the table's own warnings.
        with without_warnings(SelfSelectWarning):
            return _shown(getattr(fit, name)(*labels, **options))
    except SelfSelectError as error:
        return [Paragraph(f"{name}: {error}")]


def _shown(effect: EffectTable, *, folded: bool = False) -> list[Part]:
    """Show a table with its doubts before and its notes behind."""
    blocks = effect.to_blocks()
    doubts = [Paragraph(warning) for warning in effect.warnings]
    notes = [Paragraph(note) for note in effect.notes]
    if folded:
        return [*doubts, Folded(f"{effect.title}, in numbers", blocks), *notes]
    if len(blocks) == 1:
        return [*doubts, Block(effect.title, blocks[0].header, blocks[0].rows), *notes]
    return [Heading(effect.title), *doubts, *blocks, *notes]


def _gains(fit: FitResult, to: Any, versus: Any, level: float) -> list[Part]:
    try:
        found = fit.gains(to, versus, _sample(fit), level=level, draws=3 * _most_rows(fit))
    except SelfSelectError as error:
        return [Paragraph(f"gains: {error}")]
    outcome = fit.problem.equations.outcome
    picture = chart(
        "gains",
        f"The gain in {outcome} of {to} over {versus}, simulated from the fit: everyone (filled), "
        f"those who choose {to} (solid) and {versus} (dashed). Right of zero {outcome} is "
        f"larger in {to}.",
        lambda axes: plots.gains(found, axes=axes),
        width=6.0,
        height=3.2,
    )
    return [picture, *_shown(found.effect, folded=True)]


def _chances(fit: FitResult, columns: list[str], level: float) -> Part:
    return along(
        "chances",
        columns,
        lambda name: (
            f"The chance that each alternative is chosen along {name}, the other columns at their "
            f"means, with {100 * level:g}% bands."
        ),
        lambda name, axes: plots.choice_probabilities(fit, name, level=level, axes=axes),
        width=6.0,
        height=3.4,
    )


def _most_rows(fit: FitResult) -> int:
    return max(2_000, min(20_000, WORK // fit.n_parameters))


def _sample(fit: FitResult) -> pd.DataFrame | None:
    """Return some rows where all would take too long; None for all.

    Rows that are weighted are all taken: those given to an effect have no weights.
    """
    most = _most_rows(fit)
    if fit.nobs <= most or fit.table is None or fit.facts.weights:
        return None
    return fit.table.iloc[:: -(-fit.nobs // most)]


def _without_repeats(parts: list[Part]) -> list[Part]:
    """Say each sentence once: tables of one fit share most of their notes."""
    kept: list[Part] = []
    for part in parts:
        if not (isinstance(part, Paragraph) and part in kept):
            kept.append(part)
    return kept
