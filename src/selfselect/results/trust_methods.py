"""How far a fit can be trusted, as methods of it: bounds without its noise, and rehearsals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from selfselect.results._methods import FitMethods

if TYPE_CHECKING:
    import pandas as pd

    from selfselect.bounding.bounds import Bounds
    from selfselect.inference.statistics import TestResult
    from selfselect.results.fit_result import FitResult
    from selfselect.results.rehearse import Rehearsal
    from selfselect.results.restrictions import Restrictions
    from selfselect.verdict import Verdict

__all__ = ["TrustMethods"]


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
        from selfselect.bounding.asked import read_asked

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
        from selfselect.results.rehearse import rehearse

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
        scratch; the p-value is the rank of the data's ratio among theirs. Later summaries show it.
        A fit with one alternative is least squares, and one with one type has independent noise.

        Parameters
        ----------
        replications : how many samples, 19 at least; each is searched twice.
        solver : by which both numbers are fitted; None for the one that such fits are given.
        seed : of the samples.
        progress : whether to show progress; None shows it on a terminal for what takes seconds.
        """
        from selfselect.results.overfitting import overfitted_test

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
        from selfselect.verdict import make_verdict

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
        from selfselect.results.restrictions import restrictions

        return restrictions(self._fit, rule)

    def exogeneity_test(self) -> TestResult:
        """Test that the covariates named in ``endogenous=`` are exogenous.

        This is a Wald test that all coefficients of the first-stage residuals are zero.
        """
        from selfselect.results.endogeneity import exogeneity_test

        return exogeneity_test(self._fit)

    def with_residuals(self, data: Any) -> pd.DataFrame:
        """Return rows with first-stage residuals, which predictions and effects need as columns.

        Residuals are columns like any other, so effects of a covariate hold its residual fixed.

        Parameters
        ----------
        data : rows with the endogenous covariates, their instruments and all else that is
            exogenous.
        """
        from selfselect.results.endogeneity import with_residuals

        return with_residuals(self._fit, data)
