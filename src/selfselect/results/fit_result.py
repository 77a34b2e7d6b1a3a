"""The result of a fit: frozen, with statsmodels' names where they exist. Methods only call."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from selfselect.data.coding import CarriedStages, Coding
from selfselect.data.design import DataFacts
from selfselect.data.rows import Rows
from selfselect.engines.base import Engine
from selfselect.errors import UnsupportedError
from selfselect.inference.covariance import Covariance
from selfselect.inference.dependence import Dependence, cluster_sizes
from selfselect.inference.statistics import TestResult
from selfselect.noises.correlated import CORRELATION
from selfselect.problem.parameters import Reported
from selfselect.problem.problem import Problem
from selfselect.results.diagnosis import Diagnosis, Finding
from selfselect.results.estimates import Estimates
from selfselect.results.late import LateModule
from selfselect.results.naive import ErrorKind, Naive, fit_naive
from selfselect.results.tables import labelled_series, naive_table
from selfselect.solvers.base import Solution
from selfselect.visible import on_one_line

if TYPE_CHECKING:
    import selfselect.effects.choice_probabilities as choice_probabilities_module
    import selfselect.effects.counterfactual as counterfactual_module
    import selfselect.effects.decompose as decompose_module
    import selfselect.effects.gains as gains_module
    import selfselect.effects.marginal_effects as marginal_effects_module
    import selfselect.effects.mte as mte_module
    import selfselect.effects.policy as policy_module
    import selfselect.effects.potential_outcomes as potential_outcomes_module
    import selfselect.effects.sorting as sorting_module
    import selfselect.effects.treatment_effects as treatment_effects_module
    import selfselect.verdict.verdict as verdict_module
    from selfselect.bounding import of_fit as bounds_module
    from selfselect.effects.base import Averages
    from selfselect.explore import write as explore_module
    from selfselect.inference.evidence import Evidence
    from selfselect.inference.profile import Surface
    from selfselect.inference.simulation import Subject
    from selfselect.inference.specification import MomentDraws
    from selfselect.moments.mixed import Logarithm
    from selfselect.plots import fit_pictures as plot_module
    from selfselect.plots.fit_pictures import FitPictures
    from selfselect.report import comparison as compare_module
    from selfselect.report import explain as explain_module
    from selfselect.report import summary as summary_module
    from selfselect.report import write as report_module
    from selfselect.results import (
        archive,
        diagnosis,
        hypotheses,
        memberships,
        overfitting,
        predictions,
        streaming,
        tables,
    )
    from selfselect.results import rehearse as rehearse_module
    from selfselect.results import rejections as rejections_module
    from selfselect.results import restrictions as restrictions_module
    from selfselect.results import sensitivity as sensitivity_module
    from selfselect.results.departures import Departures
    from selfselect.verdict import Verdict
else:
    choice_probabilities_module = LateModule("selfselect.effects.choice_probabilities")
    counterfactual_module = LateModule("selfselect.effects.counterfactual")
    decompose_module = LateModule("selfselect.effects.decompose")
    gains_module = LateModule("selfselect.effects.gains")
    marginal_effects_module = LateModule("selfselect.effects.marginal_effects")
    mte_module = LateModule("selfselect.effects.mte")
    policy_module = LateModule("selfselect.effects.policy")
    potential_outcomes_module = LateModule("selfselect.effects.potential_outcomes")
    sorting_module = LateModule("selfselect.effects.sorting")
    treatment_effects_module = LateModule("selfselect.effects.treatment_effects")
    plot_module = LateModule("selfselect.plots.fit_pictures")
    verdict_module = LateModule("selfselect.verdict.verdict")
    bounds_module = LateModule("selfselect.bounding.of_fit")
    explore_module = LateModule("selfselect.explore.write")
    compare_module = LateModule("selfselect.report.comparison")
    report_module = LateModule("selfselect.report.write")
    summary_module = LateModule("selfselect.report.summary")
    explain_module = LateModule("selfselect.report.explain")
    archive = LateModule("selfselect.results.archive")
    diagnosis = LateModule("selfselect.results.diagnosis")
    hypotheses = LateModule("selfselect.results.hypotheses")
    memberships = LateModule("selfselect.results.memberships")
    overfitting = LateModule("selfselect.results.overfitting")
    predictions = LateModule("selfselect.results.predictions")
    rehearse_module = LateModule("selfselect.results.rehearse")
    rejections_module = LateModule("selfselect.results.rejections")
    restrictions_module = LateModule("selfselect.results.restrictions")
    sensitivity_module = LateModule("selfselect.results.sensitivity")
    streaming = LateModule("selfselect.results.streaming")
    tables = LateModule("selfselect.results.tables")

MOST_NAMED = 8
"""Alternatives that are named in one line."""


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


@dataclass(eq=False)
class Answers:
    """What was computed for a fit, kept until it is asked for again.

    Attributes
    ----------
    independence : the test of independence that costs least.
    findings : what the data determine well and what not.
    quick_tests : asymptotic tests of the noise.
    draws : samples for tests of the noise, by their number and seed.
    tests_by_draws : tests of the noise that pages show instead of the asymptotic ones.
    common_scale : the test that one scale is enough.
    departures : what the residuals' noise does to the slopes, or why that is not known.
    one_fewer : the test of one alternative or type fewer.
    bic_gain : by how much BIC falls with one fewer; nan where that is not known.
    averages : over the rows of the fit under its own rule, which many effects are made of: about
        which population, and of which logarithm's levels.
    verdict : the last one that was made.
    """

    independence: TestResult | None = None
    findings: tuple[Finding, ...] | None = None
    quick_tests: dict[Subject, TestResult] | None = None
    draws: dict[tuple[int, int | None], MomentDraws] = field(default_factory=dict)
    tests_by_draws: dict[Subject, TestResult] = field(default_factory=dict)
    common_scale: TestResult | None = None
    departures: Departures | str | None = None
    one_fewer: TestResult | None = None
    bic_gain: float | None = None
    averages: dict[tuple[str, Logarithm | None], Averages] = field(default_factory=dict)
    verdict: Verdict | None = None


@dataclass(frozen=True, eq=False, repr=False)
class FitResult(Estimates):
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
    carried : how rows move the estimates through first stages of endogenous covariates; None
        without such, and in a fit loaded from a file.
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
    carried: CarriedStages | None = field(default=None)

    # estimates

    @cached_property
    def reported(self) -> Reported:
        """Labels and values of all estimated parameters."""
        return self.problem.layout.report(self.solution.free)

    @property
    def mc_error(self) -> pd.Series[float]:
        """Monte-Carlo standard errors of the estimates: zero if nothing was simulated."""
        noise = self.solution.noise
        errors = np.zeros(len(self.values))
        if noise is not None:
            jacobian = self.reported.jacobian
            errors = np.sqrt(np.diag(jacobian @ noise @ jacobian.T))
        return labelled_series(errors, self.reported.labels, "mc_error")

    @property
    def scales(self) -> pd.Series[float]:
        """The scale of every alternative, estimated or fixed.

        If scales depend on covariates this raises an error; ``predict(kind="scale")`` gives the
        scale of each row.
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

        It is the sum of those of a probit of the selection and of least squares.
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
        """Schwarz's criterion; with `panel` its n is people, not rows, under every noise."""
        return self.facts.bic(self.llf, self.n_parameters)

    @property
    def nobs(self) -> int:
        """Rows used; with frequency weights, how many rows they stand for."""
        return self.facts.n_observations

    @property
    def counts(self) -> pd.Series[Any]:
        """Rows in which each alternative was chosen; expected rows where that was not recorded.

        Rows whose outcome was not recorded count too.
        """
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
            values = found / (self.nobs if len(found) == 1 else found.sum())
        else:
            values = memberships.expected_shares(
                self.problem, self.engine_of_rows(), self.solution.free
            )
        return pd.Series(values, index=index, name="share")

    @property
    def starts(self) -> pd.DataFrame:
        """Where each start of the search ended; empty if the likelihood has one optimum."""
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

    @property
    def equation_labels(self) -> tuple[Any, ...]:
        """The labels of all equations: the alternatives, and the selection where there is one."""
        equations = self.problem.equations
        selection = () if equations.selection is None else (equations.selection.alternative,)
        return (*equations.alternatives, *selection)

    def _surface(self) -> Surface | str:
        """Return the log-likelihood to follow profiles on, or why there is none."""
        from selfselect.inference.profile import ProblemSurface
        from selfselect.results.diagnosis import no_profile

        reason = no_profile(self)
        if reason is not None:
            return reason
        engine = self.engine_of_rows().single_threaded()
        return ProblemSurface(self.problem, engine, self.solution.free)

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
        """Clusters and weights: why rows may not be independent draws of equal weight."""
        facts = self.facts
        by_person = self.problem.grouped and facts.cluster == facts.panel
        return Dependence(self.cluster_sizes, facts.cluster, facts.weights_kind, by_person)

    @cached_property
    def evidence(self) -> Evidence:
        """What the rows say against the assumptions on the noise, and of their covariates."""
        from selfselect.inference.evidence import Evidence

        return Evidence(self.problem, self.engine_of_rows(), self.solution, self.dependence)

    @cached_property
    def answers(self) -> Answers:
        """What was computed for this fit, for pages and later calls."""
        return Answers()

    # rows

    def engine_of_rows(self) -> Engine:
        """Return the engine that holds the rows, or say why there is none."""
        if self.engine is None:
            raise UnsupportedError(
                "This fit was loaded from a file and no longer has its rows. Give rows where a "
                "method takes them, as predict(rows) and simulate(rows) do; else fit again."
            )
        return self.engine

    @property
    def has_rows(self) -> bool:
        """Whether the rows of the fit are in memory."""
        return self.engine is not None and self.engine.holds_rows

    @property
    def rows(self) -> Rows:
        """The rows of the fit, coded as numbers."""
        return self.engine_of_rows().rows

    # what can be asked: functions elsewhere

    predict = predictions.predict
    simulate = predictions.simulate
    write_predictions = streaming.write_predictions
    write_responsibilities = streaming.write_responsibilities
    responsibilities = memberships.responsibilities
    types = memberships.types

    potential_outcomes = potential_outcomes_module.potential_outcomes
    choice_probabilities = choice_probabilities_module.choice_probabilities
    marginal_effects = marginal_effects_module.marginal_effects
    treatment_effects = treatment_effects_module.treatment_effects
    mte = mte_module.mte
    heterogeneity = sorting_module.heterogeneity
    decompose = decompose_module.decompose
    sorting = sorting_module.sorting
    gains = gains_module.gains
    counterfactual = counterfactual_module.counterfactual
    policy = policy_module.policy

    independence_test = rejections_module.independence_test
    lr_test = hypotheses.lr_test
    normality_test = rejections_module.normality_test
    heteroskedasticity_test = rejections_module.heteroskedasticity_test
    rejections = rejections_module.rejections
    departures = rejections_module.departures
    diagnose = diagnosis.diagnose
    exclusions = restrictions_module.exclusions
    restrictions = restrictions_module.restrictions
    exogeneity_test = restrictions_module.exogeneity_test
    with_residuals = restrictions_module.with_residuals
    overfitted_test = overfitting.overfitted_test
    sensitivity = sensitivity_module.sensitivity
    rehearse = rehearse_module.rehearse
    bounds = bounds_module.bounds
    verdict = verdict_module.verdict

    glance = tables.glance
    compare = compare_module.compare
    summary = summary_module.summary
    explain = explain_module.explain
    report = report_module.report
    explore = explore_module.explore
    save = archive.save

    @property
    def plot(self) -> FitPictures:
        """The pictures of the fit, such as ``fit.plot.coefficients()``."""
        return plot_module.FitPictures(self)

    def _repr_html_(self) -> str:
        return self.summary().to_html()

    def __repr__(self) -> str:
        every = list(map(str, self.problem.equations.alternatives))
        few = len(every) <= MOST_NAMED
        labels = ", ".join(every) if few else f"{len(every)} alternatives"
        what = f"{self.problem.equations.outcome} of {labels}"
        if self.problem.noise.selected:
            what = f"{self.model} of {self.problem.equations.outcome}, {self.method}"
        state = "converged" if self.converged else "NOT CONVERGED"
        likelihood = "" if np.isnan(self.llf) else f"log-likelihood {self.llf:.4f}, "
        return f"<FitResult: {on_one_line(what)}; {self.nobs} rows, {likelihood}{state}>"
