"""Pages as plain text."""

from __future__ import annotations

from textwrap import fill, wrap

from selfselect.report.page import Block, Page
from selfselect.visible import on_one_line, visible

__all__ = ["render"]

WIDTH = 79


def render(page: Page) -> str:
    """Render a page as text, its notices first."""
    parts = [line.center(WIDTH).rstrip() for line in wrap(visible(page.title), WIDTH) or [""]]
    if page.notices:
        parts += [_paragraph(notice, "! ") for notice in page.notices]
    if page.facts or page.blocks:
        parts += ["=" * WIDTH, *_facts(page.facts)]
    for block in page.blocks:
        parts += _block(block)
    parts += ["=" * WIDTH]
    parts += [_paragraph(note, "- ") for note in page.notes]
    return "\n".join(parts)


def _paragraph(text: str, mark: str) -> str:
    return fill(visible(text), WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark))


def _facts(facts: tuple[tuple[str, str], ...]) -> list[str]:
    """Two facts to a line where both fit, long ones alone."""
    half = WIDTH // 2
    lines: list[str] = []
    short: list[str] = []
    for name, value in facts:
        entry = on_one_line(f"{name}: {value}")
        if len(entry) > half - 1:
            lines.append(fill(entry, WIDTH, subsequent_indent=" " * (len(name) + 2)))
        else:
            short.append(entry)
    pairs = [
        f"{left:<{half}}{right}".rstrip()
        for left, right in zip(short[::2], [*short[1::2], ""], strict=False)
    ]
    return lines + pairs


def _block(block: Block) -> list[str]:
    header, *rows = [tuple(map(on_one_line, row)) for row in (block.header, *block.rows)]
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    widths[0] = max(widths[0], 16)
    gap = max(1, min(3, (WIDTH - sum(widths)) // max(len(widths) - 1, 1)))
    rule = "-" * WIDTH

    def line(row: tuple[str, ...]) -> str:
        numbers = "".join(
            " " * gap + cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)
        )
        return (row[0].ljust(widths[0]) + numbers).rstrip()

    title = [on_one_line(block.title)] if block.title else []
    return [rule, *title, line(header), rule, *map(line, rows)]
