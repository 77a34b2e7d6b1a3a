"""A report: what it is made of, the question it answers, and how it looks as one file."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import combinations
from typing import TYPE_CHECKING, Any

from selfselect.plots.svg import Drawing
from selfselect.report.page import Block
from selfselect.results.estimates import sentences
from selfselect.visible import FROM_THE_RIGHT, left_to_right, visible

if TYPE_CHECKING:
    from selfselect.results.estimates import Fitted


# A document: the full report of a fit, before anyone decides how it looks.


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


# What stands first, and which alternatives are compared.


MOST_COMPARED = 4
"""Alternatives, those chosen most often, of which all pairs are compared."""


def notices(fit: Fitted) -> tuple[str, ...]:
    """Return what a reader must know before anything else."""
    return sentences(fit.page_facts(), "grave", "weak")


def pairs_compared(labels: Sequence[Any], shares: Sequence[float]) -> tuple[tuple[Any, Any], ...]:
    """Return pairs of alternatives as answer, tables and pictures compare them.

    In a pair the alternative that is later in the order of the fit stands first, and is compared
    with the earlier one; pairs of those chosen most often stand before the others.
    """
    places = sorted(range(len(labels)), key=lambda j: -float(shares[j]))[:MOST_COMPARED]
    return tuple((labels[max(pair)], labels[min(pair)]) for pair in combinations(places, 2))


# Templates of pages that are one file: everything is escaped, and nothing may be fetched.


def render_page(
    template: str, *, style: tuple[str, ...], script: tuple[str, ...], **values: Any
) -> str:
    """Render a template with style and script inside.

    The page's security policy allows this script alone, by its hash, and no connection.

    Parameters
    ----------
    template, style, script : files of the package, such as ``report/full_page.html``.
    values : for the template; escaped where they are shown, unless they are `markupsafe.Markup`.
    """
    from markupsafe import Markup

    # What a browser hashes is the text between the tags, as it is.
    code = "\n" + "\n".join(map(_file, script))
    digest = base64.b64encode(hashlib.sha256(code.encode("utf-8")).digest()).decode("ascii")
    made: str = (
        _environment()
        .get_template(template)
        .render(
            style=Markup("\n".join(map(_file, style))),
            script=Markup(code),
            script_hash=f"sha256-{digest}",
            **values,
        )
    )
    return made


def _file(name: str) -> str:
    return files("selfselect").joinpath(name).read_text(encoding="utf-8")


def _shown(value: Any) -> Any:
    """Return what a template shows of a value; markup, which holds no text of a user, as it is."""
    return left_to_right(value) if type(value) is str else value


def typed(text: str) -> Any:
    """Return text to be typed as markup; what is quoted runs in the direction of its letters."""
    from markupsafe import Markup, escape

    parts = re.split(f"('[^']*[{FROM_THE_RIGHT}][^']*')", visible(text))
    quoted = Markup("<bdi>{}</bdi>")
    return Markup("").join(
        quoted.format(part) if place % 2 else escape(part) for place, part in enumerate(parts)
    )


@cache
def _environment() -> Any:
    # Imported here: most processes write no page.
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.policies["json.dumps_kwargs"] = {
        "allow_nan": False,
        "separators": (",", ":"),
    }
    return environment


# Documents as one HTML file that needs no other: style, script and pictures inside.
#
# The template escapes everything; drawings are the only markup that it takes as it is, since
# `plots.svg` has parsed and escaped them.


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
