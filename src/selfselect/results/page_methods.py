"""Methods of a fit that write or draw it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from selfselect.results.effect_methods import FitMethods
from selfselect.results.tables import comparison_table, counted, glance_table
from selfselect.threads import one_blas_thread

if TYPE_CHECKING:
    from pathlib import Path

    from selfselect.bounding.bounds import Bounds
    from selfselect.options import Intervals
    from selfselect.plots import LinesPicture, Picture
    from selfselect.report.explain import Explanation
    from selfselect.report.page import Page
    from selfselect.report.summary import Portrait
    from selfselect.results.fit_result import FitResult


# Least squares beside corrected estimates: a table, and a page that shows it.


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


# Pictures as methods of a fit: each calls the function of `selfselect.plots` of its name.


@dataclass(frozen=True, repr=False)
class FitPictures:
    """The pictures of a fit, as ``fit.plot``; options are those of `selfselect.plots`.

    Examples
    --------
    >>> import selfselect as ss
    >>> sample = ss.simulators.village(500, seed=1)
    >>> fit = ss.fit(sample.formula, sample.data, chosen=sample.chosen)
    >>> fit.plot.coefficients(["height"])
    <Picture: 4 rows in .data; .figure saves it>
    """

    fit: FitResult

    def __repr__(self) -> str:
        names = [name for name in vars(type(self)) if not name.startswith("_") and name != "fit"]
        return f"<pictures of a fit: {', '.join(sorted(names))}>"

    def selection_lines(
        self,
        covariate: str,
        *,
        latent: pd.DataFrame | None = None,
        most_points: int = 1_500,
        axes: Any = None,
    ) -> LinesPicture:
        """Draw observed outcomes, and the lines of least squares and of the fit."""
        from selfselect.plots import selection_lines

        return selection_lines(
            self.fit, covariate, latent=latent, most_points=most_points, axes=axes
        )

    def coefficients(
        self, terms: Sequence[str] | None = None, *, level: float = 0.95, axes: Any = None
    ) -> Picture:
        """Draw coefficients with intervals, beside those of least squares."""
        from selfselect.plots import coefficients

        return coefficients(self.fit, terms, level=level, axes=axes)

    def choice_probabilities(
        self, covariate: str, *, level: float = 0.95, axes: Any = None
    ) -> Picture:
        """Draw the chance of every alternative along a covariate."""
        from selfselect.plots import choice_probabilities

        return choice_probabilities(self.fit, covariate, level=level, axes=axes)

    def potential_outcomes(
        self, covariate: str, *, level: float = 0.95, axes: Any = None
    ) -> Picture:
        """Draw the mean of every alternative's outcome along a covariate, of everyone."""
        from selfselect.plots import potential_outcomes

        return potential_outcomes(self.fit, covariate, level=level, axes=axes)

    def counterfactual(
        self,
        *,
        close: Any = (),
        subsidy: Mapping[Any, float] | None = None,
        level: float = 0.95,
        axes: Any = None,
    ) -> Picture:
        """Draw what closing or subsidising alternatives does to shares and the mean outcome."""
        from selfselect.plots import counterfactual

        change = self.fit.counterfactual(close=close, subsidy=subsidy, level=level)
        return counterfactual(change, axes=axes)

    def bounds(
        self,
        of: Sequence[str] | Bounds | None = None,
        *,
        by: str | Sequence[str] | None = None,
        instrument: str | None = None,
        support: Any = None,
        level: float = 0.95,
        axes: Any = None,
    ) -> Picture:
        """Draw what the rule alone says of distributions, and what the fit says, as bands.

        `of` names outcomes and differences; or it is what `FitResult.bounds` returned, which is
        then drawn as it is.
        """
        from selfselect.bounding.bounds import Bounds
        from selfselect.plots import bounds

        if isinstance(of, Bounds):
            return bounds(of, axes=axes)
        found = self.fit.bounds(by, instrument=instrument, support=support, level=level)
        return bounds(found, of, axes=axes)

    def gains(self, to: Any, versus: Any, *, level: float = 0.95, axes: Any = None) -> Picture:
        """Draw the distribution of the gains of `to` over `versus`."""
        from selfselect.plots import gains

        return gains(self.fit.gains(to, versus, level=level), axes=axes)

    def mte(
        self,
        *,
        kind: Literal["normal", "polynomial"] = "normal",
        level: float = 0.95,
        axes: Any = None,
    ) -> Picture:
        """Draw marginal treatment effects of a switching regression, with band and support."""
        from selfselect.plots import mte

        return mte(self.fit.mte(kind=kind, level=level), axes=axes)

    def qq(self, *, axes: Any = None) -> Picture:
        """Draw the quantiles of residuals against those of the assumed noise."""
        from selfselect.plots import qq

        return qq(self.fit, axes=axes)

    def residuals(
        self, covariate: str | None = None, *, most_points: int = 1_000, axes: Any = None
    ) -> Picture:
        """Draw generalised residuals along the fitted means or a covariate."""
        from selfselect.plots import residuals

        return residuals(self.fit, covariate, most_points=most_points, axes=axes)

    def responsibilities(
        self, time: Any = None, *, window: int | None = None, axes: Any = None
    ) -> Picture:
        """Draw which alternative was probably chosen, where that was not recorded."""
        from selfselect.plots import responsibilities

        return responsibilities(self.fit, time, window=window, axes=axes)

    def sensitivity(
        self,
        quantities: Sequence[str] | None = None,
        *,
        rho: Any = None,
        level: float = 0.95,
        axes: Any = None,
    ) -> Picture:
        """Draw estimates along assumed correlations; fits the model at each of them."""
        from selfselect.plots import sensitivity

        return sensitivity(self.fit.sensitivity(rho, level=level), quantities, axes=axes)

    def convergence(self, *, axes: Any = None) -> Picture:
        """Draw the steps of the solver."""
        from selfselect.plots import convergence

        return convergence(self.fit, axes=axes)

    def starts(self, *, axes: Any = None) -> Picture:
        """Draw where the starts of a search ended."""
        from selfselect.plots import starts

        return starts(self.fit, axes=axes)


# What is written of a fit, as methods of it: tables, sentences, pages, pictures and files.


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

        table = comparison_table(self._fit)
        return Comparison(table, partial(compare_page, self._fit, table))

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
        from selfselect.report.summary import summarise

        with one_blas_thread():
            return summarise(self._fit, level, intervals, stars=stars)

    def _portrait(self) -> Portrait:
        """Return what pages say of this fit that depends on its model."""
        from selfselect.report.portraits import FitPortrait, SelectionPortrait

        selected = self._fit.problem.equations.selection is not None
        return SelectionPortrait(self._fit) if selected else FitPortrait(self._fit)

    @property
    def plot(self) -> FitPictures:
        """The pictures of the fit, such as ``fit.plot.coefficients()``."""
        return FitPictures(self._fit)

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
