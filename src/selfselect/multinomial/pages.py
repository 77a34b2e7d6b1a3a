"""What is written of a multinomial fit: summary, explanation, report, and several side by side."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.equations import INTERCEPT
from selfselect.errors import OptionError
from selfselect.inference.statistics import p_value_in_words
from selfselect.multinomial.two_steps import choice_label, recorded_rows
from selfselect.report.chapters import estimates_chapter, reproduction, rows_in_words
from selfselect.report.comparison import Comparison
from selfselect.report.document import Findings, Paragraph, Part, Section
from selfselect.report.explain import NO_ROWS, effects_in_words, errors_in_words, means_in_words
from selfselect.report.page import Block, listed
from selfselect.report.summary import Entries, Portrait, compare_page, two_values
from selfselect.report.write import compared_pairs, effect_parts, write_document
from selfselect.results.diagnosis import few_clusters
from selfselect.results.estimates import PageFact
from selfselect.results.tables import labels_index

if TYPE_CHECKING:
    from selfselect.data.equations import Equation
    from selfselect.inference.statistics import TestResult
    from selfselect.multinomial.result import MultinomialResult
    from selfselect.results.fit_result import FitResult


# The summary of a multinomial switching regression: what is assumed, what was found.


COLLINEAR = 100.0
"""Condition number from which a correction is nearly a combination of covariates.

Belsley (1991) calls collinearity strong from 100 on. Standard errors are then up to 50 times those
without a correction. Sound fits of 250 to 12,000 rows have 4 to 40.
"""

WEAK = 0.05
"""p-value from which the covariates that only the choice has are said to be weak."""

NAMES = {
    "dmf0": "Dubin and McFadden 1984, coefficients that add up to zero (dmf0)",
    "dmf1": "Dubin and McFadden 1984, free coefficients (dmf1)",
    "dmf2": "Dubin and McFadden 1984, noises turned normal (dmf2)",
    "lee": "Lee 1983",
    "dahl": "Dahl 2002",
}


class ChoicePortrait(Portrait):
    """Of a fit whose choice is a multinomial logit."""

    def __init__(self, fit: MultinomialResult) -> None:
        self.fit = fit

    @property
    def title(self) -> str:
        return "Multinomial switching regression, two steps"

    def entries(self) -> Entries:
        fit = self.fit
        return [
            ("Choice", f"{fit.facts.selection} (logit; base {fit.alternatives[fit.base]})"),
            ("Correction", NAMES[fit.correction]),
        ]

    def likelihood(self) -> Entries:
        return [("Choice's log-likelihood", f"{self.fit.llf:.4f}")]

    def titles(self) -> dict[Hashable, str]:
        counts = zip(self.fit.alternatives, self.fit.facts.counts, strict=True)
        return {label: f"{label} (chosen in {count} rows)" for label, count in counts}

    def choice_titles(self) -> dict[Hashable, str]:
        base, labels = self.fit.alternatives[self.fit.base], self.fit.alternatives
        return {
            choice_label(label): f"choice of {label} instead of {base}"
            for label in labels
            if label != base
        }

    def tests(self) -> list[TestResult]:
        free = self.fit.correction == "dmf1"
        return [self.fit.selection_test(), *([self.fit.restriction_test()] if free else [])]

    def notes(self) -> list[str]:
        return [
            "The choice is assumed to be a logit: the noise of every alternative is independent "
            "Gumbel, so a new alternative takes its share from all others in proportion. This is "
            "not tested.",
            self.fit.model.correction.assumption,
            "The choice need not compare the outcomes. If the largest outcome is chosen, "
            "selfselect.fit uses this rule, and compare(roy) shows both fits side by side.",
            _exclusions(self.fit),
            *_strength(self.fit),
            *([f"{two_values(self.fit)}."] if self.fit.facts.two_values else []),
        ]

    def answer(self, data: Any, level: float) -> tuple[list[str], list[str]]:
        fit = self.fit
        if data is None and fit.rows is None:
            return [NO_ROWS], []
        of = f" of {fit.facts.chosen}" if fit.facts.chosen else ""
        about = f"Effect{of} on mean {fit.model.equations.outcome}{errors_in_words(fit, data)}"
        ask = partial(fit.treatment_effects, data=data, level=level)
        words, warnings = effects_in_words(about, fit.alternatives, fit.facts.counts, ask)
        return [words], warnings

    def assumptions(self) -> list[str]:
        fit, test, words = self.fit, self.fit.selection_test(), []
        if test.possible:
            verdict = "rejected" if test.rejects() else "not rejected"
            words.append(
                f"That the choice is independent of the outcomes' noise is {verdict} "
                f"({p_value_in_words(test.p_value)})."
            )
        by_form = [one.alternative for one in fit.model.equations.each if not _excluded(fit, one)]
        form = (
            f"Outcomes of {listed(by_form)} are identified by functional form alone: no covariate "
            "of the choice is excluded. "
        )
        words.append(
            f"This assumes that the choice is a multinomial logit of {fit.facts.selection}, with "
            f"independent Gumbel noises, and that mean outcomes follow {means_in_words(fit)}. "
            f"{fit.model.correction.assumption} {form if by_form else ''}Not tested: the logit, "
            f"the form of the means, and the correction ({fit.correction})."
        )
        return words

    @property
    def headline(self) -> str:
        return f"{self.fit.model.equations.outcome} by choice: {listed(self.fit.alternatives)}"

    def question(self) -> tuple[str, ...]:
        return (
            f"How does {self.fit.model.equations.outcome} depend on its covariates in each of "
            f"{len(self.fit.alternatives)} alternatives, for everyone and not only for those who "
            "chose it? The choice is a multinomial logit, and its noise may be correlated with "
            "the outcomes.",
        )

    def nothing_wrong(self) -> str:
        return "Both steps were solved. Read their assumptions first."

    def chapters(self, level: float, command: str | None) -> list[Section]:
        fit = self.fit
        page, total = fit.summary(level), sum(fit.facts.counts)
        rows = tuple(
            (str(label), str(count), f"{100 * count / total:.1f}%")
            for label, count in zip(fit.alternatives, fit.facts.counts, strict=True)
        )
        chosen = Block("Chosen alternatives", ("", "rows", "share"), rows)
        notes = Findings(tuple(("note", one) for one in page.notes))
        loaded = "and this fit was loaded from a file, which keeps none"
        beside: list[Part] = [Paragraph(f"Least squares needs rows, {loaded}.")]
        how = "Pass rows to compute them: result.treatment_effects(..., data=rows)."
        effects: list[Part] = [Paragraph(f"Effects are averages over rows, {loaded}. {how}")]
        if fit.rows is not None:
            compared = fit.compare().to_page()
            beside = [*compared.blocks, *map(Paragraph, compared.notes)]
            effects = effect_parts(fit, "potential_outcomes", level=level)
            effects += compared_pairs(fit, ["model"], level)
        return [
            Section("The data", (Paragraph(rows_in_words(fit)), chosen)),
            Section("What is assumed, and tested", (notes,)),
            Section("Effects", tuple(effects)),
            Section("Least squares beside it", tuple(beside)),
            estimates_chapter(fit, level),
            reproduction(fit.call, command, fit.status),
        ]


def page_facts(fit: MultinomialResult) -> tuple[PageFact, ...]:
    """Gather the facts of a fit, the gravest first."""
    return (
        *_near_collinearity(fit),
        *_weak_exclusions(fit),
        *few_clusters(fit.covariance, measured=False),
    )


def _near_collinearity(fit: MultinomialResult) -> list[PageFact]:
    """Say in which outcomes the correction can hardly be told from the covariates."""
    numbers = zip(fit.alternatives, fit.conditions, strict=True)
    near = {str(label): number for label, number in numbers if number >= COLLINEAR}
    if not near:
        return []
    several = len(near) > 1
    named = listed([f"{label} ({number:,.0f})" for label, number in near.items()])
    advice = "Add covariates to the choice that move it in ways of their own and no outcome"
    if fit.correction != "lee":
        advice += ", or use correction='lee', which has one regressor"
    words = (
        f"NEARLY COLLINEAR: the {'corrections' if several else 'correction'} of {named} can hardly "
        f"be told from the covariates (condition number in brackets; from {COLLINEAR:g} on "
        "collinearity is strong). Standard errors of constants and slopes are up to "
        f"{max(near.values()) / 2.0:,.0f} times those without a correction: do not use these "
        "numbers, nor effects that rest on them."
    )
    return [PageFact("nearly collinear", "grave", words, f"{advice}.")]


def _weak_exclusions(fit: MultinomialResult) -> list[PageFact]:
    """Warn where what no outcome has hardly moves the choice: corrections are then form alone."""
    found = strength_test(fit)
    if found is None or found[1].p_value < WEAK:
        return []
    terms, test = found
    words = (
        f"WEAK EXCLUSION: the covariates that only the choice has ({', '.join(terms)}) hardly move "
        f"it ({p_value_in_words(test.p_value)}), so intervals are wide and their coverage is not "
        "measured."
    )
    step = "Add covariates to the choice that move it and no outcome."
    return [PageFact("weak exclusions", "weak", words, step)]


def strength_test(fit: MultinomialResult) -> tuple[list[str], TestResult] | None:
    """Test whether covariates that no outcome has move the choice; None without any."""
    own = {term for equation in fit.model.equations.each for term in equation.terms}
    terms = [term for term in fit.model.choice_terms if term not in {*own, INTERCEPT}]
    if not terms:
        return None
    test = fit.wald_test([f"{label}:{term} = 0" for label in fit.choice_labels for term in terms])
    return (terms, test) if test.possible else None


def _strength(fit: MultinomialResult) -> list[str]:
    """Say how strongly what no outcome has moves the choice."""
    found = strength_test(fit)
    if found is None:
        return []
    terms, test = found
    law = f"chi2({test.df})"
    if test.df_residual is not None:
        law = f"F({test.df}, {round(test.df_residual, 2):g})"
    return [
        f"Strength of the covariates that only the choice has ({', '.join(terms)}): {law} = "
        f"{test.statistic:.4g}, {p_value_in_words(test.p_value)}."
    ]


def _excluded(fit: MultinomialResult, equation: Equation) -> list[str]:
    """Return the terms of the choice that an outcome does not have."""
    return [one for one in fit.model.choice_terms if one not in (*equation.terms, INTERCEPT)]


def _exclusions(fit: MultinomialResult) -> str:
    """Say which covariates move the choice and not the outcome."""
    sentences = []
    for equation in fit.model.equations.each:
        excluded = _excluded(fit, equation)
        if excluded:
            sentences.append(f"Excluded from {equation.alternative}: {', '.join(excluded)}")
        else:
            sentences.append(
                f"{equation.alternative} is identified by functional form: no covariate of the "
                "choice is excluded from its equation"
            )
    return "; ".join(sentences) + "."


# The report.


def report(
    fit: MultinomialResult, path: str | Path, *, level: float = 0.95, command: str | None = None
) -> None:
    """Write summary, effects and assumptions into one HTML file to send to a colleague.

    Parameters
    ----------
    path : of the file; one that is there is replaced.
    level : of all intervals.
    command : the shell command that made the fit, shown as it is, if there was one.
    """
    write_document(fit, path, level=level, command=command)


# Estimates beside least squares, and beside a Roy model of the same data.


Array = NDArray[np.float64]


def _naive(fit: MultinomialResult, j: int) -> tuple[Array, Array]:
    """Return least squares on the rows of an alternative, with robust (HC1) errors."""
    rows = fit.own_rows()
    assert rows.chosen is not None and rows.outcome is not None
    own = recorded_rows(rows, j)
    weights = np.ones(len(own)) if rows.weights is None else rows.weights[own]
    x = fit.model.outcome_design(rows, j, own)
    # In units of their own, so that no column is lost beside one of larger numbers.
    units = np.sqrt((x**2).mean(axis=0))
    units[units == 0] = 1.0
    x = x / units
    bread = np.linalg.pinv(x.T @ (x * weights[:, None]))
    coefficients = bread @ (x.T @ (weights * rows.outcome[own]))
    left_over = rows.outcome[own] - x @ coefficients
    repeated = fit.facts.weights_kind == "frequency"
    squared = weights if repeated else weights**2
    count = float(weights.sum() if repeated else (weights > 0).sum())
    meat = x.T @ (x * (squared * left_over**2)[:, None])
    factor = count / max(count - x.shape[1], 1.0)
    return coefficients / units, np.sqrt(np.diag(factor * bread @ meat @ bread)) / units


def compare(fit: MultinomialResult, roy: FitResult | None = None) -> Comparison:
    """Put least squares beside the corrected estimates, and a Roy fit of the same data.

    Parameters
    ----------
    roy : a fit of `selfselect.fit` to the same rows and outcomes: there the largest (or
        smallest) outcome is chosen, here whatever a logit says.
    """
    table = comparison_table(fit, roy)
    return Comparison(table, partial(compare_page, fit, table))


def comparison_table(fit: MultinomialResult, roy: FitResult | None) -> pd.DataFrame:
    """Return naive and corrected coefficients, and those of a Roy model, side by side."""
    labels: list[tuple[Any, str]] = []
    naive: list[Array] = []
    errors: list[Array] = []
    for j, equation in enumerate(fit.model.equations.each):
        labels += [(equation.alternative, term) for term in equation.terms]
        own, own_errors = _naive(fit, j)
        naive.append(own)
        errors.append(own_errors)
    corrected = pd.DataFrame({"estimate": fit.params, "std_error": fit.bse})
    index = labels_index(labels)
    table = pd.DataFrame(
        {"naive": np.concatenate(naive), "naive_se": np.concatenate(errors)}, index=index
    )
    table["corrected"] = corrected["estimate"].reindex(index)
    table["corrected_se"] = corrected["std_error"].reindex(index)
    table["difference under the model"] = table["corrected"] - table["naive"]
    if not fit.model.correction.levels:
        constants = table.index.get_level_values("term") == "Intercept"
        table.loc[constants, ["corrected", "corrected_se", "difference under the model"]] = np.nan
    if roy is None:
        return table
    _refuse_other_data(fit, roy)
    other = pd.DataFrame({"estimate": roy.params, "std_error": roy.bse})
    table["roy"] = other["estimate"].reindex(index)
    table["roy_se"] = other["std_error"].reindex(index)
    return table


def _refuse_other_data(fit: MultinomialResult, roy: FitResult) -> None:
    problem = getattr(roy, "problem", None)
    if problem is None or problem.noise.selected:
        raise OptionError("Give a fit of selfselect.fit to compare with.")
    ours = (fit.model.equations.outcome, fit.facts.n_rows, fit.facts.outcome_range)
    theirs = (problem.equations.outcome, roy.facts.n_rows, roy.facts.outcome_range)
    if ours != theirs or set(map(str, fit.alternatives)) != set(
        map(str, problem.equations.alternatives)
    ):
        raise OptionError(
            "The fit to compare with is of other rows, outcomes or alternatives. Fit both to the "
            "same data."
        )
