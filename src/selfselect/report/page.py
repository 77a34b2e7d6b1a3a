"""A page: what a report says, before anyone decides how it looks."""

from __future__ import annotations

from dataclasses import dataclass

from selfselect.visible import on_one_line

__all__ = ["Block", "Page"]


@dataclass(frozen=True)
class Block:
    """A table with a title; the first column holds names, the others numbers, all as text."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


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
