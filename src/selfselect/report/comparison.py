"""Least squares beside corrected estimates: a table, and a page that shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from selfselect.report.page import Page
from selfselect.report.summary import compare_page
from selfselect.results.tables import comparison_table, counted

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


@dataclass(frozen=True, eq=False)
class Comparison:
    """Least squares beside corrected estimates. Print it, or read its `table`.

    Attributes
    ----------
    table : by alternative and term ``naive``, ``naive_se``, ``corrected``, ``corrected_se`` and
        ``difference under the model``.
    compose : makes the page, with what to doubt first.
    """

    table: pd.DataFrame
    compose: Callable[[], Page] = field(repr=False)

    def to_page(self) -> Page:
        """Compose a page, which renders as text, HTML, LaTeX and Markdown."""
        return self.compose()

    def __str__(self) -> str:
        return self.to_page().to_text()

    def __repr__(self) -> str:
        return f"<Comparison: {counted(len(self.table))} in .table; print it for the page>"

    def _repr_html_(self) -> str:
        return self.to_page().to_html()


def compare(fit: FitResult) -> Comparison:
    """Compare least squares with the corrected estimates: a page with a `table`.

    The column ``difference under the model`` is selection bias only if the model's
    assumptions hold; `rejections` says where they do not, and how much that matters. Standard
    errors of least squares are of the same kind as those of the fit: clustered, robust or
    weighted; with a bootstrap they are robust, or clustered.
    """
    return Comparison(comparison_table(fit), partial(compare_page, fit))
