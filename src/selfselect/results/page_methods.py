"""What is written of a fit, as methods of it: tables, sentences, pages, pictures and files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from selfselect.results._methods import FitMethods
from selfselect.results.comparison import Comparison
from selfselect.results.tables import comparison_table, glance_table
from selfselect.threads import one_blas_thread

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from selfselect.options import Intervals
    from selfselect.report.explain import Explanation
    from selfselect.report.page import Page
    from selfselect.results.pictures import Pictures

__all__ = ["VERDICT", "PageMethods"]

VERDICT = "verdict"
"""Under which a fit remembers the verdict that was made of it."""


class PageMethods(FitMethods):
    """How a fit is shown, sent and kept."""

    def glance(self) -> pd.DataFrame:
        """One row for the whole fit."""
        return glance_table(self._fit)

    def compare(self) -> Comparison:
        """Compare least squares with the corrected estimates: a page with a `table`.

        The column ``difference under the model`` is selection bias only if the model's
        assumptions hold; `rejections` says where they do not, and how much that matters. Standard
        errors of least squares are of the same kind as those of the fit: clustered, robust or
        weighted; with a bootstrap they are robust, or clustered.
        """
        from selfselect.report.summary import compare_page

        return Comparison(comparison_table(self._fit), partial(compare_page, self._fit))

    def explain(self, data: Any = None, *, level: float = 0.95) -> Explanation:
        """Explain the fit in a few sentences: the answer, the assumptions, and what to try.

        The sentences give effects for every pair of alternatives, with intervals, in per cent if
        the outcome is a logarithm. Rejected assumptions come first. If a `verdict` was made, it is
        quoted.

        Parameters
        ----------
        data : a table to average effects over; None for the rows of the fit, which a fit loaded
            from a file does not have.
        level : of all intervals.

        Examples
        --------
        >>> import selfselect as ss
        >>> villagers = ss.simulators.village(500, seed=1).data
        >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
        >>> "hunting instead of fishing" in result.explain().sentences[0]
        True
        """
        from selfselect.report.explain import explain

        return explain(self._fit, data, level=level)

    def summary(
        self, level: float = 0.95, *, intervals: Intervals = "wald", stars: bool = False
    ) -> Page:
        """Return the summary of the fit, which prints as text and is shown as HTML in notebooks.

        Parameters
        ----------
        level : of the intervals.
        intervals : ``"wald"`` or ``"profile"``, see `conf_int`.
        stars : whether estimates carry stars for p-values below 0.05, 0.01 and 0.001.
        """
        if self._fit.problem.noise.selected:
            from selfselect.report.selection_summary import summarise_selection

            with one_blas_thread():
                return summarise_selection(self._fit, level, intervals, stars=stars)
        from selfselect.report.summary import summarise

        with one_blas_thread():
            return summarise(self._fit, level, intervals, stars=stars)

    @property
    def plot(self) -> Pictures:
        """The pictures of the fit, such as ``fit.plot.coefficients()``."""
        from selfselect.results.pictures import Pictures

        return Pictures(self._fit)

    def report(
        self,
        path: str | Path,
        *,
        level: float = 0.95,
        verdict: Any = False,
        command: str | None = None,
    ) -> None:
        """Write everything about the fit into one HTML file to send to a colleague.

        The file needs no network and no other file. Where it cannot be written, the fit is
        unharmed.

        Parameters
        ----------
        path : of the file; one that is there is replaced.
        level : of all intervals.
        verdict : True to make a `verdict`, which fits more models, and show it; or its question.
            One that was made before is shown in any case.
        command : the shell command that made the fit, shown as it is, if there was one.
        """
        from selfselect.report.write import write_report

        if verdict is True and VERDICT not in self._fit.memory:
            self._fit.verdict(level=level)
        elif not isinstance(verdict, bool):
            self._fit.verdict(verdict, level=level)
        with one_blas_thread():
            write_report(self._fit, path, level=level, command=command)

    def explore(
        self,
        path: str | Path,
        data: Any = None,
        *,
        level: float = 0.95,
        rows: int | None = None,
        correlations: Sequence[float] | None = None,
    ) -> None:
        """Write an interactive page of predictions and effects, with sliders.

        Sliders and menus set covariates; the page shows chances, mean outcomes and their
        differences with intervals, what a subsidy, a tax or closing an alternative does to shares,
        means and who moves, the doubts about the fit, and the calls that give the same numbers.
        It is one file that needs no network.

        The page supports normal noise, independent or correlated between two alternatives, and
        rules by which the largest or the smallest outcome is observed; other fits raise an error
        with the reason.

        Parameters
        ----------
        path : of the file; one that is there is replaced.
        data : rows that the page averages over and takes means of; None for those of the fit.
        level : of all intervals.
        rows : how many rows the page may hold; None for as many as a browser averages quickly.
        correlations : where the noises of two alternatives are correlated, assumed correlations at
            which the model is fitted again; None for a few, where there are not too many rows.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> import selfselect as ss
        >>> villagers = ss.simulators.village(300, seed=1).data
        >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
        >>> with TemporaryDirectory() as folder:
        ...     page = Path(folder) / "village.html"
        ...     result.explore(page)
        ...     page.stat().st_size < 1_000_000
        True
        """
        from selfselect.explore.write import write_page

        write_page(self._fit, path, data, level=level, rows=rows, correlations=correlations)

    def save(self, path: str | Path) -> None:
        """Save as versioned JSON, without the rows; `selfselect.load` reads it back.

        A verdict that was made is saved too, without the fits of its other models.
        """
        from selfselect.results.archive import save

        save(self._fit, path)

    def _repr_html_(self) -> str:
        return self.summary().to_html()
