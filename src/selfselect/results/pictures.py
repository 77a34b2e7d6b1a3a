"""Pictures as methods of a fit: each calls the function of `selfselect.plots` of its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd

    from selfselect.bounding.bounds import Bounds
    from selfselect.plots import LinesPicture, Picture
    from selfselect.results.fit_result import FitResult

__all__ = ["Pictures"]


@dataclass(frozen=True, repr=False)
class Pictures:
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
