"""The question a fit answers, in words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from selfselect.results.rejections import tests_in_words
from selfselect.rules import picks

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = [
    "MOST_COMPARED",
    "headline",
    "listed",
    "nothing_to_warn_of",
    "notices",
    "pairs_compared",
    "question",
    "selected",
]

MOST_NAMED = 8

MOST_COMPARED = 4
"""Alternatives, those chosen most often, of which all pairs are compared."""


def headline(fit: FitResult) -> str:
    """Return the title of the report."""
    equations = fit.problem.equations
    kind = "self-selection" if fit.problem.equations.selection is None else fit.model
    return f"{equations.outcome} under {kind}: {listed(equations.alternatives)}"


def question(fit: FitResult) -> tuple[str, ...]:
    """Say what was asked, what was recorded, and what would be biased without the rule."""
    equations, facts = fit.problem.equations, fit.facts
    if equations.selection is not None:
        return _question_of_selection(fit)
    outcome, k = equations.outcome, equations.n_alternatives
    rows = "rows" if facts.case is None else "cases"
    return (
        f"Each of {facts.n_rows} {rows} has a value of {outcome} for each of {k} alternatives: "
        f"{listed(equations.alternatives)}. At most one of the {k} was recorded: "
        f"{selected(fit)}. {_recorded(fit)}",
        f"How does {outcome} depend on {listed(_covariates(fit)) or 'a constant alone'} in each "
        "alternative, for everyone and not only for those who chose it? Least squares on what was "
        "recorded answers another question: those who chose an alternative are not like the "
        f"others, because {'outcomes and costs' if _costs(fit) else 'the outcomes themselves'} "
        "decided the choice.",
        f"The model: {fit.problem.rule.name}{_estimated_costs(fit)}; noise is "
        f"{fit.problem.noise.name}. The answers hold as far as these assumptions do.",
    )


def _question_of_selection(fit: FitResult) -> tuple[str, ...]:
    """Say the same where a selection equation selects."""
    equations, facts = fit.problem.equations, fit.facts
    outcome = equations.outcome
    if equations.n_alternatives == 1:
        observed = f"only in the {facts.counts[0]} rows that were selected"
        whom = "for everyone and not only for the selected"
    else:
        observed = (
            f"for one of {equations.n_alternatives} alternatives, {listed(equations.alternatives)}"
        )
        whom = "in each alternative, for everyone and not only for those found in it"
    return (
        f"In {facts.n_rows} rows {outcome} was observed {observed}. Selection follows an equation "
        f"of its own: {facts.selection}.",
        f"How does {outcome} depend on {listed(_covariates(fit)) or 'a constant alone'}, {whom}? "
        "Least squares on what was observed answers another question: where the noise of the "
        "outcome is correlated with that of the selection, those observed are not like the others.",
        f"The model: {fit.problem.rule.name}; noise is {fit.problem.noise.name}. The answers hold "
        "as far as these assumptions do.",
    )


def notices(fit: FitResult, level: float) -> tuple[str, ...]:
    """Return what a reader must know before anything else."""
    weak = tuple(finding.sentence for finding in fit.diagnose().weak)
    return (*fit.summary(level).notices, *weak)


def nothing_to_warn_of(fit: FitResult) -> str:
    """Say what was looked at where nothing is wrong, and what was not."""
    return (
        "No warning was raised: the solver converged, and nothing looked weakly determined. "
        f"{tests_in_words(fit)} That does not prove the model right."
    )


def pairs_compared(labels: Sequence[Any], shares: Sequence[float]) -> tuple[tuple[Any, Any], ...]:
    """Return pairs of alternatives as answer, tables and pictures compare them.

    In a pair the alternative that is later in the order of the fit stands first, and is compared
    with the earlier one; pairs of those chosen most often stand before the others.
    """
    places = sorted(range(len(labels)), key=lambda j: -float(shares[j]))[:MOST_COMPARED]
    return tuple((labels[max(pair)], labels[min(pair)]) for pair in combinations(places, 2))


def selected(fit: FitResult) -> str:
    """Say which of the outcomes is selected."""
    which = picks(fit.problem.ordered_rule)
    return which + (f", {_costs(fit)}" if _costs(fit) else "")


def _costs(fit: FitResult) -> str:
    """Say what kind of costs count for the choice; empty where none do."""
    kinds = []
    if getattr(fit.problem.rule, "cost", None):
        kinds.append("known")
    if fit.problem.equations.costs:
        kinds.append("estimated")
    return f"counting {' and '.join(kinds)} costs" if kinds else ""


def _estimated_costs(fit: FitResult) -> str:
    labels = [cost.alternative for cost in fit.problem.equations.costs]
    return f", counting estimated costs of {listed(labels)}" if labels else ""


def _recorded(fit: FitResult) -> str:
    """Say where it was recorded which alternative was chosen, and where the outcome was not."""
    facts = fit.facts
    if fit.problem.index == "unknown":
        said = "Which one it is was not recorded."
    elif facts.chosen:
        said = f"The column {facts.chosen} says which one it is"
        said += f", but in {facts.n_undecided} rows." if facts.n_undecided else "."
    else:
        said = "It is known which one it is."
    if facts.n_silent:
        said += f" In {facts.n_silent} rows no outcome was recorded."
    return said


def _covariates(fit: FitResult) -> list[str]:
    """Return the covariates of outcomes; those of costs alone are none of them."""
    equations = fit.problem.equations
    used = sorted({column for one in equations.each for column in one.columns if column})
    return [str(equations.covariates[column - 1]) for column in used]


def listed(names: Sequence[object]) -> str:
    """Write names as words do, the first few where there are many."""
    shown = [str(name) for name in names[:MOST_NAMED]]
    if len(names) > MOST_NAMED:
        return ", ".join(shown) + f" and {len(names) - MOST_NAMED} more"
    return (
        shown[0]
        if len(shown) == 1
        else ", ".join(shown[:-1]) + " and " + shown[-1]
        if shown
        else ""
    )
