"""The pictures of a report: as many as the page can carry, or a sentence in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from selfselect import plots
from selfselect.errors import MissingDependencyError, UnsupportedError
from selfselect.plots.svg import draw_svg, page_axes, page_style
from selfselect.report.document import Choice, Paragraph, Pictures

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["along_covariates", "chart", "covariates_shown"]

MOST_COVARIATES = 8
MOST_PANELS = 24
"""Panels of all pictures along covariates: each takes some 15 kB and a tenth of a second."""

Panel = dict[str, Any]


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
    try:
        with page_style():
            picture = draw(page_axes(panels, **size))
    except (UnsupportedError, MissingDependencyError) as error:
        return Paragraph(f"No picture here. {error}")
    return Pictures(draw_svg(picture, name, caption), caption)


def covariates_shown(fit: FitResult) -> tuple[str, ...]:
    """Return the covariates pictures are drawn along: the first few where there are many."""
    equations = fit.problem.equations
    most = max(1, min(MOST_COVARIATES, MOST_PANELS // equations.n_alternatives))
    return equations.covariates[:most]


def along_covariates(
    fit: FitResult,
    name: str,
    caption: Callable[[str], str],
    draw: Callable[[str, tuple[Any, ...]], plots.Picture | plots.LinesPicture],
    **size: Any,
) -> Choice | Paragraph:
    """Draw one picture along each covariate, to choose from."""
    options: list[tuple[str, Pictures]] = []
    for number, covariate in enumerate(covariates_shown(fit), 1):
        made = chart(
            f"{name}-{number}",
            caption(covariate),
            lambda axes, covariate=covariate: draw(covariate, axes),  # type: ignore[misc]
            **size,
        )
        if isinstance(made, Paragraph):
            return made
        options.append((covariate, made))
    if not options:
        return Paragraph("There is no covariate to draw along: every equation is a constant.")
    return Choice("covariate", tuple(options))
