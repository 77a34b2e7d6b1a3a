"""Pages as HTML fragments, everything escaped."""

from __future__ import annotations

import html

from selfselect.report.page import Block, Page
from selfselect.visible import left_to_right

__all__ = ["render"]


def render(page: Page) -> str:
    """Render a page as one HTML element."""
    parts = ['<div class="selfselect">', f"<h3>{escape(page.title)}</h3>"]
    parts += [f'<p role="alert"><strong>{escape(notice)}</strong></p>' for notice in page.notices]
    facts = [
        f'<tr><th style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in page.facts
    ]
    parts += ["<table>", *facts, "</table>"] if facts else []
    parts += [_block(block) for block in page.blocks]
    notes = [f"<li>{escape(note)}</li>" for note in page.notes]
    parts += ["<ul>", *notes, "</ul>"] if notes else []
    return "\n".join([*parts, "</div>"])


def escape(text: str) -> str:
    """Return text as HTML shows it."""
    return html.escape(left_to_right(text))


def _block(block: Block) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in block.header)
    body = "\n".join(
        f'<tr><th style="text-align:left">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in block.rows
    )
    title = f"<caption>{escape(block.title)}</caption>" if block.title else ""
    return f"<table>{title}<tr>{head}</tr>\n{body}</table>"
