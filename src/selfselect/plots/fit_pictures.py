"""Pictures as methods of a fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar

from selfselect import plots
from selfselect.plots import Picture

if TYPE_CHECKING:
    from selfselect.plots.bounds import HasBands
    from selfselect.results.fit_result import FitResult

Asked = ParamSpec("Asked")
Drawn = TypeVar("Drawn")


def _of_fit(
    draw: Callable[Concatenate[FitResult, Asked], Drawn],
) -> Callable[Concatenate[FitPictures, Asked], Drawn]:
    """Return a picture that takes a fit as a method of the pictures of one."""

    def method(pictures: FitPictures, /, *given: Asked.args, **options: Asked.kwargs) -> Drawn:
        return draw(pictures.fit, *given, **options)

    update_wrapper(method, draw)
    return method


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

    selection_lines = _of_fit(plots.selection_lines)
    coefficients = _of_fit(plots.coefficients)
    choice_probabilities = _of_fit(plots.choice_probabilities)
    potential_outcomes = _of_fit(plots.potential_outcomes)
    qq = _of_fit(plots.qq)
    residuals = _of_fit(plots.residuals)
    responsibilities = _of_fit(plots.responsibilities)
    convergence = _of_fit(plots.convergence)
    starts = _of_fit(plots.starts)

    def counterfactual(
        self,
        *,
        close: Any = (),
        subsidy: Mapping[Any, float] | None = None,
        level: float = 0.95,
        axes: Any = None,
    ) -> Picture:
        """Draw what closing or subsidising alternatives does to shares and the mean outcome."""
        change = self.fit.counterfactual(close=close, subsidy=subsidy, level=level)
        return plots.counterfactual(change, axes=axes)

    def bounds(
        self,
        of: Sequence[str] | HasBands | None = None,
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
        if of is not None and not isinstance(of, Sequence):
            return plots.bounds(of, axes=axes)
        found = self.fit.bounds(by, instrument=instrument, support=support, level=level)
        return plots.bounds(found, of, axes=axes)

    def gains(self, to: Any, versus: Any, *, level: float = 0.95, axes: Any = None) -> Picture:
        """Draw the distribution of the gains of `to` over `versus`."""
        return plots.gains(self.fit.gains(to, versus, level=level), axes=axes)

    def mte(
        self,
        *,
        kind: Literal["normal", "polynomial"] = "normal",
        level: float = 0.95,
        axes: Any = None,
    ) -> Picture:
        """Draw marginal treatment effects of a switching regression, with band and support."""
        return plots.mte(self.fit.mte(kind=kind, level=level), axes=axes)

    def sensitivity(
        self,
        quantities: Sequence[str] | None = None,
        *,
        rho: Any = None,
        level: float = 0.95,
        axes: Any = None,
    ) -> Picture:
        """Draw estimates along assumed correlations; fits the model at each of them."""
        return plots.sensitivity(self.fit.sensitivity(rho, level=level), quantities, axes=axes)
