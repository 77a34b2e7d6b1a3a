"""The full report: its chapters on effects, and all of it written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from selfselect import plots
from selfselect.effects.marginal_effects import columns_that_move
from selfselect.errors import ReportError, SelfSelectError, SelfSelectWarning, without_warnings
from selfselect.inference.statistics import check_level
from selfselect.plots.base import columns_of
from selfselect.report.chapters import (
    MOST_COVARIATES,
    along,
    chart,
    comparison_chapter,
    data_chapter,
    diagnosis_chapter,
    estimates_chapter,
    membership_chapter,
    one_of,
    reproduction_chapter,
    without_rows,
)
from selfselect.report.document import (
    MOST_COMPARED,
    Document,
    Folded,
    Heading,
    Paragraph,
    Part,
    Pictures,
    Section,
    headline,
    nothing_to_warn_of,
    notices,
    pairs_compared,
    question,
    render,
)
from selfselect.report.explain import MOST_ALTERNATIVES, explain, said_in_per_cent, verdict_chapter
from selfselect.report.page import Block
from selfselect.results.streaming import as_path, refuse_target, write_whole
from selfselect.threads import one_blas_thread

if TYPE_CHECKING:
    from selfselect.effects import EffectTable
    from selfselect.effects.counterfactual import Counterfactual
    from selfselect.effects.gains import Gains
    from selfselect.results.fit_result import FitResult


# The chapter of effects: what follows from the fit, with the doubts that go with it.


WORK = 160_000
"""Rows times parameters that the slowest effects may take; their errors need every parameter
moved, so with more of them fewer rows are averaged over and fewer gains are drawn."""

MOST_GAINS, MOST_OUTCOMES = 3, 4
"""Pairs whose gains are drawn, and columns along which outcomes are: the page stays small."""

MOST_MARGINAL = 24
"""Columns whose marginal effects are shown: each is moved up and down in all rows."""

MOST_CLOSED = 2_000
"""Rows over which what closing an alternative does is averaged."""


def effects_chapter(fit: FitResult, level: float) -> Section:
    """Say what outcomes would be in each alternative, who chooses which, and who gains."""
    if not fit.has_rows:
        return Section(
            "Effects",
            (
                Paragraph(
                    f"Effects are averages over rows. {without_rows(fit)} For effects pass rows: "
                    "result.treatment_effects(..., data=rows)."
                ),
            ),
        )
    k = fit.problem.equations.n_alternatives
    if k > MOST_ALTERNATIVES:
        words = (
            f"The report shows effects for at most {MOST_ALTERNATIVES} alternatives, and there "
            f"are {k}. Compute those you need: result.choice_probabilities(), "
            "result.predict(rows, kind='latent')."
        )
        return Section("Effects", (Paragraph(words),))
    columns = [str(name) for name in columns_of(fit)][:MOST_COVARIATES]
    # The answer is about the level where a logarithm can be undone; the logarithm stands beside.
    scales = ("level", "model") if said_in_per_cent(fit) else ("model",)
    pairs = pairs_compared(fit.problem.equations.alternatives, fit.shares.to_list())
    compared: list[Part] = []
    if pairs:
        compared = [
            part
            for a, b in pairs
            for scale in scales
            for part in _table(fit, "treatment_effects", a, b, level=level, scale=scale)
        ]
        compared += [*_gains(fit, pairs, level), *_table(fit, "decompose", *pairs[0], level=level)]
    if k > MOST_COMPARED:
        words = f"All pairs of the {MOST_COMPARED} alternatives chosen most often are compared."
        compared.insert(0, Paragraph(f"{words} Use result.treatment_effects for others."))
    parts: list[Part] = [
        _outcomes(fit, columns, level),
        *(
            part
            for scale in scales
            for part in _table(fit, "potential_outcomes", level=level, scale=scale)
        ),
        *compared,
        Heading("Chances of the alternatives"),
        _chances(fit, columns, level),
        *_table(fit, "choice_probabilities", level=level),
        *(_marginal(fit, level) if columns else ()),
        *_closures(fit, level),
    ]
    return Section("Effects", tuple(_without_repeats(parts)))


def _marginal(fit: FitResult, level: float) -> list[Part]:
    """Show how chances move with the columns, the first ones where there are many."""
    try:
        columns = columns_that_move(fit)
    except SelfSelectError as error:
        return [Paragraph(f"marginal_effects: {error}")]
    some = columns[:MOST_MARGINAL]
    parts = _table(fit, "marginal_effects", some, data=_sample(fit), level=level)
    left = len(columns) - len(some)
    if left:
        words = f"Only the first {len(some)} of {len(columns)} columns are shown."
        parts.append(Paragraph(f"{words} Others: result.marginal_effects({columns[-1]!r})."))
    return parts


def _closures(fit: FitResult, level: float) -> list[Part]:
    """Draw what closing each alternative would do to those who would choose it."""
    labels = fit.problem.equations.alternatives
    if len(labels) < 2 or fit.problem.equations.selection is not None:
        return []
    some = _sample(fit, MOST_CLOSED)
    options: list[tuple[str, Pictures]] = []
    for number, label in enumerate(labels[:MOST_COMPARED], 1):
        try:
            with without_warnings(SelfSelectWarning):
                found = fit.counterfactual(close=[label], base=some, level=level)
        except SelfSelectError as error:
            return [Paragraph(f"counterfactual: {error}")]
        made = chart(
            f"closed-{number}",
            f"If {found.question}: shares of the alternatives and mean "
            f"{fit.problem.equations.outcome} before and after, with {100 * level:g}% intervals.",
            partial(_draw_change, found),
            panels=2,
            height=1.6 + 0.3 * min(len(labels), 12),
        )
        if isinstance(made, Paragraph):
            return [made]
        options.append((str(label), made))
    return [Heading("If an alternative were closed"), *one_of("closed", options)]


def _draw_change(found: Counterfactual, axes: tuple[Any, ...]) -> plots.Picture:
    return plots.counterfactual(found, axes=axes)


def _table(fit: FitResult, name: str, *labels: Any, **options: Any) -> list[Part]:
    """Ask for one effect; where it cannot be had, the reason takes its place."""
    try:
        # What is doubtful stands in the table's own warnings.
        with without_warnings(SelfSelectWarning):
            return shown_effect(getattr(fit, name)(*labels, **options))
    except SelfSelectError as error:
        return [Paragraph(f"{name}: {error}")]


def shown_effect(effect: EffectTable, *, folded: bool = False) -> list[Part]:
    """Show a table with its doubts before and its notes behind."""
    blocks = effect.to_blocks()
    doubts = [Paragraph(warning) for warning in effect.warnings]
    notes = [Paragraph(note) for note in effect.notes]
    if folded:
        return [*doubts, Folded(f"{effect.title}, in numbers", tuple(blocks)), *notes]
    if len(blocks) == 1:
        return [*doubts, Block(effect.title, blocks[0].header, blocks[0].rows), *notes]
    return [Heading(effect.title), *doubts, *blocks, *notes]


def _gains(fit: FitResult, pairs: Sequence[tuple[Any, Any]], level: float) -> list[Part]:
    """Draw the distribution of the gains of some pairs, to choose from."""
    options: list[tuple[str, Pictures]] = []
    folded: list[Part] = []
    outcome = fit.problem.equations.outcome
    some = pairs[:MOST_GAINS]
    for number, (to, versus) in enumerate(some, 1):
        try:
            found = fit.gains(to, versus, _sample(fit), level=level, draws=_draws(fit, len(some)))
        except SelfSelectError as error:
            return [Paragraph(f"gains: {error}")]
        picture = chart(
            f"gains-{number}",
            f"The gain in {outcome} of {to} over {versus}, simulated from the fit: everyone "
            f"(filled), those who choose {to} (solid) and {versus} (dashed). Right of zero "
            f"{outcome} is larger in {to}.",
            partial(_draw_gains, found),
            width=6.0,
            height=3.2,
        )
        if isinstance(picture, Paragraph):
            folded.append(picture)
        else:
            options.append((f"{to} over {versus}", picture))
        folded += shown_effect(found.effect, folded=True)
    return [*one_of("gain", options), *folded]


def _draw_gains(found: Gains, axes: tuple[Any, ...]) -> plots.Picture:
    return plots.gains(found, axes=axes)


def _outcomes(fit: FitResult, columns: list[str], level: float) -> Part:
    return along(
        "outcomes",
        columns[:MOST_OUTCOMES],
        lambda name: (
            f"Mean {fit.problem.equations.outcome} of everyone in each alternative along {name}, "
            f"the other columns at their means, with {100 * level:g}% bands."
        ),
        lambda name, axes: plots.potential_outcomes(fit, name, level=level, axes=axes),
        width=6.0,
        height=3.4,
    )


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


def _draws(fit: FitResult, n_pairs: int) -> int:
    return 3 * _most_rows(fit) // n_pairs


def _most_rows(fit: FitResult) -> int:
    return max(2_000, min(20_000, WORK // fit.n_parameters))


def _sample(fit: FitResult, most: int | None = None) -> pd.DataFrame | None:
    """Return some rows where all would take too long; None for all.

    Rows that are weighted are all taken: those given to an effect have no weights.
    """
    most = _most_rows(fit) if most is None else most
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


# The full report of a fit, written to one file.


def report(
    fit: FitResult,
    path: str | Path,
    *,
    level: float = 0.95,
    verdict: Any = False,
    command: str | None = None,
) -> None:
    """Write everything about the fit into one HTML file to send to a colleague.

    The file needs no network and no other file. Where it cannot be written, the fit is
    unharmed.

    Parameters
    ----------
    path : of the file; one that is there is replaced.
    level : of all intervals.
    verdict : True to make a `verdict`, which fits more models, and show it; or its question.
        One that was made before is shown in any case.
    command : the shell command that made the fit, shown as it is, if there was one.
    """
    if verdict is True and fit.answers.verdict is None:
        fit.verdict(level=level)
    elif not isinstance(verdict, bool):
        fit.verdict(verdict, level=level)
    with one_blas_thread():
        write_document(lambda: compose(fit, level, command), path, level=level)


def write_document(make: Callable[[], Document], path: str | Path, *, level: float) -> None:
    """Write the document that `make` composes; the file appears whole or not at all."""
    target = as_path(path)
    # Composing takes seconds: what can be known to fail is said before.
    try:
        refuse_target(target)
    except OSError as error:
        raise ReportError(_refusal(target, str(error.strerror))) from error
    check_level(level)
    text = render(make())
    try:
        write_whole(target, text)
    except OSError as error:
        raise ReportError(_refusal(target, str(error.strerror))) from error


def _refusal(target: Path, why: str) -> str:
    return (
        f"The report could not be written to {str(target)!r}: {why}. The fit is unharmed; write "
        "the report elsewhere."
    )


def compose(fit: FitResult, level: float, command: str | None) -> Document:
    """Put the chapters together, warnings first."""
    chapters = (
        verdict_chapter(fit),
        data_chapter(fit),
        comparison_chapter(fit, level),
        diagnosis_chapter(fit),
        membership_chapter(fit),
        effects_chapter(fit, level),
        estimates_chapter(fit, level),
        reproduction_chapter(fit, command),
    )
    return Document(
        headline(fit),
        explain(fit, level=level).answers,
        question(fit),
        notices(fit, level),
        tuple(chapter for chapter in chapters if chapter is not None),
        nothing_to_warn_of(fit),
    )
