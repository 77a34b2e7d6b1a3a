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
from selfselect.results.diagnosis import Diagnosis, page_facts
from selfselect.results.effect_methods import EffectMethods, PredictionMethods
from selfselect.results.estimates import Estimates
from selfselect.results.memberships import expected_shares
from selfselect.results.naive import ErrorKind, Naive, fit_naive
from selfselect.results.page_methods import PageMethods
from selfselect.results.rejections import PageFact
from selfselect.results.tables import labelled_series, naive_table
from selfselect.results.trust_methods import AssumptionMethods, TrustMethods
from selfselect.solvers.base import Solution
from selfselect.visible import on_one_line

if TYPE_CHECKING:
    from selfselect.inference.profile import Surface


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
    page_facts: tuple[PageFact, ...]


@dataclass(frozen=True, eq=False, repr=False)
class FitResult(
    PageMethods, AssumptionMethods, PredictionMethods, EffectMethods, TrustMethods, Estimates
):
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
            values = expected_shares(self.problem, self.engine_of_rows(), self.solution.free)
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
        return fit_naive(self.problem, self.engine_of_rows(), ErrorKind.of(self))

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
    def memory(self) -> dict[Any, Any]:
        """Results of bootstrap tests, for summaries; the verdict, for `explain` and reports."""
        return {}

    def page_facts(self) -> tuple[PageFact, ...]:
        """Return what every page of this fit says first, such as rejections and other optima."""
        return page_facts(self)

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
