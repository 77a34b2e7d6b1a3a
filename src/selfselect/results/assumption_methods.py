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

        With a selection equation it is the likelihood-ratio test of no correlation. If the
        covariance is robust or clustered it is a Wald test, and after two steps a Wald test of the
        coefficients of the Mills ratios.

        Parameters
        ----------
        kind : ``"score"`` tests at zero correlation, in one pass; ``"wald"`` and ``"lr"`` use a fit
            with correlated noise, and make one if this fit has none. None takes the cheapest: the
            score test, or the Wald test if correlations were estimated. Score and Wald tests
            account for clusters and weights as the fit's standard errors do; ``"lr"`` cannot, and
            is refused then.
        """
        noise = self._fit.problem.noise
        natural = None if noise.selected else "wald" if noise.correlated else "score"
        if kind in (None, natural):
            return self._independence
        test = selection_independence_test if noise.selected else other_independence_test
        return test(self._fit, kind)

    def exclusions(self) -> tuple[Exclusion, ...]:
        """List and test the covariates of the selection that an outcome's equation lacks.

        There is one test for each outcome of a model with a selection equation. If the exclusions
        are weak, use ``conf_int(method="profile")``.
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
        show this p-value. This test and `heteroskedasticity_test` share their samples, so the
        second one costs nothing.

        Parameters
        ----------
        replications : how many samples; 0 for the asymptotic test, which is quick and rejects a
            little too often in small samples. With clusters or probability weights the asymptotic
            test has a statistic but no p-value; samples keep clusters and weights.
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
        """Test that the variance of an alternative's noise does not depend on covariates.

        Parameters are those of `normality_test`.
        """
        return specification_test(
            self._fit, "heteroskedasticity", replications=replications, seed=seed, progress=progress
        )

    def lr_test(self, other: Any) -> TestResult:
        """Test two nested fits of the same rows against each other by their likelihood ratio.

        With clusters, robust standard errors or probability weights use `wald_test` instead. A fit
        of `selfselect.switching` nests the Roy model, which is `selfselect.fit` with two
        alternatives and ``rule="max"`` or ``"min"``, with or without estimated costs.
        `restrictions` has these tests on one page.
        """
        return lr_test(self._fit, other)

    def rejections(self) -> tuple[str, ...]:
        """List the rejected assumptions on the noise and their effect on the slopes; empty if none.

        A test counts as a rejection where its p-value is at most 0.01, as in `TestResult.rejects`.
        """
        return rejections(self._fit)

    def departures(self) -> Departures:
        """Simulate noise like that of the residuals, and report its effect on the slopes.

        A test says that the noise is not as assumed, but not whether this matters. Here the model
        is fitted to outcomes simulated from the fit. Their noise has the shape that the residuals
        show and, where the data call for it, their heteroskedasticity and correlations. The summary
        reports the same where it is quick. The random numbers are always the same.

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
        """Report in plain sentences what the data determine well, and what they do not.

        The last sentences list the assumptions on the noise that were not tested, with the reason.
        """
        if self._fit.kept:
            return self._fit.kept.diagnosis
        notes = (Finding("note", sentence) for sentence in untested(self._fit))
        return Diagnosis((*self._diagnosis.findings, *notes))

    def sensitivity(
        self, rho: Any = None, *, level: float = 0.95, progress: bool | None = None
    ) -> Sensitivity:
        """Show coefficients, gaps and effects at each of several assumed correlations of the noise.

        Parameters
        ----------
        rho : correlations to hold the noise at, the same for all pairs; None for -0.9 to 0.9.
        level : of the region that the likelihood supports.
        progress : whether to show progress; None shows it on a terminal for what takes seconds.
        """
        from selfselect.results.sensitivity import sensitivity

        return sensitivity(self._fit, rho, level, progress)
