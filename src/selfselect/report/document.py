"""A document: the full report of a fit, before anyone decides how it looks."""

from __future__ import annotations

from dataclasses import dataclass

from selfselect.plots.svg import Drawing
from selfselect.report.page import Block

__all__ = [
    "Choice",
    "Code",
    "Document",
    "Findings",
    "Folded",
    "Heading",
    "Paragraph",
    "Part",
    "Pictures",
    "Section",
]


@dataclass(frozen=True)
class Paragraph:
    """Some sentences."""

    text: str


@dataclass(frozen=True)
class Heading:
    """The headline of what follows, inside a section."""

    text: str


@dataclass(frozen=True)
class Findings:
    """Sentences with a verdict each: ``fine``, ``weak``, or ``note`` where there is none."""

    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Code:
    """Text to be typed as it is."""

    text: str


@dataclass(frozen=True)
class Pictures:
    """Drawings that belong together, with one caption."""

    drawings: tuple[Drawing, ...]
    caption: str


@dataclass(frozen=True)
class Choice:
    """Pictures of which one is shown at a time.

    Attributes
    ----------
    subject : what is chosen; choices of one subject move together.
    options : names and pictures.
    """

    subject: str
    options: tuple[tuple[str, Pictures], ...]


@dataclass(frozen=True)
class Folded:
    """Parts for those who ask: shown when their title is clicked, and on paper."""

    title: str
    parts: tuple[Findings | Block, ...]


Part = Paragraph | Heading | Findings | Code | Pictures | Choice | Block | Folded


@dataclass(frozen=True)
class Section:
    """A part of the document with its headline."""

    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Document:
    """A report with its answer and its warnings first.

    Attributes
    ----------
    title : the headline.
    answer : the answer in words, a paragraph each; empty where there is none.
    question : what was asked, in words.
    notices : what a reader must know before anything else.
    sections : all the rest.
    nothing : what is said in place of notices where there are none.
    """

    title: str
    answer: tuple[str, ...]
    question: tuple[str, ...]
    notices: tuple[str, ...]
    sections: tuple[Section, ...]
    nothing: str = ""
