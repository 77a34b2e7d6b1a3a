"""The summary of a fit with a selection equation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from selfselect.data.equations import SELECTION
from selfselect.noises.selection import NEARLY_ONE
from selfselect.options import Intervals
from selfselect.report.coefficient_tables import (
    coefficient_rows,
    in_order,
    shared_block,
    table_header,
)
from selfselect.report.notes import (
    PSEUDO_LIKELIHOOD,
    errors_in_words,
    note_on_two_values,
    notes_on_errors,
    notes_on_stars,
    notes_on_tests,
    profile_facts,
    profile_notes,
)
from selfselect.report.page import Block, Page
from selfselect.results.endogeneity import say_first_stages
from selfselect.results.exclusions import exclusions
from selfselect.results.rejections import rejections
from selfselect.solvers.base import same_optimum

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["summarise_selection"]

TITLES = {
    "sample selection": "Sample selection (tobit-2)",
    "switching": "Endogenous switching (tobit-5)",
    "binary": "Probit with sample selection",
    "treatment": "Endogenous treatment: one noise for all alternatives",
    "ordered": "Endogenous switching among ordered alternatives",
}
METHODS = {"ml": "maximum likelihood", "two-step": "two steps"}


def summarise_selection(
    fit: FitResult, level: float = 0.95, intervals: Intervals = "wald", *, stars: bool = False
) -> Page:
    """Compose the summary page."""
    model = "ordered" if fit.problem.ordered_rule.has_cuts else fit.model
    if fit.problem.noise.scale == "common":
        model = "treatment"
    if fit.problem.noise.sign_only:
        model = "binary"
    return Page(
        title=f"{TITLES[model]}, {METHODS[fit.method]}",
        notices=_notices(fit),
        facts=(*_facts(fit), *profile_facts(intervals)),
        blocks=_blocks(fit, level, intervals, stars),
        notes=(*_notes(fit), *profile_notes(fit, level, intervals), *notes_on_stars(stars)),
    )


def _notices(fit: FitResult) -> tuple[str, ...]:
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


def _facts(fit: FitResult) -> tuple[tuple[str, str], ...]:
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


def _blocks(fit: FitResult, level: float, intervals: Intervals, stars: bool) -> tuple[Block, ...]:
    table = fit.tidy(level, intervals=intervals)
    header = table_header(fit.covariance, level)

    def rows(label: object) -> tuple[tuple[str, ...], ...]:
        own = table[[one == label for one in table["alternative"]]]
        return coefficient_rows(own.itertuples(index=False), stars=stars)

    labels, counts = fit.problem.equations.alternatives, fit.facts.counts
    blocks = [
        Block(f"{label} (observed in {count} rows)", header, in_order(fit, j, rows(label)))
        for j, (label, count) in enumerate(zip(labels, counts, strict=True))
    ]
    towards = "" if fit.model != "switching" else fit.problem.ordered_rule.pointing
    last = Block(f"{SELECTION}{towards}", header, rows(SELECTION))
    return (*blocks, *shared_block(fit, table, header, stars=stars), last)


def _notes(fit: FitResult) -> tuple[str, ...]:
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
