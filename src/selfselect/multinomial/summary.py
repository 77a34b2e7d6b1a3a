"""The summary of a multinomial switching regression: what is assumed, what was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selfselect.data.equations import INTERCEPT
from selfselect.errors import OptionError
from selfselect.inference.statistics import p_value_in_words
from selfselect.multinomial.two_steps import choice_label
from selfselect.report.coefficient_tables import coefficient_rows, table_header
from selfselect.report.notes import (
    errors_in_words,
    note_on_two_values,
    notes_on_errors,
    notes_on_stars,
)
from selfselect.report.page import Block, Page
from selfselect.report.summary import comparison_blocks

if TYPE_CHECKING:
    import pandas as pd

    from selfselect.data.equations import Equation
    from selfselect.inference.statistics import TestResult
    from selfselect.multinomial.result import MultinomialResult

__all__ = ["compare_page", "excluded_terms", "strength_test", "summarise"]

NAMES = {
    "dmf0": "Dubin and McFadden 1984, coefficients that add up to zero (dmf0)",
    "dmf1": "Dubin and McFadden 1984, free coefficients (dmf1)",
    "dmf2": "Dubin and McFadden 1984, noises turned normal (dmf2)",
    "lee": "Lee 1983",
    "dahl": "Dahl 2002",
}


def summarise(fit: MultinomialResult, level: float, intervals: str, *, stars: bool = False) -> Page:
    """Compose the summary page."""
    if intervals != "wald":
        raise OptionError(
            "Two-step estimates do not maximise a likelihood, so there are no profile intervals. "
            "Use 'wald'."
        )
    return Page(
        title="Multinomial switching regression, two steps",
        notices=(),
        facts=_facts(fit),
        blocks=_blocks(fit, level, stars),
        notes=(*_notes(fit), *notes_on_stars(stars)),
    )


def compare_page(fit: MultinomialResult, table: pd.DataFrame) -> Page:
    """Compose the page that puts naive and corrected estimates side by side."""
    titles = {label: str(label) for label in fit.alternatives}
    return Page(
        title="Naive least squares and corrected estimates",
        notices=(),
        facts=(("Outcome", fit.model.equations.outcome), ("Rows", str(fit.nobs))),
        blocks=comparison_blocks(table, titles),
        notes=("* difference under the model: it is selection bias if the assumptions hold.",),
    )


def _facts(fit: MultinomialResult) -> tuple[tuple[str, str], ...]:
    facts = fit.facts
    own = list(dict.fromkeys(facts.formulas))
    entries = [("Formula", own[0])]
    if len(own) > 1:
        pairs = zip(fit.alternatives, facts.formulas, strict=True)
        entries = [(str(label), text) for label, text in pairs]
    entries += [
        ("Choice", f"{facts.selection} (logit; base {fit.alternatives[fit.base]})"),
        ("Correction", NAMES[fit.correction]),
        ("Rows", str(facts.n_rows)),
        ("Std errors", errors_in_words(fit.covariance)),
        ("Choice's log-likelihood", f"{fit.llf:.4f}"),
    ]
    if facts.weights:
        kind = f"{facts.weights_kind}, " if facts.weights_kind else ""
        entries.append(("Weights", f"{facts.weights} ({kind}sum {facts.weight_total:g})"))
    return tuple(entries)


def _blocks(fit: MultinomialResult, level: float, stars: bool) -> tuple[Block, ...]:
    table = fit.tidy(level)
    header = table_header(fit.covariance, level)

    def block(label: object, title: str) -> Block:
        own = table[[one == label for one in table["alternative"]]]
        return Block(title, header, coefficient_rows(own.itertuples(index=False), stars=stars))

    outcomes = [
        block(label, f"{label} (chosen in {count} rows)")
        for label, count in zip(fit.alternatives, fit.facts.counts, strict=True)
    ]
    choices = [
        block(choice_label(label), f"choice of {label} instead of {fit.alternatives[fit.base]}")
        for m, label in enumerate(fit.alternatives)
        if m != fit.base
    ]
    return (*outcomes, *choices)


def _notes(fit: MultinomialResult) -> list[str]:
    facts = fit.facts
    tests = [fit.selection_test()]
    if fit.correction == "dmf1":
        tests.append(fit.restriction_test())
    notes = [
        *(f"{test}.".replace("..", ".") for test in tests),
        "The choice is assumed to be a logit: the noise of every alternative is independent "
        "Gumbel, so a new alternative takes its share from all others in proportion. This is not "
        "tested.",
        fit.model.correction.assumption,
        "The choice need not compare the outcomes. If the largest outcome is chosen, "
        "selfselect.fit uses this rule, and compare(roy) shows both fits side by side.",
        _exclusions(fit),
        *_strength(fit),
    ]
    if facts.n_dropped:
        notes.append(f"{facts.n_dropped} rows with a missing covariate were left out.")
    if facts.n_without_outcome:
        notes.append(
            f"{facts.n_without_outcome} rows without a recorded outcome or choice were left out on "
            "request: that selects on the outcome unless they are missing at random."
        )
    if facts.n_selected_silent:
        notes.append(
            f"{facts.n_selected_silent} rows have no recorded outcome; they count for the choice "
            "alone, as if the outcome were missing at random."
        )
    if facts.two_values:
        notes.append(f"{note_on_two_values(fit.model.equations.outcome, facts)}.")
    notes += notes_on_errors(fit.covariance, measured=False)
    return notes


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
        f"{test.statistic:.4g}, {p_value_in_words(test.p_value)}. Where it is weak, intervals are "
        "wide and their coverage is not measured."
    ]


def excluded_terms(fit: MultinomialResult, equation: Equation) -> list[str]:
    """Return the terms of the choice that an outcome does not have."""
    return [one for one in fit.model.choice_terms if one not in (*equation.terms, INTERCEPT)]


def _exclusions(fit: MultinomialResult) -> str:
    """Say which covariates move the choice and not the outcome."""
    sentences = []
    for equation in fit.model.equations.each:
        excluded = excluded_terms(fit, equation)
        if excluded:
            sentences.append(f"Excluded from {equation.alternative}: {', '.join(excluded)}")
        else:
            sentences.append(
                f"{equation.alternative} is identified by functional form: no covariate of the "
                "choice is excluded from its equation"
            )
    return "; ".join(sentences) + "."
