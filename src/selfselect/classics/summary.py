"""The summary of a fit with a selection equation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from selfselect.classics.design import SELECTION
from selfselect.classics.maximum_likelihood import NEARLY_ONE
from selfselect.report.page import Block, Page
from selfselect.report.summary import (
    PSEUDO_LIKELIHOOD,
    coefficient_rows,
    errors_in_words,
    notes_on_errors,
    profile_facts,
    profile_notes,
    table_header,
)
from selfselect.results.profiles import look_at_curvature
from selfselect.solvers.base import same_optimum

if TYPE_CHECKING:
    from selfselect.classics.result import SelectionResult

__all__ = ["summarise"]

TITLES = {
    "sample selection": "Sample selection (tobit-2)",
    "switching": "Endogenous switching (tobit-5)",
}
METHODS = {"ml": "maximum likelihood", "two-step": "two steps"}
WEAK = 0.1
"""Share of the Mills ratio's spread below which it is all but a combination of covariates."""


def summarise(fit: SelectionResult, level: float = 0.95, intervals: str = "wald") -> Page:
    """Compose the summary page."""
    return Page(
        title=f"{TITLES[fit.model]}, {METHODS[fit.method]}",
        notices=_notices(fit),
        facts=(*_facts(fit), *profile_facts(intervals)),
        blocks=_blocks(fit, level, intervals),
        notes=(*_notes(fit), *profile_notes(fit, level, intervals)),
    )


def _notices(fit: SelectionResult) -> tuple[str, ...]:
    notices = []
    if not fit.converged:
        notices.append(f"NOT CONVERGED. {fit.status} Do not use these numbers.")
    for label in fit.boundary:
        notices.append(
            f"AT THE BOUNDARY: the correlation of {label} with the selection is "
            f"{fit.correlations[label]:+.3f}, as good as {np.sign(fit.correlations[label]):+.0f}: "
            "each noise determines the other. It has no standard error, and the others take it as "
            "given. Noise that is not normal, such as that of a skewed outcome, may look like this."
        )
    for label, correlation in fit.correlations.items():
        if abs(correlation) > 1:
            notices.append(
                f"IMPOSSIBLE CORRELATION: the two steps imply {correlation:+.3f} for {label}, "
                "beyond one. They do not know that bound; method='ml' does."
            )
    reached = {name: loglik for name, loglik, converged, _ in fit.starts_reached if converged}
    mean_weight = fit.facts.weight_total / fit.facts.n_rows

    def is_another(loglik: float) -> bool:
        return not same_optimum(loglik - fit.llf, mean_weight)

    others = [loglik for loglik in reached.values() if is_another(loglik)]
    if others:
        shown = f"SEVERAL OPTIMA: others have log-likelihoods of {max(others):.3f} and less."
        if is_another(reached.get("two-step", fit.llf)):
            shown += (
                f" The one above the two-step estimate, from which other programs start, has "
                f"{reached['two-step']:.3f}; start='two-step' reports it. Where they differ by "
                "much, doubt that noise is normal."
            )
        notices.append(shown)
    if not np.isfinite(fit.bse.xs(SELECTION, level="alternative")).all():
        notices.append(
            "NO STANDARD ERRORS: the information matrix is singular, so some parameters are not "
            "determined by this data."
        )
    return tuple(notices)


def _facts(fit: SelectionResult) -> tuple[tuple[str, str], ...]:
    facts = fit.facts
    own = dict.fromkeys(equation.side.text for equation in fit.design.equations)
    entries = [("Formula", next(iter(own)))] if len(own) == 1 else []
    if len(own) > 1:
        entries += [(f"{equation.label}", equation.side.text) for equation in fit.design.equations]
    entries += [
        ("Selection", fit.design.selection.text),
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


def _blocks(fit: SelectionResult, level: float, intervals: str) -> tuple[Block, ...]:
    table = fit.tidy(level, intervals=intervals)
    header = table_header(fit.covariance, level)

    def block(label: object, title: str) -> Block:
        own = table[[one == label for one in table["alternative"]]]
        return Block(title, header, coefficient_rows(own.itertuples(index=False)))

    blocks = []
    for equation, count in zip(fit.design.equations, fit.facts.counts, strict=True):
        blocks.append(block(equation.label, f"{equation.label} (observed in {count} rows)"))
    towards = "" if fit.model != "switching" else f" towards {fit.facts.towards}"
    blocks.append(block(SELECTION, f"{SELECTION}{towards}"))
    return tuple(blocks)


def _notes(fit: SelectionResult) -> tuple[str, ...]:
    facts = fit.facts
    notes = [f"{fit.independence_test()}.".replace("..", "."), _exclusions(fit)]
    for equation, share in zip(fit.design.equations, fit.unexplained, strict=True):
        if share < WEAK:
            notes.append(
                f"The covariates of {equation.label} explain all but {100 * share:.1f}% of the "
                "Mills ratio's size: little tells selection from them. Expect wide intervals."
            )
    if fit.method == "ml" and len(fit.starts_reached) == 1:
        notes.append(
            "Climbed from the two-step estimate alone: no better optimum was looked for. "
            "start='search' looks for one."
        )
    for label, correlation in fit.correlations.items():
        if label not in fit.boundary and NEARLY_ONE <= abs(correlation) <= 1:
            one = f"{np.sign(correlation):+.0f}"
            notes.append(
                f"The correlation of {label} with the selection is nearly {one}. Noise that is not "
                "normal, such as that of a skewed outcome, may look like this."
            )
    if fit.method == "two-step":
        notes.append("Two steps give no standard errors of scales and correlations.")
    if facts.n_dropped:
        notes.append(f"{facts.n_dropped} rows with a missing covariate were left out.")
    if facts.n_without_outcome:
        notes.append(
            f"{facts.n_without_outcome} rows without a recorded outcome or choice were left out on "
            "request: that selects on the outcome unless they are missing at random."
        )
    if facts.weights_kind == "probability" and fit.method == "ml":
        notes.append(PSEUDO_LIKELIHOOD)
    notes += notes_on_errors(fit.covariance, measured=False)
    notes += [finding.sentence for finding in look_at_curvature(fit) if finding.verdict == "weak"]
    return tuple(notes)


def _exclusions(fit: SelectionResult) -> str:
    """Say which covariates move the selection and not the outcome."""
    sentences = []
    for equation in fit.design.equations:
        own = set(equation.side.covariates)
        excluded = [name for name in fit.design.selection.covariates if name not in own]
        if not excluded:
            sentences.append(
                f"{equation.label} is identified by functional form: no covariate of the selection "
                "is excluded from its equation"
            )
        else:
            sentences.append(f"Excluded from {equation.label}: {', '.join(excluded)}")
    return "; ".join(sentences) + "."
