"""The result of a model with a selection equation, with the names of every other result."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.classics.design import CORRELATION, Design, Facts, OutcomeEquation
from selfselect.classics.hypotheses import independence_test, lr_test, wald_test_of_known
from selfselect.classics.predictions import predict
from selfselect.classics.tables import comparison_table, glance_table
from selfselect.data.equations import SCALE
from selfselect.inference.covariance import Covariance
from selfselect.inference.statistics import TestResult
from selfselect.problem.parameters import Reported
from selfselect.results.estimates import Estimates
from selfselect.rules.base import Label

if TYPE_CHECKING:
    from selfselect.inference.profile import Surface
    from selfselect.report.page import Page

__all__ = ["SelectionResult"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class SelectionResult(Estimates):
    """A fitted sample-selection or switching model.

    Attributes
    ----------
    design : the coded rows.
    method : ``ml`` or ``two-step``.
    reported : labels and values of all parameters.
    covariance : covariance of the estimates; missing for what has no standard error.
    llf : the log-likelihood, of selection and outcomes together; missing for two steps.
    llf_independent : that of the probit and of least squares, without correlation.
    converged, status, n_steps : how the solver ended.
    boundary : alternatives whose correlation with the selection is at its boundary.
    starts_reached : name, log-likelihood, convergence and steps of each start.
    unexplained : per outcome, the share of the Mills ratio that its covariates do not explain.
    """

    design: Design
    method: str
    reported: Reported
    covariance: Covariance
    llf: float
    llf_independent: float
    converged: bool
    status: str
    n_steps: int = 0
    boundary: tuple[Label, ...] = ()
    starts_reached: tuple[tuple[str, float, bool, int], ...] = ()
    unexplained: tuple[float, ...] = ()

    # estimates

    @property
    def model(self) -> str:
        """Which model: sample selection or switching."""
        return self.design.model

    @property
    def facts(self) -> Facts:
        """What to know of the data."""
        return self.design.facts

    @property
    def scales(self) -> pd.Series[float]:
        """The scale of the noise of every outcome."""
        return self.params.xs(SCALE, level="term").rename(SCALE)

    @property
    def correlations(self) -> pd.Series[float]:
        """The correlation of every outcome's noise with that of the selection."""
        return self.params.xs(CORRELATION, level="term").rename(CORRELATION)

    def coefficients_of(self, label: Label) -> Array:
        """Return the coefficients of an equation, in the order of its terms."""
        sides = {equation.label: equation.side for equation in self.design.equations}
        side = sides.get(label, self.design.selection)
        place = next(i for i, (own, _) in enumerate(self.reported.labels) if own == label)
        return self.values[place : place + len(side.terms)]

    def covariance_with_selection(self, equation: OutcomeEquation) -> float:
        """Return ρσ, the covariance of an outcome's noise with that of the selection."""
        return float(self.scales[equation.label] * self.correlations[equation.label])

    # the fit as a whole

    @property
    def n_parameters(self) -> int:
        """How many parameters were estimated; two steps have the Mills ratios' as well."""
        return len(self.values)

    @property
    def aic(self) -> float:
        """Akaike's criterion; missing for two steps, which maximise no likelihood."""
        return 2.0 * self.n_parameters - 2.0 * self.llf

    @property
    def bic(self) -> float:
        """Schwarz's criterion; missing for two steps, which maximise no likelihood."""
        return float(np.log(self.facts.weight_total)) * self.n_parameters - 2.0 * self.llf

    @property
    def nobs(self) -> int:
        """Rows used, selected or not."""
        return self.facts.n_rows

    @property
    def counts(self) -> pd.Series[Any]:
        """Rows in which each outcome was seen."""
        labels = [equation.label for equation in self.design.equations]
        return pd.Series(
            self.facts.counts, index=pd.Index(labels, name="alternative"), name="count"
        )

    @property
    def starts(self) -> pd.DataFrame:
        """Where each start of the search ended; empty for two steps."""
        columns = ["name", "loglik", "converged", "n_steps"]
        return pd.DataFrame(list(self.starts_reached), columns=columns)

    # tables

    def glance(self) -> pd.DataFrame:
        """One row for the whole fit."""
        return glance_table(self)

    def compare(self) -> pd.DataFrame:
        """Least squares that ignores selection and the corrected coefficients side by side."""
        return comparison_table(self)

    def summary(self, level: float = 0.95, *, intervals: str = "wald") -> Page:
        """Compose the page to read first: prints as text, shows as HTML in notebooks.

        Parameters
        ----------
        level : of the intervals.
        intervals : ``"wald"`` or ``"profile"``, see `conf_int`.
        """
        from selfselect.classics.summary import summarise

        return summarise(self, level, intervals)

    def _surface(self) -> Surface | str:
        """Return the log-likelihood to follow profiles on, or why there is none."""
        if self.method != "ml":
            return "two steps maximise no likelihood; use method='ml'"
        from selfselect.classics.profile import SelectionSurface
        from selfselect.results.profiles import not_chi_square

        reason = not_chi_square(self)
        return SelectionSurface(self.design, self.values) if reason is None else reason

    # questions to the fit

    @cached_property
    def _independence(self) -> TestResult:
        return independence_test(self)

    def independence_test(self) -> TestResult:
        """Test that selection has nothing to do with the outcomes' noise: no correlation.

        By the likelihood ratio, or by Wald's statistic where the covariance is robust or
        clustered and for two steps, whose coefficients of the Mills ratios are tested.
        """
        return self._independence

    def wald_test(self, hypothesis: Any) -> TestResult:
        """Test linear restrictions, such as ``"selection:kids = 0"``."""
        return wald_test_of_known(self, hypothesis)

    def lr_test(self, other: Any) -> TestResult:
        """Test the smaller of this and another nested fit of the same rows against the larger.

        The other may be a fit of the Roy model, `selfselect.fit` with two alternatives of which
        the larger or the smaller outcome is seen: it is a switching regression whose selection
        follows from the outcomes.
        """
        return lr_test(self, other)

    def predict(self, data: Any = None, kind: str = "latent") -> pd.DataFrame | pd.Series[Any]:
        """Predict for new rows, or for those of the fit where `data` is None.

        Parameters
        ----------
        data : any table with the covariates.
        kind : ``latent``, the mean of every outcome whoever is selected; ``chance``, the
            probability that it is seen; ``outcome``, the mean of the outcome that is seen;
            ``given_seen``, the mean of every outcome among those for whom each is seen.
        """
        return predict(self, data, kind)

    @property
    def __maketables_depvar__(self) -> str:
        return self.facts.outcome

    def __repr__(self) -> str:
        state = "converged" if self.converged else "NOT CONVERGED"
        likelihood = "" if np.isnan(self.llf) else f"log-likelihood {self.llf:.4f}, "
        return (
            f"<SelectionResult: {self.model} of {self.facts.outcome}, {self.method}; "
            f"{self.nobs} rows, {likelihood}{state}>"
        )

    def _repr_html_(self) -> str:
        return self.summary().to_html()
