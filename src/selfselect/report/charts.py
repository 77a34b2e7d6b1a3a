"""The pictures of a report: as many as the page can carry, or a sentence in their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from selfselect import plots
from selfselect.errors import SelfSelectError, UnsupportedError
from selfselect.plots.paths import columns_of, is_category
from selfselect.plots.svg import ONE_BY_ONE, draw_svg, page_axes, page_style
from selfselect.report.document import Choice, Paragraph, Pictures

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["MOST_COVARIATES", "along", "chart", "lines_shown", "one_of"]

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
