"""Assumptions of a fit, tested and varied: methods of it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from selfselect.errors import UnsupportedError
from selfselect.inference.evidence import Evidence
from selfselect.inference.independence import independence_test, wald_test_of_correlations
from selfselect.results._methods import FitMethods
from selfselect.results.departures import Departures
from selfselect.results.diagnosis import Diagnosis, Finding, diagnose, diagnose_selection
from selfselect.results.hypotheses import (
    lr_test,
    other_independence_test,
    selection_independence_test,
)
from selfselect.results.rejections import departures_of, rejections, untested
from selfselect.results.specification import specification_test

if TYPE_CHECKING:
    from selfselect.inference.statistics import TestResult
    from selfselect.results.exclusions import Exclusion
    from selfselect.results.sensitivity import Sensitivity

__all__ = ["AssumptionMethods"]


class AssumptionMethods(FitMethods):
    """What can be asked about the assumptions of a fit, and what depends on them."""

    @cached_property
    def evidence(self) -> Evidence:
        """What the rows say against the assumptions on the noise, and of their covariates."""
        fit = self._fit
        return Evidence(fit.problem, fit.engine_of_rows(), fit.solution, fit.dependence)

    @cached_property
    def _independence(self) -> TestResult:
        fit = self._fit
        if fit.kept:
            return fit.kept.independence
        if fit.problem.noise.selected:
            return selection_independence_test(fit)
        if fit.problem.noise.correlated:
            return wald_test_of_correlations(fit.reported, fit.covariance.matrix)
        return independence_test(self.evidence)

    def independence_test(self, kind: str | None = None) -> TestResult:
        """Test that noise is independent across alternatives, or of a selection equation's.

        With a selection equation it is the likelihood ratio of no correlation. Where the covariance
        is robust or clustered it is Wald's test, as it is for two steps, of the coefficients of
        the Mills ratios.

        Parameters
        ----------
        kind : ``"score"`` at zero correlation, one pass; ``"wald"`` and ``"lr"`` compare a fit with
            correlated noise, which they make where this is not one. None takes the one that
            costs nothing: the score, or Wald's where correlations were estimated. All allow for
            clusters and weights as the fit's standard errors do; ``"lr"`` cannot, and says so.
        """
        noise = self._fit.problem.noise
        natural = None if noise.selected else "wald" if noise.correlated else "score"
        if kind in (None, natural):
            return self._independence
        test = selection_independence_test if noise.selected else other_independence_test
        return test(self._fit, kind)

    def exclusions(self) -> tuple[Exclusion, ...]:
        """Say which covariates move the selection and not an outcome, and test how strongly.

        One for each outcome of a model with a selection equation. Where they are weak, use
        ``conf_int(method="profile")``.
        """
        from selfselect.results.exclusions import exclusions

        return exclusions(self._fit)

    def normality_test(
        self, replications: int = 199, *, seed: int | None = None, progress: bool | None = None
    ) -> TestResult:
        """Test the shape of the noise, by conditional moments of orders three and four.

        The null is normal noise, or noise of the shape that the fit assumes; with a selection
        equation, of the outcomes and of the selection. Samples are drawn from the fitted model and
        fitted again; the p-value is the rank of the data's moments among theirs. Later summaries
        show it. Once this or `heteroskedasticity_test` was run, the other costs nothing.

        Parameters
        ----------
        replications : how many samples; 0 for the asymptotic test, which is quick and rejects a
            little too often in small samples. With clusters or probability weights that has a
            statistic and no p-value; samples keep both.
        seed : of the samples.
        progress : whether to show progress; None shows it on a terminal for what takes seconds.

        Examples
        --------
        >>> import selfselect as ss
        >>> villagers = ss.simulators.village(500, seed=1).data
        >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
        >>> result.normality_test(replications=39).rejects()
        False
        """
        return specification_test(
            self._fit, "normality", replications=replications, seed=seed, progress=progress
        )

    def heteroskedasticity_test(
        self, replications: int = 199, *, seed: int | None = None, progress: bool | None = None
    ) -> TestResult:
        """Test that no covariate moves the variance of its alternative's noise.

        Parameters are those of `normality_test`.
        """
        return specification_test(
            self._fit, "heteroskedasticity", replications=replications, seed=seed, progress=progress
        )

    def lr_test(self, other: Any) -> TestResult:
        """Test the smaller of this and another nested fit of the same rows against the larger.

        Not with clusters, robust standard errors or probability weights: use `wald_test`. A fit
        of `selfselect.switching` nests the Roy model, `selfselect.fit` with two alternatives of
        which the larger or the smaller outcome is observed, plain or net of estimated costs: a
        switching regression whose selection follows from its outcomes and costs. `restrictions`
        has these tests on one page.
        """
        return lr_test(self._fit, other)

    def rejections(self) -> tuple[str, ...]:
        """Say which assumptions on the noise are rejected and what that does; empty if none.

        A test counts as a rejection where its p-value is at most 0.01, as in `TestResult.rejects`.
        """
        return rejections(self._fit)

    def departures(self) -> Departures:
        """Simulate noise as the residuals show it, and say what it does to the slopes.

        A test says that noise is not as assumed, not whether that matters. Here the model is fitted
        to outcomes simulated from the fit, with noise of the shape, and where the data calls for
        them the moving spread and the correlations, that its residuals show. The summary says the
        same where it is quick; random numbers are always the same.

        Examples
        --------
        >>> import selfselect as ss
        >>> villagers = ss.simulators.village(500, seed=1).data
        >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
        >>> result.departures().small
        True
        """
        self._fit.engine_of_rows()
        found = departures_of(self._fit, ask=True)
        if not isinstance(found, Departures):
            raise UnsupportedError(f"Departures of the noise cannot be simulated: {found}.")
        return found

    @cached_property
    def _diagnosis(self) -> Diagnosis:
        problem = self._fit.problem
        found = (diagnose_selection if problem.noise.selected else diagnose)(self.evidence)
        # Where one optimum is all there is, the likelihood is close to quadratic.
        if problem.likelihood.concave or problem.index == "unknown":
            return found
        from selfselect.results.profiles import look_at_curvature

        return Diagnosis((*found.findings, *look_at_curvature(self._fit)))

    def diagnose(self) -> Diagnosis:
        """Say in plain sentences what the data determines well, and what it does not.

        It ends with the assumptions on the noise that were not tested, and why.
        """
        if self._fit.kept:
            return self._fit.kept.diagnosis
        notes = (Finding("note", sentence) for sentence in untested(self._fit))
        return Diagnosis((*self._diagnosis.findings, *notes))

    def sensitivity(
        self, rho: Any = None, *, level: float = 0.95, progress: bool | None = None
    ) -> Sensitivity:
        """Show what coefficients, gaps and effects would be at each of a grid of correlations.

        Parameters
        ----------
        rho : correlations to hold the noise at, the same for all pairs; None for -0.9 to 0.9.
        level : of the region that the likelihood supports.
        progress : whether to show progress; None shows it on a terminal for what takes seconds.
        """
        from selfselect.results.sensitivity import sensitivity

        return sensitivity(self._fit, rho, level, progress)
