"""A page of text, tables and notes, and how it looks: as text, HTML, LaTeX, Markdown."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from selfselect.visible import left_to_right, on_one_line, visible

if TYPE_CHECKING:
    import pandas as pd


# How numbers and names look in tables and sentences.


STARS = "* p < 0.05, ** p < 0.01, *** p < 0.001"


def format_number(value: float) -> str:
    """Write a number with about five digits, in a width that tables can bear."""
    if not np.isfinite(value):
        return ""
    size = abs(value)
    if size != 0 and (size >= 1e6 or size < 1e-4):
        return f"{value:.3e}"
    return f"{value:.4f}" if size < 1e4 else f"{value:.1f}"


def format_count(total: float) -> str:
    """Write a number of rows or parameters, or a sum of weights."""
    return str(int(total)) if float(total).is_integer() else format_number(float(total))


def stars_of(p_value: float) -> str:
    """Return the stars of a p-value, in a width that keeps numbers in line."""
    return ("*" * sum(p_value < bound for bound in (0.05, 0.01, 0.001))).ljust(3)


MOST_NAMED = 8


def listed(names: Sequence[object]) -> str:
    """Write names as words do, the first few where there are many."""
    shown = [str(name) for name in names[:MOST_NAMED]]
    if len(names) > MOST_NAMED:
        return ", ".join(shown) + f" and {len(names) - MOST_NAMED} more"
    return (
        shown[0]
        if len(shown) == 1
        else ", ".join(shown[:-1]) + " and " + shown[-1]
        if shown
        else ""
    )


# A page: what a report says, before anyone decides how it looks.


@dataclass(frozen=True)
class Block:
    """A table with a title; the first column holds names, the others numbers, all as text."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, title: str, table: pd.DataFrame) -> Block:
        """Write a table whose index holds the names of its rows."""

        def written(value: Any) -> str:
            return format_number(value) if isinstance(value, float) else str(value)

        names = [
            ", ".join(map(_named, one)) if isinstance(one, tuple) else _named(one)
            for one in table.index
        ]
        values = table.astype(object).itertuples(index=False, name=None)
        rows = tuple((name, *map(written, row)) for name, row in zip(names, values, strict=True))
        head = ", ".join(str(name) for name in table.index.names if name is not None)
        return cls(title, (head, *map(str, table.columns)), rows)


def _named(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, repr=False)
class Page:
    """A page with its warnings first.

    Attributes
    ----------
    title : the headline.
    notices : what a reader must know before anything else.
    facts : names and values for the head of the page.
    blocks : tables.
    notes : sentences at the foot.
    """

    title: str
    notices: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]

    def to_text(self) -> str:
        """Render as plain text of at most 80 columns where names allow."""
        return render_text(self)

    def to_html(self) -> str:
        """Render as an HTML fragment; everything from the user is escaped."""
        return render_html(self)

    def to_latex(self) -> str:
        """Render as a LaTeX table (booktabs)."""
        return render_latex(self)

    def to_markdown(self) -> str:
        """Render as Markdown."""
        return render_markdown(self)

    def __repr__(self) -> str:
        return f"<Page: {on_one_line(self.title)}; print it to read>"

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return self.to_html()


# Pages as plain text.


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


def render_text(page: Page) -> str:
    """Render a page as text, its notices first."""
    columns, width = _columns.get(), _width()
    parts = [line.center(width).rstrip() for line in wrap(visible(page.title), width) or [""]]
    if page.notices:
        parts += [paragraph(notice, "! ") for notice in page.notices]
    if page.facts or page.blocks:
        parts += ["=" * width, *_text_facts(page.facts, width)]
    for block in page.blocks:
        parts += _text_block(block, width, columns)
    parts += ["=" * width]
    parts += [paragraph(note, "- ") for note in page.notes]
    return "\n".join(parts)


def _width() -> int:
    columns = _columns.get()
    return WIDTH if columns is None else min(WIDTH, columns)


def paragraph(text: str, mark: str = "") -> str:
    """Return sentences in lines of a page's width, the first one after a mark."""
    return fill(visible(text), _width(), initial_indent=mark, subsequent_indent=" " * len(mark))


def _text_facts(facts: tuple[tuple[str, str], ...], width: int) -> list[str]:
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


def _text_block(block: Block, width: int, columns: int | None) -> list[str]:
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


# Pages as HTML fragments, everything escaped.


def render_html(page: Page) -> str:
    """Render a page as one HTML element."""
    parts = ['<div class="selfselect">', f"<h3>{escape(page.title)}</h3>"]
    parts += [f'<p role="alert"><strong>{escape(notice)}</strong></p>' for notice in page.notices]
    facts = [
        f'<tr><th style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in page.facts
    ]
    parts += ["<table>", *facts, "</table>"] if facts else []
    parts += [_html_block(block) for block in page.blocks]
    notes = [f"<li>{escape(note)}</li>" for note in page.notes]
    parts += ["<ul>", *notes, "</ul>"] if notes else []
    return "\n".join([*parts, "</div>"])


def escape(text: str) -> str:
    """Return text as HTML shows it."""
    return html.escape(left_to_right(text))


def _html_block(block: Block) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in block.header)
    body = "\n".join(
        f'<tr><th style="text-align:left">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in block.rows
    )
    title = f"<caption>{escape(block.title)}</caption>" if block.title else ""
    return f"<table>{title}<tr>{head}</tr>\n{body}</table>"


# Pages as LaTeX, with booktabs rules.


_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip


def escape_latex(text: str) -> str:
    """Escape what LaTeX would read as commands."""
    return "".join(_SPECIAL.get(character, character) for character in visible(text))


def render_latex(page: Page) -> str:
    """Render a page's tables, its notices above and its notes below them."""
    lines = [
        r"\begin{table}",
        rf"\caption{{{escape_latex(page.title)}}}",
        *(rf"\par\textbf{{{escape_latex(notice)}}}" for notice in page.notices),
    ]
    if page.blocks:
        width = max(len(block.header) for block in page.blocks)
        lines += [rf"\begin{{tabular}}{{l{'r' * (width - 1)}}}", r"\toprule"]
        for place, block in enumerate(page.blocks):
            lines += [r"\midrule"] * (place > 0) + _latex_block(block, width)
        lines += [r"\bottomrule", r"\end{tabular}"]
    sentences = [*(f"{name}: {value}." for name, value in page.facts), *page.notes]
    lines += [rf"\par\small {escape_latex(sentence)}" for sentence in sentences]
    lines.append(r"\end{table}")
    return "\n".join(lines)


def _latex_block(block: Block, width: int) -> list[str]:
    def line(row: tuple[str, ...]) -> str:
        return " & ".join(escape_latex(cell) for cell in row) + r" \\"

    title = rf"\multicolumn{{{width}}}{{l}}{{\textbf{{{escape_latex(block.title)}}}}} \\"
    head = [title] if block.title else []
    return [*head, line(block.header), r"\midrule", *(line(row) for row in block.rows)]


# Pages as Markdown.


def render_markdown(page: Page) -> str:
    """Render a page as Markdown, its notices first."""
    parts = [f"### {_safe(page.title)}"]
    parts += [f"> **{_safe(notice)}**" for notice in page.notices]
    parts.append("\n".join(f"- {_safe(name)}: {_safe(value)}" for name, value in page.facts))
    parts += [_markdown_block(block) for block in page.blocks]
    parts.append("\n".join(f"- {_safe(note)}" for note in page.notes))
    return "\n\n".join(parts)


def _safe(text: str) -> str:
    """Keep user text from being read as markup, and on one line."""
    text = visible(" ".join(text.split()))
    for character in "\\`*_|<>[]":
        text = text.replace(character, "\\" + character)
    return text


def _markdown_block(block: Block) -> str:
    def line(row: tuple[str, ...]) -> str:
        return "| " + " | ".join(_safe(cell) for cell in row) + " |"

    rule = "|:---|" + "---:|" * (len(block.header) - 1)
    rows = "\n".join(line(row) for row in block.rows)
    title = f"**{_safe(block.title)}**\n\n" if block.title else ""
    return f"{title}{line(block.header)}\n{rule}\n{rows}"
