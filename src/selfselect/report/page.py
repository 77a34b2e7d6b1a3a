"""A page: what a report says, before anyone decides how it looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from selfselect.visible import on_one_line

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Block", "Page"]


@dataclass(frozen=True)
class Block:
    """A table with a title; the first column holds names, the others numbers, all as text."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, title: str, table: pd.DataFrame) -> Block:
        """Write a table whose index holds the names of its rows."""
        from selfselect.report.numbers import format_number

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
        from selfselect.report.text import render

        return render(self)

    def to_html(self) -> str:
        """Render as an HTML fragment; everything from the user is escaped."""
        from selfselect.report.html import render

        return render(self)

    def to_latex(self) -> str:
        """Render as a LaTeX table (booktabs)."""
        from selfselect.report.latex import render

        return render(self)

    def to_markdown(self) -> str:
        """Render as Markdown."""
        from selfselect.report.markdown import render

        return render(self)

    def __repr__(self) -> str:
        return f"<Page: {on_one_line(self.title)}; print it to read>"

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return self.to_html()
