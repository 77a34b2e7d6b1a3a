"""Chapters of the report: charts, covariates, and what the model says."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect import plots
from selfselect.errors import SelfSelectError, UnsupportedError
from selfselect.plots.base import columns_of, grid_of, is_category
from selfselect.plots.svg import ONE_BY_ONE, draw_svg, page_axes, page_style
from selfselect.report.document import (
    Choice,
    Code,
    Findings,
    Folded,
    Heading,
    Paragraph,
    Part,
    Pictures,
    Section,
)
from selfselect.report.page import Block, format_count, format_number, listed
from selfselect.results.estimates import sentences
from selfselect.results.rejections import assumptions_tested, tests_of_noise
from selfselect.solvers.base import starts_at_best

if TYPE_CHECKING:
    from selfselect.results.estimates import Fitted
    from selfselect.results.fit_result import FitResult


# The pictures of a report: as many as the page can carry, or a sentence in their place.


MOST_COVARIATES = 6
MOST_PANELS = 18
"""Panels of all pictures along covariates: each takes some 15 kB and a tenth of a second."""

MOST_INCHES = 20.0
"""Height of a panel."""


def chart(
    name: str,
    caption: str,
    draw: Callable[[tuple[Any, ...]], Any],
    *,
    panels: int = 1,
    **size: Any,
) -> Pictures | Paragraph:
    """Draw one picture, or say why it cannot be drawn.

    Parameters
    ----------
    name : unique on the page.
    caption : what it shows and how to read it.
    draw : draws on the given axes and returns a picture of the plots room.
    panels : how many axes it needs.
    size : of each panel, as `page_axes` takes it.
    """
    if panels > MOST_PANELS or size.get("height", 0.0) > MOST_INCHES:
        return Paragraph("No plot: there are too many alternatives.")
    with ONE_BY_ONE:
        try:
            with page_style():
                picture = draw(page_axes(panels, **size))
        except SelfSelectError as error:
            return Paragraph(f"No picture here. {error}")
        return Pictures(draw_svg(picture, name, caption), caption)


def lines_shown(fit: FitResult) -> list[str]:
    """Return the columns lines are drawn along: numbers, and the first few where there are many."""
    try:
        table = columns_of(fit)
    except UnsupportedError:
        return list(fit.problem.equations.covariates[:1])
    most = max(1, min(MOST_COVARIATES, MOST_PANELS // fit.problem.equations.n_alternatives))
    return [str(name) for name in table if not is_category(table[name])][:most]


def along(
    name: str,
    columns: Sequence[str],
    caption: Callable[[str], str],
    draw: Callable[[str, tuple[Any, ...]], plots.Picture | plots.LinesPicture],
    **size: Any,
) -> Choice | Pictures | Paragraph:
    """Draw one picture along each column, to choose from."""
    options: list[tuple[str, Pictures]] = []
    for number, column in enumerate(columns, 1):
        made = chart(f"{name}-{number}", caption(column), partial(draw, column), **size)
        if isinstance(made, Paragraph):
            return made
        options.append((column, made))
    shown = one_of("covariate", options)
    return shown[0] if shown else Paragraph("There is no covariate to plot against.")


def one_of(
    subject: str, options: Sequence[tuple[str, Pictures]]
) -> tuple[Choice] | tuple[Pictures] | tuple[()]:
    """Return pictures to choose from, the picture itself where there is one, or nothing."""
    if len(options) > 1:
        return (Choice(subject, tuple(options)),)
    return (options[0][1],) if options else ()


# The covariates of a fit in tables: numbers by their moments, categories by their shares.


Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def covariate_tables(fit: FitResult) -> list[Block]:
    """Describe the columns of the formulas, for all rows and where each alternative was chosen.

    Categories stand in their own order where they have one; of many the commonest are shown. Rows
    count by their weights.
    """
    table, chosen, weights = columns_of(fit), fit.rows.chosen, fit.rows.weights
    counts = np.ones(len(table)) if weights is None else weights
    labels = fit.problem.equations.alternatives if chosen is not None else ()
    groups: list[Mask] = [np.asarray(chosen == j) for j in range(len(labels))]
    numbers = [name for name in table if not is_category(table[name])]
    where = ", and where each was chosen" if labels else ""
    where += "" if weights is None else " (weighted)"
    made = []
    if numbers:
        header = ("", "mean", "std dev", "smallest", "largest", *(f"mean, {one}" for one in labels))
        lines = tuple(_numbers(str(name), table[name], groups, counts) for name in numbers)
        made.append(Block(f"Covariates that are numbers{where}", header, lines))
    for name in table:
        if is_category(table[name]):
            rows = "rows" if weights is None else "sum of weights"
            header = ("", rows, "share", *(f"share, {one}" for one in labels))
            title = f"{name}, shares of its categories{where}"
            made.append(Block(title, header, _shares(table[name], groups, counts)))
    return made


def _numbers(
    name: str, column: pd.Series[Any], groups: list[Mask], counts: Array
) -> tuple[str, ...]:
    values = column.to_numpy(dtype=float)
    recorded = ~np.isnan(values) & (counts > 0)
    known, own = values[recorded], counts[recorded]
    mean = np.average(known, weights=own)
    spread = np.sqrt(np.average((known - mean) ** 2, weights=own))
    found = [mean, spread, known.min(), known.max()]
    for group in groups:
        here = recorded & group
        found.append(np.average(values[here], weights=counts[here]) if here.any() else np.nan)
    return (name, *(format_number(float(number)) for number in found))


def _shares(
    column: pd.Series[Any], groups: list[Mask], counts: Array
) -> tuple[tuple[str, ...], ...]:
    recorded = column.notna().to_numpy() & (counts > 0)
    lines = []
    for label in grid_of(column[recorded]):
        here = (column == label).to_numpy(dtype=bool, na_value=False)
        shares = [_share(here, group & recorded, counts) for group in (recorded, *groups)]
        lines.append((str(label), format_count(counts[here].sum()), *shares))
    return tuple(lines)


def _share(here: Mask, group: Mask, counts: Array) -> str:
    return f"{100 * np.average(here[group], weights=counts[group]):.1f}%" if group.any() else ""


# The chapters of a report: what each says of a fit.


PACKAGES = ("numpy", "scipy", "pandas", "formulaic", "matplotlib")
MOST_POINTS = 600


def data_chapter(fit: FitResult) -> Section:
    """Say what the data is: counts, outcomes, covariates."""
    facts = fit.facts
    parts: list[Part] = [Paragraph(rows_in_words(fit))]
    if not fit.has_rows:
        parts.append(Paragraph(without_rows(fit)))
    else:
        parts += [outcome_table(fit), *covariate_tables(fit)]
    if facts.n_without_outcome:
        parts.append(
            Paragraph(
                f"{facts.n_without_outcome} rows without a recorded outcome were left out on "
                "request: that selects on the outcome unless they are missing at random."
            )
        )
    return Section("The data", tuple(parts))


def without_rows(fit: FitResult) -> str:
    """Say why a report lacks what needs rows."""
    if fit.engine is None:
        return (
            "This fit was loaded from a file, which keeps no rows, so parts that need rows are "
            "left out. Write the report right after fitting to include them."
        )
    return (
        "The rows of this fit were read piece by piece and are not in memory, so parts that need "
        "all of them at once are left out."
    )


def rows_in_words(fit: Fitted) -> str:
    """Say how many rows there are, what their outcomes are, and what else counts for them."""
    facts = fit.facts
    low, high = facts.outcome_range
    rows = "rows" if facts.case is None else f"cases with {facts.n_long_rows} rows"
    text = (
        f"{facts.n_rows} {rows}; {fit.coding.equations.outcome} runs from {format_number(low)} to "
        f"{format_number(high)}."
    )
    if facts.n_dropped:
        text += f" {facts.n_dropped} more rows were left out for a missing covariate."
    if facts.weights:
        text += f" Rows are weighted by {facts.weights} (sum {facts.weight_total:g})."
    if facts.cluster:
        text += f" They are clustered by {facts.cluster}."
    if facts.n_silent:
        text += f" In {facts.n_silent} of them no outcome was recorded."
    return text


def outcome_table(fit: FitResult) -> Block:
    """Describe recorded outcomes, all and by chosen alternative; rows count by their weights."""
    outcome, chosen, weights = fit.rows.outcome, fit.rows.chosen, fit.rows.weights
    assert outcome is not None
    counts = np.ones(len(outcome)) if weights is None else weights
    recorded = ~np.isnan(outcome) & (counts > 0)
    total = counts[recorded].sum()

    def line(name: str, which: NDArray[np.bool_]) -> tuple[str, ...]:
        values, own = outcome[which & recorded], counts[which & recorded]
        if not len(values):
            return (name, "0", "0.0%", "", "", "", "")
        mean = np.average(values, weights=own)
        spread = np.sqrt(np.average((values - mean) ** 2, weights=own))
        shown = [format_number(float(v)) for v in (mean, spread, values.min(), values.max())]
        return (name, format_count(own.sum()), f"{100 * own.sum() / total:.1f}%", *shown)

    name = fit.problem.equations.outcome
    rows, weighted = ("rows", "") if weights is None else ("sum of weights", " (weighted)")
    header = ("", rows, "share", "mean", "std dev", "smallest", "largest")
    lines = [line("all", recorded)]
    if chosen is None:
        return Block(f"Recorded {name}{weighted}", header, tuple(lines))
    lines += [
        line(str(label), chosen == j) for j, label in enumerate(fit.problem.equations.alternatives)
    ]
    return Block(f"Recorded {name}, by chosen alternative{weighted}", header, tuple(lines))


def comparison_chapter(fit: FitResult, level: float) -> Section:
    """Put least squares beside the corrected estimates."""
    k = fit.problem.equations.n_alternatives
    page = fit.compare().to_page()
    terms = list(dict.fromkeys(t for one in fit.problem.equations.each for t in one.terms))
    shown = min(len(terms), 12)
    columns = lines_shown(fit)
    parts: list[Part] = [
        along(
            "lines",
            columns,
            lambda name: (
                f"{fit.problem.equations.outcome} against {name}, the other columns at their "
                f"means: recorded outcomes (at most {MOST_POINTS}), the least-squares line through "
                "them (dashed) and the corrected line of the whole population (solid)."
            ),
            lambda name, axes: plots.selection_lines(fit, name, most_points=MOST_POINTS, axes=axes),
            panels=k,
            sharey=True,
        ),
        chart(
            "coefficients",
            f"Coefficients with {100 * level:g}% intervals: least squares (open diamonds) and "
            "corrected (filled circles)."
            + (f" The first {shown} of {len(terms)} terms." if shown < len(terms) else ""),
            lambda axes: plots.coefficients(fit, terms[:shown], level=level, axes=axes),
            panels=shown,
            width=3.3,
            height=1.3 + 0.5 * k,
        ),
        *page.blocks,
        *(Paragraph(note) for note in page.notes),
    ]
    if fit.has_rows and len(columns) < columns_of(fit).shape[1]:
        left_out = [str(name) for name in columns_of(fit) if str(name) not in columns]
        parts.insert(1, Paragraph(f"Not shown: {listed(left_out)}."))
    return Section("Least squares and corrected estimates", tuple(parts))


def estimates_chapter(fit: Fitted, level: float) -> Section:
    """Show the full tables of estimates."""
    page = fit.summary(level)
    facts = Block("The fit as a whole", ("", ""), tuple(page.facts))
    return Section("Corrected estimates in full", (*page.blocks, facts))


def diagnosis_chapter(fit: FitResult) -> Section:
    """Say in sentences what the data determines, and draw what can be checked by eye."""
    weak = sentences(fit.page_facts(), "weak")
    tests = (fit.independence_test(), *tests_of_noise(fit))
    said = [f"{test}.".replace("..", ".") for test in tests]
    notes = [note for note in fit.summary().notes if note not in weak and note not in said]
    entries = [("fine" if fit.converged else "weak", f"{_solver(fit)}: {fit.status}")]
    assumed = assumptions_tested(fit).values()
    for test, sentence in zip(tests, said, strict=True):
        verdict = "note" if test not in assumed or not test.possible else "fine"
        entries.append(("weak" if verdict == "fine" and test.rejects() else verdict, sentence))
    entries += [("note", note) for note in notes]
    entries += [("weak", one) for one in weak]
    # What was not tested is among the tests already.
    entries += [("fine", f.sentence) for f in fit.diagnose().findings if f.verdict == "fine"]
    k = fit.problem.equations.n_alternatives
    parts = _sorted_by_verdict(entries)
    if fit.has_rows:
        parts += [
            chart(
                "residuals",
                "Generalised residuals and their means in bins with 95% intervals. Under the "
                "model the mean is zero everywhere: about one interval in twenty misses the line.",
                lambda axes: plots.residuals(fit, most_points=MOST_POINTS // k, axes=axes),
                panels=k,
                sharey=True,
                height=3.0,
            ),
        ]
    if fit.has_rows and not fit.problem.likelihood.joint:
        parts.append(
            chart(
                "quantiles",
                "Quantiles of the noise in the data, with unobserved outcomes taken into account, "
                f"against {fit.problem.noise.margin.name} ones. On the line the assumed shape "
                "fits; the band is a pointwise 95% interval.",
                lambda axes: plots.qq(fit, axes=axes),
                panels=k if fit.problem.likelihood.convex_sets else 1,
                width=3.4,
                height=3.4,
            )
        )
    parts.append(
        chart(
            "convergence",
            "The solver's steps: distance to the optimum in standard errors, and how much "
            "log-likelihood was still missing.",
            lambda axes: plots.convergence(fit, axes=axes),
            panels=2,
            height=2.8,
        )
    )
    return Section("What was tested, and what not", tuple(parts))


def _sorted_by_verdict(entries: list[tuple[str, str]]) -> list[Part]:
    """Show what is doubtful and what was not tested; fold what is fine."""

    def of(verdict: str) -> Findings:
        return Findings(tuple(entry for entry in entries if entry[0] == verdict))

    weak, note, fine = of("weak"), of("note"), of("fine")
    parts: list[Part] = []
    if weak.entries:
        parts += [Heading("Doubtful"), weak]
    else:
        parts.append(Paragraph("No check below found anything doubtful."))
    if note.entries:
        parts += [Heading("Not tested, or without a verdict"), note]
    if fine.entries:
        checks = "1 check" if len(fine.entries) == 1 else f"{len(fine.entries)} checks"
        parts.append(Folded(f"{checks} found nothing wrong", (fine,)))
    return parts


def _solver(fit: FitResult) -> str:
    return f"{fit.solution.solver_name}, since {fit.solver_reason}"


def membership_chapter(fit: FitResult) -> Section | None:
    """Say which alternatives are likely, where choices were not recorded, and how starts agreed."""
    if fit.problem.index == "known":
        return None
    shares = tuple((str(label), f"{100 * share:.1f}%") for label, share in fit.shares.items())
    parts: list[Part] = [Block("Expected share of the rows", ("", "share"), shares)]
    if fit.has_rows:
        parts.append(
            chart(
                "responsibilities",
                "The probability that each alternative was chosen, in the order of the rows.",
                lambda axes: plots.responsibilities(fit, axes=axes),
                width=6.0,
                height=2.8,
            )
        )
    n_starts = len(fit.solution.starts)
    if n_starts:
        weight = fit.facts.weight_total / fit.facts.n_rows
        agree = starts_at_best(fit.solution.starts, weight)
        parts.append(Paragraph(f"{agree} of {n_starts} starts of the search ended here."))
        parts.append(
            chart(
                "starts",
                "How far below the best optimum each start of the search ended.",
                lambda axes: plots.starts(fit, axes=axes),
                width=5.2,
                height=1.2 + 0.22 * min(n_starts, 40),
            )
        )
    return Section("Which alternative was chosen", tuple(parts))


def reproduction(call: str | None, command: str | None, solved: str) -> Section:
    """Give a call, a command and versions; `solved` says how the estimate was made."""
    parts: list[Part] = []
    if command is not None:
        parts += [Paragraph("The command:"), Code(command)]
    if call is not None:
        parts += [Paragraph("The call in Python:"), Code(f"import selfselect as ss\n\n{call}")]
    else:
        parts.append(Paragraph("The call that made this fit was not kept."))
    parts.append(Paragraph(solved))
    rows = [("selfselect", _version("selfselect")), ("Python", platform.python_version())]
    rows += [(name, _version(name)) for name in PACKAGES]
    parts.append(Block("Versions that wrote this report", ("", ""), tuple(rows)))
    return Section("To reproduce it", tuple(parts))


def _version(name: str) -> str:
    if name == "selfselect":
        from selfselect import __version__

        return __version__
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
