"""The result of a multinomial model, and its predictions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.coding import Coding
from selfselect.data.design import DataFacts
from selfselect.data.rows import Rows
from selfselect.errors import (
    MissingRowsWarning,
    NoSuchResultError,
    OptionError,
    UnsupportedError,
    warn_user,
)
from selfselect.inference.covariance import Covariance
from selfselect.inference.dependence import Dependence
from selfselect.inference.statistics import TestResult, check_level, interval_ends
from selfselect.multinomial.corrections import Correction
from selfselect.multinomial.two_steps import Model, TwoStepEstimate, choice_label, expect
from selfselect.options import Intervals, Scale
from selfselect.problem.parameters import Reported
from selfselect.report.comparison import Comparison
from selfselect.results.averaged_rows import check_scale
from selfselect.results.estimates import Estimates
from selfselect.results.late import LateModule
from selfselect.results.predictions import errors_of_rows, say_lacking, with_intervals
from selfselect.visible import on_one_line

if TYPE_CHECKING:
    import selfselect.multinomial.door as door_module
    import selfselect.multinomial.effects as effects_module
    from selfselect.inference.profile import Surface
    from selfselect.report.explain import Explanation
    from selfselect.report.page import Page
    from selfselect.results.fit_result import FitResult
else:
    door_module = LateModule("selfselect.multinomial.door")
    effects_module = LateModule("selfselect.multinomial.effects")

Array = NDArray[np.float64]


# Predictions for rows, as far as a correction identifies them.


KINDS = ("latent", "chance", "outcome", "given_seen")

NO_LEVELS = (
    "Dahl's correction has a constant of its own, so constants of outcomes, and with them levels, "
    "are not identified"
)
NO_OTHERS = (
    "Lee's correction says nothing of an outcome's noise where another alternative is chosen"
)


def refuse_unidentified(correction: Correction, *, others: bool) -> None:
    """Refuse levels, and noise where another alternative is chosen, where they are unknown."""
    better = "Use correction='dmf0', 'dmf1' or 'dmf2'."
    if not correction.levels:
        raise UnsupportedError(f"{NO_LEVELS}. {better}")
    if others and not correction.others:
        raise UnsupportedError(f"{NO_OTHERS}. {better}")


def refuse_level_scale(scale: str) -> None:
    """Refuse means of the outcome itself where its logarithm was modelled."""
    check_scale(scale)
    if scale == "level":
        raise UnsupportedError(
            "scale='level' needs the whole distribution of the noise, and a multinomial switching "
            "regression models only its mean where each alternative is chosen. Leave `scale` out. "
            "For the logarithm of an outcome, exp(ATE) - 1 is the effect on the geometric mean."
        )


def predict(
    fit: MultinomialResult, data: Any, kind: str, scale: str, level: float | None
) -> pd.DataFrame | pd.Series[Any]:
    """Predict for the rows of `data`, or for those of the fit where it is None."""
    if kind not in KINDS:
        raise OptionError(f"There is no prediction {kind!r}. Use one of {', '.join(KINDS)}.")
    refuse_level_scale(scale)
    if kind in ("latent", "given_seen"):
        refuse_unidentified(fit.model.correction, others=kind == "given_seen")
    if level is not None:
        check_level(level)
    if data is None:
        rows, index = fit.own_rows(), fit.row_labels
        assert index is not None
        complete = np.ones(len(rows), dtype=bool)
    else:
        coded = fit.coding.code(data, with_known=True)
        rows, index, complete = coded.rows, coded.index, coded.complete
        if not complete.all():
            warn_user(
                say_lacking(int((~complete).sum()), len(index), "covariate", "predictions"),
                MissingRowsWarning,
            )

    def in_place(found: Array) -> Array:
        full = np.full((len(index), found.shape[1]), np.nan)
        full[complete] = found
        return full

    def made(reported: Array) -> Array:
        return _values(fit, reported, rows, kind)

    labels = fit.alternatives
    columns = pd.Index(labels, name="alternative")
    if kind == "given_seen":
        columns = pd.MultiIndex.from_product([labels, labels], names=["alternative", "seen"])
    values = made(fit.values)
    if level is not None:
        errors = errors_of_rows(fit, made, values)
        ends = interval_ends(values, errors, level, fit.covariance.df, share=kind == "chance")
        each = [in_place(one) for one in (values, errors, *ends)]
        return with_intervals(each[0], each[1], (each[2], each[3]), columns, index)
    if kind == "outcome":
        return pd.Series(in_place(values)[:, 0], index=index, name=fit.model.equations.outcome)
    return pd.DataFrame(in_place(values), index=index, columns=columns)


def _values(fit: MultinomialResult, reported: Array, rows: Rows, kind: str) -> Array:
    expected = expect(fit.model, reported, rows)
    if kind == "latent":
        return expected.latent
    if kind == "chance":
        return expected.chance
    if kind == "outcome":
        return expected.outcome[:, None]
    return expected.given.reshape(len(rows), -1)


# The result of a multinomial switching regression: estimates of both steps and what they say.


INSTEAD = {
    "choice_probabilities": "predict(kind='chance')",
    "marginal_effects": "predict(rows, kind='chance') at the values to compare",
    "simulate": "predict(rows)",
    "plot": "the tables of tidy(), treatment_effects() and potential_outcomes() to draw from",
}
"""What to use instead of methods that other results have."""


def renamed(test: TestResult, name: str, null: str) -> TestResult:
    """Return a test under the name of what it is used for."""
    return replace(test, name=name, null=null)


@dataclass(frozen=True, eq=False, repr=False)
class MultinomialResult(Estimates):
    """A fitted multinomial switching regression.

    Attributes
    ----------
    coding : how tables are coded, for new rows.
    model : equations and correction.
    found : both steps, estimated.
    covariance : of the estimates of both steps.
    facts : what to know of the data.
    rows : coded; None where the fit was loaded from a file.
    row_labels : the caller's labels of the rows that were used; None likewise.
    influence : (n, m) what each row does to the estimates; None after a bootstrap.
    call : the call that made the fit, as code.
    conditions : per outcome, how nearly its correction is a combination of its covariates, as a
        condition number: see `two_steps.condition_numbers`. Empty in fits saved without it.
    """

    coding: Coding
    model: Model
    found: TwoStepEstimate
    covariance: Covariance
    facts: DataFacts
    rows: Rows | None = field(default=None)
    row_labels: pd.Index[Any] | None = field(default=None)
    influence: Array | None = field(default=None)
    call: str | None = field(default=None)
    conditions: tuple[float, ...] = field(default=())

    @cached_property
    def reported(self) -> Reported:
        """Labels and values of all estimated parameters."""
        values = self.found.values
        return Reported(self.model.parameters, values, np.eye(len(values)))

    @property
    def correction(self) -> str:
        """The correction by its name."""
        return self.model.correction.name

    @property
    def alternatives(self) -> tuple[Any, ...]:
        """The alternatives, in order."""
        return self.model.labels

    @property
    def equation_labels(self) -> tuple[Any, ...]:
        """The alternatives, and the equations of the choice."""
        return (*self.alternatives, *self.choice_labels)

    @property
    def choice_labels(self) -> tuple[str, ...]:
        """The equations of the choice, by their names in tables."""
        return tuple(choice_label(one) for m, one in enumerate(self.alternatives) if m != self.base)

    @property
    def base(self) -> int:
        """The position of the alternative whose coefficients in the choice are zero."""
        return self.model.base

    @property
    def nobs(self) -> int:
        """Rows used; with frequency weights, how many rows they stand for."""
        return self.facts.n_observations

    @property
    def llf(self) -> float:
        """The log-likelihood of the first step, the choice alone."""
        return self.found.logit.loglik

    @property
    def aic(self) -> float:
        """Missing: two steps maximise no likelihood."""
        return float("nan")

    @property
    def bic(self) -> float:
        """Missing: two steps maximise no likelihood."""
        return float("nan")

    @property
    def converged(self) -> bool:
        """Whether both steps were solved: they are, or the fit is refused."""
        return True

    @property
    def status(self) -> str:
        """How the estimate was made, in a sentence."""
        return f"A logit in {self.found.logit.n_steps} Newton steps and least squares, both solved."

    @property
    def counts(self) -> pd.Series[Any]:
        """Rows in which each alternative was chosen."""
        index = pd.Index(self.alternatives, name="alternative")
        return pd.Series(self.facts.counts, index=index, name="count")

    def glance(self) -> pd.DataFrame:
        """One row for the whole fit; the log-likelihood is that of the choice alone."""
        return pd.DataFrame(
            [
                {
                    "model": "multinomial switching",
                    "method": "two-step",
                    "correction": self.correction,
                    "nobs": self.nobs,
                    "n_alternatives": len(self.alternatives),
                    "n_parameters": len(self.names),
                    "llf_choice": self.llf,
                    "converged": self.converged,
                    "covariance": self.covariance.kind,
                    "df": self.covariance.df if np.isfinite(self.covariance.df) else np.nan,
                    "selection_p_value": self.selection_test().p_value,
                }
            ]
        )

    @property
    def dependence(self) -> Dependence:
        """Clusters and weights: why rows may not be independent draws of equal weight."""
        facts, rows = self.facts, self.rows
        sizes = () if rows is None else rows.cluster_sizes
        return Dependence(sizes, facts.cluster, facts.weights_kind)

    def own_rows(self) -> Rows:
        """Return the rows of the fit, or refuse where it was loaded from a file."""
        if self.rows is None:
            raise UnsupportedError(
                "The fit was loaded from a file and no longer has its rows. Give rows, data=..., "
                "or fit again."
            )
        return self.rows

    @property
    def __maketables_depvar__(self) -> str:
        return str(self.model.equations.outcome)

    def _surface(self) -> Surface | str:
        return "two-step estimates do not maximise a likelihood"

    def summary(
        self, level: float = 0.95, *, intervals: Intervals = "wald", stars: bool = False
    ) -> Page:
        """Return the summary of the fit, which prints as text and is shown as HTML in notebooks.

        Parameters
        ----------
        level : of the intervals.
        intervals : ``"wald"``; there are no others.
        stars : whether estimates carry stars for p-values below 0.05, 0.01 and 0.001.
        """
        from selfselect.multinomial.pages import summarise

        return summarise(self, level, intervals, stars=stars)

    def _corrections(self) -> list[Any]:
        """Return, by parameter, the alternative whose correction it belongs to; None for others."""
        found: list[Any] = [None] * len(self.names)
        for j, own in self.model.blocks():
            first = own.start + len(self.model.equations.each[j].terms)
            found[first : own.stop] = [self.alternatives[j]] * (own.stop - first)
        return found

    def selection_test(self, alternative: Any = None) -> TestResult:
        """Test that no correction is needed: all of its coefficients are zero.

        Parameters
        ----------
        alternative : of which outcome; None for all together.
        """
        which = [
            place
            for place, own in enumerate(self._corrections())
            if own is not None and (alternative is None or own == alternative)
        ]
        if not which:
            raise OptionError(
                f"There is no alternative {alternative!r}; there are "
                f"{', '.join(map(repr, self.alternatives))}."
            )
        return renamed(
            self.wald_test(np.eye(len(self.names))[which]),
            "Wald test of the corrections",
            "choice is independent of outcomes' noise",
        )

    def restriction_test(self) -> TestResult:
        """Test that the coefficients of every outcome's correction add up to zero, as in dmf0.

        It needs ``correction="dmf1"``, which leaves them free.
        """
        if self.correction != "dmf1":
            raise UnsupportedError(
                "The test that coefficients add up to zero needs a correction in which they are "
                "free: correction='dmf1'."
            )
        found = self._corrections()
        rows = np.array([[float(label == own) for label in found] for own in self.alternatives])
        return renamed(
            self.wald_test(rows),
            "Wald test of dmf0",
            "coefficients of a correction add up to zero, as in dmf0",
        )

    def predict(
        self,
        data: Any = None,
        kind: str = "latent",
        scale: Scale = "model",
        *,
        level: float | None = None,
    ) -> pd.DataFrame | pd.Series[Any]:
        """Predict for new rows, or for those of the fit where `data` is None.

        Parameters
        ----------
        data : any table with the covariates (and availability columns, if any).
        kind : ``latent``, the mean of every outcome; ``chance`` of each alternative; ``outcome``,
            the mean of the observed outcome; ``given_seen``, the mean of every outcome where each
            alternative is chosen. What the correction does not identify is refused.
        scale : ``"model"``; two steps do not determine means of a logged outcome's level.
        level : None for predictions alone; 0.95 for standard errors and intervals too.
        """
        return predict(self, data, kind, scale, level)

    potential_outcomes = effects_module.potential_outcomes

    treatment_effects = effects_module.treatment_effects

    def compare(self, roy: FitResult | None = None) -> Comparison:
        """Put least squares beside the corrected estimates, and a Roy fit of the same data.

        Parameters
        ----------
        roy : a fit of `selfselect.fit` to the same rows and outcomes: there the largest (or
            smallest) outcome is chosen, here whatever a logit says.
        """
        from selfselect.multinomial.pages import compare_page, comparison_table

        table = comparison_table(self, roy)
        return Comparison(table, partial(compare_page, self, table))

    def explain(self, data: Any = None, *, level: float = 0.95) -> Explanation:
        """Explain the fit in a few sentences: effects, assumptions, what was not tested.

        Parameters
        ----------
        data : a table to average effects over; None for the rows of the fit, which a fit loaded
            from a file does not have.
        level : of all intervals.
        """
        from selfselect.multinomial.pages import explain

        return explain(self, data, level=level)

    save = door_module.save

    def report(self, path: str | Path, *, level: float = 0.95, command: str | None = None) -> None:
        """Write summary, effects and assumptions into one HTML file to send to a colleague.

        Parameters
        ----------
        path : of the file; one that is there is replaced.
        level : of all intervals.
        command : the shell command that made the fit, shown as it is, if there was one.
        """
        from selfselect.multinomial.pages import compose
        from selfselect.report.write import write_document

        write_document(lambda: compose(self, level, command), path, level=level)

    def __getattr__(self, name: str) -> NoReturn:
        from selfselect.results.fit_result import FitResult

        if name.startswith("_") or not hasattr(FitResult, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise NoSuchResultError(
            f"A multinomial switching regression has no {name}: its two steps estimate mean "
            "outcomes and chances, not how outcomes are distributed, nor a rule of choice. Use "
            f"{INSTEAD.get(name, 'treatment_effects(), potential_outcomes() or predict()')}; or "
            "selfselect.fit, if the outcomes themselves decide the choice."
        )

    def __repr__(self) -> str:
        what = f"{self.model.equations.outcome} of {', '.join(map(str, self.alternatives))}"
        rows = f"{self.nobs} rows, correction {self.correction}"
        return f"<MultinomialResult: {on_one_line(what)}; {rows}>"

    def _repr_html_(self) -> str:
        return self.summary().to_html()
