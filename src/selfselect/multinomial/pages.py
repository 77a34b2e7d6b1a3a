"""What is written of a multinomial fit: summary, explanation, report, and several side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.equations import INTERCEPT
from selfselect.errors import (
    DataError,
    OptionError,
    SelfSelectError,
    SelfSelectWarning,
    UnsupportedError,
    without_warnings,
)
from selfselect.inference.statistics import check_level, p_value_in_words
from selfselect.multinomial.two_steps import choice_label, recorded_rows
from selfselect.report.chapters import reproduction
from selfselect.report.document import (
    MOST_COMPARED,
    Document,
    Findings,
    Paragraph,
    Part,
    Section,
    listed,
    pairs_compared,
)
from selfselect.report.explain import (
    NO_ROWS,
    Explanation,
    beside_least_squares,
    effects_in_words,
    means_in_words,
    rows_in_words,
)
from selfselect.report.page import Block, Page, format_number
from selfselect.report.page_parts import (
    coefficient_rows,
    errors_in_words,
    note_on_two_values,
    notes_on_errors,
    notes_on_stars,
    table_header,
)
from selfselect.report.summary import comparison_blocks
from selfselect.report.write import shown_effect
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
        notices=near_collinearity(fit),
        facts=_facts(fit),
        blocks=_blocks(fit, level, stars),
        notes=(*_notes(fit), *notes_on_stars(stars)),
    )


def compare_page(fit: MultinomialResult, table: pd.DataFrame) -> Page:
    """Compose the page that puts naive and corrected estimates side by side."""
    titles = {label: str(label) for label in fit.alternatives}
    return Page(
        title="Naive least squares and corrected estimates",
        notices=near_collinearity(fit),
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


def near_collinearity(fit: MultinomialResult) -> tuple[str, ...]:
    """Say in which outcomes the correction can hardly be told from the covariates."""
    numbers = zip(fit.alternatives, fit.conditions, strict=False)
    near = {str(label): number for label, number in numbers if number >= COLLINEAR}
    if not near:
        return ()
    several = len(near) > 1
    named = listed([f"{label} ({number:,.0f})" for label, number in near.items()])
    advice = "Add covariates to the choice that move it in ways of their own and no outcome"
    if fit.correction != "lee":
        advice += ", or use correction='lee', which has one regressor"
    return (
        f"NEARLY COLLINEAR: the {'corrections' if several else 'correction'} of {named} can hardly "
        f"be told from the covariates (condition number in brackets; from {COLLINEAR:g} on "
        "collinearity is strong). Standard errors of constants and slopes are up to "
        f"{max(near.values()) / 2.0:,.0f} times those without a correction: do not use these "
        f"numbers, nor effects that rest on them. {advice}.",
    )


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


# What a multinomial switching regression says, in words.


WEAK = 0.05
"""p-value above which the covariates that only the choice has are said to be weak."""


def explain(fit: MultinomialResult, data: Any = None, *, level: float = 0.95) -> Explanation:
    """Say what a fit says. Arguments are those of `MultinomialResult.explain`."""
    check_level(level)
    outcome = fit.model.equations.outcome
    answer, warnings = _answer(fit, data, level)
    alarms = _alarms(fit)
    return Explanation(
        f"What the fit says about {outcome}: {listed(fit.alternatives)}",
        tuple(dict.fromkeys((*alarms, *warnings))),
        (answer, *_least_squares(fit, in_doubt=bool(alarms)), _assumptions(fit)),
    )


def _answer(fit: MultinomialResult, data: Any, level: float) -> tuple[str, list[str]]:
    if data is None and fit.rows is None:
        return NO_ROWS, []
    of = f" of {fit.facts.chosen}" if fit.facts.chosen else ""
    about = f"Effect{of} on mean {fit.model.equations.outcome}{rows_in_words(fit, data)}"

    def ask(to: Any, versus: Any) -> Any:
        return fit.treatment_effects(to, versus, data, level=level)

    try:
        return effects_in_words(about, fit.alternatives, fit.facts.counts, ask)
    except (DataError, OptionError, UnsupportedError) as error:
        return f"Effects are not available: {error}", []


def _least_squares(fit: MultinomialResult, *, in_doubt: bool) -> list[str]:
    """Say what the correction changes, and whether it is needed."""
    try:
        said = beside_least_squares(fit.compare().table, in_doubt=in_doubt)
    except UnsupportedError:
        said = []
    test = fit.selection_test()
    if test.possible:
        verdict = "rejected" if test.rejects() else "not rejected"
        said.append(
            f"That the choice is independent of the outcomes' noise is {verdict} "
            f"({p_value_in_words(test.p_value)})."
        )
    return said


def _assumptions(fit: MultinomialResult) -> str:
    """Name the assumptions of both steps; none of them is tested."""
    said = (
        f"This assumes that the choice is a multinomial logit of {fit.facts.selection}, with "
        f"independent Gumbel noises, and that mean outcomes follow {means_in_words(fit)}. "
        f"{fit.model.correction.assumption} "
    )
    by_form = [one.alternative for one in fit.model.equations.each if not excluded_terms(fit, one)]
    if by_form:
        said += (
            f"Outcomes of {listed(by_form)} are identified by functional form alone: no covariate "
            "of the choice is excluded. "
        )
    return (
        f"{said}Not tested: the logit, the form of the means, and the correction "
        f"({fit.correction})."
    )


def _alarms(fit: MultinomialResult) -> list[str]:
    """Say what is weak: with nothing that moves the choice alone, corrections are form alone."""
    alarms = []
    found = strength_test(fit)
    if found is not None and found[1].p_value >= WEAK:
        terms, test = found
        alarms.append(
            f"WEAK: the covariates that only the choice has ({', '.join(terms)}) hardly move it "
            f"({p_value_in_words(test.p_value)}), so intervals are wide and their coverage is not "
            "measured. Add covariates to the choice that move it and no outcome."
        )
    return [*alarms, *near_collinearity(fit)]


# The report of a multinomial switching regression: what every report has at its core.


def compose(fit: MultinomialResult, level: float, command: str | None) -> Document:
    """Put the chapters together."""
    page = fit.summary(level)
    explained = explain(fit, level=level)
    outcome = fit.model.equations.outcome
    facts = Block("The fit as a whole", ("", ""), tuple(page.facts))
    sections = (
        Section("The data", tuple(_data(fit))),
        Section(
            "What is assumed, and tested", (Findings(tuple(("note", one) for one in page.notes)),)
        ),
        Section("Effects", tuple(_effects(fit, level))),
        Section("Least squares beside it", tuple(_comparison(fit))),
        Section("Corrected estimates in full", (*page.blocks, facts)),
        reproduction(fit.call, command, fit.status),
    )
    return Document(
        f"{outcome} by choice: {listed(fit.alternatives)}",
        explained.answers,
        (
            f"How does {outcome} depend on its covariates in each of {len(fit.alternatives)} "
            "alternatives, for everyone and not only for those who chose it? The choice is a "
            "multinomial logit, and its noise may be correlated with the outcomes.",
        ),
        tuple(dict.fromkeys((*page.notices, *explained.alarms))),
        sections,
        "Both steps were solved. Read their assumptions first.",
    )


def _data(fit: MultinomialResult) -> list[Part]:
    facts = fit.facts
    low, high = facts.outcome_range
    total = sum(facts.counts)
    rows = tuple(
        (str(label), str(count), f"{100 * count / total:.1f}%")
        for label, count in zip(fit.alternatives, facts.counts, strict=True)
    )
    text = (
        f"{facts.n_rows} rows; {fit.model.equations.outcome} runs from {format_number(low)} to "
        f"{format_number(high)}."
    )
    return [Paragraph(text), Block("Chosen alternatives", ("", "rows", "share"), rows)]


def _effects(fit: MultinomialResult, level: float) -> list[Part]:
    """Compare the pairs of alternatives that the answer compares."""
    if fit.rows is None:
        return [
            Paragraph(
                "Effects are averages over rows, and this fit was loaded from a file, which "
                "keeps none. Pass rows to compute them: result.treatment_effects(..., data=rows)."
            )
        ]
    parts = _ask(lambda: fit.potential_outcomes(level=level))
    if len(fit.alternatives) > MOST_COMPARED:
        words = f"All pairs of the {MOST_COMPARED} alternatives chosen most often are compared."
        parts.append(Paragraph(f"{words} Use result.treatment_effects for others."))
    for pair in pairs_compared(fit.alternatives, fit.facts.counts):
        parts += _ask(lambda pair=pair: fit.treatment_effects(*pair, level=level))
    return parts


def _ask(make: Any) -> list[Part]:
    """Ask for one effect; where it cannot be had, the reason takes its place."""
    try:
        with without_warnings(SelfSelectWarning):
            return shown_effect(make())
    except SelfSelectError as error:
        return [Paragraph(str(error))]


def _comparison(fit: MultinomialResult) -> list[Part]:
    try:
        table = fit.compare().table
    except SelfSelectError as error:
        return [Paragraph(str(error))]
    header = ("", *map(str, table.columns))
    rows = tuple(
        (f"{label}: {term}", *(format_number(float(value)) for value in row))
        for (label, term), row in zip(table.index, table.to_numpy(), strict=True)
    )
    return [Block("Least squares on each alternative's own rows, and corrected", header, rows)]
