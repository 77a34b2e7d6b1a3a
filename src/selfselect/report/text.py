"""Pages as plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from textwrap import fill, wrap

from selfselect.report.page import Block, Page
from selfselect.visible import on_one_line, visible

__all__ = ["WIDTH", "fold", "narrowed", "paragraph", "render"]

WIDTH = 79

NARROWEST = 30
"""Columns below which no terminal is believed."""

NAMES = 16
"""Least width of the names of a table's rows."""

Cells = tuple[str, ...]

_columns: ContextVar[int | None] = ContextVar("columns of the terminal", default=None)


@contextmanager
def narrowed(columns: int | None) -> Iterator[None]:
    """Have text fit a terminal of so many columns; None where it goes elsewhere."""
    before = _columns.set(None if columns is None else max(columns, NARROWEST))
    try:
        yield
    finally:
        _columns.reset(before)


def fold(text: str) -> str:
    """Fold lines that are too long for the terminal at words, below where their text begins."""
    columns = _columns.get()
    if columns is None:
        return text
    folded = []
    for line in text.split("\n"):
        mark = re.match(r"[ !?-]* ?", line)
        indent = " " * (0 if mark is None else mark.end())
        folded.append(
            line if len(line) <= columns else fill(line, columns, subsequent_indent=indent)
        )
    return "\n".join(folded)


def render(page: Page) -> str:
    """Render a page as text, its notices first."""
    columns, width = _columns.get(), _width()
    parts = [line.center(width).rstrip() for line in wrap(visible(page.title), width) or [""]]
    if page.notices:
        parts += [paragraph(notice, "! ") for notice in page.notices]
    if page.facts or page.blocks:
        parts += ["=" * width, *_facts(page.facts, width)]
    for block in page.blocks:
        parts += _block(block, width, columns)
    parts += ["=" * width]
    parts += [paragraph(note, "- ") for note in page.notes]
    return "\n".join(parts)


def _width() -> int:
    columns = _columns.get()
    return WIDTH if columns is None else min(WIDTH, columns)


def paragraph(text: str, mark: str = "") -> str:
    """Return sentences in lines of a page's width, the first one after a mark."""
    return fill(visible(text), _width(), initial_indent=mark, subsequent_indent=" " * len(mark))


def _facts(facts: tuple[tuple[str, str], ...], width: int) -> list[str]:
    """Two facts to a line where both fit, long ones alone."""
    half = width // 2
    lines: list[str] = []
    short: list[str] = []
    for name, value in facts:
        entry = on_one_line(f"{name}: {value}")
        if len(entry) > half - 1:
            lines.append(fill(entry, width, subsequent_indent=" " * (len(name) + 2)))
        else:
            short.append(entry)
    pairs = [
        f"{left:<{half}}{right}".rstrip()
        for left, right in zip(short[::2], [*short[1::2], ""], strict=False)
    ]
    return lines + pairs


def _block(block: Block, width: int, columns: int | None) -> list[str]:
    """Write a table; one that is too wide for the terminal in groups of its columns."""
    header, *rows = [tuple(map(on_one_line, row)) for row in (block.header, *block.rows)]
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    groups = [list(range(1, len(header)))]
    names = max(widths[0], NAMES)
    if columns is not None and names + _across(widths, groups[0]) > columns:
        units = _units(header)
        least = columns - max((_across(widths, unit) for unit in units), default=0)
        most = max(columns // 2, columns - _across(widths, groups[0]))
        names = min(widths[0], max(NAMES, min(least, most)))
        groups = _groups(units, widths, columns - names)
    widths[0] = names
    rule = "-" * width
    lines = [rule, *([fold(on_one_line(block.title))] if block.title else [])]
    for place, group in enumerate(groups):
        head, *body = [_line(row, [0, *group], widths, width) for row in (header, *rows)]
        lines += [*([rule] if place else []), head, rule, *body]
    return lines


def _across(widths: list[int], columns: list[int]) -> int:
    """Return how wide columns are beside each other, with a space before each."""
    return sum(1 + widths[i] for i in columns)


def _units(header: Cells) -> list[list[int]]:
    """Return the columns that stand together: both ends of an interval, each other by itself."""
    units: list[list[int]] = []
    for i in range(1, len(header)):
        if header[i].endswith("]") and units and header[i - 1].startswith("["):
            units[-1].append(i)
        else:
            units.append([i])
    return units


def _groups(units: list[list[int]], widths: list[int], room: int) -> list[list[int]]:
    """Put as many columns side by side as there is room for."""
    groups: list[list[int]] = [[]]
    for unit in units:
        if groups[-1] and _across(widths, groups[-1] + unit) > room:
            groups.append([])
        groups[-1] += unit
    return groups


def _line(row: Cells, columns: list[int], widths: list[int], width: int) -> str:
    """Write some columns of a row; a name that is too long for its own stands above numbers."""
    own = [widths[i] for i in columns]
    gap = max(1, min(3, (width - sum(own)) // max(len(own) - 1, 1)))
    name, above = row[0], []
    if len(name) > widths[0]:
        *above, name = wrap(name, widths[0], subsequent_indent="  ")
    numbers = "".join(" " * gap + row[i].rjust(widths[i]) for i in columns[1:])
    return "\n".join([*above, (name.ljust(widths[0]) + numbers).rstrip()])
