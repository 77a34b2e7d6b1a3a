"""Documents as one HTML file that needs no other: style, script and pictures inside.

Everything that comes from the user passes through `escape`; what the script reads is JSON in which
no tag can begin.
"""

from __future__ import annotations

import json
import re
from html import escape
from importlib.resources import files
from string import Template

from selfselect.report.document import (
    Choice,
    Code,
    Document,
    Findings,
    Folded,
    Heading,
    Paragraph,
    Part,
    Pictures,
    Section,
)
from selfselect.report.page import Block

__all__ = ["render"]

VERDICTS = {"fine": "fine", "weak": "doubtful", "note": "note"}


def render(document: Document) -> str:
    """Render a document as a whole page."""
    names = [f"part-{number}" for number in range(1, len(document.sections) + 1)]
    links = "".join(
        f'<li><a href="#{name}">{escape(section.title)}</a></li>'
        for name, section in zip(names, document.sections, strict=True)
    )
    body = "\n".join(
        _section(name, section) for name, section in zip(names, document.sections, strict=True)
    )
    return Template(_file("full_page.html")).substitute(
        title=escape(document.title),
        style=_file("full_page.css"),
        script=_file("full_page.js"),
        notices=_notices(document),
        question="".join(f"<p>{escape(sentence)}</p>" for sentence in document.question),
        links=links,
        sections=body,
    )


def _file(name: str) -> str:
    return files("selfselect.report").joinpath(name).read_text(encoding="utf-8")


def _notices(document: Document) -> str:
    if not document.notices:
        return f'<p class="nothing">{escape(document.nothing)}</p>'
    return "\n".join(
        f'<p class="notice" role="alert">{_loud(notice)}</p>' for notice in document.notices
    )


def _loud(notice: str) -> str:
    """Set the capitals that some notices begin with in bold."""
    begin = re.match(r"[A-Z][A-Z ]+[:.]", notice)
    if begin is None:
        return escape(notice)
    return f"<strong>{escape(begin.group())}</strong>{escape(notice[begin.end() :])}"


def _section(name: str, section: Section) -> str:
    parts = "\n".join(_part(part) for part in section.parts)
    return f'<section id="{name}">\n<h2>{escape(section.title)}</h2>\n{parts}\n</section>'


def _part(part: Part) -> str:
    if isinstance(part, Paragraph):
        return f"<p>{escape(part.text)}</p>"
    if isinstance(part, Heading):
        return f"<h3>{escape(part.text)}</h3>"
    if isinstance(part, Folded):
        tables = "\n".join(map(_table, part.blocks))
        return f"<details><summary>{escape(part.title)}</summary>\n{tables}</details>"
    if isinstance(part, Findings):
        lines = "".join(
            f'<li class="{verdict}"><b>{VERDICTS[verdict]}</b> {escape(sentence)}</li>'
            for verdict, sentence in part.entries
        )
        return f'<ul class="findings">{lines}</ul>'
    if isinstance(part, Code):
        return f"<pre><code>{escape(part.text)}</code></pre>"
    if isinstance(part, Block):
        return _table(part)
    if isinstance(part, Choice):
        return _choice(part)
    return _pictures(part)


def _table(block: Block) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in block.header)
    body = "\n".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in block.rows
    )
    top = f"<thead><tr>{head}</tr></thead>" if any(block.header) else ""
    kind = "" if top else ' class="facts"'
    caption = f"<caption>{escape(block.title)}</caption>"
    table = f"<table{kind}>{caption}{top}\n<tbody>{body}</tbody></table>"
    return f'<div class="wide" tabindex="0">{table}</div>'


def _choice(choice: Choice) -> str:
    subject = escape(choice.subject)
    names = [escape(name) for name, _ in choice.options]
    options = "".join(f'<option value="{name}">{name}</option>' for name in names)
    pictures = "\n".join(
        f'<div data-subject="{subject}" data-option="{name}"{"" if first else " hidden"}>'
        f"{_pictures(one)}</div>"
        for first, name, (_, one) in zip(
            [True] + [False] * len(names), names, choice.options, strict=False
        )
    )
    return (
        f'<div class="choice"><label class="chooser">{subject} '
        f'<select data-chooses="{subject}" autocomplete="off">{options}</select></label>\n'
        f"{pictures}</div>"
    )


def _pictures(pictures: Pictures) -> str:
    drawn = "\n".join(
        f'<div class="panel" style="width: {1.25 * one.width:.0f}px" tabindex="0">{one.svg}'
        f'<script type="application/json">{_safe_json(one.marks)}</script></div>'
        for one in pictures.drawings
    )
    caption = f"<figcaption>{escape(pictures.caption)}</figcaption>"
    return f'<figure><div class="panels">{drawn}</div>{caption}</figure>'


def _safe_json(value: object) -> str:
    """Write JSON in which no tag and no comment can begin or end."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
