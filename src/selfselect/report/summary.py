"""The summary of a fit, with and without a selection equation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from selfselect.data.equations import SELECTION
from selfselect.noises.selection import NEARLY_ONE
from selfselect.options import Intervals
from selfselect.problem.parameters import SCALE
from selfselect.report.page import Block, Page, format_number
from selfselect.report.page_parts import (
    DEVIATION,
    PSEUDO_LIKELIHOOD,
    coefficient_rows,
    errors_in_words,
    in_order,
    note_on_two_values,
    notes_on_errors,
    notes_on_stars,
    notes_on_tests,
    profile_facts,
    profile_notes,
    shared_block,
    table_header,
    with_deviations,
)
from selfselect.results.overfitting import hardly_distinct, too_many
from selfselect.results.rejections import rejections
from selfselect.results.restrictions import exclusions, say_first_stages
from selfselect.results.tables import DIFFERENCE
from selfselect.solvers.base import Status, is_fragile, same_optimum, starts_at_best
from selfselect.threads import one_blas_thread

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


# The summary of a fit: what was assumed, what was found, and what to doubt first.


def summary(
    fit: FitResult, level: float = 0.95, *, intervals: Intervals = "wald", stars: bool = False
) -> Page:
    """Return the summary of the fit, which prints as text and is shown as HTML in notebooks.

    Parameters
    ----------
    level : of the intervals.
    intervals : ``"wald"`` or ``"profile"``, see `conf_int`.
    stars : whether estimates carry stars for p-values below 0.05, 0.01 and 0.001.
    """
    compose = _selection_page if fit.problem.noise.selected else _page
    with one_blas_thread():
        return compose(fit, level, intervals, stars)


def _page(fit: FitResult, level: float, intervals: Intervals, stars: bool) -> Page:
    return Page(
        title=f"Linear regression under self-selection, {fit.problem.index} index",
        notices=_notices(fit),
        facts=(*_facts(fit), *profile_facts(intervals)),
        blocks=_blocks(fit, level, intervals, stars),
        notes=(*_notes(fit), *profile_notes(fit, level, intervals), *notes_on_stars(stars)),
    )


def compare_page(fit: FitResult) -> Page:
    """Compose the page that puts naive and corrected estimates side by side."""
    labels = fit.problem.equations.alternatives
    titles = {label: _alternative_title(fit, j) for j, label in enumerate(labels)}
    return Page(
        title="Naive least squares and corrected estimates",
        notices=_notices(fit),
        facts=(("Outcome", fit.problem.equations.outcome), ("Rows", str(fit.nobs))),
        blocks=comparison_blocks(fit.compare().table, titles),
        notes=_comparison_notes(fit),
    )


def comparison_blocks(table: pd.DataFrame, titles: Mapping[Any, str]) -> tuple[Block, ...]:
    """Cut a table of naive and corrected estimates into blocks, one per alternative."""
    headings = {"roy": "Roy", DIFFERENCE: "difference*"}
    header = ("", *(headings.get(str(c), str(c)) for c in table.columns))
    header = tuple("std err" if name.endswith("_se") else name for name in header)
    blocks = []
    for label, title in titles.items():
        rows = tuple(
            (str(term), *(format_number(float(number)) for number in numbers))
            for (alternative, term), numbers in zip(table.index, table.to_numpy(), strict=True)
            if alternative == label
        )
        blocks.append(Block(title, header, rows))
    return tuple(blocks)


def _comparison_notes(fit: FitResult) -> tuple[str, ...]:
    notes = ["* difference under the model: it is selection bias if the assumptions hold."]
    if fit.problem.index == "unknown":
        notes.append(
            "Choices were not recorded, so least squares uses all rows and is the same for every "
            "alternative."
        )
    return tuple(notes)


def _alternative_title(fit: FitResult, j: int) -> str:
    label = fit.problem.equations.alternatives[j]
    rows = "rows" if fit.facts.case is None else "cases"
    if fit.problem.index == "known":
        return f"{label} (chosen in {fit.facts.counts[j]} {rows})"
    return f"{label} (expected share of {rows} {100 * fit.shares.iloc[j]:.1f}%)"


def _notices(fit: FitResult) -> tuple[str, ...]:
    """Say before anything else what a reader must not miss."""
    notices = []
    if not fit.converged:
        notices.append(f"NOT CONVERGED. {fit.status} Do not use these numbers.")
    notices += rejections(fit)
    notices += too_many(fit)
    notices += hardly_distinct(fit)
    mean_weight = fit.facts.weight_total / fit.facts.n_rows
    n_starts = len(fit.solution.starts)
    reached = starts_at_best(fit.solution.starts, mean_weight)
    if fit.converged and is_fragile(reached, n_starts):
        notices.append(
            f"FRAGILE OPTIMUM: only {reached} of {n_starts} starts reached it, so a search with "
            "another seed may end elsewhere, and there may be a better one: try more starts, and "
            "compare result.starts."
        )
    if not np.isfinite(fit.covariance.matrix).all():
        why = "the information matrix is singular, so some parameters are not determined by this "
        why += "data."
        if fit.solution.status is Status.AT_BOUNDARY:
            why = "the estimate is at a boundary of what is possible."
        elif not np.isfinite(fit.solution.information).all():
            why = (
                f"{fit.solution.solver_name} does not maximise the likelihood, so its estimates "
                "have no information matrix. Use covariance='bootstrap'."
            )
        notices.append(f"NO STANDARD ERRORS: {why}")
    return tuple(notices)


def _loglik(fit: FitResult) -> str:
    error = fit.solution.loglik_error
    return f"{fit.llf:.4f}" if error == 0 else f"{fit.llf:.2f} (Monte-Carlo error {error:.2g})"


def _facts(fit: FitResult) -> tuple[tuple[str, str], ...]:
    facts = fit.facts
    formulas = dict.fromkeys(facts.formulas)
    entries = [("Formula", "; ".join(formulas))] if len(formulas) == 1 else []
    entries += [
        ("Rule", fit.problem.rule.name + _net_of_costs(fit)),
        ("Noise", fit.problem.noise.name),
        ("Solver", f"{fit.solution.solver_name}: {fit.status}"),
        ("Rows", str(facts.n_rows))
        if facts.case is None
        else ("Cases", f"{facts.n_rows} ({facts.n_long_rows} rows)"),
        *([("People", f"{facts.n_groups} ({facts.panel})")] if facts.panel else []),
        ("Log-likelihood", _loglik(fit)),
        ("Parameters", str(fit.n_parameters)),
        ("AIC", f"{fit.aic:.3f}"),
        ("Std errors", errors_in_words(fit.covariance)),
        ("BIC" if facts.panel is None else "BIC, by people", f"{fit.bic:.3f}"),
    ]
    if fit.problem.equations.shared:
        entries.append(("Shared", _listed([one.term for one in fit.problem.equations.shared])))
        if facts.counts:
            counts = zip(fit.problem.equations.alternatives, facts.counts, strict=True)
            entries.append(("Chosen", ", ".join(f"{label} {count}" for label, count in counts)))
    entries += _shapes(fit)
    if facts.weights:
        kind = f"{facts.weights_kind}, " if facts.weights_kind else ""
        entries.append(("Weights", f"{facts.weights} ({kind}sum {facts.weight_total:g})"))
    if facts.weights_kind == "probability":
        entries.append(("Effective rows", f"{facts.n_effective:.1f}"))
    return tuple(entries)


def _shapes(fit: FitResult) -> list[tuple[str, str]]:
    """Describe shapes of the noise that have parameters."""
    family, layout = fit.problem.noise.family, fit.problem.layout
    extras = layout.extras_of(fit.values)[: layout.n_noise_extras]
    if family is None or not len(extras):
        return []
    size = len(family.terms)
    said = [family.describe(extras[at : at + size]) for at in range(0, len(extras), size)]
    labels = fit.problem.equations.alternatives
    owners = [f" of {label}" for label in labels] if fit.problem.noise.each else [""]
    return [(f"Components{owner}", one) for owner, one in zip(owners, said, strict=True) if one]


def _net_of_costs(fit: FitResult) -> str:
    """Say of which alternatives costs are estimated, where there are such."""
    labels = [str(cost.alternative) for cost in fit.problem.equations.costs]
    return f", net of estimated costs of {_listed(labels)}" if labels else ""


def _blocks(fit: FitResult, level: float, intervals: Intervals, stars: bool) -> tuple[Block, ...]:
    table = fit.tidy(level, intervals=intervals)
    header = table_header(fit.covariance, level)
    alternatives = fit.problem.equations.alternatives
    entries, blocks = list(table.itertuples(index=False)), []
    for j, label in enumerate(alternatives):
        title = _alternative_title(fit, j)
        if len(set(fit.facts.formulas)) > 1:
            title += f": {fit.facts.formulas[j]}"
        own = [entry for entry in entries if entry.alternative == label]
        if not own:
            continue  # All it has is shared: the last block says it.
        rows = in_order(fit, j, coefficient_rows(with_deviations(fit, own), stars=stars))
        fixed = fit.problem.layout.scales
        if fixed is not None:
            rows = (*rows, (SCALE, format_number(float(fixed[j])), "(fixed)", "", "", "", ""))
            if fit.problem.noise.margin.deviation != 1.0:
                spread = fixed[j] * fit.problem.noise.margin.deviation
                rows = (*rows, (DEVIATION, format_number(spread), "(fixed)", "", "", "", ""))
        blocks.append(Block(title, header, rows))
    return (*blocks, *shared_block(fit, table, header, stars=stars))


def _notes(fit: FitResult) -> tuple[str, ...]:
    facts = fit.facts
    notes = [*notes_on_tests(fit), _identification(fit)]
    notes += _notes_on_people(fit)
    if facts.n_silent:
        notes.append(
            f"{facts.n_silent} rows have no recorded outcome; they contribute what is known about "
            "it: "
            + ("its limits." if not fit.facts.counts else "the choice, and limits where given.")
        )
    if facts.n_undecided:
        notes.append(
            f"In {facts.n_undecided} rows the chosen alternative was not recorded: the likelihood "
            "sums over all possible ones."
        )
    if facts.n_dropped:
        notes.append(f"{facts.n_dropped} rows with a missing covariate were left out.")
    if facts.n_without_outcome:
        notes.append(
            f"{facts.n_without_outcome} rows without a recorded outcome were left out on request: "
            "that selects on the outcome unless they are missing at random."
        )
    if facts.weights_kind == "probability":
        notes.append(PSEUDO_LIKELIHOOD)
    notes += notes_on_errors(fit.covariance)
    notes += [finding.sentence for finding in fit.diagnose().weak]
    return tuple(notes)


def _notes_on_people(fit: FitResult) -> list[str]:
    """Say what a panel adds, and what types cannot say without one."""
    facts, noise, notes = fit.facts, fit.problem.noise, []
    alone = facts.panel is None or facts.n_groups == facts.n_rows
    if facts.panel is not None and alone:
        notes.append("Every person has one row, so the panel adds no information.")
    elif facts.panel is not None and not noise.grouped:
        notes.append(
            f"The noise of a person's rows is assumed independent; {facts.panel} affects only the "
            "standard errors. noises.Types() and noises.SharedShock() model noise that a "
            "person's rows share."
        )
    if noise.mixed and alone:
        notes.append("With one row each, only the assumed shape of the noise identifies the types.")
    if noise.mixed:
        notes.append(
            "Types approximate a distribution; their number is not the number of kinds of people."
        )
    return notes


def _identification(fit: FitResult) -> str:
    own, specific = fit.problem.equations.specific_terms(), []
    if own:
        specific = [f"{_listed(own)} of each alternative from all others"]
    excluded = {
        label: names
        for label, names in fit.problem.equations.exclusions(besides=own).items()
        if names
    }
    if not excluded and not specific:
        return "Identified by functional form: no covariate is excluded from any equation."
    return (
        "Excluded covariates: "
        + "; ".join(
            [*specific, *(f"{label} without {_listed(names)}" for label, names in excluded.items())]
        )
        + "."
    )


def _listed(names: Sequence[str], most: int = 6) -> str:
    shown = ", ".join(names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


# The summary of a fit with a selection equation.


TITLES = {
    "sample selection": "Sample selection (tobit-2)",
    "switching": "Endogenous switching (tobit-5)",
    "binary": "Probit with sample selection",
    "treatment": "Endogenous treatment: one noise for all alternatives",
    "ordered": "Endogenous switching among ordered alternatives",
}
METHODS = {"ml": "maximum likelihood", "two-step": "two steps"}


def _selection_page(fit: FitResult, level: float, intervals: Intervals, stars: bool) -> Page:
    model = "ordered" if fit.problem.ordered_rule.has_cuts else fit.model
    if fit.problem.noise.scale == "common":
        model = "treatment"
    if fit.problem.noise.sign_only:
        model = "binary"
    return Page(
        title=f"{TITLES[model]}, {METHODS[fit.method]}",
        notices=_selection_notices(fit),
        facts=(*_selection_facts(fit), *profile_facts(intervals)),
        blocks=_selection_blocks(fit, level, intervals, stars),
        notes=(
            *_selection_notes(fit),
            *profile_notes(fit, level, intervals),
            *notes_on_stars(stars),
        ),
    )


def _selection_notices(fit: FitResult) -> tuple[str, ...]:
    notices = []
    if not fit.converged:
        notices.append(f"NOT CONVERGED. {fit.status} Do not use these numbers.")
    notices += rejections(fit)
    for label in fit.boundary:
        notices.append(
            f"AT THE BOUNDARY: the correlation of {label} with the selection is "
            f"{fit.correlations[label]:+.3f}, practically "
            f"{np.sign(fit.correlations[label]):+.0f}: each noise determines the other. It has no "
            "standard error, and the other standard errors treat it as known; at +1 or -1 itself "
            "the log-likelihood is that of the limit. Noise that is not normal, such as that of "
            "a skewed outcome, may look like this."
        )
    for label, correlation in fit.correlations.items():
        if abs(correlation) > 1:
            notices.append(
                f"IMPOSSIBLE CORRELATION: the two steps imply {correlation:+.3f} for {label}, "
                "beyond one. Two-step estimates do not respect this bound; method='ml' does."
            )
    notices += _several_optima(fit)
    if not np.isfinite(fit.covariance.matrix).all():
        notices.append(
            "NO STANDARD ERRORS: the information matrix is singular, so some parameters are not "
            "determined by this data."
        )
    return tuple(notices)


def _several_optima(fit: FitResult) -> list[str]:
    mean_weight = fit.facts.weight_total / fit.facts.n_rows
    others = {
        one.name: one.loglik
        for one in fit.solution.starts
        if one.fault is None and not same_optimum(one.behind, mean_weight)
    }
    if not others:
        return []
    highest = max(others.values())
    shown = f"SEVERAL OPTIMA: the other optima have log-likelihoods of {highest:.3f} and less."
    if "two-step" in others:
        shown += (
            " The one above the two-step estimate, from which other programs start, has "
            f"{others['two-step']:.3f}; start='two-step' reports it. If they differ by much, the "
            "noise may not be normal."
        )
    return [shown]


def _selection_facts(fit: FitResult) -> tuple[tuple[str, str], ...]:
    facts = fit.facts
    own = list(dict.fromkeys(facts.formulas))
    entries = [("Formula", own[0])]
    if len(own) > 1:
        labels = fit.problem.equations.alternatives
        entries = [(str(label), text) for label, text in zip(labels, facts.formulas, strict=True)]
    entries += [
        ("Selection", str(facts.selection)),
        ("Method", f"{METHODS[fit.method]}: {fit.status}"),
        ("Rows", str(facts.n_rows)),
        ("Std errors", errors_in_words(fit.covariance)),
    ]
    if fit.method == "ml":
        entries += [
            ("Log-likelihood", f"{fit.llf:.4f}"),
            ("Parameters", str(fit.n_parameters)),
            ("AIC", f"{fit.aic:.3f}"),
            ("BIC", f"{fit.bic:.3f}"),
        ]
    if facts.weights:
        kind = f"{facts.weights_kind}, " if facts.weights_kind else ""
        entries.append(("Weights", f"{facts.weights} ({kind}sum {facts.weight_total:g})"))
    if facts.weights_kind == "probability":
        entries.append(("Effective rows", f"{facts.n_effective:.1f}"))
    return tuple(entries)


def _selection_blocks(
    fit: FitResult, level: float, intervals: Intervals, stars: bool
) -> tuple[Block, ...]:
    table = fit.tidy(level, intervals=intervals)
    header = table_header(fit.covariance, level)

    def rows(label: object) -> tuple[tuple[str, ...], ...]:
        own = table[[one == label for one in table["alternative"]]]
        return coefficient_rows(own.itertuples(index=False), stars=stars)

    labels, counts = fit.problem.equations.alternatives, fit.facts.shown
    blocks = [
        Block(f"{label} (observed in {count} rows)", header, in_order(fit, j, rows(label)))
        for j, (label, count) in enumerate(zip(labels, counts, strict=True))
    ]
    towards = "" if fit.model != "switching" else fit.problem.ordered_rule.pointing
    last = Block(f"{SELECTION}{towards}", header, rows(SELECTION))
    return (*blocks, *shared_block(fit, table, header, stars=stars), last)


def _selection_notes(fit: FitResult) -> tuple[str, ...]:
    facts = fit.facts
    notes = [*notes_on_tests(fit), *say_first_stages(fit), *_exclusions(fit)]
    if fit.method == "ml" and len(fit.solution.starts) == 1:
        begun = fit.solution.starts[0].name
        where = "the two-step estimate" if begun == "two-step" else begun
        notes.append(
            f"Climbed from {where} alone, without a search for a better optimum. start='search' "
            "does this search."
        )
    for label, correlation in fit.correlations.items():
        if label not in fit.boundary and NEARLY_ONE <= abs(correlation) <= 1:
            one = f"{np.sign(correlation):+.0f}"
            notes.append(
                f"The correlation of {label} with the selection is nearly {one}. Noise that is not "
                "normal, such as that of a skewed outcome, may look like this."
            )
    if fit.covariance.missing and fit.method == "two-step":
        notes.append("Two steps give no standard errors of scales and correlations.")
    if facts.n_dropped:
        notes.append(f"{facts.n_dropped} rows with a missing covariate were left out.")
    if facts.n_without_outcome:
        notes.append(
            f"{facts.n_without_outcome} rows without a recorded outcome or choice were left out on "
            "request: that selects on the outcome unless they are missing at random."
        )
    if facts.two_values and not fit.problem.noise.sign_only:
        instead = (
            " sample_selection(..., binary=True) is a probit."
            if facts.outcome_range == (0, 1)
            else ""
        )
        notes.append(
            f"{note_on_two_values(fit.problem.equations.outcome, facts)}, with normal noise that "
            f"it cannot have.{instead}"
        )
    if facts.n_between:
        notes.append(
            f"{facts.n_between} outcomes are known only to lie between limits, or beyond one; "
            "each contributes the probability of its interval."
        )
    if facts.n_selected_silent:
        notes.append(
            f"{facts.n_selected_silent} rows were selected and have no recorded outcome; they "
            "count for the selection alone, as if the outcome were missing at random."
        )
    if facts.weights_kind == "probability" and fit.method == "ml":
        notes.append(PSEUDO_LIKELIHOOD)
    notes += notes_on_errors(fit.covariance, measured=False)
    notes += [finding.sentence for finding in fit.diagnose().weak]
    return tuple(notes)


def _exclusions(fit: FitResult) -> list[str]:
    """Say which covariates move the selection and not the outcome, and how strongly."""
    found = exclusions(fit)
    sentences = list(dict.fromkeys(one.sentence for one in found))
    if any(one.weak and one.test is not None for one in found):
        instead = 'Use result.conf_int(method="profile")'
        if fit.method == "two-step":
            instead = "method='ml' has profile intervals, which cover better"
        sentences.append(
            "Where the excluded covariates are weak, intervals from standard errors are too short "
            f"in samples of some hundred rows. {instead}."
        )
    return sentences
