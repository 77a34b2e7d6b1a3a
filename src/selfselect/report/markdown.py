"""Pages as Markdown."""

from __future__ import annotations

from selfselect.report.page import Block, Page
from selfselect.visible import visible

__all__ = ["render"]


def render(page: Page) -> str:
    """Render a page as Markdown, its notices first."""
    parts = [f"### {_safe(page.title)}"]
    parts += [f"> **{_safe(notice)}**" for notice in page.notices]
    parts.append("\n".join(f"- {_safe(name)}: {_safe(value)}" for name, value in page.facts))
    parts += [_block(block) for block in page.blocks]
    parts.append("\n".join(f"- {_safe(note)}" for note in page.notes))
    return "\n\n".join(parts)


def _safe(text: str) -> str:
    """Keep user text from being read as markup, and on one line."""
    text = visible(" ".join(text.split()))
    for character in "\\`*_|<>[]":
        text = text.replace(character, "\\" + character)
    return text


def _block(block: Block) -> str:
    def line(row: tuple[str, ...]) -> str:
        return "| " + " | ".join(_safe(cell) for cell in row) + " |"

    rule = "|:---|" + "---:|" * (len(block.header) - 1)
    rows = "\n".join(line(row) for row in block.rows)
    title = f"**{_safe(block.title)}**\n\n" if block.title else ""
    return f"{title}{line(block.header)}\n{rule}\n{rows}"
