"""The full report of a fit, written to one file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from selfselect.errors import ReportError
from selfselect.report.chapters import (
    comparison_chapter,
    data_chapter,
    diagnosis_chapter,
    estimates_chapter,
    membership_chapter,
    reproduction_chapter,
)
from selfselect.report.document import Document
from selfselect.report.effects_chapter import effects_chapter
from selfselect.report.explain import explain, verdict_chapter
from selfselect.report.full_page import render
from selfselect.report.question import headline, nothing_to_warn_of, notices, question
from selfselect.results.files import as_path, refuse_target, write_whole
from selfselect.results.tables import check_level

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["compose", "write_document", "write_report"]


def write_report(
    fit: FitResult, path: str | Path, *, level: float = 0.95, command: str | None = None
) -> None:
    """Compose the report of a fit and write it; the file appears whole or not at all."""
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
