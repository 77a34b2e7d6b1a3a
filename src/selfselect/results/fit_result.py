"""The result of a fit: frozen, with statsmodels' names where they exist. Methods only call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.build import DataFacts
from selfselect.data.coding import Coding
from selfselect.data.rows import Rows
from selfselect.engines.base import Engine
from selfselect.errors import UnsupportedError
from selfselect.inference.covariance import Covariance
from selfselect.inference.dependence import Dependence
from selfselect.inference.evidence import Evidence
from selfselect.inference.independence import independence_test, wald_test_of_correlations
from selfselect.inference.sandwich import cluster_sizes
from selfselect.inference.statistics import TestResult
from selfselect.noises.correlated import CORRELATION
from selfselect.options import Intervals, PredictionKind, Scale
from selfselect.problem.parameters import Reported
from selfselect.problem.problem import Problem
from selfselect.results.comparison import Comparison
from selfselect.results.departures import Departures
from selfselect.results.diagnosis import Diagnosis, Finding, diagnose, diagnose_selection
from selfselect.results.effect_methods import EffectMethods
from selfselect.results.estimates import Estimates
from selfselect.results.hypotheses import (
    lr_test,
    other_independence_test,
    selection_independence_test,
)
from selfselect.results.memberships import expected_shares, responsibilities
from selfselect.results.naive import ErrorKind, Naive, fit_naive
from selfselect.results.predictions import predict
from selfselect.results.rejections import departures_of, rejections, untested
from selfselect.results.specification import specification_test
from selfselect.results.tables import (
    comparison_table,
    glance_table,
    labelled_series,
    naive_table,
)
from selfselect.results.trust_methods import TrustMethods
from selfselect.results.types import UnobservedTypes, unobserved_types
from selfselect.solvers.base import Solution
from selfselect.threads import one_blas_thread

if TYPE_CHECKING:
    from selfselect.inference.profile import Surface
    from selfselect.report.explain import Explanation
    from selfselect.report.page import Page
    from selfselect.results.exclusions import Exclusion
    from selfselect.results.pictures import Pictures
    from selfselect.results.sensitivity import Sensitivity

__all__ = ["FitResult", "SavedAnswers"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SavedAnswers:
    """What needs the rows to be computed, kept with a saved fit that no longer has them."""

    naive: Naive
    independence: TestResult
    diagnosis: Diagnosis
    shares: tuple[float, ...]
    noise: tuple[TestResult, ...]
    rejections: tuple[str, ...] | None = None
    too_many: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class FitResult(Estimates, EffectMethods, TrustMethods):
    """A fitted model.

    Attributes
    ----------
    coding : how tables are coded, for new rows.
    problem : equations, rule and noise.
    solution : where the solver ended.
    covariance : covariance of the estimates.
    facts : what to know of the data.
    solver_reason : why this solver was used.
    engine : the rows; None in a fit loaded from a file.
    kept : answers that need the rows, in a fit loaded from a file.
    row_labels : the caller's labels of the rows that were used.
    call : the call that made the fit, as code; None where it was not made by `selfselect.fit`.
    table : those rows as they were given, in the columns that were used.
    """

    coding: Coding
    problem: Problem
    solution: Solution
    covariance: Covariance
    facts: DataFacts
    solver_reason: str
    engine: Engine | None = field(default=None)
    kept: SavedAnswers | None = field(default=None)
    row_labels: pd.Index[Any] | None = field(default=None)
    call: str | None = field(default=None)
    table: pd.DataFrame | None = field(default=None)

    # estimates

    @cached_property
    def reported(self) -> Reported:
        """Labels and values of all estimated parameters."""
        return self.problem.layout.report(self.solution.free)

    @property
    def mc_error(self) -> pd.Series[float]:
        """Monte-Carlo standard errors of the estimates: zero where nothing was drawn."""
        noise = self.solution.noise
        errors = np.zeros(len(self.values))
        if noise is not None:
            jacobian = self.reported.jacobian
            errors = np.sqrt(np.diag(jacobian @ noise @ jacobian.T))
        return labelled_series(errors, self.reported.labels, "mc_error")

    @property
    def scales(self) -> pd.Series[float]:
        """The scale of every alternative, estimated or fixed.

        Where scales move with covariates there is none: ``predict(kind="scale")`` has each row's.
        """
        index = pd.Index(self.problem.equations.alternatives, name="alternative")
        return pd.Series(self.problem.layout.scales_of(self.values), index=index, name="scale")

    @property
    def correlations(self) -> pd.Series[float]:
        """Estimated correlations: of every outcome's noise with the selection's, or of pairs."""
        at = [i for i, (_, term) in enumerate(self.reported.labels) if term == CORRELATION]
        index = pd.Index([self.reported.labels[i][0] for i in at], name="alternative")
        return pd.Series(self.values[at], index=index, name=CORRELATION)

    @property
    def boundary(self) -> tuple[Any, ...]:
        """Alternatives whose correlation with the selection is at its boundary."""
        jacobian = self.reported.jacobian[:, list(self.solution.held)]
        at = np.flatnonzero(jacobian.any(axis=1))
        return tuple(self.reported.labels[i][0] for i in at)

    # the fit as a whole

    @property
    def model(self) -> str:
        """Which model: self-selection, sample selection or switching."""
        return self.problem.model

    @property
    def method(self) -> str:
        """How it was estimated: ``ml``, or ``two-step`` where there is a selection equation."""
        return self.problem.noise.method

    @property
    def llf_independent(self) -> float:
        """The log-likelihood without correlation of selection and outcomes; missing elsewhere.

        That of the probit of selection and of least squares.
        """
        return self.solution.loglik_independent

    @property
    def n_parameters(self) -> int:
        """How many parameters were estimated."""
        return self.problem.layout.n_free

    @property
    def llf(self) -> float:
        """The log-likelihood."""
        return self.solution.loglik

    @property
    def aic(self) -> float:
        """Akaike's criterion."""
        return 2.0 * self.n_parameters - 2.0 * self.llf

    @property
    def bic(self) -> float:
        """Schwarz's criterion; in a panel it counts people, not rows."""
        total = self.facts.weight_total if self.facts.panel is None else self.facts.group_total
        return float(np.log(total)) * self.n_parameters - 2.0 * self.llf

    @property
    def nobs(self) -> int:
        """Rows used; with frequency weights, how many rows they stand for."""
        return self.facts.n_observations

    @property
    def counts(self) -> pd.Series[Any]:
        """Rows in which each alternative was chosen; expected rows where that was not recorded."""
        index = pd.Index(self.problem.equations.alternatives, name="alternative")
        if self.facts.counts:
            return pd.Series(self.facts.counts, index=index, name="count")
        return (self.shares * self.nobs).rename("count")

    @cached_property
    def shares(self) -> pd.Series[float]:
        """Share of the rows in which each alternative was chosen, or is expected to have been."""
        index = pd.Index(self.problem.equations.alternatives, name="alternative")
        if self.kept is not None:
            values = np.array(self.kept.shares)
        elif self.facts.counts:
            found = np.array(self.facts.counts)
            every = found.sum()
            if len(found) == 1:
                found, every = found + self.facts.n_selected_silent, self.nobs
            values = found / every
        else:
            values = expected_shares(self.problem, self.engine_of_rows(), self.solution.free)
        return pd.Series(values, index=index, name="share")

    def responsibilities(self, data: Any = None) -> pd.DataFrame:
        """Return, per row, the probability that each alternative was the chosen one.

        Parameters
        ----------
        data : a table with covariates and outcome; None for the rows of the fit.
        """
        return responsibilities(self, data)

    def types(self) -> UnobservedTypes:
        """Describe the unobserved types of a fit with `noises.Types`, and say who has which."""
        return unobserved_types(self)

    @property
    def starts(self) -> pd.DataFrame:
        """Where each start of the search ended; empty where one optimum is all there is."""
        columns = ["name", "rows", "loglik", "behind", "fault"]
        return pd.DataFrame([vars(one) for one in self.solution.starts], columns=columns)

    @property
    def converged(self) -> bool:
        """Whether the solver reached the optimum."""
        return self.solution.converged

    @property
    def status(self) -> str:
        """How the solver ended, in a sentence."""
        return str(self.solution.ending)

    @property
    def n_steps(self) -> int:
        """Steps the solver took, those on a sample of rows included."""
        return len(self.solution.trace)

    @property
    def trace(self) -> pd.DataFrame:
        """The solver's steps: rows looked at, log-likelihood, distance to the optimum in SE."""
        return pd.DataFrame([vars(entry) for entry in self.solution.trace])

    # tables

    def glance(self) -> pd.DataFrame:
        """One row for the whole fit."""
        return glance_table(self)

    def compare(self) -> Comparison:
        """Put naive least squares and the corrected estimates side by side: a page with a `table`.

        The column ``difference under the model`` is selection bias only if the model's
        assumptions hold; `rejections` says where they do not, and how much that matters. Standard
        errors of both are of one kind: where those of the fit are clustered, robust or weighted,
        so are the naive ones; beside a bootstrap they are robust, or clustered.
        """
        from selfselect.report.summary import compare_page

        return Comparison(comparison_table(self), partial(compare_page, self))

    def explain(self, data: Any = None, *, level: float = 0.95) -> Explanation:
        """Say in a few sentences what the fit says, what it assumes, and what to try.

        Effects are said for every pair of alternatives, with intervals, in per cent where a
        logarithm was modelled. What tests reject comes first. A `verdict` that was made is quoted.

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

        return explain(self, data, level=level)

    def summary(
        self, level: float = 0.95, *, intervals: Intervals = "wald", stars: bool = False
    ) -> Page:
        """Compose the page to read first: prints as text, shows as HTML in notebooks.

        Parameters
        ----------
        level : of the intervals.
        intervals : ``"wald"`` or ``"profile"``, see `conf_int`.
        stars : whether estimates carry stars for p-values below 0.05, 0.01 and 0.001.
        """
        if self.problem.noise.selected:
            from selfselect.report.selection_summary import summarise_selection

            with one_blas_thread():
                return summarise_selection(self, level, intervals, stars=stars)
        from selfselect.report.summary import summarise

        with one_blas_thread():
            return summarise(self, level, intervals, stars=stars)

    @property
    def equation_labels(self) -> tuple[Any, ...]:
        """The labels of all equations: the alternatives, and the selection where there is one."""
        equations = self.problem.equations
        selection = () if equations.selection is None else (equations.selection.alternative,)
        return (*equations.alternatives, *selection)

    @property
    def plot(self) -> Pictures:
        """The pictures of the fit, such as ``fit.plot.coefficients()``."""
        from selfselect.results.pictures import Pictures

        return Pictures(self)

    def _surface(self) -> Surface | str:
        """Return the log-likelihood to follow profiles on, or why there is none."""
        from selfselect.inference.surface import ProblemSurface
        from selfselect.results.profiles import no_profile

        reason = no_profile(self)
        if reason is not None:
            return reason
        engine = self.engine_of_rows().single_threaded()
        return ProblemSurface(self.problem, engine, self.solution.free)

    # questions to the fit

    @cached_property
    def naive_fit(self) -> Naive:
        """The naive fit as plain arrays; its errors allow for what those of the fit allow for."""
        if self.kept:
            return self.kept.naive
        return fit_naive(self.problem, self.engine_of_rows(), self.naive_errors)

    @property
    def naive_errors(self) -> ErrorKind:
        """What standard errors of least squares allow for: what those of the fit do."""
        return ErrorKind(
            robust=not self.covariance.of_model,
            clusters=self.cluster_sizes,
            repeated=self.facts.weights_kind == "frequency",
        )

    @property
    def naive(self) -> pd.DataFrame:
        """The same equations by least squares on the rows where each alternative was chosen."""
        return naive_table(self)

    @cached_property
    def cluster_sizes(self) -> tuple[int, ...]:
        """How many clusters there are, one number per way of clustering; empty where none are."""
        return () if self.facts.cluster is None else cluster_sizes(self.engine_of_rows())

    @property
    def dependence(self) -> Dependence:
        """What keeps the rows from being independent draws: clusters and weights."""
        facts = self.facts
        by_person = self.problem.grouped and facts.cluster == facts.panel
        return Dependence(self.cluster_sizes, facts.cluster, facts.weights_kind, by_person)

    @cached_property
    def evidence(self) -> Evidence:
        """What the rows say against the assumptions on the noise, and of their covariates."""
        return Evidence(self.problem, self.engine_of_rows(), self.solution, self.dependence)

    @cached_property
    def _independence(self) -> TestResult:
        if self.kept:
            return self.kept.independence
        if self.problem.noise.selected:
            return selection_independence_test(self)
        if self.problem.noise.correlated:
            return wald_test_of_correlations(self.reported, self.covariance.matrix)
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
        if self.problem.noise.selected:
            return self._independence if kind is None else selection_independence_test(self, kind)
        natural = "wald" if self.problem.noise.correlated else "score"
        if kind is None or kind == natural:
            return self._independence
        return other_independence_test(self, kind)

    def exclusions(self) -> tuple[Exclusion, ...]:
        """Say which covariates move the selection and not an outcome, and test how strongly.

        One for each outcome of a model with a selection equation. Where they are weak, use
        ``conf_int(method="profile")``.
        """
        from selfselect.results.exclusions import exclusions

        return exclusions(self)

    @cached_property
    def memory(self) -> dict[Any, Any]:
        """What tests by bootstrap found, kept so that a summary shows it."""
        return {}

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
            self, "normality", replications=replications, seed=seed, progress=progress
        )

    def heteroskedasticity_test(
        self, replications: int = 199, *, seed: int | None = None, progress: bool | None = None
    ) -> TestResult:
        """Test that no covariate moves the variance of its alternative's noise.

        Parameters are those of `normality_test`.
        """
        return specification_test(
            self, "heteroskedasticity", replications=replications, seed=seed, progress=progress
        )

    def rejections(self) -> tuple[str, ...]:
        """Say which assumptions on the noise are rejected and what that does; empty if none.

        A test counts as a rejection where its p-value is at most 0.01, as in `TestResult.rejects`.
        """
        return rejections(self)

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
        self.engine_of_rows()
        found = departures_of(self, ask=True)
        if not isinstance(found, Departures):
            raise UnsupportedError(f"Departures of the noise cannot be simulated: {found}.")
        return found

    @cached_property
    def _diagnosis(self) -> Diagnosis:
        if self.kept:
            return self.kept.diagnosis
        selected = self.problem.noise.selected
        found = diagnose_selection(self.evidence) if selected else diagnose(self.evidence)
        # Where one optimum is all there is, the likelihood is close to quadratic.
        if self.problem.likelihood.concave or self.problem.index == "unknown":
            return found
        from selfselect.results.profiles import look_at_curvature

        return Diagnosis((*found.findings, *look_at_curvature(self)))

    def diagnose(self) -> Diagnosis:
        """Say in plain sentences what the data determines well, and what it does not.

        It ends with the assumptions on the noise that were not tested, and why.
        """
        if self.kept:
            return self._diagnosis
        notes = (Finding("note", sentence) for sentence in untested(self))
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

        return sensitivity(self, rho, level, progress)

    def lr_test(self, other: Any) -> TestResult:
        """Test the smaller of this and another nested fit of the same rows against the larger.

        Not with clusters, robust standard errors or probability weights: use `wald_test`. A fit
        of `selfselect.switching` nests the Roy model, `selfselect.fit` with two alternatives of
        which the larger or the smaller outcome is observed, plain or net of estimated costs: a
        switching regression whose selection follows from its outcomes and costs. `restrictions`
        has these tests on one page.
        """
        return lr_test(self, other)

    def predict(
        self,
        data: Any = None,
        kind: PredictionKind = "latent",
        scale: Scale = "model",
        *,
        level: float | None = None,
    ) -> pd.DataFrame | pd.Series[Any]:
        """Predict for new rows, or for those of the fit where `data` is None.

        Parameters
        ----------
        data : any table with the covariates (and cost and availability columns, if any).
        kind : ``latent``, the mean of every outcome; ``chance``, the probability that each
            alternative is chosen; ``outcome``, the mean of the observed outcome;
            ``given_seen``, the mean of every outcome where each alternative is chosen;
            ``scale``, the scale of every alternative's noise, its own in every row where scales
            move with covariates. Sample
            selection has one outcome: ``outcome`` is its mean where it is selected, and
            ``given_seen`` its means where it is and where it is not.
        scale : ``model``, as the formula's left side has it; ``level``, where that is a logarithm,
            means of what it is the logarithm of, by the normal noise of the model.
        level : None for predictions alone; 0.95 for a table with ``estimate``, ``std_error``,
            ``conf_low`` and ``conf_high`` of each. Intervals are of these means and chances, by
            the errors of the estimates (delta method), not of single outcomes. Those of chances
            are made on the logit scale, those of levels and noise scales on the log scale.

        Examples
        --------
        >>> import selfselect as ss
        >>> villagers = ss.simulators.village(500, seed=1).data
        >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
        >>> made = result.predict(kind="chance", level=0.95)
        >>> made["hunting"].columns.tolist()
        ['estimate', 'std_error', 'conf_low', 'conf_high']
        """
        return predict(self, data, kind, scale, level)

    def simulate(self, data: Any = None, *, seed: int | None = None) -> pd.DataFrame:
        """Draw outcomes and choices from the fitted model: a table that can be fitted again.

        Parameters
        ----------
        data : a table with the covariates (and cost and availability columns, if any); None for
            the rows of the fit, of which as many outcomes go unrecorded as did.
        seed : of the draws.

        Returns
        -------
        pandas.DataFrame
            The outcome, in its own column, and the chosen alternative where choices were recorded;
            at the rows of the fit, the other columns that it used as well.

        Examples
        --------
        >>> import selfselect as ss
        >>> villagers = ss.simulators.village(500, seed=1).data
        >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
        >>> drawn = result.simulate(seed=1)
        >>> sorted(drawn)
        ['height', 'income', 'job', 'weight']
        >>> again = ss.fit("income ~ height + weight", drawn, chosen="job")
        """
        from selfselect.results.simulate import simulate

        return simulate(self, data, seed)

    def write_predictions(
        self,
        out: str | Path,
        data: Any = None,
        kind: PredictionKind = "latent",
        scale: Scale = "model",
        *,
        level: float | None = None,
        keep: Sequence[str] = (),
        overwrite: bool = False,
        progress: bool | None = None,
    ) -> list[Path]:
        """Predict for files that may be larger than memory, and write Parquet files into a folder.

        There is one file for each that is read, with its name and its rows in their order. They
        appear when all are written; after an error or an interrupt none is left.

        Parameters
        ----------
        out : the folder.
        data : files as in `selfselect.fit`: a path, a pattern, a list of them, an Arrow dataset;
            None for those of the fit, where it was made of files.
        kind, scale, level : as in `predict`.
        keep : columns that are copied from the files that are read, such as an id.
        overwrite : whether files of the same name may be replaced; else the folder must be empty.
        progress : whether to show progress; None shows it on a terminal for what takes seconds.

        Returns
        -------
        list of Path
            The files that were written.
        """
        from selfselect.results.streaming import write_predictions

        return write_predictions(
            self, data, out, kind=kind, scale=scale, level=level, keep=keep, overwrite=overwrite,
            progress=progress,
        )  # fmt: skip

    def write_responsibilities(
        self,
        out: str | Path,
        data: Any = None,
        *,
        keep: Sequence[str] = (),
        overwrite: bool = False,
        progress: bool | None = None,
    ) -> list[Path]:
        """Write the probabilities of `responsibilities` for files that may be larger than memory.

        Parameters are those of `write_predictions`.
        """
        from selfselect.results.streaming import write_responsibilities

        return write_responsibilities(
            self, data, out, keep=keep, overwrite=overwrite, progress=progress
        )

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
        from selfselect.report.explain import VERDICT
        from selfselect.report.write import write_report

        if verdict is True and VERDICT not in self.memory:
            self.verdict(level=level)
        elif not isinstance(verdict, bool):
            self.verdict(verdict, level=level)
        with one_blas_thread():
            write_report(self, path, level=level, command=command)

    def explore(
        self,
        path: str | Path,
        data: Any = None,
        *,
        level: float = 0.95,
        rows: int | None = None,
        correlations: Sequence[float] | None = None,
    ) -> None:
        """Write a page that computes what the fit says while one moves sliders.

        Sliders and menus set covariates; the page shows chances, mean outcomes and their
        differences with intervals, what a subsidy, a tax or closing an alternative does to shares,
        means and who moves, the doubts about the fit, and the calls that give the same numbers.
        It is one file that needs no network.

        The page knows normal noise, independent or correlated between two alternatives, and rules
        under which the largest or the smallest outcome is observed; other fits are refused with the
        reason.

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

        write_page(self, path, data, level=level, rows=rows, correlations=correlations)

    def save(self, path: str | Path) -> None:
        """Save as versioned JSON, without the rows; `selfselect.load` reads it back."""
        from selfselect.results.archive import save

        save(self, path)

    # rows

    def engine_of_rows(self) -> Engine:
        """Return the engine that holds the rows, or say why there is none."""
        if self.engine is None:
            raise UnsupportedError(
                "This fit was loaded from a file and no longer has its rows. Fit again to compute "
                "this."
            )
        return self.engine

    @property
    def has_rows(self) -> bool:
        """Whether the rows of the fit are at hand: it was not loaded, nor read piece by piece."""
        return self.engine is not None and self.engine.holds_rows

    @property
    def rows(self) -> Rows:
        """The coded rows of the fit."""
        return self.engine_of_rows().rows

    def __repr__(self) -> str:
        labels = ", ".join(map(str, self.problem.equations.alternatives))
        what = f"{self.problem.equations.outcome} of {labels}"
        if self.problem.noise.selected:
            what = f"{self.model} of {self.problem.equations.outcome}, {self.method}"
        state = "converged" if self.converged else "NOT CONVERGED"
        likelihood = "" if np.isnan(self.llf) else f"log-likelihood {self.llf:.4f}, "
        return f"<FitResult: {what}; {self.nobs} rows, {likelihood}{state}>"

    def _repr_html_(self) -> str:
        return self.summary().to_html()
