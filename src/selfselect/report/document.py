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
from selfselect.results.rejections import tests_in_words
from selfselect.rules import picks
from selfselect.visible import FROM_THE_RIGHT, left_to_right, visible

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


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


# The question a fit answers, in words.


MOST_NAMED = 8

MOST_COMPARED = 4
"""Alternatives, those chosen most often, of which all pairs are compared."""


def headline(fit: FitResult) -> str:
    """Return the title of the report."""
    equations = fit.problem.equations
    kind = "self-selection" if fit.problem.equations.selection is None else fit.model
    return f"{equations.outcome} under {kind}: {listed(equations.alternatives)}"


def question(fit: FitResult) -> tuple[str, ...]:
    """Say what was asked, what was recorded, and what would be biased without the rule."""
    equations, facts = fit.problem.equations, fit.facts
    if equations.selection is not None:
        return _question_of_selection(fit)
    outcome, k = equations.outcome, equations.n_alternatives
    rows = "rows" if facts.case is None else "cases"
    return (
        f"Each of {facts.n_rows} {rows} has a value of {outcome} for each of {k} alternatives: "
        f"{listed(equations.alternatives)}. At most one of the {k} was recorded: "
        f"{selected(fit)}. {_recorded(fit)}",
        f"How does {outcome} depend on {listed(_covariates(fit)) or 'a constant alone'} in each "
        "alternative, for everyone and not only for those who chose it? Least squares on what was "
        "recorded answers another question: those who chose an alternative are not like the "
        f"others, because {'outcomes and costs' if _costs(fit) else 'the outcomes themselves'} "
        "decided the choice.",
        f"The model: {fit.problem.rule.name}{_estimated_costs(fit)}; noise is "
        f"{fit.problem.noise.name}. The answers hold as far as these assumptions do.",
    )


def _question_of_selection(fit: FitResult) -> tuple[str, ...]:
    """Say the same where a selection equation selects."""
    equations, facts = fit.problem.equations, fit.facts
    outcome = equations.outcome
    if equations.n_alternatives == 1:
        (shown,), (selected,) = facts.shown, facts.counts
        part = f"the {selected}" if shown == selected else f"{shown} of the {selected}"
        observed = f"only in {part} rows that were selected"
        whom = "for everyone and not only for the selected"
    else:
        observed = (
            f"for one of {equations.n_alternatives} alternatives, {listed(equations.alternatives)}"
        )
        whom = "in each alternative, for everyone and not only for those found in it"
    return (
        f"In {facts.n_rows} rows {outcome} was observed {observed}. Selection follows an equation "
        f"of its own: {facts.selection}.",
        f"How does {outcome} depend on {listed(_covariates(fit)) or 'a constant alone'}, {whom}? "
        "Least squares on what was observed answers another question: where the noise of the "
        "outcome is correlated with that of the selection, those observed are not like the others.",
        f"The model: {fit.problem.rule.name}; noise is {fit.problem.noise.name}. The answers hold "
        "as far as these assumptions do.",
    )


def notices(fit: FitResult, level: float) -> tuple[str, ...]:
    """Return what a reader must know before anything else."""
    weak = tuple(finding.sentence for finding in fit.diagnose().weak)
    return (*fit.summary(level).notices, *weak)


def nothing_to_warn_of(fit: FitResult) -> str:
    """Say what was looked at where nothing is wrong, and what was not."""
    return (
        "No warning was raised: the solver converged, and nothing looked weakly determined. "
        f"{tests_in_words(fit)} That does not prove the model right."
    )


def pairs_compared(labels: Sequence[Any], shares: Sequence[float]) -> tuple[tuple[Any, Any], ...]:
    """Return pairs of alternatives as answer, tables and pictures compare them.

    In a pair the alternative that is later in the order of the fit stands first, and is compared
    with the earlier one; pairs of those chosen most often stand before the others.
    """
    places = sorted(range(len(labels)), key=lambda j: -float(shares[j]))[:MOST_COMPARED]
    return tuple((labels[max(pair)], labels[min(pair)]) for pair in combinations(places, 2))


def selected(fit: FitResult) -> str:
    """Say which of the outcomes is selected."""
    which = picks(fit.problem.ordered_rule)
    return which + (f", {_costs(fit)}" if _costs(fit) else "")


def _costs(fit: FitResult) -> str:
    """Say what kind of costs count for the choice; empty where none do."""
    kinds = []
    if getattr(fit.problem.rule, "cost", None):
        kinds.append("known")
    if fit.problem.equations.costs:
        kinds.append("estimated")
    return f"counting {' and '.join(kinds)} costs" if kinds else ""


def _estimated_costs(fit: FitResult) -> str:
    labels = [cost.alternative for cost in fit.problem.equations.costs]
    return f", counting estimated costs of {listed(labels)}" if labels else ""


def _recorded(fit: FitResult) -> str:
    """Say where it was recorded which alternative was chosen, and where the outcome was not."""
    facts = fit.facts
    if fit.problem.index == "unknown":
        said = "Which one it is was not recorded."
    elif facts.chosen:
        said = f"The column {facts.chosen} says which one it is"
        said += f", but in {facts.n_undecided} rows." if facts.n_undecided else "."
    else:
        said = "It is known which one it is."
    if facts.n_silent:
        said += f" In {facts.n_silent} rows no outcome was recorded."
    return said


def _covariates(fit: FitResult) -> list[str]:
    """Return the covariates of outcomes; those of costs alone are none of them."""
    equations = fit.problem.equations
    used = sorted({column for one in equations.each for column in one.columns if column})
    return [str(equations.covariates[column - 1]) for column in used]


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
