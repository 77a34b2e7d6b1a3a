"""Documents as one HTML file that needs no other: style, script and pictures inside.

The template escapes everything; drawings are the only markup that it takes as it is, since
`plots.svg` has parsed and escaped them.
"""

from __future__ import annotations

import re

from selfselect.plots.svg import Drawing
from selfselect.report.document import Document, Part
from selfselect.report.page import Block
from selfselect.report.templates import render_page, typed

__all__ = ["render"]

VERDICTS = {"fine": "fine", "weak": "doubtful", "note": "note"}

MANY_COLUMNS = 9
"""Columns from which a table is too wide for paper: each row is then printed as a list."""

MANY_NOTICES = 10
"""Warnings that are shown at once; the others are folded."""


def render(document: Document) -> str:
    """Render a document as a whole page."""
    return render_page(
        "report/full_page.html",
        style=("report/full_page.css",),
        script=("report/full_page.js",),
        document=document,
        verdicts=VERDICTS,
        kind=_kind,
        loud=_loud,
        drawn=_drawn,
        typed=typed,
        many=MANY_NOTICES,
        too_wide=_too_wide,
    )


def _kind(part: Part) -> str:
    """Return which macro of the template shows a part."""
    return type(part).__name__.lower()


def _loud(notice: str) -> tuple[str, str]:
    """Split off the capitals that some notices begin with, which are set in bold."""
    begin = re.match(r"[A-Z][A-Z ]+[:.]", notice)
    end = 0 if begin is None else begin.end()
    return notice[:end], notice[end:]


def _drawn(drawing: Drawing) -> object:
    """Return a drawing as markup."""
    from markupsafe import Markup

    return Markup(drawing.svg)


def _too_wide(block: Block) -> bool:
    return len(block.header) >= MANY_COLUMNS
