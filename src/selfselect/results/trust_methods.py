"""Methods of a fit that say how far it can be trusted, with tests of its assumptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from selfselect.errors import UnsupportedError
from selfselect.inference.evidence import Evidence
from selfselect.inference.independence import independence_test, wald_test_of_correlations
from selfselect.results.departures import Departures
from selfselect.results.diagnosis import Diagnosis, Finding, diagnose, diagnose_selection
from selfselect.results.effect_methods import FitMethods
from selfselect.results.hypotheses import lr_test, selection_independence_test
from selfselect.results.rejections import departures_of, rejections, specification_test, untested

if TYPE_CHECKING:
    import pandas as pd

    from selfselect.bounding.bounds import Bounds
    from selfselect.inference.statistics import TestResult
    from selfselect.results.fit_result import FitResult
    from selfselect.results.hypotheses import Exclusion
    from selfselect.trust.rehearse import Rehearsal
    from selfselect.trust.restrictions import Restrictions
    from selfselect.trust.sensitivity import Sensitivity
    from selfselect.trust.verdict import Verdict


# Assumptions of a fit, tested and varied: methods of it.


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
        if noise.selected:
            return selection_independence_test(self._fit, kind)
        from selfselect.trust.restrictions import other_independence_test

        return other_independence_test(self._fit, kind)

    def exclusions(self) -> tuple[Exclusion, ...]:
        """List and test the covariates of the selection that an outcome's equation lacks.

        There is one test for each outcome of a model with a selection equation. If the exclusions
        are weak, use ``conf_int(method="profile")``.
        """
        from selfselect.results.hypotheses import exclusions

        return exclusions(self._fit)

    def normality_test(
        self, replications: int = 199, *, seed: int | None = None, progress: bool | None = None
    ) -> TestResult:
        """Test the shape of the noise, by conditional moments of orders three and four.

        The null is normal noise, or noise of the shape that the fit assumes; with a selection
        equation, of the outcomes and of the selection. Samples are drawn from the fitted model and
        fitted again; the p-value is the rank of the data's moments among theirs. This test and
        `heteroskedasticity_test` share their samples, so the second one costs nothing.

        Later summaries show this p-value, and `rejections` and `verdict` go by it, where there are
        99 samples or more, and no fewer than in an earlier call: with fewer than 99 no p-value is
        as small as the 0.01 at which they call a test a rejection.

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
        from selfselect.results.diagnosis import look_at_curvature

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
        from selfselect.trust.sensitivity import sensitivity

        return sensitivity(self._fit, rho, level, progress)


# How far a fit can be trusted, as methods of it: bounds without its noise, and rehearsals.


class TrustMethods(FitMethods):
    """What can be asked about how much of a fit is the data, and how much the model."""

    def bounds(
        self,
        by: str | Sequence[str] | None = None,
        *,
        instrument: str | None = None,
        quantiles: Sequence[float] = (0.1, 0.25, 0.5, 0.75, 0.9),
        points: Sequence[float] | None = None,
        support: Any = None,
        level: float = 0.95,
    ) -> Bounds:
        """Compute what the rule alone implies, beside the estimates of the fit.

        A correct fit lies inside these bounds: a fit outside them is misspecified, and a fit inside
        them is not confirmed. Parameters are those of `selfselect.bounds`; `by` and `instrument`
        are columns that the fit used. The rows must be in memory.

        Examples
        --------
        >>> import selfselect as ss
        >>> villagers = ss.simulators.village(500, seed=1).data
        >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
        >>> len(result.bounds().outside())
        0
        """
        from selfselect.bounding.ask import bounds_of_fit
        from selfselect.bounding.bounds import read_asked

        asked = read_asked(quantiles, points, support, level)
        return bounds_of_fit(self._fit, by, instrument, asked)

    def rehearse(
        self,
        replications: int = 39,
        *,
        solver: Any = None,
        seed: int | None = None,
        progress: bool | None = None,
    ) -> Rehearsal:
        """Simulate samples from the fit, at its own covariates, and fit each from scratch.

        This shows whether the procedure, including its search, would find the truth if the model
        were correct: the share of searches that return to it, the bias and spread of every estimate
        beside its standard error, and intervals from the spread.

        Parameters
        ----------
        replications : how many samples, 10 at least. Intervals from their percentiles need 99.
        solver : by which samples are fitted; None for the one that such fits are given.
        seed : of the samples.
        progress : whether to show progress; None shows it on a terminal for what takes seconds.

        Examples
        --------
        >>> import selfselect as ss
        >>> villagers = ss.simulators.village(500, seed=1).data
        >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
        >>> result.rehearse(replications=19).returned
        1.0
        """
        from selfselect.trust.rehearse import rehearse

        return rehearse(self._fit, replications, solver, seed, progress)

    def overfitted_test(
        self,
        replications: int = 99,
        *,
        solver: Any = None,
        seed: int | None = None,
        progress: bool | None = None,
    ) -> TestResult:
        """Test one type fewer, or one alternative fewer if choices were not recorded.

        The likelihood ratio does not have a chi-square distribution here. Samples are drawn from
        the fit with one fewer (in a panel, by person), and both models are fitted to each from
        scratch; the p-value is the rank of the data's ratio among theirs. Later summaries show it,
        unless an earlier call had more samples.
        A fit with one alternative is least squares, and one with one type has independent noise.

        Parameters
        ----------
        replications : how many samples, 19 at least; each is searched twice.
        solver : by which both numbers are fitted; None for the one that such fits are given.
        seed : of the samples.
        progress : whether to show progress; None shows it on a terminal for what takes seconds.
        """
        from selfselect.trust.alternatives import overfitted_test

        return overfitted_test(self._fit, replications, solver, seed, progress)

    def verdict(
        self,
        question: Any = None,
        *,
        also: Mapping[str, FitResult] | None = None,
        support: Any = None,
        level: float = 0.95,
        seed: int | None = None,
        progress: bool | None = None,
    ) -> Verdict:
        """Ask several models one question, and report how far the answer depends on the model.

        The models are least squares, this fit, the same under the noises of
        `selfselect.choose_noise`, a switching regression where a covariate is excluded from an
        outcome, and the rule alone. Three sentences say what the models that the data support agree
        on, what depends on which assumption, and what the data do not determine. Where rows are
        clustered or weighted, the models with the smallest BIC are tested by bootstrap, up to
        20,000 rows; what stays untested is named, and no model is said to describe the data then.

        The fit remembers the verdict: `explain` and `report` quote it, and `save` saves it. A
        loaded fit has no rows to fit other models to; without a question it returns the verdict
        with which it was saved.

        Parameters
        ----------
        question : a parameter or an expression of several, such as
            ``"hunting:height - fishing:height"``; or (to, versus), the mean effect of one
            alternative instead of another, with ``"ATT"`` or ``"ATU"`` as a third for those who
            choose `to` and for those who do not; as text ``"hunting - fishing, ATT"``. None, of
            two alternatives, for the mean effect of the second instead of the first.
        also : other fits of the same rows, by name, such as a switching regression with an
            excluded covariate that this fit does not have.
        support : (lowest, highest) outcome that is possible, for the bounds of the rule alone.
        level : of all intervals.
        seed : of searches with random starts.
        progress : whether to show progress; None shows it on a terminal for what takes seconds.

        Examples
        --------
        >>> import selfselect as ss
        >>> villagers = ss.simulators.village(500, seed=2).data
        >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
        >>> made = result.verdict("hunting:height - fishing:height")
        >>> made.table.index[0], made.table.index[-1]
        ('least squares', 'the rule alone')
        """
        from selfselect.trust.verdict import make_verdict

        return make_verdict(
            self._fit, question, also=also, support=support, level=level, seed=seed,
            progress=progress,
        )  # fmt: skip

    def restrictions(self, *, rule: str | None = None) -> Restrictions:
        """Test the Roy model's restrictions: pure Roy within costs within switching.

        Four models are fitted to the same rows: a switching regression; a Roy model whose costs
        depend on the terms of the index (or on those of the fit's own costs); and Roy models
        without costs, with correlated and with independent noise. Each is tested against the one
        before it.

        Parameters
        ----------
        rule : ``"max"`` or ``"min"``, for a fit of `selfselect.switching`; None for the rule of
            the fit, else ``"max"``.

        Examples
        --------
        >>> import selfselect as ss
        >>> villagers = ss.simulators.village(500, seed=1).data
        >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
        >>> result.restrictions().table.index[0]
        'switching'
        """
        from selfselect.trust.restrictions import restrictions

        return restrictions(self._fit, rule)

    def exogeneity_test(self) -> TestResult:
        """Test that the covariates named in ``endogenous=`` are exogenous.

        This is a Wald test that all coefficients of the first-stage residuals are zero.
        """
        from selfselect.results.hypotheses import exogeneity_test

        return exogeneity_test(self._fit)

    def with_residuals(self, data: Any) -> pd.DataFrame:
        """Return rows with first-stage residuals, which predictions and effects need as columns.

        Residuals are columns like any other, so effects of a covariate hold its residual fixed.

        Parameters
        ----------
        data : rows with the endogenous covariates, their instruments and all else that is
            exogenous.
        """
        from selfselect.results.hypotheses import with_residuals

        return with_residuals(self._fit, data)
